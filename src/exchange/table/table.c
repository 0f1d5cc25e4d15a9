/* Getters of a table's parameters and settings. Frozen with the table; any thread. */
#include "exchange/table/table_private.h"

#include "base/str.h"
#include "optim/schedule.h"
#include <string.h>

int sw_param_whole(const struct sw_param *p, int64_t dim[SW_MAX_DIMS])
{
    memcpy(dim, p->layout.dim, sizeof p->layout.dim);
    if (p->part_whole)
        dim[p->part_dim] = p->part_whole;
    return p->layout.ndim;
}

struct sw_param_runs sw_param_runs(const struct sw_param *p)
{
    int64_t inner = 1, outer = 1;

    if (!p->part_whole)
        return (struct sw_param_runs){.count = 1, .length = sw_desc_count(&p->layout)};

    for (int i = 0; i < p->layout.ndim; i++) {
        outer *= i < p->part_dim ? p->layout.dim[i] : 1;
        inner *= i > p->part_dim ? p->layout.dim[i] : 1;
    }

    return (struct sw_param_runs){.count = outer,
                                  .length = p->layout.dim[p->part_dim] * inner,
                                  .first = p->part_first * inner,
                                  .step = p->part_whole * inner};
}

void sw_table_set_on_update(struct sw_table *t, sw_table_on_update *observer, void *user)
{
    t->observer = observer;
    t->observer_user = user;
}

int sw_table_count(const struct sw_table *t)
{
    return t->param_count;
}

int64_t sw_table_elements(const struct sw_table *t)
{
    int64_t n = 0;
    for (int i = 0; i < t->param_count; i++)
        n += sw_desc_count(&t->params[i].layout);
    return n;
}

const struct sw_param *sw_table_param(const struct sw_table *t, int index)
{
    return &t->params[index];
}

int sw_table_find(const struct sw_table *t, const char *name, int64_t part_first)
{
    for (int i = 0; i < t->param_count; i++)
        if (t->params[i].part_first == part_first && sw_str_eq(t->params[i].name, name))
            return i;
    return -1;
}

int sw_table_slices(const struct sw_table *t)
{
    return t->slice_count;
}

const struct sw_slice *sw_table_slice(const struct sw_table *t, int i)
{
    return &t->slices[i];
}

int sw_table_servers(const struct sw_table *t)
{
    return t->args.servers;
}

const struct sw_updater *sw_table_updater(const struct sw_table *t)
{
    return t->args.updater;
}

int sw_table_slots(const struct sw_table *t)
{
    return t->slots;
}

float sw_table_clip_value(const struct sw_table *t)
{
    return (float)t->args.clip_value;
}

double sw_table_clip_norm(const struct sw_table *t)
{
    return t->args.clip_norm;
}

int sw_table_param_slots(const struct sw_table *t, int param)
{
    return t->params[param].frozen ? 0 : t->slots;
}

double sw_table_rate(const struct sw_table *t, uint64_t step)
{
    const struct sw_updater_conf *c = t->args.common;
    struct sw_rate r = {.policy = t->args.schedule,
                        .conf = t->args.schedule_conf,
                        .lr = c->lr,
                        .warmup = (uint64_t)c->warmup,
                        .warmup_start = c->warmup_start,
                        .horizon_steps = t->args.horizon_steps};

    return sw_schedule_rate(&r, step - t->args.schedule_from);
}

struct sw_tensor sw_table_tensor(struct sw_table *t, int param, int slot)
{
    struct sw_param *p = &t->params[param];
    return sw_tensor_view(t->args.device, &p->layout, slot < 0 ? p->value : p->slot[slot]);
}

bool sw_table_has_slices(const struct sw_table *t, int server, int param)
{
    return t->servers[server].first[param] < t->servers[server].first[param + 1];
}

struct sw_queue *sw_table_inbox(struct sw_table *t, int server)
{
    return &t->servers[server].inbox;
}
