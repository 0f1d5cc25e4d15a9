/* ctest-labels: threads
 * ctest-timeout: 600
 * Nets whose layers are split by rows, by columns, by columns of their sources, or whole on any
 * worker, in any mixture, on cpu and sim, train to what one worker trains; every worker holds and
 * computes its part, and the features that move are those of the movement table. */
#include "partition_support.h"

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

static struct figures whole[LAYERS], whole_image;
static double whole_flops_per_sample;

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
            assert_string_equal(sw_net_info(net, index).distribution, spreads[way]);
            assert_int_equal(sw_net_info(net, index).absent, way == ONE && w != at);
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

static const struct mixture *in_flight;

static void check_parts(struct trial *t)
{
    assert_parts(t->job, in_flight);
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
    in_flight = m;
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

static void net_wide_settings_equal_one_worker(void **state)
{
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
    draw_and_run(0, 24, false);
}

static void random_mixtures_on_sim_equal_one_worker(void **state)
{
    draw_and_run(100, 108, true);
}

static void split_runs_have_the_same_bits(void **state)
{
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

/* ---- what cannot be ---- */

static void impossible_per_layer_keys_are_errors(void **state)
{
    static const struct {
        const char *sets[3], *says;
        int workers;
    } cases[] = {
        {{"layer.conv1.partition=1in"},
         "convolution does not support this partition: its output is not a sum over parts of its "
         "inputs",
         2},
        {{"layer.fc2.partition=1in", "layer.fc1.outputs=2"},
         "the 2 columns of its source cannot be split over 3 workers: use partition = 0",
         3},
        {{"layer.fc1.location=2"},
         "worker 2 of a group with 2 workers, counted from 0: use a location below 2, or "
         "cluster.workers_per_group = 3",
         2},
        {{"layer.fc1.location=1"}, "use a location below 1", 1},
        {{"layer.fc1.location=1", "layer.fc1.partition=1"},
         "a layer with a location is not partitioned: remove its partition key",
         2},
        {{"layer.image.location=0"}, "input cannot be on one worker: every worker reads its", 2},
        {{"layer.norm1.partition=1"},
         "lrn does not support this partition: it normalizes across channels",
         2},
        {{"layer.loss.partition=1"},
         "softmax_loss does not support this partition: a row's loss needs all its scores",
         2},
        {{"layer.image.partition=none"},
         "input does not support this partition: every worker reads its rows of the data",
         2},
        {{"layer.image.partition=1"},
         "input does not support this partition: every worker reads its rows of the data",
         2},
        {{"layer.conv2.partition=1", "layer.conv2.groups=2"},
         "convolution does not support this partition: it has fewer groups of channels than there "
         "are workers",
         3},
        {{"layer.fc2.partition=1", "layer.fc2.outputs=3", "data.train.classes=3"},
         "inner_product does not support this partition: it has fewer outputs than there are "
         "workers",
         4},
        {{"layer.conv1.partition=1", "layer.conv1.outputs=2"},
         "convolution does not support this partition: it has fewer outputs than there are workers",
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
        if (!strstr(sw_bytes_text(&t.messages), cases[i].says))
            fail_msg("\"%s\" has not \"%s\"", sw_bytes_text(&t.messages), cases[i].says);
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

static void net_wide_settings_fall_back_with_a_note(void **state)
{
    assert_notes((const char *[]){workers_set[2], "job.partition=1", NULL},
                 (const char *[]){"layer norm1 is split by rows: it normalizes across channels",
                                  "layer loss is split by rows: a row's loss needs all", NULL},
                 (const char *[]){"conv1", "pool1", "fc2", NULL});
    /* fc2 has 3 outputs for 4 workers; what reads it has no more columns. */
    static const char *const sets[] = {"cluster.workers_per_group=4", "job.partition=1",
                                       "layer.fc1.outputs=3", NULL};
    assert_notes(sets,
                 (const char *[]){"layer fc1 is split by rows: it has fewer outputs",
                                  "layer act3 is split by rows: its source cannot",
                                  "layer drop is split by rows: its source cannot", NULL},
                 (const char *[]){"layer fc2", "layer relu2", NULL});
    grouped(.name = "narrow", .steps = 2, .sets = {sets[0], sets[1], sets[2]});
    grouped(.name = "narrow-one", .steps = 2, .sets = {sets[2]});
    assert_equal_runs("narrow-one", "narrow", 2);
    assert_notes((const char *[]){workers_set[2], "job.partition=none", NULL},
                 (const char *[]){NULL}, (const char *[]){"loss", "norm1", "image", NULL});
    assert_notes(
        (const char *[]){workers_set[2], "job.partition=1in", NULL},
        (const char *[]){"layer conv1 is split by rows: its output is not a sum over parts", NULL},
        (const char *[]){"layer fc1", "layer fc2", "image", NULL});
    assert_notes((const char *[]){"cluster.workers_per_group=4", "job.partition=1in",
                                  "layer.fc1.outputs=3", NULL},
                 (const char *[]){"layer fc2 is split by rows: its source cannot", NULL},
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
    assert_int_equal(p->bytes.exchange, 0); /* they read where it lies */
    trial_close(&t);
    t.device = sims[2];
    assert_int_equal(trial_open(&t), SW_OK);
    assert_true(sw_job_plan(t.job)->bytes.exchange > 0);
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
        cmocka_unit_test(impossible_per_layer_keys_are_errors),
        cmocka_unit_test(net_wide_settings_fall_back_with_a_note),
        cmocka_unit_test(connections_are_part_of_the_plan),
    };
    return cmocka_run_group_tests_name("partitions", tests, begin, home_end);
}
