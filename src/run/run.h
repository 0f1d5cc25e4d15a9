/* A run in three parts: run_open.c allocates what it needs, run.c starts and follows it, run_end.c
 * ends its roles and closes the rest. All by the job's main thread. */
#pragma once

#include "history/reader.h"

struct sw_job;

/* Opens servers, history, trace, live snapshot and memory: everything except threads. Call
 * sw_run_close even after an error. Errors: SW_ERR_NOMEM, and those of the history and of devices.
 */
int sw_run_open(struct sw_job *job, struct sw_err *err) SW_MUST_CHECK;
/* Records the placement of all roles in the history. */
void sw_run_record_placement(struct sw_job *job);
/* Records batch and size of the next steps in the history. */
void sw_run_record_stage(struct sw_job *job);
/* Warns if the system refused to bind memory to NUMA nodes: the run is correct, but may be slow. */
void sw_run_report_misplaced(struct sw_job *job);
/* Number of roles that have a slot in the live snapshot, after it is open. */
int sw_job_slots(const struct sw_job *job);
/* Waits for every role in order, for 5 s in total. Returns the name of one that did not end, or
 * NULL. */
const char *sw_run_end_roles(struct sw_job *job);
/* SW_OK, SW_ERR_CANCELLED when it was stopped by request before the last step, or the fault. */
int sw_run_outcome(struct sw_job *job, struct sw_err *err) SW_MUST_CHECK;
enum sw_run_status sw_run_status_of(int rc);
/* Closes the snapshot and the event queue; and the history, unless another stage continues it. */
void sw_run_close(struct sw_job *job, int rc, const struct sw_err *err);
/* A thread of that role hangs and its memory cannot be freed: only records the reason. Returns the
 * fault, or SW_ERR_LIBRARY. */
int sw_run_report_stuck(struct sw_job *job, const char *role, struct sw_err *err) SW_MUST_CHECK;
/* Ends a run whose next stage was not started: it can be resumed. */
void sw_job_end_resumable(struct sw_job *job);
