/* The placement of a run's memory on a machine with several NUMA nodes. The machine map is changed
 * to have a node for each worker, and the system's calls are replaced. */
#include "workers_support.h"

enum { MOST = 4096 };

#define ASSERT_TRIAL(rc)                                                                           \
    do {                                                                                           \
        if ((rc) != SW_OK)                                                                         \
            fail_msg("%s", t.err.text);                                                            \
    } while (0)

static struct {
    struct {
        uintptr_t first, end;
        uint64_t nodes;
    } range[MOST];
    int count, answer;
} asked;

/* All allocations of a run are made by the main thread. */
static int note_pages(void *p, size_t bytes, uint64_t nodes)
{
    assert_true(asked.count < MOST);
    asked.range[asked.count].first = (uintptr_t)p;
    asked.range[asked.count].end = (uintptr_t)p + bytes;
    asked.range[asked.count++].nodes = nodes;
    return asked.answer;
}

/* The nodes on which the page of an address was placed, 0: none. */
static uint64_t nodes_of(const void *at)
{
    for (int i = asked.count - 1; i >= 0; i--)
        if ((uintptr_t)at >= asked.range[i].first && (uintptr_t)at < asked.range[i].end)
            return asked.range[i].nodes;
    return 0;
}

static struct sw_os os;

/* Units 0 on node 0, which the system calls 0; units 1 on node 1, which it calls 3. */
static void pretend(struct trial *t)
{
    struct sw_job *job = t->job;
    struct sw_machine *m = job->place.machine;
    assert_int_equal(m->node_count, 1);
    m->nodes[0].os_number = 0;
    m->nodes[1] = m->nodes[0];
    m->nodes[1].os_number = 3;
    m->node_count = 2;
    for (int i = 0; i < 2; i++) {
        job->place.placement->rows[i].node_mask = UINT64_C(1) << i;
        job->place.placement->rows[2 + i].node_mask = UINT64_C(1) << i;
    }
    asked.count = 0;
    os = sw_os_posix;
    os.bind_pages = note_pages;
    sw_os_set(&os);
}

static const struct trial on_two_nodes = {
    .recipe = workers_recipe,
    .oversubscribe = true,
    .steps = 2,
    .sets = {"cluster.workers_per_group=2", "layer.fc1.outputs=4000", "layer.conv1.outputs=64",
             "cluster.slice_size=262144", "job.batch=64", "data.train.height=64",
             "data.train.width=64", "data.train.crop=60", "data.test.height=64",
             "data.test.width=64", "data.test.crop=60"}};

static bool several_nodes_here(void)
{
    struct sw_machine *m = NULL;
    assert_int_equal(sw_machine_here(&m, NULL), SW_OK);
    bool several = m->node_count > 1;
    sw_machine_free(m);
    if (several)
        print_message("skipped: this machine has several NUMA nodes already\n");
    return several;
}

static void memory_of_a_role_is_on_its_numa_node(void **state)
{
    static const uint64_t os_nodes[2] = {1 << 0, 1 << 3};
    struct trial t = on_two_nodes;
    int placed[2] = {0, 0};
    if (several_nodes_here())
        skip();
    t.name = "two-nodes";
    asked.answer = 0;
    ASSERT_TRIAL(trial_open(&t));
    pretend(&t);
    int rc = trial_run(&t);
    sw_os_set(NULL);
    ASSERT_TRIAL(rc);
    for (int w = 0; w < 2; w++) {
        const struct sw_worker *worker = &t.job->workers[w];
        assert_true(worker->arena.bytes >= SW_DEVICE_PAGES_BYTES);
        assert_int_equal(nodes_of(worker->arena.memory), os_nodes[w]);
    }
    for (int p = 0; p < sw_table_count(t.job->params.table); p++) {
        const struct sw_param *param = sw_table_param(t.job->params.table, p);
        int64_t n = sw_desc_storage(&param->layout);
        if (n < 100000)
            continue; /* in pages with others */
        for (int64_t i = n / 64; i < n; i += n / 32) {
            uint64_t nodes = nodes_of(param->value + i);
            assert_int_equal(nodes_of(param->slot[0] + i), nodes);
            for (int w = 0; w < 2; w++) {
                assert_int_equal(nodes_of(param->gradient[w] + i), os_nodes[w]);
                placed[w] += nodes == os_nodes[w];
            }
        }
    }
    assert_true(placed[0] > 0 && placed[1] > 0); /* both servers own something */
    assert_null(strstr(t.text, "NUMA"));
    trial_close(&t);
}

static void a_refused_binding_is_logged_and_the_run_continues(void **state)
{
    struct trial t = on_two_nodes;
    if (several_nodes_here())
        skip();
    t.name = "refused";
    asked.answer = -1;
    ASSERT_TRIAL(trial_open(&t));
    pretend(&t);
    int rc = trial_run(&t);
    sw_os_set(NULL);
    ASSERT_TRIAL(rc);
    assert_non_null(strstr(t.text, "memory: the system refuses to bind memory to NUMA nodes"));
    trial_close(&t);
}

static void on_one_node_no_memory_is_bound(void **state)
{
    struct trial t = on_two_nodes;
    if (several_nodes_here())
        skip();
    t.name = "one-node";
    asked.count = 0;
    ASSERT_TRIAL(trial_open(&t));
    os = sw_os_posix;
    os.bind_pages = note_pages;
    sw_os_set(&os);
    int rc = trial_run(&t);
    sw_os_set(NULL);
    ASSERT_TRIAL(rc);
    assert_int_equal(asked.count, 0);
    trial_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(on_one_node_no_memory_is_bound),
        cmocka_unit_test(memory_of_a_role_is_on_its_numa_node),
        cmocka_unit_test(a_refused_binding_is_logged_and_the_run_continues),
    };
    return cmocka_run_group_tests(tests, home_begin, home_end);
}
