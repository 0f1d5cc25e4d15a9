/* The topology that [cluster] means on a machine: worker groups, ranks, microbatches, update groups
 * and servers, and which rows are whose. No job is made. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/os.h"
#include "plan/row_split.h"
#include "unit/faulty_os.h"
#include <string.h>

static const char two_nodes[] = "numa:2 core:8 pu:1";

/* 0 stands for what [cluster] has when it says nothing. */
struct wish {
    int framework, consistency;
    int worker_groups, workers_per_group, server_groups, servers_per_group;
    int threads_per_worker;
    int64_t warmup_steps, staleness;
    int64_t batch, eval_batch; /* 0: 64 and 32 */
    int virtual_workers, device_workers;
    bool devices; /* of their own for workers */
    bool splits_layers;
};

static struct sw_topology *make(const struct wish *w)
{
    const struct sw_cluster_conf conf = {.framework = w->framework,
                                         .consistency = w->consistency,
                                         .worker_groups = w->worker_groups,
                                         .workers_per_group = w->workers_per_group,
                                         .threads_per_worker = w->threads_per_worker,
                                         .server_groups = w->server_groups,
                                         .servers_per_group = w->servers_per_group,
                                         .staleness = w->staleness ? w->staleness : -1,
                                         .sync_period = 10,
                                         .warmup_steps = w->warmup_steps};
    struct sw_cluster_shape shape = {0};
    struct sw_cluster_sync sync = {0};
    struct sw_machine *m;
    struct sw_topology *t = NULL;
    struct sw_err err = {0};
    struct sw_framework_choice framework;
    const char *key;

    assert_int_equal(sw_machine_from(two_nodes, &m, &err), SW_OK);
    if (sw_cluster_shape(&conf, m, &shape, &framework, &key, &err) ||
        sw_cluster_sync(&conf, &sync, &key, &err))
        fail_msg("%s: %s", key, err.text);
    shape.driver = w->devices ? sw_driver_on_bus() : NULL;
    shape.device_workers = w->device_workers;
    assert_int_equal(
        sw_topology_new(&(struct sw_topology_args){.shape = &shape,
                                                   .sync = &sync,
                                                   .batch = {w->batch ? w->batch : 64,
                                                             w->eval_batch ? w->eval_batch : 32},
                                                   .virtual_workers = w->virtual_workers,
                                                   .splits_layers = w->splits_layers},
                        &t, &err),
        SW_OK);
    sw_machine_free(m);
    return t;
}

static void check_ranks(const struct sw_topology *t, const struct sw_rank *want)
{
    for (int i = 0; i < t->workers; i++) {
        const struct sw_rank *r = &t->rank[i];
        assert_int_equal(r->global_rank, i);
        assert_int_equal(r->group, want[i].group);
        assert_int_equal(r->rank, want[i].rank);
        assert_int_equal(r->server_group, want[i].server_group);
        assert_int_equal(r->table_rank, want[i].table_rank);
        assert_int_equal(r->update_group, want[i].update_group);
    }
}

static void default_is_one_worker_per_node(void **state)
{
    struct sw_topology *t = make(&(struct wish){0});

    assert_int_equal(t->workers, 2);
    assert_int_equal(t->servers, 2);
    assert_int_equal(t->devices, 0);
    assert_int_equal(t->worker_groups, 1);
    assert_int_equal(t->update_groups, 1);
    assert_int_equal(t->microbatches, 2);
    assert_false(t->is_async);
    assert_true(t->binds_servers);
    check_ranks(t, (const struct sw_rank[]){{.rank = 0}, {.rank = 1, .table_rank = 1}});
    sw_topology_free(t);
}

/* Without the key one group per node; with it there are as many as there are cores for. */
static void threads_per_worker_fill_the_cores_with_groups(void **state)
{
    static const int threads[] = {0, 1, 3, 16, 20}, groups[] = {2, 16, 5, 1, 1};

    for (int i = 0; i < 5; i++) {
        struct sw_topology *t = make(
            &(struct wish){.framework = SW_FRAMEWORK_HOGWILD, .threads_per_worker = threads[i]});
        assert_int_equal(t->worker_groups, groups[i]);
        assert_int_equal(t->group_size, groups[i] == 1 ? 2 : 1);
        sw_topology_free(t);
    }
}

/* Two groups of two that make every update together share each batch as one group of four. */
static void synchronous_groups_are_one(void **state)
{
    struct sw_topology *t = make(&(struct wish){
        .framework = SW_FRAMEWORK_CUSTOM, .worker_groups = 2, .workers_per_group = 2});

    assert_int_equal(t->worker_groups, 1);
    assert_int_equal(t->group_size, 4);
    assert_int_equal(t->update_group_size, 4);
    assert_int_equal(t->microbatches, 4);
    assert_false(t->splits_layers);
    check_ranks(t, (const struct sw_rank[]){{.rank = 0},
                                            {.rank = 1, .table_rank = 1},
                                            {.rank = 2, .table_rank = 2},
                                            {.rank = 3, .table_rank = 3}});
    sw_topology_free(t);
}

/* Where each of them splits the net, they stay groups, share the batch, and update together. */
static void groups_that_split_layers_share_the_batch(void **state)
{
    struct sw_topology *t = make(&(struct wish){.framework = SW_FRAMEWORK_CUSTOM,
                                                .worker_groups = 2,
                                                .workers_per_group = 2,
                                                .batch = 31,
                                                .eval_batch = 30,
                                                .splits_layers = true});
    struct sw_row_split s;
    struct sw_err err = {0};
    int64_t first, rows;

    assert_true(t->splits_layers);
    assert_int_equal(t->worker_groups, 2);
    assert_int_equal(t->update_groups, 1);
    assert_int_equal(t->update_group_size, 4);
    check_ranks(t, (const struct sw_rank[]){{.group = 0, .rank = 0},
                                            {.group = 0, .rank = 1, .table_rank = 1},
                                            {.group = 1, .rank = 0, .table_rank = 2},
                                            {.group = 1, .rank = 1, .table_rank = 3}});

    sw_topology_group_rows(t, 1, SW_SPLIT_TRAIN, &first, &rows);
    assert_int_equal(first, 16);
    assert_int_equal(rows, 15);
    sw_topology_group_rows(t, 1, SW_SPLIT_EVAL, &first, &rows);
    assert_int_equal(first, 0);
    assert_int_equal(rows, 30);

    static const int64_t begins[] = {0, 8, 16, 24}, counts[] = {8, 8, 8, 7};
    assert_int_equal(sw_row_split_init(&s, t, &err), SW_OK);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(sw_row_split_first(&s, &t->rank[i], SW_SPLIT_TRAIN), begins[i]);
        assert_int_equal(sw_row_split_count(&s, &t->rank[i], SW_SPLIT_TRAIN), counts[i]);
        assert_int_equal(sw_row_split_first(&s, &t->rank[i], SW_SPLIT_EVAL), i % 2 * 15);
        assert_int_equal(sw_row_split_count(&s, &t->rank[i], SW_SPLIT_EVAL), 15);
    }
    sw_row_split_fini(&s);
    sw_topology_free(t);
}

/* Of three groups over two copies the first two talk to the first one. */
static void asynchronous_groups_have_parameter_replicas(void **state)
{
    struct sw_topology *t = make(&(struct wish){.framework = SW_FRAMEWORK_HOGWILD,
                                                .worker_groups = 3,
                                                .workers_per_group = 2,
                                                .server_groups = 2,
                                                .servers_per_group = 2});

    assert_true(t->is_async);
    assert_int_equal(t->consistency, SW_CONSISTENCY_HOGWILD);
    assert_int_equal(t->update_groups, 3);
    assert_int_equal(t->update_group_size, 2);
    check_ranks(
        t, (const struct sw_rank[]){
               {.group = 0, .rank = 0, .table_rank = 0, .update_group = 0},
               {.group = 0, .rank = 1, .table_rank = 1, .update_group = 0},
               {.group = 1, .rank = 0, .table_rank = 2, .update_group = 1},
               {.group = 1, .rank = 1, .table_rank = 3, .update_group = 1},
               {.group = 2, .rank = 0, .server_group = 1, .update_group = 2},
               {.group = 2, .rank = 1, .server_group = 1, .table_rank = 1, .update_group = 2}});
    assert_int_equal(t->server_group[0].workers, 4);
    assert_int_equal(t->server_group[1].first_worker, 4);
    assert_int_equal(t->server_group[1].workers, 2);
    assert_int_equal(t->server_group[1].first_server, 2);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(t->server[i].global_rank, i);
        assert_int_equal(t->server[i].server_group, i / 2);
        assert_int_equal(t->server[i].server_rank, i % 2);
    }
    sw_topology_free(t);
}

static void a_lone_group_can_be_asynchronous(void **state)
{
    struct sw_topology *t = make(&(struct wish){.framework = SW_FRAMEWORK_CUSTOM,
                                                .consistency = SW_CONSISTENCY_SSP,
                                                .worker_groups = 1,
                                                .workers_per_group = 2,
                                                .staleness = 3,
                                                .warmup_steps = 5});

    assert_true(t->is_async);
    assert_int_equal(t->update_groups, 1);
    assert_int_equal(t->staleness, 3);
    assert_int_equal(t->warmup_steps, 0);
    assert_false(sw_topology_sleeps(t, 0, 1));
    sw_topology_free(t);
}

/* The first group makes the warmup's steps alone; behind them a step is a batch of each. */
static void other_groups_sleep_while_the_first_group_warms_up(void **state)
{
    struct sw_topology *t = make(&(struct wish){.framework = SW_FRAMEWORK_DOWNPOUR,
                                                .worker_groups = 3,
                                                .workers_per_group = 1,
                                                .warmup_steps = 4});

    assert_false(sw_topology_sleeps(t, 0, 4));
    assert_true(sw_topology_sleeps(t, 1, 4));
    assert_false(sw_topology_sleeps(t, 1, 5));
    assert_int_equal(sw_topology_group_steps(t, 0, 6), 6);
    assert_int_equal(sw_topology_group_steps(t, 2, 6), 2);
    assert_int_equal(sw_topology_group_steps(t, 2, 3), 0);
    assert_int_equal(sw_topology_batches(t, 3), 3);
    assert_int_equal(sw_topology_batches(t, 6), 4 + 2 * 3);
    assert_int_equal(sw_topology_samples(t, 6), 10 * 64);
    for (int64_t batches = 0; batches < 20; batches++) {
        int64_t steps = sw_topology_steps(t, batches);
        assert_true(sw_topology_batches(t, steps) >= batches);
        assert_true(steps == 0 || sw_topology_batches(t, steps - 1) < batches);
    }
    sw_topology_free(t);
}

/* With repeat_exact a batch has the same microbatches whoever shares it, at most one for each row
 * of the smaller batch. */
static void microbatches_are_distributed_over_workers(void **state)
{
    for (int workers = 1; workers <= 5; workers++) {
        struct sw_topology *t = make(&(struct wish){
            .workers_per_group = workers, .batch = 50, .eval_batch = 20, .virtual_workers = 8});
        struct sw_row_split s;
        struct sw_err err = {0};
        int next = 0;
        int64_t row = 0;

        assert_int_equal(t->microbatches, 8);
        assert_int_equal(t->leaves, 8);
        assert_int_equal(sw_row_split_init(&s, t, &err), SW_OK);
        for (int i = 0; i < workers; i++) {
            const struct sw_rank *r = &t->rank[i];
            const int64_t *rows = sw_row_split_microbatches(&s, r, SW_SPLIT_TRAIN);

            assert_int_equal(r->first_microbatch, next);
            assert_int_equal(sw_row_split_first(&s, r, SW_SPLIT_TRAIN), row);
            for (int m = 0; m < r->microbatches; m++)
                assert_int_equal(rows[m], 50 * (next + m + 1) / 8 - 50 * (next + m) / 8);
            next += r->microbatches;
            row += sw_row_split_count(&s, r, SW_SPLIT_TRAIN);
        }
        assert_int_equal(next, 8);
        assert_int_equal(row, 50);
        sw_row_split_fini(&s);
        sw_topology_free(t);
    }

    struct sw_topology *t = make(&(struct wish){.eval_batch = 3, .virtual_workers = 8});
    assert_int_equal(t->microbatches, 3);
    sw_topology_free(t);
}

static void rebalancing_moves_rows_of_both_batches(void **state)
{
    struct sw_topology *t =
        make(&(struct wish){.framework = SW_FRAMEWORK_SANDBLASTER, .workers_per_group = 3});
    static const int64_t rows[] = {40, 8, 16}, eval[] = {20, 4, 8};
    struct sw_row_split s;
    struct sw_err err = {0};
    int64_t first = 0, first_eval = 0;

    assert_int_equal(sw_row_split_init(&s, t, &err), SW_OK);
    assert_int_equal(sw_row_split_count(&s, &t->rank[0], SW_SPLIT_TRAIN), 22);
    sw_row_split_set(&s, t, rows);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(sw_row_split_count(&s, &t->rank[i], SW_SPLIT_TRAIN), rows[i]);
        assert_int_equal(sw_row_split_first(&s, &t->rank[i], SW_SPLIT_TRAIN), first);
        assert_int_equal(sw_row_split_count(&s, &t->rank[i], SW_SPLIT_EVAL), eval[i]);
        assert_int_equal(sw_row_split_first(&s, &t->rank[i], SW_SPLIT_EVAL), first_eval);
        first += rows[i];
        first_eval += eval[i];
    }
    sw_row_split_fini(&s);
    sw_topology_free(t);
}

static void devices_belong_to_the_first_workers(void **state)
{
    struct sw_topology *all = make(&(struct wish){.workers_per_group = 3, .devices = true});
    assert_int_equal(all->devices, 3);
    assert_int_equal(all->rank[2].device, 2);
    sw_topology_free(all);

    struct sw_topology *mixed =
        make(&(struct wish){.workers_per_group = 3, .devices = true, .device_workers = 2});
    assert_int_equal(mixed->devices, 2);
    assert_int_equal(mixed->rank[1].device, 1);
    assert_int_equal(mixed->rank[2].device, -1);
    sw_topology_free(mixed);
}

static void missing_memory_leaves_nothing_behind(void **state)
{
    struct sw_cluster_shape shape = {
        .worker_groups = 1, .workers_per_group = 2, .server_groups = 1, .servers_per_group = 1};
    struct sw_cluster_sync sync = {.consistency = SW_CONSISTENCY_BSP};
    struct sw_topology_args args = {.shape = &shape, .sync = &sync, .batch = {8, 8}};
    struct sw_topology *t;
    struct sw_err err = {0};
    int rc = SW_ERR_NOMEM;

    for (int at = 1; rc != SW_OK; at++) {
        struct sw_row_split s = {0};

        faulty_begin((struct faulty_plan){.kinds = FAULTY_ALLOC, .at = at});
        rc = sw_topology_new(&args, &t, &err);
        if (rc == SW_OK) {
            rc = sw_row_split_init(&s, t, &err);
            sw_row_split_fini(&s);
            sw_topology_free(t);
        }
        assert_true(rc == SW_OK || rc == SW_ERR_NOMEM);
        assert_int_equal(faulty.live_allocations, 0);
        faulty_end();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(default_is_one_worker_per_node),
        cmocka_unit_test(threads_per_worker_fill_the_cores_with_groups),
        cmocka_unit_test(synchronous_groups_are_one),
        cmocka_unit_test(groups_that_split_layers_share_the_batch),
        cmocka_unit_test(asynchronous_groups_have_parameter_replicas),
        cmocka_unit_test(a_lone_group_can_be_asynchronous),
        cmocka_unit_test(other_groups_sleep_while_the_first_group_warms_up),
        cmocka_unit_test(microbatches_are_distributed_over_workers),
        cmocka_unit_test(rebalancing_moves_rows_of_both_batches),
        cmocka_unit_test(devices_belong_to_the_first_workers),
        cmocka_unit_test(missing_memory_leaves_nothing_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
