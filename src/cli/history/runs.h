/* Finding runs in the history, for `resume` and `eval`. One owner. */
#pragma once

#include "history/reader.h"
#include "run/job.h"

/* Opens the history where options, environment and the recipe's job.db (may be NULL) say. Spools of
 * runs that could not reach the database are merged first. *path is owned by the caller (sw_free).
 * Errors: those of sw_history_reader_open; SW_ERR_NOTFOUND says what to do. */
int sw_runs_open(const char *db_option, const char *job_db, struct sw_history_reader **out,
                 char **path, struct sw_err *err) SW_MUST_CHECK;
/* [job] db of an opened job, or NULL. */
const char *sw_runs_job_db(const struct sw_job *job);
/* A split that the recipe does not have is a wrong word, not a missing file: SW_ERR_INVALID. NULL
 * is accepted. */
int sw_cli_check_split(const struct sw_recipe *recipe, const char *split,
                       struct sw_err *err) SW_MUST_CHECK;
/* `run 12 "lenet"` in out; returns out. */
const char *sw_run_title(const struct sw_run *run, char *out, size_t bytes);
