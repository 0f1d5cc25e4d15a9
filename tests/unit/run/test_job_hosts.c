/* ctest-labels: threads
 * ctest-timeout: 240
 * Jobs on several hosts, which are threads here (engine `loop`): they train to the parameters and
 * metrics of one machine, to rounding, and have the same bits as each other; one stop, pause or
 * error is that of all; what hosts do not agree on, or cannot do, is refused by name. */
#include "unit/run/hosts_party.h"

#include "run/launch.h"

/* The moments at which hosts die are this part of the time before. */
#if defined __SANITIZE_THREAD__ || defined __SANITIZE_ADDRESS__
enum { FEWER = 2 };
#else
enum { FEWER = 6 };
#endif

/* Batch normalization sums over all rows; the odd batch gives hosts different numbers of rows. */
static const char normalized_recipe[] =
    "[job]\nsteps = 20\nbatch = 17\neval_batch = 9\neval_every = 10\n" DATA_SECTIONS
        UPDATER_SECTIONS
    "[layer image]\ntype = input\nfield = image\n[layer label]\ntype = input\nfield = label\n"
    "[layer conv1]\ntype = convolution\nsrc = image\noutputs = 8\nkernel = 3\nbias = no\n"
    "[layer bn1]\ntype = batch_norm\nsrc = conv1\n"
    "[layer act1]\ntype = activation\nsrc = bn1\nfunction = tanh\n"
    "[layer fc1]\ntype = inner_product\nsrc = act1\noutputs = 12\n"
    "[layer drop]\ntype = dropout\nsrc = fc1\nratio = 0.3\n"
    "[layer fc2]\ntype = inner_product\nsrc = drop\noutputs = 4\n"
    "[layer loss]\ntype = softmax_loss\nsrc = fc2, label\n"
    "[layer accuracy]\ntype = accuracy\nsrc = fc2, label\ninclude = eval\n";

static void assert_same_metrics(const struct trial *a, const struct trial *b, int event)
{
    const struct sw_job_event *x = &a->last[event], *y = &b->last[event];

    assert_true(x->metric_count > 0);
    assert_int_equal(x->metric_count, y->metric_count);
    for (int i = 0; i < x->metric_count; i++)
        assert_true(fabs(x->metric[i].value - y->metric[i].value) <=
                    1e-4 * (1 + fabs(x->metric[i].value)));
}

static void hosts_train_as_one_machine(void **state)
{
    static const struct {
        int hosts;
        const char *sets[3];
        uint64_t seed;
    } ways[] = {
        {2, {NULL}, 0},
        {2, {"cluster.workers_per_group=2"}, 11},
        {3, {"cluster.workers_per_group=2", "cluster.framework=sandblaster"}, 5},
        {4, {"job.grad_clip=norm:0.5"}, 7},
        {2, {"job.device=sim"}, 3},
        {2, {"job.device=sim", "cluster.copy=none"}, 4},
        {3, {"job.device=sim:gpus=2", "cluster.copy=none", "job.grad_clip=norm:50"}, 6},
        {2, {"cluster.comm=sfb"}, 13},
        {3, {"cluster.comm=sfb", "cluster.workers_per_group=2", "job.grad_clip=norm:50"}, 17},
    };

    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        struct trial one = {.recipe = normalized_recipe, .name = "one", .oversubscribe = true};
        const struct sw_loop_conf loop = {.seed = ways[i].seed};
        struct party p;

        for (int k = 0; k < 3; k++)
            one.sets[k] = ways[i].sets[k];
        struct trial like = one;
        one.sets[0] = one.sets[1] = NULL;
        for (int k = 0; k < 3; k++) /* what one machine has to do, too */
            if (ways[i].sets[k] && strstr(ways[i].sets[k], "grad_clip"))
                one.sets[0] = ways[i].sets[k];
        trial_ok(&one);

        party_open(&p, ways[i].hosts, &loop, &like);
        party_run(&p);
        assert_party_ok(&p);
        assert_same_bits(&p);
        for (int h = 0; h < p.count; h++) {
            assert_same_metrics(&one, &p.trial[h], SW_JOB_EVAL);
            assert_same_metrics(&one, &p.trial[h], SW_JOB_DISPLAY);
            assert_int_equal(host_has(h, 20), h == 0);
        }
        double off = difference(checkpoint_path("one", 20), checkpoint_path("h0", 20));
        if (off > 1e-4)
            fail_msg("way %zu: parameters differ by %g", i, off);
        party_close(&p);
    }
}

/* With repeat_exact not even the bits depend on the number of hosts. */
static void exact_hosts_have_the_bits_of_one_machine(void **state)
{
    static const struct {
        int hosts;
        const char *workers;
    } ways[] = {{2, "cluster.workers_per_group=1"},
                {2, "cluster.workers_per_group=2"},
                {4, "cluster.workers_per_group=1"}};
    struct trial one = {.recipe = normalized_recipe,
                        .name = "one",
                        .oversubscribe = true,
                        .sets = {"job.repeat_exact=yes", "job.batch=16", "job.eval_batch=20"}};

    trial_ok(&one);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        struct trial like = one;
        struct party p;

        memset(&like.told, 0, sizeof like.told);
        like.sets[3] = ways[i].workers;
        party_open(&p, ways[i].hosts, &(struct sw_loop_conf){.seed = i}, &like);
        party_run(&p);
        assert_party_ok(&p);
        const char *tensor =
            differing_tensor(checkpoint_path("one", 20), checkpoint_path("h0", 20), NULL);
        if (tensor)
            fail_msg("way %zu: %s differs", i, tensor);
        const struct sw_job_event *a = &one.last[SW_JOB_EVAL], *b = &p.trial[0].last[SW_JOB_EVAL];
        for (int k = 0; k < a->metric_count; k++)
            assert_true(a->metric[k].value == b->metric[k].value);
        party_close(&p);
    }

    const struct sw_hosts list = {.host = names, .count = 3};
    const struct sw_job_hosts hosts = {.list = &list, .engine = &sw_fabric_loop};
    one.hosts = &hosts;
    memset(&one.messages, 0, sizeof one.messages);
    assert_int_equal(trial_open(&one), SW_ERR_INVALID);
    assert_non_null(strstr(sw_bytes_text(&one.messages), "use virtual_workers = 12"));
    trial_close(&one);
}

/* Longer sums than those of losses: two for each of 300 channels. */
static void wide_normalization_is_summed(void **state)
{
    const struct trial like = {.recipe = normalized_recipe,
                               .sets = {"layer.conv1.outputs=300", "job.steps=2"}};
    struct party p;

    party_open(&p, 2, NULL, &like);
    party_run(&p);
    assert_party_ok(&p);
    assert_same_bits(&p);
    party_close(&p);
}

static void values_that_differ_at_the_beginning_are_found(void **state)
{
    struct trial like = {.name = "other", .sets = {"job.seed=5", "job.steps=1"}};
    struct party p;

    trial_ok(&like);
    party_open(&p, 2, NULL, &(struct trial){.sets = {"job.steps=100000"}});
    trial_close(&p.trial[1]);
    p.trial[1].init_from = in_home("other/checkpoint-1.safetensors");
    assert_int_equal(trial_open(&p.trial[1]), SW_OK);
    party_run(&p);
    for (int i = 0; i < 2; i++) {
        assert_int_not_equal(p.trial[i].rc, SW_OK);
        assert_non_null(
            strstr(p.trial[i].err.text, "after step 0 the parameters of host bob differ"));
    }
    party_close(&p);
}

/* ---- Requests ---- */

static void stop_at_step_5(struct trial *t, const struct sw_job_event *e)
{
    if (e->type == SW_JOB_DISPLAY && e->step == 5)
        sw_job_request(t->job, SW_JOB_STOP);
}

static void a_stop_of_any_host_stops_all_at_one_step(void **state)
{
    for (int who = 0; who < 2; who++) {
        const struct trial like = {.sets = {"job.steps=100000"}, .display = {.every_steps = 1}};
        struct party p;

        party_open(&p, 2, NULL, &like);
        p.trial[who].on_event = stop_at_step_5;
        party_run(&p);
        for (int i = 0; i < 2; i++)
            assert_int_equal(p.trial[i].rc, SW_ERR_CANCELLED);
        assert_true(p.trial[0].job->workers[0].step >= 5);
        assert_int_equal(p.trial[0].job->workers[0].step, p.trial[1].job->workers[0].step);
        assert_true(host_has(0, p.trial[0].job->workers[0].step));
        assert_same_bits(&p);
        party_close(&p);
    }
}

/* All hosts count the same evaluations; the first has the checkpoint of the best. */
static void hosts_have_the_same_patience(void **state)
{
    const struct trial like = {.sets = {"job.steps=60", "job.eval_every=2", "job.patience=2",
                                        "job.best_by=loss", "updater.lr=0.2"}};
    struct party p;

    party_open(&p, 2, NULL, &like);
    party_run(&p);
    assert_party_ok(&p);

    const int64_t end = p.trial[0].job->workers[0].step, best = p.trial[0].job->retention.best.step;
    assert_true(end < 60);
    assert_int_equal(end, best + 4);
    assert_int_equal(end, p.trial[1].job->workers[0].step);
    assert_same_tensors(checkpoint_path("h0", best), checkpoint_path("h0", end));
    assert_false(host_has(1, end));
    party_close(&p);
}

static void a_pause_of_the_leader_is_that_of_all(void **state)
{
    pause_party(&(struct trial){.sets = {"job.steps=200"}, .display = {.every_steps = 1}});
}

/* ---- Errors ---- */

static void a_lost_host_is_the_error_of_all_others(void **state)
{
    for (int64_t chunk = 3; chunk < 2000; chunk = chunk * 5 + 1) {
        const struct sw_loop_conf loop = {.kill_host = 2, .kill_chunk = chunk};
        const struct trial like = {.sets = {"job.steps=100000", "cluster.on_host_loss=stop"}};
        struct party p;

        party_open(&p, 3, &loop, &like);
        party_run(&p);
        for (int i = 0; i < 2; i++) {
            assert_int_equal(p.trial[i].rc, SW_ERR_LOST);
            assert_non_null(strstr(p.trial[i].err.text, "cyd"));
            assert_false(p.trial[i].stuck);
        }
        party_close(&p);
    }
}

/* Whenever a host dies, the others write the checkpoint that an undisturbed run writes after the
 * last complete step, and host 0 has it, whoever wrote it. */
static void a_loss_loses_no_step(void **state)
{
    struct trial like = {.recipe = normalized_recipe,
                         .sets = {"job.eval_every=7", "job.checkpoint_every=1"}};
    struct losses l = {0};
    struct party p;

    party_open(&p, 3, NULL, &like);
    party_run(&p);
    assert_party_ok(&p);
    party_close(&p);
    for (int step = 1; step <= 20; step++)
        assert_int_equal(rename(checkpoint_path("h0", step), in_home("undisturbed-%d", step)), 0);

    like.sets[1] = NULL;
    for (int64_t chunk = 7; !l.ended; chunk += chunk / FEWER + 5)
        lose(&like, (int)(chunk % 3), chunk, &l);
    print_message("host 0 got %d checkpoints of other hosts\n", l.sent);
    assert_true(l.saved >= 6);
}

/* Changes a value of one host, by the server that owns it. */
static void change_value(void *user, int server, int param, uint64_t version, int64_t begin_ns,
                         int64_t end_ns)
{
    const struct trial *t = user;
    if (param == 0 && version == 5)
        sw_table_param(t->job->params.table, 0)->value[0] += *(const float *)t->user;
}

static void change_a_value(struct trial *t)
{
    sw_table_set_on_update(t->job->params.table, change_value, t);
}

static void an_error_of_a_host_is_named_on_all(void **state)
{
    const struct trial like = {.sets = {"job.steps=100000"}};
    float nothing = NAN;
    struct party p;

    party_open(&p, 3, NULL, &like);
    p.trial[1].before = change_a_value;
    p.trial[1].user = &nothing;
    party_run(&p);
    assert_int_equal(p.trial[1].rc, SW_ERR_DIVERGED);
    for (int i = 0; i < 3; i++) {
        assert_int_not_equal(p.trial[i].rc, SW_OK);
        if (i != 1)
            assert_non_null(strstr(p.trial[i].err.text, "bob"));
    }
    party_close(&p);
}

static void values_that_differ_are_found_at_an_evaluation(void **state)
{
    const struct trial like = {.sets = {"job.steps=100000", "job.eval_every=10"}};
    float one = 1;
    struct party p;

    party_open(&p, 2, NULL, &like);
    p.trial[1].before = change_a_value;
    p.trial[1].user = &one;
    party_run(&p);
    for (int i = 0; i < 2; i++) {
        assert_int_not_equal(p.trial[i].rc, SW_OK);
        assert_non_null(
            strstr(p.trial[i].err.text, "parameters of host bob differ from those of host ada"));
    }
    party_close(&p);
}

static void hosts_with_different_recipes_are_refused(void **state)
{
    struct trial like = {.sets = {"job.steps=50"}};
    struct party p;

    party_open(&p, 2, NULL, &like);
    trial_close(&p.trial[1]);
    p.trial[1].sets[1] = "updater.lr=0.5";
    assert_int_equal(trial_open(&p.trial[1]), SW_OK);
    party_run(&p);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(p.trial[i].rc, SW_ERR_INVALID);
        assert_non_null(strstr(p.trial[i].err.text, "ada"));
        assert_non_null(strstr(p.trial[i].err.text, "bob"));
        assert_non_null(strstr(p.trial[i].err.text, "settings"));
        assert_false(host_has(i, 50));
    }
    party_close(&p);
}

static void what_hosts_cannot_do_is_refused(void **state)
{
    static const char *const refused[][2] = {
        {"job.partition=1", "split by rows"},
        {"job.on_nan=skip", "ends the run"},
        {"job.batch=1", "cannot share a batch of 1 rows"},
        {"stage.one.patience=2", "only the first has the best checkpoint"},
    };
    static const char staged[] =
        "[job]\nbatch = 16\neval_batch = 20\neval_every = 5\n" DATA_SECTIONS UPDATER_SECTIONS
            NET_SECTIONS "[stage one]\nsteps = 20\n";
    const struct sw_hosts list = {.host = names, .count = 2};
    const struct sw_job_hosts hosts = {.list = &list, .engine = &sw_fabric_loop};

    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        struct trial t = {.sets = {refused[i][0]}, .hosts = &hosts, .oversubscribe = true};

        if (strncmp(refused[i][0], "stage.", 6) == 0)
            t.recipe = staged;
        assert_int_equal(trial_open(&t), SW_ERR_INVALID);
        if (!strstr(sw_bytes_text(&t.messages), refused[i][1]))
            fail_msg("%s: %s", refused[i][0], sw_bytes_text(&t.messages));
        assert_null(strstr(sw_bytes_text(&t.messages), "workers_per_group")); /* is no help */
        trial_close(&t);
    }
}

/* All hosts are this machine. */
static void one_machine_twice_is_refused(void **state)
{
    const struct trial like = {.recipe = normalized_recipe, .oversubscribe = true};
    char id[SW_LAUNCH_MACHINE_ID];
    struct party p;

    if (!*sw_launch_machine_id(id)) {
        print_message("skipped: this system does not tell which machine it is\n");
        skip();
    }

    party_open(&p, 2, NULL, &like);
    for (int i = 0; i < 2; i++)
        p.hosts[i].share_machine = false;
    party_run(&p);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(p.trial[i].rc, SW_ERR_INVALID);
        assert_non_null(strstr(p.trial[i].err.text, "hosts ada and bob are the same machine"));
        assert_non_null(strstr(p.trial[i].err.text, "--share-machine"));
    }
    party_close(&p);
}

/* ---- Resume ---- */

static void a_run_goes_on_over_hosts(void **state)
{
    struct trial like = {.recipe = normalized_recipe, .sets = {"job.checkpoint_every=10"}};
    struct party p;

    party_open(&p, 2, NULL, &like);
    party_run(&p);
    assert_party_ok(&p);
    party_close(&p);

    struct trial alone = {.resume = "h0", .resume_step = 10, .name = "h0"};
    trial_ok(&alone);
    assert_true(exists(checkpoint_path("h0", 20)));
    like.resume = "h0";
    like.resume_step = 10;
    party_open(&p, 3, NULL, &like);
    party_run(&p);
    assert_party_ok(&p);
    assert_same_bits(&p);
    party_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hosts_train_as_one_machine),
        cmocka_unit_test(exact_hosts_have_the_bits_of_one_machine),
        cmocka_unit_test(wide_normalization_is_summed),
        cmocka_unit_test(values_that_differ_at_the_beginning_are_found),
        cmocka_unit_test(a_stop_of_any_host_stops_all_at_one_step),
        cmocka_unit_test(hosts_have_the_same_patience),
        cmocka_unit_test(a_pause_of_the_leader_is_that_of_all),
        cmocka_unit_test(a_lost_host_is_the_error_of_all_others),
        cmocka_unit_test(a_loss_loses_no_step),
        cmocka_unit_test(an_error_of_a_host_is_named_on_all),
        cmocka_unit_test(values_that_differ_are_found_at_an_evaluation),
        cmocka_unit_test(hosts_with_different_recipes_are_refused),
        cmocka_unit_test(what_hosts_cannot_do_is_refused),
        cmocka_unit_test(one_machine_twice_is_refused),
        cmocka_unit_test(a_run_goes_on_over_hosts),
    };
    return cmocka_run_group_tests(tests, home_begin, home_end);
}
