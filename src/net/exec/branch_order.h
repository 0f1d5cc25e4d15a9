/* Which passes of branches (net/graph/branches.h) wait for which, and what these waits are made of
 * while a net runs. Made from the execution order. One owner: the net. */
#pragma once

#include "net/exec/order.h"
#include "net/graph/branches.h"

struct sw_branch_order {
    const struct sw_branches *branches; /* borrowed */
    const struct sw_exec_order *exec;   /* borrowed */
    struct sw_stream *control;          /* borrowed: the net's own */
    int ops;
    struct sw_event **done; /* owned [ops], as what is in it; NULL: nobody waits for it */
    int *wait;              /* owned [ops][branches]: ops that it waits for, -1 behind the last */
    int *from, *until;      /* owned [ops]: the first and the last that may run beside it */

    /* While passes run. */
    bool begun; /* a direction is under way */
    struct sw_branch_state {
        bool begun; /* it has waited for the beginning of this direction */
        bool ahead; /* the control stream has not waited for all of it */
    } * state;      /* owned [branches] */
};

/* For an execution order that is made; *out may be an earlier order, which is freed then, or NULL.
 * Errors: SW_ERR_NOMEM, those of the device. */
int sw_branch_order_new(const struct sw_branches *branches, const struct sw_exec_order *exec,
                        struct sw_stream *control, struct sw_branch_order **out,
                        struct sw_err *err) SW_MUST_CHECK;
void sw_branch_order_free(struct sw_branch_order *o); /* NULL is accepted */

/* Before and behind a phase of the node's pass. Nothing happens where o is NULL. Errors: those of
 * the device. */
int sw_branch_enter(struct sw_branch_order *o, int node, bool back, int phase,
                    struct sw_err *err) SW_MUST_CHECK;
int sw_branch_leave(struct sw_branch_order *o, int node, bool back, int phase,
                    struct sw_err *err) SW_MUST_CHECK;

/* Which op the node's pass is. */
static inline int sw_branch_order_op(const struct sw_branch_order *o, int node, bool back)
{
    return back ? o->exec->backward_at[node] : o->exec->forward_at[node];
}
