#include "plan/placement.h"
#include "unit/faulty_os.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SHAPE(wg, w, sg, s, bind)                                                                  \
    {                                                                                              \
        .worker_groups = (wg), .workers_per_group = (w), .server_groups = (sg),                    \
        .servers_per_group = (s), .bind_servers = (bind)                                           \
    }

/* A machine and its placement, made together. */
struct plan {
    struct sw_cluster_shape shape;
    struct sw_machine *m;
    struct sw_placement *p;
};

static struct plan make(const char *machine, double quota, int workers, int servers, bool bind,
                        bool oversubscribe)
{
    struct plan plan = {.shape = SHAPE(1, workers, 1, servers, bind)};
    struct sw_err err = {0};
    if (sw_machine_from(machine, &plan.m, &err) != SW_OK)
        fail_msg("%s", err.text);
    plan.m->cpu_quota = quota;
    if (sw_placement_new(plan.m, &plan.shape, oversubscribe, &plan.p, &err) != SW_OK)
        fail_msg("%s", err.text);
    return plan;
}

static void drop(struct plan *plan)
{
    sw_placement_free(plan->p);
    sw_machine_free(plan->m);
}

static void check_row(const struct sw_placement_row *row, const char *role, int numa,
                      const char *cores, int threads, const char *reason_part)
{
    char text[256];
    assert_string_equal(row->role, role);
    assert_string_equal(row->device, "cpu");
    assert_int_equal(row->numa, numa);
    assert_string_equal(sw_core_set_text(&row->cores, text, sizeof text), cores);
    assert_int_equal(row->threads, threads);
    if (!strstr(row->reason, reason_part))
        fail_msg("%s: reason '%s' does not say '%s'", role, row->reason, reason_part);
}

static void workers_may_have_fewer_threads_than_cores(void **state)
{
    struct sw_cluster_shape shape = SHAPE(1, 2, 1, 2, true);
    struct sw_machine *m = NULL;
    struct sw_placement *p = NULL;
    struct sw_err err;

    (void)state;
    assert_int_equal(sw_machine_from("numa:2 core:4 pu:1", &m, NULL), SW_OK);

    shape.threads_per_worker = 3;
    assert_int_equal(sw_placement_new(m, &shape, false, &p, &err), SW_OK);
    check_row(sw_placement_worker(p, 0), "worker0.0", 0, "0-2", 3,
              "3 of the 4 cores of NUMA node 0, as threads_per_worker says");
    check_row(sw_placement_worker(p, 1), "worker0.1", 1, "4-6", 3, "as threads_per_worker says");
    check_row(sw_placement_server(p, 1), "server0.1", 1, "4-6", 3, "shares the cores");
    assert_int_equal(sw_core_set_count(&p->spare), 2);
    sw_placement_free(p);

    shape.threads_per_worker = 5;
    assert_int_equal(sw_placement_new(m, &shape, false, &p, &err), SW_ERR_INVALID);
    assert_non_null(strstr(err.text, "only 4 cores for each of 2 workers: use at most 4"));

    /* More workers than cores have one thread each. */
    shape.workers_per_group = shape.servers_per_group = 16;
    assert_int_equal(sw_placement_new(m, &shape, true, &p, &err), SW_OK);
    assert_int_equal(sw_placement_worker(p, 15)->threads, 1);
    sw_placement_free(p);
    sw_machine_free(m);
}

static void helper_threads_get_spare_cores(void **state)
{
    struct plan full = make("numa:2 core:4 pu:1", 0, 2, 2, true, false);
    check_row(sw_placement_helper(full.p, SW_PLACE_MAIN), "main", 0, "0-7", 1, "no spare core");
    check_row(sw_placement_helper(full.p, SW_PLACE_HISTORY), "history", 0, "0-7", 1,
              "no spare core");
    drop(&full);
    struct plan spare = make("numa:2 core:4 pu:1", 0, 3, 1, true, false);
    assert_true(sw_core_set_count(&spare.p->spare) > 0);
    for (int i = 0; i < SW_PLACE_HELPERS; i++) {
        const struct sw_placement_row *row =
            sw_placement_helper(spare.p, (enum sw_placement_helper)i);
        assert_memory_equal(&row->cores, &spare.p->spare, sizeof row->cores);
        for (int u = 0; u < spare.p->worker_count + spare.p->server_count; u++)
            assert_false(sw_core_set_overlaps(&row->cores, &spare.p->rows[u].cores));
    }
    drop(&spare);
}

static void one_worker_gets_the_whole_machine(void **state)
{
    struct plan a = make("numa:1 core:2 pu:2", 0, 1, 1, true, false);
    check_row(sw_placement_worker(a.p, 0), "worker0.0", 0, "0-1", 2, "all 2 cores of NUMA node 0");
    check_row(sw_placement_server(a.p, 0), "server0.0", 0, "0-1", 2,
              "shares the cores of worker0.0 (bound to it)");
    assert_int_equal(sw_core_set_count(&a.p->spare), 0);
    assert_false(a.p->oversubscribed);
    drop(&a);

    a = make("numa:4 core:6 pu:2", 0, 1, 1, true, false);
    check_row(sw_placement_worker(a.p, 0), "worker0.0", 0, "0-23", 24, "4 NUMA nodes");
    assert_int_equal(sw_placement_worker(a.p, 0)->node_mask, 15);
    drop(&a);
}

static void a_worker_for_every_node_gets_its_cores(void **state)
{
    struct plan a = make("numa:4 core:6 pu:2", 0, 4, 4, true, false);
    static const char *const cores[] = {"0-5", "6-11", "12-17", "18-23"};
    for (int i = 0; i < 4; i++) {
        char role[24];
        snprintf(role, sizeof role, "worker0.%d", i);
        check_row(sw_placement_worker(a.p, i), role, i, cores[i], 6, "all 6 cores");
        snprintf(role, sizeof role, "server0.%d", i);
        check_row(sw_placement_server(a.p, i), role, i, cores[i], 6, "(bound to it)");
    }
    drop(&a);
}

static void unbound_servers_get_spare_cores(void **state)
{
    struct plan a = make("numa:4 core:6 pu:2", 0, 16, 4, false, false);
    static const char *const cores[] = {"4-5", "10-11", "16-17", "22-23"};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(sw_placement_server(a.p, i)->numa, i);
        check_row(sw_placement_server(a.p, i), a.p->rows[16 + i].role, i, cores[i], 2,
                  "not used by a worker");
    }
    drop(&a);
}

static void server_without_a_spare_core_shares_and_says_so(void **state)
{
    struct plan a = make("numa:2 core:2 pu:1", 0, 2, 3, false, false);
    for (int i = 0; i < 3; i++)
        check_row(sw_placement_server(a.p, i), a.p->rows[2 + i].role, i % 2, i % 2 ? "2-3" : "0-1",
                  2, "(no spare core)");
    drop(&a);

    a = make("numa:1 core:5 pu:1", 0, 4, 2, false, false); /* one core is left for two */
    check_row(sw_placement_server(a.p, 0), "server0.0", 0, "4", 1, "not used by a worker");
    check_row(sw_placement_server(a.p, 1), "server0.1", 0, "2", 1, "shares the cores of worker0.2");
    drop(&a);
}

/* Whatever the machine: workers are disjoint, equal, inside one node where their share fits into
 * one, inside the machine, and have a thread per core and a reason. */
static void check_rules(const char *machine, int workers, int servers, bool bind)
{
    struct plan a = make(machine, 0, workers, servers, bind, false);
    struct sw_core_set taken = {0}, all = sw_machine_cores(a.m);
    int largest_node = 0, size = a.p->rows[0].threads;
    for (int n = 0; n < a.m->node_count; n++) {
        int count = sw_core_set_count(&a.m->nodes[n].cores);
        largest_node = count > largest_node ? count : largest_node;
    }
    for (int i = 0; i < workers + servers; i++) {
        const struct sw_placement_row *row = &a.p->rows[i];
        struct sw_core_set outside = row->cores;
        assert_int_equal(row->threads, sw_core_set_count(&row->cores));
        assert_true(row->threads >= 1 && row->reason[0]);
        sw_core_set_remove_all(&outside, &all);
        assert_int_equal(sw_core_set_count(&outside), 0);
        if (i < workers) {
            assert_false(sw_core_set_overlaps(&taken, &row->cores));
            sw_core_set_add_all(&taken, &row->cores);
            assert_int_equal(row->threads, size);
            if (size <= largest_node && workers >= a.m->node_count)
                assert_int_equal(__builtin_popcountll(row->node_mask), 1);
        }
    }
    assert_false(sw_core_set_overlaps(&taken, &a.p->spare));
    if (a.m->core_count % workers == 0 && a.m->node_count == 1)
        assert_int_equal(sw_core_set_count(&taken), a.m->core_count);
    drop(&a);
}

static void the_rules_hold_on_many_machines(void **state)
{
    static const char *const machines[] = {"numa:4 core:6 pu:2", "numa:1 core:7 pu:1",
                                           "numa:8 core:2 pu:2", "package:2 numa:2 core:3 pu:1"};
    static const int cores[] = {24, 7, 16, 12};
    for (int k = 0; k < 4; k++) {
        for (int workers = 1; workers <= cores[k]; workers++) {
            for (int servers = 1; servers <= 5; servers += 2) {
                check_rules(machines[k], workers, servers, true);
                check_rules(machines[k], workers, servers, false);
            }
        }
    }
}

static void oversubscription_is_refused_unless_requested(void **state)
{
    struct sw_machine *m = NULL;
    struct sw_placement *p = NULL;
    struct sw_err err = {0};
    struct sw_cluster_shape shape = SHAPE(1, 5, 1, 1, true);
    assert_int_equal(sw_machine_from("numa:2 core:2 pu:2", &m, &err), SW_OK);
    assert_int_equal(sw_placement_new(m, &shape, false, &p, &err), SW_ERR_INVALID);
    assert_null(p);
    assert_non_null(strstr(err.text, "5 workers need a core each, but 4 may be used"));
    assert_non_null(strstr(err.text, "--oversubscribe"));
    shape.workers_per_group = 4;
    shape.servers_per_group = 9; /* servers do not count */
    assert_int_equal(sw_placement_new(m, &shape, false, &p, &err), SW_OK);
    sw_placement_free(p);
    sw_machine_free(m);

    struct plan a = make("numa:2 core:2 pu:2", 0, 5, 1, true, true);
    assert_true(a.p->oversubscribed);
    check_row(sw_placement_worker(a.p, 3), "worker0.3", 1, "3", 1, "5 workers share 4 cores");
    check_row(sw_placement_worker(a.p, 4), "worker0.4", 0, "0", 1, "5 workers share 4 cores");
    drop(&a);
}

static void a_quota_limits_the_threads(void **state)
{
    struct plan a = make("numa:4 core:6 pu:2", 3.7, 1, 1, true, false);
    check_row(sw_placement_worker(a.p, 0), "worker0.0", 0, "0-2", 3,
              "quota of 3.7 CPUs allows 3 threads");
    drop(&a);
    a = make("numa:4 core:6 pu:2", 9, 4, 1, true, false);
    for (int i = 0; i < 4; i++)
        assert_int_equal(sw_placement_worker(a.p, i)->threads, 2);
    drop(&a);

    struct sw_err err = {0};
    struct sw_placement *p = NULL;
    struct sw_cluster_shape shape = SHAPE(1, 2, 1, 1, true);
    a = make("numa:1 core:8 pu:1", 1.5, 1, 1, true, false);
    assert_int_equal(sw_placement_new(a.m, &shape, false, &p, &err), SW_ERR_INVALID);
    assert_non_null(strstr(err.text, "quota"));
    drop(&a);
}

static void units_are_named_by_group(void **state)
{
    struct sw_machine *m = NULL;
    struct sw_placement *p = NULL;
    struct sw_cluster_shape shape = SHAPE(2, 3, 3, 1, true);
    assert_int_equal(sw_machine_from("numa:1 core:6 pu:1", &m, NULL), SW_OK);
    assert_int_equal(sw_placement_new(m, &shape, false, &p, NULL), SW_OK);
    assert_int_equal(p->worker_count, 6);
    assert_int_equal(p->server_count, 3);
    check_row(sw_placement_worker(p, 1 * shape.workers_per_group + 2), "worker1.2", 0, "5", 1,
              "equal share");
    check_row(sw_placement_server(p, 2 * shape.servers_per_group), "server2.0", 0, "4", 1,
              "worker1.1");
    sw_placement_free(p);
    sw_machine_free(m);
}

/* Downpour and hogwild with one server group for every few worker groups: a bound server lives with
 * a worker that talks to it, and each worker group talks to one. */
static void bound_servers_share_cores_of_their_workers(void **state)
{
    static const struct sw_cluster_shape shapes[] = {
        SHAPE(4, 2, 2, 2, true), SHAPE(3, 2, 2, 1, true), SHAPE(4, 1, 4, 1, true),
        SHAPE(5, 1, 2, 3, true), SHAPE(2, 3, 1, 6, true), SHAPE(8, 1, 1, 3, true)};
    for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++) {
        const struct sw_cluster_shape *s = &shapes[k];
        struct sw_machine *m = NULL;
        struct sw_placement *p = NULL;
        int talks = 0, before = 0;
        assert_int_equal(sw_machine_from("numa:4 core:2 pu:1", &m, NULL), SW_OK);
        assert_int_equal(sw_placement_new(m, s, false, &p, NULL), SW_OK);
        for (int g = 0; g < s->worker_groups; g++) {
            int to = sw_cluster_server_group(s, g);
            assert_true(to >= before && to < s->server_groups);
            talks += to != before || g == 0;
            before = to;
        }
        assert_int_equal(talks, s->server_groups);
        for (int i = 0; i < p->server_count; i++) {
            const struct sw_placement_row *server = &p->rows[p->worker_count + i];
            int hosts = 0;
            for (int w = 0; w < p->worker_count; w++) {
                bool same = memcmp(&p->rows[w].cores, &server->cores, sizeof server->cores) == 0;
                int group = sw_cluster_server_group(s, w / s->workers_per_group);
                hosts += same && group == i / s->servers_per_group;
            }
            assert_int_equal(hosts, 1);
        }
        sw_placement_free(p);
        sw_machine_free(m);
    }
}

static void workers_of_a_group_are_close(void **state)
{
    struct sw_machine *m = NULL;
    struct sw_placement *p = NULL;
    struct sw_cluster_shape shape = SHAPE(4, 3, 4, 2, false);
    assert_int_equal(sw_machine_from("numa:4 core:8 pu:2", &m, NULL), SW_OK);
    assert_int_equal(sw_placement_new(m, &shape, false, &p, NULL), SW_OK);
    for (int g = 0; g < 4; g++) {
        for (int i = 0; i < 3; i++)
            assert_int_equal(sw_placement_worker(p, g * shape.workers_per_group + i)->numa, g);
        for (int i = 0; i < 2; i++)
            assert_int_equal(sw_placement_server(p, g * shape.servers_per_group + i)->numa, g);
    }
    sw_placement_free(p);
    sw_machine_free(m);
}

/* Servers own equal bytes, so a node on which twice as many cores are left gets twice the servers.
 */
static void servers_spread_in_proportion_to_spare_cores(void **state)
{
    for (int servers = 3; servers <= 6; servers += 3) {
        struct sw_machine *m = NULL;
        struct sw_placement *p = NULL;
        struct sw_cluster_shape shape = SHAPE(1, 2, 1, servers, false);
        int on[2] = {0, 0};
        assert_int_equal(sw_machine_from("numa:2 core:4 pu:1", &m, NULL), SW_OK);
        m->cpu_quota = 2; /* a core for each worker */
        for (int c = 2; c < 4; c++) {
            m->cores[c].node =
                1; /* nodes of two and of six cores: both workers are on the latter */
            sw_core_set_remove(&m->nodes[0].cores, c);
            sw_core_set_add(&m->nodes[1].cores, c);
        }
        assert_int_equal(sw_placement_new(m, &shape, false, &p, NULL), SW_OK);
        for (int i = 0; i < servers; i++)
            on[p->rows[2 + i].numa] += p->rows[2 + i].threads;
        assert_int_equal(on[0], servers / 3);
        assert_int_equal(on[1], servers / 3 * 2);
        sw_placement_free(p);
        sw_machine_free(m);
    }
}

static void counts_outside_the_limits_are_refused(void **state)
{
    struct sw_machine *m = NULL;
    struct sw_placement *p = NULL;
    struct sw_err err = {0};
    static const struct sw_cluster_shape shapes[] = {
        SHAPE(0, 1, 1, 1, true),   SHAPE(1, -1, 1, 1, true),          SHAPE(1, 1, 0, 1, true),
        SHAPE(1, 1, 1, 0, true),   SHAPE(100000, 100000, 1, 1, true), SHAPE(1, 1, 1, 5000, false),
        SHAPE(2, 600, 1, 1, false)};
    assert_int_equal(sw_machine_from("numa:1 core:6 pu:1", &m, NULL), SW_OK);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        assert_int_equal(sw_placement_new(m, &shapes[i], true, &p, &err), SW_ERR_INVALID);
        assert_non_null(strstr(err.text, "there must be 1 to 1024"));
    }
    assert_int_equal(
        sw_placement_new(m, &(struct sw_cluster_shape)SHAPE(2, 512, 1, 1, false), true, &p, &err),
        SW_OK);
    sw_placement_free(p);
    sw_machine_free(m);
}

static void helpers_get_spare_cores_of_the_node(void **state)
{
    char text[64];
    struct plan a = make("numa:2 core:4 pu:1", 6, 2, 2, true, false);
    struct sw_core_set s = sw_placement_helper_cores(a.p, a.m, sw_placement_worker(a.p, 1));
    assert_string_equal(sw_core_set_text(&s, text, sizeof text), "7");
    drop(&a);
    a = make("numa:2 core:4 pu:1", 0, 2, 2, true, false); /* nothing is spare */
    s = sw_placement_helper_cores(a.p, a.m, sw_placement_worker(a.p, 1));
    assert_string_equal(sw_core_set_text(&s, text, sizeof text), "4-7");
    drop(&a);
    a = make("numa:2 core:4 pu:1", 0, 3, 3, true, false); /* two a worker: node 1 has two left */
    s = sw_placement_helper_cores(a.p, a.m, sw_placement_worker(a.p, 0));
    assert_string_equal(sw_core_set_text(&s, text, sizeof text), "6-7");
    drop(&a);
}

static void recorded_machines_can_be_planned(void **state)
{
    static const struct {
        const char *name;
        int cores;
    } machines[] = {{"16amd64-8n2c-cpusets.xml", 10},
                    {"24em64t-2n6c2t-pci.xml", 12},
                    {"32em64t-2n8c2t-pci-normalio.xml", 16},
                    {"nvidiaDGX2.xml", 4}};
    const char *root = getenv("SINGA_DATA");
    char folder[400], path[512];
    if (root && root[0])
        snprintf(folder, sizeof folder, "%s/topologies", root);
    else
        snprintf(folder, sizeof folder, "%s/../shared/data/topologies", SW_SOURCE_DIR);
    if (access(folder, R_OK) != 0) {
        print_message("skipped: %s is not there (set SINGA_DATA)\n", folder);
        skip();
    }
    for (size_t k = 0; k < sizeof machines / sizeof *machines; k++) {
        snprintf(path, sizeof path, "%s/%s", folder, machines[k].name);
        for (int workers = 1; workers <= machines[k].cores; workers++) {
            check_rules(path, workers, 2, true);
            check_rules(path, workers, 2, false);
        }
    }
}

static void every_allocation_may_fail(void **state)
{
    struct sw_machine *m = NULL;
    struct sw_placement *p = NULL;
    struct sw_err err = {0};
    struct sw_cluster_shape shape = SHAPE(1, 2, 1, 1, true);
    int rc = SW_ERR_NOMEM;
    assert_int_equal(sw_machine_from("numa:1 core:6 pu:1", &m, NULL), SW_OK);
    for (int at = 1; rc != SW_OK; at++) {
        faulty_begin((struct faulty_plan){.kinds = FAULTY_ALLOC, .at = at});
        rc = sw_placement_new(m, &shape, false, &p, &err);
        assert_true(rc == SW_OK || (rc == SW_ERR_NOMEM && faulty.live_allocations == 0));
        faulty_end();
        assert_true(at < 10);
    }
    sw_placement_free(p);
    sw_machine_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(helper_threads_get_spare_cores),
        cmocka_unit_test(workers_may_have_fewer_threads_than_cores),
        cmocka_unit_test(one_worker_gets_the_whole_machine),
        cmocka_unit_test(a_worker_for_every_node_gets_its_cores),
        cmocka_unit_test(unbound_servers_get_spare_cores),
        cmocka_unit_test(server_without_a_spare_core_shares_and_says_so),
        cmocka_unit_test(the_rules_hold_on_many_machines),
        cmocka_unit_test(oversubscription_is_refused_unless_requested),
        cmocka_unit_test(a_quota_limits_the_threads),
        cmocka_unit_test(units_are_named_by_group),
        cmocka_unit_test(bound_servers_share_cores_of_their_workers),
        cmocka_unit_test(workers_of_a_group_are_close),
        cmocka_unit_test(servers_spread_in_proportion_to_spare_cores),
        cmocka_unit_test(counts_outside_the_limits_are_refused),
        cmocka_unit_test(helpers_get_spare_cores_of_the_node),
        cmocka_unit_test(recorded_machines_can_be_planned),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
