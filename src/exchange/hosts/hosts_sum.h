/* Sums over hosts: what an item, an array of floats, holds on each host becomes the sum of all, on
 * every host. An item is cut into as many shares as there are hosts. A host sends every other host
 * that host's share, adds what comes for its own share in the order of hosts (as leaves of the tree
 * of base/tree.h), and sends the sum to all: reduce-scatter and all-gather by direct exchange, two
 * hops, 2 (K-1)/K times the item's bytes in each direction with K hosts. Every sum is made by one
 * host, so all hosts get the same bits.
 *
 * Nothing waits: shares are on the wire while the caller computes the next item, and pieces of one
 * chunk are added while others travel. An item is given again only after it was summed.
 *
 * Thread rule: new, start and free by one thread; all else by any thread, except that give is
 * called by one thread at a time for an item, and small sums by one at a time for a channel. */
#pragma once

#include "exchange/hosts/fabric.h"
#include "exchange/hosts/kinds.h"

/* Small sums are in channels, each with an order of its own: what the passes of a step sum, what is
 * known at its end, and requests to the job. */
enum sw_hosts_channel { SW_HOSTS_PASSES, SW_HOSTS_RESULTS, SW_HOSTS_REQUESTS, SW_HOSTS_CHANNELS };

struct sw_hosts_sum;

struct sw_hosts_sum_item {
    int64_t elements;
    uint16_t urgency; /* the layer: the lowest is needed first */
};

struct sw_hosts_sum_args {
    int hosts, own;
    const struct sw_hosts_sum_item *items; /* copied; the same on all hosts */
    int count;
    int small_most; /* values of a small sum, at most */
    /* The item's array holds the sum of that version, and is the caller's again. Called by threads
     * of the fabric or from within give; never waits, and must not call give for the same item. */
    void (*summed)(void *user, int item, uint64_t version);
    /* sw_fabric_sink.lost; NULL: ignored. No item that is under way will be summed. */
    void (*lost)(void *user, int host, const struct sw_err *why);
    void *user;
};

/* Allocates room for everything that can be under way: (K-1)/K of all items. Errors: SW_ERR_NOMEM,
 * SW_ERR_INVALID. */
int sw_hosts_sum_new(const struct sw_hosts_sum_args *args, struct sw_hosts_sum **out,
                     struct sw_err *err) SW_MUST_CHECK;
/* After the fabric is freed. NULL is accepted. */
void sw_hosts_sum_free(struct sw_hosts_sum *s);
/* For sw_fabric_args: messages to one host that can be under way, and who receives. */
int sw_hosts_sum_room(const struct sw_hosts_sum *s);
struct sw_fabric_sink sw_hosts_sum_sink(struct sw_hosts_sum *s);
/* The fabric is open; borrowed. Before the first give. */
void sw_hosts_sum_start(struct sw_hosts_sum *s, struct sw_fabric *f);

/* x [elements of the item], borrowed until summed(item, version), is the host's term of that
 * version (1, 2, ...) and becomes the sum. Never waits. Errors: SW_ERR_LOST, SW_ERR_CANCELLED;
 * SW_ERR_INVALID for a version that is not the next. */
int sw_hosts_sum_give(struct sw_hosts_sum *s, int item, uint64_t version, float *x,
                      struct sw_err *err) SW_MUST_CHECK;
/* Small sums: for losses, statistics, requests to stop. Tells all hosts the own values [count, at
 * most small_most] of the channel; they are copied. All hosts call it equally often for a
 * channel, with the same counts, and take in between. Errors: SW_ERR_LOST, SW_ERR_CANCELLED. */
int sw_hosts_small_give(struct sw_hosts_sum *s, enum sw_hosts_channel channel, const double *values,
                        int count, struct sw_err *err) SW_MUST_CHECK;
/* Waits for all hosts, and sets values [count] to the sums of what they gave last, added in the
 * order of hosts. Errors: as above; SW_ERR_INVALID (different counts, which are named). */
int sw_hosts_small_take(struct sw_hosts_sum *s, enum sw_hosts_channel channel, double *values,
                        int count, struct sw_err *err) SW_MUST_CHECK;
/* Both: values [count] become the sums over all hosts. */
int sw_hosts_sum_small(struct sw_hosts_sum *s, enum sw_hosts_channel channel, double *values,
                       int count, struct sw_err *err) SW_MUST_CHECK;
/* Ends every wait; for sw_fault_attach. */
void sw_hosts_sum_close_v(void *sum);
