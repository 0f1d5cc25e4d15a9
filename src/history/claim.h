/* The claim of a process on a run's folder: an exclusive lock (flock) on FOLDER/run.lock, held from
 * before the first write into the folder until after the last one. The system releases the lock
 * when the process ends for any reason, so a killed run can be resumed at once. The file names the
 * owner of the lock; it is removed when the claim is released, and a file left by a killed process
 * is reused.
 *
 * Programs that this process starts do not inherit the lock (close-on-exec). `run --ui` and
 * `run --detach` fork the trainer before the run begins, so the trainer is the one that claims.
 * On a file system without locks there is no claim; the history still refuses a second resume
 * (sw_history_resume_run). One owner per struct. */
#pragma once

#include "base/log.h"
#include <stdint.h>

#define SW_CLAIM_FILE "run.lock"

/* A zeroed struct holds no claim. */
struct sw_claim {
    char *path; /* owned; NULL: no claim is held, and fd is meaningless */
    int fd;     /* holds the lock */
};

/* Claims an existing folder; does nothing if *c holds a claim already. run_id is the run to be
 * trained there, 0 while it is unknown. advice ends the message that names the owner ("wait until
 * it ends, or choose another --out"). log may be NULL. Errors: SW_ERR_INVALID (another process
 * holds the claim), SW_ERR_IO, SW_ERR_NOMEM. */
int sw_claim_take(struct sw_claim *c, const char *folder, int64_t run_id, const char *advice,
                  struct sw_log *log, struct sw_err *err) SW_MUST_CHECK;
/* Writes this process and the run into the file; does nothing without a claim. */
void sw_claim_write_owner(const struct sw_claim *c, int64_t run_id);
/* Removes the file and releases the lock; does nothing without a claim. */
void sw_claim_release(struct sw_claim *c);
