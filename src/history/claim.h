/* The claim of a process on a run's folder: an exclusive lock (flock) on FOLDER/run.lock, held from
 * before the first write into the folder to after the last one. The system releases the lock when
 * the process ends, however it ends, so a run that was killed can be resumed at once. The file says
 * who holds the lock; it is removed with the claim, and one that a killed process left is reused.
 *
 * Programs that this process starts do not inherit the lock (close-on-exec). `run --ui` and
 * `run --detach` fork the trainer before the run begins, so the trainer is the one that claims.
 * On a file system without locks there is no claim; the history still refuses a second resume
 * (sw_history_resume_run). One owner per struct. */
#pragma once

#include "base/log.h"
#include <stdint.h>

#define SW_CLAIM_FILE "run.lock"

/* A zeroed one holds nothing. */
struct sw_claim {
    char *path; /* owned; NULL: nothing is held, and fd means nothing */
    int fd;     /* holds the lock */
};

/* Claims the folder, which exists; does nothing when *c holds a claim already. run_id: of the run
 * that is to be trained there, 0 while it has none. advice ends the sentence that names the owner:
 * "wait for its end, or choose another --out". log may be NULL. Errors: SW_ERR_INVALID (another
 * process has the folder), SW_ERR_IO, SW_ERR_NOMEM. */
int sw_claim_take(struct sw_claim *c, const char *folder, int64_t run_id, const char *advice,
                  struct sw_log *log, struct sw_err *err) SW_MUST_CHECK;
/* Writes into the file which run the claim is for; does nothing without a claim. */
void sw_claim_write_owner(const struct sw_claim *c, int64_t run_id);
/* Removes the file and unlocks. Does nothing without a claim. */
void sw_claim_release(struct sw_claim *c);
