/* ctest-labels: threads
 * ctest-timeout: 240
 * Asynchronous jobs on several hosts, which are threads here (engine `loop`): they learn, and have
 * the same bits wherever they meet; a request of any host is carried out by all after the same
 * step; the others go on without a lost host, or save what all have learned. */
#include "train_support.h"

#include "run/launch.h"
#include "unit/run/hosts_party.h"

/* Batch normalization has running statistics of its own on every host. */
static const char net_recipe[] =
    "[job]\nsteps = 40\nbatch = 8\neval_batch = 9\neval_every = 10\n" DATA_SECTIONS UPDATER_SECTIONS
    "[layer image]\ntype = input\nfield = image\n[layer label]\ntype = input\nfield = label\n"
    "[layer conv1]\ntype = convolution\nsrc = image\noutputs = 8\nkernel = 3\nbias = no\n"
    "[layer bn1]\ntype = batch_norm\nsrc = conv1\n"
    "[layer act1]\ntype = activation\nsrc = bn1\nfunction = tanh\n"
    "[layer fc1]\ntype = inner_product\nsrc = act1\noutputs = 12\n"
    "[layer fc2]\ntype = inner_product\nsrc = fc1\noutputs = 4\n"
    "[layer loss]\ntype = softmax_loss\nsrc = fc2, label\n"
    "[layer accuracy]\ntype = accuracy\nsrc = fc2, label\ninclude = eval\n";

enum { MODES = 4 };

/* The moments at which hosts die grow by this factor. */
#if defined __SANITIZE_THREAD__ || defined __SANITIZE_ADDRESS__
enum { FACTOR = 12 };
#else
enum { FACTOR = 3 };
#endif

static const struct mode {
    const char *framework, *sets[3];
    bool groups_everywhere; /* every host has a server group */
} modes[MODES] = {
    {.framework = "downpour"},
    {.framework = "downpour", .sets = {"cluster.staleness=2"}},
    {.framework = "hogwild", .sets = {"cluster.sync_period=2"}, .groups_everywhere = true},
    {.framework = "custom",
     .sets = {"cluster.consistency=async", "cluster.server_groups=2", "cluster.sync_period=3"},
     .groups_everywhere = true},
};

static void add_set(struct trial *t, const char *set)
{
    int n = 0;
    while (t->sets[n])
        n++;
    t->sets[n] = set;
}

static struct trial trial_of(const struct mode *m, const char *set)
{
    struct trial t = {
        .recipe = net_recipe, .framework = m->framework, .oversubscribe = true, .sets = {set}};
    add_set(&t, "updater.momentum=0"); /* it would amplify stale gradients */
    for (int i = 0; i < 3 && m->sets[i]; i++)
        add_set(&t, m->sets[i]);
    return t;
}

/* The buffers of all hosts are those of host 0. */
static void assert_same_statistics(const struct party *p)
{
    const struct sw_buffers *first = &p->trial[0].job->state.buffers;

    assert_true(first->count > 0);
    for (int i = 1; i < p->count; i++)
        for (int k = 0; k < first->count; k++)
            assert_memory_equal(p->trial[i].job->state.buffers.items[k].value,
                                first->items[k].value, sw_desc_bytes(&first->items[k].layout));
}

static void assert_same_metrics(const struct party *p)
{
    for (int i = 1; i < p->count; i++) {
        const struct sw_job_event *a = &p->trial[0].last[SW_JOB_EVAL],
                                  *b = &p->trial[i].last[SW_JOB_EVAL];
        assert_true(a->metric_count > 0);
        assert_int_equal(a->metric_count, b->metric_count);
        for (int k = 0; k < a->metric_count; k++)
            assert_true(a->metric[k].value == b->metric[k].value);
    }
}

static void hosts_learn_and_are_equal_where_they_meet(void **state)
{
    static const char *const groups[] = {"cluster.worker_groups=1", "cluster.worker_groups=2"};

    for (int m = 0; m < MODES; m++)
        for (int g = 0; g < 2; g++) {
            const struct trial like = trial_of(&modes[m], groups[g]);
            const struct sw_loop_conf loop = {.seed = (uint64_t)(2 * m + g + 1)};
            struct party p;

            party_open(&p, 2, &loop, &like);
            party_run(&p);
            assert_party_ok(&p);
            assert_same_bits(&p);
            assert_same_statistics(&p);
            assert_same_metrics(&p);
            assert_true(host_has(0, 40));
            for (int i = 0; i < 2; i++)
                assert_int_equal(p.trial[i].told[SW_JOB_EVAL], 4);
            /* Host 0 counts what its servers have applied: no update is lost or made twice. */
            assert_int_equal(sw_table_updates(p.trial[0].job->params.table),
                             40 * (g + 1) * (modes[m].groups_everywhere ? 1 : 2));
            assert_true(p.trial[0].last[SW_JOB_EVAL].metric[0].value < 0.7); /* ln 4 = 1.39 */
            party_close(&p);
        }
}

static void three_hosts_exchange_along_a_ring(void **state)
{
    struct trial like = trial_of(&modes[2], "cluster.sync_topology=ring");
    struct party p;

    party_open(&p, 3, NULL, &like);
    party_run(&p);
    assert_party_ok(&p);
    assert_same_bits(&p);
    party_close(&p);
}

/* The gradients of devices are copied to the host, where asynchronous groups update. */
static void workers_on_devices_take_part(void **state)
{
    for (int m = 0; m < MODES; m += 2) {
        struct trial like = trial_of(&modes[m], "cluster.worker_groups=1");
        struct party p;

        like.device = "sim";
        party_open(&p, 2, NULL, &like);
        party_run(&p);
        assert_party_ok(&p);
        assert_same_bits(&p);
        assert_same_metrics(&p);
        party_close(&p);
    }
}

/* ---- Warm-up ---- */

static void the_first_group_warms_up_for_all_hosts(void **state)
{
    for (int m = 0; m < MODES; m++) {
        struct trial like = trial_of(&modes[m], "cluster.warmup_steps=15");
        struct party p;

        party_open(&p, 2, NULL, &like);
        party_run(&p);
        assert_party_ok(&p);
        assert_same_bits(&p);
        if (!modes[m].groups_everywhere)
            assert_int_equal(sw_table_updates(p.trial[0].job->params.table), 15 + 2 * 25);
        party_close(&p);
    }
}

/* ---- Requests ---- */

static struct sw_job *asked;

static void request_stop(struct trial *t, const struct sw_job_event *e)
{
    if (e->type == SW_JOB_DISPLAY && e->step == 5)
        sw_job_request(asked, SW_JOB_STOP);
}

/* Returns the step after which all have stopped. */
static int64_t run_to_stop(const struct trial *like, int who)
{
    struct party p;
    int64_t step;

    party_open(&p, 2, NULL, like);
    asked = p.trial[who].job;
    p.trial[0].on_event = request_stop;
    party_run(&p);
    for (int i = 0; i < 2; i++)
        assert_int_equal(p.trial[i].rc, SW_ERR_CANCELLED);
    step = p.trial[0].job->workers[0].step;
    assert_true(step >= 5);
    assert_int_equal(step, p.trial[1].job->workers[0].step);
    assert_true(host_has(0, step));
    assert_same_bits(&p);
    party_close(&p);
    return step;
}

static void a_stop_of_any_host_stops_all_at_one_step(void **state)
{
    for (int m = 0; m < MODES; m++)
        for (int who = 0; who < 2; who++) {
            struct trial like = trial_of(&modes[m], "job.steps=100000");
            add_set(&like, "job.eval_every=0");
            like.display.every_steps = 1;
            run_to_stop(&like, who);
        }
}

/* The workers of the second host sleep when it is asked. */
static void hosts_stop_while_one_warms_up(void **state)
{
    enum { MANY = 9999999 }; /* the warm-up does not end before the request is known */

    for (int who = 0; who < 2; who++) {
        struct trial like = trial_of(&modes[0], "job.steps=10000000");
        add_set(&like, "cluster.warmup_steps=9999999");
        add_set(&like, "job.eval_every=0");
        like.display.every_steps = 1;
        assert_true(run_to_stop(&like, who) < MANY);
    }
}

static void a_pause_of_the_leader_is_that_of_all(void **state)
{
    for (int m = 0; m < MODES; m++) {
        struct trial like = trial_of(&modes[m], "job.steps=2000");

        add_set(&like, "job.eval_every=0");
        like.display.every_steps = 1;
        pause_party(&like);
    }
}

/* ---- Resume ---- */

static void a_run_is_resumed_on_hosts(void **state)
{
    for (int m = 0; m < MODES; m++) {
        struct trial like = trial_of(&modes[m], "job.checkpoint_every=20");
        struct party p;

        party_open(&p, 2, NULL, &like);
        party_run(&p);
        assert_party_ok(&p);
        party_close(&p);

        like.resume = "h0";
        like.resume_step = 20;
        party_open(&p, 2, NULL, &like);
        party_run(&p);
        assert_party_ok(&p);
        assert_same_bits(&p);
        assert_int_equal(p.trial[1].job->workers[0].step, 40);
        party_close(&p);
    }
}

/* ---- Loss ---- */

static bool all_opened(const struct party *p)
{
    for (int i = 0; i < p->count; i++)
        if (p->trial[i].told[SW_JOB_START] == 0)
            return false;
    return true;
}

static void the_others_go_on_without_a_lost_host(void **state)
{
    int went_on = 0;

    for (int m = 0; m < MODES - 1; m++)
        for (int64_t chunk = 9; chunk < 900; chunk = chunk * FACTOR + 1) {
            const struct sw_loop_conf loop = {
                .kill_host = 2, .kill_chunk = chunk, .seed = (uint64_t)chunk};
            struct trial like = trial_of(&modes[m], "cluster.on_host_loss=go_on");
            struct party p;

            party_open(&p, 3, &loop, &like);
            party_run(&p);
            for (int i = 0; i < 2; i++) {
                assert_false(p.trial[i].stuck);
                if (p.trial[i].rc != SW_OK && (p.trial[i].rc != SW_ERR_LOST || all_opened(&p)))
                    fail_msg("mode %d, chunk %d, host %d: %s", m, (int)chunk, i,
                             p.trial[i].err.text);
            }
            if (p.trial[0].rc == SW_OK && p.trial[1].rc == SW_OK && p.trial[2].rc != SW_OK) {
                const struct party others = {.count = 2, .trial = {p.trial[0], p.trial[1]}};
                assert_same_bits(&others);
                assert_true(host_has(0, 40));
                went_on += strstr(p.trial[0].text, "go on without it") != NULL;
            }
            party_close(&p);
        }
    assert_true(went_on >= 3);
}

static void a_loss_ends_in_a_checkpoint_of_the_others(void **state)
{
    int saved = 0;

    for (int m = 0; m < MODES - 1; m++)
        for (int64_t chunk = 60; chunk < 900; chunk = chunk * FACTOR + 1) {
            const struct sw_loop_conf loop = {
                .kill_host = 1, .kill_chunk = chunk, .seed = (uint64_t)chunk};
            struct trial like = trial_of(&modes[m], "job.steps=100000");
            struct party p;

            add_set(&like, "job.eval_every=0");
            party_open(&p, 3, &loop, &like);
            party_run(&p);
            for (int i = 0; i < 3; i += 2) {
                assert_false(p.trial[i].stuck);
                if (p.trial[i].rc == SW_ERR_LOST && !all_opened(&p))
                    continue;
                if (p.trial[i].rc != SW_ERR_CANCELLED)
                    fail_msg("mode %d, chunk %d, host %d: %s", m, (int)chunk, i,
                             p.trial[i].err.text);
                assert_int_equal(sw_job_lost_hosts(p.trial[i].job), 2);
                assert_non_null(strstr(p.trial[i].err.text, "bob"));
            }
            if (p.trial[0].rc == SW_ERR_CANCELLED) {
                saved++;
                assert_true(host_has(0, p.trial[0].job->workers[0].step));
            }
            party_close(&p);
        }
    assert_true(saved >= 3);
}

static void the_loss_of_host_0_is_the_error_of_all_others(void **state)
{
    for (int m = 0; m < MODES - 1; m++)
        for (int64_t chunk = 20; chunk < 900; chunk = chunk * (FACTOR + 2) + 1) {
            const struct sw_loop_conf loop = {.kill_host = 0, .kill_chunk = chunk};
            struct trial like = trial_of(&modes[m], "cluster.on_host_loss=go_on");
            struct party p;

            add_set(&like, "job.steps=400"); /* of host 0, which has lost all others */
            party_open(&p, 3, &loop, &like);
            party_run(&p);
            for (int i = 1; i < 3; i++) {
                assert_false(p.trial[i].stuck);
                assert_int_equal(p.trial[i].rc, SW_ERR_LOST);
                assert_non_null(strstr(p.trial[i].err.text, "ada"));
            }
            party_close(&p);
        }
}

static void values_of_a_host_that_are_not_finite_end_all(void **state)
{
    static const char *const losses[] = {"cluster.on_host_loss=save", "cluster.on_host_loss=go_on"};

    for (int m = 0; m < MODES; m++)
        for (int k = 0; k < 2; k++) {
            struct trial like = trial_of(&modes[m], losses[k]);
            struct party p;

            add_set(&like, "updater.lr=1e38");
            party_open(&p, 2, NULL, &like);
            party_run(&p);
            for (int i = 0; i < 2; i++)
                if (p.trial[i].rc != SW_ERR_DIVERGED)
                    fail_msg("mode %d, host %d: %d, %s", m, i, p.trial[i].rc, p.trial[i].err.text);
            party_close(&p);
        }
}

/* ---- Refused ---- */

static void what_asynchronous_hosts_cannot_do_is_refused(void **state)
{
    static const char *const refused[][3] = {
        {"allreduce", "cluster.on_host_loss=go_on", "an asynchronous framework"},
        {"downpour", "cluster.server_groups=2", "downpour has one server group"},
        {"hogwild", "cluster.server_groups=2", "2 server groups on 3 hosts"},
        {"hogwild", "cluster.server_groups=1", "1 server groups on 3 hosts"},
    };
    const struct sw_hosts list = {.host = names, .count = 3, .own = 0};
    const struct sw_job_hosts hosts = {
        .list = &list, .engine = &sw_fabric_loop, .share_machine = true};

    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        struct trial t = {.framework = refused[i][0],
                          .sets = {refused[i][1]},
                          .hosts = &hosts,
                          .oversubscribe = true};

        assert_int_equal(trial_open(&t), SW_ERR_INVALID);
        if (!strstr(sw_bytes_text(&t.messages), refused[i][2]))
            fail_msg("%s: %s", refused[i][1], sw_bytes_text(&t.messages));
        trial_close(&t);
    }
}

static void hosts_cannot_stop_by_what_training_measures(void **state)
{
    struct trial like = trial_of(&modes[0], "job.stop_at=train.loss<=0.001");
    struct party p;

    party_open(&p, 2, NULL, &like);
    party_run(&p);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(p.trial[i].rc, SW_ERR_UNSUPPORTED);
        assert_non_null(strstr(p.trial[i].err.text, "metric of the evaluation"));
    }
    party_close(&p);
}

static void hosts_without_parameters_have_nothing_to_exchange(void **state)
{
    static const char no_parameters[] =
        "[job]\nsteps = 40\nbatch = 8\n[data train]\nformat = synthetic\nclasses = 3\n"
        "records = 200\nheight = 2\nwidth = 2\n[updater]\ntype = sgd\nlr = 0.1\n"
        "[layer image]\ntype = input\nfield = image\n"
        "[layer label]\ntype = input\nfield = label\n"
        "[layer pool]\ntype = pooling\nsrc = image\nkernel = 2\n"
        "[layer loss]\ntype = softmax_loss\nsrc = pool, label\n";

    for (int m = 0; m < MODES; m++) {
        struct trial like = trial_of(&modes[m], "cluster.worker_groups=1");
        struct party p;

        like.recipe = no_parameters;
        party_open(&p, 2, NULL, &like);
        party_run(&p);
        for (int i = 0; i < 2; i++) {
            assert_int_equal(p.trial[i].rc, SW_ERR_UNSUPPORTED);
            assert_non_null(strstr(p.trial[i].err.text, "the net has none"));
        }
        party_close(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hosts_learn_and_are_equal_where_they_meet),
        cmocka_unit_test(three_hosts_exchange_along_a_ring),
        cmocka_unit_test(workers_on_devices_take_part),
        cmocka_unit_test(the_first_group_warms_up_for_all_hosts),
        cmocka_unit_test(a_stop_of_any_host_stops_all_at_one_step),
        cmocka_unit_test(hosts_stop_while_one_warms_up),
        cmocka_unit_test(a_pause_of_the_leader_is_that_of_all),
        cmocka_unit_test(a_run_is_resumed_on_hosts),
        cmocka_unit_test(the_others_go_on_without_a_lost_host),
        cmocka_unit_test(a_loss_ends_in_a_checkpoint_of_the_others),
        cmocka_unit_test(the_loss_of_host_0_is_the_error_of_all_others),
        cmocka_unit_test(values_of_a_host_that_are_not_finite_end_all),
        cmocka_unit_test(what_asynchronous_hosts_cannot_do_is_refused),
        cmocka_unit_test(hosts_cannot_stop_by_what_training_measures),
        cmocka_unit_test(hosts_without_parameters_have_nothing_to_exchange),
    };
    return cmocka_run_group_tests(tests, home_begin, home_end);
}
