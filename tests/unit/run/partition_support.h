/* Shared by the tests of split nets: the shard and the work of a layer on a worker, simulated
 * devices for a number of workers, and the loss of a run. */
#pragma once

#include "workers_support.h"

struct figures {
    int64_t params, outputs; /* outputs: elements of a bias, which is one of the params */
    double forward, backward;
    int64_t channels, inner; /* of the output: columns, and values of each */
};

static inline struct figures figures_of(const struct sw_net *net, const char *name)
{
    const struct sw_layer *l = sw_net_layer(net, sw_net_find(net, name));
    struct figures f = {.forward = l->flops_forward,
                        .backward = l->flops_backward,
                        .channels = l->dst.desc.dim[1],
                        .inner = 1};
    for (int p = 0; p < l->param_count; p++) {
        f.params += sw_desc_count(&l->param[p].layout);
        f.outputs = p == 1 ? sw_desc_count(&l->param[p].layout) : 0;
    }
    for (int i = 2; i < l->dst.desc.ndim; i++)
        f.inner *= l->dst.desc.dim[i];
    return f;
}

static inline void assert_figure(const char *layer, const char *what, double is, double should)
{
    if (!(fabs(is - should) <= 1e-9 * fabs(should)))
        fail_msg("%s: %s is %.17g, not %.17g", layer, what, is, should);
}

static inline double test_loss(const char *run, int step)
{
    return ask("SELECT value FROM metrics WHERE run_id = %d AND split = 'test' AND name = 'loss' "
               "AND step = %d",
               run_id(run), step);
}

/* The device of so many workers. */
__attribute__((unused)) static const char *const sims[] = {
    "", "sim:gpus=1,mem=64MiB", "sim:gpus=2,mem=64MiB", "sim:gpus=3,mem=64MiB"};
