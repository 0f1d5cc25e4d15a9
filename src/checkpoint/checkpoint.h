/* Checkpoints. Files are read before the workers run; they are written by the leader between two
 * steps, while the others wait.
 *
 * A run always has one: step 0 is written before the first step, and the last step always writes
 * one. A write is a temporary file, fsync, rename, fsync of the folder. If a write fails during the
 * run, it is reported as an event and training continues; at the last step or on a stop it is an
 * error, and the previous file stays. checkpoint.c documents the contents of a file. resume
 * compares the file's choices (saved_choices.h) with its own and warns where they differ. Only eval
 * and init_from read files without a checksum. */
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
struct sw_init_from;
struct sw_topology;
struct sw_worker;

/* The recipe stage that a job runs. */
struct sw_checkpoint_stage {
    int index; /* -1: the recipe has no stages */
    const char *name;
    int64_t from; /* the step after which it begins */
    bool begins;  /* it starts from the last checkpoint of the previous stage */
    bool over;    /* it is complete */
};

/* The parts of a job that checkpoints are written from and read into. All borrowed. */
struct sw_checkpoint_job {
    const char *name;
    struct sw_recipe *recipe;
    const struct sw_job_conf *conf;
    const struct sw_topology *topology;
    struct sw_worker *workers; /* the first one leads; each has the table of its server group */
    struct sw_job_state *state;
    struct sw_source *const *source; /* [SW_SPLITS] */
    struct sw_sync *sync;            /* synchronization of several server groups; NULL: one group */
    struct sw_carried_over *carried_over;
    struct sw_init_from *takes;
    struct sw_retention *retention;
    struct sw_events *events;
    const char *choices; /* JSON (saved_choices.h) */
    const char *resumed; /* the checkpoint that the job resumes from, or NULL */
    struct sw_checkpoint_stage stage;
    bool unrecorded;          /* the file is this host's own, and not in the history */
    int64_t first_step;       /* step where the job begins; */
    int64_t steps, run_steps; /* steps where the job and the run end */
    /* Sets the position of a server group: steps, applied updates and dropped updates. */
    void (*put_step)(void *user, int server_group, int64_t step, uint64_t updates,
                     uint64_t dropped);
    /* The path of a file of init_from on this host; NULL: as in the recipe. */
    const char *(*find_file)(void *user, const char *path);
    void *user;
};

/* Writes OUT/checkpoint-STEP.safetensors and records it. Between steps only. */
int sw_checkpoint_write(const struct sw_checkpoint_job *job, struct sw_err *err) SW_MUST_CHECK;
/* Removes temporary files that killed writes left in a run's folder. */
void sw_checkpoint_sweep(const char *dir);
/* Checks the file and that it fits the job's parameters; *step gets its step. */
int sw_checkpoint_check(const struct sw_checkpoint_job *job, const char *path, int64_t *step,
                        struct sw_err *err) SW_MUST_CHECK;
/* Restores parameters, updater state and buffers from the file; the step counter stays. Between
 * steps, by the leader, while the others wait. */
int sw_checkpoint_roll_back(const struct sw_checkpoint_job *job, const char *path,
                            struct sw_err *err) SW_MUST_CHECK;
/* Loads parameters, updater state, buffers and counters. */
int sw_checkpoint_load(const struct sw_checkpoint_job *job, const char *path,
                       struct sw_err *err) SW_MUST_CHECK;
/* Loads all parameters and buffers from any safetensors file; *step gets the step of a checkpoint
 * of this program, else 0. */
int sw_checkpoint_load_weights(const struct sw_checkpoint_job *job, const char *path, int64_t *step,
                               struct sw_err *err) SW_MUST_CHECK;
/* Opens a checkpoint. A file written by this program must have a valid checksum, and not be that of
 * a newer version. */
int sw_checkpoint_open(const char *path, struct sw_st_file **f, struct sw_err *err) SW_MUST_CHECK;
/* Checks that loaded values, on the stream's device, are finite. Errors: SW_ERR_FORMAT naming file
 * and tensor. */
int sw_checkpoint_check_finite(struct sw_stream *stream, const float *value,
                               const struct sw_desc *layout, const char *name, const char *path,
                               struct sw_err *err) SW_MUST_CHECK;
