/* What the files of a table share. Each calls only those before it: table.c (settings) and
 * versions.c; factors.c (gradients out of factors); contributors.c; apply.c (an update of a slice);
 * decide.c (updates in two phases); sync.c (server groups); hogwild.c (updates without servers);
 * serve.c (messages). new.c, slices.c, memory.c and init.c build a table. */
#pragma once

#include "exchange/table/sync.h"
#include "exchange/table/table.h"
#include "optim/gather.h"

/* How far an update group is with a parameter's slices on one server. All of them move together. */
struct sw_turn {
    uint64_t done;     /* its updates that are applied */
    uint64_t answered; /* those whose values it has: done, or the one before while it waits */
    int contributions; /* to the next one */
    int staleness;     /* of what it has; written before `ready` moves, read after */
};

/* One server's side; only its shell touches it, but for what says otherwise. */
struct sw_server_state {
    struct sw_queue inbox;
    bool inbox_open;
    int *slices; /* owned: indices of its slices, ascending */
    int slice_count;
    int *first;  /* owned [params + 1]: its slices of a parameter are slices[first[p] .. first[p+1])
                  */
    bool *heard; /* owned [params][workers]: who has contributed to the coming version */
    struct sw_turn *turns;    /* owned [params][update groups] */
    struct sw_message *early; /* owned [capacity]: updates whose turn has not come */
    int early_count, early_capacity;
    int64_t served_ns; /* atomic */
};

enum { SW_DECISIONS = 4 }; /* that are remembered: workers are at most one step apart */

/* An update group's updates in two phases: decide.c. */
struct sw_phases {
    double *sums;                    /* owned [params]: of squares, by who decides */
    double *squares, *value_squares; /* owned [blocks of all slices]; a slice's are written by its
                                        server; the latter only where the updater needs norms, */
    struct sw_norms *norms;          /* and these: owned [params], written by who decides */
    int missing;      /* atomic: slices to be summed and verdicts to be said before the decision */
    int vetoes;       /* atomic: of the verdicts, those that were bad */
    uint64_t version; /* atomic: the update that is coming; all before it are decided */
    struct sw_loss_scale scale; /* of the coming one; moved by who decides, before version is */
    struct sw_table_decision ring[SW_DECISIONS]; /* written by who decides, before version moves */
};
struct sw_norms {
    double value, gradient; /* of a whole parameter */
};

struct sw_table {
    struct sw_table_args args;
    struct sw_param *params; /* owned */
    int param_count, param_capacity;
    struct sw_table_factors *factors; /* owned */
    int factor_count, factor_capacity;
    struct sw_slice *slices; /* owned */
    int slice_count;
    struct sw_server_state *servers; /* owned [args.servers] */
    int slots;
    int update_groups, update_group_size; /* and the workers of each */
    int group_workers;    /* of each worker group: an update group is one of them, or all */
    int leaves;           /* of each */
    int *first_term;      /* owned [workers + 1] */
    int *term_end;        /* owned [terms of an update group]: of the tree over its leaves */
    void *values, *state; /* owned device memory; the latter with the update groups' buffers */
    size_t value_bytes, state_bytes;
    bool two_phases;
    struct sw_phases *phases; /* owned [update groups]; NULL: each slice is updated alone */
    int torn;                 /* atomic: a parameter with a value that is not finite, or -1 */
    struct sw_sync *sync;     /* borrowed; NULL: the only server group */
    int place;                /* which one it is */
    uint64_t dropped;         /* atomic: updates that were not applied */
    uint64_t before;          /* versions that are no updates: an earlier stage's */
    sw_table_watch *watch;
    void *watch_user;
    struct sw_mutex lock; /* guards closed; taken to wait for a version */
    struct sw_cond changed;
    bool closed;
    int waiters; /* atomic: who sleeps on changed */
};

enum { SW_TABLE_ALIGN_BYTES = 64 };

/* Bytes of one array of a parameter: its values, a gradient, a slot. */
static inline size_t sw_param_array_bytes(const struct sw_param *p)
{
    return (sw_desc_bytes(&p->layout) + SW_TABLE_ALIGN_BYTES - 1) / SW_TABLE_ALIGN_BYTES *
           SW_TABLE_ALIGN_BYTES;
}

/* table_versions.c: wakes who waits for a version or for mail. */
void sw_table_wake(struct sw_table *t);
/* How many updates of the parameter every update group has made; UINT64_MAX: no update moves it. */
uint64_t sw_table_slowest(const struct sw_table *t, int param);

/* table_contributors.c: how many contributors an update group has. */
int sw_table_threshold(const struct sw_table *t, int param);

/* table_apply.c: the partial sums of an update group's gradient, from element `from` on, listed in
 * `in`. Returns the first. */
float *sw_table_sum(const struct sw_table *t, int param, int group, int64_t from,
                    const float *in[SW_TREE_LEAVES], struct sw_terms *sum);
/* What update `version` of a parameter is made of beside arrays, where it is made alone. */
void sw_table_update_terms(const struct sw_table *t, int param, uint64_t version,
                           struct sw_update_args *a);
/* Runs the updater over a slice, for the update group's update `version`. d: what was decided, or
 * NULL. Errors: SW_ERR_DIVERGED. */
int sw_table_update_slice(struct sw_table *t, const struct sw_slice *s, int group, uint64_t version,
                          const struct sw_table_decision *d, struct sw_err *err) SW_MUST_CHECK;

/* sync.c, by the table's servers. All update groups have done `done` updates of a parameter: an
 * exchange may be due. SW_OK, SW_ERR_CANCELLED. */
int sw_sync_after(struct sw_table *t, int server, int param, uint64_t done) SW_MUST_CHECK;
/* The same by a worker, where there is no server at work: tells those that own slices. */
int sw_sync_ask(struct sw_table *t, int worker, int param, uint64_t done) SW_MUST_CHECK;
/* How many steps of every other server group are at least in the values of a parameter's slices on
 * a server; UINT64_MAX when there is none. Any thread. */
uint64_t sw_sync_heard(const struct sw_table *t, int server, int param);
bool sw_sync_can_handle(const struct sw_table *t, int server, const struct sw_message *m);
int sw_sync_handle(struct sw_table *t, int server, const struct sw_message *m) SW_MUST_CHECK;

/* hogwild.c: one worker's gradient is complete; the update group's last one updates, or in two
 * phases who completes its last gradient, as was decided. */
int sw_table_race(struct sw_table *t, int worker, int param, uint64_t version,
                  struct sw_err *err) SW_MUST_CHECK;
int sw_table_race_all(struct sw_table *t, int group, const struct sw_table_decision *d,
                      struct sw_err *err) SW_MUST_CHECK;

/* decide.c. Room for norms, once the slices are cut. */
int sw_table_make_phases(struct sw_table *t, struct sw_err *err) SW_MUST_CHECK;
void sw_table_free_phases(struct sw_table *t);
/* Sums and measures a slice that is complete. Errors: SW_ERR_DIVERGED where a bad gradient stops.
 */
int sw_table_gather(struct sw_table *t, int group, const struct sw_slice *s,
                    struct sw_err *err) SW_MUST_CHECK;
/* So many slices are measured, or verdicts said, of an update group's coming update. True: nothing
 * is missing any more, *d is what was decided, and the caller carries it out. */
bool sw_table_complete(struct sw_table *t, int group, int count,
                       struct sw_table_decision *d) SW_MUST_CHECK;
