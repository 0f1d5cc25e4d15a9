/* adam: rates from running means of gradients and of their squares. The formula and its source are
 * in kernels/updaters/adam.h. */
#include "optim/updaters/adam.h"
#include "optim/update_loop.h"
#include <math.h>
#include <stddef.h>

const struct sw_opt sw_adam_opts[] = {
    {.key = "beta1",
     .help = "decay rate of the running mean of gradients",
     .type = SW_OPT_REAL,
     .offset = offsetof(struct sw_adam_conf, beta1),
     .def = "0.9",
     .min = 0,
     .max = 1,
     .below_max = true},
    {.key = "beta2",
     .help = "decay rate of the running mean of squared gradients",
     .type = SW_OPT_REAL,
     .offset = offsetof(struct sw_adam_conf, beta2),
     .def = "0.999",
     .min = 0,
     .max = 1,
     .below_max = true},
    {.key = "delta",
     .help = "added to the divisor (epsilon in the paper)",
     .type = SW_OPT_REAL,
     .offset = offsetof(struct sw_adam_conf, delta),
     .def = "1e-8",
     .min = 1e-30,
     .max = INFINITY},
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

SW_KERNEL static bool block(const void *constants, const struct sw_update_block *b)
{
    const struct sw_adam k = *(const struct sw_adam *)constants;
    return sw_update_each(b, 2, sw_adam_step, &k);
}

static const struct sw_update_formula formula = {"adam", sizeof(struct sw_adam), block};

static void apply(const void *conf, const struct sw_update_args *a)
{
    struct sw_adam k = sw_adam_constants(conf, a);
    sw_update_blocks(a, &formula, &k);
}

extern const struct sw_updater sw_updater_adam;
const struct sw_updater sw_updater_adam = {
    .base = {.name = "adam",
             .help = "rates from running means of gradients and of their squares",
             .opts = sw_adam_opts,
             .conf_bytes = sizeof(struct sw_adam_conf)},
    .slot_names = sw_adam_slot_names,
    .apply = apply,
};
