/* Dependencies between passes on different branches (net/graph/branches.h), and the events that
 * enforce them while a net runs. Computed from the execution order. One owner: the net. */
#pragma once

#include "net/exec/order.h"
#include "net/graph/branches.h"

struct sw_branch_order {
    const struct sw_branches *branches; /* borrowed */
    const struct sw_exec_order *exec;   /* borrowed */
    struct sw_stream *control;          /* borrowed: the net's stream */
    int ops;
    struct sw_event **done; /* owned [ops], elements too; NULL: nothing waits for the op */
    int *wait; /* owned [ops][branches]: the ops that this op waits for, -1 after the last */
    int *from, *until; /* owned [ops]: first and last op that may run concurrently with this op */

    /* While passes run. */
    int *done_in; /* owned [ops]: the number of joins when the op's event was last recorded */
    int joins;
    bool begun; /* a direction is in progress */
    struct sw_branch_state {
        bool begun; /* its stream has waited for the start of this direction */
        bool ahead; /* the control stream has not yet waited for all of its work */
    } * state;      /* owned [branches] */
};

/* exec must be complete. *out may be an earlier order, which is freed, or NULL. Errors:
 * SW_ERR_NOMEM, those of the device. */
int sw_branch_order_new(const struct sw_branches *branches, const struct sw_exec_order *exec,
                        struct sw_stream *control, struct sw_branch_order **out,
                        struct sw_err *err) SW_MUST_CHECK;
void sw_branch_order_free(struct sw_branch_order *o); /* NULL is accepted */

/* Called before and after a phase of the node's pass; no-ops when o is NULL. Errors: those of the
 * device. */
int sw_branch_enter(struct sw_branch_order *o, int node, bool back, int phase,
                    struct sw_err *err) SW_MUST_CHECK;
int sw_branch_leave(struct sw_branch_order *o, int node, bool back, int phase,
                    struct sw_err *err) SW_MUST_CHECK;

/* Makes the control stream wait for all branches, and all branches begin again after it. What is
 * queued between two joins waits for no event from before or after them, and so can be a graph.
 * No-op when o is NULL. Errors: those of the device. */
int sw_branch_join(struct sw_branch_order *o, struct sw_err *err) SW_MUST_CHECK;

/* Index of the op of the node's pass. */
static inline int sw_branch_order_op(const struct sw_branch_order *o, int node, bool back)
{
    return back ? o->exec->node[node].backward_at : o->exec->node[node].forward_at;
}
