/* The monitor thread: it feeds the watchdog (watchdog.h), which detects stalls, and reports its
 * findings. */
#pragma once

#include "base/err.h"
#include "monitor/waits.h"

struct sw_cluster_conf;
struct sw_events;
struct sw_fault;
struct sw_requests;
struct sw_watch;

/* What the thread observes, and where it reports. All borrowed. */
struct sw_watch_args {
    struct sw_roles roles;
    int slots; /* of the live snapshot: workers, servers and reader threads */
    const struct sw_cluster_conf *cluster; /* stall limit, and what to do on a stall */
    const int64_t *saved_step; /* atomic: of the newest checkpoint of this segment; -1: none yet */
    struct sw_events *events;
    struct sw_requests *requests;
    struct sw_fault *fault;
    /* Sets the fault if an all-reduce in progress has failed. */
    void (*check_sums)(void *user);
    void *user;
};

/* Starts the thread; the snapshot must exist. *out is set even on errors; free it with
 * sw_watch_end. */
int sw_watch_start(const struct sw_watch_args *args, struct sw_watch **out,
                   struct sw_err *err) SW_MUST_CHECK;
void sw_watch_end(struct sw_watch *w); /* after all other roles; NULL is accepted */
