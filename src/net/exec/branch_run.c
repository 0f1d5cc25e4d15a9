/* Queues the event waits of branches before and after passes. */
#include "net/exec/branch_order.h"

enum { NONE = -1 };

/* Is the node's pass the first, or the last, of the direction? */
static bool is_first(const struct sw_net_shapes *s, int node, bool back)
{
    int i = s->graph->count - 1;
    while (back && i > node && !s->node[i].has_backward)
        i--;
    return node == (back ? i : 0);
}

static bool is_last(const struct sw_net_shapes *s, int node, bool back)
{
    int i = 0;
    while (back && i < node && !s->node[i].has_backward)
        i++;
    return node == (back ? i : s->graph->count - 1);
}

/* In each direction every branch starts after the work queued on the control stream before the
 * direction began, and not after waits that other branches added since. */
static int begin(struct sw_branch_order *o, int branch, bool first, struct sw_err *err)
{
    const struct sw_branches *b = o->branches;

    for (int i = 0; i < b->count && first;
         i++) /* an earlier direction may not have completed, after an error */
        o->state[i].begun = false;

    o->begun = o->begun && !first;

    int rc = o->begun ? SW_OK : sw_event_record(o->control, b->begin, err);
    o->begun = true;
    if (rc == SW_OK && !o->state[branch].begun)
        rc = sw_event_wait(b->branch[branch].stream, b->begin, err);
    o->state[branch].begun = true;

    return rc;
}

/* Makes the branch wait for everything queued on the control stream. */
static int wait_for_control(const struct sw_branch_order *o, int branch, struct sw_err *err)
{
    const struct sw_branches *b = o->branches;
    int rc = sw_event_record(o->control, b->control, err);
    return rc == SW_OK ? sw_event_wait(b->branch[branch].stream, b->control, err) : rc;
}

static int control_waits(struct sw_branch_order *o, int branch, struct sw_err *err)
{
    const struct sw_branch *b = &o->branches->branch[branch];
    int rc = sw_event_record(b->stream, b->tail, err);

    if (rc == SW_OK)
        rc = sw_event_wait(o->control, b->tail, err);
    o->state[branch].ahead = false;

    return rc;
}

int sw_branch_enter(struct sw_branch_order *o, int node, bool back, int phase, struct sw_err *err)
{
    if (!o)
        return SW_OK;

    const struct sw_net_shapes *shapes = o->exec->aliases->shapes;
    const struct sw_branches *b = o->branches;
    const int branch = b->of[node], *wait = &o->wait[sw_branch_order_op(o, node, back) * b->count];
    bool has_values = !back && shapes->node[node].layer.param_count > 0;
    int rc = begin(o, branch, phase == 0 && is_first(shapes, node, back), err);
    if (rc == SW_OK && (has_values || phase > 0)) /* wait for work queued between phases */
        rc = wait_for_control(o, branch, err);
    for (int k = 0; k < b->count && wait[k] != NONE && phase == 0 && rc == SW_OK; k++)
        if (o->done_in[wait[k]] == o->joins)
            rc = sw_event_wait(b->branch[branch].stream, o->done[wait[k]], err);
    o->state[branch].ahead = true;

    return rc;
}

static int end_direction(struct sw_branch_order *o, struct sw_err *err)
{
    int rc = SW_OK;

    for (int i = 0; i < o->branches->count && rc == SW_OK; i++)
        if (o->state[i].ahead)
            rc = control_waits(o, i, err);

    return rc;
}

int sw_branch_leave(struct sw_branch_order *o, int node, bool back, int phase, struct sw_err *err)
{
    if (!o)
        return SW_OK;

    const struct sw_net_shapes *shapes = o->exec->aliases->shapes;
    const struct sw_layer *l = &shapes->node[node].layer;
    const int branch = o->branches->of[node];
    const int op = sw_branch_order_op(o, node, back);
    int rc = SW_OK;
    if (phase + 1 < sw_net_layer_phases(l, back))
        return control_waits(o, branch, err);

    if (o->done[op])
        rc = sw_event_record(o->branches->branch[branch].stream, o->done[op], err);
    o->done_in[op] = o->joins;
    if (rc == SW_OK && back && l->param_count > 0)
        rc = control_waits(o, branch, err);
    if (rc == SW_OK && is_last(shapes, node, back))
        rc = end_direction(o, err);

    return rc;
}

int sw_branch_join(struct sw_branch_order *o, struct sw_err *err)
{
    if (!o)
        return SW_OK;

    int rc = end_direction(o, err);

    o->joins++;
    o->begun = false;
    for (int i = 0; i < o->branches->count; i++)
        o->state[i].begun = false;

    return rc;
}
