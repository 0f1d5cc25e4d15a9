/* ctest-labels: threads
 * ctest-timeout: 600
 * Layers with special rules of partition: statistics that are split with the channels, groups of
 * channels, columns of several sources, and paths on different workers. */
#include "partition_support.h"

#include "net/transfer.h"

enum { STEPS = 10, BATCH = 25 };

/* ---- batch_norm among split layers ---- */

static const struct sw_net *net_of(const struct trial *t, int worker)
{
    return t->job->workers[worker].train;
}

static const char norm_recipe[] = WORKERS_JOB DATA_SECTIONS UPDATER_SECTIONS
    "[layer image]\ntype = input\nfield = image\n[layer label]\ntype = input\nfield = label\n"
    "[layer conv1]\ntype = convolution\nsrc = image\noutputs = 12\nkernel = 3\nbias = no\n"
    "[layer bn1]\ntype = batch_norm\nsrc = conv1\n"
    "[layer act1]\ntype = activation\nsrc = bn1\nfunction = tanh\n"
    "[layer pool1]\ntype = pooling\nsrc = act1\nmethod = avg\nkernel = 2\nstride = 2\n"
    "[layer fc1]\ntype = inner_product\nsrc = pool1\noutputs = 24\nbias = no\n"
    "[layer bn2]\ntype = batch_norm\nsrc = fc1\n"
    "[layer act2]\ntype = activation\nsrc = bn2\nfunction = tanh\n"
    "[layer fc2]\ntype = inner_product\nsrc = act2\noutputs = 4\n"
    "[layer loss]\ntype = softmax_loss\nsrc = fc2, label\n";

static void batch_norm_among_split_layers_equals_one_worker(void **state)
{
    static const char *const sets[][3] = {
        {"job.partition=1"},
        {"job.partition=none"},
        {"job.partition=1", "layer.bn1.partition=none"},
        {"job.partition=1", "layer.bn1.partition=0"},
        {"layer.bn1.partition=1", "layer.bn2.partition=1", "job.on_nan=skip"},
        {"layer.bn2.partition=none", "layer.conv1.partition=1"},
        {"job.partition=none", "layer.bn1.partition=0", "layer.fc1.partition=1"}};
    train(.recipe = norm_recipe, .name = "norm", .steps = STEPS);
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
        for (int workers = 2; workers <= 3; workers++) {
            char name[32];
            snprintf(name, sizeof name, "norm-%zu-%d", i, workers);
            train(.recipe = norm_recipe, .name = name, .steps = STEPS, .oversubscribe = true,
                  .device = (workers == 2) == (i < 4) ? sims[workers] : NULL,
                  .sets = {workers_set[workers], sets[i][0], sets[i][1], sets[i][2]});
            assert_equal_runs("norm", name, STEPS);
        }
}

/* Partial sums and gradients that workers add are not rounded to 16 bits before they are added, so
 * the difference stays small. */
static void activations_of_16_bits_can_be_split(void **state)
{
    static const char *const sets[] = {"job.partition=0", "job.partition=1", "job.partition=none",
                                       "layer.fc1.partition=1in"};
    train(.recipe = norm_recipe, .name = "norm", .steps = STEPS, .sets = {"job.precision=bf16"});
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
        for (int sim = 0; sim < 2; sim++) {
            train(.recipe = norm_recipe, .name = "norm-16", .steps = STEPS, .oversubscribe = true,
                  .device = sim ? sims[2] : NULL,
                  .sets = {workers_set[2], sets[i], "job.precision=bf16"});
            double one = test_loss("norm", STEPS), two = test_loss("norm-16", STEPS);
            if (!(fabs(one - two) < 0.02 * one))
                fail_msg("%s: the loss is %g, that of one worker %g", sets[i], two, one);
        }
}

/* Every worker has the statistics and parameters of its channels, of which nothing moves between
 * two layers that are split the same way. */
static void check_norms(struct trial *t)
{
    int workers = t->job->place.placement->worker_count;
    for (int w = 0; w < workers; w++) {
        const struct sw_net *net = net_of(t, w);
        int index = sw_net_find(net, "bn1");
        const struct sw_layer *bn = sw_net_layer(net, index);
        assert_int_equal(index, sw_net_find(net, "conv1") + 1);
        assert_int_equal(sw_net_phases(net, index, false), 1);
        for (int k = 0; k < 2; k++) {
            assert_int_equal(sw_desc_count(&bn->param[k].layout) * workers, 12);
            assert_int_equal(sw_desc_count(&bn->keeps[k].layout) * workers, 12);
        }
    }
}

static void statistics_are_split_with_the_channels(void **state)
{
    train(.recipe = norm_recipe, .name = "norm", .steps = STEPS, .sets = {"job.eval_every=3"});
    for (int i = 0; i < 4; i++) {
        char name[32];
        int workers = 2 + i % 2;
        snprintf(name, sizeof name, "norm-cut-%d", i);
        train(.recipe = norm_recipe, .name = name, .steps = STEPS, .oversubscribe = true,
              .before = check_norms, .device = i < 2 ? NULL : sims[workers],
              .sets = {workers_set[workers], "job.partition=1", "job.eval_every=3"});
        assert_equal_runs("norm", name, STEPS);
        for (int step = 3; step <= STEPS; step += 3)
            assert_true(fabs(test_loss("norm", step) - test_loss(name, step)) < 1e-4);
    }
    static const struct {
        const char *from, *to;
        int before, after;
    } ways[] = {{"1", "1", 2, 3}, {"1", "0", 3, 2}, {"0", "1", 1, 3}, {"none", "1", 2, 2}};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        char name[32], from[32], to[32];
        snprintf(name, sizeof name, "norm-on-%zu", i);
        snprintf(from, sizeof from, "job.partition=%s", ways[i].from);
        snprintf(to, sizeof to, "job.partition=%s", ways[i].to);
        train(.recipe = norm_recipe, .name = name, .steps = 4, .oversubscribe = true,
              .device = i == 0 ? sims[2] : NULL, .sets = {workers_set[ways[i].before], from});
        train(.recipe = norm_recipe, .resume = name, .resume_step = 4, .steps = STEPS,
              .oversubscribe = true, .device = i == 0 ? "cpu" : NULL,
              .sets = {workers_set[ways[i].after], to});
        assert_equal_runs("norm", name, STEPS);
    }
    /* Two groups share the batch: workers with the same channels add up over groups. */
    for (int sim = 0; sim < 2; sim++) {
        train(.recipe = norm_recipe, .name = "norm-groups", .steps = STEPS, .oversubscribe = true,
              .device = sim ? "sim:gpus=4,mem=64MiB" : NULL,
              .sets = {workers_set[2], "cluster.framework=custom", "cluster.worker_groups=2",
                       "job.partition=1", "job.eval_every=3"});
        assert_equal_runs("norm", "norm-groups", STEPS);
        assert_true(fabs(test_loss("norm", 9) - test_loss("norm-groups", 9)) < 1e-4);
    }
}

/* Whoever has the layer keeps up its running statistics: evaluations, which read them everywhere,
 * checkpoints and resumes know them. */
static void a_layer_with_statistics_is_on_any_worker(void **state)
{
    static const char *const sets[][3] = {
        {"layer.bn1.location=0", "layer.act1.location=1"},
        {"layer.bn1.location=1"},
        {"layer.bn1.location=1", "layer.bn2.location=0"},
        {"layer.bn1.location=1", "layer.bn2.location=1", "job.on_nan=skip"},
        {"layer.bn2.location=1", "job.on_nan=rollback"}};
    train(.recipe = norm_recipe, .name = "norm", .steps = STEPS, .sets = {"job.eval_every=3"});
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
        for (int sim = 0; sim < 2; sim++) {
            char name[32];
            snprintf(name, sizeof name, "norm-at-%zu-%d", i, sim);
            train(.recipe = norm_recipe, .name = name, .steps = STEPS, .oversubscribe = true,
                  .device = sim ? sims[2] : NULL,
                  .sets = {workers_set[2], "job.eval_every=3", sets[i][0], sets[i][1], sets[i][2]});
            assert_equal_runs("norm", name, STEPS);
            for (int step = 3; step <= STEPS; step += 3)
                assert_true(fabs(test_loss("norm", step) - test_loss(name, step)) < 1e-4);
        }
    train(.recipe = norm_recipe, .name = "norm-moved", .steps = 4, .oversubscribe = true,
          .sets = {workers_set[2], "layer.bn1.location=1"}, .device = sims[2]);
    train(.recipe = norm_recipe, .resume = "norm-moved", .resume_step = 4, .steps = STEPS,
          .oversubscribe = true, .sets = {workers_set[3], "layer.bn1.location=2"}, .device = "cpu");
    assert_equal_runs("norm", "norm-moved", STEPS);
}

/* ---- groups of channels ---- */

/* As in AlexNet: convolutions whose groups stay on the workers. */
static const char groups_recipe[] = WORKERS_JOB DATA_SECTIONS UPDATER_SECTIONS
    "[layer image]\ntype = input\nfield = image\n[layer label]\ntype = input\nfield = label\n"
    "[layer conv1]\ntype = convolution\nsrc = image\noutputs = 8\nkernel = 3\npad = 1\n"
    "[layer act1]\ntype = activation\nsrc = conv1\nfunction = tanh\n"
    "[layer conv2]\ntype = convolution\nsrc = act1\noutputs = 16\nkernel = 3\ngroups = 4\n"
    "[layer act2]\ntype = activation\nsrc = conv2\nfunction = tanh\n"
    "[layer pool2]\ntype = pooling\nsrc = act2\nmethod = avg\nkernel = 2\nstride = 2\n"
    "[layer conv3]\ntype = convolution\nsrc = pool2\noutputs = 12\nkernel = 3\ngroups = 4\n"
    "[layer fc]\ntype = inner_product\nsrc = conv3\noutputs = 4\n"
    "[layer loss]\ntype = softmax_loss\nsrc = fc, label\n";

static struct figures whole_conv[2];

static void note_convolutions(struct trial *t)
{
    whole_conv[0] = figures_of(net_of(t, 0), "conv2");
    whole_conv[1] = figures_of(net_of(t, 0), "conv3");
}

/* From the first convolution to the inner product nothing moves, and all have their share. */
static void check_groups(struct trial *t)
{
    int workers = t->job->place.placement->worker_count;
    for (int w = 0; w < workers; w++) {
        const struct sw_net *net = net_of(t, w);
        int first = sw_net_find(net, "conv1"), last = sw_net_find(net, "conv3");
        for (int i = first; i <= last; i++)
            assert_null(strstr(sw_net_layer(net, i)->type->base.name, "bridge"));
        for (int k = 0; k < 2; k++) {
            struct figures f = figures_of(net, k ? "conv3" : "conv2");
            assert_int_equal(f.params * workers, whole_conv[k].params);
            assert_figure("convolution", "flops", f.forward * workers, whole_conv[k].forward);
        }
    }
}

static void aligned_channel_groups_move_nothing(void **state)
{
    static const char *const workers[] = {"2", "4"};
    train(.recipe = groups_recipe, .name = "groups", .steps = STEPS, .before = note_convolutions);
    for (int i = 0; i < 4; i++) {
        char set[48], name[32];
        snprintf(set, sizeof set, "cluster.workers_per_group=%s", workers[i % 2]);
        snprintf(name, sizeof name, "groups-%d", i);
        train(.recipe = groups_recipe, .name = name, .steps = STEPS, .oversubscribe = true,
              .before = check_groups, .device = i < 2 ? NULL : "sim:gpus=4,mem=64MiB",
              .sets = {set, "job.partition=1", "layer.fc.partition=1in"});
        assert_equal_runs("groups", name, STEPS);
    }
    /* More workers than groups: net-wide these stay in rows, beside columns. */
    train(.recipe = groups_recipe, .name = "groups-5", .steps = STEPS, .oversubscribe = true,
          .sets = {"cluster.workers_per_group=5", "job.partition=1"});
    assert_equal_runs("groups", "groups-5", STEPS);
}

/* Two, one and one of four groups: whoever has a group has its columns, and between convolutions
 * with as many groups nothing moves. */
static void check_uneven_groups(struct trial *t)
{
    /* Of conv1 the workers have 3, 3 and 2 columns, and are to have 4, 2 and 2: one moves. */
    struct sw_net_movement m;
    int connection = sw_net_find(net_of(t, 0), "act1:columns/4");
    assert_true(sw_net_movement(net_of(t, 0), connection, &m));
    for (int back = 0; back <= 1; back++)
        assert_int_equal(m.moved[back], BATCH * figures_of(net_of(t, 0), "conv1").inner);
    for (int w = 0; w < 3; w++) {
        const struct sw_net *net = net_of(t, w);
        double share = w == 0 ? 0.5 : 0.25;
        int first = sw_net_find(net, "conv2"), last = sw_net_find(net, "conv3");
        for (int i = first; i <= last; i++)
            assert_null(strstr(sw_net_layer(net, i)->type->base.name, "bridge"));
        for (int k = 0; k < 2; k++) {
            struct figures f = figures_of(net, k ? "conv3" : "conv2");
            assert_figure("convolution", "parameters", (double)f.params,
                          share * (double)whole_conv[k].params);
            assert_figure("convolution", "flops", f.forward, share * whole_conv[k].forward);
        }
    }
}

static void indivisible_channel_groups_stay_whole_on_a_worker(void **state)
{
    static const char *const more[][2] = {
        {NULL}, {"layer.conv3.groups=2", "layer.conv3.partition=0"}, {"layer.act2.partition=0"}};
    train(.recipe = groups_recipe, .name = "groups", .steps = STEPS, .before = note_convolutions);
    for (int i = 0; i < 4; i++) {
        char name[32];
        snprintf(name, sizeof name, "uneven-%d", i);
        if (i == 1)
            train(.recipe = groups_recipe, .name = "groups-of-2", .steps = STEPS,
                  .sets = {more[1][0]});
        train(.recipe = groups_recipe, .name = name, .steps = STEPS, .oversubscribe = true,
              .before = i % 3 == 0 ? check_uneven_groups : NULL,
              .device = i == 3 ? "sim:gpus=3,mem=64MiB" : NULL,
              .sets = {workers_set[3], "job.partition=1", more[i % 3][0], more[i % 3][1]});
        assert_equal_runs(i == 1 ? "groups-of-2" : "groups", name, STEPS);
    }
}

/* ---- columns of several layers ---- */

/* As in inception: what stands side by side, a part of that, and another part of a source; columns
 * of which some workers have nothing at all. */
static const char joins_recipe[] = WORKERS_JOB DATA_SECTIONS UPDATER_SECTIONS
    "[layer image]\ntype = input\nfield = image\n[layer label]\ntype = input\nfield = label\n"
    "[layer a]\ntype = convolution\nsrc = image\noutputs = 13\nkernel = 3\npad = 1\n"
    "[layer b]\ntype = convolution\nsrc = image\noutputs = 5\nkernel = 3\npad = 1\n"
    "[layer act]\ntype = activation\nsrc = a\nfunction = tanh\n"
    "[layer both]\ntype = concat\nsrc = act, b\n"
    "[layer pool]\ntype = pooling\nsrc = both\nmethod = avg\nkernel = 2\nstride = 2\n"
    "[layer some]\ntype = slice\nsrc = pool\nfrom = 3\nto = 12\n"
    "[layer half]\ntype = slice\nsrc = act\nparts = 2\npart = 1\n"
    "[layer fc1]\ntype = inner_product\nsrc = some\noutputs = 9\n"
    "[layer fc2]\ntype = inner_product\nsrc = half\noutputs = 7\n"
    "[layer fcs]\ntype = concat\nsrc = fc1, fc2\n"
    "[layer fc]\ntype = inner_product\nsrc = fcs\noutputs = 4\n"
    "[layer loss]\ntype = softmax_loss\nsrc = fc, label\n";

/* Every worker has its part of each, and of sources what belongs there. */
static void check_joins(struct trial *t)
{
    static const struct {
        const char *name;
        int columns;
    } joins[] = {{"both", 18}, {"pool", 18}, {"some", 9}, {"half", 6}, {"fcs", 16}};
    int workers = t->job->place.placement->worker_count;
    for (int w = 0; w < workers; w++)
        for (size_t i = 0; i < sizeof joins / sizeof *joins; i++) {
            const struct sw_net *net = net_of(t, w);
            int64_t first, count;
            sw_part(joins[i].columns, workers, w, &first, &count);
            assert_string_equal(sw_net_info(net, sw_net_find(net, joins[i].name)).distribution,
                                "columns");
            assert_int_equal(figures_of(net, joins[i].name).channels, count);
        }
    /* Of fc1's 9 columns over two workers (5 and 4) worker 0 is to have the first 8 of 16, so 3 are
     * handed on, and of fc2's 7 (4 and 3) worker 1 has all: 4 are. */
    struct sw_net_movement m;
    const struct sw_net *net = net_of(t, 0);
    if (workers != 2)
        return;
    assert_true(sw_net_movement(net, sw_net_find(net, "fc1:columns+0/16"), &m));
    assert_int_equal(m.moved[0], BATCH * 3);
    assert_true(sw_net_movement(net, sw_net_find(net, "fc2:columns+9/16"), &m));
    assert_int_equal(m.moved[1], BATCH * 4);
}

static void concat_and_slice_are_split_by_columns(void **state)
{
    train(.recipe = joins_recipe, .name = "joins", .steps = STEPS);
    for (int i = 0; i < 6; i++) {
        char name[32], workers[48];
        snprintf(name, sizeof name, "joins-%d", i);
        snprintf(workers, sizeof workers, "cluster.workers_per_group=%d", i < 4 ? i + 2 : i - 2);
        train(.recipe = joins_recipe, .name = name, .steps = STEPS, .oversubscribe = true,
              .before = i == 3 ? NULL : check_joins, .device = i < 4 ? NULL : sims[i - 2],
              .sets = {workers, "job.partition=1",
                       i == 3 ? "layer.both.partition=none" : "job.eval_every=0"});
        assert_equal_runs("joins", name, STEPS);
    }
    train(.recipe = joins_recipe, .name = "joins-16", .steps = STEPS, .oversubscribe = true,
          .before = check_joins, .sets = {workers_set[2], "job.partition=1", "job.precision=bf16"});
    train(.recipe = joins_recipe, .name = "joins-1in", .steps = STEPS, .oversubscribe = true,
          .sets = {workers_set[3], "layer.fc1.partition=1in", "layer.fcs.partition=1",
                   "layer.some.partition=1", "layer.fc2.partition=1in", "layer.half.partition=1"});
    assert_equal_runs("joins", "joins-1in", STEPS);
}

/* ---- two paths side by side ---- */

/* Two paths from one picture that meet again, each with a loss of its own as well. */
static const char paths_recipe[] = WORKERS_JOB DATA_SECTIONS UPDATER_SECTIONS
    "[layer image]\ntype = input\nfield = image\n[layer label]\ntype = input\nfield = label\n"
    "[layer a1]\ntype = convolution\nsrc = image\noutputs = 6\nkernel = 3\n"
    "[layer a2]\ntype = activation\nsrc = a1\nfunction = tanh\n"
    "[layer a3]\ntype = inner_product\nsrc = a2\noutputs = 7\n"
    "[layer b1]\ntype = inner_product\nsrc = image\noutputs = 9\n"
    "[layer b2]\ntype = activation\nsrc = b1\nfunction = tanh\n"
    "[layer b3]\ntype = inner_product\nsrc = b2\noutputs = 5\n"
    "[layer both]\ntype = concat\nsrc = a3, b3\n"
    "[layer fc]\ntype = inner_product\nsrc = both\noutputs = 4\n"
    "[layer own]\ntype = inner_product\nsrc = b2\noutputs = 4\n"
    "[layer loss]\ntype = softmax_loss\nsrc = fc, label\n"
    "[layer loss_b]\ntype = softmax_loss\nsrc = own, label\nweight = 0.5\n"
    "[layer accuracy]\ntype = accuracy\nsrc = fc, label\ninclude = eval\n";

#define PATHS(a, b)                                                                                \
    "layer.a1.location=" a, "layer.a2.location=" a, "layer.a3.location=" a,                        \
        "layer.b1.location=" b, "layer.b2.location=" b, "layer.b3.location=" b

/* Each worker has and computes one path, and waits for nobody within it: what it takes comes before
 * the path or behind it. */
static void check_paths(struct trial *t)
{
    for (int w = 0; w < 2; w++) {
        const struct sw_net *net = t->job->workers[w].train;
        int first = sw_net_layer_count(net), last = 0;
        for (int i = 0; i < sw_net_layer_count(net); i++) {
            const struct sw_layer *l = sw_net_layer(net, i);
            bool path = strlen(l->name) == 2 && (l->name[0] == 'a' || l->name[0] == 'b');
            if (!path)
                continue;
            assert_int_equal(sw_net_info(net, i).absent, (l->name[0] == 'b') != w);
            assert_int_equal(l->param_count == 0, (l->name[0] == 'b') != w || l->name[1] == '2');
            if (sw_net_info(net, i).absent)
                continue;
            first = i < first ? i : first;
            last = i;
        }
        for (int i = first; i <= last; i++)
            assert_false(strcmp(sw_net_layer(net, i)->type->base.name, "bridge_dst") == 0 &&
                         sw_net_info(net, i).holds);
    }
}

static void paths_on_two_workers_run_side_by_side(void **state)
{
    static const char *const tails[][3] = {
        {NULL},
        {"layer.both.location=0", "layer.fc.location=0"},
        {"layer.both.location=1", "layer.own.location=1", "layer.fc.partition=1in"}};
    train(.recipe = paths_recipe, .name = "paths", .steps = STEPS);
    for (int sim = 0; sim < 2; sim++)
        for (size_t i = 0; i < sizeof tails / sizeof *tails; i++) {
            char name[32];
            snprintf(name, sizeof name, "paths-%zu-%d", i, sim);
            train(.recipe = paths_recipe, .name = name, .steps = STEPS, .oversubscribe = true,
                  .before = check_paths, .device = sim ? sims[2] : NULL,
                  .sets = {workers_set[2], PATHS("0", "1"), tails[i][0], tails[i][1], tails[i][2]});
            assert_equal_runs("paths", name, STEPS);
        }
    /* Whoever goes on from it may have other workers, and the paths elsewhere. */
    train(.recipe = paths_recipe, .name = "moved", .steps = 4, .oversubscribe = true,
          .sets = {workers_set[2], PATHS("0", "1")});
    train(.recipe = paths_recipe, .resume = "moved", .resume_step = 4, .steps = STEPS,
          .oversubscribe = true, .sets = {workers_set[3], PATHS("2", "0")});
    assert_equal_runs("paths", "moved", STEPS);
}

/* What they send: the picture to the path that is elsewhere, and results and gradients. */
static void paths_move_activations_of_other_workers(void **state)
{
    train(.recipe = paths_recipe, .name = "count", .steps = 2, .oversubscribe = true,
          .device = sims[2],
          .sets = {workers_set[2], PATHS("0", "1"), "layer.both.location=1", "layer.own.location=1",
                   "layer.fc.location=1"});
    /* Rows 13 and 12 of 25: pictures to both; a3's output and its gradient cross whole; scores of
     * fc and own and their gradients go between worker 1 and worker 0's rows. */
    struct trial t = {.recipe = paths_recipe};
    assert_int_equal(trial_open(&t), SW_OK);
    int64_t image = figures_of(t.job->workers[0].train, "image").inner *
                    figures_of(t.job->workers[0].train, "image").channels;
    trial_close(&t);
    assert_int_equal((int64_t)ask("SELECT sum(bytes) FROM link_traffic WHERE run_id = %d AND step "
                                  "= 1 AND kind = 'feature'",
                                  run_id("count")),
                     (BATCH * image + 2 * (BATCH * 7 + 2 * 13 * 4)) * (int64_t)sizeof(float));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batch_norm_among_split_layers_equals_one_worker),
        cmocka_unit_test(activations_of_16_bits_can_be_split),
        cmocka_unit_test(statistics_are_split_with_the_channels),
        cmocka_unit_test(a_layer_with_statistics_is_on_any_worker),
        cmocka_unit_test(aligned_channel_groups_move_nothing),
        cmocka_unit_test(indivisible_channel_groups_stay_whole_on_a_worker),
        cmocka_unit_test(concat_and_slice_are_split_by_columns),
        cmocka_unit_test(paths_on_two_workers_run_side_by_side),
        cmocka_unit_test(paths_move_activations_of_other_workers),
    };
    return cmocka_run_group_tests_name("partition layers", tests, home_begin, home_end);
}
