/* What survives a job: checkpoints (checkpoint.c), what else they have in them (tokens.c, legacy.c,
 * scale.c), which of them stay (retention.h), and what a job begins with: the stage before
 * (stages.c) or other files (init_from.c).
 *
 * Files are read before the workers run; checkpoints are written by the leader between two steps,
 * while the others wait. */
#ifndef SW_TRAIN_SAVED_H
#define SW_TRAIN_SAVED_H

#include "train/job_private.h"

/* checkpoint.c */
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

/* tokens.c: the vocabulary of a model of text, kept in its checkpoints, and asked for where one is
 * read. Errors: SW_ERR_INVALID where a text that is open has another. */
int sw_tokens_write(const struct sw_job *job, struct sw_st_writer *w,
                    struct sw_err *err) SW_MUST_CHECK;
int sw_tokens_check(const struct sw_job *job, const struct sw_st_file *f, const char *path,
                    struct sw_err *err) SW_MUST_CHECK;
/* Have layers that look tokens up as many as the text of the training data? Said in the recipe. */
int sw_tokens_fit(struct sw_job *job, struct sw_err *err) SW_MUST_CHECK;
/* Values that came out of a file, in their place on the stream's device. Errors: SW_ERR_FORMAT
 * naming file and tensor. */
int sw_checkpoint_check_finite(struct sw_stream *stream, const float *value,
                               const struct sw_desc *layout, const char *name, const char *path,
                               struct sw_err *err) SW_MUST_CHECK;

/* legacy.c */
/* From the checkpoint that the job begins with, once; and into those that it writes. */
int sw_legacy_read(struct sw_job *job, const struct sw_st_file *f,
                   struct sw_err *err) SW_MUST_CHECK;
int sw_legacy_write(struct sw_job *job, struct sw_st_writer *w, struct sw_err *err) SW_MUST_CHECK;
void sw_legacy_fini(struct sw_legacy *l);

/* stages.c */
/* Tensors that earlier stages leave, by name and shape. */
struct sw_stage_names {
    struct sw_st_entry *items; /* owned, their names too */
    int count;
};
void sw_stage_names_fini(struct sw_stage_names *n);
const struct sw_st_entry *sw_stage_names_find(const struct sw_stage_names *n, const char *name);
/* Reads the recipe for the stage that the options ask for. */
int sw_stage_choose(struct sw_job *job, const struct sw_job_options *o,
                    struct sw_err *err) SW_MUST_CHECK;
/* Where the stage ends that begins behind step `from`. Errors: SW_ERR_INVALID when its samples
 * cannot be numbered. */
int sw_stage_steps_end(struct sw_job *job, int64_t from, int64_t *end,
                       struct sw_err *err) SW_MUST_CHECK;
/* Where the job and the run end. Errors: SW_ERR_INVALID when that is beyond what can be counted. */
int sw_stage_find_end(struct sw_job *job, const struct sw_job_options *o,
                      struct sw_err *err) SW_MUST_CHECK;
/* Step t is the job's last one: by the leader. */
void sw_stage_note_end(struct sw_job *job, int64_t t);
int sw_stage_write(const struct sw_job *job, struct sw_st_writer *w,
                   struct sw_err *err) SW_MUST_CHECK;
void sw_stage_tell(struct sw_job *job);

/* init_from.c */
/* Reads the list, or --init-from instead of it, and checks all files and rules. earlier: where it
 * is not the job that begins its stage, what those before leave; NULL: unknown.
 */
int sw_take_look(struct sw_job *job, const char *option, const struct sw_stage_names *earlier,
                 struct sw_err *err) SW_MUST_CHECK;
/* Takes the values, and says what was taken and what was not. By the leader. */
int sw_take_values(struct sw_worker *w, struct sw_err *err) SW_MUST_CHECK;
void sw_take_fini(struct sw_take_list *init); /* a zeroed one is accepted */

#endif
