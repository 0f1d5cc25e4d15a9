/* ctest-labels: threads
 * ctest-timeout: 120
 * Workers of a group: sums between the phases of a layer, and nets with batch normalisation,
 * dropout and augmentation that several workers train to what one trains. */
#include "infer/evaluate_alone.h"
#include "train_support.h"

#include <dlfcn.h>

/* This program's sw_cpu_open_as takes the place of the library's, and calls it: memory of the CPU
 * may be treated as that of a device that the host does not reach, into which everything is copied.
 */
static bool out_of_reach;

int sw_cpu_open_as(bool reference, enum sw_precision precision, struct sw_device **out,
                   struct sw_err *err)
{
    int (*real)(bool, enum sw_precision, struct sw_device **, struct sw_err *);
    *(void **)&real = dlsym(RTLD_NEXT, "sw_cpu_open_as");
    int rc = real(reference, precision, out, err);
    if (rc == SW_OK)
        (*out)->host_memory = !out_of_reach;
    return rc;
}

/* ---- sums ---- */

enum { ROUNDS = 600, MOST_WORKERS = 5, MOST_LEAVES = 8, MOST_VALUES = 37 };

struct member {
    struct sw_thread thread;
    struct sw_group *group;
    int worker, rounds;
    int wrong, rc;
};

static int count_in(int round)
{
    return 1 + round * 7 % MOST_VALUES;
}

/* Of many sizes, so that another order of adding gives other bits. */
static double value_of(int leaf, int round, int i)
{
    double mantissa = 1 + (double)((leaf * 7919 + round * 104729 + i * 31) % 1009) / 1013;
    return ldexp(mantissa, (leaf * 11 + round + 3 * i) % 60 - 30);
}

static double sum_of(int leaves, int round, int i)
{
    double of_leaf[MOST_LEAVES], sum;
    for (int l = 0; l < leaves; l++)
        of_leaf[l] = value_of(l, round, i);
    sw_tree_sum(of_leaf, leaves, 1, 1, &sum);
    return sum;
}

static void add_up(void *member)
{
    struct member *m = member;
    double values[MOST_LEAVES * MOST_VALUES];
    int64_t first, leaves;
    sw_part(m->group->leaves, m->group->workers, m->worker, &first, &leaves);
    for (int r = 0; r < m->rounds && m->rc == SW_OK; r++) {
        for (int i = 0; i < count_in(r); i++)
            for (int l = 0; l < leaves; l++)
                values[l * count_in(r) + i] = value_of((int)first + l, r, i);
        m->rc = sw_group_sum(m->group, m->worker, values, count_in(r));
        for (int i = 0; i < count_in(r) && m->rc == SW_OK; i++)
            m->wrong += values[i] != sum_of(m->group->leaves, r, i);
    }
}

static void start(struct member *m, struct sw_group *g, int worker, int rounds)
{
    struct sw_err err = {0};
    *m = (struct member){.group = g, .worker = worker, .rounds = rounds};
    assert_int_equal(sw_thread_start(&m->thread, "member", add_up, m, &err), SW_OK);
}

static void sums_are_added_in_one_order(void **state)
{
    for (int leaves = 1; leaves <= MOST_LEAVES; leaves++) {
        int workers = leaves < MOST_WORKERS ? leaves : 2 + leaves % 3;
        struct sw_group g;
        struct sw_err err = {0};
        struct member m[MOST_WORKERS];
        sw_group_init(&g, workers, leaves);
        assert_int_equal(sw_group_reserve_sums(&g, MOST_VALUES, &err), SW_OK);
        for (int w = 0; w < workers; w++)
            start(&m[w], &g, w, ROUNDS);
        for (int w = 0; w < workers; w++) {
            sw_thread_join(&m[w].thread);
            assert_int_equal(m[w].rc, SW_OK);
            assert_int_equal(m[w].wrong, 0);
        }
        sw_group_fini(&g);
    }
}

static void closing_ends_a_sum(void **state)
{
    struct sw_group g;
    struct sw_err err = {0};
    struct member m[3];
    sw_group_init(&g, 4, 4);
    assert_int_equal(sw_group_reserve_sums(&g, MOST_VALUES, &err), SW_OK);
    for (int w = 0; w < 3; w++) /* the fourth never comes */
        start(&m[w], &g, w, 1);
    sleep_ms(20);
    sw_group_close_v(&g);
    for (int w = 0; w < 3; w++) {
        sw_thread_join(&m[w].thread);
        assert_int_equal(m[w].rc, SW_ERR_CANCELLED);
    }
    sw_group_fini(&g);
}

/* ---- training ---- */

/* Smooth, and no bias in front of a batch_norm: its gradient is zero but for rounding. */
static const char norm_recipe[] =
    "[job]\nsteps = 20\nbatch = 50\neval_batch = 20\n" DATA_SECTIONS UPDATER_SECTIONS
    "[layer image]\ntype = input\nfield = image\n[layer label]\ntype = input\nfield = label\n"
    "[layer conv1]\ntype = convolution\nsrc = image\noutputs = 8\nkernel = 3\nbias = no\n"
    "[layer bn1]\ntype = batch_norm\nsrc = conv1\n"
    "[layer act1]\ntype = activation\nsrc = bn1\nfunction = tanh\n"
    "[layer pool1]\ntype = pooling\nsrc = act1\nmethod = avg\nkernel = 2\nstride = 2\n"
    "[layer fc1]\ntype = inner_product\nsrc = pool1\noutputs = 24\nbias = no\n"
    "[layer bn2]\ntype = batch_norm\nsrc = fc1\n"
    "[layer act2]\ntype = activation\nsrc = bn2\nfunction = tanh\n"
    "[layer drop]\ntype = dropout\nsrc = act2\nratio = 0.3\n"
    "[layer fc2]\ntype = inner_product\nsrc = drop\noutputs = 4\n"
    "[layer loss]\ntype = softmax_loss\nsrc = fc2, label\n"
    "[layer accuracy]\ntype = accuracy\nsrc = fc2, label\ninclude = eval\n";

#define norm(...) train(.recipe = norm_recipe, .oversubscribe = true, __VA_ARGS__)

static void workers_with_uneven_rows_equal_one(void **state)
{
    norm(.name = "one");
    static const struct {
        const char *name, *sets[3];
    } runs[] = {
        {"two", {"cluster.workers_per_group=2"}},
        {"two-one", {"cluster.framework=sandblaster", "cluster.workers_per_group=2"}},
        {"three", {"cluster.workers_per_group=3"}}, /* 17, 17 and 16 rows */
        {"three-two",
         {"cluster.framework=sandblaster", "cluster.workers_per_group=3",
          "cluster.servers_per_group=2"}},
    };
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        norm(.name = runs[i].name, .sets = {runs[i].sets[0], runs[i].sets[1], runs[i].sets[2]});
        assert_equal_runs("one", runs[i].name, 20);
        assert_non_null(differing_tensor(checkpoint_path(runs[i].name, 0),
                                         checkpoint_path(runs[i].name, 20), "state.bn2.variance"));
        assert_true(fabs(ask("SELECT value FROM metrics WHERE run_id = %d AND split = 'test' AND "
                             "name = 'loss' AND step = 20",
                             run_id("one")) -
                         ask("SELECT value FROM metrics WHERE run_id = %d AND split = 'test' AND "
                             "name = 'loss' AND step = 20",
                             run_id(runs[i].name))) < 1e-4);
    }
}

static void the_same_workers_give_the_same_bits(void **state)
{
    for (int workers = 2; workers <= 3; workers++) {
        const char *set =
            workers == 2 ? "cluster.workers_per_group=2" : "cluster.workers_per_group=3";
        norm(.name = "first", .sets = {set});
        norm(.name = "second", .sets = {set});
        assert_same_tensors(checkpoint_path("first", 20), checkpoint_path("second", 20));
    }
}

static void without_sync_every_worker_has_a_batch_of_its_own(void **state)
{
    static const char two[] = "cluster.workers_per_group=2";
    norm(.name = "synced", .sets = {two});
    norm(.name = "apart", .sets = {two, "layer.bn1.sync=no"});
    assert_true(difference(checkpoint_path("synced", 20), checkpoint_path("apart", 20)) > 1e-2);
    norm(.name = "alone", .sets = {"layer.bn1.sync=no", "layer.bn2.sync=no"});
    norm(.name = "alone-synced");
    assert_same_tensors(checkpoint_path("alone", 20), checkpoint_path("alone-synced", 20));
}

static void resume_continues_with_the_running_statistics(void **state)
{
    static const char two[] = "cluster.workers_per_group=2";
    norm(.name = "whole", .sets = {two});
    norm(.name = "half", .sets = {two}, .steps = 10);
    norm(.resume = "half", .resume_step = 10, .steps = 20);
    assert_same_tensors(checkpoint_path("whole", 20), checkpoint_path("half", 20));
    /* With other workers, the same curve. */
    norm(.name = "other", .sets = {two}, .steps = 10);
    norm(.resume = "other", .resume_step = 10, .steps = 20,
         .sets = {"cluster.workers_per_group=3"});
    assert_equal_runs("whole", "other", 20);
}

/* Evaluation alone, of a checkpoint or of another file. */
static int evaluate(const char *weights, struct sw_job_event *e, struct sw_err *err)
{
    char recipe[512];
    struct sw_job *job = NULL;
    struct sw_bytes messages = {0};
    snprintf(recipe, sizeof recipe, "%s", write_recipe("recipe.ini", norm_recipe));
    struct sw_job_options o = {.recipe_path = recipe, .one_worker = true};
    int rc = sw_job_open(&o, NULL, &job, &messages, err);
    if (rc == SW_OK)
        rc = sw_job_evaluate(job, weights, e, err);
    sw_job_close(job);
    sw_bytes_fini(&messages);
    return rc;
}

/* What is kept of the past changes nothing in training, and everything in evaluation. */
static void evaluation_reads_the_running_statistics(void **state)
{
    static const char two[] = "cluster.workers_per_group=2";
    struct trial t = {.recipe = norm_recipe,
                      .oversubscribe = true,
                      .name = "slow",
                      .sets = {two, "layer.bn1.momentum=0.999"}};
    norm(.name = "quick", .sets = {two});
    trial_ok(&t);
    char quick[512];
    snprintf(quick, sizeof quick, "%s", checkpoint_path("quick", 20));
    assert_null(differing_tensor(quick, checkpoint_path("slow", 20), "conv1"));
    assert_null(differing_tensor(quick, checkpoint_path("slow", 20), "fc2"));
    assert_null(differing_tensor(quick, checkpoint_path("slow", 20), "state.bn2"));
    assert_non_null(differing_tensor(quick, checkpoint_path("slow", 20), "state.bn1"));
    struct sw_job_event slow, other;
    struct sw_err err = {0};
    assert_int_equal(evaluate(checkpoint_path("slow", 20), &slow, &err), SW_OK);
    assert_int_equal(evaluate(quick, &other, &err), SW_OK);
    assert_true(fabs(slow.metric[0].value - other.metric[0].value) > 1e-3);
    /* And those of the file, not those that a run starts with: the run's own evaluation said so. */
    assert_true(fabs(slow.metric[0].value - t.last[SW_JOB_EVAL].metric[0].value) < 1e-5);
}

static void check_reach(struct trial *t)
{
    assert_true(t->job->place.host->host_memory == !out_of_reach);
    assert_true(t->job->workers[1].stream->dev->host_memory == !out_of_reach);
}

/* Statistics on their way between the job and its workers' devices: for checkpoints, evaluations of
 * all workers, resume and evaluation alone. */
static void devices_out_of_reach_keep_the_same_statistics(void **state)
{
    static const char two[] = "cluster.workers_per_group=2";
    struct trial near = {.recipe = norm_recipe,
                         .oversubscribe = true,
                         .name = "near",
                         .sets = {two, "job.eval_every=5"},
                         .before = check_reach};
    struct trial far = near;
    struct sw_job_event e;
    struct sw_err err = {0};
    trial_ok(&near);
    out_of_reach = true;
    far.name = "far";
    trial_ok(&far);
    norm(.name = "far-half", .sets = {two}, .steps = 10);
    norm(.resume = "far-half", .resume_step = 10, .steps = 20);
    int rc = evaluate(checkpoint_path("far", 20), &e, &err);
    out_of_reach = false;
    assert_int_equal(rc, SW_OK);
    assert_same_tensors(checkpoint_path("near", 20), checkpoint_path("far", 20));
    assert_same_tensors(checkpoint_path("near", 20), checkpoint_path("far-half", 20));
    assert_true(near.last[SW_JOB_EVAL].metric[0].value == far.last[SW_JOB_EVAL].metric[0].value);
    assert_true(fabs(e.metric[0].value - far.last[SW_JOB_EVAL].metric[0].value) < 1e-5);
    assert_true(
        ask("SELECT count(*) = 4 FROM metrics a JOIN metrics b USING (split, name, step)"
            " WHERE a.run_id = %d AND b.run_id = %d AND name = 'loss' AND split = 'test' AND"
            " a.value = b.value",
            run_id("near"), run_id("far")));
}

static int emit_all(void *user, struct sw_st_sink *sink, struct sw_err *err)
{
    const void *const *bytes = user;
    size_t n;
    memcpy(&n, bytes[1], sizeof n);
    return sw_st_emit(sink, bytes[0], n, err);
}

/* A file with all tensors of another but one. */
static void copy_without(const char *from, const char *to, const char *name)
{
    enum { MOST = 64 };
    struct sw_st_file *f = open_tensors(from);
    struct sw_st_writer *w = sw_st_writer_new();
    struct sw_err err = {0};
    size_t n = sw_st_count(f), sizes[MOST];
    const void *parts[MOST][2];
    assert_true(n <= MOST);
    for (size_t i = 0; i < n; i++) {
        const struct sw_st_entry *e = sw_st_entry_at(f, i);
        sizes[i] = e->bytes;
        parts[i][0] = tensor_bytes(f, e);
        parts[i][1] = &sizes[i];
        if (strcmp(e->name, name) != 0)
            assert_int_equal(sw_st_writer_add(w, e->name,
                                              (struct sw_st_shape){e->dtype, e->ndim, e->shape},
                                              emit_all, parts[i], &err),
                             SW_OK);
    }
    assert_int_equal(sw_st_writer_write(w, to, 0644, NULL, NULL, &err), SW_OK);
    for (size_t i = 0; i < n; i++)
        free((void *)(uintptr_t)parts[i][0]);
    sw_st_writer_free(w);
    sw_st_close(f);
}

static void weights_without_statistics_are_refused_by_evaluation_only(void **state)
{
    char whole[512], part[512];
    struct sw_job_event e;
    struct sw_err err = {0};
    norm(.name = "teacher", .steps = 3);
    snprintf(whole, sizeof whole, "%s", checkpoint_path("teacher", 3));
    snprintf(part, sizeof part, "%s", in_home("part.safetensors"));
    copy_without(whole, part, "state.bn2.mean");
    assert_int_equal(evaluate(part, &e, &err), SW_ERR_FORMAT);
    assert_non_null(strstr(err.text, "has no tensor state.bn2.mean"));
    /* A new run takes what there is. */
    norm(.name = "pupil", .steps = 1, .init_from = part);
    assert_null(differing_tensor(whole, checkpoint_path("pupil", 0), "state.bn1"));
    assert_null(differing_tensor(whole, checkpoint_path("pupil", 0), "state.bn2.variance"));
    assert_non_null(differing_tensor(whole, checkpoint_path("pupil", 0), "state.bn2.mean"));
    assert_null(differing_tensor(whole, checkpoint_path("pupil", 0), "bn2.scale"));
}

static void scales_start_at_one_and_take_keys(void **state)
{
    norm(.name = "start", .steps = 1,
         .sets = {"layer.bn1.bias.init=constant", "layer.bn1.bias.value=0.25"});
    struct sw_st_file *f = open_tensors(checkpoint_path("start", 0));
    static const struct {
        const char *name;
        float value;
    } starts[] = {{"bn1.scale", 1},
                  {"bn2.bias", 0},
                  {"bn1.bias", 0.25f},
                  {"state.bn1.mean", 0},
                  {"state.bn2.variance", 1}};
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++) {
        const struct sw_st_entry *e = sw_st_find(f, starts[i].name);
        assert_non_null(e);
        float *x = tensor_bytes(f, e);
        for (size_t k = 0; k < e->bytes / sizeof *x; k++)
            assert_true(x[k] == starts[i].value);
        free(x);
    }
    sw_st_close(f);
}

/* ---- waiting for one another ---- */

struct chain {
    struct sw_thread thread;
    struct sw_group *group;
    int *turn; /* atomic */
    int worker, rounds, rc;
};
struct turn_of {
    const int *turn;
    int least;
};

static bool has_come(const void *what)
{
    const struct turn_of *t = what;
    return __atomic_load_n(t->turn, __ATOMIC_ACQUIRE) >= t->least;
}

/* Workers take turns; worker 2 of the group is not among them, and nobody waits for it. */
static void take_turns(void *chain)
{
    struct chain *c = chain;
    for (int r = 0; r < c->rounds && c->rc == SW_OK; r++) {
        struct turn_of mine = {c->turn, 2 * r + c->worker};
        c->rc = sw_group_wait(c->group, c->worker, has_come, &mine);
        if (c->rc == SW_OK)
            __atomic_add_fetch(c->turn, 1, __ATOMIC_RELEASE);
        sw_group_notify(c->group);
    }
}

/* Both end after `rounds`; the second has one more to wait for when the group is closed. */
static void a_wait_for_one_worker_is_not_a_barrier(void **state)
{
    struct sw_group g;
    struct chain c[2];
    struct sw_err err = {0};
    int turn = 0;
    sw_group_init(&g, 3, 3);
    for (int w = 0; w < 2; w++) {
        c[w] = (struct chain){.group = &g, .turn = &turn, .worker = w, .rounds = ROUNDS + w};
        assert_int_equal(sw_thread_start(&c[w].thread, "member", take_turns, &c[w], &err), SW_OK);
    }
    sw_thread_join(&c[0].thread);
    struct turn_of all = {&turn, 2 * ROUNDS};
    assert_int_equal(sw_group_wait(&g, 2, has_come, &all), SW_OK);
    sw_group_close_v(&g);
    sw_thread_join(&c[1].thread);
    assert_int_equal(c[0].rc, SW_OK);
    assert_int_equal(c[1].rc, SW_ERR_CANCELLED);
    assert_int_equal(turn, 2 * ROUNDS);
    sw_group_fini(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_added_in_one_order),
        cmocka_unit_test(closing_ends_a_sum),
        cmocka_unit_test(a_wait_for_one_worker_is_not_a_barrier),
        cmocka_unit_test_setup_teardown(workers_with_uneven_rows_equal_one, home_begin, home_end),
        cmocka_unit_test_setup_teardown(the_same_workers_give_the_same_bits, home_begin, home_end),
        cmocka_unit_test_setup_teardown(without_sync_every_worker_has_a_batch_of_its_own,
                                        home_begin, home_end),
        cmocka_unit_test_setup_teardown(resume_continues_with_the_running_statistics, home_begin,
                                        home_end),
        cmocka_unit_test_setup_teardown(evaluation_reads_the_running_statistics, home_begin,
                                        home_end),
        cmocka_unit_test_setup_teardown(devices_out_of_reach_keep_the_same_statistics, home_begin,
                                        home_end),
        cmocka_unit_test_setup_teardown(weights_without_statistics_are_refused_by_evaluation_only,
                                        home_begin, home_end),
        cmocka_unit_test_setup_teardown(scales_start_at_one_and_take_keys, home_begin, home_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
