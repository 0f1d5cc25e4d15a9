/* Finding runs and their checkpoints in the history, for `resume` and `eval`. One owner. */
#ifndef SW_CLI_SHARE_RUNS_H
#define SW_CLI_SHARE_RUNS_H

#include "history/reader.h"
#include "train/job.h"

/* A run's checkpoints whose files are there, highest step first. */
struct sw_checkpoints {
    struct sw_checkpoint_file {
        int64_t step;
        char *path; /* owned */
    } * items;      /* owned */
    int count;
    int missing; /* in the history, but the file is gone */
};

/* Opens the history where options, environment and the recipe's job.db (may be NULL) say. Spools of
 * runs that could not reach the database are merged first. *path is owned by the caller (sw_free).
 * Errors: those of sw_history_reader_open; SW_ERR_NOTFOUND says what to do. */
int sw_runs_open(const char *db_option, const char *job_db, struct sw_history_reader **out,
                 char **path, struct sw_err *err) SW_MUST_CHECK;
/* [job] db of an opened job, or NULL. */
const char *sw_runs_job_db(const struct sw_job *job);
/* Errors: SW_ERR_NOTFOUND when no file is left, SW_ERR_NOMEM, those of the history. */
int sw_checkpoints_find(struct sw_history_reader *reader, const struct sw_run *run,
                        struct sw_checkpoints *out, struct sw_err *err) SW_MUST_CHECK;
void sw_checkpoints_fini(struct sw_checkpoints *c);
/* `run 12 "lenet"` in out; returns out. */
const char *sw_run_title(const struct sw_run *run, char *out, size_t bytes);

#endif
