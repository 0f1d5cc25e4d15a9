/* ctest-labels: threads
 * Times of layers on a device with its own memory, whose operations are queued and whose steps are
 * graphs: a layer that is delayed is the slowest, and no times are recorded for layers that run at
 * the same time. */
#include "kernels/cpu/kernels.h"
#include "worker/segments.h"
#include "workers_support.h"
#include <dlfcn.h>

enum { STEPS = 5, FORWARD_MS = 400, BACKWARD_MS = 600 };

/* Calls of the slow layer's passes so far, which stand in the second step; atomic. */
static int workers, forward_calls, backward_calls;

/* With the updates of a step before it, no worker begins the second before all are through with the
 * first. */
static void stand(int *calls, int ms)
{
    int call = __atomic_fetch_add(calls, 1, __ATOMIC_RELAXED);
    if (call >= workers && call < 2 * workers)
        sleep_ms(ms);
}

/* These take the place of the library's. */
typedef int kernel_fn(const struct sw_host_launch *l, const void *args);

int sw_cpu_activation(const struct sw_host_launch *l, const void *args)
{
    kernel_fn *real;
    *(void **)&real = dlsym(RTLD_NEXT, "sw_cpu_activation");
    stand(&forward_calls, FORWARD_MS);
    return real(l, args);
}

int sw_cpu_activation_gradient(const struct sw_host_launch *l, const void *args)
{
    kernel_fn *real;
    *(void **)&real = dlsym(RTLD_NEXT, "sw_cpu_activation_gradient");
    stand(&backward_calls, BACKWARD_MS);
    return real(l, args);
}

#define NET                                                                                        \
    "[layer image]\ntype = input\nfield = image\n[layer label]\ntype = input\nfield = label\n"     \
    "[layer conv1]\ntype = convolution\nsrc = image\noutputs = 8\nkernel = 3\n"                    \
    "[layer slow]\ntype = activation\nsrc = conv1\nfunction = softplus\n"                          \
    "[layer fc1]\ntype = inner_product\nsrc = slow\noutputs = 4\n"
#define LOSS "[layer loss]\ntype = softmax_loss\nsrc = fc1, label\n"

static const char chain[] = WORKERS_JOB DATA_SECTIONS UPDATER_SECTIONS NET LOSS;
static const char branches[] = WORKERS_JOB DATA_SECTIONS UPDATER_SECTIONS NET
    "[layer fc2]\ntype = inner_product\nsrc = slow\noutputs = 4\n"
    "[layer sum]\ntype = eltwise\nsrc = fc1, fc2\n"
    "[layer loss]\ntype = softmax_loss\nsrc = sum, label\n";

static int graphs_of(const struct sw_job *job)
{
    return sw_segments_stats(job->workers[0].segments).graphs;
}

/* Returns the run's number. */
static int run(struct trial t, bool with_graphs)
{
    static int runs;
    char name[32];
    snprintf(name, sizeof name, "run%d", runs++);
    t.name = name;
    t.steps = STEPS;
    t.oversubscribe = true;
    forward_calls = backward_calls = 0;
    if (trial_open(&t) != SW_OK)
        fail_msg("%s", t.err.text);
    workers = t.job->place.placement->worker_count;
    if (trial_run(&t) != SW_OK)
        fail_msg("%s", t.err.text);
    assert_true((graphs_of(t.job) > 0) == with_graphs);
    trial_close(&t);
    return run_id(name);
}

static void check_slowest(int id, int samples)
{
    assert_string_equal(ask_text("SELECT layer FROM slowest_layers WHERE run_id = %d LIMIT 1", id),
                        "slow");
    assert_true(ask("SELECT count(*) = %d AND min(forward_ms * samples) >= %d AND"
                    " min(backward_ms * samples) >= %d FROM layer_time WHERE run_id = %d AND"
                    " layer = 'slow'",
                    workers, FORWARD_MS, BACKWARD_MS, id));
    assert_true(ask("SELECT min(samples) = %d AND max(samples) = %d AND count(*) = 6 * %d FROM"
                    " layer_time WHERE run_id = %d",
                    samples, samples, workers, id));
}

static void a_layer_that_stalls_the_device_is_the_slowest(void **state)
{
    check_slowest(run((struct trial){.recipe = chain, .device = "sim:gpus=1,mem=64MiB"}, true), 1);
    check_slowest(run((struct trial){.recipe = chain,
                                     .device = "sim:gpus=1,mem=64MiB",
                                     .sets = {"job.graphs=no"}},
                      false),
                  1);
    check_slowest(run((struct trial){.recipe = chain, .device = "sim:gpus=2,mem=64MiB"}, true), 1);
}

static void on_the_cpu_every_step_counts(void **state)
{
    check_slowest(run((struct trial){.recipe = chain, .device = "cpu"}, false), STEPS);
}

static void concurrent_layers_have_no_times(void **state)
{
    int id = run((struct trial){.recipe = branches, .device = "sim:gpus=1,mem=64MiB"}, true);
    assert_true(ask("SELECT count(*) = 0 FROM layer_time WHERE run_id = %d", id));
    assert_true(ask("SELECT count(*) = 1 FROM events WHERE run_id = %d AND text LIKE"
                    " 'layers have no times of their own%%--set job.streams=1%%'",
                    id));
    id = run((struct trial){.recipe = branches,
                            .device = "sim:gpus=1,mem=64MiB",
                            .sets = {"job.streams=1"}},
             true);
    assert_string_equal(ask_text("SELECT layer FROM slowest_layers WHERE run_id = %d LIMIT 1", id),
                        "slow");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_layer_that_stalls_the_device_is_the_slowest),
        cmocka_unit_test(on_the_cpu_every_step_counts),
        cmocka_unit_test(concurrent_layers_have_no_times),
    };
    return cmocka_run_group_tests_name("layer clock", tests, home_begin, home_end);
}
