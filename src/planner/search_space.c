/* Lists the options of every layer in one shape, with their costs and bytes (search_space.h). */
#include "planner/search_space.h"

#include "base/os.h"
#include <math.h>
#include <string.h>

enum { RESIDENCIES = 3 }; /* of enum sw_plan_residency */

/* ---- Places ---- */

static bool has_place(const struct sw_search_space *s, int worker)
{
    for (int p = 0; p < s->places; p++)
        if (s->place[p] == worker)
            return true;
    return false;
}

static void add_place(struct sw_search_space *s, int worker)
{
    if (worker >= 0 && worker < s->cost.shape.group_size && s->places < SW_SEARCH_PLACES &&
        !has_place(s, worker))
        s->place[s->places++] = worker;
}

/* The workers that the user names, then the first ones. */
static void find_places(struct sw_search_space *s, const int *location)
{
    for (int i = 0; i < s->cost.net->count && location; i++)
        add_place(s, location[i]);
    for (int w = 0; w < s->cost.shape.group_size; w++)
        add_place(s, w);
}

static int find_place(const struct sw_search_space *s, int worker)
{
    int place = s->places - 1;
    while (place >= 0 && s->place[place] != worker)
        place--;
    return place;
}

/* Do the workers of two ranks compute alike, in all groups? */
static bool computes_alike(const struct sw_cost_model *c, int a, int b)
{
    bool alike = true;

    for (int first = 0; first < c->workers && alike; first += c->shape.group_size) {
        const struct sw_device_model *x = &c->machine->device[first + a],
                                     *y = &c->machine->device[first + b];
        alike = x->host_memory == y->host_memory && x->threads == y->threads &&
                x->flops_per_s.value == y->flops_per_s.value &&
                x->bytes_per_s.value == y->bytes_per_s.value &&
                (x->host == y->host || !x->host_memory);
    }

    return alike;
}

static bool remembers_alike(const struct sw_search_space *s, int p, int q)
{
    const int a = s->own_memory[p], b = s->own_memory[q];
    if (a >= 0 && b >= 0)
        return s->memory[a].capacity == s->memory[b].capacity;

    bool alike = true;
    for (int m = 0; m < s->memories && alike; m++)
        alike = s->memory[m].count[p] == s->memory[m].count[q];
    return alike;
}

static bool is_named(const struct sw_search_space *s, const int *location, int worker)
{
    for (int i = 0; i < s->cost.net->count && location; i++)
        if (location[i] == worker)
            return true;
    return false;
}

static void find_classes(struct sw_search_space *s, const int *location)
{
    for (int p = 0; p < s->places; p++) {
        const int worker = s->place[p];

        s->class_of[p] = p;
        for (int q = p - 1; q >= 0 && !is_named(s, location, worker); q--)
            if (!is_named(s, location, s->place[q]) && remembers_alike(s, p, q) &&
                computes_alike(&s->cost, worker, s->place[q]))
                s->class_of[p] = s->class_of[q];
    }
}

/* ---- Memories ---- */

static bool shares_memory(const struct sw_cost_model *c, int a, int b)
{
    const struct sw_device_model *x = &c->machine->device[a], *y = &c->machine->device[b];
    return a == b || (x->host_memory && y->host_memory && x->host == y->host);
}

static bool is_first_in_memory(const struct sw_cost_model *c, int worker)
{
    int first = 0;
    while (!shares_memory(c, first, worker))
        first++;
    return first == worker;
}

/* What a worker's memory may hold: what there is, or less that the recipe allows; 0: no limit. */
static int64_t capacity_of(const struct sw_search_space *s, int worker, int64_t budget)
{
    const int64_t bytes = s->cost.machine->device[worker].memory_bytes;
    return budget > 0 && (bytes <= 0 || budget < bytes) ? budget : bytes;
}

static struct sw_search_memory memory_of(const struct sw_search_space *s, int worker,
                                         int64_t budget)
{
    const struct sw_cost_model *c = &s->cost;
    struct sw_search_memory m = {.capacity = capacity_of(s, worker, budget), .worker = worker};

    for (int w = worker; w < c->workers; w++)
        if (shares_memory(c, w, worker)) {
            const int place = find_place(s, w % c->shape.group_size);

            m.workers++;
            if (place >= 0)
                m.count[place]++;
        }

    return m;
}

static int find_memories(struct sw_search_space *s, int64_t budget, struct sw_err *err)
{
    const size_t workers = (size_t)s->cost.workers;
    s->memory = sw_calloc(workers, sizeof *s->memory);
    if (!s->memory)
        return sw_err_nomem(err, "the search of a plan", workers * sizeof *s->memory);

    for (int w = 0; w < s->cost.workers; w++) {
        if (capacity_of(s, w, budget) <= 0 || !is_first_in_memory(&s->cost, w))
            continue;

        const struct sw_search_memory m = memory_of(s, w, budget);
        int same = 0;
        while (same < s->memories && (s->memory[same].workers != m.workers ||
                                      memcmp(s->memory[same].count, m.count, sizeof m.count) != 0))
            same++;

        if (same == s->memories)
            s->memory[s->memories++] = m;
        else if (m.capacity < s->memory[same].capacity)
            s->memory[same] = m;
    }

    return SW_OK;
}

static int64_t bytes_in(const struct sw_search_space *s, const struct sw_search_memory *m,
                        int layer, const struct sw_layer_choice *choice)
{
    const struct sw_cost_model *c = &s->cost;
    int64_t bytes = 0;

    for (int w = m->worker; w < c->workers; w++) {
        if (shares_memory(c, w, m->worker))
            bytes += sw_cost_bytes(c, layer, choice, w % c->shape.group_size);
        if (!c->machine->device[w].host_memory)
            break;
    }

    return bytes;
}

/* ---- Distributions ---- */

/* The number of a distribution of the layer, which it gets the first time; -1: it has too many. */
static int code_of(struct sw_search_layer *l, struct sw_distribution d)
{
    int code = 0;
    while (code < l->codes && !sw_distribution_equal(l->dist[code], d))
        code++;

    if (code == l->codes && l->codes < SW_SEARCH_CODES)
        l->dist[l->codes++] = d;
    return code < l->codes ? code : -1;
}

/* The codes that all layers have. */
static void begin_codes(const struct sw_search_space *s, struct sw_search_layer *l)
{
    for (int d = 0; d < SW_DIST_ONE; d++)
        (void)code_of(l, (struct sw_distribution){.dist = (enum sw_dist)d});
    for (int p = 0; p < s->places; p++)
        (void)code_of(l, (struct sw_distribution){.dist = SW_DIST_ONE, .at = s->place[p]});
}

static int tabulate_moves(struct sw_search_space *s, int layer, struct sw_err *err)
{
    struct sw_search_layer *l = &s->layer[layer];
    const int n = l->codes;

    l->move = sw_calloc((size_t)n * (size_t)n, sizeof *l->move);
    if (!l->move)
        return sw_err_nomem(err, "the search of a plan", (size_t)n * (size_t)n * sizeof *l->move);

    for (int a = 0; a < n; a++)
        for (int b = 0; b < n; b++)
            l->move[a * n + b] = sw_cost_move(&s->cost, layer, l->dist[a], l->dist[b], NULL);
    return SW_OK;
}

/* ---- Options ---- */

static bool is_free(const int *limits, int layer)
{
    return !limits || limits[layer] < 0;
}

bool sw_search_may_exchange(const struct sw_cost_model *c, int layer, enum sw_exchange_mode mode,
                            bool required)
{
    const bool own_memory = !c->machine->device[0].host_memory;

    if (mode == SW_EXCHANGE_PS)
        return true;
    if (c->net->layer[layer].steps <= 0 || sw_cost_connected(c) < 2)
        return false;
    if (mode == SW_EXCHANGE_SFB)
        return !own_memory || (sw_cost_spreads_factors(c, mode) &&
                               (required || !sw_cost_factors_take_too_much(c, layer)));
    return own_memory ? !sw_cost_devices_update(c)
                      : required; /* in shared memory it is the same as sfb */
}

/* Without an option that has a distribution for which there is no code, the search is not exact. */
static void add_option(struct sw_search_space *s, int layer, struct sw_layer_choice choice)
{
    struct sw_search_layer *l = &s->layer[layer];
    const struct sw_layer_model *model = &s->cost.net->layer[layer];
    const struct sw_layer_cost cost = sw_cost_layer(&s->cost, layer, &choice);
    struct sw_search_option o = {.choice = choice,
                                 .place = -1,
                                 .seconds = cost.compute_s + cost.params_s,
                                 .output = code_of(l, sw_cost_output(&s->cost, &choice))};
    bool coded = o.output >= 0;

    if (choice.partition == SW_PARTITION_NONE)
        o.place = find_place(s, choice.location);
    for (int k = 0; k < model->source_count; k++) {
        o.input[k] =
            code_of(&s->layer[model->source[k]], sw_cost_input(&s->cost, layer, k, &choice));
        coded = coded && o.input[k] >= 0;
    }

    if (coded)
        l->option[l->options++] = o;
    else
        s->dropped = true;
}

static void add_rows(struct sw_search_space *s, int layer, const struct sw_search_limits *limits)
{
    const bool free = is_free(limits->comm, layer);
    const enum sw_exchange_mode wish =
        free ? limits->net_comm : (enum sw_exchange_mode)limits->comm[layer];
    const bool trains_alone = sw_cost_connected(&s->cost) == 1;
    struct sw_layer_choice choice = {.partition = SW_PARTITION_ROWS};

    for (enum sw_exchange_mode mode = SW_EXCHANGE_PS; mode < SW_EXCHANGE_AUTO; mode++) {
        if (wish != SW_EXCHANGE_AUTO && mode != wish)
            continue;

        choice.comm = mode;
        if (sw_search_may_exchange(&s->cost, layer, mode, wish == mode))
            add_option(s, layer, choice);
        else if (wish == mode && (free || trains_alone)) {
            choice.comm = SW_EXCHANGE_PS;
            add_option(s, layer, choice);
        }
    }
}

static bool may_split(const struct sw_search_space *s, int layer, enum sw_partition p,
                      const struct sw_search_limits *limits)
{
    const struct sw_net_model *net = s->cost.net;
    const int size = s->cost.shape.group_size;

    if (size == 1)
        return p == SW_PARTITION_ROWS &&
               (is_free(limits->location, layer) || limits->location[layer] == 0);
    if (!is_free(limits->partition, layer) && limits->partition[layer] != (int)p)
        return false;
    if (!is_free(limits->location, layer) && p != SW_PARTITION_NONE)
        return false;
    if (!is_free(limits->comm, layer) && limits->comm[layer] != SW_EXCHANGE_PS &&
        limits->comm[layer] != SW_EXCHANGE_AUTO && p != SW_PARTITION_ROWS)
        return false;
    return p == SW_PARTITION_ROWS ||
           (!net->layer[layer].is_input && !net->refuses(net, layer, p, size));
}

static int add_options(struct sw_search_space *s, int layer, const struct sw_search_limits *limits,
                       struct sw_err *err)
{
    const size_t most = RESIDENCIES * (SW_EXCHANGE_MODES + 2 + SW_SEARCH_PLACES);
    s->layer[layer].option = sw_calloc(most, sizeof *s->layer[layer].option);
    if (!s->layer[layer].option)
        return sw_err_nomem(err, "the search of a plan", most * sizeof *s->layer[layer].option);

    if (may_split(s, layer, SW_PARTITION_ROWS, limits))
        add_rows(s, layer, limits);
    for (enum sw_partition p = SW_PARTITION_COLUMNS; p <= SW_PARTITION_INPUTS; p++)
        if (may_split(s, layer, p, limits))
            add_option(s, layer, (struct sw_layer_choice){.partition = p});

    for (int p = 0; p < s->places && may_split(s, layer, SW_PARTITION_NONE, limits); p++)
        if (is_free(limits->location, layer) || limits->location[layer] == s->place[p])
            add_option(
                s, layer,
                (struct sw_layer_choice){.partition = SW_PARTITION_NONE, .location = s->place[p]});

    s->layer[layer].kept = s->layer[layer].options;
    return SW_OK;
}

/* Adds the options in which the layer's output does not stay in memory until backward. */
static void add_restored(struct sw_search_space *s, int layer)
{
    const struct sw_layer_model *model = &s->cost.net->layer[layer];
    const struct sw_search_layer *l = &s->layer[layer];

    for (int k = 0; k < l->kept && model->output_bytes > 0; k++) {
        struct sw_layer_choice choice = l->option[k].choice;

        choice.residency = SW_PLAN_RECOMPUTED;
        if (model->may_recompute)
            add_option(s, layer, choice);
        choice.residency = SW_PLAN_OFFLOADED;
        if (model->may_offload && s->cost.host.bytes_per_s > 0)
            add_option(s, layer, choice);
    }
}

static int count_bytes(struct sw_search_space *s, struct sw_err *err)
{
    size_t options = 0;
    for (int i = 0; i < s->cost.net->count; i++)
        options += (size_t)s->layer[i].options;

    s->bytes = sw_calloc(options * (size_t)s->memories + 1, sizeof *s->bytes);
    if (!s->bytes)
        return sw_err_nomem(err, "the search of a plan", options * sizeof *s->bytes);

    int64_t *at = s->bytes;
    for (int i = 0; i < s->cost.net->count; i++)
        for (int k = 0; k < s->layer[i].options; k++) {
            struct sw_search_option *o = &s->layer[i].option[k];

            o->bytes = at;
            for (int m = 0; m < s->memories; m++)
                *at++ = bytes_in(s, &s->memory[m], i, &o->choice);
        }

    return SW_OK;
}

/* The most bytes that the options of all layers can need in a memory. */
static int64_t most_bytes(const struct sw_search_space *s, const struct sw_search_memory *m)
{
    int64_t bytes = m->workers * s->cost.net->fixed_bytes;

    for (int i = 0; i < s->cost.net->count; i++) {
        int64_t most = 0;

        for (int k = 0; k < s->layer[i].options; k++) {
            const int64_t option = bytes_in(s, m, i, &s->layer[i].option[k].choice);
            most = option > most ? option : most;
        }
        bytes += most;
    }

    return bytes;
}

static void forget_large_memories(struct sw_search_space *s)
{
    int kept = 0;

    for (int m = 0; m < s->memories; m++)
        if (most_bytes(s, &s->memory[m]) > s->memory[m].capacity)
            s->memory[kept++] = s->memory[m];
    s->memories = kept;
}

static void find_own_memories(struct sw_search_space *s)
{
    for (int p = 0; p < s->places; p++) {
        s->own_memory[p] = -1;
        for (int m = 0; m < s->memories; m++)
            if (s->memory[m].workers == 1 && s->memory[m].count[p] == 1)
                s->own_memory[p] = m;
    }
}

static void find_readers(struct sw_search_space *s)
{
    const struct sw_net_model *net = s->cost.net;

    for (int i = 0; i < net->count; i++) {
        s->layer[i].last_reader = -1;
        for (int k = 0; k < net->layer[i].source_count; k++)
            s->layer[net->layer[i].source[k]].last_reader = i;
    }

    for (int i = 0; i < net->count; i++) {
        int open = 0;

        for (int j = 0; j < i; j++)
            open += s->layer[j].last_reader >= i;
        s->most_open = open > s->most_open ? open : s->most_open;
    }
}

static int fill(struct sw_search_space *s, const struct sw_search_limits *limits,
                struct sw_err *err)
{
    const struct sw_net_model *net = s->cost.net;

    find_readers(s);
    find_places(s, limits->location);
    for (int i = 0; i < net->count; i++)
        begin_codes(s, &s->layer[i]);

    int rc = SW_OK;
    for (int i = 0; i < net->count && rc == SW_OK; i++)
        rc = add_options(s, i, limits, err);
    for (int i = 0; i < net->count && rc == SW_OK; i++)
        rc = tabulate_moves(s, i, err);
    if (rc == SW_OK && !limits->any_memory)
        rc = find_memories(s, limits->budget_bytes, err);
    if (rc != SW_OK)
        return rc;

    s->blocked = -1;
    for (int i = net->count - 1; i >= 0; i--)
        s->blocked = s->layer[i].options == 0 ? i : s->blocked;

    forget_large_memories(s);
    for (int i = 0; i < net->count && s->memories > 0 && limits->budget_bytes >= 0; i++)
        add_restored(s, i);

    find_own_memories(s);
    find_classes(s, limits->location);
    return count_bytes(s, err);
}

int sw_search_space_new(const struct sw_net_model *net, const struct sw_machine_model *machine,
                        const struct sw_plan_shape *shape, const struct sw_search_limits *limits,
                        struct sw_search_space **out, struct sw_err *err)
{
    struct sw_search_space *s = sw_calloc(1, sizeof *s);
    struct sw_search_layer *layers = sw_calloc((size_t)net->count + 1, sizeof *layers);
    if (!s || !layers) {
        sw_free(s);
        sw_free(layers);
        return sw_err_nomem(err, "the search of a plan", (size_t)net->count * sizeof *layers);
    }

    s->layer = layers;
    sw_cost_model_init(&s->cost, net, machine, shape);

    int rc = fill(s, limits, err);
    if (rc == SW_OK)
        *out = s;
    else
        sw_search_space_free(s);
    return rc;
}

void sw_search_space_free(struct sw_search_space *s)
{
    if (!s)
        return;

    for (int i = 0; i < s->cost.net->count; i++) {
        sw_free(s->layer[i].option);
        sw_free(s->layer[i].move);
    }
    sw_free(s->layer);
    sw_free(s->memory);
    sw_free(s->bytes);
    sw_free(s);
}
