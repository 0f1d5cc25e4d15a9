/* The additive cost: counts of floats as in the papers, prices as the runtime's model of exchange
 * modes, throughput that devices share, measured times, memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "exchange/reduce/factors.h"
#include "plan/exchange_cost.h"
#include "planner/cost.h"
#include "unit/planner/planner_support.h"
#include <math.h>

enum { FC6_INPUTS = 9216, FC6_OUTPUTS = 4096, FC6_BATCH = 256 };

static void assert_close(double a, double b)
{
    if (fabs(a - b) > 1e-9 * fmax(fabs(a), fabs(b)))
        fail_msg("%.17g instead of %.17g", a, b);
}

static const struct sw_layer_choice by_rows = {.partition = SW_PARTITION_ROWS},
                                    by_columns = {.partition = SW_PARTITION_COLUMNS},
                                    by_inputs = {.partition = SW_PARTITION_INPUTS},
                                    on_first = {.partition = SW_PARTITION_NONE},
                                    on_second = {.partition = SW_PARTITION_NONE, .location = 1};

static struct planner_machine_terms gpus(int hosts, int per_host)
{
    return (struct planner_machine_terms){.hosts = hosts,
                                          .per_host = per_host,
                                          .flops_per_s = 1e12,
                                          .bytes_per_s = 1e11,
                                          .network_bytes_per_s = 1e8,
                                          .device_bytes_per_s = 1e10,
                                          .memory_bytes = 1 << 30,
                                          .peers = true};
}

static struct planner_machine_terms cores(int hosts, int per_host)
{
    struct planner_machine_terms t = gpus(hosts, per_host);
    t.threads = 1;
    return t;
}

static struct sw_plan_shape shape_of(enum sw_framework framework, int groups, int size)
{
    return (struct sw_plan_shape){.framework = framework,
                                  .consistency = SW_CONSISTENCY_BSP,
                                  .staleness = -1,
                                  .groups = groups,
                                  .group_size = size,
                                  .servers = groups * size};
}

/* fc6 of AlexNet between a layer in rows and one that reads rows. */
struct fc6 {
    struct planner_net net;
    struct planner_machine machine;
    struct sw_cost_model cost;
};

static void fc6_init(struct fc6 *f, const struct planner_machine_terms *t,
                     const struct sw_plan_shape *shape)
{
    planner_net_begin(&f->net, FC6_BATCH);
    const int input = planner_input(&f->net, FC6_INPUTS, 1);
    const int relu = planner_alike(&f->net, "relu", input);
    planner_alike(&f->net, "relu", planner_inner_product(&f->net, relu, FC6_OUTPUTS));
    f->net.layer[2].params -= FC6_OUTPUTS; /* the papers leave out the bias */

    planner_machine(&f->machine, t);
    sw_cost_model_init(&f->cost, &f->net.model, &f->machine.model, shape);
}

/* The cost of a plan that differs from rows in fc6 alone. */
static double cost_of(const struct fc6 *f, struct sw_layer_choice fc6, struct sw_layer_cost *costs)
{
    struct sw_parallel_plan p;
    struct sw_err err;

    assert_int_equal(sw_parallel_plan_init(&p, &f->cost.shape, f->net.model.count, &err), SW_OK);
    p.choice[2] = fc6;
    const double seconds = sw_cost_plan(&f->cost, &p, costs);
    sw_parallel_plan_fini(&p);
    return seconds;
}

static double floats_of(const struct fc6 *f, struct sw_layer_choice fc6, bool first_reader)
{
    struct sw_layer_cost costs[4];
    double floats = 0;

    cost_of(f, fc6, costs);
    for (int i = 0; i < 4; i++)
        floats += costs[i].moved_params + costs[i].moved_activations;
    return first_reader ? floats : floats - costs[3].moved_activations;
}

static void counts_are_those_of_the_design(void **state)
{
    const struct planner_machine_terms t = gpus(4, 1);
    const struct sw_plan_shape reduces = shape_of(SW_FRAMEWORK_ALLREDUCE, 1, 4),
                               serves = shape_of(SW_FRAMEWORK_SANDBLASTER, 1, 4);
    const double params = (double)FC6_INPUTS * FC6_OUTPUTS, batch = FC6_BATCH;
    struct sw_layer_choice factors = by_rows;
    struct fc6 f;

    fc6_init(&f, &t, &serves);
    assert_close(floats_of(&f, by_rows, true), 2 * params * 4); /* 302 M */
    fc6_init(&f, &t, &reduces);
    assert_close(floats_of(&f, by_rows, true), 2 * params * 3); /* 226 M */

    factors.comm = SW_EXCHANGE_SFB;
    assert_close(floats_of(&f, factors, true), 3 * batch * (FC6_INPUTS + FC6_OUTPUTS)); /* 10.2 M */
    assert_close(floats_of(&f, by_columns, false), 2 * 3 * batch * FC6_INPUTS);         /* 14.2 M */
    assert_close(floats_of(&f, by_inputs, true),
                 2 * batch * FC6_OUTPUTS * 3 + 2 * batch * FC6_INPUTS * 3 / 4); /* 9.8 M */
    assert_close(floats_of(&f, on_first, true), 2 * batch * (FC6_INPUTS + FC6_OUTPUTS) * 3 / 4);
    (void)state;
}

static void a_slow_network_makes_factors_or_splits_cheaper(void **state)
{
    const struct planner_machine_terms slow = gpus(4, 1);
    struct planner_machine_terms fast = slow;
    const struct sw_plan_shape shape = shape_of(SW_FRAMEWORK_ALLREDUCE, 1, 4);
    struct sw_layer_choice factors = by_rows;
    struct fc6 f;

    factors.comm = SW_EXCHANGE_SFB;
    fc6_init(&f, &slow, &shape);
    assert_true(cost_of(&f, factors, NULL) < cost_of(&f, by_rows, NULL));
    assert_true(cost_of(&f, by_inputs, NULL) < cost_of(&f, by_rows, NULL));

    fast.network_bytes_per_s = fast.device_bytes_per_s = 1e14;
    fc6_init(&f, &fast, &shape);
    assert_true(cost_of(&f, by_rows, NULL) < cost_of(&f, factors, NULL));
    (void)state;
}

static void prices_are_those_of_the_runtime(void **state)
{
    const struct planner_machine_terms t = gpus(4, 1), one_memory = cores(1, 4);
    const struct sw_plan_shape shape = shape_of(SW_FRAMEWORK_ALLREDUCE, 1, 4);
    struct sw_exchange_cost_args args = {.workers = 4,
                                         .servers = 4,
                                         .inputs = (double)FC6_INPUTS * FC6_OUTPUTS,
                                         .outputs = 1,
                                         .devices = true,
                                         .reduces = true,
                                         .peers = true,
                                         .flops_per_s = 1e12,
                                         .server_flops_per_s = 1e12,
                                         .memory_bytes_per_s = 1e11 / 4,
                                         .link_bytes_per_s = 1e8};
    const double update_s = 5 * 4 * args.inputs / 1e11;
    struct sw_exchange_price price;
    struct fc6 f;

    fc6_init(&f, &t, &shape);
    sw_exchange_cost(&args, &price);
    assert_close(sw_cost_layer(&f.cost, 2, &by_rows).params_s,
                 price.ms[SW_EXCHANGE_PS] * 1e-3 + update_s);

    fc6_init(&f, &one_memory, &shape);
    args.devices = args.reduces = false;
    sw_exchange_cost(&args, &price);
    assert_close(sw_cost_layer(&f.cost, 2, &by_rows).params_s,
                 price.ms[SW_EXCHANGE_PS] * 1e-3 + update_s);
    assert_close(sw_cost_layer(&f.cost, 2, &by_rows).moved_params, 0);
    (void)state;
}

static void groups_reduce_shards_over_groups_only(void **state)
{
    const struct planner_machine_terms t = gpus(4, 1);
    const struct sw_plan_shape shape = shape_of(SW_FRAMEWORK_CUSTOM, 2, 2);
    const double params = (double)FC6_INPUTS * FC6_OUTPUTS;
    struct fc6 f;

    fc6_init(&f, &t, &shape);
    assert_close(sw_cost_layer(&f.cost, 2, &by_rows).moved_params, 2 * params * 4);
    /* Two shards, each of two groups. */
    assert_close(sw_cost_layer(&f.cost, 2, &by_columns).moved_params, 2 * params * 2);
    assert_close(sw_cost_layer(&f.cost, 2, &on_first).moved_params, 2 * params * 2);
    (void)state;
}

/* Equation 4 of the tech report, and its section 4.2. */
static void server_hosts_get_all_gradients(void **state)
{
    const double params = (double)FC6_INPUTS * FC6_OUTPUTS;
    struct sw_plan_shape shape = shape_of(SW_FRAMEWORK_ALLREDUCE, 1, 4);
    struct planner_machine_terms t = gpus(4, 1);
    struct sw_layer_choice factors = by_rows;
    struct fc6 f;

    t.server_hosts = shape.servers = 2;
    fc6_init(&f, &t, &shape);
    assert_close(sw_cost_layer(&f.cost, 2, &by_rows).moved_params, 2 * params * 4);
    assert_close(f.cost.servers.bytes_per_s, 2 * 1e8 / 4);
    assert_close(sw_cost_layer(&f.cost, 2, &by_columns).moved_params, 0);
    factors.comm = SW_EXCHANGE_SFB;
    assert_close(sw_cost_layer(&f.cost, 2, &factors).moved_params,
                 3.0 * FC6_BATCH * (FC6_INPUTS + FC6_OUTPUTS));

    /* Two shards, each of two groups. */
    shape = shape_of(SW_FRAMEWORK_CUSTOM, 2, 2);
    fc6_init(&f, &t, &shape);
    assert_close(sw_cost_layer(&f.cost, 2, &by_columns).moved_params, 2 * params * 2);

    /* Workers in one memory send their sum; the links of hosts are the limit. */
    t = cores(2, 4);
    t.server_hosts = 2;
    shape = shape_of(SW_FRAMEWORK_ALLREDUCE, 1, 8);
    fc6_init(&f, &t, &shape);
    assert_close(f.cost.servers.bytes_per_s, 1e8);
    assert_close(sw_cost_layer(&f.cost, 2, &by_rows).moved_params, 2 * params * 2);
    t = cores(4, 1);
    t.server_hosts = 2;
    shape = shape_of(SW_FRAMEWORK_CUSTOM, 2, 2);
    fc6_init(&f, &t, &shape);
    assert_close(sw_cost_layer(&f.cost, 2, &by_columns).moved_params, 2 * params * 2);

    /* Those of hogwild update in place. */
    shape.consistency = SW_CONSISTENCY_HOGWILD;
    fc6_init(&f, &t, &shape);
    assert_close(f.cost.servers.bytes_per_s, 0);
    (void)state;
}

static void workers_share_links_and_memory(void **state)
{
    const struct sw_plan_shape shape = shape_of(SW_FRAMEWORK_ALLREDUCE, 1, 4);
    struct planner_machine_terms t = gpus(2, 2);
    struct fc6 f;

    /* Of the 12 ordered pairs 4 cross the link of a host upwards. */
    fc6_init(&f, &t, &shape);
    assert_close(f.cost.all.bytes_per_s, 1e8 * 3 / 4);

    t = gpus(1, 4);
    fc6_init(&f, &t, &shape);
    assert_close(f.cost.all.bytes_per_s, 1e10);
    t.peers = false; /* through the host, one copy after the other */
    fc6_init(&f, &t, &shape);
    assert_close(f.cost.all.bytes_per_s, 1e10 / 2);

    t = cores(1, 4);
    fc6_init(&f, &t, &shape);
    assert_close(f.cost.all.bytes_per_s, 0);
    assert_close(f.cost.bytes_per_s, 1e11 / 4);
    assert_int_equal(sw_cost_together(&f.cost, 3), 4);
    (void)state;
}

static void one_memory_is_read_in_place_where_it_can_be(void **state)
{
    const struct planner_machine_terms t = cores(1, 2);
    const struct sw_plan_shape shape = shape_of(SW_FRAMEWORK_ALLREDUCE, 1, 2);
    const struct sw_distribution rows = {.dist = SW_DIST_ROWS}, one = {.dist = SW_DIST_ONE},
                                 other = {.dist = SW_DIST_ONE, .at = 1};
    const double pass_s = (double)FC6_BATCH * FC6_OUTPUTS * sizeof(float) * 2 / 1e11;
    double floats = -1;
    struct fc6 f;

    fc6_init(&f, &t, &shape);
    assert_close(sw_cost_move(&f.cost, 2, one, other, &floats), 0);
    assert_close(floats, 0);
    /* Rows are read in place; one worker gathers their gradient. */
    assert_close(sw_cost_move(&f.cost, 2, one, rows, NULL), pass_s);
    assert_close(sw_cost_move(&f.cost, 2, rows, rows, NULL), 0);
    (void)state;
}

static void partial_sums_reach_whole_readers_by_way_of_rows(void **state)
{
    const struct planner_machine_terms t = gpus(1, 4);
    const struct sw_plan_shape shape = shape_of(SW_FRAMEWORK_ALLREDUCE, 1, 4);
    struct planner_machine m;
    struct sw_cost_connection move[2];
    struct planner_net net;
    struct sw_cost_model cost;
    struct sw_parallel_plan p;
    struct sw_err err;

    planner_net_begin(&net, 32);
    const int fc = planner_inner_product(&net, planner_input(&net, 64, 1), 64);
    const int above = planner_inner_product(&net, fc, 10), beside = planner_alike(&net, "relu", fc);
    const int other = planner_inner_product(&net, fc, 20);
    planner_machine(&m, &t);
    sw_cost_model_init(&cost, &net.model, &m.model, &shape);
    assert_int_equal(sw_parallel_plan_init(&p, &shape, net.model.count, &err), SW_OK);
    p.choice[fc] = by_inputs;
    p.choice[above] = p.choice[other] = by_columns;

    assert_int_equal(sw_cost_connections(&cost, &p, above, 0, move), 2);
    assert_int_equal(move[0].from.dist, SW_DIST_SUMS);
    assert_int_equal(move[0].to.dist, SW_DIST_ROWS);
    assert_int_equal(move[1].to.dist, SW_DIST_FULL);

    /* Later readers use what the first has connected. */
    assert_int_equal(sw_cost_connections(&cost, &p, beside, 0, move), 0);
    assert_int_equal(sw_cost_connections(&cost, &p, other, 0, move), 0);

    p.choice[beside] = on_second;
    assert_int_equal(sw_cost_connections(&cost, &p, beside, 0, move), 1);
    assert_int_equal(move[0].from.dist, SW_DIST_SUMS);
    sw_parallel_plan_fini(&p);
    (void)state;
}

static void measured_times_are_interpolated(void **state)
{
    static const struct sw_layer_sample samples[] = {
        {.rows = 16, .workers = 1, .threads = 1, .forward_s = 2, .backward_s = 5},
        {.rows = 64, .workers = 1, .threads = 1, .forward_s = 5, .backward_s = 11},
        {.rows = 32, .workers = 1, .threads = 1, .forward_s = 3, .backward_s = 7},
        {.rows = 16, .workers = 4, .threads = 1, .forward_s = 8, .backward_s = 9},
        {.rows = 16, .workers = 1, .threads = 2, .forward_s = 100, .backward_s = 100}};
    const struct planner_machine_terms t = cores(1, 4);
    const struct sw_plan_shape shape = shape_of(SW_FRAMEWORK_ALLREDUCE, 1, 4);
    struct fc6 f;

    fc6_init(&f, &t, &shape);
    f.net.layer[2].samples = samples;
    f.net.layer[2].sample_count = 5;

    assert_close(sw_cost_pass(&f.cost, 2, 0, 48, 1, 1, false), 4);
    assert_close(sw_cost_pass(&f.cost, 2, 0, 48, 0.5, 1, true), 4.5);
    assert_close(sw_cost_pass(&f.cost, 2, 0, 32, 1, 1, false), 3);
    assert_close(sw_cost_pass(&f.cost, 2, 0, 128, 1, 1, false), 9);
    assert_close(sw_cost_pass(&f.cost, 2, 0, 8, 1, 1, false), 1.5);
    assert_close(sw_cost_pass(&f.cost, 2, 0, 32, 1, 3, false), 16);

    /* No sample is of devices without threads. */
    const struct planner_machine_terms g = gpus(1, 4);
    planner_machine(&f.machine, &g);
    const double flops = 2.0 * FC6_INPUTS * FC6_OUTPUTS * 64;
    assert_close(sw_cost_pass(&f.cost, 2, 0, 64, 1, 1, false), flops / 1e12 + 5e-6);
    (void)state;
}

static void times_of_other_threads_are_scaled(void **state)
{
    static const struct sw_layer_sample sample = {
        .rows = 64, .workers = 1, .threads = 4, .forward_s = 2, .backward_s = 6};
    const struct planner_machine_terms t = cores(1, 4);
    const struct sw_plan_shape shape = shape_of(SW_FRAMEWORK_ALLREDUCE, 1, 4);
    struct fc6 f;

    fc6_init(&f, &t, &shape);
    f.net.layer[2].samples = &sample;
    f.net.layer[2].sample_count = 1;
    assert_int_equal(f.machine.model.device[0].threads, 1);

    /* A quarter of the threads, for flops; for bytes, memory that four workers share. */
    f.net.layer[2].forward_bytes = f.net.layer[2].backward_flops = 0;
    assert_true(f.net.layer[2].forward_flops > 0);
    f.net.layer[2].backward_bytes = 1e9;
    assert_close(sw_cost_pass(&f.cost, 2, 0, 64, 1, 4, false), 8);
    assert_close(sw_cost_pass(&f.cost, 2, 0, 32, 0.5, 4, false), 2);
    assert_close(sw_cost_pass(&f.cost, 2, 0, 64, 1, 4, true), 24);
    assert_close(sw_cost_pass(&f.cost, 2, 0, 64, 1, 1, true), 6);
    (void)state;
}

static void measured_updates_have_the_sum(void **state)
{
    static const struct sw_layer_sample sample = {
        .rows = 64, .workers = 4, .threads = 1, .forward_s = 2, .backward_s = 5, .update_s = 6};
    const struct planner_machine_terms t = cores(1, 4), hosts = cores(2, 2), g = gpus(1, 4);
    const struct sw_plan_shape shape = shape_of(SW_FRAMEWORK_ALLREDUCE, 1, 4);
    struct fc6 f;

    fc6_init(&f, &t, &shape);
    f.net.layer[2].samples = &sample;
    f.net.layer[2].sample_count = 1;
    assert_int_equal(f.net.model.updater_slots, 1);

    /* Four gradients, and values and slots that are read and written; of a layer that is split one
     * gradient. */
    assert_close(sw_cost_layer(&f.cost, 2, &by_rows).params_s, 6);
    assert_close(sw_cost_layer(&f.cost, 2, &by_columns).params_s, 6 * 5 / 8.0);

    /* They are not those of servers on several hosts, nor of devices that make updates. */
    planner_machine(&f.machine, &hosts);
    sw_cost_model_init(&f.cost, &f.net.model, &f.machine.model, &shape);
    assert_close(sw_cost_measured_update(&f.cost, 2, 4), 0);
    planner_machine(&f.machine, &g);
    sw_cost_model_init(&f.cost, &f.net.model, &f.machine.model, &shape);
    assert_close(sw_cost_measured_update(&f.cost, 2, 4), 0);
    (void)state;
}

static void servers_update_mirrors(void **state)
{
    const struct planner_machine_terms t = gpus(1, 4);
    const struct sw_plan_shape shape = shape_of(SW_FRAMEWORK_ALLREDUCE, 1, 4),
                               serves = shape_of(SW_FRAMEWORK_SANDBLASTER, 1, 4);
    const struct sw_layer_choice factors = {.comm = SW_EXCHANGE_SFB};
    struct fc6 f, same;

    fc6_init(&f, &t, &shape);
    fc6_init(&same, &t, &serves);
    const double reduced_s = sw_cost_layer(&f.cost, 2, &by_rows).params_s,
                 factors_s = sw_cost_layer(&f.cost, 2, &factors).params_s;
    assert_true(sw_cost_devices_update(&f.cost));

    f.machine.model.mirrors = true;
    sw_cost_model_init(&f.cost, &f.net.model, &f.machine.model, &shape);
    assert_false(sw_cost_devices_update(&f.cost));
    assert_true(sw_cost_layer(&f.cost, 2, &by_rows).params_s > 1.1 * reduced_s);
    assert_close(sw_cost_layer(&f.cost, 2, &by_rows).params_s,
                 sw_cost_layer(&same.cost, 2, &by_rows).params_s);
    /* They do not reach each other: factors go by way of the host. */
    assert_true(sw_cost_layer(&f.cost, 2, &factors).params_s > factors_s);
    (void)state;
}

/* As plan/copy_mode.c decides for jobs. */
static void options_that_need_servers_are_known(void **state)
{
    static const struct sw_copy_terms terms[] = {{.mixed = true},
                                                 {.rolls_back = true},
                                                 {.repeat_exact = true},
                                                 {.sends_to_servers = true},
                                                 {.bind_servers = SW_BIND_NO}};
    const struct planner_machine_terms t = gpus(1, 17);
    const struct sw_plan_shape one = shape_of(SW_FRAMEWORK_ALLREDUCE, 1, 1),
                               four = shape_of(SW_FRAMEWORK_ALLREDUCE, 1, 4),
                               many = shape_of(SW_FRAMEWORK_ALLREDUCE, 1, 17);
    struct fc6 f;

    fc6_init(&f, &t, &four);
    assert_true(sw_cost_devices_update(&f.cost));
    for (size_t i = 0; i < sizeof terms / sizeof *terms; i++) {
        f.net.model.copy = terms[i];
        sw_cost_model_init(&f.cost, &f.net.model, &f.machine.model, &four);
        assert_false(sw_cost_devices_update(&f.cost));
    }

    f.net.model.copy = (struct sw_copy_terms){.repeat_exact = true};
    sw_cost_model_init(&f.cost, &f.net.model, &f.machine.model, &one);
    assert_true(sw_cost_devices_update(&f.cost)); /* nothing is reduced */

    fc6_init(&f, &t, &many);
    assert_false(sw_cost_devices_update(&f.cost)); /* more than an all-reduce has */
    (void)state;
}

static void columns_are_split_by_channels(void **state)
{
    const struct planner_machine_terms t = gpus(1, 4);
    const struct sw_plan_shape shape = shape_of(SW_FRAMEWORK_ALLREDUCE, 1, 4);
    struct fc6 f;

    fc6_init(&f, &t, &shape);
    const double even_s = sw_cost_layer(&f.cost, 2, &by_columns).compute_s;
    f.net.layer[2].units = 6; /* 2, 2, 1 and 1 of them */
    const double uneven_s = sw_cost_layer(&f.cost, 2, &by_columns).compute_s;
    assert_close(uneven_s - 2e-5 * 0.5, (even_s - 2e-5 * 0.5) * 4 / 3);

    f.net.layer[1].units = 5; /* of the source */
    const double inputs_s = sw_cost_layer(&f.cost, 2, &by_inputs).compute_s;
    assert_close(inputs_s - 2e-5 * 0.5, (even_s - 2e-5 * 0.5) * 4 * 2 / 5);
    (void)state;
}

static void what_is_restored_takes_time_and_no_memory(void **state)
{
    const struct planner_machine_terms t = gpus(1, 2);
    const struct sw_plan_shape shape = shape_of(SW_FRAMEWORK_ALLREDUCE, 1, 2);
    struct sw_layer_choice recomputed = by_rows, offloaded = by_rows;
    struct fc6 f;

    recomputed.residency = SW_PLAN_RECOMPUTED;
    offloaded.residency = SW_PLAN_OFFLOADED;
    fc6_init(&f, &t, &shape);
    f.net.layer[3].in_place = true;

    const double rows = FC6_BATCH / 2.0, bytes = rows * FC6_OUTPUTS * sizeof(float);
    const double kept_s = sw_cost_layer(&f.cost, 2, &by_rows).compute_s,
                 again_s = sw_cost_pass(&f.cost, 2, 0, rows, 1, 2, false) +
                           sw_cost_pass(&f.cost, 3, 0, rows, 1, 2, false);
    assert_close(sw_cost_layer(&f.cost, 2, &recomputed).compute_s, kept_s + again_s);
    assert_close(sw_cost_layer(&f.cost, 2, &offloaded).compute_s,
                 kept_s + 2 * (bytes / f.cost.host.bytes_per_s + f.cost.host.latency_s));

    f.net.layer[2].saved_bytes = 1000;
    const int64_t kept = sw_cost_bytes(&f.cost, 2, &by_rows, 0);
    assert_int_equal(kept - sw_cost_bytes(&f.cost, 2, &recomputed, 0), (int64_t)bytes + 500);
    assert_int_equal(kept - sw_cost_bytes(&f.cost, 2, &offloaded, 0), (int64_t)bytes);

    f.net.layer[2].frozen = 250; /* values only */
    assert_int_equal(sw_cost_bytes(&f.cost, 2, &by_rows, 0), kept + 1000);
    (void)state;
}

/* A worker's few threads do not use all of the memory's throughput. */
static void threads_limit_what_a_worker_moves(void **state)
{
    const struct planner_machine_terms t = cores(1, 1);
    const struct sw_plan_shape shape = shape_of(SW_FRAMEWORK_ALLREDUCE, 1, 1);
    struct fc6 f;

    fc6_init(&f, &t, &shape);
    const double all_s = sw_cost_pass(&f.cost, 1, 0, FC6_BATCH, 1, 1, false);
    f.machine.device[0].thread_bytes_per_s = t.bytes_per_s / 4;
    assert_close(sw_cost_pass(&f.cost, 1, 0, FC6_BATCH, 1, 1, false), 4 * all_s);
    f.machine.device[0].threads = 4;
    assert_close(sw_cost_pass(&f.cost, 1, 0, FC6_BATCH, 1, 1, false), all_s);
    f.machine.device[0].threads = 8;
    assert_close(sw_cost_pass(&f.cost, 1, 0, FC6_BATCH, 1, 1, false), all_s);
    (void)state;
}

static void the_slowest_worker_decides(void **state)
{
    const struct planner_machine_terms t = gpus(1, 3);
    const struct sw_plan_shape shape = shape_of(SW_FRAMEWORK_ALLREDUCE, 1, 3);
    struct fc6 f;

    fc6_init(&f, &t, &shape);
    assert_int_equal(sw_cost_rows(&f.cost), 86);
    const double even = sw_cost_layer(&f.cost, 2, &by_rows).compute_s;
    f.machine.device[2].flops_per_s.value /= 2;
    const double slow = sw_cost_layer(&f.cost, 2, &by_rows).compute_s;
    assert_true(slow > 1.8 * even);
    assert_close(sw_cost_layer(&f.cost, 2, &on_first).compute_s,
                 even * 256 / 86 - 1e-5 * 256 / 86 + 1e-5);
    (void)state;
}

static void memory_is_that_of_the_shards(void **state)
{
    const struct planner_machine_terms t = gpus(1, 4);
    const struct sw_plan_shape shape = shape_of(SW_FRAMEWORK_ALLREDUCE, 1, 4);
    const int64_t params = (int64_t)FC6_INPUTS * FC6_OUTPUTS * 4, out = FC6_BATCH * FC6_OUTPUTS * 4;
    struct fc6 f;

    fc6_init(&f, &t, &shape);
    assert_int_equal(sw_cost_bytes(&f.cost, 2, &by_rows, 0), 3 * params + 2 * out / 4);
    assert_int_equal(sw_cost_bytes(&f.cost, 2, &by_columns, 3),
                     3 * params / 4 + 2 * out / 4 + (int64_t)FC6_BATCH * FC6_INPUTS * 2 * 4);
    assert_int_equal(sw_cost_bytes(&f.cost, 2, &on_second, 1), 3 * params + 2 * out);
    assert_int_equal(sw_cost_bytes(&f.cost, 2, &on_second, 0), 0);
    (void)state;
}

static struct sw_plan_shape ssp_of(int groups, int size)
{
    struct sw_plan_shape shape = shape_of(SW_FRAMEWORK_DOWNPOUR, groups, size);

    shape.consistency = SW_CONSISTENCY_SSP;
    shape.staleness = 2;
    shape.servers = 1;
    return shape;
}

/* Four groups of a device each: every one gets the factors of all, and makes four updates. */
static void factors_of_asynchronous_groups_go_to_all(void **state)
{
    const struct planner_machine_terms t = gpus(1, 4);
    const struct sw_plan_shape shape = ssp_of(4, 1);
    const struct sw_factors_layer layer = {1, FC6_INPUTS, FC6_OUTPUTS};
    const struct sw_factors_args factors = {
        .groups = 4, .staleness = 2, .batch_rows = FC6_BATCH, .layers = &layer, .count = 1};
    const struct sw_exchange_cost_args args = {.workers = 4,
                                               .servers = 1,
                                               .rows = 4 * FC6_BATCH,
                                               .inputs = FC6_INPUTS,
                                               .outputs = FC6_OUTPUTS,
                                               .devices = true,
                                               .peers = true,
                                               .flops_per_s = 1e12,
                                               .server_flops_per_s = 1e12 / 8,
                                               .memory_bytes_per_s = 1e11,
                                               .link_bytes_per_s = 1e10};
    const double params = (double)FC6_INPUTS * FC6_OUTPUTS, update_s = 5 * 4 * params / 1e11;
    struct sw_layer_choice sfb = by_rows;
    struct sw_exchange_price price;
    struct fc6 f;

    sfb.comm = SW_EXCHANGE_SFB;
    fc6_init(&f, &t, &shape);
    sw_exchange_cost(&args, &price);
    const struct sw_layer_cost cost = sw_cost_layer(&f.cost, 2, &sfb);
    const double own_s = 2.0 * FC6_BATCH * params / 1e12; /* in the backward pass */
    assert_close(cost.params_s, price.ms[SW_EXCHANGE_SFB] * 1e-3 - own_s + 4 * update_s);
    assert_close(cost.moved_params,
                 (double)sw_exchange_count(SW_EXCHANGE_SFB, &args, (int64_t)params).moved);
    assert_close(sw_cost_layer(&f.cost, 2, &by_rows).moved_params,
                 (double)sw_exchange_count(SW_EXCHANGE_PS, &args, (int64_t)params).moved);

    /* The rings of the other three groups have six arrays each. */
    const int64_t bytes =
        sw_cost_bytes(&f.cost, 2, &sfb, 0) - sw_cost_bytes(&f.cost, 2, &by_rows, 0);
    assert_int_equal(bytes, sw_factors_bytes(&factors));
    assert_int_equal(bytes, (int64_t)4 * FC6_BATCH * (FC6_INPUTS + FC6_OUTPUTS) * (1 + 3 * 6));
    assert_false(sw_cost_factors_take_too_much(&f.cost, 2));

    f.net.layer[2].outputs = 1000;
    assert_true(sw_cost_factors_take_too_much(&f.cost, 2));
    (void)state;
}

/* As plan/exchange_modes.c decides for jobs. */
static void what_keeps_devices_from_exchanging_factors_is_known(void **state)
{
    const struct planner_machine_terms one = gpus(1, 4), two = gpus(2, 2), host = cores(1, 4);
    struct sw_plan_shape shape = ssp_of(4, 1);
    struct fc6 f;

    fc6_init(&f, &one, &shape);
    assert_null(f.cost.why_no_factors);
    assert_int_equal(sw_cost_connected(&f.cost), 4);

    f.net.model.warmup_steps = 1;
    sw_cost_model_init(&f.cost, &f.net.model, &f.machine.model, &shape);
    assert_non_null(f.cost.why_no_factors);

    fc6_init(&f, &two, &shape);
    assert_non_null(f.cost.why_no_factors);
    assert_int_equal(sw_cost_connected(&f.cost), 1);

    fc6_init(&f, &host, &shape);
    assert_null(f.cost.why_no_factors);
    assert_int_equal(sw_cost_connected(&f.cost), 1);

    shape.consistency = SW_CONSISTENCY_HOGWILD;
    fc6_init(&f, &one, &shape);
    assert_non_null(f.cost.why_no_factors);

    shape.consistency = SW_CONSISTENCY_ASYNC;
    shape.staleness = -1;
    fc6_init(&f, &one, &shape);
    assert_non_null(f.cost.why_no_factors);

    shape.consistency = SW_CONSISTENCY_BSP;
    fc6_init(&f, &two, &shape);
    assert_null(f.cost.why_no_factors);
    f.net.model.controls_updates = true;
    sw_cost_model_init(&f.cost, &f.net.model, &f.machine.model, &shape);
    assert_non_null(f.cost.why_no_factors);
    (void)state;
}

/* Two workers on a core each, and a layer with a sample of each kind. */
static void parts_of_columns_and_rests_are_those_measured(void **state)
{
    const struct planner_machine_terms cores = {
        .hosts = 1, .per_host = 2, .threads = 1, .flops_per_s = 1e9, .bytes_per_s = 1e9};
    const struct sw_plan_shape shape = {.groups = 1, .group_size = 2, .servers = 2};
    const struct sw_layer_sample samples[] = {
        {.rows = 32, .workers = 2, .threads = 1, .forward_s = 1, .backward_s = 2},
        {.rows = 64, .workers = 2, .threads = 1, .part = 0.5, .forward_s = 0.7, .backward_s = 1.5}};
    const struct sw_rest_sample rest[] = {
        {.workers = 2, .threads = 1, .kind = SW_STEP_GRADIENTS, .seconds = 2},
        {.workers = 2, .threads = 1, .kind = SW_STEP_FACTORS, .seconds = 1},
        {.workers = 2, .threads = 1, .kind = SW_STEP_MOVES, .moves = 4, .seconds = 6},
        {.workers = 4, .threads = 1, .kind = SW_STEP_FACTORS, .seconds = 50},
        {.workers = 2, .threads = 0, .kind = SW_STEP_FACTORS, .seconds = 70}};
    struct planner_net net;
    struct planner_machine machine;
    struct sw_cost_model c;

    planner_net_begin(&net, 64);
    int i = planner_inner_product(&net, planner_input(&net, 10, 1), 100);
    net.layer[i].samples = samples;
    net.layer[i].sample_count = 2;
    net.model.rest = rest;
    planner_machine(&machine, &cores);
    sw_cost_model_init(&c, &net.model, &machine.model, &shape);

    assert_true(sw_cost_pass(&c, i, 0, 32, 1, 2, false) == 1);
    assert_true(sw_cost_pass(&c, i, 0, 64, 0.5, 2, false) == 0.7);
    assert_true(sw_cost_pass(&c, i, 0, 64, 0.5, 2, true) == 1.5);
    assert_true(sw_cost_pass(&c, i, 0, 32, 0.5, 2, true) == 0.75);
    /* An eighth is too far from a half: of all columns with twice the rows. */
    assert_true(sw_cost_pass(&c, i, 0, 64, 0.125, 2, false) == 0.25);

    assert_true(sw_cost_rest(&c, SW_STEP_GRADIENTS, 0) == 0);
    net.model.rest_count = 5;
    assert_true(sw_cost_rest(&c, SW_STEP_GRADIENTS, 0) == 2);
    assert_true(sw_cost_rest(&c, SW_STEP_FACTORS, 0) == 1);
    assert_true(sw_cost_rest(&c, SW_STEP_MOVES, 4) == 6);
    assert_true(sw_cost_rest(&c, SW_STEP_MOVES, 1) == 3);
    net.model.rest_count = 1; /* better than nothing */
    assert_true(sw_cost_rest(&c, SW_STEP_MOVES, 3) == 2);
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_of_columns_and_rests_are_those_measured),
        cmocka_unit_test(counts_are_those_of_the_design),
        cmocka_unit_test(a_slow_network_makes_factors_or_splits_cheaper),
        cmocka_unit_test(prices_are_those_of_the_runtime),
        cmocka_unit_test(groups_reduce_shards_over_groups_only),
        cmocka_unit_test(server_hosts_get_all_gradients),
        cmocka_unit_test(workers_share_links_and_memory),
        cmocka_unit_test(one_memory_is_read_in_place_where_it_can_be),
        cmocka_unit_test(partial_sums_reach_whole_readers_by_way_of_rows),
        cmocka_unit_test(measured_times_are_interpolated),
        cmocka_unit_test(times_of_other_threads_are_scaled),
        cmocka_unit_test(measured_updates_have_the_sum),
        cmocka_unit_test(servers_update_mirrors),
        cmocka_unit_test(options_that_need_servers_are_known),
        cmocka_unit_test(columns_are_split_by_channels),
        cmocka_unit_test(what_is_restored_takes_time_and_no_memory),
        cmocka_unit_test(threads_limit_what_a_worker_moves),
        cmocka_unit_test(the_slowest_worker_decides),
        cmocka_unit_test(memory_is_that_of_the_shards),
        cmocka_unit_test(factors_of_asynchronous_groups_go_to_all),
        cmocka_unit_test(what_keeps_devices_from_exchanging_factors_is_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
