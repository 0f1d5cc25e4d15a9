/* What others ask of a plan. The contracts are in planner/planned.h and
 * planner/planned_private.h. */
#include "planner/planned_private.h"

#include <math.h>

double sw_planned_sample_s(const struct sw_planned *out, const struct sw_parallel_plan *p)
{
    return p->time.step_s / (double)sw_planned_samples(out->net, &p->shape);
}

int sw_planned_hosts_of(const struct sw_machine_model *m, int workers)
{
    int hosts = 1;

    for (int w = 1; w < workers; w++)
        hosts += m->device[w].host != m->device[w - 1].host;
    return hosts;
}

int64_t sw_planned_samples(const struct sw_net_model *net, const struct sw_plan_shape *shape)
{
    return net->batch * (shape->consistency == SW_CONSISTENCY_BSP ? 1 : shape->groups);
}

double sw_planned_speed_up(const struct sw_planned *p)
{
    const double samples = (double)sw_planned_samples(p->net, &p->best.shape);

    return p->one_worker_s / p->best.time.step_s * samples / (double)p->net->batch;
}

double sw_planned_busy(const double *busy, int hub)
{
    return fmax(busy[2 * hub], busy[2 * hub + 1]);
}

int sw_planned_hosts(const struct sw_planned *p)
{
    return sw_planned_hosts_of(p->machine, p->best.workers);
}

bool sw_planned_exchanges(const struct sw_net_model *net, const struct sw_parallel_plan *p,
                          int layer)
{
    return p->workers > 1 && net->layer[layer].params > 0 && net->layer[layer].has_backward &&
           p->choice[layer].partition == SW_PARTITION_ROWS;
}

bool sw_planned_same_choice(const struct sw_layer_choice *a, const struct sw_layer_choice *b)
{
    return a->partition == b->partition && a->location == b->location && a->comm == b->comm &&
           a->residency == b->residency;
}

enum sw_exchange_mode sw_planned_wished_comm(const struct sw_search_limits *l, int layer)
{
    return l->comm && l->comm[layer] >= 0 ? (enum sw_exchange_mode)l->comm[layer] : l->net_comm;
}

bool sw_planned_obeys(const struct sw_search_limits *l, const struct sw_parallel_plan *p,
                      const struct sw_net_model *net, int i)
{
    const struct sw_layer_choice *c = &p->choice[i];
    const bool exchanges = sw_planned_exchanges(net, p, i) && net->layer[i].steps > 0;
    const enum sw_exchange_mode comm = sw_planned_wished_comm(l, i);

    return (!l->partition || l->partition[i] < 0 || l->partition[i] == (int)c->partition) &&
           (!l->location || l->location[i] < 0 ||
            (c->partition == SW_PARTITION_NONE && l->location[i] == c->location)) &&
           (!exchanges || comm == SW_EXCHANGE_AUTO || comm == c->comm);
}
