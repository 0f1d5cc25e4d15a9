/* ctest-timeout: 120
 * The search of plans equals enumeration (tech report, Algorithm 2) on small random nets and
 * machines, within their memory; better machines have no worse plans; nets of full size; wishes
 * that cannot be met. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "planner/search.h"
#include "unit/faulty_os.h"
#include "unit/planner/planner_support.h"
#include <math.h>
#include <string.h>

enum { RANDOM_CASES = 300, ASYNC_CASES = 150, BETTER_CASES = 100 };

static const struct sw_search_limits no_limits = {.staleness = -1, .net_comm = SW_EXCHANGE_AUTO};

static struct sw_search_result search(const struct planner_net *n, const struct planner_machine *m,
                                      const struct sw_search_limits *limits)
{
    struct sw_search_result result;
    struct sw_err err;

    if (sw_search(&n->model, &m->model, limits, &result, &err) != SW_OK)
        fail_msg("%s", err.text);
    return result;
}

static bool is_close(double a, double b)
{
    return fabs(a - b) <= 1e-9 * fmax(fabs(a), fabs(b));
}

/* ---- Enumeration ---- */

/* All plans of one shape, layer by layer. */
struct enumeration {
    const struct sw_search_result *result; /* of the search */
    double tenth_s;                        /* the most that a plan among the best costs */
    struct sw_cost_model cost;
    struct sw_parallel_plan plan;
    int64_t plans, fitting;
    double best_s;
    bool restores;     /* also plans with memory = fit */
    int64_t staleness; /* of asynchronous groups; -1: synchronous plans */
};

static bool is_similar(const struct sw_parallel_plan *a, const struct sw_parallel_plan *b)
{
    int to[PLANNER_DEVICES], from[PLANNER_DEVICES];

    if (a->shape.framework != b->shape.framework || a->shape.groups != b->shape.groups ||
        a->shape.group_size != b->shape.group_size)
        return false;

    for (int w = 0; w < a->shape.group_size; w++)
        to[w] = from[w] = -1;
    for (int i = 0; i < a->layers; i++) {
        const struct sw_layer_choice *x = &a->choice[i], *y = &b->choice[i];
        if (x->partition != y->partition || x->comm != y->comm)
            return false;
        if (x->partition != SW_PARTITION_NONE)
            continue;

        if (to[x->location] < 0 && from[y->location] < 0) {
            to[x->location] = y->location;
            from[y->location] = x->location;
        }
        if (to[x->location] != y->location)
            return false;
    }

    return true;
}

static bool keeps_all(const struct sw_parallel_plan *p)
{
    for (int i = 0; i < p->layers; i++)
        if (p->choice[i].residency != SW_PLAN_KEPT)
            return false;
    return true;
}

/* A plan without memory = fit that is better than the last one of the search's must be among these,
 * up to an exchange of workers that are alike. */
static void take_leaf(struct enumeration *e, double seconds)
{
    bool found = false;

    e->plans++;
    if (sw_cost_overfull(&e->cost, &e->plan) >= 0)
        return;

    e->fitting++;
    e->best_s = fmin(e->best_s, seconds);
    if (seconds >= e->tenth_s * (1 - 1e-9) || !keeps_all(&e->plan))
        return;
    for (int i = 0; i < e->result->count && !found; i++)
        found = is_close(e->result->plan[i].additive_s, seconds) &&
                is_similar(&e->result->plan[i], &e->plan);
    if (!found)
        fail_msg("a plan of %.17g s is not among the best, of which the last takes %.17g s",
                 seconds, e->tenth_s);
}

static void enumerate_layer(struct enumeration *e, int layer, double seconds);

static void try_residency(struct enumeration *e, int layer, double seconds,
                          struct sw_layer_choice choice)
{
    struct sw_parallel_plan *p = &e->plan;

    p->choice[layer] = choice;
    for (int w = 0; w < p->workers; w++)
        p->device_bytes[w] += sw_cost_bytes(&e->cost, layer, &choice, w % p->shape.group_size);

    const struct sw_layer_cost cost = sw_cost_layer_in(&e->cost, p, layer);
    enumerate_layer(e, layer + 1, seconds + cost.compute_s + cost.params_s + cost.activations_s);

    for (int w = 0; w < p->workers; w++)
        p->device_bytes[w] -= sw_cost_bytes(&e->cost, layer, &choice, w % p->shape.group_size);
}

static void try_choice(struct enumeration *e, int layer, double seconds,
                       struct sw_layer_choice choice)
{
    const struct sw_layer_model *l = &e->cost.net->layer[layer];
    const bool holds = e->restores && l->output_bytes > 0;

    try_residency(e, layer, seconds, choice);
    choice.residency = SW_PLAN_RECOMPUTED;
    if (holds && l->may_recompute)
        try_residency(e, layer, seconds, choice);
    choice.residency = SW_PLAN_OFFLOADED;
    if (holds && l->may_offload && !e->cost.machine->device[0].host_memory)
        try_residency(e, layer, seconds, choice);
}

/* Can devices of asynchronous groups exchange the layer's factors, and are these few enough? */
static bool may_spread(const struct enumeration *e, const struct sw_layer_model *l)
{
    const struct sw_plan_shape *shape = &e->plan.shape;
    const int64_t batch = e->cost.net->batch, x = batch * (int64_t)l->inputs,
                  dy = batch * (int64_t)l->outputs;
    const int64_t array = (x + 15) / 16 * 16 + (dy + 15) / 16 * 16;

    if (e->cost.machine->device[e->plan.workers - 1].host > 0)
        return false;
    return shape->groups == 1 || array * (1 + (shape->groups - 1) * (2 * e->staleness + 2)) <=
                                     4 * (int64_t)(l->inputs * l->outputs);
}

/* Workers that exchange the gradients of a layer in rows: groups on devices of one host have the
 * same servers. */
static int exchanging(const struct enumeration *e)
{
    const struct sw_device_model *last = &e->cost.machine->device[e->plan.workers - 1];

    return e->staleness >= 0 && (last->host_memory || last->host > 0) ? e->plan.shape.group_size
                                                                      : e->plan.workers;
}

static void enumerate_layer(struct enumeration *e, int layer, double seconds)
{
    const struct sw_net_model *net = e->cost.net;
    const struct sw_plan_shape *shape = &e->plan.shape;
    const bool cores = e->cost.machine->device[0].host_memory;

    if (layer == net->count) {
        take_leaf(e, seconds);
        return;
    }

    const bool factors = net->layer[layer].steps > 0 && exchanging(e) > 1;
    const bool sfb = e->staleness < 0 || cores || may_spread(e, &net->layer[layer]);
    const bool servers = !cores && shape->framework != SW_FRAMEWORK_ALLREDUCE;
    try_choice(e, layer, seconds, (struct sw_layer_choice){.comm = SW_EXCHANGE_PS});
    if (factors && sfb)
        try_choice(e, layer, seconds, (struct sw_layer_choice){.comm = SW_EXCHANGE_SFB});
    if (factors && servers)
        try_choice(e, layer, seconds, (struct sw_layer_choice){.comm = SW_EXCHANGE_ADAM});

    for (enum sw_partition p = SW_PARTITION_COLUMNS; p <= SW_PARTITION_NONE; p++)
        for (int at = 0; at < (p == SW_PARTITION_NONE ? shape->group_size : 1); at++)
            if (shape->group_size > 1 && !net->refuses(net, layer, p, shape->group_size))
                try_choice(e, layer, seconds,
                           (struct sw_layer_choice){.partition = p, .location = at});
}

static void enumerate_shape(struct enumeration *e, const struct planner_net *n,
                            const struct planner_machine *m, enum sw_framework framework,
                            int groups, int size)
{
    const bool is_async = e->staleness >= 0;
    const struct sw_plan_shape shape = {.framework = framework,
                                        .consistency =
                                            is_async ? SW_CONSISTENCY_SSP : SW_CONSISTENCY_BSP,
                                        .staleness = e->staleness,
                                        .groups = groups,
                                        .group_size = size,
                                        .servers = framework == SW_FRAMEWORK_ALLREDUCE ? size : 1};
    struct sw_err err;

    if ((is_async ? 1 : groups) * size > n->model.batch)
        return;

    sw_cost_model_init(&e->cost, &n->model, &m->model, &shape);
    assert_int_equal(sw_parallel_plan_init(&e->plan, &shape, n->model.count, &err), SW_OK);
    for (int w = 0; w < e->plan.workers; w++)
        e->plan.device_bytes[w] = n->model.fixed_bytes;
    enumerate_layer(e, 0, 0);
    sw_parallel_plan_fini(&e->plan);
}

static void enumerate(struct enumeration *e, const struct planner_net *n,
                      const struct planner_machine *m)
{
    const int devices = m->model.device_count;

    for (int groups = 1; groups <= devices; groups++)
        for (int size = 1; groups * size <= devices; size++) {
            if (groups == 1)
                enumerate_shape(e, n, m, SW_FRAMEWORK_ALLREDUCE, 1, size);
            if (groups == 1 && size > 1 && !m->device[0].host_memory)
                enumerate_shape(e, n, m, SW_FRAMEWORK_SANDBLASTER, 1, size);
            if (groups > 1 && size > 1)
                enumerate_shape(e, n, m, SW_FRAMEWORK_CUSTOM, groups, size);
        }
}

/* Bytes of all layers of a net on one worker. */
static int64_t bytes_of(const struct planner_net *n, const struct planner_machine *m)
{
    const struct sw_plan_shape one = {.framework = SW_FRAMEWORK_ALLREDUCE,
                                      .consistency = SW_CONSISTENCY_BSP,
                                      .groups = 1,
                                      .group_size = 1,
                                      .servers = 1};
    const struct sw_layer_choice rows = {.partition = SW_PARTITION_ROWS};
    struct sw_cost_model cost;
    int64_t bytes = n->model.fixed_bytes;

    sw_cost_model_init(&cost, &n->model, &m->model, &one);
    for (int i = 0; i < n->model.count; i++)
        bytes += sw_cost_bytes(&cost, i, &rows, 0);
    return bytes;
}

struct random_case {
    struct planner_net net;
    struct planner_machine machine;
    bool restores;
};

/* The more workers, the fewer layers: enumeration takes a power of the workers. */
static void make_case(struct random_case *c, uint64_t seed)
{
    static const int most_layers[] = {0, 6, 6, 5, 4}, restored_layers[] = {0, 6, 4, 3, 2};
    struct rng r = rng_of(2100 + seed), net = rng_of(52100 + seed);

    planner_random_machine(&c->machine, &r, 0);
    const int devices = c->machine.model.device_count;
    c->restores = seed % 3 == 0;
    planner_random_net(
        &c->net, &net,
        (int)rng_int(&r, 2, c->restores ? restored_layers[devices] : most_layers[devices]));
    if (c->restores)
        planner_restore(&c->net, &net);

    const int64_t need = bytes_of(&c->net, &c->machine);
    const bool limited = rng_int(&r, 0, 2) > 0, differs = rng_int(&r, 0, 2) == 0;
    for (int d = 0; d < devices && limited; d++) {
        const double part = d > 0 && !differs ? 0 : (double)rng_real(&r, 0.1, 1.2);
        c->machine.device[d].memory_bytes =
            part > 0 && (d == 0 || !c->machine.device[0].host_memory)
                ? (int64_t)((double)need * part)
                : c->machine.device[0].memory_bytes;
    }
}

static void check_plan(const struct random_case *c, struct sw_parallel_plan *p)
{
    struct sw_cost_model cost;
    double total = 0;
    struct sw_layer_cost costs[PLANNER_LAYERS];

    sw_cost_model_init(&cost, &c->net.model, &c->machine.model, &p->shape);
    assert_true(is_close(sw_cost_plan(&cost, p, costs), p->additive_s));
    assert_int_equal(sw_cost_overfull(&cost, p), -1);
    for (int i = 0; i < p->layers; i++)
        total += costs[i].compute_s + costs[i].params_s + costs[i].activations_s;
    assert_true(is_close(total, p->additive_s));
    assert_int_equal(p->fit.budget_bytes > 0, !keeps_all(p));
}

static void the_search_equals_enumeration(void **state)
{
    int64_t plans = 0, refused = 0;
    int impossible = 0, split = 0, whole = 0, factors = 0, hybrid = 0, fitted = 0, offloaded = 0;

    for (uint64_t seed = 0; seed < RANDOM_CASES; seed++) {
        static struct random_case c;
        make_case(&c, seed);

        struct sw_search_result r = search(&c.net, &c.machine, &no_limits);
        struct enumeration e = {.result = &r,
                                .tenth_s = r.count < SW_SEARCH_BEST
                                               ? (double)INFINITY
                                               : r.plan[SW_SEARCH_BEST - 1].additive_s,
                                .best_s = (double)INFINITY,
                                .restores = c.restores,
                                .staleness = -1};
        enumerate(&e, &c.net, &c.machine);
        plans += e.plans;
        refused += e.plans - e.fitting;

        assert_true(r.is_exact);
        assert_int_equal(r.count > 0, e.fitting > 0);
        assert_int_equal(r.count == 0, r.nearest[0] != '\0');
        if (r.count == 0)
            impossible++;
        else if (!is_close(r.plan[0].additive_s, e.best_s))
            fail_msg("case %d: %.17g s instead of %.17g s", (int)seed, r.plan[0].additive_s,
                     e.best_s);

        for (int i = 0; i < r.count; i++) {
            check_plan(&c, &r.plan[i]);
            assert_true(i == 0 || r.plan[i - 1].additive_s <= r.plan[i].additive_s);
            for (int k = 0; k < i; k++)
                assert_false(sw_parallel_plan_equal(&r.plan[i], &r.plan[k]));
        }
        for (int i = 0; i < r.shapes; i++) {
            check_plan(&c, &r.of_shape[i]);
            assert_true(r.of_shape[i].additive_s >= r.plan[0].additive_s * (1 - 1e-9));
        }
        for (int i = 0; i < c.net.model.count && r.count > 0; i++) {
            split += r.plan[0].choice[i].partition == SW_PARTITION_COLUMNS;
            whole += r.plan[0].choice[i].partition == SW_PARTITION_NONE;
            factors += r.plan[0].choice[i].comm != SW_EXCHANGE_PS;
            offloaded += r.plan[0].choice[i].residency == SW_PLAN_OFFLOADED;
        }
        fitted += r.count > 0 && !keeps_all(&r.plan[0]);
        hybrid += r.count > 0 && r.plan[0].shape.groups > 1;
        sw_search_fini(&r);
    }

    print_message(
        "%lld plans, %lld too large; %d cases impossible; layers of best plans: %d by "
        "columns, %d on one worker, %d by factors; %d best plans with groups, %d with memory = "
        "fit, where %d layers are offloaded\n",
        (long long)plans, (long long)refused, impossible, split, whole, factors, hybrid, fitted,
        offloaded);
    assert_true(refused > plans / 20 && impossible > 0 && split > 0 && whole > 0 && factors > 0 &&
                hybrid > 0 && fitted > 5 && offloaded > 0);
    (void)state;
}

/* Returns how many layers of the best plans exchange factors between groups of devices. */
static int check_groups(const struct random_case *c, int groups, int size, int64_t staleness)
{
    struct sw_search_limits limits = no_limits;
    int factors = 0;

    limits.framework = SW_FRAMEWORK_DOWNPOUR;
    limits.staleness = staleness;
    limits.groups = groups;
    limits.group_size = size;

    struct sw_search_result r = search(&c->net, &c->machine, &limits);
    struct enumeration e = {.result = &r,
                            .tenth_s = r.count < SW_SEARCH_BEST
                                           ? (double)INFINITY
                                           : r.plan[SW_SEARCH_BEST - 1].additive_s,
                            .best_s = (double)INFINITY,
                            .restores = c->restores,
                            .staleness = staleness};
    enumerate_shape(&e, &c->net, &c->machine, SW_FRAMEWORK_DOWNPOUR, groups, size);

    assert_true(r.is_exact);
    assert_int_equal(r.count > 0, e.fitting > 0);
    if (r.count > 0 && !is_close(r.plan[0].additive_s, e.best_s))
        fail_msg("%.17g s instead of %.17g s", r.plan[0].additive_s, e.best_s);
    for (int i = 0; i < r.count; i++) {
        check_plan(c, &r.plan[i]);
        for (int k = 0; k < c->net.model.count; k++)
            factors += r.plan[i].choice[k].comm == SW_EXCHANGE_SFB;
    }

    sw_search_fini(&r);
    return groups > 1 && !c->machine.device[0].host_memory ? factors : 0;
}

/* Under ssp groups exchange factors with each other, too. Groups of different numbers train on
 * different numbers of rows in a step, so that each shape is searched alone. */
static void the_search_of_asynchronous_groups_equals_enumeration(void **state)
{
    int factors = 0;

    for (uint64_t seed = 0; seed < ASYNC_CASES; seed++) {
        static struct random_case c;

        make_case(&c, 1000 + seed);
        for (int groups = 1; groups <= c.machine.model.device_count; groups++)
            for (int size = 1; groups * size <= c.machine.model.device_count; size++)
                if (size <= c.net.model.batch)
                    factors += check_groups(&c, groups, size, 1 + (int64_t)(seed % 2));
    }

    print_message("%d layers of the best plans exchange factors between groups\n", factors);
    assert_true(factors > 0);
    (void)state;
}

static void better_machines_have_no_worse_plans(void **state)
{
    int faster = 0;

    for (uint64_t seed = 0; seed < BETTER_CASES; seed++) {
        static struct random_case c;
        make_case(&c, 1000 + seed);
        struct rng r = rng_of(92100 + seed);

        struct sw_search_result before = search(&c.net, &c.machine, &no_limits);
        if (seed % 2) {
            const int hub = (int)rng_int(&r, 0, c.machine.model.hub_count - 1);
            c.machine.hub[hub].bytes_per_s.value *= (double)rng_real(&r, 1, 10);
        } else {
            const int d = (int)rng_int(&r, 0, c.machine.model.device_count - 1);
            const int host = c.machine.device[d].host;

            for (int k = 0; k < c.machine.model.device_count; k++)
                if (k == d || (c.machine.device[d].host_memory && c.machine.device[k].host == host))
                    c.machine.device[k].memory_bytes *= 2;
        }

        struct sw_search_result after = search(&c.net, &c.machine, &no_limits);
        assert_true(before.count == 0 || after.count > 0);
        if (before.count > 0)
            assert_true(after.plan[0].additive_s <= before.plan[0].additive_s * (1 + 1e-9));
        faster +=
            before.count == 0 || after.plan[0].additive_s < before.plan[0].additive_s * (1 - 1e-9);
        sw_search_fini(&before);
        sw_search_fini(&after);
    }

    assert_true(faster > 0);
    (void)state;
}

/* ---- Nets of full size ---- */

static struct planner_machine_terms eight_gpus(void)
{
    return (struct planner_machine_terms){.hosts = 2,
                                          .per_host = 4,
                                          .flops_per_s = 1e13,
                                          .bytes_per_s = 5e11,
                                          .network_bytes_per_s = 1.2e9,
                                          .device_bytes_per_s = 1.2e10,
                                          .latency_s = 1e-5,
                                          .memory_bytes = (int64_t)16 << 30,
                                          .peers = true};
}

static void nets_of_full_size_are_planned(void **state)
{
    static void (*const make[])(struct planner_net *, int64_t) = {planner_alexnet, planner_resnet50,
                                                                  planner_googlenet};
    const struct planner_machine_terms t = eight_gpus();
    static struct planner_net net;
    static struct planner_machine machine;

    planner_machine(&machine, &t);
    for (size_t i = 0; i < sizeof make / sizeof *make; i++) {
        make[i](&net, 256);

        struct sw_search_result r = search(&net, &machine, &no_limits),
                                again = search(&net, &machine, &no_limits);
        print_message("%d layers, at most %d open: %s, %d worker groups of %d, %.3g ms\n",
                      net.model.count, r.most_open, r.is_exact ? "exact" : "beam",
                      r.plan[0].shape.groups, r.plan[0].shape.group_size,
                      1e3 * r.plan[0].additive_s);

        assert_int_equal(r.count, SW_SEARCH_BEST);
        assert_int_equal(again.count, r.count);
        for (int k = 0; k < r.count; k++)
            assert_true(sw_parallel_plan_equal(&r.plan[k], &again.plan[k]));
        sw_search_fini(&r);
        sw_search_fini(&again);
    }
    (void)state;
}

/* On 1 Gbit/s between four hosts the convolutions stay in rows, and the large fully-connected
 * layers are split or exchange factors. */
static void a_slow_network_gives_the_hybrid_of_the_papers(void **state)
{
    struct planner_machine_terms t = eight_gpus();
    static struct planner_net net;
    static struct planner_machine machine;
    struct sw_search_limits limits = no_limits;

    t.hosts = 4;
    t.per_host = 1;
    t.flops_per_s = 1e12;
    t.network_bytes_per_s = 1.18e8;
    planner_machine(&machine, &t);
    planner_alexnet(&net, 256);
    limits.groups = 1;
    limits.group_size = 4;

    struct sw_search_result r = search(&net, &machine, &limits);
    for (int i = 0; i < net.model.count; i++) {
        const struct sw_layer_choice *c = &r.plan[0].choice[i];
        if (strcmp(net.layer[i].type, "convolution") == 0)
            assert_int_equal(c->partition, SW_PARTITION_ROWS);
        if (net.layer[i].params > 10000000)
            assert_true(c->partition != SW_PARTITION_ROWS || c->comm != SW_EXCHANGE_PS);
    }
    sw_search_fini(&r);
    (void)state;
}

/* ---- Wishes ---- */

static void assert_mentions(const char *text, const char *words)
{
    if (!strstr(text, words))
        fail_msg("\"%s\" does not say \"%s\"", text, words);
}

static void assert_refused(const struct planner_net *n, const struct planner_machine *m,
                           const struct sw_search_limits *limits, const char *words,
                           const char *nearest)
{
    struct sw_search_result r;
    struct sw_err err;

    assert_int_equal(sw_search(&n->model, &m->model, limits, &r, &err), SW_ERR_INVALID);
    assert_mentions(err.text, words);
    assert_mentions(err.text, nearest);
    sw_search_fini(&r);
}

static void wishes_are_met(void **state)
{
    const struct planner_machine_terms t = eight_gpus();
    static struct planner_net net;
    static struct planner_machine machine;
    struct sw_search_limits limits = no_limits;
    int partition[PLANNER_LAYERS], location[PLANNER_LAYERS], comm[PLANNER_LAYERS];

    planner_machine(&machine, &t);
    planner_alexnet(&net, 256);
    memset(partition, -1, sizeof partition);
    memset(location, -1, sizeof location);
    memset(comm, -1, sizeof comm);

    const int last = net.model.count - 2; /* an inner product, before the loss */
    partition[1] = SW_PARTITION_COLUMNS;
    location[last] = 3;
    comm[2] = SW_EXCHANGE_PS;
    limits.partition = partition;
    limits.location = location;
    limits.comm = comm;
    limits.groups = 2;
    limits.group_size = 4;
    limits.net_comm = SW_EXCHANGE_SFB;

    struct sw_search_result r = search(&net, &machine, &limits);
    for (int i = 0; i < r.count; i++) {
        const struct sw_parallel_plan *p = &r.plan[i];
        assert_int_equal(p->shape.groups, 2);
        assert_int_equal(p->shape.group_size, 4);
        assert_int_equal(p->choice[1].partition, SW_PARTITION_COLUMNS);
        assert_int_equal(p->choice[last].location, 3);
        for (int k = 0; k < p->layers; k++)
            if (p->choice[k].partition == SW_PARTITION_ROWS)
                assert_int_equal(p->choice[k].comm,
                                 net.layer[k].steps > 0 ? SW_EXCHANGE_SFB : SW_EXCHANGE_PS);
    }
    assert_true(r.count > 1);
    sw_search_fini(&r);

    net.model.controls_updates = true; /* devices cannot exchange factors */
    limits.groups = 1;
    r = search(&net, &machine, &limits);
    for (int i = 0; i < r.count; i++)
        for (int k = 0; k < net.model.count; k++)
            assert_int_not_equal(r.plan[i].choice[k].comm, SW_EXCHANGE_SFB);
    assert_true(r.count > 1);
    sw_search_fini(&r);

    net.model.controls_updates = false;
    limits = no_limits;
    limits.framework = SW_FRAMEWORK_DOWNPOUR;
    limits.staleness = 3;
    r = search(&net, &machine, &limits);
    assert_int_equal(r.plan[0].shape.framework, SW_FRAMEWORK_DOWNPOUR);
    assert_int_equal(r.plan[0].shape.consistency, SW_CONSISTENCY_SSP);
    assert_int_equal(r.plan[0].shape.staleness, 3);
    sw_search_fini(&r);
    (void)state;
}

/* Big layers of small batches over slow links. */
static void factors_of_groups_need_a_bound(void **state)
{
    struct planner_machine_terms t = eight_gpus();
    static struct planner_net net;
    static struct planner_machine machine;
    struct sw_search_limits limits = no_limits;
    int comm[PLANNER_LAYERS], factors = 0;

    t.device_bytes_per_s = 1e9;
    planner_machine(&machine, &t);
    planner_alexnet(&net, 32);
    limits.framework = SW_FRAMEWORK_DOWNPOUR;
    limits.groups = 4;
    limits.group_size = 1;
    limits.staleness = 2;

    struct sw_search_result r = search(&net, &machine, &limits);
    for (int i = 0; i < net.model.count; i++)
        factors += r.plan[0].choice[i].comm == SW_EXCHANGE_SFB;
    assert_int_equal(factors, 3);
    sw_search_fini(&r);

    for (int pass = 0; pass < 2; pass++) {
        net.model.warmup_steps = pass == 0;
        limits.staleness = pass == 0 ? 2 : -1;
        r = search(&net, &machine, &limits);
        for (int k = 0; k < r.count; k++)
            for (int i = 0; i < net.model.count; i++)
                assert_int_not_equal(r.plan[k].choice[i].comm, SW_EXCHANGE_SFB);
        assert_true(r.count > 0);
        sw_search_fini(&r);
    }

    memset(comm, -1, sizeof comm);
    comm[net.model.count - 2] = SW_EXCHANGE_SFB;
    limits.comm = comm;
    assert_refused(&net, &machine, &limits, "without a staleness bound", "4 worker groups of 1");
    (void)state;
}

static void servers_and_counts_are_as_the_user_says(void **state)
{
    struct planner_machine_terms t = eight_gpus();
    static struct planner_net net;
    static struct planner_machine machine;
    struct sw_search_limits limits = no_limits;

    planner_machine(&machine, &t);
    planner_alexnet(&net, 256);
    limits.servers = 3;
    struct sw_search_result r = search(&net, &machine, &limits);
    assert_int_equal(r.skipped_shapes, 0);
    for (int i = 0; i < r.shapes; i++) {
        const struct sw_plan_shape *s = &r.of_shape[i].shape;
        assert_int_equal(s->servers, 3);
        assert_true(s->framework != SW_FRAMEWORK_ALLREDUCE || s->group_size == 3);
    }
    sw_search_fini(&r);

    limits.framework = SW_FRAMEWORK_ALLREDUCE;
    limits.group_size = 4;
    assert_refused(&net, &machine, &limits, "servers_per_group = 3 is set", "");

    /* Between powers of two many counts are not searched, and the result says so. */
    t.per_host = 12;
    planner_machine(&machine, &t);
    limits = no_limits;
    limits.fewest_workers = 16;
    r = search(&net, &machine, &limits);
    assert_true(r.is_exact && r.skipped_shapes > 0);
    for (int i = 0; i < r.shapes; i++)
        assert_true(r.of_shape[i].workers >= 16);
    sw_search_fini(&r);
    (void)state;
}

/* With [job] memory. */
static void budgets_are_kept(void **state)
{
    int fitted = 0, impossible = 0, budgets = 0;

    for (uint64_t seed = 0; seed < BETTER_CASES; seed++) {
        static struct random_case c;
        struct sw_search_limits keeps = no_limits, budget = no_limits;
        int64_t most = 0;

        make_case(&c, 3 * seed);
        keeps.budget_bytes = -1;
        struct sw_search_result any = search(&c.net, &c.machine, &no_limits),
                                kept = search(&c.net, &c.machine, &keeps);
        for (int i = 0; i < kept.count; i++)
            assert_true(keeps_all(&kept.plan[i]));
        if (any.count > 0 && !keeps_all(&any.plan[0])) {
            fitted++;
            impossible += kept.count == 0;
            assert_true(kept.count == 0 ||
                        kept.plan[0].additive_s > any.plan[0].additive_s * (1 + 1e-9));
        }
        sw_search_fini(&kept);

        /* Less memory than the best plan takes, if that is on one device. */
        for (int w = 0; any.count > 0 && w < any.plan[0].workers; w++)
            most = any.plan[0].device_bytes[w] > most ? any.plan[0].device_bytes[w] : most;
        budget.budget_bytes = most - most / 8;
        struct sw_search_result r = search(&c.net, &c.machine, &budget);
        for (int i = 0; i < r.count && !c.machine.device[0].host_memory; i++)
            for (int w = 0; w < r.plan[i].workers; w++) {
                assert_true(r.plan[i].device_bytes[w] <= budget.budget_bytes || most == 0);
                budgets += r.plan[i].fit.budget_bytes == budget.budget_bytes;
            }
        sw_search_fini(&r);
        sw_search_fini(&any);
    }

    print_message("%d best plans with memory = fit, %d without another plan; %d workers with the "
                  "budget that was given\n",
                  fitted, impossible, budgets);
    assert_true(fitted > 5 && impossible > 0 && budgets > 0);
    (void)state;
}

static void impossible_wishes_name_the_nearest_plan(void **state)
{
    struct planner_machine_terms t = eight_gpus();
    static struct planner_net net;
    static struct planner_machine machine;
    struct sw_search_limits limits = no_limits;
    int wish[PLANNER_LAYERS];

    planner_machine(&machine, &t);
    planner_alexnet(&net, 256);

    limits.groups = 3;
    limits.group_size = 4;
    assert_refused(&net, &machine, &limits, "3 worker groups of 4 workers", "at most 8 workers");
    limits.group_size = 1;
    limits.framework = SW_FRAMEWORK_ALLREDUCE;
    assert_refused(&net, &machine, &limits, "no framework suits", "downpour, hogwild or custom");

    limits = no_limits;
    limits.groups = 1;
    limits.group_size = 4;
    memset(wish, -1, sizeof wish);
    wish[net.model.count - 1] = SW_PARTITION_COLUMNS;
    limits.partition = wish;
    assert_refused(&net, &machine, &limits, "cannot have partition = 1 over 4 workers",
                   "without that key of layer softmax_");

    limits.partition = NULL;
    limits.location = wish;
    wish[net.model.count - 1] = 4;
    assert_refused(&net, &machine, &limits, "location = 4, but a group has 4 workers",
                   "1 worker group of 4");

    limits.location = NULL;
    limits.comm = wish;
    wish[net.model.count - 1] = SW_EXCHANGE_SFB;
    assert_refused(&net, &machine, &limits, "comm = sfb : it has no factors",
                   "1 worker group of 4");

    net.model.batch = 3;
    limits.comm = NULL;
    assert_refused(&net, &machine, &limits, "a batch of 3 rows cannot be shared by 4 workers",
                   "at most 3");
    (void)state;
}

static void what_does_not_fit_names_the_nearest_plan(void **state)
{
    struct planner_machine_terms t = eight_gpus();
    static struct planner_net net;
    static struct planner_machine machine;
    struct sw_search_limits limits = no_limits;

    t.memory_bytes = (int64_t)1 << 30;
    planner_machine(&machine, &t);
    planner_alexnet(&net, 256);
    limits.groups = limits.group_size = 1;
    struct sw_search_result r = search(&net, &machine, &limits);
    assert_int_equal(r.count, 0);
    assert_mentions(r.nearest, "nearest is, with other numbers of workers: ");
    sw_search_fini(&r);

    t.memory_bytes = (int64_t)1 << 20;
    planner_machine(&machine, &t);
    r = search(&net, &machine, &limits);
    assert_int_equal(r.count, 0);
    assert_mentions(r.nearest, "no plan fits into memory: the smallest one found, 1 x 1 workers");
    assert_mentions(r.nearest, "on device 0, which has 1.0 MB");
    sw_search_fini(&r);
    (void)state;
}

/* Every allocation fails once. A nearest plan that runs out of memory is only left out. */
static void memory_that_runs_out_is_an_error(void **state)
{
    static struct random_case c;
    int failed = 0;

    for (uint64_t seed = 0; seed < 4; seed++) {
        bool over = false;

        make_case(&c, 3000 + seed);
        for (int at = 1; !over; at++) {
            struct sw_search_result r;
            struct sw_err err;

            faulty_begin((struct faulty_plan){.kinds = FAULTY_ALLOC, .at = at});
            const int rc = sw_search(&c.net.model, &c.machine.model, &no_limits, &r, &err);
            sw_search_fini(&r);
            over = faulty_end() < at;

            assert_int_equal(faulty.live_allocations, 0);
            assert_true(rc == SW_OK || (rc == SW_ERR_NOMEM && !over));
            failed += rc == SW_ERR_NOMEM;
        }
    }
    assert_true(failed > 100);
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_search_equals_enumeration),
        cmocka_unit_test(the_search_of_asynchronous_groups_equals_enumeration),
        cmocka_unit_test(better_machines_have_no_worse_plans),
        cmocka_unit_test(nets_of_full_size_are_planned),
        cmocka_unit_test(a_slow_network_gives_the_hybrid_of_the_papers),
        cmocka_unit_test(wishes_are_met),
        cmocka_unit_test(factors_of_groups_need_a_bound),
        cmocka_unit_test(servers_and_counts_are_as_the_user_says),
        cmocka_unit_test(budgets_are_kept),
        cmocka_unit_test(impossible_wishes_name_the_nearest_plan),
        cmocka_unit_test(what_does_not_fit_names_the_nearest_plan),
        cmocka_unit_test(memory_that_runs_out_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
