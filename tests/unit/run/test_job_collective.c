/* ctest-labels: threads
 * ctest-timeout: 240
 * Jobs on several hosts, which are threads here, whose simulated GPUs sum gradients by their
 * library: they train to the parameters of one machine, to rounding, with the same bits on all
 * hosts and in every run, and no gradient goes through the fabric. Where one host cannot, all sum
 * in host memory and say why. The loss of a host is the error of all others. */
#include "unit/run/hosts_party.h"

#include "exchange/hosts/hosts_sum.h"
#include "plan/choices.h"

#define LIBRARY "cluster.all_reduce=library"
#define NONE "cluster.copy=none"

/* The odd batch gives hosts different numbers of rows. */
static const char recipe[] =
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

/* Notes the bytes of gradients that went to other hosts. */
static void note_traffic(struct trial *t, const struct sw_job_event *e)
{
    uint64_t *bytes = t->user;
    const struct sw_hosts *list = t->hosts->list;

    if (e->type != SW_JOB_EVAL)
        return;
    *bytes = 0;
    for (int i = 0; i < list->count; i++)
        if (i != list->own)
            *bytes += sw_fabric_traffic(t->job->hosts.fabric, i, SW_HOSTS_SHARE).sent_bytes;
}

static void run_with_traffic(struct party *p, uint64_t *bytes)
{
    for (int i = 0; i < p->count; i++) {
        p->trial[i].on_event = note_traffic;
        p->trial[i].user = &bytes[i];
    }
    party_run(p);
    assert_party_ok(p);
    assert_same_bits(p);
}

/* Trains with the library on all hosts. */
static void run_by_library(const struct trial *like, int hosts, uint64_t seed)
{
    uint64_t bytes[MOST_HOSTS];
    char over[64];
    struct party p;

    snprintf(over, sizeof over, "over the devices of %d hosts", hosts);
    party_open(&p, hosts, &(struct sw_loop_conf){.seed = seed}, like);
    run_with_traffic(&p, bytes);
    for (int i = 0; i < hosts; i++) {
        const struct sw_job *job = p.trial[i].job;

        assert_int_equal(job->exchange.sums.reducer, SW_REDUCER_LIBRARY);
        assert_non_null(strstr(sw_job_plan(job)->sums, over));
        assert_non_null(strstr(p.trial[i].text, over));
        assert_true(bytes[i] == 0);
    }
    party_close(&p);
}

static void devices_of_hosts_train_as_one_machine(void **state)
{
    static const struct {
        int hosts;
        const char *device, *sets[2];
    } cases[] = {
        {2, "job.device=sim", {"cluster.bucket_size=1GiB"}},
        {2, "job.device=sim:gpus=2", {"cluster.bucket_size=1"}},
        {3, "job.device=sim:gpus=2", {"cluster.bucket_size=1KiB", "job.grad_clip=norm:50"}},
        {3, "job.device=sim", {"updater.type=nesterov", "cluster.overlap=no"}},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct trial one = {.recipe = recipe, .name = "one", .oversubscribe = true};
        struct trial like = {
            .recipe = recipe,
            .oversubscribe = true,
            .sets = {cases[i].device, NONE, LIBRARY, cases[i].sets[0], cases[i].sets[1]}};

        for (int k = 0; k < 2 && cases[i].sets[k]; k++)
            if (!strstr(cases[i].sets[k], "cluster"))
                one.sets[0] = cases[i].sets[k];
        trial_ok(&one);

        run_by_library(&like, cases[i].hosts, i);
        double off = difference(checkpoint_path("one", 20), checkpoint_path("h0", 20));
        if (off > 1e-4)
            fail_msg("case %zu: parameters differ by %g", i, off);

        assert_int_equal(rename(checkpoint_path("h0", 20), in_home("first")), 0);
        run_by_library(&like, cases[i].hosts, i + 100);
        assert_same_tensors(in_home("first"), checkpoint_path("h0", 20));
    }
}

static void a_run_continues_by_the_library(void **state)
{
    struct trial like = {.recipe = recipe,
                         .oversubscribe = true,
                         .sets = {"job.device=sim", NONE, LIBRARY, "job.checkpoint_every=10"}};

    run_by_library(&like, 2, 0);
    assert_int_equal(rename(checkpoint_path("h0", 20), in_home("whole")), 0);
    like.resume = "h0";
    like.resume_step = 10;
    run_by_library(&like, 2, 0);
    assert_same_tensors(in_home("whole"), checkpoint_path("h0", 20));
}

/* ---- Where it cannot be used ---- */

/* All hosts sum in host memory, and say why. */
static void assert_through_hosts(struct party *p, const char *why)
{
    uint64_t bytes[MOST_HOSTS];

    run_with_traffic(p, bytes);
    for (int i = 0; i < p->count; i++) {
        const struct sw_job *job = p->trial[i].job;

        assert_false(sw_reduces(&job->exchange));
        assert_true(bytes[i] > 0);
        if (!strstr(sw_job_plan(job)->sums, why) || !strstr(p->trial[i].text, why))
            fail_msg("host %d: %s\n%s", i, sw_job_plan(job)->sums, p->trial[i].text);
    }
}

static struct trial by_library(void)
{
    return (struct trial){
        .recipe = recipe, .oversubscribe = true, .sets = {"job.device=sim:gpus=2", NONE, LIBRARY}};
}

static void one_host_without_devices_is_enough_for_host_memory(void **state)
{
    const struct trial like = by_library();

    for (int who = 0; who < 2; who++) {
        struct party p;

        party_open(&p, 2, NULL, &like);
        trial_close(&p.trial[who]);
        p.trial[who].sets[0] = "job.device=cpu";
        assert_int_equal(trial_open(&p.trial[who]), SW_OK);
        assert_through_hosts(&p, who ? "host bob: its workers compute in host memory"
                                     : "host ada: its workers compute in host memory");
        party_close(&p);
    }
}

static const char *other_name(char *out, size_t bytes)
{
    snprintf(out, bytes, "another library");
    return out;
}

static void hosts_with_different_libraries_use_host_memory(void **state)
{
    const struct trial like = by_library();
    struct sw_collective_ops other;
    struct party p;

    party_open(&p, 2, NULL, &like);
    struct sw_sums *d = &p.trial[1].job->exchange.sums;
    other = *d->library;
    other.name = other_name;
    d->library = &other;
    assert_through_hosts(&p, "host ada has built into sim, and host bob has another library");
    party_close(&p);
}

static int (*real_accepts)(const struct sw_collective_id *id, struct sw_err *err);

static int accepts_of_another_process(const struct sw_collective_id *id, struct sw_err *err)
{
    struct sw_collective_id foreign = *id;

    foreign.bytes[0] ^= 1;
    return real_accepts(&foreign, err);
}

static void simulated_devices_of_two_processes_use_host_memory(void **state)
{
    const struct trial like = by_library();
    struct sw_collective_ops other;
    struct party p;

    party_open(&p, 3, NULL, &like);
    struct sw_sums *d = &p.trial[2].job->exchange.sums;
    other = *d->library;
    real_accepts = other.accepts;
    other.accepts = accepts_of_another_process;
    d->library = &other;
    assert_through_hosts(&p, "host cyd: simulated GPUs of different processes have no links");
    party_close(&p);
}

/* A library that neither encrypts nor authenticates is for trusted networks. */
static void a_private_network_refuses_an_open_library(void **state)
{
    for (int trusted = 0; trusted < 2; trusted++) {
        struct trial like = by_library();
        struct sw_collective_ops open;
        struct sw_err err;
        struct party p;

        like.sets[3] = trusted ? "cluster.network=trusted" : "cluster.network=private";
        party_open(&p, 2, NULL, &like);
        struct sw_exchange_plan *plan = &p.trial[0].job->exchange;
        assert_int_equal(sw_reduce_check_network(plan, &err), SW_OK);
        open = *plan->sums.library;
        open.secure = false;
        plan->sums.library = &open;
        assert_int_equal(sw_reduce_check_network(plan, &err), trusted ? SW_OK : SW_ERR_UNSUPPORTED);
        if (!trusted)
            assert_non_null(strstr(err.text, "set network = trusted"));
        party_close(&p);
    }
}

/* What one host knows alone is in its plan before it meets the others. */
static void what_the_recipe_rules_out_is_in_the_plan(void **state)
{
    static const char *const cases[][2] = {
        {"cluster.all_reduce=copies", "reaches only the devices of one host"},
        {"cluster.all_reduce=auto", "with all_reduce = library only"},
        {"job.repeat_exact=yes", "repeat_exact"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct trial like = by_library();
        uint64_t bytes[MOST_HOSTS];
        struct party p;

        like.sets[3] = cases[i][0];
        like.sets[4] = "job.batch=16";
        like.sets[5] = "job.eval_batch=16";
        party_open(&p, 2, NULL, &like);
        if (!strstr(sw_job_plan(p.trial[0].job)->sums, cases[i][1]))
            fail_msg("%s", sw_job_plan(p.trial[0].job)->sums);
        run_with_traffic(&p, bytes);
        assert_true(bytes[0] > 0);
        party_close(&p);
    }
}

/* ---- Messages ---- */

static int send(const struct sw_fabric_sink *sink, int from, int kind, const void *data,
                size_t bytes)
{
    const struct sw_fabric_tag tag = {.kind = (uint16_t)kind};
    struct sw_err err;
    void *to;

    int rc = sink->place(sink->user, from, &tag, bytes, &to, &err);
    if (rc != SW_OK)
        return rc;
    memcpy(to, data, bytes);
    return sink->arrived(sink->user, from, &tag, to, bytes, &err);
}

static int send_offer(const struct sw_fabric_sink *sink, int from, const struct sw_host_offer *o)
{
    return send(sink, from, SW_HOST_OFFER, o, sizeof *o);
}

static int send_order(const struct sw_fabric_sink *sink, int from, const int order[2])
{
    return send(sink, from, SW_HOST_ORDER, order, 2 * sizeof *order);
}

/* What was judged cannot change afterwards. */
static void offers_and_the_order_come_once_and_are_checked(void **state)
{
    static struct sw_job job;
    int order[2] = {0, 1};
    const int swapped[2] = {1, 0}, twice[2] = {1, 1};
    struct sw_host_offer offer = {.devices = 2}, impossible = {.devices = 65};
    struct sw_fabric_router router = {.count = 0};

    job.exchange.sums.order = order;
    job.exchange.sums.count = 2;
    sw_job_collective_init(&job, &router);
    const struct sw_fabric_sink sink = sw_fabric_router_sink(&router);
    const struct sw_host_offer *kept = job.hosts.collective.offer;

    memset(offer.library, '\n', sizeof offer.library);
    assert_int_equal(send_offer(&sink, 0, &offer), SW_OK);
    assert_int_equal(strlen(kept[0].library), sizeof offer.library - 1);
    assert_int_equal(kept[0].library[0], '?');
    offer.devices = 3;
    assert_int_equal(send_offer(&sink, 0, &offer), SW_ERR_INVALID);
    assert_int_equal(kept[0].devices, 2);
    assert_int_equal(send_offer(&sink, 1, &offer), SW_OK);
    assert_int_equal(send_offer(&sink, 2, &impossible), SW_ERR_FORMAT);

    assert_int_equal(send_order(&sink, 1, swapped), SW_ERR_INVALID);
    assert_int_equal(send_order(&sink, 0, twice), SW_ERR_FORMAT);
    assert_int_equal(send_order(&sink, 0, swapped), SW_OK);
    assert_memory_equal(order, swapped, sizeof order);
    assert_int_equal(send_order(&sink, 0, swapped), SW_ERR_INVALID);
    sw_job_collective_fini(&job);
}

/* ---- Loss ---- */

static void a_lost_host_is_the_error_of_all_others(void **state)
{
    for (int64_t chunk = 2; chunk < 1500; chunk = chunk * 3 + 1) {
        const struct sw_loop_conf loop = {.kill_host = 2, .kill_chunk = chunk};
        struct trial like = by_library();
        struct party p;

        like.sets[3] = "job.steps=100000";
        like.sets[4] = "cluster.on_host_loss=stop";
        party_open(&p, 3, &loop, &like);
        party_run(&p);
        for (int i = 0; i < 2; i++) {
            if (p.trial[i].rc != SW_ERR_LOST || !strstr(p.trial[i].err.text, "cyd"))
                fail_msg("chunk %d, host %d: %d %s", (int)chunk, i, p.trial[i].rc,
                         p.trial[i].err.text);
            assert_false(p.trial[i].stuck);
        }
        party_close(&p);
    }
}

/* The moments at which hosts die are this part of the time before. */
#if defined __SANITIZE_THREAD__ || defined __SANITIZE_ADDRESS__
enum { FEWER = 2 };
#else
enum { FEWER = 4 };
#endif

/* Whenever a host dies, the others write the checkpoint that an undisturbed run writes after the
 * last complete step, from the memory of a device. */
static void a_loss_loses_no_step(void **state)
{
    static const char *const cases[][2] = {{"job.device=sim", "job.grad_clip=norm:0.5"},
                                           {"job.device=sim:gpus=2", NULL}};

    for (int i = 0; i < 2; i++) {
        struct trial like = by_library();
        struct losses l = {0};
        struct party p;

        like.sets[0] = cases[i][0];
        like.sets[3] = "job.checkpoint_every=1";
        like.sets[4] = "job.eval_every=7";
        like.sets[5] = cases[i][1];
        party_open(&p, 3, NULL, &like);
        party_run(&p);
        assert_party_ok(&p);
        party_close(&p);
        for (int step = 1; step <= 20; step++)
            assert_int_equal(rename(checkpoint_path("h0", step), in_home("undisturbed-%d", step)),
                             0);

        like.sets[3] = "job.checkpoint_every=0";
        for (int64_t chunk = 7; !l.ended; chunk += chunk / FEWER + 5)
            lose(&like, (int)(chunk % 3), chunk, &l);
        assert_true(l.saved >= 6);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(devices_of_hosts_train_as_one_machine),
        cmocka_unit_test(a_run_continues_by_the_library),
        cmocka_unit_test(one_host_without_devices_is_enough_for_host_memory),
        cmocka_unit_test(hosts_with_different_libraries_use_host_memory),
        cmocka_unit_test(simulated_devices_of_two_processes_use_host_memory),
        cmocka_unit_test(a_private_network_refuses_an_open_library),
        cmocka_unit_test(what_the_recipe_rules_out_is_in_the_plan),
        cmocka_unit_test(offers_and_the_order_come_once_and_are_checked),
        cmocka_unit_test(a_lost_host_is_the_error_of_all_others),
        cmocka_unit_test(a_loss_loses_no_step),
    };
    return cmocka_run_group_tests(tests, home_begin, home_end);
}
