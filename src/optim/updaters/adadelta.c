/* adadelta: gradients divided by their root mean square, times the root mean square of past steps.
 * The formula and its source are in kernels/updaters/adadelta.h. */
#include "kernels/updaters/adadelta.h"
#include "optim/update_loop.h"
#include <math.h>

struct conf {
    double rho, delta;
};

static const struct sw_opt opts[] = {
    SW_OPT(REAL, struct conf, rho, "decay rate of the running mean squares", .def = "0.95",
           .min = 0, .max = 1, .below_max = true),
    SW_OPT(REAL, struct conf, delta, "added to mean squares before the root", .def = "1e-6",
           .min = 1e-30, .max = INFINITY),
    {0},
};

static const char *const slot_names[] = {"mean_square", "mean_step", NULL};

SW_UPDATE_FORMULA(formula, "adadelta", 2, struct sw_adadelta, sw_adadelta_step)

static void apply(const void *conf, const struct sw_update_args *a)
{
    const struct conf *c = conf;
    struct sw_adadelta k = {.lr = a->lr,
                            .decay = a->weight_decay,
                            .rho = (float)c->rho,
                            .one_minus_rho = (float)(1 - c->rho),
                            .delta = (float)c->delta};
    sw_update_blocks(a, &formula, &k);
}

const struct sw_updater sw_updater_adadelta = {
    .base = SW_TYPE("adadelta",
                    "gradients divided by their root mean square, times that of past steps; lr = 1 "
                    "in the paper",
                    struct conf, opts),
    .slot_names = slot_names,
    .apply = apply,
};
