/* Shared by the files of a table. Each calls only those before it: table.c (settings) and
 * versions.c; factors.c (gradients from factors); contributors.c; apply.c (an update of a slice);
 * update_control.c (updates in two phases); sync.c (server groups); hogwild.c (updates without
 * servers); push.c (what servers are told); serve.c (how they handle it). new.c, slices.c, memory.c
 * and init.c build a table. */
#pragma once

#include "exchange/table/sync.h"
#include "exchange/table/table.h"
#include "optim/gather.h"

/* The progress of an update group with a parameter's slices on one server. All of these slices
 * advance together. */
struct sw_turn {
    uint64_t done;     /* its updates that are applied */
    uint64_t answered; /* updates in the values that it has: done, or one less while an answer is
                          withheld */
    int contributions; /* to the next update */
    int sums;          /* slices of which the sum over all tables is here, for the next update */
    int staleness; /* of the values that it has; written before `ready` is advanced, read after */
};

/* The state of one server; only the thread that serves touches it, except for what says otherwise.
 */
struct sw_server_state {
    struct sw_queue inbox;
    bool inbox_open;
    int *slices; /* owned [slice_count]: indices of its slices, ascending */
    int slice_count;
    int *first; /* owned [params + 1]: its slices of a parameter are slices[first[p] .. first[p+1])
                 */
    bool *contributed;        /* owned [params][senders]: has contributed to the next version */
    struct sw_turn *turns;    /* owned [params][update groups] */
    struct sw_message *early; /* owned [capacity]: updates ahead of their turn */
    int early_count, early_capacity;
    int64_t served_ns; /* atomic */
};

enum {
    SW_UPDATE_CONTROLS = 4
}; /* results that are kept: workers are at most one step ahead of each other */

/* State of an update group's updates in two phases (update_control.c). */
struct sw_phases {
    double
        *sums; /* owned [params]: sums of squares, written by the thread that runs update control */
    double *squares, *value_squares; /* owned [blocks of all slices]; a slice's are written by its
                                        server; the latter only where the updater needs norms */
    struct sw_norms
        *norms;       /* owned [params]: norms, written by the thread that runs update control */
    int missing;      /* atomic: slices to be summed and loss reports of workers that update control
                         still waits for */
    int vetoes;       /* atomic: workers that reported a loss that is not finite */
    uint64_t version; /* atomic: the next update; all before it are decided */
    struct sw_loss_scale
        scale; /* of the next update; changed by the thread that decides, before version */
    struct sw_table_control
        ring[SW_UPDATE_CONTROLS]; /* written by the thread that decides, before version */
};
struct sw_norms {
    double value, gradient; /* of a whole parameter */
};

/* A lost update group is settled when every server has handled SW_MSG_LOST twice: the first time
 * all its gradients have been counted, the second time all updates that were decided are applied.
 */
struct sw_lost_group {
    int lost;    /* atomic: neither the staleness bound nor answers heed it any more */
    int settled; /* atomic: no update of it is under way, and nobody waits for one */
    int left;    /* atomic: servers that have not handled the message yet */
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
    int update_groups; /* first the local ones, of this table's workers, then remote ones */
    int local_groups, update_group_size; /* number of local update groups, and workers of each */
    int group_workers; /* workers of a worker group; an update group is one worker group, or all */
    int senders;       /* of updates: the workers, then the remote update groups */
    struct sw_lost_group *lost; /* owned [update groups] */
    int leaves;                 /* reduction leaves of an update group */
    int *first_partial;         /* owned [workers + 1] */
    int *partial_end; /* owned [partial sums of an update group]: end of each, in leaves of the tree
                       */
    void *values, *state; /* owned device memory; state includes the update groups' buffers */
    size_t value_bytes, state_bytes;
    bool two_phases;
    bool whole_blocks;        /* slices are multiples of SW_GATHER_BLOCK: those of two phases */
    struct sw_phases *phases; /* owned [update groups]; NULL: each slice is updated alone */
    int nonfinite_param;      /* atomic: a parameter with a value that is not finite, or -1 */
    struct sw_sync *sync;     /* borrowed; NULL: this is the only server group */
    int group_index;          /* index of this server group */
    uint64_t dropped;         /* atomic: updates that were not applied */
    uint64_t before;          /* versions of earlier stages, which are no updates of this one */
    sw_table_on_update *observer;
    void *observer_user;
    struct sw_mutex lock; /* guards closed; taken to wait for a version */
    struct sw_cond changed;
    bool closed;
    int waiters; /* atomic: threads that sleep on changed */
};

enum { SW_TABLE_ALIGN_BYTES = 64 };

/* Bytes of one array of a parameter: its value, a gradient, or a slot. */
static inline size_t sw_param_array_bytes(const struct sw_param *p)
{
    return (sw_desc_bytes(&p->layout) + SW_TABLE_ALIGN_BYTES - 1) / SW_TABLE_ALIGN_BYTES *
           SW_TABLE_ALIGN_BYTES;
}

/* versions.c: wakes the threads that wait for a version or a message. */
void sw_table_wake(struct sw_table *t);
/* The number of updates of the parameter that every update group has made; UINT64_MAX: it gets no
 * updates. */
uint64_t sw_table_slowest(const struct sw_table *t, int param);

/* Are gradients summed over other tables, too? */
static inline bool sw_table_has_outer(const struct sw_table *t)
{
    return t->args.outer.give != NULL;
}

/* Are gradients of the parameter made of the rows of all tables? */
static inline bool sw_table_gathers_rows(const struct sw_table *t, int param)
{
    return sw_table_has_outer(t) && !t->args.updates_outside && t->params[param].factors >= 0;
}

/* Do workers make the parameter's gradients and updates from factors that they exchange? */
static inline bool sw_table_is_exchanged(const struct sw_table *t, int param)
{
    int f = t->params[param].factors;
    return f >= 0 && t->factors[f].home == SW_FACTORS_EXCHANGED;
}

/* Are sums of the parameter's gradients made over all tables? */
static inline bool sw_table_sums_outside(const struct sw_table *t, int param)
{
    return sw_table_has_outer(t) && t->params[param].factors < 0;
}

static inline bool sw_table_is_remote(const struct sw_table *t, int group)
{
    return group >= t->local_groups;
}

/* Does the first array of the update group have the sum of its gradients, made elsewhere? */
static inline bool sw_table_has_sum(const struct sw_table *t, int param, int group)
{
    return sw_table_sums_outside(t, param) || sw_table_is_remote(t, group);
}

/* The job is ending where a queue is closed. */
static inline int sw_table_ending(int rc, struct sw_err *err)
{
    if (rc != SW_OK)
        return sw_err_set(err, rc, "the job is ending");
    return SW_OK;
}

/* apply.c: sums an update group's gradients of a slice, or makes the gradient of factors. */
int sw_table_sum_slice(const struct sw_table *t, const struct sw_slice *s, int group, float *out,
                       struct sw_err *err) SW_MUST_CHECK;
/* Lists in `in` the partial sums of an update group's gradient of a slice. With outer sums there is
 * one: what the outer sum left in the first array. */
void sw_table_list(const struct sw_table *t, const struct sw_slice *s, int group,
                   const float *in[SW_TREE_LEAVES], struct sw_fold_inputs *sum);
/* In two phases: sums and measures a complete slice. Errors: SW_ERR_DIVERGED where a non-finite
 * gradient ends the run. */
int sw_table_gather(struct sw_table *t, int group, const struct sw_slice *s,
                    struct sw_err *err) SW_MUST_CHECK;
/* Fills the arguments of update `version` of a parameter except for arrays, where it is updated
 * alone. */
void sw_table_update_partials(const struct sw_table *t, int param, uint64_t version,
                              struct sw_update_args *a);
/* Runs the updater over a slice, for the update group's update `version`. d: the result of update
 * control, or NULL. Errors: SW_ERR_DIVERGED. */
int sw_table_update_slice(struct sw_table *t, const struct sw_slice *s, int group, uint64_t version,
                          const struct sw_table_control *d, struct sw_err *err) SW_MUST_CHECK;

/* row_lists.c: allocates the lists of parameters whose updates may visit the listed rows only. */
int sw_table_make_row_lists(struct sw_table *t, struct sw_err *err) SW_MUST_CHECK;
void sw_table_free_row_lists(const struct sw_table *t, struct sw_param *p);

/* sync_flight.c, by the table's servers: exchanges deltas if one is due now that all update groups
 * have done `done` updates of a parameter. SW_OK, SW_ERR_CANCELLED. */
int sw_sync_after(struct sw_table *t, int server, int param, uint64_t done) SW_MUST_CHECK;
/* sync_flight.c, by a worker of a rule whose updates do not pass through servers (Hogwild): asks
 * the servers that own slices of the parameter to exchange deltas if that is due. */
int sw_sync_request(struct sw_table *t, int worker, int param, uint64_t done) SW_MUST_CHECK;
/* sync.c: the number of steps of every other server group that a parameter's slices on a server
 * contain at least; UINT64_MAX when there is no other group. Any thread. */
uint64_t sw_sync_steps_of_others(const struct sw_table *t, int server, int param);
bool sw_sync_can_handle(const struct sw_table *t, int server, const struct sw_message *m);
int sw_sync_handle(struct sw_table *t, int server, const struct sw_message *m) SW_MUST_CHECK;

/* update_control.c: allocates room for norms, after the slices are known. */
int sw_table_make_phases(struct sw_table *t, struct sw_err *err) SW_MUST_CHECK;
void sw_table_free_phases(struct sw_table *t);
/* Counts `count` measured slices or reported verdicts of an update group's next update. When
 * nothing is missing any more, decides, and carries the result out as the rule says. */
int sw_table_complete(struct sw_table *t, int group, int count, struct sw_err *err) SW_MUST_CHECK;

/* push.c: tells all servers that an update group is gone; round: 1 or 2 (struct sw_lost_group). */
void sw_table_post_loss(struct sw_table *t, int group, uint64_t round);
