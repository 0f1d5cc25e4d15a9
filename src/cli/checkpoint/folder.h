/* A folder of checkpoints as a run, for a run whose folder was moved or comes from another machine:
 * checkpoints carry recipe, overrides and name. One owner. */
#pragma once

#include "cli/checkpoint/checkpoints.h"

/* Whether the argument is a folder that holds checkpoints. */
bool sw_folder_has_checkpoints(const char *path);

/* Finds the run of a folder with checkpoints: the newest run of the history that has this folder,
 * with run->id and its checkpoints; or else, with run->id 0, what the newest undamaged checkpoint
 * says of the run. reader NULL: there is no history. Free *run and *checkpoints in any case.
 * Errors: those of reading a checkpoint and the history; SW_ERR_FORMAT (a checkpoint without a
 * recipe); SW_ERR_NOMEM. */
int sw_folder_find_run(const char *path, struct sw_history_reader *reader, struct sw_run *run,
                       struct sw_checkpoints *checkpoints, struct sw_err *err) SW_MUST_CHECK;
