/* Route `server-sum`: servers sum the gradients of all workers in host memory, and every device
 * makes the same update with a copy of the sum, which replaces the device's own gradient. */
#include "exchange/exchange_private.h"
#include "exchange/routes/routes.h"

static bool takes(const struct sw_route_query *q)
{
    return q->copy == SW_COPY_NONE &&
           sw_table_reduction(q->table, q->param) == SW_REDUCTION_SERVERS;
}

static void fetch(const struct sw_port *p, struct sw_copy_event *e)
{
    e->dst = p->at.gradient;
    e->src = sw_table_param(sw_port_table(p), p->param)->sum;
    e->after = p->sent; /* the worker's own gradient has left the device by then */
}

const struct sw_route sw_route_server_sum = {.name = "server-sum",
                                             .takes = takes,
                                             .updates_on_device = true,
                                             .arrays = sw_partials_of_port,
                                             .copies = sw_copies_of_port,
                                             .push = sw_push_partials,
                                             .wait = sw_wait_for_table,
                                             .pull = sw_fetch,
                                             .fetch = fetch};
