/* Route `local`: the device updates a parameter that has gradients on no other worker. Nothing is
 * copied; one operation of the step itself, after the last backward pass, updates all of them. */
#include "exchange/exchange_private.h"
#include "exchange/routes/routes.h"

static bool takes(const struct sw_route_query *q)
{
    return q->copy == SW_COPY_NONE && sw_table_reduction(q->table, q->param) == SW_REDUCTION_NONE;
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
                                        .updates_together = true,
                                        .device_only = true,
                                        .arrays = sw_partials_of_port,
                                        .push = push};
