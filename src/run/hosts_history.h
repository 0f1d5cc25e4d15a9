/* The history and the live snapshot of a job on several hosts (history/part.h), from the run's
 * side. Host 0 stores the run and shows the threads of all hosts; the others send it their rows and
 * the states of their threads by the fabric, after all sums. On one host these functions do
 * nothing.
 *
 * Thread rule: all functions by the job's main thread. A thread of its own sends the states and
 * records the traffic between hosts; threads of the fabric receive. */
#pragma once

#include "base/err.h"
#include <stdbool.h>

struct sw_job;
struct sw_fabric_router;
struct sw_run_info;

/* Messages to one host that can be under way. */
enum { SW_HOSTS_HISTORY_ROOM = 4 };

/* Before the fabric is opened: allocates, and takes its kinds of messages. What was made for the
 * first stage of a run serves the later ones. Errors: SW_ERR_NOMEM. */
int sw_hosts_history_init(struct sw_job *job, struct sw_fabric_router *router,
                          struct sw_err *err) SW_MUST_CHECK;
/* The fabric is open: learns the numbers of workers and of slots of all hosts. Errors: those of
 * sums over hosts. */
int sw_hosts_history_agree(struct sw_job *job, int slots, struct sw_err *err) SW_MUST_CHECK;
/* Is the history of this host a part of that of host 0? */
bool sw_hosts_history_is_part(const struct sw_job *job);
/* Workers of all hosts, and the slots that host 0 has for those of others. */
int sw_hosts_history_workers(const struct sw_job *job);
int sw_hosts_history_slots(const struct sw_job *job);
/* Once the run has begun: host 0 tells which run it is, and the others begin their parts. Errors:
 * those of sums over hosts and of sw_history_begin_part. */
int sw_hosts_history_begin(struct sw_job *job, const struct sw_run_info *info,
                           struct sw_err *err) SW_MUST_CHECK;
/* The snapshot exists, in which the slots of other hosts begin at first_slot. */
void sw_hosts_history_show(struct sw_job *job, int first_slot);
/* The queue of events exists: starts the thread. Errors: SW_ERR_NOMEM. */
int sw_hosts_history_start(struct sw_job *job, struct sw_err *err) SW_MUST_CHECK;

/* Before this host leaves the others, or ends because of an error (in_order false): ends the
 * thread, and waits until host 0 has all rows, for a few seconds at most. Then nothing more is
 * sent. */
void sw_hosts_history_stop(struct sw_job *job, bool in_order);
/* Before the history is closed: records which hosts have left. Rows of a part go to its spool from
 * now on. Returns whether this host records how the job ended. */
bool sw_hosts_history_end(struct sw_job *job);
/* After the history is closed. */
void sw_hosts_history_free(struct sw_job *job);
