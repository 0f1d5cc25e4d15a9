/* Route `mirror`: the table has the parameter, and the device a copy of its value. Partial sums of
 * gradients are copied to the table while lower layers compute, and the servers are notified when
 * they have arrived. A value is copied back before the forward pass that reads it, lowest layers
 * first. */
#include "exchange/exchange_private.h"
#include "exchange/routes/routes.h"

/* The last row of the registry accepts everything that no other route accepts. */
static bool takes(const struct sw_route_query *q)
{
    return true;
}

static void fetch(const struct sw_port *p, struct sw_copy_event *e)
{
    e->dst = p->at.value;
    e->src = sw_table_value(sw_port_table(p), p->x->args.worker, p->param);
    e->after = p->made;
}

const struct sw_route sw_route_mirror = {.name = "mirror",
                                         .takes = takes,
                                         .arrays = sw_partials_of_port,
                                         .copies = sw_copies_of_port,
                                         .push = sw_push_partials,
                                         .wait = sw_wait_for_table,
                                         .pull = sw_fetch,
                                         .fetch = fetch};
