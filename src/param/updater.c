#include "param/updater.h"
#include "kernels/cpu/kernels.h"
#include <math.h>
#include <stddef.h>

/* 64 KiB of each array: several fit the second-level cache, and a block outweighs the cost of
 * handing it to a thread. */
enum { BLOCK = 16384 };

const struct sw_opt sw_updater_opts[] = {
    {.key = "lr",
     .help = "learning rate before the policy",
     .type = SW_OPT_REAL,
     .offset = offsetof(struct sw_updater_conf, lr),
     .min = 0,
     .max = INFINITY,
     .required = true},
    {.key = "weight_decay",
     .help = "share of the value that is added to its gradient (L2)",
     .type = SW_OPT_REAL,
     .offset = offsetof(struct sw_updater_conf, weight_decay),
     .def = "0",
     .min = 0,
     .max = INFINITY},
    {0},
};

const struct sw_opt sw_updater_override_opts[] = {
    {.key = "lr_mult",
     .help = "factor of the learning rate",
     .type = SW_OPT_REAL,
     .offset = offsetof(struct sw_updater_override, lr_mult),
     .def = "1",
     .min = 0,
     .max = INFINITY},
    {.key = "decay_mult",
     .help = "factor of the weight decay",
     .type = SW_OPT_REAL,
     .offset = offsetof(struct sw_updater_override, decay_mult),
     .def = "1",
     .min = 0,
     .max = INFINITY},
    {0},
};

/* Adds the other workers' gradients, in their order, while the block is in the cache. */
static void add_more(const struct sw_update_args *a, int64_t from, int64_t to)
{
    for (int w = 0; w < a->more_count; w++)
        sw_kernel_add(1, a->gradient + from, a->more[w] + from, to - from);
}

void sw_updater_apply(const struct sw_updater *u, const void *conf, const struct sw_update_args *a)
{
    int64_t blocks = (a->count + BLOCK - 1) / BLOCK;
    bool bad = false;

#pragma omp parallel for schedule(static) reduction(|| : bad) if (blocks > 1)
    for (int64_t b = 0; b < blocks; b++) {
        int64_t from = b * BLOCK, to = from + BLOCK < a->count ? from + BLOCK : a->count;
        add_more(a, from, to);
        bad = u->range(conf, a, from, to) || bad;
    }
    if (bad)
        *a->non_finite = true;
}
