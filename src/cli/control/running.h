/* A running run of this machine that a verb controls: found by RUN, asked through its control
 * socket (history/control.h), watched through its live snapshot. One owner. */
#pragma once

#include "cli/cli.h"
#include "history/reader.h"
#include "history/snapshot.h"

struct sw_running {
    struct sw_history_reader *reader; /* owned */
    char *db;                         /* path of the history; owned */
    struct sw_run run;
    char title[128];    /* `run 12 "lenet"` */
    int64_t queued_pid; /* sw_running_find: the run waits in the queue as this process; else 0 */
};

/* Finds the run that the first argument names. Free with sw_running_fini in any case. Errors: those
 * of sw_history_find; SW_ERR_NOTFOUND if it is not running here, or waits in the queue (a run of
 * this user, named exactly), which also sets queued_pid. */
int sw_running_find(struct sw_running *r, const struct sw_cli_common *common,
                    struct sw_err *err) SW_MUST_CHECK;
void sw_running_fini(struct sw_running *r);

/* Sends a line and writes the answer without "ok: ". Waits some seconds for a run that is starting.
 * Errors: SW_ERR_NOTFOUND (it does not listen, or has ended), SW_ERR_INVALID (it refuses; the
 * message is its answer), SW_ERR_IO. */
int sw_running_ask(struct sw_running *r, const char *line, char *answer, size_t bytes,
                   struct sw_err *err) SW_MUST_CHECK;
/* Reads the run again from the history: its status, and the newest step. */
int sw_running_refresh(struct sw_running *r, struct sw_err *err) SW_MUST_CHECK;
/* Ends a run that waits in the queue, and with `wait` returns when its process has ended. Errors:
 * SW_ERR_IO. */
int sw_running_leave_queue(const struct sw_running *r, bool wait, struct sw_err *err) SW_MUST_CHECK;
/* Waits until the run has ended and its process, too, unless that goes on with other work. */
int sw_running_wait_end(struct sw_running *r, struct sw_err *err) SW_MUST_CHECK;
/* Waits until all workers are paused, or with `released` until the run has given back its memory;
 * *step is the step after which they are. Errors: SW_ERR_NOTFOUND (the run has ended). */
int sw_running_wait_pause(struct sw_running *r, bool released, int64_t *step,
                          struct sw_err *err) SW_MUST_CHECK;

/* The live state of a run. False if there is none, as before it begins and after it ends. */
struct sw_live {
    struct sw_snapshot_state state;
    struct sw_slot_state first; /* of its first worker */
};
bool sw_live_read(const char *run_uid, struct sw_live *out);

/* For verbs that only send a line: finds the run, asks, prints the answer; returns the exit code.
 */
int sw_running_tell(const struct sw_cli_common *common, const char *line);
