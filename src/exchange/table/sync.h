/* Server groups: several tables of the same parameters, each changed by its own workers, that
 * exchange what they changed. Every `period` steps a group posts a delta, value minus what it was
 * after the last exchange but for what came in since, to its neighbours; a receiver adds every
 * delta exactly once and hands it on along a fixed tree that reaches everybody once. Updater state
 * stays where it is. Deltas travel as messages to the servers and never wait: while the last delta
 * of a parameter is still under way the next exchange is left out, and what it would have said is
 * in the one after. A table knows how many steps of each other group are in its values.
 *
 * Thread rule: made and settled by one thread while nobody works; in between by the tables'
 * servers. */
#pragma once

#include "exchange/table/table.h"

struct sw_sync;

/* Who exchanges with whom: symmetric, [count][count]. */
struct sw_sync_args {
    struct sw_table *const *tables; /* borrowed until sw_sync_free; frozen, cut alike */
    int count;                      /* 2 or more */
    int64_t period;                 /* steps of the slowest worker group of a server group */
    int64_t after;                  /* the last step before which there is nothing to exchange */
    const bool *neighbours;         /* copied */
};

/* What sw_sync_new will take for tables of `value_bytes` each. */
size_t sw_sync_bytes(int count, size_t value_bytes);
/* After the tables are allocated. Errors: SW_ERR_INVALID (a group that no delta would reach),
 * SW_ERR_NOMEM. */
int sw_sync_new(const struct sw_sync_args *args, struct sw_sync **out,
                struct sw_err *err) SW_MUST_CHECK;
void sw_sync_free(struct sw_sync *s); /* NULL is accepted */

/* Values of all tables become those of the first, after it was filled as of a step; and what their
 * updaters keep, too. */
void sw_sync_spread(struct sw_sync *s, uint64_t step, bool state);
/* Is no delta under way? Stays so while no worker hands over gradients. Any thread. */
bool sw_sync_is_quiet(const struct sw_sync *s);
/* An exchange of everything at once: all values become the same, with all updates up to that step.
 * When it is quiet. */
void sw_sync_settle(struct sw_sync *s, uint64_t step);
/* Bytes that server `server` of one table has sent to another's so far. Any thread. */
int64_t sw_sync_sent(const struct sw_sync *s, int from, int to, int server);
