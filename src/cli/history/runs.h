/* Finding runs in the history, for `resume` and `eval`. One owner. */
#pragma once

#include "history/reader.h"
#include "run/job.h"

/* Opens the history that the options, the environment or the recipe's job.db (may be NULL) name,
 * after merging the spools of runs that could not reach the database. *path is owned by the caller
 * (sw_free). Errors: those of sw_history_reader_open. */
int sw_runs_open(const char *db_option, const char *job_db, struct sw_history_reader **out,
                 char **path, struct sw_err *err) SW_MUST_CHECK;
/* [job] db of an opened job, or NULL. */
const char *sw_runs_job_db(const struct sw_job *job);
/* `run 12 "lenet"` in out; returns out. */
const char *sw_run_title(const struct sw_run *run, char *out, size_t bytes);
