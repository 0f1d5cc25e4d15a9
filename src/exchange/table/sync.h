/* Server groups: several tables of the same parameters, each changed by its own workers, that
 * exchange their changes. Every `period` steps a group posts a delta to its neighbors: the change
 * of the value since the last exchange, without the deltas that came in since. A receiver adds
 * every delta exactly once and forwards it along a fixed tree that reaches every group once.
 * Updater state is not exchanged. Deltas travel as messages to the servers and never wait: while
 * the last delta of a parameter is still in flight the next exchange is skipped, and its content is
 * part of the one after. A table knows how many steps of each other group its values contain.
 *
 * The tables are in this process, or one is and the others are elsewhere. What goes to a group
 * elsewhere is handed to struct sw_sync_outer; what comes from one is handed to sw_sync_place and
 * the functions after it. Such a group can be lost, which all others find: its deltas that did not
 * arrive completely are dropped, new trees leave it out, and nobody waits for it.
 *
 * Thread rule: created and merged by one thread while no worker runs; in between used by the
 * tables' servers and, for what comes from elsewhere, by any thread. */
#pragma once

#include "exchange/table/table.h"

enum { SW_SYNC_GROUPS = 64 }; /* server groups, at most, if their tables are not in one process */

struct sw_sync;

/* A delta of the slices of one parameter on one server. */
struct sw_sync_delta {
    int origin;       /* the group that has made it */
    int unit;         /* parameter times servers plus server */
    uint64_t version; /* steps of the origin at its exchange */
};

/* How to reach groups elsewhere. The functions never wait; they are called by servers and by the
 * threads that call sw_sync_place and the functions after it, without any lock. Errors:
 * SW_ERR_LOST and SW_ERR_CANCELLED count as a delta that is on its way to a group that is lost;
 * all others end the caller. */
struct sw_sync_outer {
    /* Sends a delta, the sw_sync_room_bytes in the room of its origin, to a group. They stay as
     * they are until done(done_user, rc), which may be called before this returns, and is not
     * called after an error. */
    int (*post)(void *user, int to, const struct sw_sync_delta *d,
                void (*done)(void *done_user, int rc), void *done_user, struct sw_err *err);
    /* Tells a delta's origin that it was added here, and that its room is free. */
    int (*acknowledge)(void *user, const struct sw_sync_delta *d, struct sw_err *err);
    /* Tells a group which groups (bits) were lost here. A group gets acknowledgements and these
     * messages in the order of the calls. */
    int (*tell_lost)(void *user, int to, uint64_t groups, struct sw_err *err);
    void *user;
};

/* The groups, and who exchanges with whom. */
struct sw_sync_args {
    /* Borrowed until sw_sync_free; frozen, with the same slices on the same servers. NULL: the
     * table of that group is elsewhere; then all tables but one are, and of SW_SYNC_GROUPS at
     * most. */
    struct sw_table *const *tables;
    int count;              /* 2 or more */
    int64_t period;         /* steps of the slowest worker group of a server group */
    int64_t after;          /* nothing is exchanged up to this step */
    const bool *neighbours; /* [count][count], symmetric; copied */
    struct sw_sync_outer outer;
};

/* Bytes that sw_sync_new allocates for tables of `value_bytes` each, all in this process; and for
 * one frozen table of `count`, the others of which are elsewhere: room for one delta of each. */
size_t sw_sync_bytes(int count, size_t value_bytes);
size_t sw_sync_remote_bytes(const struct sw_table *t, int count);
/* Call after the tables are allocated. With tables elsewhere no delta is added before
 * sw_sync_resume, so that others may begin while this process still loads its values. Errors:
 * SW_ERR_INVALID (a group that no delta would reach, too many groups), SW_ERR_NOMEM. */
int sw_sync_new(const struct sw_sync_args *args, struct sw_sync **out,
                struct sw_err *err) SW_MUST_CHECK;
void sw_sync_free(struct sw_sync *s); /* NULL is accepted */

/* Copies the values of the first table, as of a step, to all others; with `state` also the updater
 * state. Tables elsewhere must have the same values, and their processes must do the same. */
void sw_sync_broadcast(struct sw_sync *s, uint64_t step, bool state);
/* Is no delta in flight? Remains true while no worker pushes gradients. Any thread.
 *
 * With tables elsewhere: all deltas of this process's group have been added by all living groups,
 * all that have arrived here are added, and nothing is being sent. Once no worker runs, and every
 * living group has been found quiet after its workers had ended, no delta of a living group is in
 * flight anywhere. Deltas of a lost group may still arrive; sw_sync_hold drops them. */
bool sw_sync_is_quiet(const struct sw_sync *s);
/* Merges everything at once: afterwards all tables have the same values, with all updates up to
 * that step. Call only when idle, and if all tables are in this process. */
void sw_sync_merge_all(struct sw_sync *s, uint64_t step);
/* Bytes that server `server` of one table has sent to another table so far. Any thread. */
int64_t sw_sync_sent(const struct sw_sync *s, int from, int to, int server);

/* --- what comes from groups elsewhere; any thread, but for one `from` one at a time --- */

/* Sets *to to room for exactly `bytes` of a delta, which group `from` sends or forwards. Errors:
 * SW_ERR_INVALID (a delta that cannot come). */
int sw_sync_place(struct sw_sync *s, int from, const struct sw_sync_delta *d, size_t bytes,
                  void **to, struct sw_err *err) SW_MUST_CHECK;
/* The delta is complete: tells the server that adds it. */
void sw_sync_arrived(struct sw_sync *s, int from, const struct sw_sync_delta *d);
/* Group `from` has added a delta of this process's group. Errors: SW_ERR_INVALID (there is none).
 */
int sw_sync_acknowledged(struct sw_sync *s, int from, const struct sw_sync_delta *d,
                         struct sw_err *err) SW_MUST_CHECK;
/* Group `from` has lost these groups: it gets directly what it has not added and one of them would
 * have forwarded. Errors: those of sw_sync_outer.post. */
int sw_sync_told_lost(struct sw_sync *s, int from, uint64_t groups,
                      struct sw_err *err) SW_MUST_CHECK;
/* A group is lost, and nothing of it is written to any room any more. */
void sw_sync_lose(struct sw_sync *s, int group);

/* --- merging with tables elsewhere, when all living groups are quiet; by one thread --- */

int sw_sync_units(const struct sw_sync *s);
/* Elements of a unit; 0: there are no slices of this parameter on this server. *param is set. */
int64_t sw_sync_unit(const struct sw_sync *s, int unit, int *param);
/* The room of a group's deltas, which is free while all are quiet: [elements of the unit], and what
 * travels with a delta behind them. */
float *sw_sync_room(const struct sw_sync *s, int group, int unit);
size_t sw_sync_room_bytes(const struct sw_sync *s, int unit);
/* Puts into the own room what the own group has changed since its last exchanges. */
void sw_sync_take_change(struct sw_sync *s);
/* Adds the changes in the rooms of these groups (bits) to the values, in the order of groups, and
 * puts the values into the own room. */
void sw_sync_add_changes(struct sw_sync *s, uint64_t groups);
/* All have done `step` steps. Until sw_sync_resume no delta is added: those up to that step, which
 * only lost groups can have sent, are dropped, and later ones are kept. Returns when none is being
 * added. */
void sw_sync_hold(struct sw_sync *s, uint64_t step);
/* Sets the values to those in the room of a group, while held. All tables have the same then, with
 * all updates up to that step. */
void sw_sync_take_values(struct sw_sync *s, int group);
/* Ends sw_sync_hold: deltas that were kept are added. */
void sw_sync_resume(struct sw_sync *s);
