/* A run in its three parts: run_open.c makes what it needs, run.c sets it in motion and follows it,
 * run_end.c ends its roles and closes what is left. All of it by the job's main thread. */
#pragma once

#include "history/reader.h"

struct sw_job;

/* Servers, history, trace, live snapshot, memory: all but threads. After an error sw_run_close is
 * due as well. Errors: SW_ERR_NOMEM, and those of the history and of devices. */
int sw_run_open(struct sw_job *job, struct sw_err *err) SW_MUST_CHECK;
/* Which unit is where, into the history. */
void sw_run_record_placement(struct sw_job *job);
/* What the coming steps are made of, likewise. */
void sw_run_record_stage(struct sw_job *job);
/* Where binding memory was refused, the run is right and may be slow. */
void sw_run_tell_misplaced(struct sw_job *job);
/* Units that have a slot in the live snapshot, once that is open. */
int sw_job_slots(const struct sw_job *job);
/* Waits for every role in order, for 5 s altogether. The name of one that did not end, or NULL. */
const char *sw_run_end_roles(struct sw_job *job);
/* SW_OK, SW_ERR_CANCELLED when it was stopped by request before the last step, or the fault. */
int sw_run_outcome(struct sw_job *job, struct sw_err *err) SW_MUST_CHECK;
enum sw_run_status sw_run_status_of(int rc);
/* Snapshot and notes; and the history, unless another stage goes on with it. */
void sw_run_close(struct sw_job *job, int rc, const struct sw_err *err);
/* A thread of that role hangs: its memory cannot be freed, so all that is left is to write down
 * why. Returns the fault, or SW_ERR_LIBRARY. */
int sw_run_say_stuck(struct sw_job *job, const char *role, struct sw_err *err) SW_MUST_CHECK;
/* Ends a run whose next stage nobody has begun: it can be resumed. */
void sw_job_leave(struct sw_job *job);
