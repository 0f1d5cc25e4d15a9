/* Checkpoints. Files are read before the workers run; they are written by the leader between two
 * steps, while the others wait.
 *
 * There is always one: step 0 is written before the first step, and the last step always writes
 * one. A write is a temporary file, fsync, rename, fsync of the folder. A write that fails in
 * mid-run is an event and training goes on; at the last step or on a stop it is an error, and the
 * file before it stays. What a file holds is in checkpoint.c. resume compares the file's choices
 * (kept_choices.h) with its own and warns where they differ. Files without a checksum are read by
 * eval and init_from only. */
#pragma once

#include "device/device.h"
#include "tensor/safetensors.h"

struct sw_carried_over;
struct sw_events;
struct sw_job_conf;
struct sw_job_state;
struct sw_recipe;
struct sw_retention;
struct sw_source;
struct sw_sync;
struct sw_take_list;
struct sw_topology;
struct sw_worker;

/* The stage of the recipe that a job is. */
struct sw_checkpoint_stage {
    int index; /* -1: the recipe has none */
    const char *name;
    int64_t from; /* the step behind which it begins */
    bool begins;  /* it goes on from the last checkpoint of the stage before */
    bool over;    /* it has come to its end */
};

/* A job, as far as files are written from it and read into it. All borrowed. */
struct sw_checkpoint_job {
    const char *name;
    struct sw_recipe *recipe;
    const struct sw_job_conf *conf;
    const struct sw_topology *topology;
    struct sw_worker *workers; /* the first one leads; each has the table of its server group */
    struct sw_job_state *state;
    struct sw_source *const *source; /* [SW_SPLITS] */
    struct sw_sync *sync;            /* of several server groups; NULL: there is one */
    struct sw_carried_over *carried_over;
    struct sw_take_list *takes;
    struct sw_retention *retention;
    struct sw_events *events;
    const char *choices; /* JSON (kept_choices.h) */
    const char *resumed; /* the checkpoint that the job goes on from, or NULL */
    struct sw_checkpoint_stage stage;
    int64_t first_step;       /* where the job begins, */
    int64_t steps, run_steps; /* where it ends, and where its run does */
    /* A server group is as it is after so many steps, with so many updates behind it. */
    void (*put_step)(void *user, int server_group, int64_t step, uint64_t updates,
                     uint64_t dropped);
    void *user;
};

/* Writes OUT/checkpoint-STEP.safetensors and records it. Between steps only. */
int sw_checkpoint_write(const struct sw_checkpoint_job *job, struct sw_err *err) SW_MUST_CHECK;
/* Removes what killed writes left in a run's folder. */
void sw_checkpoint_sweep(const char *dir);
/* Checks the file and that it fits the job's parameters; *step is where it stands. */
int sw_checkpoint_check(const struct sw_checkpoint_job *job, const char *path, int64_t *step,
                        struct sw_err *err) SW_MUST_CHECK;
/* Values, updater state and running statistics become those of the file; the step stays. Between
 * steps, by the leader, while the others wait. */
int sw_checkpoint_roll_back(const struct sw_checkpoint_job *job, const char *path,
                            struct sw_err *err) SW_MUST_CHECK;
/* Loads values and updater state. */
int sw_checkpoint_load(const struct sw_checkpoint_job *job, const char *path,
                       struct sw_err *err) SW_MUST_CHECK;
/* Loads all parameters and states, whatever wrote the file; *step is where a checkpoint of ours
 * stands, else 0. */
int sw_checkpoint_take(const struct sw_checkpoint_job *job, const char *path, int64_t *step,
                       struct sw_err *err) SW_MUST_CHECK;
/* Opens a file of ours, which must have its checksum, or of others. */
int sw_checkpoint_open(const char *path, struct sw_st_file **f, struct sw_err *err) SW_MUST_CHECK;
/* Values that came out of a file, in their place on the stream's device. Errors: SW_ERR_FORMAT
 * naming file and tensor. */
int sw_checkpoint_check_finite(struct sw_stream *stream, const float *value,
                               const struct sw_desc *layout, const char *name, const char *path,
                               struct sw_err *err) SW_MUST_CHECK;
