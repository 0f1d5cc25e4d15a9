/* Workers on GPUs: on the NUMA node of their GPU, with GPUs close to one another in a group. */
#include "base/os.h"
#include "plan/placement.h"
#include "unit/machine/boards.h"
#include <string.h>

static struct sw_cluster_shape shape_of(int groups, int workers, bool bind)
{
    return (struct sw_cluster_shape){.worker_groups = groups,
                                     .workers_per_group = workers,
                                     .server_groups = 1,
                                     .servers_per_group = 2,
                                     .bind_servers = bind,
                                     .driver = sw_driver_on_bus()};
}

static struct sw_placement *place(const struct sw_machine *m, const struct sw_cluster_shape *s,
                                  bool oversubscribe)
{
    struct sw_placement *p = NULL;
    struct sw_err err = {0};
    if (sw_placement_new(m, s, oversubscribe, &p, &err) != SW_OK)
        fail_msg("%s", err.text);
    return p;
}

/* Hangs GPUs on a synthetic machine: `per_node` of them on every node, in pairs behind a switch,
 * all switches of a node below one host bridge. */
static struct sw_machine *with_gpus(const char *synthetic, int per_node)
{
    struct sw_machine *m = from(synthetic);
    m->io = sw_calloc((size_t)(m->node_count * (2 * per_node + 2)), sizeof *m->io);
    m->gpus = sw_realloc_array(m->gpus, (size_t)(m->node_count * per_node), sizeof *m->gpus);
    assert_true(m->io && m->gpus);
    for (int n = 0; n < m->node_count; n++) {
        int host = m->io_count, bridge = -1;
        m->io[m->io_count++] = (struct sw_io){
            .kind = SW_IO_HOST_BRIDGE, .parent = -1, .node = n, .package = n, .gpu = -1};
        for (int i = 0; i < per_node; i++) {
            if (i % 2 == 0) {
                bridge = m->io_count;
                m->io[m->io_count++] = (struct sw_io){
                    .kind = SW_IO_BRIDGE, .parent = host, .node = n, .package = n, .gpu = -1};
            }
            m->gpus[m->gpu_count] = m->io_count;
            m->io[m->io_count++] = (struct sw_io){.kind = SW_IO_GPU,
                                                  .parent = bridge,
                                                  .node = n,
                                                  .package = n,
                                                  .gpu = m->gpu_count++};
        }
    }
    return m;
}

/* Each GPU once; no core twice; equal shares; and on the node of the GPU, unless more workers than
 * cores are there. */
static void check_rules(const struct sw_machine *m, const struct sw_cluster_shape *s)
{
    struct sw_placement *p = place(m, s, false);
    struct sw_core_set taken = {0}, all = sw_machine_cores(m);
    bool used[64] = {false};
    int away = 0, short_of = 0;
    for (int n = 0; n < m->node_count; n++) {
        int here = 0, cores = sw_core_set_count(&m->nodes[n].cores);
        for (int i = 0; i < p->worker_count; i++)
            here += sw_machine_gpu(m, p->rows[i].gpu)->node == n;
        short_of += here > cores ? here - cores : 0;
    }
    for (int i = 0; i < p->worker_count; i++) {
        const struct sw_placement_row *row = &p->rows[i];
        struct sw_core_set outside = row->cores;
        char device[16];
        snprintf(device, sizeof device, "cuda:%d", row->gpu);
        assert_string_equal(row->device, device);
        assert_false(used[row->gpu]);
        used[row->gpu] = true;
        assert_true(row->reason[0] && row->threads >= 1);
        assert_int_equal(row->threads, p->rows[0].threads);
        assert_int_equal(__builtin_popcountll(row->node_mask), 1);
        assert_false(sw_core_set_overlaps(&taken, &row->cores));
        sw_core_set_add_all(&taken, &row->cores);
        sw_core_set_remove_all(&outside, &all);
        assert_int_equal(sw_core_set_count(&outside), 0);
        away += row->numa != m->nodes[sw_machine_gpu(m, row->gpu)->node].number;
        if (!s->bind_servers)
            assert_int_equal(row->threads, 1);
    }
    assert_int_equal(away, short_of);
    assert_false(sw_core_set_overlaps(&taken, &p->spare));
    for (int i = p->worker_count; i < p->worker_count + p->server_count; i++) {
        assert_string_equal(p->rows[i].device, "cpu");
        assert_int_equal(p->rows[i].gpu, -1);
        assert_true(p->rows[i].threads >= 1);
    }
    sw_placement_free(p);
}

static void the_rules_hold_on_many_machines(void **state)
{
    static const struct {
        const char *synthetic;
        int per_node;
    } machines[] = {{"numa:4 core:6 pu:2", 4},
                    {"numa:2 core:3 pu:1", 4},
                    {"numa:1 core:16 pu:2", 8},
                    {"numa:2 core:2 pu:2", 2}};
    for (size_t k = 0; k < sizeof machines / sizeof *machines; k++) {
        struct sw_machine *m = with_gpus(machines[k].synthetic, machines[k].per_node);
        int most = m->gpu_count < m->core_count ? m->gpu_count : m->core_count;
        for (int groups = 1; groups <= 3; groups++) {
            for (int workers = 1; groups * workers <= most; workers++) {
                struct sw_cluster_shape bound = shape_of(groups, workers, true);
                struct sw_cluster_shape apart = shape_of(groups, workers, false);
                check_rules(m, &bound);
                check_rules(m, &apart);
            }
        }
        sw_machine_free(m);
    }
}

static void workers_run_on_the_node_of_their_gpu_on_recorded_machines(void **state)
{
    static const char *const names[] = {"24em64t-2n6c2t-pci.xml", "32em64t-2n8c2t-pci-normalio.xml",
                                        "nvidiaDGX2.xml"};
    for (int k = 0; k < 3; k++) {
        struct sw_machine *m = recorded(names[k]);
        if (!m)
            skip();
        for (int workers = 1; workers <= (k < 2 ? 3 : 4); workers++) {
            struct sw_cluster_shape s = shape_of(1, workers, true);
            if (k < 2)
                check_rules(m, &s);
            struct sw_placement *p = place(m, &s, k == 2);
            for (int i = 0; i < workers && k < 2; i++)
                assert_int_equal(p->rows[i].numa, sw_machine_gpu(m, p->rows[i].gpu)->node);
            sw_placement_free(p);
        }
        sw_machine_free(m);
    }
}

/* The DGX-2 was recorded with 4 of its 48 cores: its 16 GPUs need oversubscription, and then every
 * worker is still on its GPU's node. */
static void oversubscribed_workers_stay_on_their_node(void **state)
{
    struct sw_machine *m = recorded("nvidiaDGX2.xml");
    struct sw_cluster_shape s = shape_of(1, 16, true);
    struct sw_placement *p = NULL;
    struct sw_err err = {0};
    if (!m)
        skip();
    assert_int_equal(sw_placement_new(m, &s, false, &p, &err), SW_ERR_INVALID);
    assert_non_null(strstr(err.text, "--oversubscribe"));
    p = place(m, &s, true);
    assert_true(p->oversubscribed);
    for (int i = 0; i < 16; i++) {
        assert_int_equal(p->rows[i].gpu, i);
        assert_int_equal(p->rows[i].numa, i / 8);
        assert_int_equal(sw_core_set_next(&p->rows[i].cores, -1), i / 8 * 2 + i % 2);
        assert_int_equal(p->rows[i].threads, 1);
    }
    assert_non_null(strstr(p->rows[5].reason, "16 workers share 4 cores (oversubscribe)"));
    sw_placement_free(p);
    sw_machine_free(m);
}

static void check_chosen(const struct sw_machine *m, int groups, int workers, const int *want)
{
    struct sw_cluster_shape s = shape_of(groups, workers, true);
    struct sw_placement *p = place(m, &s, true);
    for (int i = 0; i < groups * workers; i++)
        if (p->rows[i].gpu != want[i])
            fail_msg("%d x %d: worker %d has GPU %d, not %d", groups, workers, i, p->rows[i].gpu,
                     want[i]);
    sw_placement_free(p);
}

static void gpus_of_a_group_are_close_to_one_another(void **state)
{
    struct sw_machine *m = with_gpus("numa:2 core:8 pu:1", 4); /* 0 1, 2 3 | 4 5, 6 7 */
    static const int in_order[] = {0, 1, 2, 3, 4, 5, 6, 7}, threes[] = {0, 1, 2, 4, 5, 6};
    check_chosen(m, 1, 2, in_order);
    check_chosen(m, 4, 2, in_order);
    check_chosen(m, 2, 4, in_order);
    check_chosen(m, 2, 3, threes); /* 3 would have to go with the other node's */

    /* With GPU 0 off its node, the first pair is 2 3. */
    m->io[m->gpus[0]].node = -1;
    check_chosen(m, 1, 2, (const int[]){2, 3});

    /* NVLink is nearer than any switch. */
    m->io[m->gpus[0]].node = 0;
    m->nvlinks = sw_calloc(64, sizeof *m->nvlinks);
    assert_non_null(m->nvlinks);
    m->nvlinks[1 * 8 + 6] = m->nvlinks[6 * 8 + 1] = 25;
    check_chosen(m, 1, 2, (const int[]){1, 6});
    sw_machine_free(m);

    m = recorded("24em64t-2n6c2t-pci.xml");
    if (!m)
        skip();
    check_chosen(m, 1, 2, (const int[]){1, 2}); /* below one host bridge; 0 is across */
    sw_machine_free(m);
}

/* Wherever they hang on PCIe. */
static void groups_follow_direct_links(void **state)
{
    const struct board_link pairs[] = {{0, 1, 50000}, {2, 3, 50000}};
    const struct board_link crossed[] = {{0, 2, 50000}, {1, 3, 50000}};
    const struct board_link last[] = {{1, 2, 50000}};
    struct sw_machine *m = board(pairs, 2);
    check_chosen(m, 2, 2, (const int[]){0, 1, 2, 3});
    sw_machine_free(m);
    m = board(crossed, 2);
    check_chosen(m, 2, 2, (const int[]){0, 2, 1, 3});
    sw_machine_free(m);
    m = board(last, 1);
    check_chosen(m, 1, 2, (const int[]){1, 2});
    sw_machine_free(m);
}

static void gpus_can_be_named(void **state)
{
    struct sw_machine *m = with_gpus("numa:2 core:4 pu:1", 2);
    struct sw_cluster_shape s = shape_of(1, 2, true);
    struct sw_placement *p;
    struct sw_err err = {0};
    s.gpus[0] = 3, s.gpus[1] = 0, s.gpu_count = 2;
    p = place(m, &s, false);
    assert_string_equal(p->rows[0].device, "cuda:3");
    assert_int_equal(p->rows[0].numa, 1);
    assert_string_equal(p->rows[1].device, "cuda:0");
    assert_int_equal(p->rows[1].numa, 0);
    sw_placement_free(p);

    s.gpus[1] = 3; /* two workers on one */
    p = place(m, &s, false);
    assert_string_equal(p->rows[1].device, "cuda:3");
    assert_int_equal(p->rows[1].numa, 1);
    assert_false(sw_core_set_overlaps(&p->rows[0].cores, &p->rows[1].cores));
    sw_placement_free(p);

    s.gpus[1] = 4;
    assert_int_equal(sw_placement_new(m, &s, false, &p, &err), SW_ERR_NOTFOUND);
    assert_non_null(strstr(err.text, "cuda:4: there are 4 CUDA devices, the last is cuda:3"));
    s.gpus[1] = 1, s.workers_per_group = 3;
    assert_int_equal(sw_placement_new(m, &s, false, &p, &err), SW_ERR_INVALID);
    assert_non_null(strstr(err.text, "3 workers need a CUDA device each, but there are 2"));
    s.gpu_count = 0, s.workers_per_group = 5;
    assert_int_equal(sw_placement_new(m, &s, false, &p, &err), SW_ERR_INVALID);
    assert_non_null(strstr(err.text, "at most 4"));
    m->gpu_count = 0;
    assert_int_equal(sw_placement_new(m, &s, false, &p, &err), SW_ERR_NOTFOUND);
    assert_non_null(strstr(err.text, "no CUDA device; use --device cpu"));
    sw_machine_free(m);
}

static void worker_of_a_gpu_without_a_node_gets_spare_cores(void **state)
{
    struct sw_machine *m = with_gpus("numa:2 core:4 pu:1", 1);
    struct sw_cluster_shape s = shape_of(1, 2, true);
    m->io[m->gpus[0]].node = -1;
    struct sw_placement *p = place(m, &s, false);
    assert_int_equal(p->rows[1].numa, 1);
    assert_false(sw_core_set_overlaps(&p->rows[0].cores, &p->rows[1].cores));
    assert_int_equal(p->rows[0].threads, 4);
    assert_non_null(strstr(p->rows[0].reason, "no usable NUMA node"));
    sw_placement_free(p);
    sw_machine_free(m);
}

static void prefetch_threads_run_near_the_gpu(void **state)
{
    struct sw_machine *m = with_gpus("numa:2 core:4 pu:1", 1);
    struct sw_cluster_shape s = shape_of(1, 2, false);
    s.servers_per_group = 1;
    struct sw_placement *p = place(m, &s, false);
    for (int i = 0; i < 2; i++) {
        struct sw_core_set near = sw_placement_helper_cores(p, m, &p->rows[i]);
        struct sw_core_set far = sw_machine_node_cores(m, ~(UINT64_C(1) << i));
        int server_here = p->rows[2].numa == i;
        assert_true(server_here || !sw_core_set_overlaps(&near, &far));
        assert_false(sw_core_set_overlaps(&near, &p->rows[2].cores));
    }
    sw_placement_free(p);
    sw_machine_free(m);
}

/* One core drives a GPU there, near it; the others share what is left, and no core is taken twice.
 */
static void workers_without_a_gpu_get_the_remaining_cores(void **state)
{
    struct sw_machine *m = with_gpus("numa:2 core:8 pu:1", 1);
    struct sw_cluster_shape s = shape_of(1, 4, true);
    s.device_workers = 2;
    s.servers_per_group = 4;
    struct sw_placement *p = place(m, &s, false);
    struct sw_core_set taken = {0};
    for (int i = 0; i < 4; i++) {
        const struct sw_placement_row *row = &p->rows[i];
        assert_string_equal(row->device, i == 0 ? "cuda:0" : i == 1 ? "cuda:1" : "cpu");
        assert_int_equal(row->gpu, i < 2 ? i : -1);
        assert_int_equal(row->threads, i < 2 ? 1 : 7);
        assert_false(sw_core_set_overlaps(&taken, &row->cores));
        sw_core_set_add_all(&taken, &row->cores);
    }
    sw_placement_free(p);
    s.workers_per_group = 20;
    s.servers_per_group = 20;
    p = place(m, &s, true); /* crowded */
    for (int i = 0; i < 20; i++)
        assert_true(p->rows[i].threads >= 1 && (p->rows[i].gpu >= 0) == (i < 2));
    sw_placement_free(p);
    sw_machine_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_rules_hold_on_many_machines),
        cmocka_unit_test(workers_run_on_the_node_of_their_gpu_on_recorded_machines),
        cmocka_unit_test(oversubscribed_workers_stay_on_their_node),
        cmocka_unit_test(gpus_of_a_group_are_close_to_one_another),
        cmocka_unit_test(groups_follow_direct_links),
        cmocka_unit_test(gpus_can_be_named),
        cmocka_unit_test(worker_of_a_gpu_without_a_node_gets_spare_cores),
        cmocka_unit_test(prefetch_threads_run_near_the_gpu),
        cmocka_unit_test(workers_without_a_gpu_get_the_remaining_cores),
    };
    return cmocka_run_group_tests(tests, scratch_begin, scratch_end);
}
