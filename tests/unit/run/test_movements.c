/* ctest-timeout: 300
 * The movement table (parallel training, section 4), cell by cell: between two layers that are
 * distributed over simulated GPUs without peer access, exactly the bytes of the table leave the
 * GPUs in forward and in backward; and a layer that is split over K workers takes a K-th of the
 * memory. */
#include "workers_support.h"

#include "device/sim/stream.h"
#include <dlfcn.h>

enum { STEPS = 2, ROWS = 24, COLUMNS = 48, PIXELS = 4 * 14 * 14 };

/* ---- what leaves devices ---- */

static int64_t sent_bytes; /* atomic: packed by streams that send */
static int (*real_copy_2d)(struct sw_stream *s, const struct sw_copy_2d *c, struct sw_err *err);

static int counting_copy_2d(struct sw_stream *s, const struct sw_copy_2d *c, struct sw_err *err)
{
    if (strcmp(sw_sim_stream_of(s)->lane->name, "send") == 0)
        __atomic_add_fetch(&sent_bytes, (int64_t)c->width * c->rows, __ATOMIC_RELAXED);
    return real_copy_2d(s, c, err);
}

/* This program's sw_sim_open takes the place of the library's, calls it, and changes the device. */
int sw_sim_open(const struct sw_sim_conf *conf, int index, struct sw_device **out,
                struct sw_err *err)
{
    static struct sw_device_ops counting;
    int (*open)(const struct sw_sim_conf *, int, struct sw_device **, struct sw_err *);
    *(void **)&open = dlsym(RTLD_NEXT, "sw_sim_open");
    int rc = open(conf, index, out, err);
    if (rc != SW_OK)
        return rc;
    counting = *(*out)->ops;
    real_copy_2d = counting.copy_2d;
    counting.copy_2d = counting_copy_2d;
    (*out)->ops = &counting;
    return SW_OK;
}

/* ---- the table ---- */

/* Of B d over K workers: B d (K-1), B d (K-1)/K, B d, or nothing. */
enum cell { NONE, GATHER_ALL, SHARE, WHOLE };

/* Ways of the layer that is read and of the one that reads; the source of the last two of `tos` is
 * one worker. 1in leaves terms, which are added up on their way: that moves B d (K-1) more. */
static const char *const froms[] = {"partition=0", "partition=1", "location=0", "location=1",
                                    "partition=1in"};
static const struct {
    const char *layer, *set;
} tos[] = {{"element", "partition=0"},   {"element", "partition=1"}, {"product", "partition=1"},
           {"product", "partition=1in"}, {"element", "location=0"},  {"element", "location=1"}};
enum { FROMS = sizeof froms / sizeof *froms, TOS = sizeof tos / sizeof *tos };

static const enum cell table[FROMS][TOS] = {
    /* to rows, columns (element-wise), columns (needs all), 1in, worker 0, worker 1 */
    {NONE, SHARE, GATHER_ALL, SHARE, SHARE, SHARE},
    {SHARE, NONE, GATHER_ALL, NONE, SHARE, SHARE},
    {SHARE, SHARE, GATHER_ALL, SHARE, NONE, WHOLE},
    {SHARE, SHARE, GATHER_ALL, SHARE, WHOLE, NONE},
    /* Summed into rows or columns or on one worker at once; into rows first, where all is needed.
     */
    {GATHER_ALL, GATHER_ALL, GATHER_ALL, GATHER_ALL, GATHER_ALL, GATHER_ALL},
};

static int64_t floats_of(enum cell cell, int workers)
{
    int64_t all = ROWS * COLUMNS;
    switch (cell) {
    case GATHER_ALL:
        return all * (workers - 1);
    case SHARE:
        return all * (workers - 1) / workers;
    case WHOLE:
        return all;
    case NONE:
        break;
    }
    return 0;
}

static int64_t expected_floats(int from, int to, int workers)
{
    bool reduced_first = strcmp(froms[from], "partition=1in") == 0 && table[0][to] == GATHER_ALL;
    return floats_of(table[from][to], workers) +
           (reduced_first ? floats_of(GATHER_ALL, workers) : 0);
}

/* ---- a net with that connection ---- */

/* No evaluation, so that what is counted is training's. `source` is read by one layer, and what
 * comes behind it in rows. */
#define NET(reader)                                                                                \
    "[job]\nsteps = 2\nbatch = 24\n" DATA_TRAIN "[updater]\ntype = sgd\nlr = 0.01\n"               \
    "[layer image]\ntype = input\nfield = image\n[layer label]\ntype = input\nfield = label\n"     \
    "[layer source]\ntype = inner_product\nsrc = image\noutputs = 48\n" reader                     \
    "[layer scores]\ntype = inner_product\nsrc = reader\noutputs = 4\n"                            \
    "[layer loss]\ntype = softmax_loss\nsrc = scores, label\n"
#define DATA_TRAIN                                                                                 \
    "[data train]\nformat = synthetic\nclasses = 4\nrecords = 96\nheight = 14\nwidth = 14\n"       \
    "channels = 4\nmean = 127\nstd = 64\n"

static const char element_net[] = NET("[layer reader]\ntype = activation\nsrc = source\n"
                                      "function = tanh\n"),
                  product_net[] = NET("[layer reader]\ntype = inner_product\nsrc = source\n"
                                      "outputs = 12\n");

static int64_t plan_floats(const struct sw_job_plan *p, const char *from)
{
    int64_t floats = 0;
    size_t n = from ? strlen(from) : 0;
    for (int i = 0; i < p->layer_count; i++) {
        const struct sw_job_layer *l = &p->layers[i];
        bool meant = l->moves && (!from || (strncmp(l->name, from, n) == 0 && l->name[n] == ':'));
        floats += meant ? l->movement.moved[0] + l->movement.moved[1] : 0;
    }
    return floats;
}

/* `floats` move between source and reader, one way. */
static void check_net(const char *recipe, const char *from, const char *to, int workers,
                      int64_t floats)
{
    static int runs;
    char sets[3][48] = {""}, device[64], name[48];
    snprintf(sets[0], sizeof sets[0], "cluster.workers_per_group=%d", workers);
    snprintf(sets[1], sizeof sets[1], "layer.source.%s", from);
    if (to)
        snprintf(sets[2], sizeof sets[2], "layer.reader.%s", to);
    snprintf(device, sizeof device, "sim:gpus=%d,mem=64MiB,peer=no", workers);
    snprintf(name, sizeof name, "run-%d", runs++);
    struct trial t = {.recipe = recipe,
                      .name = name,
                      .device = device,
                      .steps = STEPS,
                      .oversubscribe = true,
                      .sets = {sets[0], sets[1], to ? sets[2] : NULL}};
    __atomic_store_n(&sent_bytes, 0, __ATOMIC_RELAXED);
    if (trial_open(&t) != SW_OK)
        fail_msg("%s, %s: %s", sets[1], sets[2], t.err.text);
    int64_t cell = plan_floats(sw_job_plan(t.job), "source"),
            all = plan_floats(sw_job_plan(t.job), NULL);
    if (trial_run(&t) != SW_OK)
        fail_msg("%s, %s: %s", sets[1], sets[2], t.err.text);
    trial_close(&t);
    int64_t expected = 2 * floats, sent = __atomic_load_n(&sent_bytes, __ATOMIC_RELAXED),
            told = (int64_t)ask("SELECT coalesce(sum(bytes), 0) FROM link_traffic WHERE run_id = "
                                "%d AND kind = 'feature'",
                                run_id(name));
    if (cell != expected || told != 4 * all * STEPS || sent != told)
        fail_msg("%d workers, %s to %s: %d floats, not %d; all %d bytes planned, %d told, %d sent",
                 workers, sets[1], sets[2], (int)cell, (int)expected, (int)(4 * all * STEPS),
                 (int)told, (int)sent);
}

static void check_cell(int from, int to, int workers)
{
    check_net(*tos[to].layer == 'e' ? element_net : product_net, froms[from], tos[to].set, workers,
              expected_floats(from, to, workers));
}

static void every_movement_moves_the_elements_of_the_table(void **state)
{
    for (int workers = 2; workers <= 4; workers++)
        for (int from = 0; from < FROMS; from++)
            for (int to = 0; to < TOS; to++)
                check_cell(from, to, workers);
}

/* ---- columns of other layers ---- */

/* Readers whose columns are not the source's, one for one: side by side with another, behind it and
 * before it, and a part of it. Column c of the source is column c + at of `whole` ones that are cut
 * over workers. */
static const struct {
    const char *net;
    int at, whole;
} joins[] = {
    {NET("[layer other]\ntype = inner_product\nsrc = image\noutputs = 13\n"
         "[layer reader]\ntype = concat\nsrc = source, other\npartition = 1\n"),
     0, COLUMNS + 13},
    {NET("[layer other]\ntype = inner_product\nsrc = image\noutputs = 70\n"
         "[layer reader]\ntype = concat\nsrc = other, source\npartition = 1\n"),
     70, COLUMNS + 70},
    {NET("[layer reader]\ntype = slice\nsrc = source\nfrom = 5\nto = 30\npartition = 1\n"), -5, 25},
};
enum { JOINS = sizeof joins / sizeof *joins };

/* The worker that has one of so many things. */
static int holder_of(int thing, int things, int workers)
{
    int64_t first, count;
    for (int w = 0; w < workers; w++) {
        sw_part(things, workers, w, &first, &count);
        if (thing >= first && thing < first + count)
            return w;
    }
    return -1;
}

/* Who has a value of the source before it moves; -1: everybody a term of it. */
static int holder_before(int from, int row, int column, int workers)
{
    const char *way = froms[from];
    return strcmp(way, "partition=0") == 0     ? holder_of(row, ROWS, workers)
           : strcmp(way, "partition=1") == 0   ? holder_of(column, COLUMNS, workers)
           : strcmp(way, "partition=1in") == 0 ? -1
                                               : way[strlen(way) - 1] - '0';
}

static int64_t joined_floats(int from, int join, int workers)
{
    int64_t floats = 0;
    for (int row = 0; row < ROWS; row++)
        for (int column = 0; column < COLUMNS; column++) {
            int place = column + joins[join].at, whole = joins[join].whole;
            int to = holder_of(place, whole, workers),
                before = holder_before(from, row, column, workers);
            floats += to < 0 ? 0 : before < 0 ? workers - 1 : before != to;
        }
    return floats;
}

static void columns_of_others_move_where_they_belong(void **state)
{
    for (int workers = 2; workers <= 4; workers++)
        for (int from = 0; from < FROMS; from++)
            for (int join = 0; join < JOINS; join++)
                check_net(joins[join].net, froms[from], NULL, workers,
                          joined_floats(from, join, workers));
}

/* ---- what a worker holds ---- */

/* Nothing but one large layer: 12 MB of weights and as much momentum and gradient. */
static const char large[] = "[job]\nsteps = 2\nbatch = 24\n" DATA_TRAIN "[cluster]\ncomm = ps\n"
                            "[updater]\ntype = sgd\nlr = 0.001\nmomentum = 0.9\n"
                            "[layer image]\ntype = input\nfield = image\n"
                            "[layer label]\ntype = input\nfield = label\n"
                            "[layer fc]\ntype = inner_product\nsrc = image\noutputs = 4000\n"
                            "[layer loss]\ntype = softmax_loss\nsrc = fc, label\n";

/* The most bytes that each device has held, values and gradients, and with `copy = none` momentum.
 */
static void peaks_of(int workers, const char *set, const char *copy, size_t *peaks)
{
    char workers_key[48], device[64];
    snprintf(workers_key, sizeof workers_key, "cluster.workers_per_group=%d", workers);
    snprintf(device, sizeof device, "sim:gpus=%d,mem=256MiB", workers);
    struct trial t = {
        .recipe = large, .device = device, .oversubscribe = true, .sets = {workers_key, copy, set}};
    assert_int_equal(trial_open(&t), SW_OK);
    if (trial_run(&t) != SW_OK)
        fail_msg("%s", t.err.text);
    for (int w = 0; w < workers; w++)
        peaks[w] = sw_device_bytes_of(t.job->workers[w].device).peak;
    trial_close(&t);
}

static void a_split_layer_takes_its_share_of_a_device(void **state)
{
    static const char *const copies[] = {"cluster.copy=async", "cluster.copy=none"};
    size_t weights = (size_t)PIXELS * 4000 * sizeof(float), whole, peaks[4];
    for (int c = 0; c < 2; c++) {
        peaks_of(1, NULL, copies[c], &whole);
        assert_true(whole > (size_t)(2 + c) * weights);
        for (int workers = 2; workers <= 4; workers += 2) {
            peaks_of(workers, "layer.fc.partition=1", copies[c], peaks);
            for (int w = 0; w < workers; w++)
                /* Beside it features and pages: not a tenth of it. */
                assert_true(peaks[w] * (size_t)workers < whole + (size_t)workers * whole / 10);
            peaks_of(workers, "layer.fc.partition=0", copies[c], peaks);
            for (int w = 0; w < workers; w++)
                assert_true(peaks[w] > whole * 9 / 10);
        }
    }
}

#define FRESH(name) cmocka_unit_test_setup_teardown(name, home_begin, home_end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FRESH(every_movement_moves_the_elements_of_the_table),
        FRESH(columns_of_others_move_where_they_belong),
        FRESH(a_split_layer_takes_its_share_of_a_device),
    };
    return cmocka_run_group_tests_name("movements", tests, NULL, NULL);
}
