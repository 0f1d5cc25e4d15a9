/* rmsprop: rates divided by the root of the running mean of squared gradients. The formula and its
 * source are in kernels/updaters/rmsprop.h. */
#include "kernels/updaters/rmsprop.h"
#include "optim/update_loop.h"
#include <math.h>

struct conf {
    double rho, delta;
};

static const struct sw_opt opts[] = {
    SW_OPT(REAL, struct conf, rho, "decay rate of the running mean of squared gradients",
           .def = "0.9", .min = 0, .max = 1, .below_max = true),
    SW_OPT(REAL, struct conf, delta, "added to the divisor", .def = "1e-8", .min = 1e-30,
           .max = INFINITY),
    {0},
};

static const char *const slot_names[] = {"mean_square", NULL};

SW_UPDATE_FORMULA(formula, "rmsprop", 1, struct sw_rmsprop, sw_rmsprop_step)

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

const struct sw_updater sw_updater_rmsprop = {
    .base = SW_TYPE("rmsprop", "rates divided by the root of the running mean of squared gradients",
                    struct conf, opts),
    .slot_names = slot_names,
    .apply = apply,
};
