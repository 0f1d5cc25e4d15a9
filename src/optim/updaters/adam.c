/* adam: rates from running means of gradients and of their squares. The formula and its source are
 * in kernels/updaters/adam.h. */
#include "optim/updaters/adam.h"
#include "optim/update_loop.h"
#include <math.h>

const struct sw_opt sw_adam_opts[] = {
    SW_OPT(REAL, struct sw_adam_conf, beta1, "decay rate of the running mean of gradients",
           .def = "0.9", .min = 0, .max = 1, .below_max = true),
    SW_OPT(REAL, struct sw_adam_conf, beta2, "decay rate of the running mean of squared gradients",
           .def = "0.999", .min = 0, .max = 1, .below_max = true),
    SW_OPT(REAL, struct sw_adam_conf, delta, "added to the divisor (epsilon in the paper)",
           .def = "1e-8", .min = 1e-30, .max = INFINITY),
    {0},
};

const char *const sw_adam_slot_names[] = {"mean", "mean_square", NULL};

struct sw_adam sw_adam_constants(const struct sw_adam_conf *c, const struct sw_update_args *a)
{
    double t = (double)a->step + 1;

    return (struct sw_adam){.lr = a->lr,
                            .decay = a->weight_decay,
                            .beta1 = (float)c->beta1,
                            .one_minus_beta1 = (float)(1 - c->beta1),
                            .beta2 = (float)c->beta2,
                            .one_minus_beta2 = (float)(1 - c->beta2),
                            .delta = (float)c->delta,
                            .step = (float)((double)a->lr / (1 - pow(c->beta1, t))),
                            .root = (float)(1 / (1 - pow(c->beta2, t)))};
}

SW_UPDATE_FORMULA(formula, "adam", 2, struct sw_adam, sw_adam_step)

static void apply(const void *conf, const struct sw_update_args *a)
{
    struct sw_adam k = sw_adam_constants(conf, a);
    sw_update_blocks(a, &formula, &k);
}

const struct sw_updater sw_updater_adam = {
    .base = SW_TYPE("adam", "rates from running means of gradients and of their squares",
                    struct sw_adam_conf, sw_adam_opts),
    .slot_names = sw_adam_slot_names,
    .apply = apply,
};
