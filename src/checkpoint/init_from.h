/* Initial values out of other files: job.init_from, or --init-from. */
#pragma once

#include "tensor/safetensors.h"
#include <stdbool.h>

struct sw_checkpoint_job;

/* Tensors that earlier stages leave, by name and shape. */
struct sw_stage_names {
    struct sw_st_entry *items; /* owned, their names too */
    int count;
};

/* What init_from says. */
struct sw_take_rule {
    char from[256], to[256];
    bool transposed;
    int item; /* of the list */
};

struct sw_take_file {
    char *path;    /* owned */
    bool previous; /* no file: what the stage before has left */
    int item, first_rule, rule_count;
};

struct sw_take_list {
    struct sw_take_file *files; /* owned */
    struct sw_take_rule *rules; /* owned */
    int file_count, rule_count;
};

void sw_stage_names_fini(struct sw_stage_names *n);
/* NULL: there is none of that name. */
const struct sw_st_entry *sw_stage_names_find(const struct sw_stage_names *n, const char *name);

/* Reads the list, or --init-from instead of it, and checks all files and rules. earlier: where it
 * is not the job that begins its stage, what those before leave; NULL: unknown. */
int sw_take_look(const struct sw_checkpoint_job *job, const char *option,
                 const struct sw_stage_names *earlier, struct sw_err *err) SW_MUST_CHECK;
/* Takes the values, and says what was taken and what was not. By the leader. */
int sw_take_values(const struct sw_checkpoint_job *job, struct sw_err *err) SW_MUST_CHECK;
void sw_take_fini(struct sw_take_list *init); /* a zeroed one is accepted */
