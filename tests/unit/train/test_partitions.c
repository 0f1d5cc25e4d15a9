/* ctest-labels: threads
 * ctest-timeout: 600
 * Nets whose layers are split by rows, by columns, by columns of their sources, or whole on any
 * worker, in any mixture, on cpu and sim, train to what one worker trains; every worker holds and
 * computes its part, and the features that move are those of the movement table. */
#include "workers_support.h"

enum { STEPS = 10, LAYERS = 11, MOST_WORKERS = 3, BATCH = 25 };

/* The layers that can be shared in more than one way, in order; and what layers above them read. */
static const struct {
    const char *name;
    bool columns; /* can be split by columns */
    bool whole;   /* a column then needs all of its source */
    bool inputs;  /* can be split by columns of its source */
} layers[LAYERS] = {
    {"conv1", true, true, false},  {"act1", true, false, false}, {"norm1", false, false, false},
    {"pool1", true, false, false}, {"conv2", true, true, false}, {"pool2", true, false, false},
    {"relu2", true, false, false}, {"fc1", true, true, true},    {"act3", true, false, false},
    {"drop", true, false, false},  {"fc2", true, true, true}};

enum way { UNSET = -1, ROWS, COLUMNS, INPUTS, ONE };
enum { WAYS = ONE + 1 };
static const char *const keys[] = {"0", "1", "1in", "none"}, *const spreads[] = {"rows", "columns",
                                                                                 "sums", "one"};

struct mixture {
    int workers;
    enum way wide, way[LAYERS];
    int at[LAYERS]; /* location of one that is whole; -1: does not say */
    int loss_at;    /* likewise */
};

static bool can(int layer, enum way way)
{
    return way == COLUMNS ? layers[layer].columns : way != INPUTS || layers[layer].inputs;
}

static enum way way_of(const struct mixture *m, int layer)
{
    if (m->way[layer] != UNSET)
        return m->way[layer];
    return can(layer, m->wide) ? m->wide : ROWS;
}

/* How a layer's output is, or how one reads its source. */
struct spread {
    enum way way;
    bool full;
    int at;
};

static struct spread spread_of(const struct mixture *m, int layer)
{
    enum way way = way_of(m, layer);
    return (struct spread){.way = way, .at = way == ONE && m->at[layer] > 0 ? m->at[layer] : 0};
}

static struct spread source_of(const struct mixture *m, int layer)
{
    struct spread s = spread_of(m, layer);
    s.full = s.way == COLUMNS && layers[layer].whole;
    s.way = s.way == INPUTS ? COLUMNS : s.way;
    return s;
}

/* ---- one worker, with which all others are compared ---- */

struct figures {
    int64_t params, outputs; /* outputs: elements of a bias, which is one of the params */
    double forward, backward;
    int64_t channels, inner; /* of the output: columns, and values of each */
};
static struct figures whole[LAYERS], whole_image;
static double whole_flops_per_sample;

static struct figures figures_of(const struct sw_net *net, const char *name)
{
    const struct sw_layer *l = sw_net_layer(net, sw_net_find(net, name));
    struct figures f = {.forward = l->flops_forward,
                        .backward = l->flops_backward,
                        .channels = l->dst.desc.dim[1],
                        .inner = 1};
    for (int p = 0; p < l->param_count; p++) {
        f.params += sw_desc_count(&l->param[p].layout);
        f.outputs = p == 1 ? sw_desc_count(&l->param[p].layout) : 0;
    }
    for (int i = 2; i < l->dst.desc.ndim; i++)
        f.inner *= l->dst.desc.dim[i];
    return f;
}

static void note_figures(struct trial *t)
{
    for (int i = 0; i < LAYERS; i++)
        whole[i] = figures_of(t->job->workers[0].train, layers[i].name);
    whole_image = figures_of(t->job->workers[0].train, "image");
    whole_flops_per_sample = sw_job_plan(t->job)->flops_per_sample;
}

static int begin(void **state)
{
    int rc = home_begin(state);
    grouped(.name = "one", .steps = STEPS, .before = note_figures);
    return rc;
}

/* ---- what a job is made of ---- */

static double share_of(int64_t total, int parts, int i)
{
    int64_t first, count;
    sw_part(total, parts, i, &first, &count);
    return (double)count / (double)total;
}

static void assert_figure(const char *layer, const char *what, double is, double should)
{
    if (!(fabs(is - should) <= 1e-9 * fabs(should)))
        fail_msg("%s: %s is %.17g, not %.17g", layer, what, is, should);
}

/* Where the source is split a worker has some of the weights; a bias is added once. */
static double params_of(const struct mixture *m, int layer, int w, double share)
{
    double all = (double)whole[layer].params, bias = (double)whole[layer].outputs;
    switch (way_of(m, layer)) {
    case ROWS:
        return all;
    case INPUTS:
        return (all - bias) * share + (w == 0 ? bias : 0);
    default:
        return all * share;
    }
}

/* Every worker holds and computes the part that is its own. */
static void assert_parts(const struct sw_job *job, const struct mixture *m)
{
    for (int i = 0; i < LAYERS; i++)
        for (int w = 0; w < m->workers; w++) {
            const struct sw_net *net = job->workers[w].train;
            const char *name = layers[i].name;
            int index = sw_net_find(net, name);
            enum way way = way_of(m, i);
            struct figures f = figures_of(net, name);
            const struct figures *cut = way == INPUTS ? &whole[i - 1] : &whole[i];
            int at = spread_of(m, i).at;
            double share = way == ROWS  ? share_of(BATCH, m->workers, w)
                           : way == ONE ? w == at
                                        : share_of(cut->channels, m->workers, w);
            assert_string_equal(sw_net_spread_name(net, index), spreads[way]);
            assert_int_equal(sw_net_is_absent(net, index), way == ONE && w != at);
            assert_figure(name, "params", (double)f.params, params_of(m, i, w, share));
            assert_figure(name, "flops forward", f.forward, whole[i].forward * share);
            assert_figure(name, "flops backward", f.backward, whole[i].backward * share);
        }
    assert_figure("net", "flops per sample", sw_job_plan(job)->flops_per_sample,
                  whole_flops_per_sample);
}

/* ---- what moves ---- */

/* Values of rows x channels x inner that worker w has in both ways. */
static int64_t common(struct spread a, struct spread b, const struct figures *f, int workers, int w)
{
    int64_t first, rows = BATCH, channels = f->channels;
    for (int k = 0; k < 2; k++) {
        struct spread s = k ? b : a;
        if (s.way == ROWS)
            sw_part(BATCH, workers, w, &first, &rows);
        else if (s.way == COLUMNS)
            sw_part(f->channels, workers, w, &first, &channels);
        else if (w != s.at)
            return 0;
    }
    return rows * channels * f->inner;
}

/* Floats of one connection, one way: everything but what is there already. Terms of a sum all move
 * but for one's own; where their sum is wanted in full it goes from rows to all. */
static int64_t floats_between(struct spread from, struct spread to, const struct figures *f,
                              int workers)
{
    int64_t all = BATCH * f->channels * f->inner, stay = 0;
    if (from.way == INPUTS)
        return all * (workers - 1) * (to.full ? 2 : 1);
    if (to.full)
        return all * (workers - 1);
    for (int w = 0; w < workers; w++)
        stay += common(from, to, f, workers, w);
    return from.way == to.way && from.at == to.at ? 0 : all - stay;
}

/* Where the loss is. */
static struct spread loss_of(const struct mixture *m)
{
    bool one = m->loss_at >= 0 || m->wide == ONE;
    return (struct spread){.way = one ? ONE : ROWS, .at = m->loss_at > 0 ? m->loss_at : 0};
}

/* All connections of the chain: each layer, the loss behind the last one, and its labels. */
static int64_t bytes_of(const struct mixture *m)
{
    int64_t floats = 0;
    struct spread before = {.way = ROWS};
    for (int i = 0; i <= LAYERS; i++) {
        const struct figures *f = i == 0 ? &whole_image : &whole[i - 1];
        struct spread to = i < LAYERS ? source_of(m, i) : loss_of(m);
        /* The data have no gradient that would go back. */
        floats += floats_between(before, to, f, m->workers) * (i == 0 ? 1 : 2);
        before = i < LAYERS ? spread_of(m, i) : before;
    }
    static const struct figures label = {.channels = 1, .inner = 1};
    floats += floats_between((struct spread){.way = ROWS}, loss_of(m), &label, m->workers);
    return floats * (int64_t)sizeof(float);
}

static void assert_traffic(const struct mixture *m, const char *run)
{
    int id = run_id(run);
    int64_t expected = bytes_of(m);
    for (int step = 1; step <= STEPS; step += STEPS - 1)
        assert_int_equal((int64_t)ask("SELECT coalesce(sum(bytes), 0) FROM link_traffic WHERE "
                                      "run_id = %d AND step = %d AND kind = 'feature'",
                                      id, step),
                         expected);
    assert_int_equal((int)ask("SELECT count(*) FROM link_traffic WHERE run_id = %d AND "
                              "kind = 'feature' AND from_unit = to_unit",
                              id),
                     0);
    assert_int_equal((int)ask("SELECT count(*) FROM step_time WHERE run_id = %d", id),
                     STEPS * m->workers);
}

/* ---- runs ---- */

static const struct mixture *under_way;

static void check_parts(struct trial *t)
{
    assert_parts(t->job, under_way);
}

/* The settings of a mixture as --set texts. */
struct mixture_sets {
    int count;
    char text[TRIAL_SETS][48];
};

static void put_sets(const struct mixture *m, struct mixture_sets *s, struct trial *t)
{
    s->count = 0;
    snprintf(s->text[s->count++], sizeof s->text[0], "cluster.workers_per_group=%d", m->workers);
    snprintf(s->text[s->count++], sizeof s->text[0], "job.partition=%s", keys[m->wide]);
    for (int i = 0; i < LAYERS; i++)
        if (m->at[i] >= 0)
            snprintf(s->text[s->count++], sizeof s->text[0], "layer.%s.location=%d", layers[i].name,
                     m->at[i]);
        else if (m->way[i] != UNSET)
            snprintf(s->text[s->count++], sizeof s->text[0], "layer.%s.partition=%s",
                     layers[i].name, keys[m->way[i]]);
    if (m->loss_at >= 0)
        snprintf(s->text[s->count++], sizeof s->text[0], "layer.loss.location=%d", m->loss_at);
    assert_true(s->count < TRIAL_SETS);
    for (int i = 0; i < s->count; i++)
        t->sets[i] = s->text[i];
}

static void print_mixture(const struct mixture *m)
{
    print_error("%d workers, net-wide %s:", m->workers, keys[m->wide]);
    for (int i = 0; i < LAYERS; i++)
        if (m->way[i] != UNSET)
            print_error(" %s=%s%d", layers[i].name, keys[m->way[i]], spread_of(m, i).at);
    print_error("\n");
}

static double test_loss(const char *run, int step)
{
    return ask("SELECT value FROM metrics WHERE run_id = %d AND split = 'test' AND name = 'loss' "
               "AND step = %d",
               run_id(run), step);
}

static void run_mixture(const struct mixture *m, const char *name, const char *device)
{
    struct trial t = {.recipe = workers_recipe,
                      .name = name,
                      .oversubscribe = true,
                      .steps = STEPS,
                      .device = device,
                      .before = check_parts};
    struct mixture_sets sets;
    put_sets(m, &sets, &t);
    under_way = m;
    char where[256] = "";
    if (trial_go(&t) != SW_OK) {
        print_mixture(m);
        fail_msg("%s: %s", name, t.err.text);
    }
    double d = difference_at(checkpoint_path("one", STEPS), checkpoint_path(name, STEPS), where);
    if (!(d <= 1e-4)) {
        print_mixture(m);
        fail_msg("%s differs by %.3g in %s", name, d, where);
    }
    assert_true(fabs(test_loss("one", STEPS) - test_loss(name, STEPS)) < 1e-4);
    assert_traffic(m, name);
}

static struct mixture wide(int workers, enum way way)
{
    struct mixture m = {.workers = workers, .wide = way, .loss_at = -1};
    for (int i = 0; i < LAYERS; i++)
        m.way[i] = UNSET, m.at[i] = -1;
    return m;
}

static const char *const sims[] = {"", "sim:gpus=1,mem=64MiB", "sim:gpus=2,mem=64MiB",
                                   "sim:gpus=3,mem=64MiB"};

static void net_wide_settings_equal_one_worker(void **state)
{
    (void)state;
    for (int workers = 2; workers <= MOST_WORKERS; workers++)
        for (int way = ROWS; way <= ONE; way++) {
            char name[32];
            struct mixture m = wide(workers, (enum way)way);
            snprintf(name, sizeof name, "cpu-%d-%s", workers, keys[way]);
            run_mixture(&m, name, NULL);
            if (workers == 2 || way == COLUMNS) {
                snprintf(name, sizeof name, "sim-%d-%s", workers, keys[way]);
                run_mixture(&m, name, sims[workers]);
            }
        }
}

/* LeNet's way: one layer split, the others in rows. */
static void each_layer_alone_equals_one_worker(void **state)
{
    (void)state;
    for (int i = 0; i < LAYERS; i++)
        for (int way = COLUMNS; way <= ONE; way++) {
            char name[32];
            struct mixture m = wide(2 + (i + way) % 2, ROWS);
            if (!can(i, (enum way)way))
                continue;
            m.way[i] = (enum way)way;
            if (way == ONE)
                m.at[i] = i % m.workers;
            snprintf(name, sizeof name, "%s-%s", layers[i].name, keys[way]);
            run_mixture(&m, name, NULL);
        }
}

/* Draws depend on the seed alone. */
static int draw(uint64_t *word, int count)
{
    *word = *word * 6364136223846793005u + 1442695040888963407u;
    return (int)(*word >> 33) % count;
}

static struct mixture draw_mixture(uint64_t seed)
{
    uint64_t word = seed * 977 + 5;
    struct mixture m = wide(2 + draw(&word, MOST_WORKERS - 1), (enum way)draw(&word, WAYS));
    for (int i = 0; i < LAYERS; i++) {
        m.way[i] = (enum way)(draw(&word, WAYS + 1) - 1);
        if (m.way[i] != UNSET && !can(i, m.way[i]))
            m.way[i] = ONE;
        if (m.way[i] == ONE)
            m.at[i] = draw(&word, m.workers + 1) - 1;
    }
    m.loss_at = draw(&word, m.workers + 1) - 1;
    return m;
}

static void draw_and_run(uint64_t from, uint64_t to, bool on_sim)
{
    for (uint64_t seed = from; seed < to; seed++) {
        char name[32];
        struct mixture m = draw_mixture(seed);
        snprintf(name, sizeof name, "draw-%d", (int)seed);
        run_mixture(&m, name, on_sim ? sims[m.workers] : NULL);
    }
}

static void random_mixtures_equal_one_worker(void **state)
{
    (void)state;
    draw_and_run(0, 24, false);
}

static void random_mixtures_on_sim_equal_one_worker(void **state)
{
    (void)state;
    draw_and_run(100, 108, true);
}

static void split_runs_have_the_same_bits(void **state)
{
    (void)state;
    for (uint64_t seed = 200; seed < 203; seed++) {
        struct mixture m = draw_mixture(seed);
        run_mixture(&m, "first", NULL);
        run_mixture(&m, "second", NULL);
        run_mixture(&m, "on-sim", sims[m.workers]);
        assert_same_tensors(checkpoint_path("first", STEPS), checkpoint_path("second", STEPS));
        run_mixture(&m, "on-sim-again", sims[m.workers]);
        assert_same_tensors(checkpoint_path("on-sim", STEPS),
                            checkpoint_path("on-sim-again", STEPS));
    }
}

/* The tensors are whole (assert_equal_runs compares shapes), so another partition reads them. */
static void split_runs_resume_under_other_partitions(void **state)
{
    (void)state;
    static const struct {
        const char *from, *to;
        int workers_before, workers;
    } cases[] = {{"1in", "1", 2, 3},  {"0", "1in", 1, 3}, {"1in", "0", 3, 2}, {"1", "none", 2, 3},
                 {"none", "1", 3, 2}, {"1", "0", 3, 1},   {"0", "1", 1, 3}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char name[32], before[32], after[32];
        snprintf(name, sizeof name, "resumed-%zu", i);
        snprintf(before, sizeof before, "job.partition=%s", cases[i].from);
        snprintf(after, sizeof after, "job.partition=%s", cases[i].to);
        grouped(.name = name, .steps = 4, .sets = {workers_set[cases[i].workers_before], before});
        grouped(.resume = name, .resume_step = 4, .steps = STEPS,
                .sets = {workers_set[cases[i].workers], after});
        assert_equal_runs("one", name, STEPS);
    }
    /* The same partition: the same bits. */
    grouped(.name = "straight", .steps = STEPS, .sets = {workers_set[2], "job.partition=1"});
    grouped(.name = "half", .steps = 4, .sets = {workers_set[2], "job.partition=1"});
    grouped(.resume = "half", .resume_step = 4, .steps = STEPS);
    assert_same_tensors(checkpoint_path("straight", STEPS), checkpoint_path("half", STEPS));
}

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
    (void)state;
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

/* Every worker has the statistics and parameters of its channels, of which nothing moves between
 * two layers that are split the same way. */
static void check_norms(struct trial *t)
{
    int workers = t->job->placement->worker_count;
    for (int w = 0; w < workers; w++) {
        const struct sw_net *net = net_of(t, w);
        const struct sw_layer *bn = sw_net_layer(net, sw_net_find(net, "bn1"));
        assert_int_equal(bn->index, sw_net_find(net, "conv1") + 1);
        assert_int_equal(sw_net_phases(net, bn->index, false), 1);
        for (int k = 0; k < 2; k++) {
            assert_int_equal(sw_desc_count(&bn->param[k].layout) * workers, 12);
            assert_int_equal(sw_desc_count(&bn->keeps[k].layout) * workers, 12);
        }
    }
}

static void statistics_are_split_with_the_channels(void **state)
{
    (void)state;
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
    (void)state;
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
    int workers = t->job->placement->worker_count;
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

static void groups_that_line_up_with_the_split_move_nothing(void **state)
{
    (void)state;
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

static void groups_that_do_not_divide_go_whole_to_workers(void **state)
{
    (void)state;
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
    int workers = t->job->placement->worker_count;
    for (int w = 0; w < workers; w++)
        for (size_t i = 0; i < sizeof joins / sizeof *joins; i++) {
            const struct sw_net *net = net_of(t, w);
            int64_t first, count;
            sw_part(joins[i].columns, workers, w, &first, &count);
            assert_string_equal(sw_net_spread_name(net, sw_net_find(net, joins[i].name)),
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

static void concat_and_slice_go_by_columns(void **state)
{
    (void)state;
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
            assert_int_equal(sw_net_is_absent(net, i), (l->name[0] == 'b') != w);
            assert_int_equal(l->param_count == 0, (l->name[0] == 'b') != w || l->name[1] == '2');
            if (sw_net_is_absent(net, i))
                continue;
            first = i < first ? i : first;
            last = i;
        }
        for (int i = first; i <= last; i++)
            assert_false(strcmp(sw_net_layer(net, i)->type->base.name, "bridge_dst") == 0 &&
                         sw_net_holds(net, i));
    }
}

static void paths_on_two_workers_run_side_by_side(void **state)
{
    (void)state;
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
static void paths_move_what_is_elsewhere(void **state)
{
    (void)state;
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

/* ---- what cannot be ---- */

static void per_layer_keys_that_cannot_be_met_are_errors(void **state)
{
    (void)state;
    static const struct {
        const char *sets[3], *says;
        int workers;
    } cases[] = {
        {{"layer.conv1.partition=1in"},
         "convolution cannot: no sum over parts of its inputs is its output",
         2},
        {{"layer.fc2.partition=1in", "layer.fc1.outputs=2"},
         "the 2 columns of its source cannot be split over 3 workers: use partition = 0",
         3},
        {{"layer.fc1.location=2"},
         "worker 2 of a group that has 2, counted from 0: say a location below 2, or "
         "cluster.workers_per_group = 3",
         2},
        {{"layer.fc1.location=1"}, "say a location below 1", 1},
        {{"layer.fc1.location=1", "layer.fc1.partition=1"},
         "a layer with a location is whole on that worker: leave its partition out",
         2},
        {{"layer.image.location=0"}, "input cannot be on one worker: every worker reads its", 2},
        {{"layer.norm1.partition=1"}, "lrn cannot: it normalises across channels", 2},
        {{"layer.loss.partition=1"}, "softmax_loss cannot: a row's loss needs all its scores", 2},
        {{"layer.image.partition=none"},
         "input cannot: every worker reads its rows of the data",
         2},
        {{"layer.image.partition=1"}, "input cannot: every worker reads its rows of the data", 2},
        {{"layer.conv2.partition=1", "layer.conv2.groups=2"},
         "convolution cannot: it has fewer groups of channels than there are workers",
         3},
        {{"layer.fc2.partition=1", "layer.fc2.outputs=3", "data.train.classes=3"},
         "inner_product cannot: it has fewer outputs than there are workers",
         4},
        {{"layer.conv1.partition=1", "layer.conv1.outputs=2"},
         "convolution cannot: it has fewer outputs than there are workers",
         3},
        {{"layer.act1.partition=1", "layer.conv1.outputs=2"},
         "the 2 columns of its source cannot be split over 3 workers: use partition = 0",
         3},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct trial t = {.recipe = workers_recipe,
                          .oversubscribe = true,
                          .sets = {workers_set[cases[i].workers], cases[i].sets[0],
                                   cases[i].sets[1], cases[i].sets[2]}};
        if (trial_open(&t) != SW_ERR_INVALID)
            fail_msg("case %zu: %d %s", i, t.rc, t.err.text);
        if (!strstr(sw_buf_text(&t.messages), cases[i].says))
            fail_msg("\"%s\" has not \"%s\"", sw_buf_text(&t.messages), cases[i].says);
        trial_close(&t);
    }
}

static void assert_notes(const char *const *sets, const char *const *has,
                         const char *const *has_not)
{
    struct trial t = {.recipe = workers_recipe, .oversubscribe = true};
    for (int i = 0; sets[i]; i++)
        t.sets[i] = sets[i];
    if (trial_open(&t) != SW_OK)
        fail_msg("%s", t.err.text);
    const char *notes = sw_job_plan(t.job)->notes;
    for (; *has; has++)
        if (!strstr(notes, *has))
            fail_msg("\"%s\" has not \"%s\"", notes, *has);
    for (; *has_not; has_not++)
        if (strstr(notes, *has_not))
            fail_msg("\"%s\" has \"%s\"", notes, *has_not);
    trial_close(&t);
}

static void net_wide_settings_fall_back_and_say_so(void **state)
{
    (void)state;
    assert_notes((const char *[]){workers_set[2], "job.partition=1", NULL},
                 (const char *[]){"layer norm1 is split by rows: it normalises across channels",
                                  "layer loss is split by rows: a row's loss needs all", NULL},
                 (const char *[]){"conv1", "pool1", "fc2", NULL});
    /* fc2 has 3 outputs for 4 workers; what reads it has no more columns. */
    static const char *const sets[] = {"cluster.workers_per_group=4", "job.partition=1",
                                       "layer.fc1.outputs=3", NULL};
    assert_notes(sets,
                 (const char *[]){"layer fc1 is split by rows: it has fewer outputs",
                                  "layer act3 is split by rows: what it reads cannot",
                                  "layer drop is split by rows: what it reads cannot", NULL},
                 (const char *[]){"layer fc2", "layer relu2", NULL});
    grouped(.name = "narrow", .steps = 2, .sets = {sets[0], sets[1], sets[2]});
    grouped(.name = "narrow-one", .steps = 2, .sets = {sets[2]});
    assert_equal_runs("narrow-one", "narrow", 2);
    assert_notes((const char *[]){workers_set[2], "job.partition=none", NULL},
                 (const char *[]){NULL}, (const char *[]){"loss", "norm1", "image", NULL});
    assert_notes(
        (const char *[]){workers_set[2], "job.partition=1in", NULL},
        (const char *[]){"layer conv1 is split by rows: no sum over parts of its inputs", NULL},
        (const char *[]){"layer fc1", "layer fc2", "image", NULL});
    assert_notes((const char *[]){"cluster.workers_per_group=4", "job.partition=1in",
                                  "layer.fc1.outputs=3", NULL},
                 (const char *[]){"layer fc2 is split by rows: what it reads cannot", NULL},
                 (const char *[]){"layer fc1", NULL});
    /* Nothing to say: one worker, or nothing asked for. */
    assert_notes((const char *[]){"job.partition=1", workers_set[1], NULL}, (const char *[]){NULL},
                 (const char *[]){"layer", NULL});
    assert_notes((const char *[]){workers_set[2], NULL}, (const char *[]){NULL},
                 (const char *[]){"layer", NULL});
}

/* Connections are rows of the plan like other layers. */
static void connections_are_part_of_the_plan(void **state)
{
    (void)state;
    struct trial t = {
        .recipe = workers_recipe,
        .oversubscribe = true,
        .sets = {workers_set[2], "layer.fc1.partition=1", "layer.conv2.partition=none"}};
    static const struct {
        const char *name, *spread, *operation;
    } rows[] = {{"pool1:one", "one", "gather"},
                {"conv2:rows", "rows", "scatter"},
                {"relu2:full", "full", "all-gather"},
                {"fc1:rows", "rows", "all-to-all"}};
    assert_int_equal(trial_open(&t), SW_OK);
    const struct sw_job_plan *p = sw_job_plan(t.job);
    int connections = 0;
    for (int i = 0; i < p->layer_count; i++) {
        const struct sw_job_layer *l = &p->layers[i];
        if (strcmp(l->type, "bridge_dst") != 0)
            continue;
        assert_true(connections < 4);
        /* Its lower end is the row before it, or further up. */
        assert_int_equal(l->read_count, 1);
        assert_string_equal(p->layers[l->reads[0]].type, "bridge_src");
        assert_string_equal(l->name, rows[connections].name);
        assert_string_equal(l->spread, rows[connections].spread);
        assert_string_equal(l->algorithm, rows[connections].operation);
        connections++;
    }
    assert_int_equal(connections, 4);
    assert_int_equal(p->exchange_bytes, 0); /* they read where it lies */
    trial_close(&t);
    t.device = sims[2];
    assert_int_equal(trial_open(&t), SW_OK);
    assert_true(sw_job_plan(t.job)->exchange_bytes > 0);
    trial_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(net_wide_settings_equal_one_worker),
        cmocka_unit_test(each_layer_alone_equals_one_worker),
        cmocka_unit_test(random_mixtures_equal_one_worker),
        cmocka_unit_test(random_mixtures_on_sim_equal_one_worker),
        cmocka_unit_test(split_runs_have_the_same_bits),
        cmocka_unit_test(split_runs_resume_under_other_partitions),
        cmocka_unit_test(batch_norm_among_split_layers_equals_one_worker),
        cmocka_unit_test(statistics_are_split_with_the_channels),
        cmocka_unit_test(a_layer_with_statistics_is_on_any_worker),
        cmocka_unit_test(groups_that_line_up_with_the_split_move_nothing),
        cmocka_unit_test(groups_that_do_not_divide_go_whole_to_workers),
        cmocka_unit_test(concat_and_slice_go_by_columns),
        cmocka_unit_test(paths_on_two_workers_run_side_by_side),
        cmocka_unit_test(paths_move_what_is_elsewhere),
        cmocka_unit_test(per_layer_keys_that_cannot_be_met_are_errors),
        cmocka_unit_test(net_wide_settings_fall_back_and_say_so),
        cmocka_unit_test(connections_are_part_of_the_plan),
    };
    return cmocka_run_group_tests_name("partitions", tests, begin, home_end);
}
