/* ctest-labels: gpu
 * ctest-timeout: 240
 * A job on two hosts with a GPU each: NCCL sums their gradients if the network is trusted, else
 * they go through host memory; both train to the parameters of one GPU. Hosts are threads of the
 * test. NCCL refuses one GPU twice, so the test needs two; between machines nothing else changes
 * but the links that NCCL uses. */
#include "unit/run/hosts_party.h"

#include "device/cuda/cuda_module.h"
#include "plan/choices.h"

enum { SKIPPED = 77 };

static const char *const gpus[] = {"job.device=cuda:0", "job.device=cuda:1"};

static void open_hosts(struct party *p, const char *network, const struct sw_loop_conf *loop)
{
    const struct trial like = {
        .oversubscribe = true,
        .steps = 6,
        .sets = {gpus[0], network, "job.eval_every=3", loop ? NULL : "job.checkpoint_every=1"}};

    party_open(p, 2, loop, &like);
    trial_close(&p->trial[1]);
    p->trial[1].sets[0] = gpus[1];
    if (trial_open(&p->trial[1]) != SW_OK)
        fail_msg("%s", p->trial[1].err.text);
}

static void train_one(void)
{
    struct trial one = {.name = "one", .steps = 6, .sets = {gpus[0], "job.eval_every=3"}};
    trial_ok(&one);
}

static void compare(void)
{
    double off = difference(checkpoint_path("one", 6), checkpoint_path("h0", 6));
    if (off > 2e-4)
        fail_msg("parameters differ by %g", off);
}

static void gpus_of_hosts_sum_by_nccl(void **state)
{
    struct party p;

    train_one();
    open_hosts(&p, "cluster.network=trusted", NULL);
    party_run(&p);
    assert_party_ok(&p);
    assert_same_bits(&p);
    for (int i = 0; i < 2; i++) {
        const char *sums = sw_job_plan(p.trial[i].job)->sums;

        assert_int_equal(p.trial[i].job->exchange.sums.reducer, SW_REDUCER_LIBRARY);
        assert_non_null(strstr(sums, "NCCL 2."));
        assert_non_null(strstr(sums, "over the devices of 2 hosts"));
        assert_non_null(strstr(sums, "neither encrypts nor authenticates"));
        assert_non_null(strstr(p.trial[i].text, sums));
    }
    party_close(&p);
    compare();
}

static void a_private_network_is_not_for_nccl(void **state)
{
    struct party p;

    train_one();
    open_hosts(&p, "cluster.network=private", NULL);
    for (int i = 0; i < 2; i++)
        assert_non_null(strstr(sw_job_plan(p.trial[i].job)->sums,
                               "neither encrypts nor authenticates, and the network is private: "
                               "set network = trusted"));
    party_run(&p);
    assert_party_ok(&p);
    assert_same_bits(&p);
    for (int i = 0; i < 2; i++)
        assert_non_null(strstr(p.trial[i].text, "set network = trusted"));
    party_close(&p);
    compare();
}

/* The other host writes the checkpoint of the last complete step, from its GPU. */
static void a_loss_loses_no_step(void **state)
{
    struct losses l = {0};
    struct party p;

    open_hosts(&p, "cluster.network=trusted", NULL);
    party_run(&p);
    assert_party_ok(&p);
    party_close(&p);
    for (int step = 1; step <= 6; step++)
        assert_int_equal(rename(checkpoint_path("h0", step), in_home("undisturbed-%d", step)), 0);

    for (int64_t chunk = 12; !l.ended; chunk += chunk / 2) {
        const struct sw_loop_conf loop = {.kill_host = 1, .kill_chunk = chunk};

        open_hosts(&p, "cluster.network=trusted", &loop);
        party_run(&p);
        int64_t step = check_loss(&p, 0, 1, (int)chunk, &l);
        if (step > 0)
            assert_same_tensors(checkpoint_path("h0", step), in_home("undisturbed-%d", (int)step));
        party_close(&p);
    }
    assert_true(l.saved > 0);
}

/* Prints why, if there are no two GPUs with NCCL. */
static bool has_two_gpus(void)
{
    struct sw_device *dev[2] = {NULL};
    const struct sw_collective_ops *ops;
    struct sw_err err = {0};
    int rc = SW_OK;

    for (int i = 0; i < 2 && rc == SW_OK; i++)
        rc = sw_driver_cuda.open(&(struct sw_device_args){.index = i}, &dev[i], &err);
    if (rc == SW_OK)
        rc = sw_device_collectives(dev[0], &ops, &err);
    for (int i = 0; i < 2; i++)
        sw_device_close(dev[i]);
    if (rc != SW_OK)
        print_message("skipped: NCCL between hosts needs two GPUs: %s\n", err.text);
    return rc == SW_OK;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gpus_of_hosts_sum_by_nccl),
        cmocka_unit_test(a_private_network_is_not_for_nccl),
        cmocka_unit_test(a_loss_loses_no_step),
    };
    if (!has_two_gpus())
        return SKIPPED;
    return cmocka_run_group_tests(tests, home_begin, home_end);
}
