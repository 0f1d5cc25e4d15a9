/* Route `table`: worker and table share host memory. The worker writes partial sums, or factors,
 * where the table reads them, and a push is a message or a counter; the table's consistency rule
 * (bsp, async, hogwild) decides what happens next. Values are read in place, or in the update
 * group's buffer. */
#include "exchange/exchange_private.h"
#include "exchange/routes/routes.h"

static bool takes(const struct sw_route_query *q)
{
    return !q->own_memory;
}

static void bind(const struct sw_port *p, struct sw_exchange_binding *out)
{
    const struct sw_exchange_args *a = &p->x->args;
    const struct sw_table_factors *f = sw_table_factors_of(a->table, p->param);

    out->value = sw_table_value(a->table, a->worker, p->param);
    for (int k = 0; k < out->partials; k++)
        out->partial[k] = sw_table_partial(a->table, a->worker, p->param, k).gradient;
    out->listed = sw_table_row_list(a->table, a->worker, p->param);
    if (!f)
        return;

    int group = sw_table_update_group(a->table, a->worker);
    int64_t row = p->x->first_row * f->steps;
    out->x = sw_table_factor_x(a->table, f, group, 0) + row * f->inputs;
    out->dy = sw_table_factor_dy(a->table, f, group, 0) + row * f->outputs;
}

static int push(struct sw_port *p, uint64_t version, struct sw_err *err)
{
    return sw_table_update(p->x->args.table, p->x->args.worker, p->param, version, err);
}

const struct sw_route sw_route_table = {
    .name = "table", .takes = takes, .bind = bind, .push = push, .wait = sw_wait_for_table};
