/* The plan that a user gets: it is the fastest of all that are compared, fits the memory, stays on
 * a host where activations would have to leave it, and its explanations are costs of real plans. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/stop.h"
#include "planner/planned.h"
#include "unit/planner/planner_support.h"
#include <math.h>
#include <string.h>

/* AlexNet on a machine. */
struct planning {
    struct planner_net net;
    struct planner_machine machine;
    struct planner_machine other; /* machines[1], where it is used */
    struct sw_machine_model *machines[2];
    struct sw_search_limits limits;
    struct sw_planned_args args;
    struct sw_planned planned;
    struct sw_err err;
};

static const struct planner_machine_terms four_hosts = {.hosts = 4,
                                                        .per_host = 1,
                                                        .flops_per_s = 1e12,
                                                        .bytes_per_s = 1e11,
                                                        .network_bytes_per_s = 1.25e8,
                                                        .device_bytes_per_s = 1e10,
                                                        .latency_s = 5e-5,
                                                        .memory_bytes = (int64_t)1 << 36};

static void prepare(struct planning *p, const struct planner_machine_terms *t)
{
    *p = (struct planning){.limits = {.staleness = -1, .net_comm = SW_EXCHANGE_AUTO}};
    planner_alexnet(&p->net, 256);
    planner_machine(&p->machine, t);
    p->machines[0] = &p->machine.model;
    p->args = (struct sw_planned_args){
        .net = &p->net.model, .machine = p->machines, .machines = 1, .limits = &p->limits};
}

static void make(struct planning *p)
{
    if (sw_planned_make(&p->args, &p->planned, &p->err) != SW_OK)
        fail_msg("%s", p->err.text);
}

static int layer_of(const struct planning *p, const char *type, int number)
{
    for (int i = 0; i < p->net.model.count; i++)
        if (strcmp(p->net.model.layer[i].type, type) == 0 && number-- == 0)
            return i;
    fail_msg("no %s", type);
    return -1;
}

static void the_best_plan_is_faster_than_all_that_were_rejected(void **state)
{
    struct planning *p = *state;
    struct planner_machine_terms t = four_hosts;

    t.hosts = 1;
    t.per_host = 4;
    prepare(p, &t);
    make(p);

    const struct sw_planned *d = &p->planned;
    assert_true(d->alternatives > 3);
    for (int i = 0; i < d->alternatives; i++) {
        assert_true(d->alternative[i].step_s >= d->best.time.step_s);
        assert_true(i == 0 || d->alternative[i].step_s >= d->alternative[i - 1].step_s);
        assert_true(d->alternative[i].what[0] != '\0');
    }

    assert_true(sw_planned_speed_up(d) > 1);
    assert_true(d->one_worker_s > d->best.time.step_s);
}

static void on_several_hosts_layers_are_split_by_rows(void **state)
{
    struct planning *p = *state;

    prepare(p, &four_hosts);
    p->limits.groups = 1;
    p->limits.group_size = 4;
    make(p);

    const struct sw_planned *d = &p->planned;
    assert_true(d->rows_between_hosts);
    assert_int_equal(sw_planned_hosts(d), 4);
    for (int i = 0; i < d->net->count; i++)
        assert_int_equal(d->best.choice[i].partition, SW_PARTITION_ROWS);

    /* 37.7 M parameters of fc6 take longer than their factors. */
    const int fc6 = layer_of(p, "inner_product", 0);
    assert_int_not_equal(d->best.choice[fc6].comm, SW_EXCHANGE_PS);
}

static void hosts_have_equally_many_workers(void **state)
{
    struct planning *p = *state;
    struct planner_machine_terms t = four_hosts;

    t.hosts = 2;
    t.per_host = 3;
    prepare(p, &t);
    p->limits.groups = 1;
    p->limits.group_size = 5;
    assert_int_equal(sw_planned_make(&p->args, &p->planned, &p->err), SW_ERR_INVALID);
    assert_non_null(
        strstr(p->err.text, "workers_per_group = 5 cannot give 2 hosts equally many workers"));
    sw_planned_fini(&p->planned);

    p->limits.group_size = 0;
    make(p);
    for (int i = 0; i < p->planned.alternatives; i++) {
        const struct sw_plan_shape *s = &p->planned.alternative[i].shape;
        const int workers = s->groups * s->group_size;

        assert_true(workers <= 3 || workers == 6);
    }
}

/* Two hosts with one worker of four threads each, and with two of two threads each. */
static void workers_on_cores_use_all_of_them(void **state)
{
    struct planning *p = *state;
    struct planner_machine_terms t = four_hosts;

    t.hosts = 2;
    t.threads = 4;
    prepare(p, &t);
    t.per_host = t.threads = 2;
    t.flops_per_s /= 2;
    planner_machine(&p->other, &t);
    p->machines[1] = &p->other.model;
    p->args.machines = 2;
    make(p);

    const struct sw_planned *d = &p->planned;
    bool has_pair = false;
    assert_int_equal(sw_planned_hosts(d), 2);
    assert_int_equal(d->best.workers, 2);

    for (int i = 0; i < d->alternatives; i++) {
        const struct sw_plan_shape *s = &d->alternative[i].shape;
        const char *what = d->alternative[i].what;

        assert_true(what[0] != '\0');
        assert_int_not_equal(s->groups * s->group_size, 3);
        has_pair = has_pair || strcmp(what, "allreduce, 1 group of 2 workers on 1 host") == 0;
    }
    assert_true(has_pair);
}

static void a_split_layer_needs_one_host(void **state)
{
    struct planning *p = *state;
    int partition[PLANNER_LAYERS];

    prepare(p, &four_hosts);
    memset(partition, -1, sizeof partition);
    partition[layer_of(p, "inner_product", 0)] = SW_PARTITION_COLUMNS;
    p->limits.partition = partition;
    p->limits.groups = 1;
    p->limits.group_size = 4;

    assert_int_equal(sw_planned_make(&p->args, &p->planned, &p->err), SW_ERR_INVALID);
    assert_non_null(strstr(p->err.text, "activations do not move between hosts"));
    sw_planned_fini(&p->planned);

    /* Two GPUs of one host. */
    struct planner_machine_terms t = four_hosts;
    t.hosts = 2;
    t.per_host = 2;
    planner_machine(&p->machine, &t);
    p->limits.group_size = 2;
    make(p);
    assert_int_equal(sw_planned_hosts(&p->planned), 1);
    sw_planned_fini(&p->planned);

    /* A cluster of the papers. */
    t = four_hosts;
    t.server_hosts = 7;
    planner_machine(&p->machine, &t);
    p->limits.group_size = 4;
    make(p);
    assert_int_equal(sw_planned_hosts(&p->planned), 4);
    assert_false(p->planned.rows_between_hosts);
    assert_int_equal(p->planned.best.shape.servers, 7);
}

/* Asks for a stop in the search of a single host, which has groups of two workers. */
static const char *refuses_and_stops(const struct sw_net_model *m, int layer, enum sw_partition p,
                                     int workers)
{
    if (workers == 2)
        sw_stop_request(0);
    return planner_refuses(m, layer, p, workers);
}

static void a_stop_in_any_search_ends_the_planning(void **state)
{
    struct planning *p = *state;
    struct planner_machine_terms t = four_hosts;

    t.hosts = 2;
    t.per_host = 2;
    t.network_bytes_per_s = 1e10;
    prepare(p, &t);
    p->net.model.refuses = refuses_and_stops;

    const int rc = sw_planned_make(&p->args, &p->planned, &p->err);
    assert_true(sw_stop_requests() > 0);
    sw_stop_reset();
    assert_int_equal(rc, SW_ERR_CANCELLED);
}

/* As if only a single worker had enough memory. */
static int needs_too_much(void *user, const struct sw_machine_model *machine,
                          struct sw_parallel_plan *plan, struct sw_err *err)
{
    int *measured = user;

    ++*measured;
    for (int w = 0; w < plan->workers; w++)
        plan->device_bytes[w] = plan->workers > 1 ? ((int64_t)1 << 36) + 1 : 1000;
    return SW_OK;
}

static void a_plan_that_does_not_fit_is_dropped(void **state)
{
    struct planning *p = *state;
    struct planner_machine_terms t = four_hosts;
    int measured = 0;

    /* So many fast devices that one alone is far slower. */
    t.hosts = 1;
    t.per_host = 8;
    t.device_bytes_per_s = 1e11;
    t.latency_s = 1e-6;
    prepare(p, &t);
    p->limits.budget_bytes = -1;
    p->args.measure = needs_too_much;
    p->args.user = &measured;

    make(p);
    assert_int_equal(p->planned.best.workers, 1);
    assert_int_equal(p->planned.best.device_bytes[0], 1000);
    assert_true(measured > 1);
}

/* As if all activations took too much memory, and a budget cost so much of recomputing. */
struct fitting {
    double flops;
    int opened, budgets;
};

static int fits_with_a_budget(void *user, const struct sw_machine_model *machine,
                              struct sw_parallel_plan *plan, struct sw_err *err)
{
    struct fitting *f = user;
    const bool has_budget = plan->fit.budget_bytes > 0;

    f->opened++;
    f->budgets += has_budget;
    for (int w = 0; w < plan->workers; w++)
        plan->device_bytes[w] = machine->device[w].memory_bytes + (has_budget ? 0 : 1);

    plan->fit.is_exact = true;
    plan->fit.recomputed = has_budget ? 3 : 0;
    plan->fit.flops = has_budget ? f->flops * plan->workers : 0;
    return SW_OK;
}

static void a_plan_that_does_not_fit_gets_a_budget(void **state)
{
    struct planning *p = *state;
    struct fitting f = {.flops = 1e9}; /* of each worker: 1 ms */

    prepare(p, &four_hosts);
    p->args.measure = fits_with_a_budget;
    p->args.user = &f;
    make(p);

    const struct sw_parallel_plan *best = &p->planned.best;
    assert_int_equal(best->fit.budget_bytes, four_hosts.memory_bytes);
    assert_int_equal(best->fit.recomputed, 3);
    assert_true(fabs(best->fit.seconds - 1e-3) < 1e-9);
    assert_true(fabs(best->time.step_s - p->planned.simulation.time.step_s - 1e-3) < 1e-9);
    assert_true(f.budgets > 0 && f.budgets <= 16);
    sw_planned_fini(&p->planned);

    /* [job] memory says that all activations stay. */
    p->limits.budget_bytes = -1;
    f.budgets = 0;
    assert_int_equal(sw_planned_make(&p->args, &p->planned, &p->err), SW_ERR_NOTFOUND);
    assert_int_equal(f.budgets, 0);
    sw_planned_fini(&p->planned);

    /* Where even the search finds that nothing fits, jobs are asked. */
    p->limits.budget_bytes = 0;
    for (int d = 0; d < p->machine.model.device_count; d++)
        p->machine.device[d].memory_bytes = 1 << 20;
    make(p);
    assert_int_equal(p->planned.best.fit.budget_bytes, 1 << 20);
}

/* What memory = fit costs stays in the step when single layers of the plan are changed. */
static void a_changed_plan_keeps_the_time_of_its_budget(void **state)
{
    struct planning *p = *state;
    struct fitting f = {.flops = 4e10}; /* of each worker: 10 ms */
    struct planner_machine_terms t = four_hosts;

    t.hosts = 1;
    t.per_host = 2;
    t.flops_per_s = 4e12;
    t.bytes_per_s = 4e11;
    t.device_bytes_per_s = 1e9;
    prepare(p, &t);
    p->limits.groups = 1;
    p->limits.group_size = 2;
    p->args.measure = fits_with_a_budget;
    p->args.user = &f;
    make(p);

    const struct sw_parallel_plan *best = &p->planned.best;
    assert_true(fabs(best->fit.seconds - 1e-2) < 1e-9);
    assert_true(fabs(best->time.step_s - p->planned.simulation.time.step_s - 1e-2) < 1e-9);
}

/* One worker with all eight cores and with two: where layers were measured to be faster with two,
 * the plan says so; where nothing was measured, it has all. */
static void a_worker_has_the_threads_that_were_measured_to_be_fastest(void **state)
{
    struct planning *p = *state;
    struct planner_machine_terms t = four_hosts;
    struct sw_layer_sample sample[PLANNER_LAYERS][2];

    t.hosts = 1;
    t.threads = 8;
    t.flops_per_s *= 8;
    prepare(p, &t);
    t.threads = 2;
    t.flops_per_s /= 4;
    planner_machine(&p->other, &t);
    p->other.model.threads_per_worker = 2;
    p->machines[1] = &p->other.model;
    p->args.machines = 2;

    make(p);
    assert_int_equal(p->planned.best.shape.threads, 0);
    sw_planned_fini(&p->planned);

    for (int i = 0; i < p->net.model.count; i++) {
        sample[i][0] = (struct sw_layer_sample){
            .rows = 256, .workers = 1, .threads = 8, .forward_s = 2e-3, .backward_s = 2e-3};
        sample[i][1] = sample[i][0];
        sample[i][1].threads = 2;
        sample[i][1].forward_s = 1e-3;
        p->net.layer[i].samples = sample[i];
        p->net.layer[i].sample_count = 2;
    }
    make(p);
    char text[96];
    assert_int_equal(p->planned.best.shape.threads, 2);
    assert_string_equal(sw_planned_shape_text(&p->planned.best.shape, text),
                        "1 group of 1 worker with 2 threads");
}

/* Seconds of a simulated step of a plan. */
static double step_s(const struct planning *p, const struct sw_parallel_plan *plan)
{
    const struct sw_simulation_args args =
        sw_planned_simulation(&p->args, p->planned.machine, plan);
    struct sw_simulation sim = {0};
    struct sw_err err;

    if (sw_simulate(&args, &sim, &err) != SW_OK)
        fail_msg("%s", err.text);
    const double seconds = sim.time.step_s;
    sw_simulation_fini(&sim);
    return seconds;
}

static void a_runner_up_is_another_choice_with_its_simulated_time(void **state)
{
    struct planning *p = *state;
    struct planner_machine_terms t = four_hosts;
    int others = 0;

    t.hosts = 1;
    t.per_host = 2;
    prepare(p, &t);
    p->limits.groups = 1;
    p->limits.group_size = 2;
    make(p);

    struct sw_planned *d = &p->planned;
    for (int i = 0; i < d->net->count; i++) {
        if (d->net->layer[i].is_input) {
            assert_true(isinf(d->runner_up_s[i]));
            continue;
        }

        const struct sw_layer_choice own = d->best.choice[i], other = d->runner_up[i];
        assert_true(own.partition != other.partition || own.location != other.location ||
                    own.comm != other.comm);

        d->best.choice[i] = other;
        const double other_s = step_s(p, &d->best);
        d->best.choice[i] = own;
        assert_true(fabs(other_s - d->best.time.step_s - d->runner_up_s[i]) <=
                    1e-9 * d->best.time.step_s);
        assert_true(d->runner_up_s[i] >= -SW_PLANNED_EQUAL * d->best.time.step_s); /* improved */
        others += d->runner_up_s[i] > 0;
    }

    assert_true(others > 0);
}

static void the_simulation_of_the_plan_is_kept(void **state)
{
    struct planning *p = *state;
    double wait_s = 0;

    prepare(p, &four_hosts);
    p->limits.groups = 1;
    p->limits.group_size = 4;
    p->limits.net_comm = SW_EXCHANGE_PS;
    make(p);

    const struct sw_simulation *s = &p->planned.simulation;
    assert_true(s->time.step_s == p->planned.best.time.step_s);

    for (int i = 0; i < p->planned.net->count; i++)
        wait_s += s->layer_wait_s[i];
    assert_true(wait_s > 0); /* whole gradients over a slow network */

    double busy = 0;
    for (int i = 0; i < sw_machine_model_links(p->planned.machine); i++) {
        assert_true(s->busy[i] >= 0 && s->busy[i] <= 1);
        busy = fmax(busy, s->busy[i]);
    }
    assert_true(busy > 0.5);
}

/* A slow network, where fewer hosts would be faster. */
static void all_hosts_of_a_job_have_workers(void **state)
{
    struct planning *p = *state;
    struct planner_machine_terms t = four_hosts;

    t.network_bytes_per_s = 1e6;
    prepare(p, &t);
    make(p);
    assert_int_equal(sw_planned_hosts(&p->planned), 1);
    sw_planned_fini(&p->planned);

    p->args.hosts = 4;
    make(p);
    assert_int_equal(sw_planned_hosts(&p->planned), 4);
    for (int i = 0; i < p->planned.alternatives; i++) {
        const struct sw_plan_shape *s = &p->planned.alternative[i].shape;
        assert_int_equal(s->groups * s->group_size, 4);
    }
    sw_planned_fini(&p->planned);

    p->limits.groups = 1;
    p->limits.group_size = 2;
    assert_int_equal(sw_planned_make(&p->args, &p->planned, &p->err), SW_ERR_INVALID);
    assert_non_null(strstr(p->err.text, "no plan has workers on all of the 4 hosts"));
}

/* Changes of single layers never make a plan slower than the fastest one that was found. */
static void a_plan_is_at_least_as_fast_as_what_was_found(void **state)
{
    struct planning *p = *state;
    struct planner_machine_terms t = four_hosts;

    t.hosts = 1;
    for (int devices = 2; devices <= 4; devices++)
        for (double rate = 1e8; rate < 1e11; rate *= 10) {
            t.per_host = devices;
            t.device_bytes_per_s = rate;
            prepare(p, &t);

            assert_int_equal(sw_planned_find(&p->args, &p->planned, &p->err), SW_OK);
            const double found_s = p->planned.best.time.step_s;
            sw_planned_fini(&p->planned);

            make(p);
            assert_true(p->planned.best.time.step_s <= found_s * (1 + 1e-9));
            for (int i = 0; i < p->planned.net->count; i++)
                assert_true(p->planned.runner_up_s[i] >=
                            -SW_PLANNED_EQUAL * p->planned.best.time.step_s);
            sw_planned_fini(&p->planned);
        }
}

static void a_choice_that_the_user_has_made_has_no_runner_up(void **state)
{
    struct planning *p = *state;
    struct planner_machine_terms t = four_hosts;
    int partition[PLANNER_LAYERS];

    t.hosts = 1;
    t.per_host = 2;
    prepare(p, &t);
    memset(partition, -1, sizeof partition);
    const int fc6 = layer_of(p, "inner_product", 0);
    partition[fc6] = SW_PARTITION_COLUMNS;
    p->limits.partition = partition;
    p->limits.groups = 1;
    p->limits.group_size = 2;
    make(p);

    assert_int_equal(p->planned.best.choice[fc6].partition, SW_PARTITION_COLUMNS);
    assert_true(isinf(p->planned.runner_up_s[fc6]));
    assert_true(isfinite(p->planned.runner_up_s[fc6 + 1]));
}

/* Without a bound a device would have to store any number of factors. */
static void devices_of_unbounded_groups_exchange_no_factors(void **state)
{
    struct planning *p = *state;
    struct planner_machine_terms t = four_hosts;

    t.hosts = 1;
    t.per_host = 4;
    t.device_bytes_per_s = 1e8;
    prepare(p, &t);
    p->limits.framework = SW_FRAMEWORK_DOWNPOUR;
    make(p);

    const struct sw_planned *d = &p->planned;
    for (int i = 0; i < d->net->count; i++) {
        assert_int_not_equal(d->best.choice[i].comm, SW_EXCHANGE_SFB);
        assert_true(isinf(d->runner_up_s[i]) || d->runner_up[i].comm != SW_EXCHANGE_SFB);
    }
    for (int i = 0; i < d->alternatives; i++)
        assert_null(strstr(d->alternative[i].what, "sfb"));
}

static int setup(void **state)
{
    *state = calloc(1, sizeof(struct planning));
    return *state ? 0 : -1;
}

static int teardown(void **state)
{
    struct planning *p = *state;

    sw_planned_fini(&p->planned);
    free(p);
    return 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_best_plan_is_faster_than_all_that_were_rejected),
        TEST(on_several_hosts_layers_are_split_by_rows),
        TEST(hosts_have_equally_many_workers),
        TEST(workers_on_cores_use_all_of_them),
        TEST(a_split_layer_needs_one_host),
        TEST(a_stop_in_any_search_ends_the_planning),
        TEST(a_plan_that_does_not_fit_is_dropped),
        TEST(a_plan_that_does_not_fit_gets_a_budget),
        TEST(a_changed_plan_keeps_the_time_of_its_budget),
        TEST(a_worker_has_the_threads_that_were_measured_to_be_fastest),
        TEST(a_runner_up_is_another_choice_with_its_simulated_time),
        TEST(the_simulation_of_the_plan_is_kept),
        TEST(all_hosts_of_a_job_have_workers),
        TEST(a_plan_is_at_least_as_fast_as_what_was_found),
        TEST(a_choice_that_the_user_has_made_has_no_runner_up),
        TEST(devices_of_unbounded_groups_exchange_no_factors),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
