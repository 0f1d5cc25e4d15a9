/* The watch thread, which sees that a job stays in motion (watchdog.h judges). */
#pragma once

#include "base/err.h"
#include "monitor/waits.h"

struct sw_cluster_conf;
struct sw_events;
struct sw_fault;
struct sw_requests;
struct sw_watch;

/* What the thread looks at, and whom it tells. All borrowed. */
struct sw_watch_args {
    struct sw_roles roles;
    int slots; /* of the live snapshot: roles and the threads that read for them */
    const struct sw_cluster_conf *cluster; /* what a stall is, and what becomes of the run then */
    const int64_t *saved_step; /* atomic: of the newest checkpoint of this segment; -1: none yet */
    struct sw_events *events;
    struct sw_requests *requests;
    struct sw_fault *fault;
    /* Sets the fault where sums under way between devices have failed. */
    void (*check_sums)(void *user);
    void *user;
};

/* Starts the thread; the snapshot is there. *out is set after errors, too: sw_watch_end takes it.
 */
int sw_watch_start(const struct sw_watch_args *args, struct sw_watch **out,
                   struct sw_err *err) SW_MUST_CHECK;
void sw_watch_end(struct sw_watch *w); /* after all other roles; NULL is accepted */
