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

struct sw_job;
struct sw_worker;

/* Writes OUT/checkpoint-STEP.safetensors and records it. Between steps only. */
int sw_checkpoint_write(struct sw_worker *w, struct sw_err *err) SW_MUST_CHECK;
/* Removes what killed writes left in a run's folder. */
void sw_checkpoint_sweep(const char *dir);
/* Checks the file and that it fits the job's parameters; *step is where it stands. */
int sw_checkpoint_check(struct sw_job *job, const char *path, int64_t *step,
                        struct sw_err *err) SW_MUST_CHECK;
/* Values, updater state and running statistics become those of the file; the step stays. Between
 * steps, by the leader, while the others wait. */
int sw_checkpoint_roll_back(struct sw_worker *w, const char *path,
                            struct sw_err *err) SW_MUST_CHECK;
/* Loads values and updater state. */
int sw_checkpoint_load(struct sw_worker *w, const char *path, struct sw_err *err) SW_MUST_CHECK;
/* Loads all parameters and states, whatever wrote the file; *step is where a checkpoint of ours
 * stands, else 0. */
int sw_checkpoint_take(struct sw_job *job, struct sw_stream *stream, const char *path,
                       int64_t *step, struct sw_err *err) SW_MUST_CHECK;
/* Opens a file of ours, which must have its checksum, or of others. */
int sw_checkpoint_open(const char *path, struct sw_st_file **f, struct sw_err *err) SW_MUST_CHECK;
/* Values that came out of a file, in their place on the stream's device. Errors: SW_ERR_FORMAT
 * naming file and tensor. */
int sw_checkpoint_check_finite(struct sw_stream *stream, const float *value,
                               const struct sw_desc *layout, const char *name, const char *path,
                               struct sw_err *err) SW_MUST_CHECK;
