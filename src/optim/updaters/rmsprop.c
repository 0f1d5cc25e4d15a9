/* rmsprop: rates divided by the root of the running mean of squared gradients. The formula and its
 * source are in kernels/updaters/rmsprop.h. */
#include "kernels/updaters/rmsprop.h"
#include "optim/update_loop.h"
#include <math.h>
#include <stddef.h>

struct conf {
    double rho, delta;
};

static const struct sw_opt opts[] = {
    {.key = "rho",
     .help = "decay rate of the running mean of squared gradients",
     .type = SW_OPT_REAL,
     .offset = offsetof(struct conf, rho),
     .def = "0.9",
     .min = 0,
     .max = 1,
     .below_max = true},
    {.key = "delta",
     .help = "added to the divisor",
     .type = SW_OPT_REAL,
     .offset = offsetof(struct conf, delta),
     .def = "1e-8",
     .min = 1e-30,
     .max = INFINITY},
    {0},
};

static const char *const slot_names[] = {"mean_square", NULL};

SW_KERNEL static bool block(const void *constants, const struct sw_update_block *b)
{
    const struct sw_rmsprop k = *(const struct sw_rmsprop *)constants;
    return sw_update_each(b, 1, sw_rmsprop_step, &k);
}

static const struct sw_update_formula formula = {"rmsprop", sizeof(struct sw_rmsprop), block};

static void apply(const void *conf, const struct sw_update_args *a)
{
    const struct conf *c = conf;
    struct sw_rmsprop k = {.lr = a->lr,
                           .decay = a->weight_decay,
                           .rho = (float)c->rho,
                           .one_minus_rho = (float)(1 - c->rho),
                           .delta = (float)c->delta};
    sw_update_blocks(a, &formula, &k);
}

extern const struct sw_updater sw_updater_rmsprop;
const struct sw_updater sw_updater_rmsprop = {
    .base = {.name = "rmsprop",
             .help = "rates divided by the root of the running mean of squared gradients",
             .opts = opts,
             .conf_bytes = sizeof(struct conf)},
    .slot_names = slot_names,
    .apply = apply,
};
