/* Route `constant`: a frozen parameter on a device. Its value is copied there once; there is no
 * gradient and no state. */
#include "exchange/exchange_private.h"
#include "exchange/routes/routes.h"

static bool takes(const struct sw_route_query *q)
{
    return sw_table_param(q->table, q->param)->frozen;
}

static int pull(struct sw_port *p, uint64_t version, struct sw_err *err)
{
    const struct sw_exchange_args *a = &p->x->args;

    (void)version; /* a constant has one version */
    if (p->version != SW_NEVER)
        return SW_OK;

    p->version = 0;
    return sw_copy(a->stream, p->at.value, sw_table_value(a->table, a->worker, p->param), p->bytes,
                   err);
}

const struct sw_route sw_route_constant = {
    .name = "constant", .takes = takes, .device_only = true, .pull = pull};
