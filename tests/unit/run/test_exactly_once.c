/* ctest-labels: threads
 * ctest-timeout: 180
 * Every gradient of a job is counted exactly once: each gradient is replaced by a distinct integer
 * when a worker pushes it, and sgd has a learning rate of 1, so the last checkpoint shows which
 * gradients have arrived: with groups that are synchronous, asynchronous, bounded, or merged along
 * any topology, and with random delays of workers and messages. Factors are replaced by such as
 * make this gradient. All sums stay below 2^24, so floats are exact. Without locks, updates may be
 * lost by nature; there the updates that were made are counted. */
#include "workers_support.h"

#include "exchange/reduce/factors.h"
#include <dlfcn.h>

enum { STEPS = 12, MOST_TABLES = 4, MOST_SEATS = 8, MOST_DELAY_US = 200 };

/* ---- hooks: these functions take the place of the library's, and call them ---- */

static uint64_t chance; /* atomic: of delays */

/* Every third call, up to MOST_DELAY_US. */
static void dawdle(void)
{
    uint64_t x = __atomic_add_fetch(&chance, 0x9e3779b97f4a7c15u, __ATOMIC_RELAXED);
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    if ((x >> 31) % 3 == 0)
        nanosleep(&(struct timespec){.tv_nsec = (long)((x >> 40) % MOST_DELAY_US) * 1000}, NULL);
}

/* The gradient of a worker: by server group, seat and version. */
static int entry(int place, int seat, uint64_t version)
{
    return 1 + place + MOST_TABLES * (seat + MOST_SEATS * (int)(version % 5));
}

int sw_table_update(struct sw_table *t, int worker, int param, uint64_t version, struct sw_err *err)
{
    int (*real)(struct sw_table *, int, int, uint64_t, struct sw_err *);
    *(void **)&real = dlsym(RTLD_NEXT, "sw_table_update");
    const struct sw_param *p = sw_table_param(t, param);
    assert_int_equal(sw_table_partials(t, worker), 1);
    float *gradient = sw_table_partial(t, worker, param, 0).gradient;
    for (int64_t e = 0; e < sw_desc_storage(&p->layout); e++)
        gradient[e] = (float)entry(t->group_index, worker, version);
    dawdle();
    return real(t, worker, param, version, err);
}

enum { ROWS = 16, LAYERS = 2, MOST_MEMBERS = 2, DEPTH = 2 };
static const int64_t inputs_of[LAYERS] = {3 * 14 * 14, 12}, outputs_of[LAYERS] = {12, 4};
static int members; /* workers of a group whose factors are exchanged */

/* Of a rank's rows: its first one has the inputs 1, and the gradient. All others are zero. A step
 * may still be queued when the next one is pushed. */
static struct {
    float x[ROWS * 3 * 14 * 14], dy[ROWS * 12];
} sent[MOST_SEATS][LAYERS][DEPTH];

int sw_factors_push(struct sw_factors *f, int rank, int layer, uint64_t round,
                    struct sw_stream *compute, struct sw_err *err)
{
    int (*real)(struct sw_factors *, int, int, uint64_t, struct sw_stream *, struct sw_err *);
    *(void **)&real = dlsym(RTLD_NEXT, "sw_factors_push");
    const int64_t rows = ROWS / members, first = rank % members * rows;
    const int64_t in = inputs_of[layer], out = outputs_of[layer];
    float *x = sent[rank][layer][round % DEPTH].x, *dy = sent[rank][layer][round % DEPTH].dy;

    for (int64_t i = 0; i < in; i++)
        x[i] = 1;
    for (int64_t o = 0; o < out; o++)
        dy[o] = (float)entry(0, rank, round);
    int rc = sw_copy(compute, sw_factors_x(f, rank, layer) + first * in, x,
                     (size_t)(rows * in) * sizeof *x, err);
    if (rc == SW_OK)
        rc = sw_copy(compute, sw_factors_dy(f, rank, layer) + first * out, dy,
                     (size_t)(rows * out) * sizeof *dy, err);
    dawdle();
    return rc == SW_OK ? real(f, rank, layer, round, compute, err) : rc;
}

int sw_queue_push(struct sw_queue *q, const void *item)
{
    int (*real)(struct sw_queue *, const void *);
    *(void **)&real = dlsym(RTLD_NEXT, "sw_queue_push");
    dawdle();
    return real(q, item);
}

/* ---- settings ---- */

/* A perceptron whose values are all zero at first. */
static const char recipe[] =
    "[job]\nsteps = 12\nbatch = 16\neval_batch = 20\n" DATA_SECTIONS
    "[updater]\ntype = sgd\nlr = 1\n"
    "[layer image]\ntype = input\nfield = image\n[layer label]\ntype = input\nfield = label\n"
    "[layer fc1]\ntype = inner_product\nsrc = image\noutputs = 12\nweight.init = constant\n"
    "[layer act1]\ntype = activation\nsrc = fc1\nfunction = tanh\n"
    "[layer fc2]\ntype = inner_product\nsrc = act1\noutputs = 4\nweight.init = constant\n"
    "[layer loss]\ntype = softmax_loss\nsrc = fc2, label\n";

#define BSP "cluster.framework=custom"
#define ASYNC "cluster.consistency=async"
#define GROUPS(n) "cluster.worker_groups=" #n
#define MEMBERS(n) "cluster.workers_per_group=" #n
#define SERVERS(n) "cluster.servers_per_group=" #n
#define TABLES(n) "cluster.server_groups=" #n
#define SOON "cluster.sync_period=2"
#define PS "cluster.comm=ps" /* the test writes gradients */
#define SFB "cluster.comm=sfb"
#define MANY_SLICES "cluster.slice_size=1024"

static const struct setting {
    const char *name, *sets[8], *device;
    int groups, members, tables;
    int bound; /* of staleness; -1: none, or it holds among the groups of each server group only */
    bool is_async, lossy;
} settings[] = {
    {"sandblaster",
     {SANDBLASTER, MEMBERS(4), SERVERS(3), MANY_SLICES},
     NULL,
     1,
     4,
     1,
     0,
     false,
     false},
    {"allreduce", {ALLREDUCE, MEMBERS(3), MANY_SLICES}, NULL, 1, 3, 1, 0, false, false},
    {"two-phases", {ALLREDUCE, MEMBERS(3), "job.on_nan=skip"}, NULL, 1, 3, 1, 0, false, false},
    {"bsp-groups", {BSP, GROUPS(3), MEMBERS(2), SERVERS(2)}, NULL, 1, 6, 1, 0, false, false},
    {"late", {SANDBLASTER, MEMBERS(3), "cluster.overlap=no"}, NULL, 1, 3, 1, 0, false, false},
    {"sim",
     {SANDBLASTER, MEMBERS(3), SERVERS(2), PS},
     "sim:gpus=3,mem=32MiB",
     1,
     3,
     1,
     0,
     false,
     false},
    {"sim-none",
     {SANDBLASTER, MEMBERS(3), "cluster.copy=none", PS},
     "sim:gpus=3,mem=32MiB",
     1,
     3,
     1,
     0,
     false,
     false},
    {"async-2", {BSP, ASYNC, GROUPS(2), SERVERS(2)}, NULL, 2, 1, 1, -1, true, false},
    {"async-4",
     {BSP, ASYNC, GROUPS(4), MEMBERS(2), SERVERS(3), MANY_SLICES},
     NULL,
     4,
     2,
     1,
     -1,
     true,
     false},
    {"ssp-1",
     {"cluster.framework=downpour", GROUPS(3), "cluster.staleness=1", SERVERS(2)},
     NULL,
     3,
     1,
     1,
     1,
     true,
     false},
    {"ssp-3",
     {"cluster.framework=downpour", GROUPS(4), MEMBERS(2), "cluster.staleness=3"},
     NULL,
     4,
     2,
     1,
     3,
     true,
     false},
    {"merge-2", {BSP, ASYNC, GROUPS(2), TABLES(2), SOON}, NULL, 2, 1, 2, -1, true, false},
    {"merge-all",
     {BSP, ASYNC, GROUPS(4), TABLES(4), SOON, "cluster.sync_topology=all"},
     NULL,
     4,
     1,
     4,
     -1,
     true,
     false},
    {"merge-ring",
     {BSP, ASYNC, GROUPS(4), TABLES(4), SERVERS(2), SOON, "cluster.sync_topology=ring"},
     NULL,
     4,
     1,
     4,
     -1,
     true,
     false},
    {"merge-tree",
     {BSP, ASYNC, GROUPS(4), TABLES(4), SOON, "cluster.sync_topology=tree"},
     NULL,
     4,
     1,
     4,
     -1,
     true,
     false},
    {"merge-list",
     {BSP, ASYNC, GROUPS(3), TABLES(3), SERVERS(2), SOON, "cluster.sync_topology=0-1,1-2"},
     NULL,
     3,
     1,
     3,
     -1,
     true,
     false},
    {"merge-shared",
     {BSP, "cluster.consistency=ssp", "cluster.staleness=2", GROUPS(4), TABLES(2), SOON},
     NULL,
     4,
     1,
     2,
     -1,
     true,
     false},
    {"hogwild",
     {"cluster.framework=hogwild", GROUPS(3), "cluster.staleness=2"},
     NULL,
     3,
     1,
     1,
     2,
     true,
     true},
    {"sim-async",
     {BSP, ASYNC, GROUPS(3), SERVERS(2), PS},
     "sim:gpus=3,mem=32MiB",
     3,
     1,
     1,
     -1,
     true,
     false},
    {"sim-ssp",
     {"cluster.framework=downpour", GROUPS(2), MEMBERS(2), "cluster.staleness=1", PS},
     "sim:gpus=4,mem=32MiB",
     2,
     2,
     1,
     1,
     true,
     false},
    {"sim-factors",
     {SANDBLASTER, MEMBERS(2), SFB},
     "sim:gpus=2,mem=32MiB",
     1,
     2,
     1,
     0,
     false,
     false},
    {"sim-ssp-factors",
     {"cluster.framework=downpour", GROUPS(3), "cluster.staleness=1", SFB},
     "sim:gpus=3,mem=32MiB",
     3,
     1,
     1,
     1,
     true,
     false},
    {"sim-ssp-members",
     {"cluster.framework=downpour", GROUPS(2), MEMBERS(2), "cluster.staleness=3", SFB},
     "sim:gpus=4,mem=32MiB",
     2,
     2,
     1,
     3,
     true,
     false},
    {"sim-merge",
     {BSP, ASYNC, GROUPS(2), TABLES(2), SOON, PS},
     "sim:gpus=2,mem=32MiB",
     2,
     1,
     2,
     -1,
     true,
     false},
    {"sim-hogwild",
     {"cluster.framework=hogwild", GROUPS(3), "cluster.staleness=2", PS},
     "sim:gpus=3,mem=32MiB",
     3,
     1,
     1,
     2,
     true,
     true},
    {"mixed",
     {SANDBLASTER, MEMBERS(3), SERVERS(2), PS},
     "sim:gpus=2,mem=32MiB+cpu",
     1,
     3,
     1,
     0,
     false,
     false},
    {"mixed-async",
     {BSP, ASYNC, GROUPS(3), MEMBERS(2), PS},
     "sim:gpus=3,mem=32MiB+cpu",
     3,
     2,
     1,
     -1,
     true,
     false},
    {"hogwild-merge",
     {"cluster.framework=hogwild", GROUPS(4), TABLES(2), SOON},
     NULL,
     4,
     1,
     2,
     -1,
     true,
     true},
};
enum { SETTINGS = sizeof settings / sizeof *settings };

/* ---- what is to come of them ---- */

/* Of all workers of all server groups, over all steps. */
static int total_of(const struct setting *s)
{
    int total = 0, seats = s->groups * s->members / s->tables;
    for (int place = 0; place < s->tables; place++)
        for (int seat = 0; seat < seats; seat++)
            for (uint64_t v = 1; v <= STEPS; v++)
                total += entry(place, seat, v);
    assert_true(total < 1 << 24);
    return total;
}

/* Every slice has had as many updates as groups made steps; with devices that update, sums. */
static void assert_updates(const struct setting *s, const struct sw_job *job)
{
    const struct sw_table *first = job->params.copies[0].table;
    for (int i = 0; i < first->slice_count; i++) {
        uint64_t made = 0;
        for (int k = 0; k < job->topology->server_groups; k++)
            made += job->params.copies[k].table->slices[i].version;
        assert_int_equal(made, (s->is_async ? s->groups : 1) * STEPS);
    }
}

static void assert_values(const struct setting *s)
{
    struct sw_st_file *f = open_tensors(checkpoint_path(s->name, STEPS));
    int total = total_of(s), looked_at = 0;
    for (size_t i = 0; i < sw_st_count(f); i++) {
        const struct sw_st_entry *e = sw_st_entry_at(f, i);
        if (strncmp(e->name, "fc", 2) != 0)
            continue;
        float *value = tensor_bytes(f, e);
        for (size_t k = 0; k < e->bytes / sizeof *value; k++, looked_at++)
            if (value[k] != (float)-total)
                fail_msg("%s: element %zu of %s is %.9g, not %d", s->name, k, e->name,
                         (double)value[k], -total);
        free(value);
    }
    sw_st_close(f);
    assert_int_equal(looked_at, 3 * 14 * 14 * 12 + 12 + 12 * 4 + 4);
}

static void assert_staleness(const struct setting *s)
{
    int id = run_id(s->name), workers = s->groups * s->members;
    int most = (int)ask("SELECT max(staleness) FROM step_time WHERE run_id = %d", id);
    assert_int_equal((int)ask("SELECT count(staleness) FROM step_time WHERE run_id = %d", id),
                     STEPS * workers);
    assert_in_range(most, 0, s->bound >= 0 ? s->bound : STEPS);
    print_message("%s: values at most %d steps stale\n", s->name, most);
}

static void run_setting(const struct setting *s)
{
    struct trial t = {.recipe = recipe,
                      .name = s->name,
                      .steps = STEPS,
                      .oversubscribe = true,
                      .device = s->device};
    memcpy(t.sets, s->sets, sizeof s->sets);
    members = s->members;
    if (trial_open(&t) != SW_OK || trial_run(&t) != SW_OK)
        fail_msg("%s: %s%s", s->name, t.err.text, sw_bytes_text(&t.messages));
    assert_int_equal(t.job->place.placement->worker_count, s->groups * s->members);
    assert_int_equal(t.job->topology->server_groups, s->tables);
    assert_int_equal(t.job->topology->is_async, s->is_async);
    assert_updates(s, t.job);
    trial_close(&t);
    if (!s->lossy)
        assert_values(s);
    assert_staleness(s);
}

static void every_gradient_of_a_job_counts_exactly_once(void **state)
{
    for (int i = 0; i < SETTINGS; i++)
        run_setting(&settings[i]);
}

/* Evaluations and checkpoints in mid-run, where asynchronous groups meet and merge. */
static void meetings_neither_lose_nor_repeat_a_gradient(void **state)
{
    for (int i = 0; i < SETTINGS; i++) {
        struct setting s = settings[i];
        int n = 0;
        while (s.sets[n])
            n++;
        assert_true(n < 8);
        s.sets[n] = i % 2 ? "job.eval_every=5" : "job.checkpoint_every=4";
        run_setting(&s);
    }
}

#define FRESH(name) cmocka_unit_test_setup_teardown(name, home_begin, home_end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FRESH(every_gradient_of_a_job_counts_exactly_once),
        FRESH(meetings_neither_lose_nor_repeat_a_gradient),
    };
    return cmocka_run_group_tests_name("exactly once", tests, NULL, NULL);
}
