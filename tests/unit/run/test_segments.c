/* ctest-labels: threads
 * ctest-timeout: 120
 * Steps as graphs: they have the bits of single operations, with scalars that change from step to
 * step and with evaluations and checkpoints between steps; how a step is divided into segments; and
 * what happens to operations that cannot be captured. */
#include "device/sim/stream.h"
#include "worker/segments.h"
#include "workers_support.h"

enum { STEPS = 9 };

#define NONE "cluster.copy=none"
#define NO_GRAPHS "job.graphs=no"
#define SIM "sim:gpus=1,mem=64MiB"
#define TWO "sim:gpus=2,mem=64MiB"

/* ---- What a run was ---- */

static struct sw_segment_stats stats[8];
static int segments, workers, buckets, streams;
static char said[4096];

/* Runs it and keeps how its steps were queued. */
static void run(struct trial t)
{
    t.steps = t.steps ? t.steps : STEPS;
    t.oversubscribe = true;
    if (trial_open(&t) != SW_OK || trial_run(&t) != SW_OK)
        fail_msg("%s / %s", t.err.text, sw_bytes_text(&t.messages));
    workers = t.job->place.placement->worker_count;
    segments = sw_segments_count(t.job->workers[0].segments);
    buckets = t.job->exchange.sums.count;
    streams = sw_net_stream_count(t.job->workers[0].train);
    for (int w = 0; w < workers; w++)
        stats[w] = sw_segments_stats(t.job->workers[w].segments);
    snprintf(said, sizeof said, "%s", t.text);
    trial_close(&t);
}

/* The same run with graphs and without; both leave the same file. */
static void compare(struct trial t)
{
    int n = 0;
    while (t.sets[n])
        n++;
    t.sets[n] = NO_GRAPHS;
    t.name = "direct";
    run(t);
    for (int w = 0; w < workers; w++)
        assert_true(stats[w].graphs == 0 && stats[w].launches == 0);
    t.sets[n] = NULL;
    t.name = "graphs";
    run(t);
    assert_same_tensors(checkpoint_path("direct", STEPS), checkpoint_path("graphs", STEPS));
}

static void assert_whole_steps(void)
{
    assert_int_equal(segments, 1);
    for (int w = 0; w < workers; w++) {
        assert_int_equal(stats[w].graphs, 1);
        assert_int_equal(stats[w].launches, STEPS - 2); /* all but those that come first */
    }
    assert_null(strstr(said, "not as a graph"));
}

/* ---- One device that updates ---- */

#define WITH(updater) WORKERS_JOB DATA_SECTIONS "[updater]\n" updater WORKERS_NET

/* Rates, bias corrections, momentum, dropout: nothing of a step may be left over from the capture.
 */
static void graph_reads_new_step_scalars(void **state)
{
    static const char *const recipes[] = {
        workers_recipe, WITH("type = sgd\nlr = 0.1\npolicy = cosine\nwarmup = 4\n"),
        WITH("type = adam\nlr = 0.002\nweight_decay = 0.01\npolicy = exponential\nstep_size = "
             "1\ngamma = 0.9\n"),
        WITH("type = rmsprop\nlr = 0.01\npolicy = step\nstep_size = 2\ngamma = 0.5\n")};
    for (size_t i = 0; i < sizeof recipes / sizeof *recipes; i++) {
        compare((struct trial){.recipe = recipes[i], .device = SIM, .sets = {NONE}});
        assert_whole_steps();
    }
    train(.recipe = workers_recipe, .name = "cpu", .steps = STEPS);
    compare((struct trial){.recipe = workers_recipe, .device = SIM, .sets = {NONE}});
    assert_same_tensors(checkpoint_path("cpu", STEPS), checkpoint_path("graphs", STEPS));
}

/* Evaluations use the same memory, checkpoints fetch values, frozen layers have no gradient. */
static void evaluations_and_checkpoints_do_not_disturb_graphs(void **state)
{
    compare((struct trial){
        .recipe = workers_recipe,
        .device = SIM,
        .sets = {NONE, "job.eval_every=2", "job.checkpoint_every=3", "job.freeze=conv1.*"}});
    assert_whole_steps();
    grouped(.name = "half", .device = SIM, .steps = 5, .sets = {NONE, "job.freeze=conv1.*"});
    grouped(.resume = "half", .resume_step = 5, .steps = STEPS, .device = SIM);
    assert_same_tensors(checkpoint_path("half", STEPS), checkpoint_path("graphs", STEPS));
}

/* Normalisation keeps statistics; memory = fit repeats layers and swaps features beside the
 * computing, on streams that come into the graph. */
static void offloaded_activations_are_restored_in_a_graph(void **state)
{
    char fit[64];
    struct trial like = {.recipe = budget_recipe, .device = SIM, .sets = {NONE}};
    compare(like);
    assert_whole_steps();
    snprintf(fit, sizeof fit, "job.memory=fit:%lld", least_budget(like));
    like.sets[1] = fit;
    compare(like);
    assert_whole_steps();
    /* Where the host waits for others in mid-step nothing is a graph: copies begin in one piece of
     * it and are waited for in another. */
    like = (struct trial){.recipe = budget_recipe, .device = TWO, .sets = {NONE, SANDBLASTER}};
    long long least = least_budget(like);
    snprintf(fit, sizeof fit, "job.memory=fit:%lld", least + least / 64);
    like.sets[2] = fit;
    compare(like);
    assert_true(segments > 1 && stats[0].graphs == 0);
}

/* Recurrent state continues from batch to batch, and is reset sometimes. */
static void recurrent_state_continues_in_a_graph(void **state)
{
    static const char recipe[] =
        "[job]\nsteps = 20\nbatch = 6\n[data train]\nformat = synthetic\nkind = sequences\n"
        "classes = 8\nrecords = 200\nlength = 5\nstreams = 6\n"
        "[updater]\ntype = adagrad\nlr = 0.05\n"
        "[layer text]\ntype = input\nfield = tokens\n[layer next]\ntype = input\nfield = target\n"
        "[layer codes]\ntype = onehot\nsrc = text\nclasses = 8\n"
        "[layer cell]\ntype = gru\nsrc = codes\nhidden = 7\nstateful = yes\n"
        "[layer out]\ntype = inner_product\nsrc = cell\noutputs = 8\naxis = 2\n"
        "[layer loss]\ntype = softmax_loss\nsrc = out, next\n";
    compare((struct trial){.recipe = recipe, .device = SIM, .sets = {NONE}});
    assert_whole_steps();
}

/* ---- What the host does meanwhile ---- */

/* Calls of the one worker's thread, which is the only one. */
static struct {
    int host_waits, input_copies;
    int early;     /* copies right behind another, without a wait between: of the next batch */
    int last_wait; /* how many there were at the last copy */
    int launches;  /* of graphs, each a whole step */
    int event_waits;
    int ahead; /* those for a step behind which another one had been launched */
} seen;
static const struct sw_device_ops *real;

static int count_stream_wait(struct sw_stream *s, struct sw_err *err)
{
    seen.host_waits++;
    return real->stream_wait(s, err);
}

static int count_launch(struct sw_stream *s, struct sw_graph *g, struct sw_err *err)
{
    seen.launches++;
    return real->graph_launch(s, g, err);
}

/* The first two steps are no graphs, and the second one, whose layers are measured, is waited for
 * alone: where no other is, wait n is for step n + 1, and the graphs up to step n + 2 are launched.
 */
static int count_event_wait(struct sw_event *e, struct sw_err *err)
{
    seen.host_waits++;
    seen.event_waits++;
    seen.ahead += seen.event_waits > 1 && seen.launches == seen.event_waits;
    return real->event_host_wait(e, err);
}

/* Between the copies of two batches the host waits for a step, but for one that is sent ahead right
 * behind the first, which came at its time. */
static int count_copy(struct sw_stream *s, void *dst, const void *src, size_t bytes,
                      struct sw_err *err)
{
    if (strcmp(sw_sim_stream_of(s)->lane->name, "input") == 0) {
        seen.input_copies++;
        seen.early += seen.input_copies > 1 && seen.host_waits == seen.last_wait;
        seen.last_wait = seen.host_waits;
    }
    return real->copy(s, dst, src, bytes, err);
}

static void count_calls(struct trial *t)
{
    static struct sw_device_ops counting;
    struct sw_device *dev = t->job->workers[0].device;
    real = dev->ops;
    counting = *real;
    counting.stream_wait = count_stream_wait;
    counting.event_host_wait = count_event_wait;
    counting.graph_launch = count_launch;
    counting.copy = count_copy;
    dev->ops = &counting;
}

/* One wait a step, for its loss, and the next batch is on its way by then; what the beginning and
 * the end of a run wait for is in both lengths. */
static void the_host_waits_for_losses_alone_and_sends_batches_ahead(void **state)
{
    int waits[2];
    for (int i = 0; i < 2; i++) {
        memset(&seen, 0, sizeof seen);
        run((struct trial){.recipe = workers_recipe,
                           .steps = i ? 3 * STEPS : STEPS,
                           .device = SIM,
                           .before = count_calls,
                           .sets = {NONE, i ? "job.seed=1" : "job.graphs=no"}});
        waits[i] = seen.host_waits;
        assert_int_equal(seen.input_copies, i ? 3 * STEPS : STEPS);
    }
    assert_int_equal(waits[1] - waits[0], 2 * STEPS);
    assert_true(seen.early > 0);
}

static void count_waits(const char *copy, const char *more)
{
    memset(&seen, 0, sizeof seen);
    run((struct trial){
        .recipe = workers_recipe, .device = SIM, .before = count_calls, .sets = {copy, more}});
}

/* Calls of worker 0 for its device. */
static void count_waits_of_two(const char *recipe, const char *reducer, const char *more)
{
    memset(&seen, 0, sizeof seen);
    run((struct trial){
        .recipe = recipe, .device = TWO, .before = count_calls, .sets = {NONE, reducer, more}});
}

/* The host waits for a step when the next one is queued, unless something is to be done behind it,
 * or the next one needs something from it. */
static void next_step_is_queued_before_the_host_waits(void **state)
{
    count_waits(NONE, NULL);
    assert_int_equal(seen.event_waits, STEPS - 2); /* not for the second and the last one */
    assert_int_equal(seen.ahead, STEPS - 3);

    count_waits(NONE, "job.checkpoint_every=3");
    assert_int_equal(seen.event_waits, STEPS - STEPS / 3 - 1);
    count_waits(NONE, "job.eval_every=2");
    assert_int_equal(seen.event_waits, STEPS - STEPS / 2 - 1);
    count_waits(NONE, "job.stop_at=train.loss<=0");
    assert_int_equal(seen.event_waits, 0);
    count_waits(NONE, "job.on_nan=skip");
    assert_int_equal(seen.event_waits, 0);
}

#define LARS "type = lars\nlr = 2\nweight_decay = 0.0005\ntrust = 0.002\n"

/* Devices that sum gradients, and those that need all gradients for an update, need as little. A
 * loss scale follows from the last update, and servers sum on the host. */
static void devices_that_sum_or_clip_go_ahead_too(void **state)
{
    static const char *const reducers[] = {"cluster.all_reduce=copies",
                                           "cluster.all_reduce=library"};
    static const char *const settings[] = {NULL, "job.grad_clip=norm:0.1"};

    for (size_t i = 0; i < 2; i++) {
        count_waits(NONE, settings[i]);
        assert_int_equal(seen.event_waits, STEPS - 2);

        for (size_t k = 0; k < 2; k++) {
            count_waits_of_two(workers_recipe, reducers[k], settings[i]);
            assert_int_equal(seen.event_waits, STEPS - 2);
            count_waits_of_two(WITH(LARS), reducers[k], settings[i]);
            assert_int_equal(seen.event_waits, STEPS - 2);
        }
    }

    count_waits_of_two(workers_recipe, reducers[0], "job.checkpoint_every=3");
    assert_int_equal(seen.event_waits, STEPS - STEPS / 3 - 1);
    count_waits_of_two(workers_recipe, reducers[0], "job.precision=fp16");
    assert_int_equal(seen.event_waits, 0);
    count_waits_of_two(workers_recipe, SANDBLASTER, NULL);
    assert_int_equal(seen.event_waits, 0);
    count_waits_of_two(workers_recipe, reducers[0], "layer.fc1.partition=1");
    assert_int_equal(seen.event_waits, 0);
}

/* Devices sum what a layer needs of the whole batch, so that the host waits for losses alone, with
 * the bits of sums on the host. */
static void sums_of_layers_do_not_wait_for_devices(void **state)
{
    static const char *const reducers[] = {"cluster.all_reduce=copies",
                                           "cluster.all_reduce=library"};
    int before = 0;

    for (size_t i = 0; i < 4; i++) {
        memset(&seen, 0, sizeof seen);
        run((struct trial){.recipe = budget_recipe,
                           .device = TWO,
                           .steps = i % 2 ? 2 * STEPS : STEPS,
                           .before = count_calls,
                           .sets = {NONE, reducers[i / 2]}});
        if (i % 2)
            assert_int_equal(seen.host_waits - before, STEPS);
        before = seen.host_waits;
    }

    for (int devices = 2; devices <= 3; devices++) {
        const char *sim = devices == 2 ? TWO : "sim:gpus=3,mem=64MiB";
        run((struct trial){.recipe = budget_recipe,
                           .name = "host",
                           .device = sim,
                           .sets = {"cluster.comm=ps", "cluster.copy=async"}});
        run((struct trial){.recipe = budget_recipe,
                           .name = "device",
                           .device = sim,
                           .sets = {"cluster.comm=ps", NONE, reducers[0], "job.streams=2"}});
        assert_same_tensors(checkpoint_path("host", STEPS), checkpoint_path("device", STEPS));
    }
}

/* ---- Where the host has something to do in a step ---- */

/* Between two collects, or two gradients that are handed over: one segment each. */
static void step_is_split_into_segments_where_the_host_acts(void **state)
{
    static const char *const ways[] = {"cluster.copy=async", "cluster.copy=sync",
                                       "cluster.overlap=no"};
    static const int graphs[] = {7, 7, 4}; /* 4 layers have parameters */
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        compare((struct trial){.recipe = workers_recipe, .device = SIM, .sets = {ways[i]}});
        assert_int_equal(stats[0].graphs, graphs[i]);
        assert_int_equal(stats[0].launches, graphs[i] * (STEPS - 2));
    }
}

/* Buckets of gradients are pushed when they are complete, and pulled for their lowest layer: a
 * graph ends behind each layer that completes one and before each that needs the first value of
 * one. The middle one goes on from forward to backward. */
static void a_bucket_ends_a_graph_and_a_layer_in_it_does_not(void **state)
{
    static const char *const sizes[] = {"cluster.bucket_size=1", "cluster.bucket_size=3KiB",
                                        "cluster.bucket_size=1GiB"};
    static const char *const ways[] = {"cluster.all_reduce=copies", "cluster.all_reduce=library"};
    int ends = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (size_t k = 0; k < sizeof ways / sizeof *ways; k++) {
            compare((struct trial){
                .recipe = workers_recipe, .device = TWO, .sets = {NONE, sizes[i], ways[k]}});
            /* 4 layers have parameters: with the smallest buckets two each. */
            ends = i == 0 ? 4 : buckets;
            assert_int_equal(stats[0].graphs, 2 * ends - 1);
            assert_int_equal(stats[1].launches, (2 * ends - 1) * (STEPS - 2));
        }
    assert_int_equal(ends, 1);
}

/* Sums of gradients over devices, features that move, statistics over workers: in between graphs.
 */
static void several_workers_have_graphs_between_waits(void **state)
{
    static const char *const mixed[] = {"layer.fc1.partition=1", "layer.conv2.partition=none"};
    static const char *const ways[] = {"cluster.copy=async", NONE};
    for (int i = 0; i < 2; i++) {
        compare((struct trial){.recipe = workers_recipe, .device = TWO, .sets = {ways[i]}});
        assert_true(stats[0].graphs > 0 && stats[1].graphs > 0);
        compare((struct trial){
            .recipe = workers_recipe, .device = TWO, .sets = {ways[i], mixed[0], mixed[1]}});
        assert_true(stats[0].graphs > 0 && stats[1].graphs > 0);
        compare((struct trial){.recipe = budget_recipe, .device = TWO, .sets = {ways[i]}});
        assert_true(stats[0].graphs > 0 && stats[1].graphs > 0);
        assert_null(strstr(said, "not as a graph"));
    }
}

/* Two convolutions beside one another, of which one is longer, so that cuts are in between. */
#define BESIDE                                                                                     \
    "[layer image]\ntype = input\nfield = image\n"                                                 \
    "[layer label]\ntype = input\nfield = label\n"                                                 \
    "[layer first]\ntype = convolution\nsrc = image\noutputs = 4\nkernel = 3\npad = 1\n"           \
    "[layer left]\ntype = convolution\nsrc = first\noutputs = 4\nkernel = 3\npad = 1\n"            \
    "[layer left2]\ntype = convolution\nsrc = left\noutputs = 4\nkernel = 3\npad = 1\n"            \
    "[layer right]\ntype = convolution\nsrc = first\noutputs = 4\nkernel = 1\n"                    \
    "[layer norm]\ntype = batch_norm\nsrc = right\n"                                               \
    "[layer sum]\ntype = eltwise\nsrc = left2, norm\n"                                             \
    "[layer out]\ntype = inner_product\nsrc = sum\noutputs = 4\n"                                  \
    "[layer loss]\ntype = softmax_loss\nsrc = out, label\n"

/* Streams of independent layers are joined where a graph begins and ends. */
static void layers_on_several_streams_have_graphs_between_waits(void **state)
{
    static const char recipe[] = WORKERS_JOB DATA_SECTIONS UPDATER_SECTIONS BESIDE;
    static const char *const statistics[] = {"layer.norm.sync=yes", "layer.norm.sync=no"};

    for (int i = 0; i < 2; i++) {
        train(.recipe = recipe, .name = "single", .device = TWO, .steps = STEPS,
              .oversubscribe = true,
              .sets = {NONE, "cluster.bucket_size=1", "job.streams=1", statistics[i]});
        compare((struct trial){
            .recipe = recipe,
            .device = TWO,
            .sets = {NONE, "cluster.bucket_size=1", "job.streams=2", statistics[i]}});
        assert_true(streams == 2 && segments > 2);
        assert_true(stats[0].graphs > 2 && stats[1].graphs > 2);
        assert_null(strstr(said, "not as a graph"));
        assert_same_tensors(checkpoint_path("single", STEPS), checkpoint_path("graphs", STEPS));
    }
}

/* Other rows, other nets: graphs of the old ones must not run. */
static void rows_that_move_make_new_graphs(void **state)
{
    enum { LENGTH = 24 };
    run((struct trial){.recipe = workers_recipe,
                       .steps = LENGTH,
                       .device = TWO,
                       .before = plant_speeds,
                       .sets = {"cluster.rebalance=yes", "job.eval_every=3"}});
    assert_non_null(strstr(said, "rows"));
    assert_true(stats[0].graphs > 0);
    assert_true(stats[0].launches < (uint64_t)(LENGTH - 2) * (uint64_t)stats[0].graphs);
}

/* ---- What cannot be captured ---- */

/* Layers on more streams than a graph of sim can have. */
static void uncaptured_operations_are_reported_once_and_run(void **state)
{
    struct sw_bytes recipe = {0};
    sw_bytes_add(&recipe, WORKERS_JOB DATA_SECTIONS UPDATER_SECTIONS
                 "[layer image]\ntype = input\nfield = image\n"
                 "[layer label]\ntype = input\nfield = label\n");
    for (int i = 0; i < 10; i++)
        sw_bytes_printf(&recipe,
                        "[layer fc%d]\ntype = inner_product\nsrc = image\noutputs = 4\n"
                        "[layer loss%d]\ntype = softmax_loss\nsrc = fc%d, label\nweight = 0.1\n",
                        i, i, i);
    compare((struct trial){
        .recipe = sw_bytes_text(&recipe), .device = SIM, .sets = {NONE, "job.streams=16"}});
    sw_bytes_fini(&recipe);
    const char *line = strstr(said, "not as a graph: sim:0");
    assert_non_null(line);
    assert_non_null(strstr(said, "are queued operation by operation"));
    assert_null(strstr(line + 1, "not as a graph"));
}

/* A device that fails in a graph is named as ever. */
static void a_fault_in_a_graph_ends_the_run(void **state)
{
    struct trial t = {.recipe = workers_recipe,
                      .device = "sim:gpus=1,mem=64MiB,fault=lost@600",
                      .steps = 200,
                      .oversubscribe = true,
                      .sets = {NONE}};
    assert_int_equal(trial_open(&t), SW_OK);
    assert_int_equal(trial_run(&t), SW_ERR_LIBRARY);
    assert_non_null(strstr(t.err.text, "the device is lost"));
    assert_true(sw_segments_stats(t.job->workers[0].segments).launches > 0);
    trial_close(&t);
}

#define FRESH(name) cmocka_unit_test_setup_teardown(name, home_begin, home_end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FRESH(graph_reads_new_step_scalars),
        FRESH(evaluations_and_checkpoints_do_not_disturb_graphs),
        FRESH(offloaded_activations_are_restored_in_a_graph),
        FRESH(recurrent_state_continues_in_a_graph),
        FRESH(the_host_waits_for_losses_alone_and_sends_batches_ahead),
        FRESH(next_step_is_queued_before_the_host_waits),
        FRESH(devices_that_sum_or_clip_go_ahead_too),
        FRESH(sums_of_layers_do_not_wait_for_devices),
        FRESH(step_is_split_into_segments_where_the_host_acts),
        FRESH(a_bucket_ends_a_graph_and_a_layer_in_it_does_not),
        FRESH(several_workers_have_graphs_between_waits),
        FRESH(layers_on_several_streams_have_graphs_between_waits),
        FRESH(rows_that_move_make_new_graphs),
        FRESH(uncaptured_operations_are_reported_once_and_run),
        FRESH(a_fault_in_a_graph_ends_the_run),
    };
    return cmocka_run_group_tests_name("segments", tests, NULL, NULL);
}
