/* Shared by the tests of factors: a small AlexNet, two convolutions below three fully-connected
 * layers, with uneven rows, and jobs that differ in how the gradients of the latter are exchanged.
 * Include once per program. */
#pragma once

#include "workers_support.h"

#include "run/memory.h"
#include "worker/input.h"

#define COMM_NET                                                                                   \
    "[layer image]\ntype = input\nfield = image\n[layer label]\ntype = input\nfield = label\n"     \
    "[layer conv1]\ntype = convolution\nsrc = image\noutputs = 16\nkernel = 3\nstride = 2\n"       \
    "[layer act1]\ntype = activation\nsrc = conv1\nfunction = tanh\n"                              \
    "[layer conv2]\ntype = convolution\nsrc = act1\noutputs = 16\nkernel = 3\npad = 1\n"           \
    "[layer act2]\ntype = activation\nsrc = conv2\nfunction = tanh\n"                              \
    "[layer fc6]\ntype = inner_product\nsrc = act2\noutputs = 64\n"                                \
    "[layer act6]\ntype = activation\nsrc = fc6\nfunction = relu\n"                                \
    "[layer drop6]\ntype = dropout\nsrc = act6\n"                                                  \
    "[layer fc7]\ntype = inner_product\nsrc = drop6\noutputs = 64\nbias = no\n"                    \
    "[layer act7]\ntype = activation\nsrc = fc7\nfunction = sigmoid\n"                             \
    "[layer fc8]\ntype = inner_product\nsrc = act7\noutputs = 64\n"                                \
    "[layer loss]\ntype = softmax_loss\nsrc = fc8, label\n"

static const char comm_recipe[] = WORKERS_JOB DATA_SECTIONS UPDATER_SECTIONS COMM_NET;

enum { COMM_STEPS = 6, COMM_ROWS = 25, COMM_LAYERS = 3 };
/* Inputs (16 channels of 6 x 6 before fc6), outputs and parameters. Multiples of 64, so that no
 * layout has padding. */
static const struct {
    int inputs, outputs, params;
} comm_layers[COMM_LAYERS] = {{576, 64, 576 * 64 + 64}, {64, 64, 64 * 64}, {64, 64, 64 * 64 + 64}};

#define SFB "cluster.comm=sfb"
#define ADAM "cluster.comm=adam"

static const char *const comm_sims[] = {
    "cpu", "sim:gpus=1,mem=64MiB,peer=no", "sim:gpus=2,mem=64MiB,peer=no",
    "sim:gpus=3,mem=64MiB,peer=no", "sim:gpus=4,mem=64MiB,peer=no"};

#define comm_train(...)                                                                            \
    train(.recipe = comm_recipe, .oversubscribe = true, .steps = COMM_STEPS, __VA_ARGS__)

/* One worker on the CPU. */
static inline void comm_alone(void)
{
    comm_train(.name = "one", .device = "cpu", .sets = {"cluster.workers_per_group=1"});
}

/* Bytes a step of the last run of that name. */
static inline int64_t comm_bytes(const char *name, const char *kind)
{
    return (int64_t)ask("SELECT coalesce(sum(bytes), 0) FROM link_traffic WHERE run_id = %d AND "
                        "kind = '%s'",
                        run_id(name), kind) /
           COMM_STEPS;
}

/* The convolutions' matrices. */
enum { CONV_PARAMS = 16 * 9 * 3 + 16 + 16 * 9 * 16 + 16 };

/* The mode of a layer, the same for all workers. */
static inline enum sw_exchange_mode chosen(struct trial *t, const char *layer)
{
    assert_int_equal(trial_open(t), SW_OK);
    const struct sw_net *net = t->job->workers[1].train;
    enum sw_exchange_mode mode = sw_net_exchange_mode(net, sw_net_find(net, layer));
    for (int w = 0; w < t->job->place.placement->worker_count; w++)
        for (int i = 0; i < sw_net_layer_count(net); i++)
            assert_int_equal(sw_net_exchange_mode(t->job->workers[w].train, i),
                             sw_net_exchange_mode(net, i));
    trial_close(t);
    return mode;
}

/* Every device has taken what was planned, at its peak. */
static inline void assert_planned_memory(struct trial *t)
{
    assert_int_equal(trial_open(t), SW_OK);
    if (trial_run(t) != SW_OK)
        fail_msg("%s", t->err.text);
    for (int w = 0; w < t->job->place.placement->worker_count; w++) {
        const struct sw_worker *worker = &t->job->workers[w];
        assert_int_equal(sw_device_bytes_of(worker->device).peak,
                         worker->arena.bytes + sw_worker_param_bytes(worker) +
                             sw_buffers_device_bytes(worker) + sw_input_bytes(worker));
    }
    trial_close(t);
}
