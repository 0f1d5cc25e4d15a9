/* Prepares the additive cost of a net on a machine: the throughput that each worker has when all of
 * its kind send at once, and the speed of the slowest worker. The exchange is taken to be even: a
 * worker sends as much to each of the others. A link that P of the ordered pairs of n workers cross
 * then lets each worker send at (n - 1) / P of its throughput. */
#include "planner/cost_private.h"

#include "plan/choices.h"

#include <math.h>

/* The workers are divided into sets that exchange at the same time: worker i of set k computes on
 * device k * step + i * stride. */
struct pattern {
    int sets, step, count, stride;
    bool staged; /* they exchange by way of host memory */
};

static int member(const struct pattern *p, int set, int i)
{
    return set * p->step + i * p->stride;
}

static bool is_below(const struct sw_machine_model *m, int device, int hub)
{
    int h = m->device[device].hub;
    while (h > hub)
        h = m->hub[h].parent;
    return h == hub;
}

static bool share_memory(const struct sw_machine_model *m, int a, int b)
{
    const struct sw_device_model *x = &m->device[a], *y = &m->device[b];
    return x->host_memory && y->host_memory && x->host == y->host;
}

int sw_cost_together(const struct sw_cost_model *c, int device)
{
    int count = 1;

    for (int d = 0; d < c->workers && c->machine->device[device].host_memory; d++)
        count += d != device && share_memory(c->machine, d, device);
    return count;
}

/* Does data between two devices below the hub go up to the host's memory and down again? */
static bool relays(const struct sw_machine_model *m, const struct pattern *p, int hub)
{
    return (p->staged || !m->peers) && m->hub[hub].host >= 0 && !m->hub[hub].memory;
}

static int set_of(const struct pattern *p, int device)
{
    if (device >= p->sets * p->count)
        return -1;
    return p->stride == 1 ? device / p->count : device % p->sets;
}

/* Do both devices of a pair belong to one set? */
static bool has_pair(const struct pattern *p, const struct sw_pair_model *pair)
{
    const int set = set_of(p, pair->a);
    return set >= 0 && set == set_of(p, pair->b);
}

/* Ordered pairs of workers whose data crosses a hub's link upwards. */
static double crossings(const struct sw_machine_model *m, const struct pattern *p, int hub)
{
    double pairs = 0;

    for (int set = 0; set < p->sets; set++) {
        int below = 0;

        for (int i = 0; i < p->count; i++)
            below += is_below(m, member(p, set, i), hub);
        pairs += (double)below * (relays(m, p, hub) ? p->count - 1 : p->count - below);
    }

    for (int i = 0; i < m->pair_count && pairs > 0 && !p->staged; i++) {
        const bool a = is_below(m, m->pair[i].a, hub), b = is_below(m, m->pair[i].b, hub);
        if ((a || b) && has_pair(p, &m->pair[i]))
            pairs -= relays(m, p, hub) ? a + b : a != b;
    }

    return pairs;
}

static struct sw_cost_link link_of(const struct sw_machine_model *m, const struct pattern *p)
{
    struct sw_cost_link link = {.bytes_per_s = (double)INFINITY};
    bool sends = false;

    for (int h = 0; h < m->hub_count && p->count > 1; h++) {
        const double pairs = crossings(m, p, h), copies = relays(m, p, h) ? 2 : 1;
        if (pairs <= 0)
            continue;

        const double rate = sw_machine_model_rate(m, 2 * h) * (p->count - 1) / pairs / copies;
        link.bytes_per_s = fmin(link.bytes_per_s, rate);
        sends = true;
    }

    for (int i = 0; i < m->pair_count && !p->staged; i++)
        if (has_pair(p, &m->pair[i])) {
            const double rate = sw_machine_model_rate(m, 2 * (m->hub_count + i));
            link.bytes_per_s = fmin(link.bytes_per_s, rate * (p->count - 1));
            sends = true;
        }

    for (int i = 1; i < p->count; i++) {
        const int a = member(p, 0, 0), b = member(p, 0, i);
        const struct sw_model_path path =
            p->staged ? sw_machine_model_staged_path(m, a, b) : sw_machine_model_path(m, a, b);
        link.latency_s = fmax(link.latency_s, path.latency_s);
    }

    return sends ? link : (struct sw_cost_link){0};
}

/* Workers whose way to the servers crosses a link: those below it on the way up, all of other hosts
 * on the way down. Workers of an update that compute in one memory send their sum. */
static int users_of(const struct sw_cost_model *c, int link, int server_host)
{
    int count = 0;

    for (int d = 0; d < c->workers; d++) {
        const bool same_group = !c->is_async || d % c->shape.group_size > 0;
        if (d > 0 && same_group && share_memory(c->machine, d - 1, d))
            continue;

        count += link % 2 ? c->machine->device[d].host != server_host
                          : is_below(c->machine, d, link / 2);
    }

    return count;
}

/* Between each worker and the memory of a host; -1: of its own. */
static struct sw_cost_link link_to_memory(const struct sw_cost_model *c, int at)
{
    const struct sw_machine_model *m = c->machine;
    struct sw_cost_link link = {.bytes_per_s = (double)INFINITY};
    bool sends = false;

    for (int d = 0; d < c->workers; d++) {
        const int host = at >= 0 ? at : m->device[d].host;
        const struct sw_model_path path = sw_machine_model_to_host(m, d, host);

        for (int i = 0; i < path.count; i++) {
            const double rate = sw_machine_model_rate(m, path.link[i]);
            link.bytes_per_s = fmin(link.bytes_per_s, rate / users_of(c, path.link[i], host));
        }
        link.latency_s = fmax(link.latency_s, path.latency_s);
        sends = sends || path.count > 0;
    }

    return sends ? link : (struct sw_cost_link){0};
}

/* The host of the servers: those of synchronous workers, and of hogwild, are on every host, -1;
 * those of other asynchronous groups on the first; unless there are hosts for servers. */
static int server_host(const struct sw_cost_model *c)
{
    if (c->shape.consistency == SW_CONSISTENCY_HOGWILD)
        return -1;
    if (c->machine->server_hosts > 0)
        return c->machine->hosts;
    return c->is_async ? c->machine->device[0].host : -1;
}

/* As plan/copy_mode.c and plan/reduce.c choose for the workers of a host. */
static bool find_updates(const struct sw_cost_model *c)
{
    const struct sw_machine_model *m = c->machine;
    struct sw_topology t = {.binds_servers =
                                sw_framework_binds(c->shape.framework, c->net->copy.bind_servers),
                            .is_async = c->is_async};

    while (t.workers < c->workers && m->device[t.workers].host == m->device[0].host)
        t.workers++;

    return !m->device[0].host_memory && !m->mirrors && c->shape.groups == 1 &&
           !sw_copy_why_servers(&c->net->copy, &t) &&
           (c->workers == 1 || !sw_reduce_why_servers(&t));
}

/* As plan/exchange_modes.c decides. Server hosts are hosts of the job. */
static const char *why_no_factors(const struct sw_cost_model *c)
{
    const struct sw_topology t = {.consistency = c->shape.consistency,
                                  .staleness = c->shape.staleness,
                                  .hosts = sw_cost_hosts(c) + c->machine->server_hosts,
                                  .server_groups = 1,
                                  .warmup_steps = c->shape.groups > 1 ? c->net->warmup_steps : 0};

    if (c->machine->device[0].host_memory)
        return NULL;
    if (c->is_async && sw_factors_why_not_async(&t))
        return sw_factors_why_not_async(&t);
    return c->net->controls_updates ? "an option needs all gradients before any update" : NULL;
}

static double slower(double known, double other)
{
    return other > 0 && (known == 0 || other < known) ? other : known;
}

void sw_cost_model_init(struct sw_cost_model *c, const struct sw_net_model *net,
                        const struct sw_machine_model *machine, const struct sw_plan_shape *shape)
{
    const int groups = shape->groups, size = shape->group_size, workers = groups * size;

    *c = (struct sw_cost_model){.net = net,
                                .machine = machine,
                                .shape = *shape,
                                .workers = workers,
                                .is_async = shape->consistency != SW_CONSISTENCY_BSP};

    const bool staged = machine->mirrors;
    c->group = link_of(machine, &(struct pattern){groups, size, size, 1, staged});
    c->moves = link_of(machine, &(struct pattern){groups, size, size, 1, true});
    c->all = groups == 1 ? c->group : link_of(machine, &(struct pattern){1, 0, workers, 1, staged});
    c->across = link_of(machine, &(struct pattern){size, 1, groups, size, staged});
    c->servers = link_to_memory(c, server_host(c));
    c->host = link_to_memory(c, -1);
    c->devices_update = find_updates(c);
    c->why_no_factors = why_no_factors(c);

    for (int d = 0; d < workers; d++) {
        const double bytes_per_s = machine->device[d].bytes_per_s.value;

        c->flops_per_s = slower(c->flops_per_s, machine->device[d].flops_per_s.value);
        c->memory_bytes_per_s = slower(c->memory_bytes_per_s, bytes_per_s);
        c->bytes_per_s = slower(c->bytes_per_s,
                                sw_cost_memory_rate(&machine->device[d], machine->device[d].threads,
                                                    sw_cost_together(c, d)));
    }
}
