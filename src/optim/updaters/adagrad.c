/* adagrad: rates divided by the root of the sum of squared gradients. The formula and its source
 * are in kernels/updaters/adagrad.h. */
#include "kernels/updaters/adagrad.h"
#include "optim/update_loop.h"
#include <math.h>
#include <stddef.h>

struct conf {
    double delta;
};

static const struct sw_opt opts[] = {
    {.key = "delta",
     .help = "added to the divisor",
     .type = SW_OPT_REAL,
     .offset = offsetof(struct conf, delta),
     .def = "1e-7",
     .min = 1e-30,
     .max = INFINITY},
    {0},
};

static const char *const slot_names[] = {"sum_of_squares", NULL};

SW_KERNEL static bool block(const void *constants, const struct sw_update_block *b)
{
    const struct sw_adagrad k = *(const struct sw_adagrad *)constants;
    return sw_update_each(b, 1, sw_adagrad_step, &k);
}

static const struct sw_update_formula formula = {"adagrad", sizeof(struct sw_adagrad), block};

static void apply(const void *conf, const struct sw_update_args *a)
{
    const struct conf *c = conf;
    struct sw_adagrad k = {.lr = a->lr, .decay = a->weight_decay, .delta = (float)c->delta};
    sw_update_blocks(a, &formula, &k);
}

extern const struct sw_updater sw_updater_adagrad;
const struct sw_updater sw_updater_adagrad = {
    .base = {.name = "adagrad",
             .help = "rates divided by the root of the sum of squared gradients",
             .opts = opts,
             .conf_bytes = sizeof(struct conf)},
    .slot_names = slot_names,
    .apply = apply,
};
