/* ctest-labels: threads
 * ctest-timeout: 240
 * Rows by speed: the arithmetic, workers of which one is three times slower than the other, and
 * that speed is measured. */
#include "run/rebalance.h"
#include "workers_support.h"

/* ---- arithmetic ---- */

static void check_shares(int64_t total, int count, const double *shares, const int64_t *want)
{
    int64_t got[8], sum = 0;
    sw_rows_distribute(total, count, shares, got);
    for (int i = 0; i < count; i++) {
        assert_int_equal(got[i], want[i]);
        sum += got[i];
    }
    assert_int_equal(sum, total);
}

static void all_rows_are_distributed(void **state)
{
    check_shares(64, 2, (const double[]){3, 1}, (const int64_t[]){48, 16});
    check_shares(50, 3, (const double[]){1, 1, 1}, (const int64_t[]){17, 17, 16});
    check_shares(10, 3, (const double[]){1000, 1, 1}, (const int64_t[]){8, 1, 1});
    check_shares(4, 4, (const double[]){9, 1, 5, 1}, (const int64_t[]){1, 1, 1, 1});
    check_shares(7, 2, (const double[]){0.1, 0.25}, (const int64_t[]){2, 5});
}

static void rows_follow_speed_if_the_gain_is_large_enough(void **state)
{
    int64_t out[3];
    assert_true(
        sw_rebalance_split(64, 2, (const int64_t[]){32, 32}, (const double[]){10, 30}, out));
    assert_int_equal(out[0], 48);
    assert_int_equal(out[1], 16);
    /* They are as fast as each other by now, or nearly so. */
    assert_false(
        sw_rebalance_split(64, 2, (const int64_t[]){48, 16}, (const double[]){15, 15}, out));
    assert_false(
        sw_rebalance_split(64, 2, (const int64_t[]){48, 16}, (const double[]){15, 15.9}, out));
    assert_true(
        sw_rebalance_split(64, 2, (const int64_t[]){48, 16}, (const double[]){15, 20}, out));
    /* Too few rows to share them better. */
    assert_false(sw_rebalance_split(2, 2, (const int64_t[]){1, 1}, (const double[]){1, 3}, out));
    /* One has not been measured. */
    assert_false(
        sw_rebalance_split(9, 3, (const int64_t[]){3, 3, 3}, (const double[]){1, 0, 3}, out));
}

/* ---- runs ---- */

#define TWO "sim:gpus=2"
#define PS "cluster.comm=ps" /* factors take more memory for rows that may move */
#define REBALANCE "cluster.rebalance=yes", "job.eval_every=10"

/* Large enough that computing is what takes the time. */
static const char recipe[] =
    "[job]\nsteps = 30\nbatch = 64\neval_batch = 20\n" DATA_SECTIONS UPDATER_SECTIONS WORKERS_NET;

#define balanced(...) train(.recipe = recipe, .oversubscribe = true, __VA_ARGS__)

static void rows_of(const char *run, int64_t rows[2])
{
    long long a = 0, b = 0;
    const char *text =
        ask_text("SELECT value FROM tags WHERE key = 'rows' AND run_id = %d", run_id(run));
    assert_int_equal(sscanf(text, "%lld %lld", &a, &b), 2);
    rows[0] = a;
    rows[1] = b;
}

static const char *choices_of(const char *run, int64_t step)
{
    static char text[4096];
    struct sw_st_file *f = open_tensors(checkpoint_path(run, step));
    snprintf(text, sizeof text, "%s", sw_st_metadata(f, "choices"));
    sw_st_close(f);
    return text;
}

static void a_slower_worker_gets_fewer_rows(void **state)
{
    int64_t rows[2];
    char line[64];
    struct trial t = {
        .recipe = recipe,
        .name = "slow",
        .device = TWO,
        .before = plant_speeds,
        .sets = {"cluster.workers_per_group=2", REBALANCE, "job.checkpoint_every=10"}};
    trial_ok(&t);
    rows_of("slow", rows);
    assert_int_equal(rows[0], 48);
    assert_int_equal(rows[1], 16);
    assert_non_null(strstr(t.text, "rebalance: rows of a batch by speed: worker0.0 "));
    snprintf(line, sizeof line, "\"rows\":[%d,%d],", (int)rows[0], (int)rows[1]);
    assert_non_null(strstr(choices_of("slow", 30), line));
    assert_non_null(strstr(choices_of("slow", 0), "\"rows\":[32,32],"));
    /* Every sample has its weight. */
    train(.recipe = recipe, .name = "one", .sets = {"job.eval_every=10"});
    assert_equal_runs("one", "slow", 30);
    assert_true(fabs(ask("SELECT value FROM metrics WHERE run_id = %d AND split = 'test' AND "
                         "name = 'loss' AND step = 30",
                         run_id("one")) -
                     ask("SELECT value FROM metrics WHERE run_id = %d AND split = 'test' AND "
                         "name = 'loss' AND step = 30",
                         run_id("slow"))) < 1e-4);
}

/* How fast a device is comes out of what its steps take. On a busy machine the quick one may be
 * held up in most of them: another run will do. */
static void speed_is_measured(void **state)
{
    enum { RUNS = 12 };
    int64_t rows = 0;
    for (int i = 0; i < RUNS && rows <= 32; i++) {
        struct trial t = {.recipe = recipe,
                          .oversubscribe = true,
                          .device = "sim:gpus=2,slow=20,faulty=1",
                          .steps = 12,
                          .sets = {"cluster.workers_per_group=2", REBALANCE}};
        assert_int_equal(trial_open(&t), SW_OK);
        assert_int_equal(trial_run(&t), SW_OK);
        rows = sw_worker_rows(&t.job->workers[0], SW_SPLIT_TRAIN);
        trial_close(&t);
    }
    assert_in_range(rows, 33, 63);
}

static void note_rows(struct trial *t)
{
    int64_t *rows = t->user;
    for (int i = 0; i < 2; i++)
        rows[i] = sw_worker_rows(&t->job->workers[i], SW_SPLIT_TRAIN);
}

static void resume_continues_with_the_rebalanced_rows(void **state)
{
    int64_t rows[2], taken[2], eval;
    balanced(.name = "half", .device = TWO, .steps = 15, .before = plant_speeds,
             .sets = {"cluster.workers_per_group=2", REBALANCE});
    rows_of("half", rows);
    assert_int_equal(rows[0], 48);
    struct trial t = {.recipe = recipe,
                      .resume = "half",
                      .resume_step = 15,
                      .steps = 18, /* no evaluation before the end */
                      .device = TWO,
                      .before = note_rows,
                      .user = taken};
    trial_ok(&t);
    assert_memory_equal(taken, rows, sizeof rows);
    assert_null(strstr(t.text, "not to the same bits"));
    /* Who does not ask for it begins evenly. */
    struct trial plain = {.recipe = recipe,
                          .resume = "half",
                          .resume_step = 15,
                          .device = TWO,
                          .sets = {"cluster.rebalance=no"}};
    assert_int_equal(trial_open(&plain), SW_OK);
    eval = sw_worker_rows(&plain.job->workers[0], SW_SPLIT_EVAL);
    assert_int_equal(sw_worker_rows(&plain.job->workers[0], SW_SPLIT_TRAIN), 32);
    assert_int_equal(eval, 10);
    trial_close(&plain);
}

static void note_peak(struct trial *t, const struct sw_job_event *e)
{
    if (e->type == SW_JOB_EVAL)
        *(size_t *)t->user = sw_device_bytes_of(t->job->workers[0].device).peak;
}

/* Memory for half of the rows each, and hardly more. Kernels of five are computed by an algorithm
 * whose scratch does not outweigh the features. */
#define FIVES "layer.conv1.kernel=5", "layer.conv1.pad=2", "layer.conv2.kernel=5"
static void a_device_without_room_keeps_its_rows(void **state)
{
    size_t peak = 0;
    char device[96];
    balanced(.device = TWO, .on_event = note_peak, .user = &peak,
             .sets = {"cluster.workers_per_group=2", PS, "job.eval_every=10", FIVES});
    snprintf(device, sizeof device, TWO ",mem=%zuKiB", peak / 1024 + 16);
    struct trial t = {.recipe = recipe,
                      .name = "tight",
                      .device = device,
                      .before = plant_speeds,
                      .sets = {"cluster.workers_per_group=2", PS, REBALANCE, FIVES}};
    trial_ok(&t);
    assert_non_null(
        strstr(t.text, "rebalance: the rows of the batch are not redistributed: worker0.0"));
    assert_string_equal(
        ask_text("SELECT value FROM tags WHERE key = 'rows' AND run_id = %d", run_id("tight")), "");
}

/* On the CPU, with threads of prefetching, an output per evaluation and running statistics. */
static void workers_on_the_cpu_may_be_balanced(void **state)
{
    balanced(.name = "cpu",
             .sets = {"cluster.workers_per_group=2", REBALANCE, "data.train.workers=2"});
    train(.recipe = recipe, .name = "one", .sets = {"job.eval_every=10"});
    assert_equal_runs("one", "cpu", 30);
}

/* Chains of a machine without a draw that hangs on a bit, and a recurrent layer over streams. */
static const char chains[] =
    "[job]\nsteps = 30\nbatch = 64\neval_batch = 20\nalgorithm = cd\n" DATA_SECTIONS
    "[updater]\ntype = sgd\nlr = 0.0001\n[layer image]\ntype = input\nfield = image\n"
    "[layer vis]\ntype = rbm_visible\nsrc = image\nunits = gaussian\nsampled = no\n"
    "[layer rbm]\ntype = rbm_hidden\nsrc = vis\nhidden = 256\nunits = gaussian\nk = 2\n"
    "persistent = yes\nweight.init = gaussian\nweight.std = 0.01\n";
static const char streams[] =
    "[job]\nsteps = 30\nbatch = 64\neval_batch = 20\n"
    "[data train]\nformat = synthetic\nclasses = 4\nrecords = 640\nheight = 16\nwidth = 16\n"
    "mean = 127\nstd = 64\nstreams = 64\n"
    "[data test]\nformat = synthetic\nclasses = 4\nrecords = 53\nheight = 16\nwidth = 16\n"
    "mean = 127\nstd = 64\n" UPDATER_SECTIONS
    "[layer image]\ntype = input\nfield = image\n[layer label]\ntype = input\nfield = label\n"
    "[layer x]\ntype = reshape\nsrc = image\nshape = 16, 48\n"
    "[layer h]\ntype = gru\nsrc = x\nhidden = 64\nstateful = yes\noutput = last\n"
    "[layer fc]\ntype = inner_product\nsrc = h\noutputs = 4\n"
    "[layer loss]\ntype = softmax_loss\nsrc = fc, label\n";

static void recurrent_state_moves_with_its_rows(void **state)
{
    const char *const recipes[] = {chains, streams};
    int64_t rows[2];
    char one[32], many[32];
    for (int i = 0; i < 2; i++) {
        snprintf(one, sizeof one, "one%d", i);
        snprintf(many, sizeof many, "moved%d", i);
        train(.recipe = recipes[i], .name = one, .sets = {"job.eval_every=10"});
        train(.recipe = recipes[i], .name = many, .oversubscribe = true, .device = TWO,
              .before = plant_speeds, .sets = {"cluster.workers_per_group=2", REBALANCE});
        rows_of(many, rows);
        assert_true(rows[0] == 48 && rows[1] == 16);
        assert_equal_runs(one, many, 30);
    }
}

static void assert_refused(const char *a, const char *b, const char *why)
{
    struct trial t = {.recipe = recipe,
                      .oversubscribe = true,
                      .sets = {"cluster.rebalance=yes", "cluster.workers_per_group=2",
                               "data.train.shuffle=no", a, b}};
    assert_int_equal(trial_open(&t), SW_ERR_INVALID);
    if (!strstr(sw_bytes_text(&t.messages), why))
        fail_msg("%s is not in: %s", why, sw_bytes_text(&t.messages));
    trial_close(&t);
}

static void settings_that_exclude_rebalance_are_refused(void **state)
{
    assert_refused(NULL, NULL, "set job.eval_every");
    assert_refused("job.eval_every=5", "job.repeat_exact=yes", "remove one of them");
    assert_refused("job.eval_every=5", "layer.fc2.partition=1", "which it moves between workers");
}

#define FRESH(name) cmocka_unit_test_setup_teardown(name, home_begin, home_end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_rows_are_distributed),
        cmocka_unit_test(rows_follow_speed_if_the_gain_is_large_enough),
        FRESH(a_slower_worker_gets_fewer_rows),
        FRESH(speed_is_measured),
        FRESH(resume_continues_with_the_rebalanced_rows),
        FRESH(a_device_without_room_keeps_its_rows),
        FRESH(workers_on_the_cpu_may_be_balanced),
        FRESH(recurrent_state_moves_with_its_rows),
        FRESH(settings_that_exclude_rebalance_are_refused),
    };
    return cmocka_run_group_tests_name("rebalance", tests, NULL, NULL);
}
