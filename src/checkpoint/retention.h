/* Checkpoint retention: which checkpoints of a run stay on disk, and which of them is the best one.
 * Used by the leader between steps; any thread may read saved_step. */
#pragma once

#include "tensor/safetensors.h"
#include "worker/events.h"

/* A checkpoint that is on disk. */
struct sw_retained_checkpoint {
    int64_t step;
    char *path;        /* owned */
    char checksum[33]; /* "": unknown */
};
struct sw_best {
    int64_t step; /* -1: none yet */
    double value;
};

struct sw_retention {
    struct sw_events *events;             /* borrowed */
    int64_t most;                         /* number of newest checkpoints to keep; 0: all */
    struct sw_retained_checkpoint *items; /* owned */
    int count;
    const struct sw_job_metric
        *metric; /* borrowed: newest value of the compared metric; NULL: nothing is evaluated */
    const char *metric_name; /* borrowed */
    bool less_is_better;
    int64_t evaluated;        /* step of the newest evaluation, or -1 */
    int64_t from;             /* step that a resume started from, or -1 */
    const char *resumed;      /* borrowed: the checkpoint that this segment resumed from, or NULL */
    struct sw_best best;      /* of the checkpoints */
    struct sw_best best_seen; /* of all evaluations since the checkpoint that was resumed */
    int64_t saved_step;       /* atomic: of the newest checkpoint of this segment; -1: none yet */
};

void sw_retention_init(struct sw_retention *r, struct sw_events *events);
void sw_retention_fini(struct sw_retention *r);
/* Path of the newest checkpoint of this segment, or of the one that it resumed from; *step gets its
 * step. */
const char *sw_retention_newest(const struct sw_retention *r, int64_t *step);
/* Adds a checkpoint that is on disk; checksum may be NULL. Errors: SW_ERR_NOMEM. */
int sw_retention_add(struct sw_retention *r, int64_t step, const char *path, const char *checksum,
                     struct sw_err *err) SW_MUST_CHECK;
/* Call after each evaluation, when its metrics are known. */
void sw_retention_evaluated(struct sw_retention *r, int64_t step);
/* Is the evaluation of this step better than that of the best checkpoint? False if the step was not
 * evaluated. */
bool sw_retention_beats(const struct sw_retention *r, int64_t step);
/* The best checkpoint if one of this step is added. */
struct sw_best sw_retention_best_with(const struct sw_retention *r, int64_t step);
/* The checkpoint with a better evaluation than this step: *best_step gets its step, -1 if there is
 * none. Returns its path, NULL if it is not on disk. */
const char *sw_retention_better(const struct sw_retention *r, int64_t step, int64_t *best_step);
/* Write the best step and value to a checkpoint's metadata, and read them. */
int sw_retention_write(const struct sw_retention *r, struct sw_best best, struct sw_st_writer *w,
                       struct sw_err *err) SW_MUST_CHECK;
void sw_retention_read(struct sw_retention *r, const struct sw_st_file *f);
/* Call instead of sw_retention_record where another process writes the checkpoint of the step. */
void sw_retention_skip(struct sw_retention *r, int64_t step);
/* Call instead of it for a file that the history does not know: the next stage begins from it. */
void sw_retention_keep(struct sw_retention *r, int64_t step, const char *path,
                       const char *checksum);
/* Call when the checkpoint of the step is durable: records it and removes checkpoints that need not
 * stay. is_last: the job ends here. */
void sw_retention_record(struct sw_retention *r, int64_t step, bool is_last, const char *path,
                         uint64_t bytes, const char *checksum);
