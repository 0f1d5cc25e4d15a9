/* Merging through host 0: all hosts have stopped, and get the same values, which go on with those
 * hosts that survive. Every living host sends host 0 its changes, if there are any; host 0 adds the
 * complete ones and sends the values to all. Host 0 alone decides whose changes count: those of a
 * host that is lost meanwhile all count, or none does. Everybody gets the same bits.
 *
 * Nothing is allocated but a few counters: the arrays are the caller's. Thread rule: new, start and
 * free by one thread; sw_hosts_merge by one thread at a time. */
#pragma once

#include "exchange/hosts/fabric.h"
#include "exchange/hosts/kinds.h"
#include <stdbool.h>

struct sw_hosts_merge;

struct sw_hosts_merge_item {
    int64_t elements; /* 0: nothing is sent */
    uint16_t urgency;
};

struct sw_hosts_merge_args {
    int hosts, own;
    const struct sw_hosts_merge_item *items; /* copied; the same on all hosts */
    int count;
    /* The array [elements] of an item with a host's change: of another host on host 0, else of the
     * own one. On host 0 it may be written as soon as that host merges. NULL: there are none. */
    float *(*change)(void *user, int host, int item);
    /* The array of an item whose content host 0 sends; on another host: to which it is written,
     * while that host merges. */
    float *(*value)(void *user, int item);
    /* On host 0, while it merges: the changes of these hosts (bits, without host 0) are complete
     * and are to be added. NULL: there is nothing to add. */
    void (*add)(void *user, uint64_t hosts);
    /* On another host, while it merges: all values are here. Host 0 sends nothing more before all
     * have returned from it. NULL: there is nothing to do. */
    void (*take)(void *user);
    void *user;
};

/* Errors: SW_ERR_NOMEM, SW_ERR_INVALID. */
int sw_hosts_merge_new(const struct sw_hosts_merge_args *args, struct sw_hosts_merge **out,
                       struct sw_err *err) SW_MUST_CHECK;
void sw_hosts_merge_free(struct sw_hosts_merge *m); /* after the fabric is freed; accepts NULL */
/* For sw_fabric_args and the router. */
int sw_hosts_merge_room(const struct sw_hosts_merge *m);
struct sw_fabric_sink sw_hosts_merge_sink(struct sw_hosts_merge *m);
void sw_hosts_merge_start(struct sw_hosts_merge *m, struct sw_fabric *f);

/* This host can merge: what it has sent to others has been used there, and it will send no more
 * before it has merged. Never waits; only the first call since the last merge counts. Any thread.
 * Errors: those of sw_fabric_send except SW_ERR_LOST. */
int sw_hosts_merge_offer(struct sw_hosts_merge *m, struct sw_err *err) SW_MUST_CHECK;
/* Can all living hosts merge? Then sw_hosts_merge waits for nothing but messages. Any thread. */
bool sw_hosts_merge_is_agreed(struct sw_hosts_merge *m);
/* Offers to merge, waits until all living hosts do, and merges. All call it equally often. *hosts:
 * bits of those whose changes count, host 0 included, the same on all hosts; may be NULL. Errors,
 * after which the values are undefined: SW_ERR_LOST (host 0), SW_ERR_CANCELLED (closed, or one
 * leaves). */
int sw_hosts_merge(struct sw_hosts_merge *m, uint64_t *hosts, struct sw_err *err) SW_MUST_CHECK;
/* Ends every wait; for sw_fault_attach. */
void sw_hosts_merge_close_v(void *merge);
