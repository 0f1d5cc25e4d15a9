/* ctest-labels: threads
 * ctest-timeout: 300
 * cluster.bandwidth between the devices of one machine: results keep their bits, no device sends
 * more, `auto` takes the limit for the link's rate, and libraries, which heed no limit, are not
 * used. Real times are only checked to be not shorter. */
#include "comm_support.h"

#include "base/token_bucket.h"
#include "device/send_limit.h"
#include "device/sim/sim.h"

#define LIMIT "cluster.bandwidth=2MB"
enum { LIMIT_BYTES = 2000000 };

static const char *const setups[][4] = {
    {"cluster.comm=ps", "cluster.copy=async"},
    {"cluster.comm=ps", "cluster.copy=sync"},
    {"cluster.comm=ps", "cluster.copy=none"},
    {SFB, "cluster.copy=async", "cluster.overlap=no"},
    {SFB, "cluster.copy=none"},
    {ADAM, "cluster.copy=async"},
    {"cluster.comm=ps", "cluster.copy=async", "layer.fc6.partition=1", "layer.fc7.partition=1in"},
};
enum { SETUPS = sizeof setups / sizeof *setups };

static struct trial job(const char *name, int setup, const char *limit)
{
    const char *const *s = setups[setup];
    return (struct trial){.recipe = comm_recipe,
                          .oversubscribe = true,
                          .name = name,
                          .steps = 3,
                          .device = comm_sims[2],
                          .sets = {workers_set[2], limit ? limit : "cluster.rebalance=no", s[0],
                                   s[1], s[2], s[2] ? s[3] : NULL}};
}

/* Runs it, and checks that neither device has sent more than it may have in that time. What is
 * left of the bucket at the beginning, and a chunk of each stream, come on top. */
static void run_limited(struct trial *t)
{
    enum { STREAMS = 4 };
    assert_int_equal(trial_open(t), SW_OK);
    if (trial_run(t) != SW_OK)
        fail_msg("%s", t->err.text);

    int64_t sent =
        (int64_t)ask("SELECT coalesce(sum(bytes), 0) FROM link_traffic WHERE run_id = "
                     "%d AND from_unit = 'worker0.0' AND kind IN ('d2h', 'factor', 'allreduce')",
                     run_id(t->name));
    double most = LIMIT_BYTES * (t->took_s + SW_TOKEN_BURST_NS * 1e-9) +
                  STREAMS * (double)sw_send_limit_chunk(t->job->workers[0].device->send_limit);
    if ((double)sent > most)
        fail_msg("%s: %lld bytes in %.3f s", t->sets[2], (long long)sent, t->took_s);
    trial_close(t);
}

static void a_limit_changes_no_bit(void **state)
{
    for (int i = 0; i < SETUPS; i++) {
        struct trial without = job("without", i, NULL), with = job("with", i, LIMIT);
        home_begin(NULL);
        trial_ok(&without);
        run_limited(&with);
        assert_same_tensors(checkpoint_path("without", 3), checkpoint_path("with", 3));
        home_end(NULL);
    }
}

static void auto_takes_the_limit_for_the_rate_of_the_link(void **state)
{
    struct trial free = {.recipe = comm_recipe,
                         .oversubscribe = true,
                         .device = "sim:gpus=2,mem=64MiB,peer=no,pcie=64GB/s",
                         .sets = {workers_set[2]}};
    assert_int_equal(trial_open(&free), SW_OK);
    assert_non_null(strstr(sw_job_plan(free.job)->comm_notes, "chosen for links of 64.0 GB/s and"));
    trial_close(&free);

    struct trial t = {.recipe = comm_recipe,
                      .oversubscribe = true,
                      .device = "sim:gpus=2,mem=64MiB,peer=no,pcie=64GB/s",
                      .sets = {workers_set[2], "cluster.bandwidth=1MB"}};
    assert_int_equal(trial_open(&t), SW_OK);
    const struct sw_net *net = t.job->workers[0].train;
    assert_int_equal(sw_net_exchange_mode(net, sw_net_find(net, "fc6")), SW_EXCHANGE_SFB);
    assert_non_null(strstr(sw_job_plan(t.job)->comm_notes,
                           "chosen for links of 1.0 MB/s (cluster.bandwidth) of 64.0 GB/s"));
    trial_close(&t);
}

static void a_library_that_heeds_no_limit_is_refused(void **state)
{
    struct trial t = job("library", 2, LIMIT);
    t.sets[4] = "cluster.all_reduce=library";
    assert_int_not_equal(trial_go(&t), SW_OK);
    if (!strstr(t.err.text, "cluster.bandwidth limits what devices send") ||
        !strstr(t.err.text, "try all_reduce = copies"))
        fail_msg("%s", t.err.text);

    /* One device sends nothing to others. */
    t.sets[0] = workers_set[1];
    t.device = comm_sims[1];
    t.name = "alone";
    trial_ok(&t);
}

/* A device that hangs, or is lost, ends a run of which most waits for the limit. */
static void a_fault_ends_waits_for_the_limit(void **state)
{
    for (int i = 0; i < SETUPS; i += 2) {
        struct trial t = job("lost", i, "cluster.bandwidth=20KB");
        t.device = "sim:gpus=2,mem=64MiB,fault=lost@60,peer=no";
        assert_int_not_equal(trial_go(&t), SW_OK);
        assert_false(t.stuck);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_limit_changes_no_bit),
        cmocka_unit_test_setup_teardown(auto_takes_the_limit_for_the_rate_of_the_link, home_begin,
                                        home_end),
        cmocka_unit_test_setup_teardown(a_library_that_heeds_no_limit_is_refused, home_begin,
                                        home_end),
        cmocka_unit_test_setup_teardown(a_fault_ends_waits_for_the_limit, home_begin, home_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
