/* The contributors of a parameter's updates: which workers make an update group, what each reads,
 * and how its leaves of the reduction tree are grouped into partial sums. Frozen with the table;
 * any thread. */
#include "exchange/table/table_private.h"

void sw_table_leaves(const struct sw_table *t, int worker, int *first, int *count)
{
    int64_t from, leaves;
    sw_part(t->leaves, t->update_group_size, worker % t->update_group_size, &from, &leaves);
    *first = (int)from;
    *count = (int)leaves;
}

int sw_table_update_groups(const struct sw_table *t)
{
    return t->update_groups;
}

int sw_table_update_group(const struct sw_table *t, int worker)
{
    return worker / t->update_group_size;
}

int64_t sw_table_staleness_bound(const struct sw_table *t)
{
    return t->args.staleness;
}

const float *sw_table_value(const struct sw_table *t, int worker, int param)
{
    return t->params[param].view[sw_table_update_group(t, worker)].value;
}

int sw_table_contributors(const struct sw_table *t, int param)
{
    return t->params[param].contributors * t->local_groups;
}

enum sw_reduction sw_table_reduction(const struct sw_table *t, int param)
{
    const struct sw_table_factors *f = sw_table_factors_of(t, param);
    int contributors = sw_table_contributors(t, param);

    if (f && f->home == SW_FACTORS_EXCHANGED)
        return SW_REDUCTION_FACTORS;
    if (contributors == 0 ||
        (contributors == 1 && t->args.updates_on_device && !sw_table_has_outer(t)))
        return SW_REDUCTION_NONE;

    return t->args.sums_on_device ? SW_REDUCTION_DEVICES : SW_REDUCTION_SERVERS;
}

void sw_table_reduce_on_servers(struct sw_table *t)
{
    t->args.sums_on_device = false;
}

bool sw_table_contributes(const struct sw_table *t, int param, int worker)
{
    const struct sw_param *p = &t->params[param];
    return !p->frozen && (p->owner < 0 || p->owner == worker % t->group_workers);
}

int sw_table_partials(const struct sw_table *t, int worker)
{
    return t->first_partial[worker + 1] - t->first_partial[worker];
}

struct sw_table_partial sw_table_partial(const struct sw_table *t, int worker, int param,
                                         int partial)
{
    int n = t->first_partial[worker] + partial;
    int in_group = n % t->first_partial[t->update_group_size], first, count;

    sw_table_leaves(t, worker, &first, &count);
    return (struct sw_table_partial){
        .from = partial == 0 ? first : t->partial_end[in_group - 1],
        .to = t->partial_end[in_group],
        .gradient = t->params[param].factors < 0 ? t->params[param].gradient[n] : NULL};
}
