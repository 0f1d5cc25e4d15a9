/* Server groups: several tables of the same parameters, each changed by its own workers, that
 * exchange their changes. Every `period` steps a group posts a delta to its neighbors: the change
 * of the value since the last exchange, without the deltas that came in since. A receiver adds
 * every delta exactly once and forwards it along a fixed tree that reaches every group once.
 * Updater state is not exchanged. Deltas travel as messages to the servers and never wait: while
 * the last delta of a parameter is still in flight the next exchange is skipped, and its content is
 * part of the one after. A table knows how many steps of each other group its values contain.
 *
 * Thread rule: created and merged by one thread while no worker runs; in between used by the
 * tables' servers. */
#pragma once

#include "exchange/table/table.h"

struct sw_sync;

/* The groups, and who exchanges with whom. */
struct sw_sync_args {
    struct sw_table *const *tables; /* borrowed until sw_sync_free; frozen, with the same slices */
    int count;                      /* 2 or more */
    int64_t period;                 /* steps of the slowest worker group of a server group */
    int64_t after;                  /* nothing is exchanged up to this step */
    const bool *neighbours;         /* [count][count], symmetric; copied */
};

/* Bytes that sw_sync_new allocates for tables of `value_bytes` each. */
size_t sw_sync_bytes(int count, size_t value_bytes);
/* Call after the tables are allocated. Errors: SW_ERR_INVALID (a group that no delta would reach),
 * SW_ERR_NOMEM. */
int sw_sync_new(const struct sw_sync_args *args, struct sw_sync **out,
                struct sw_err *err) SW_MUST_CHECK;
void sw_sync_free(struct sw_sync *s); /* NULL is accepted */

/* Copies the values of the first table, as of a step, to all others; with `state` also the updater
 * state. */
void sw_sync_broadcast(struct sw_sync *s, uint64_t step, bool state);
/* Is no delta in flight? Remains true while no worker pushes gradients. Any thread. */
bool sw_sync_is_quiet(const struct sw_sync *s);
/* Merges everything at once: afterwards all tables have the same values, with all updates up to
 * that step. Call only when idle. */
void sw_sync_merge_all(struct sw_sync *s, uint64_t step);
/* Bytes that server `server` of one table has sent to another table so far. Any thread. */
int64_t sw_sync_sent(const struct sw_sync *s, int from, int to, int server);
