/* Route `local`: the device updates a parameter that has gradients on no other worker as soon as
 * its gradient is complete. Nothing is copied, and a push is an operation of the step itself. */
#include "exchange/exchange_private.h"
#include "exchange/routes/routes.h"

static bool takes(const struct sw_route_query *q)
{
    return q->copy == SW_COPY_NONE && sw_table_reduction(q->table, q->param) == SW_REDUCTION_NONE;
}

static int queue_push(struct sw_port *p, struct sw_err *err)
{
    return p->x->control->two_phase ? SW_OK : sw_device_update_queue(p, err);
}

static int push(struct sw_port *p, uint64_t version, struct sw_err *err)
{
    if (!p->x->control->two_phase)
        p->version = (int64_t)version;
    return SW_OK;
}

const struct sw_route sw_route_local = {.name = "local",
                                        .takes = takes,
                                        .updates_on_device = true,
                                        .device_only = true,
                                        .arrays = sw_partials_of_port,
                                        .queue_push = queue_push,
                                        .push = push};
