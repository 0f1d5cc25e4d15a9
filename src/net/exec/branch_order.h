/* Who waits for whom among the passes of branches (net/graph/branches.h), and what these waits are
 * made of while a net runs. Made from the schedule. One owner: the net. */
#ifndef SW_NET_EXEC_BRANCH_ORDER_H
#define SW_NET_EXEC_BRANCH_ORDER_H

#include "net/exec/schedule.h"
#include "net/graph/branches.h"

struct sw_branch_order {
    const struct sw_branches *branches;     /* borrowed */
    const struct sw_net_schedule *schedule; /* borrowed */
    struct sw_stream *control;              /* borrowed: the net's own */
    int acts;
    struct sw_event **done; /* owned [acts], as what is in it; NULL: nobody waits for it */
    int *wait;              /* owned [acts][branches]: acts that it waits for, -1 behind the last */
    int *from, *until;      /* owned [acts]: the first and the last that may run beside it */

    /* While passes run. */
    bool begun; /* a direction is under way */
    struct sw_branch_state {
        bool begun; /* it has waited for the beginning of this direction */
        bool ahead; /* the control stream has not waited for all of it */
    } * state;      /* owned [branches] */
};

/* For a schedule that is made; *out may be an earlier order, which is freed then, or NULL. Errors:
 * SW_ERR_NOMEM, those of the device. */
int sw_branch_order_new(const struct sw_branches *branches, const struct sw_net_schedule *schedule,
                        struct sw_stream *control, struct sw_branch_order **out,
                        struct sw_err *err) SW_MUST_CHECK;
void sw_branch_order_free(struct sw_branch_order *o); /* NULL is accepted */

/* Before and behind a phase of the node's pass. Nothing happens where o is NULL. Errors: those of
 * the device. */
int sw_branch_enter(struct sw_branch_order *o, int node, bool back, int phase,
                    struct sw_err *err) SW_MUST_CHECK;
int sw_branch_leave(struct sw_branch_order *o, int node, bool back, int phase,
                    struct sw_err *err) SW_MUST_CHECK;

/* For tests: the k-th wait of the pass, as the node whose pass is waited for; -1 behind the last.
 * And forgets it, so that a device that watches who uses what can show that it does. */
int sw_branch_order_wait_of(const struct sw_branch_order *o, int node, bool back, int k);
void sw_branch_order_drop_wait(struct sw_branch_order *o, int node, bool back, int k);

/* Which act the node's pass is. */
static inline int sw_branch_order_act(const struct sw_branch_order *o, int node, bool back)
{
    return back ? o->schedule->backward_at[node] : o->schedule->forward_at[node];
}

#endif
