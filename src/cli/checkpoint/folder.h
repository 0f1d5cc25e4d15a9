/* A folder of checkpoints as a run, for a run whose folder was moved or comes from another machine:
 * checkpoints carry recipe, overrides and name. One owner. */
#pragma once

#include "cli/checkpoint/checkpoints.h"
#include "cli/cli.h"

/* Whether the argument is a folder that holds checkpoints. */
bool sw_folder_has_checkpoints(const char *path);

/* The history that the recipe of a folder with checkpoints, with the overrides of the run and these
 * --set, names in job.db; *db is NULL if it names none, and owned by the caller (sw_free). Only the
 * head of a checkpoint is read: sw_folder_find_run checks the file. Errors: those of
 * sw_checkpoints_in; SW_ERR_NOMEM. */
int sw_folder_find_db(const char *path, const struct sw_cli_list *sets, char **db,
                      struct sw_err *err) SW_MUST_CHECK;
/* Finds the run of a folder with checkpoints: the newest run of the history that has this folder,
 * with run->id and its checkpoints; or else, with run->id 0, what the newest undamaged checkpoint
 * says of the run. reader NULL: there is no history. Free *run and *checkpoints in any case.
 * Errors: those of reading a checkpoint and the history; SW_ERR_FORMAT (a checkpoint without a
 * recipe); SW_ERR_NOMEM. */
int sw_folder_find_run(const char *path, struct sw_history_reader *reader, struct sw_run *run,
                       struct sw_checkpoints *checkpoints, struct sw_err *err) SW_MUST_CHECK;
