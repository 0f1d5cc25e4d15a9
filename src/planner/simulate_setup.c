/* What a plan means for each worker: the time of its passes, its exchanges of parameters, and its
 * movements of activations. Also what the other files of the simulator share. */
#include "planner/simulate_private.h"

#include "base/os.h"
#include "base/tree.h"
#include <math.h>

#define FLOAT_BYTES ((double)sizeof(float))

/* ---- Shared ---- */

bool sw_plansim_computes(const struct sw_plansim *s, int layer, const struct sw_plansim_worker *w)
{
    const struct sw_layer_choice *c = &s->plan->choice[layer];
    return c->partition != SW_PARTITION_NONE || c->location == w->rank;
}

static bool is_split(const struct sw_plansim *s, int layer)
{
    enum sw_partition p = s->plan->choice[layer].partition;
    return p == SW_PARTITION_COLUMNS || p == SW_PARTITION_INPUTS;
}

struct sw_plansim_exchange *sw_plansim_exchange_of(const struct sw_plansim *s, int layer,
                                                   int worker)
{
    int first = s->first_exchange[layer];
    if (first == s->first_exchange[layer + 1])
        return NULL;

    if (s->is_async)
        return &s->exchange[first + s->worker[worker].group];
    return &s->exchange[first + (is_split(s, layer) ? s->worker[worker].rank : 0)];
}

void sw_plansim_wake(struct sw_plansim *s, int worker)
{
    struct sw_plansim_worker *w = &s->worker[worker];
    if (w->is_woken)
        return;

    w->is_woken = true;
    w->next_woken = s->first_woken;
    s->first_woken = worker;
}

int sw_plansim_ask(struct sw_plansim *s, const struct sw_plansim_path *path, int urgency, int owner,
                   struct sw_err *err)
{
    double wait_s = path->latency_s + sw_plansim_links_chunk_s(&s->links, path, urgency);
    struct sw_plansim_event event = {
        .time_s = s->now_s + wait_s, .kind = SW_PLANSIM_START, .index = owner};

    return sw_plansim_events_push(&s->events, event, err);
}

/* ---- Workers and their passes ---- */

static void place_worker(struct sw_plansim *s, int index)
{
    struct sw_plansim_worker *w = &s->worker[index];

    *w = (struct sw_plansim_worker){.group = index / s->size,
                                    .rank = index % s->size,
                                    .host = s->machine->device[index].host,
                                    .slow = 1,
                                    .step = 1,
                                    .serves = -1,
                                    .state = SW_PLANSIM_READY};

    for (int i = 0; i < s->args->slow_count; i++)
        if (s->args->slow[i].device == index)
            w->slow *= s->args->slow[i].factor;
}

static int64_t group_rows(const struct sw_plansim *s, int group)
{
    int64_t first, rows = s->net->batch;

    if (!s->is_async)
        sw_part(s->net->batch, s->groups, group, &first, &rows);
    return rows;
}

/* The share of `total` that worker `rank` of its group has. */
static double part_of(const struct sw_plansim *s, double total, int rank)
{
    int64_t first, count, whole = (int64_t)total;

    if (whole < s->size)
        return 1.0 / s->size;
    sw_part(whole, s->size, rank, &first, &count);
    return (double)count / (double)whole;
}

/* Workers that compute the layer in the memory of the worker, where `together` compute at all. */
static int concurrent(const struct sw_plansim *s, int layer, int worker, int together)
{
    const struct sw_layer_choice *c = &s->plan->choice[layer];
    int count = 0;

    if (c->partition != SW_PARTITION_NONE || together == 1)
        return together;
    for (int i = c->location; i < s->workers; i += s->size)
        count += s->machine->device[i].host_memory && s->worker[i].host == s->worker[worker].host;
    return count;
}

static void time_pass(struct sw_plansim *s, int layer, int worker, int together)
{
    const struct sw_layer_model *l = &s->net->layer[layer];
    const struct sw_plansim_worker *w = &s->worker[worker];
    enum sw_partition p = s->plan->choice[layer].partition;
    int64_t first, rows = group_rows(s, w->group);
    double columns = 1;
    if (!sw_plansim_computes(s, layer, w))
        return;

    if (p == SW_PARTITION_ROWS)
        sw_part(rows, s->size, w->rank, &first, &rows);
    if (is_split(s, layer))
        columns = part_of(s, p == SW_PARTITION_COLUMNS ? l->columns : l->inputs, w->rank);

    int workers = concurrent(s, layer, worker, together);
    for (int back = 0; back < 2; back++)
        s->pass_s[back][(size_t)worker * (size_t)s->layers + (size_t)layer] =
            w->slow * sw_cost_pass(&s->cost, layer, worker, (double)rows, columns, workers, back);
}

static void place_workers(struct sw_plansim *s)
{
    for (int g = 0; g < s->groups; g++)
        s->group_steps[g] = s->steps;
    for (int i = 0; i < s->workers; i++)
        place_worker(s, i);

    for (int i = 0; i < s->workers; i++) {
        int together = sw_cost_together(&s->cost, i);

        for (int l = 0; l < s->layers; l++)
            time_pass(s, l, i, together);
    }
}

/* ---- Exchanges ---- */

/* What an exchange's work is computed from. */
struct work {
    const struct sw_layer_model *layer;
    const struct sw_layer_choice *choice;
    bool in_memory;       /* all members compute in the memory of their hosts */
    int hosts, here;      /* hosts of the members, and members on the first of them */
    double owned;         /* parameters of a member */
    double in_one;        /* parameters that one memory, or the servers, update */
    double update_s;      /* of all the layer's parameters by one worker */
    double rows;          /* of the update, times steps */
    double product_flops; /* of the factors of one of these */
};

static double seconds(double amount, double rate)
{
    return rate > 0 ? amount / rate : 0;
}

static double update_s(const struct work *w, double params)
{
    return w->update_s * params / (double)w->layer->params;
}

static int servers(const struct sw_plansim *s)
{
    return s->plan->shape.servers > 1 ? s->plan->shape.servers : 1;
}

/* The time of the product of the factors of all rows by `makers`, beyond that of the own rows,
 * which is part of the backward pass. */
static double product_s(const struct sw_plansim *s, const struct work *w,
                        const struct sw_plansim_exchange *e, int makers)
{
    double rows = w->rows / makers - w->rows / e->members.count;
    return seconds(fmax(rows, 0) * w->product_flops,
                   s->machine->device[e->members.first].flops_per_s.value);
}

static double factor_bytes(const struct work *w, const struct sw_plansim_exchange *e, double inputs)
{
    return FLOAT_BYTES * w->rows / e->members.count * (inputs + w->layer->outputs);
}

/* Gradients or factors go to the servers of a host, and new values back. */
static int use_servers(struct sw_plansim *s, const struct work *w, struct sw_plansim_exchange *e,
                       int host, struct sw_err *err)
{
    const struct sw_machine_model *m = s->machine;
    bool factors = w->choice->comm != SW_EXCHANGE_PS && !w->in_memory;
    double values = w->in_memory ? w->in_one : w->owned;
    double touched = 3 + 2 * s->net->updater_slots + (factors || w->in_memory ? 0 : w->here - 1);

    e->server_host = host;
    e->up_bytes =
        factors ? factor_bytes(w, e, servers(s) * w->layer->inputs) : FLOAT_BYTES * values;
    e->down_bytes = FLOAT_BYTES * values;
    e->serve_s = seconds(FLOAT_BYTES * touched * w->in_one, m->core_bytes_per_s.value * servers(s));
    if (factors)
        e->serve_s += seconds(w->rows * w->product_flops, m->core_flops_per_s.value * servers(s));
    else if (w->in_memory)
        e->sum_s = seconds(FLOAT_BYTES * (w->here - 1) * values, s->cost.memory_bytes_per_s);

    int rc = sw_plansim_paths_get(&s->paths, SW_PLANSIM_PUSH, e->members, host, &e->up, err);
    if (rc != SW_OK)
        return rc;
    return sw_plansim_paths_get(&s->paths, SW_PLANSIM_PULL, e->members, host, &e->down, err);
}

/* Every worker gets the sum, or all factors; in shared memory the servers of a host get them. */
static int use_members(struct sw_plansim *s, const struct work *w, struct sw_plansim_exchange *e,
                       bool sends, struct sw_err *err)
{
    bool factors = w->choice->comm != SW_EXCHANGE_PS && e->members.count > 1;
    int makers = !w->in_memory ? 1 : servers(s) < w->here ? servers(s) : w->here;
    double sum_s = factors || !w->in_memory ? 0
                                            : seconds(FLOAT_BYTES * (w->here - 1) * w->in_one,
                                                      s->cost.memory_bytes_per_s);
    double update = update_s(w, w->in_memory ? w->in_one : w->owned) +
                    (factors ? product_s(s, w, e, makers) : 0);

    *(w->in_memory ? &e->serve_s : &e->pull_s) = update;
    *(w->hosts > 1 ? &e->sum_s : &e->serve_s) += sum_s;
    if (!sends || e->members.count == 1)
        return SW_OK;

    e->up_bytes = factors ? factor_bytes(w, e, w->layer->inputs) : FLOAT_BYTES * w->owned;
    return sw_plansim_paths_get(&s->paths, factors ? SW_PLANSIM_FACTORS : SW_PLANSIM_ALLREDUCE,
                                e->members, 0, &e->up, err);
}

static struct work work_of(const struct sw_plansim *s, const struct sw_plansim_exchange *e)
{
    const struct sw_layer_model *l = &s->net->layer[e->layer];
    const struct sw_layer_choice whole = {.partition = SW_PARTITION_ROWS};
    double params = (double)l->params;
    struct work w = {.layer = l, .choice = &s->plan->choice[e->layer], .in_memory = true};

    for (int i = 0; i < e->members.count; i++) {
        int member = e->members.first + i * e->members.stride, host = s->worker[member].host;

        w.in_memory = w.in_memory && s->machine->device[member].host_memory;
        w.here += host == s->worker[e->members.first].host;
        w.hosts += i == 0 || host != s->worker[member - e->members.stride].host;
    }

    w.update_s = sw_cost_layer(&s->alone, e->layer, &whole).params_s;
    w.owned = is_split(s, e->layer) ? params / s->size : params;
    w.in_one = s->is_async || s->cost.group.bytes_per_s == 0 ? params : w.owned;
    w.rows = l->steps * (double)s->net->batch;
    w.product_flops = 2 * l->inputs * l->outputs;

    return w;
}

static int plan_exchange(struct sw_plansim *s, struct sw_plansim_exchange *e, struct sw_err *err)
{
    const struct work w = work_of(s, e);
    int first_host = s->machine->device[0].host, host = s->worker[e->members.first].host;

    if (s->plan->shape.consistency == SW_CONSISTENCY_HOGWILD)
        return use_members(s, &w, e, false, err);
    if (s->is_async && (!w.in_memory || host != first_host))
        return use_servers(s, &w, e, first_host, err);
    if (!s->is_async && !w.in_memory && w.hosts == 1 &&
        (s->plan->shape.framework != SW_FRAMEWORK_ALLREDUCE || w.choice->comm == SW_EXCHANGE_ADAM))
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

static bool is_trained(const struct sw_plansim *s, int layer)
{
    return s->net->layer[layer].params > 0 && s->net->layer[layer].has_backward;
}

static int count_sets(const struct sw_plansim *s, int layer)
{
    if (!is_trained(s, layer))
        return 0;
    return s->is_async ? s->groups : is_split(s, layer) ? s->size : 1;
}

static int plan_exchanges(struct sw_plansim *s, struct sw_err *err)
{
    int urgency = 1;

    for (int l = 0; l < s->layers; l++) {
        s->first_exchange[l + 1] = s->first_exchange[l] + count_sets(s, l);
        s->urgency[l] = urgency;
        urgency += is_trained(s, l);
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

/* ---- Movements ---- */

/* The move that makes distribution d of a source; -1: it is its output. */
static int maker_of(const struct sw_plansim *s, int source, struct sw_distribution d)
{
    for (int i = 0; i < s->moves; i++)
        if (s->move[i].source == source && sw_distribution_equal(s->move[i].to, d))
            return i;
    return -1;
}

/* The lowest layer with a gradient that reads the source in distribution d; -1: none. */
static int back_reader(const struct sw_plansim *s, int source, struct sw_distribution d)
{
    for (int j = source + 1; j < s->layers; j++) {
        const struct sw_layer_model *l = &s->net->layer[j];

        for (int k = 0; k < l->source_count; k++)
            if (l->has_backward && l->source[k] == source &&
                sw_distribution_equal(sw_cost_input(&s->cost, j, k, &s->plan->choice[j]), d))
                return j;
    }

    return -1;
}

/* The path of a move in a group, and the floats of one of its units for each that moves. */
static int path_of(struct sw_plansim *s, struct sw_plansim_move *m, int group, int back,
                   double *unit, struct sw_err *err)
{
    const struct sw_distribution *from = back ? &m->to : &m->from, *to = back ? &m->from : &m->to;
    int first = group * s->size;
    double others = s->size - 1;
    struct sw_plansim_members all = {first, 1, s->size};
    enum sw_plansim_path_kind kind = SW_PLANSIM_EXCHANGE;
    int at = 0;

    *unit = 1 / (others * s->size);
    if (from->dist == SW_DIST_ONE && to->dist == SW_DIST_ONE) {
        all = (struct sw_plansim_members){first + to->at, 1, 1};
        others = 1;
    }

    if (from->dist == SW_DIST_ONE) {
        kind = SW_PLANSIM_SPREAD;
        at = first + from->at;
        *unit = 1 / others;
    } else if (to->dist == SW_DIST_ONE) {
        kind = SW_PLANSIM_COLLECT;
        at = first + to->at;
        *unit = 1 / others;
    }

    return sw_plansim_paths_get(&s->paths, kind, all, at, &m->path[back][group], err);
}

static int plan_move(struct sw_plansim *s, struct sw_plansim_move *m, struct sw_err *err)
{
    const struct sw_layer_model *source = &s->net->layer[m->source];
    const struct sw_movement_cell *cell = sw_movement_cell(m->from, m->to);
    double size = s->size, rows = (double)group_rows(s, 0), unit;
    double seconds_all = sw_cost_move(&s->cost, m->source, m->from, m->to, NULL);

    m->has_back = source->has_backward && m->back_reader >= 0;
    if (s->cost.group.bytes_per_s == 0) /* copies in the memory that all share */
        m->copy_s = source->has_backward ? seconds_all / 2 : seconds_all;

    double bytes =
        FLOAT_BYTES * rows * source->columns *
        (cell->k_minus_1 * (size - 1) + cell->k_minus_1_over_k * (size - 1) / size + cell->whole);

    for (int back = 0; back < 2; back++) {
        m->path[back] = sw_calloc((size_t)s->groups, sizeof(const struct sw_plansim_path *));
        m->crossing[back] = sw_calloc((size_t)s->groups, sizeof *m->crossing[back]);
        if (!m->path[back] || !m->crossing[back])
            return sw_err_nomem(err, "movements", (size_t)s->groups * sizeof *m->crossing[back]);

        for (int g = 0; g < s->groups; g++) {
            int rc = path_of(s, m, g, back, &unit, err);
            if (rc != SW_OK)
                return rc;
            m->bytes[back] = bytes * unit;
        }
    }

    return SW_OK;
}

static int plan_moves_to(struct sw_plansim *s, int reader, struct sw_err *err)
{
    const struct sw_layer_model *l = &s->net->layer[reader];
    struct sw_cost_connection c[2];

    for (int k = 0; k < l->source_count; k++) {
        int count = sw_cost_connections(&s->cost, s->plan, reader, k, c);

        for (int i = 0; i < count; i++) {
            if (!sw_movement_cell(c[i].from, c[i].to))
                return sw_err_set(err, SW_ERR_INVALID, "layer %s cannot read %s as they are split",
                                  l->name, s->net->layer[l->source[k]].name);

            int parent = maker_of(s, l->source[k], c[i].from);
            struct sw_plansim_move *m = sw_array_add(&s->move, &s->moves, sizeof *s->move);
            if (!m)
                return sw_err_nomem(err, "movements", (size_t)s->moves * sizeof *s->move);

            m->source = l->source[k];
            m->reader = reader;
            m->from = c[i].from;
            m->to = c[i].to;
            m->parent = parent;
            m->back_reader = back_reader(s, m->source, m->to);
            int rc = plan_move(s, m, err);
            if (rc != SW_OK)
                return rc;
        }
    }

    return SW_OK;
}

static int plan_moves(struct sw_plansim *s, struct sw_err *err)
{
    for (int l = 0; l < s->layers && s->size > 1; l++) {
        int rc = plan_moves_to(s, l, err);
        if (rc != SW_OK)
            return rc;
    }

    /* A move is made after its parent. */
    for (int i = s->moves - 1; i >= 0; i--) {
        struct sw_plansim_move *m = &s->move[i];

        m->has_back = m->has_back || m->back_children > 0;
        if (m->parent >= 0)
            s->move[m->parent].back_children += m->has_back;
    }

    return SW_OK;
}

/* ---- Links ---- */

/* Is the link the one by which a device or a host sends? */
static bool is_sender(const struct sw_machine_model *m, int link)
{
    int hub = link / 2;

    if (hub >= m->hub_count)
        return true;
    if (link % 2 || m->hub[hub].host < 0)
        return false;
    if (m->hub[hub].parent < 0 || m->hub[m->hub[hub].parent].host != m->hub[hub].host)
        return true;

    for (int i = 0; i < m->device_count; i++)
        if (m->device[i].hub == hub)
            return true;
    return false;
}

static int open_links(struct sw_plansim *s, struct sw_err *err)
{
    int links = sw_machine_model_links(s->machine), levels = 2;

    for (int i = 0; i < links; i++) {
        s->capacity[i] = sw_machine_model_rate(s->machine, i);
        if (s->args->bandwidth > 0 && is_sender(s->machine, i))
            s->capacity[i] = fmin(s->capacity[i], s->args->bandwidth);
    }
    for (int i = 0; i < s->args->slow_count; i++)
        if (s->args->slow[i].link >= 0)
            s->capacity[s->args->slow[i].link] /= s->args->slow[i].factor;

    for (int l = 0; l < s->layers; l++)
        levels += is_trained(s, l);

    int rc = sw_plansim_links_init(&s->links, s->capacity, links, levels, err);
    if (rc != SW_OK)
        return rc;
    return sw_plansim_paths_init(&s->paths, s->machine, s->capacity, s->workers, err);
}

/* ---- Life ---- */

static int allocate(struct sw_plansim *s, struct sw_err *err)
{
    size_t layers = (size_t)s->layers, workers = (size_t)s->workers;

    for (int back = 0; back < 2; back++)
        s->pass_s[back] = sw_calloc(workers * layers + 1, sizeof(double));
    s->capacity = sw_calloc((size_t)sw_machine_model_links(s->machine) + 1, sizeof *s->capacity);
    s->server_free_s = sw_calloc((size_t)s->machine->hosts + 1, sizeof *s->server_free_s);
    s->worker = sw_calloc(workers, sizeof *s->worker);
    s->first_exchange = sw_calloc(layers + 1, sizeof *s->first_exchange);
    s->urgency = sw_calloc(layers + 1, sizeof *s->urgency);
    s->group_steps = sw_calloc((size_t)s->groups, sizeof *s->group_steps);
    s->is_lost = sw_calloc((size_t)s->groups, sizeof *s->is_lost);
    s->least = sw_calloc(layers + 1, sizeof *s->least);

    if (!s->pass_s[0] || !s->pass_s[1] || !s->capacity || !s->server_free_s || !s->worker ||
        !s->first_exchange || !s->urgency || !s->group_steps || !s->is_lost || !s->least)
        return sw_err_nomem(err, "a simulation", workers * layers * sizeof(double));
    return SW_OK;
}

int sw_plansim_init(struct sw_plansim *s, const struct sw_simulation_args *args, struct sw_err *err)
{
    const struct sw_plan_shape *shape = &args->plan->shape;
    const struct sw_plan_shape alone = {.framework = SW_FRAMEWORK_ALLREDUCE,
                                        .consistency = SW_CONSISTENCY_BSP,
                                        .staleness = -1,
                                        .groups = 1,
                                        .group_size = 1,
                                        .servers = 1};

    *s = (struct sw_plansim){.args = args,
                             .net = args->net,
                             .machine = args->machine,
                             .plan = args->plan,
                             .layers = args->net->count,
                             .workers = shape->groups * shape->group_size,
                             .groups = shape->groups,
                             .size = shape->group_size,
                             .steps = args->steps ? args->steps : SW_SIMULATION_STEPS,
                             .unfinished = shape->groups,
                             .is_async = shape->consistency != SW_CONSISTENCY_BSP,
                             .first_woken = -1};

    int rc = allocate(s, err);
    if (rc != SW_OK)
        return rc;
    rc = open_links(s, err);
    if (rc != SW_OK)
        return rc;

    sw_cost_model_init(&s->cost, s->net, s->machine, shape);
    sw_cost_model_init(&s->alone, s->net, s->machine, &alone);
    place_workers(s);
    rc = plan_exchanges(s, err);
    if (rc != SW_OK)
        return rc;

    return plan_moves(s, err);
}

void sw_plansim_fini(struct sw_plansim *s)
{
    for (int i = 0; i < s->moves; i++)
        for (int back = 0; back < 2; back++) {
            sw_free(s->move[i].path[back]);
            sw_free(s->move[i].crossing[back]);
        }
    for (int i = 0; i < s->workers && s->worker; i++)
        sw_free(s->worker[i].job);

    sw_plansim_events_fini(&s->events);
    sw_plansim_links_fini(&s->links);
    sw_plansim_paths_fini(&s->paths);
    sw_free(s->move);
    sw_free(s->exchange);
    sw_free(s->least);
    sw_free(s->is_lost);
    sw_free(s->group_steps);
    sw_free(s->urgency);
    sw_free(s->first_exchange);
    sw_free(s->worker);
    sw_free(s->server_free_s);
    sw_free(s->capacity);
    sw_free(s->pass_s[0]);
    sw_free(s->pass_s[1]);
}
