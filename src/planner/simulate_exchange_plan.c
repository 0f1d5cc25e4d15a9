/* What the exchanges of a plan's parameters are: their members, the links that they cross, and the
 * work of servers and members. */
#include "planner/simulate_private.h"

#include "base/os.h"
#include "planner/cost_private.h"
#include <math.h>

enum { FACTORS = 2 /* arrays: inputs of the layer, and gradients of its outputs */ };

/* What an exchange's work is computed from. */
struct work {
    const struct sw_layer_model *layer;
    enum sw_exchange_mode comm;
    bool in_memory;       /* all members compute in the memory of their hosts */
    int hosts, here;      /* hosts of the members, and members on the first of them */
    double owned;         /* parameters of a member */
    double in_one;        /* parameters that one memory, or the servers, update */
    double update_s;      /* of all the layer's parameters by one worker */
    double rows;          /* of the update, times steps */
    double product_flops; /* of the factors of one of these */
    int groups;           /* that send all workers their factors; 1: the members alone get them */
};

static double update_s(const struct work *w, double params)
{
    return w->update_s * params / (double)w->layer->params;
}

static int arrays(const struct sw_layer_model *l)
{
    return l->arrays > 1 ? l->arrays : 1;
}

static int servers(const struct sw_plansim *s)
{
    return s->plan->shape.servers > 1 ? s->plan->shape.servers : 1;
}

/* Flops per second of the product of factors: those of the backward pass if that was measured. */
static double product_rate(const struct sw_plansim *s, const struct work *w,
                           const struct sw_plansim_exchange *e)
{
    const struct sw_layer_model *l = w->layer;
    const int worker = e->members.first, together = sw_cost_together(&s->cost, worker);
    const double rows = (double)s->net->batch / e->members.count;
    const double pass_s = sw_cost_pass(&s->cost, e->layer, worker, rows, 1, together, true);

    return l->sample_count > 0 && l->backward_flops > 0 && pass_s > 0
               ? l->backward_flops * rows / (double)s->net->batch / pass_s
               : s->machine->device[worker].flops_per_s.value;
}

/* The time of the product of the factors of all rows by `makers`, beyond that of the own rows,
 * which is part of the backward pass. */
static double product_s(const struct sw_plansim *s, const struct work *w,
                        const struct sw_plansim_exchange *e, int makers)
{
    double rows = w->rows * w->groups / makers - w->rows / e->members.count;
    return sw_cost_time(fmax(rows, 0) * w->product_flops, product_rate(s, w, e));
}

static double factor_bytes(const struct work *w, const struct sw_plansim_exchange *e, double inputs)
{
    return SW_FLOAT_BYTES * w->rows / e->members.count * (inputs + w->layer->outputs);
}

/* As servers were measured to make it; 0: not measured. */
static double measured_update_s(const struct sw_plansim *s, const struct work *w,
                                const struct sw_plansim_exchange *e, bool factors)
{
    return sw_cost_measured_update(&s->cost, e->layer, factors ? 1 : e->members.count) * w->in_one /
           (double)w->layer->params;
}

/* Gradients or factors go to the servers of a host, and new values back. */
static int use_servers(struct sw_plansim *s, const struct work *w, struct sw_plansim_exchange *e,
                       int host, struct sw_err *err)
{
    const struct sw_machine_model *m = s->machine;
    bool factors = w->comm != SW_EXCHANGE_PS && !w->in_memory;
    bool shards = s->is_async && sw_plansim_is_split(s, e->layer); /* of a group on several hosts */
    double values = !w->in_memory ? w->owned : shards ? w->owned * w->here : w->in_one;
    int arrive = factors ? 1 : w->in_memory ? w->hosts : e->members.count; /* gradients */
    double touched = sw_cost_touched(&s->cost, arrive);

    e->server_host = host;
    e->up_bytes =
        factors ? factor_bytes(w, e, servers(s) * w->layer->inputs) : SW_FLOAT_BYTES * values;
    e->down_bytes = SW_FLOAT_BYTES * values;
    e->serve_s = measured_update_s(s, w, e, factors);
    if (e->serve_s == 0)
        e->serve_s = sw_cost_time(SW_FLOAT_BYTES * touched * w->in_one,
                                  m->core_bytes_per_s.value * servers(s));
    if (factors)
        e->serve_s +=
            sw_cost_time(w->rows * w->product_flops, m->core_flops_per_s.value * servers(s));
    else if (w->in_memory)
        e->sum_s =
            sw_cost_time(SW_FLOAT_BYTES * (w->here - 1) * values, s->cost.memory_bytes_per_s);

    int rc = sw_plansim_paths_get(&s->paths, SW_PLANSIM_PUSH, e->members, host, &e->up, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_plansim_paths_get(&s->paths, SW_PLANSIM_PULL, e->members, host, &e->down, err);
    if (rc != SW_OK)
        return rc;

    e->up_arrays = factors ? FACTORS * servers(s) : arrays(w->layer);
    e->down_arrays = arrays(w->layer);
    e->is_queued = e->is_mirror = e->down->copies > 0 && e->down->count > 0;
    return SW_OK;
}

/* Every worker gets the sum, or all factors; in shared memory the servers of a host get them. */
static int use_members(struct sw_plansim *s, const struct work *w, struct sw_plansim_exchange *e,
                       bool sends, struct sw_err *err)
{
    bool alone = e->members.count == 1 && w->groups == 1;
    bool factors = w->comm != SW_EXCHANGE_PS && !alone;
    int makers = !w->in_memory ? 1 : servers(s) < w->here ? servers(s) : w->here;
    double sum_s =
        factors || !w->in_memory
            ? 0
            : sw_cost_time(SW_FLOAT_BYTES * (w->here - 1) * w->in_one, s->cost.memory_bytes_per_s);
    double update = w->groups * update_s(w, w->in_memory ? w->in_one : w->owned);
    double measured_s = measured_update_s(s, w, e, factors);

    if (w->in_memory && measured_s > 0) {
        update = measured_s;
        sum_s = 0;
    }
    update += factors ? product_s(s, w, e, makers) : 0;

    *(w->in_memory ? &e->serve_s : &e->pull_s) = update;
    *(w->hosts > 1 ? &e->sum_s : &e->serve_s) += sum_s;
    if (!sends || alone)
        return SW_OK;

    e->up_bytes = factors ? factor_bytes(w, e, w->layer->inputs) : SW_FLOAT_BYTES * w->owned;
    e->up_arrays = factors ? FACTORS : arrays(w->layer);
    e->is_queued = !w->in_memory && w->hosts == 1;
    return sw_plansim_paths_get(&s->paths,
                                w->groups > 1 ? SW_PLANSIM_FACTORS_TO_ALL
                                : factors     ? SW_PLANSIM_FACTORS
                                              : SW_PLANSIM_ALLREDUCE,
                                e->members, 0, &e->up, err);
}

static struct work work_of(const struct sw_plansim *s, const struct sw_plansim_exchange *e)
{
    const struct sw_layer_model *l = &s->net->layer[e->layer];
    struct sw_layer_choice whole = {.partition = SW_PARTITION_ROWS};
    double params = (double)l->params;
    struct work w = {.layer = l, .in_memory = true, .groups = 1};

    if (s->is_async || e->members.count > 1)
        w.comm = whole.comm = s->plan->choice[e->layer].comm;

    for (int i = 0; i < e->members.count; i++) {
        int member = e->members.first + i * e->members.stride, host = s->worker[member].host;

        w.in_memory = w.in_memory && s->machine->device[member].host_memory;
        w.here += host == s->worker[e->members.first].host;
        w.hosts += i == 0 || host != s->worker[member - e->members.stride].host;
    }

    w.update_s = sw_cost_update(&s->alone, e->layer, &whole);
    w.owned = sw_plansim_is_split(s, e->layer) ? params / s->size : params;
    w.in_one = s->is_async || s->cost.group.bytes_per_s == 0 ? params : w.owned;
    w.rows = l->steps * (double)s->net->batch;
    w.product_flops = 2 * l->inputs * l->outputs;
    if (s->is_async && sw_cost_spreads_factors(&s->cost, w.comm))
        w.groups = s->groups;

    return w;
}

/* Hogwild has a server group on each host (exchange/table/sync.h). Every few steps of its slowest
 * worker group it makes a delta of its values, and adds the deltas of all others; these travel
 * meanwhile, and nobody waits for them. */
static void add_merges(const struct sw_plansim *s, const struct work *w,
                       struct sw_plansim_exchange *e)
{
    const int first = e->members.first, last = s->workers - 1;
    const int others = s->worker[last].host - s->worker[0].host;
    int sharing = 0; /* workers of the table */

    if (others == 0 || s->net->sync_period == 0)
        return;
    for (int i = 0; i < s->workers; i++)
        sharing += s->worker[i].host == s->worker[first].host;

    /* The value and the base are read, the base and the delta written; of other deltas each is read
     * and added to both. */
    const double touched = 4 + 5.0 * others;
    const double rate =
        w->in_memory ? s->cost.memory_bytes_per_s : s->machine->core_bytes_per_s.value;
    const double groups = fmax((double)sharing / e->members.count, 1);

    e->serve_s += sw_cost_time(SW_FLOAT_BYTES * touched * (double)w->layer->params,
                               rate * groups * (double)s->net->sync_period);
}

static int plan_exchange(struct sw_plansim *s, struct sw_plansim_exchange *e, struct sw_err *err)
{
    struct work w = work_of(s, e);
    int first_host = s->machine->device[0].host, host = s->worker[e->members.first].host;
    bool has_servers = w.comm == SW_EXCHANGE_ADAM ||
                       (w.comm == SW_EXCHANGE_PS && !sw_cost_devices_update(&s->cost));

    if (s->plan->shape.consistency == SW_CONSISTENCY_HOGWILD) {
        int rc = use_members(s, &w, e, false, err);
        add_merges(s, &w, e);
        return rc;
    }
    if (sw_cost_uses_server_hosts(&s->cost, e->members.count, w.comm)) {
        if (!s->is_async)
            w.in_one = w.owned;
        return use_servers(s, &w, e, s->machine->hosts, err);
    }
    if (s->is_async && sw_cost_spreads_factors(&s->cost, w.comm))
        return use_members(s, &w, e, true, err);
    if (s->is_async && (!w.in_memory || host != first_host))
        return use_servers(s, &w, e, first_host, err);
    if (!s->is_async && !w.in_memory && w.hosts == 1 && has_servers)
        return use_servers(s, &w, e, host, err);
    return use_members(s, &w, e, true, err);
}

static struct sw_plansim_members members_of(const struct sw_plansim *s, int layer, int set)
{
    const struct sw_layer_choice *c = &s->plan->choice[layer];
    bool whole = c->partition == SW_PARTITION_NONE;

    if (s->is_async)
        return (struct sw_plansim_members){set * s->size + (whole ? c->location : 0), 1,
                                           whole ? 1 : s->size};
    if (c->partition == SW_PARTITION_ROWS)
        return (struct sw_plansim_members){0, 1, s->workers};
    return (struct sw_plansim_members){whole ? c->location : set, s->size, s->groups};
}

static int count_sets(const struct sw_plansim *s, int layer)
{
    if (!sw_plansim_is_trained(s, layer))
        return 0;
    return s->is_async ? s->groups : sw_plansim_is_split(s, layer) ? s->size : 1;
}

int sw_plansim_plan_exchanges(struct sw_plansim *s, struct sw_err *err)
{
    int urgency = SW_PLANSIM_URGENCY;

    for (int l = 0; l < s->layers; l++) {
        s->first_exchange[l + 1] = s->first_exchange[l] + count_sets(s, l);
        s->urgency[l] = urgency;
        urgency += sw_plansim_is_trained(s, l);
    }
    s->exchanges = s->first_exchange[s->layers];

    s->exchange = sw_calloc((size_t)s->exchanges + 1, sizeof *s->exchange);
    if (!s->exchange)
        return sw_err_nomem(err, "exchanges", (size_t)s->exchanges * sizeof *s->exchange);

    for (int l = 0; l < s->layers; l++)
        for (int i = s->first_exchange[l]; i < s->first_exchange[l + 1]; i++) {
            int set = i - s->first_exchange[l];

            s->exchange[i] = (struct sw_plansim_exchange){.layer = l,
                                                          .group = s->is_async ? set : -1,
                                                          .members = members_of(s, l, set),
                                                          .server_host = -1};
            int rc = plan_exchange(s, &s->exchange[i], err);
            if (rc != SW_OK)
                return rc;
        }

    return SW_OK;
}
