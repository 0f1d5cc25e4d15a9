/* adadelta: gradients divided by their root mean square, times the root mean square of past steps.
 * The formula and its source are in kernels/updaters/adadelta.h. */
#include "kernels/updaters/adadelta.h"
#include "optim/update_loop.h"
#include <math.h>
#include <stddef.h>

struct conf {
    double rho, delta;
};

static const struct sw_opt opts[] = {
    {.key = "rho",
     .help = "decay rate of the running mean squares",
     .type = SW_OPT_REAL,
     .offset = offsetof(struct conf, rho),
     .def = "0.95",
     .min = 0,
     .max = 1,
     .below_max = true},
    {.key = "delta",
     .help = "added to mean squares before the root",
     .type = SW_OPT_REAL,
     .offset = offsetof(struct conf, delta),
     .def = "1e-6",
     .min = 1e-30,
     .max = INFINITY},
    {0},
};

static const char *const slot_names[] = {"mean_square", "mean_step", NULL};

SW_KERNEL static bool block(const void *constants, const struct sw_update_block *b)
{
    const struct sw_adadelta k = *(const struct sw_adadelta *)constants;
    return sw_update_each(b, 2, sw_adadelta_step, &k);
}

static const struct sw_update_formula formula = {"adadelta", sizeof(struct sw_adadelta), block};

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

extern const struct sw_updater sw_updater_adadelta;
const struct sw_updater sw_updater_adadelta = {
    .base = {.name = "adadelta",
             .help =
                 "gradients divided by their root mean square, times that of past steps; lr = 1 "
                 "in the paper",
             .opts = opts,
             .conf_bytes = sizeof(struct conf)},
    .slot_names = slot_names,
    .apply = apply,
};
