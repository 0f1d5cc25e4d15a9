/* Which tensor of a file becomes which parameter or buffer of the net: what checking and loading of
 * init_from share. Internal to this folder; the thread rules are those of init_from.h. */
#pragma once

#include "base/str.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/init_from.h"
#include "exchange/table/table_file.h"

enum { SW_INIT_NAME = 256 }; /* bytes of the name of a tensor */

/* Available tensors: those of a file, or of a stage that has not run yet. */
struct sw_init_tensors {
    const struct sw_st_file *f;
    const struct sw_stage_names *names;
    const char *path; /* for messages */
};

/* One tensor to load. */
struct sw_init_take {
    const struct sw_init_tensors *from;
    const struct sw_init_from_rule *rule; /* NULL: by its own name */
    const struct sw_st_entry *entry;
    int target;
    const char *tensor;
};
typedef int sw_init_visit(const struct sw_checkpoint_job *job, const struct sw_init_take *t,
                          void *user, struct sw_err *err);

/* The list of [job], or --init-from in its place (init_from_list.c). Errors: those of
 * sw_init_from_check. */
int sw_init_from_read_list(const struct sw_checkpoint_job *job, const char *option,
                           struct sw_err *err) SW_MUST_CHECK;

/* The table of the first server group. Targets are its parameters (one per shard), then buffers. */
struct sw_table *sw_init_table(const struct sw_checkpoint_job *job);
int sw_init_target_count(const struct sw_checkpoint_job *job);
const char *sw_init_target_name(const struct sw_checkpoint_job *job, int i);
bool sw_init_target_is_buffer(const struct sw_checkpoint_job *job, int i);
/* The layer of a target: "bn1" of bn1.scale and of state.bn1.mean. *param: what follows. */
void sw_init_target_layer(const struct sw_checkpoint_job *job, int target, char layer[SW_INIT_NAME],
                          const char **param);
/* Adds that layer to a list of layers, once. */
void sw_init_add_layer(const struct sw_checkpoint_job *job, int target, struct sw_bytes *out);
/* Whether a pattern of `reset`, or any of them, names the target. */
bool sw_init_is_reset_by(const struct sw_checkpoint_job *job, int target, const char *pattern);
bool sw_init_is_reset(const struct sw_checkpoint_job *job, int target);

/* The tensor that a rule assigns to a target; returns false if none. A pattern that renames layers
 * also renames their buffers. */
bool sw_init_apply(const struct sw_checkpoint_job *job, const struct sw_init_from_rule *r,
                   int target, char tensor[SW_INIT_NAME]);
const struct sw_st_entry *sw_init_find_tensor(const struct sw_init_tensors *from,
                                              const char *name); /* NULL: there is none */
/* Calls the function for each target that gets a tensor of the file, until a call fails. */
int sw_init_for_each(const struct sw_checkpoint_job *job, const struct sw_init_from_file *file,
                     const struct sw_init_tensors *from, sw_init_visit *call, void *user,
                     struct sw_err *err) SW_MUST_CHECK;

const char *sw_init_path(const struct sw_init_from_file *file); /* for messages */
/* Opens a file, or the checkpoint of the previous stage; the caller closes *f. Errors: those of
 * sw_checkpoint_open. */
int sw_init_open(const struct sw_checkpoint_job *job, const struct sw_init_from_file *file,
                 struct sw_init_tensors *from, struct sw_st_file **f,
                 struct sw_err *err) SW_MUST_CHECK;
/* What the table reads the tensor with; stream NULL: only checks it. */
struct sw_table_source sw_init_source(const struct sw_checkpoint_job *job,
                                      const struct sw_init_take *t, struct sw_stream *stream);
