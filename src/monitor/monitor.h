/* The monitor thread: it feeds the watchdog (watchdog.h), which detects stalls, and reports its
 * findings. */
#pragma once

#include "base/err.h"
#include "monitor/waits.h"

struct sw_cluster_conf;
struct sw_events;
struct sw_fault;
struct sw_requests;
struct sw_monitor;

/* What the thread observes, and where it reports. All borrowed. */
struct sw_monitor_args {
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
 * sw_monitor_end. */
int sw_monitor_start(const struct sw_monitor_args *args, struct sw_monitor **out,
                     struct sw_err *err) SW_MUST_CHECK;
void sw_monitor_end(struct sw_monitor *w); /* after all other roles; NULL is accepted */
