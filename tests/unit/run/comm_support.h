/* Shared by the tests of factors: a small AlexNet, two convolutions below three fully-connected
 * layers, with uneven rows, and jobs that differ in how the gradients of the latter are exchanged.
 * Include once per program. */
#pragma once

#include "workers_support.h"

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
