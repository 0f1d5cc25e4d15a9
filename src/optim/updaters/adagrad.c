/* adagrad: rates divided by the root of the sum of squared gradients. The formula and its source
 * are in kernels/updaters/adagrad.h. */
#include "kernels/updaters/adagrad.h"
#include "optim/update_loop.h"
#include <math.h>

struct conf {
    double delta;
};

static const struct sw_opt opts[] = {
    SW_OPT(REAL, struct conf, delta, "added to the divisor", .def = "1e-7", .min = 1e-30,
           .max = INFINITY),
    {0},
};

static const char *const slot_names[] = {"sum_of_squares", NULL};

static bool keeps_at_zero(const void *conf)
{
    return true;
}

SW_UPDATE_FORMULA(formula, "adagrad", 1, struct sw_adagrad, sw_adagrad_step)

static void apply(const void *conf, const struct sw_update_args *a)
{
    const struct conf *c = conf;
    struct sw_adagrad k = {.lr = a->lr, .decay = a->weight_decay, .delta = (float)c->delta};
    sw_update_blocks(a, &formula, &k);
}

const struct sw_updater sw_updater_adagrad = {
    .base = SW_TYPE("adagrad", "rates divided by the root of the sum of squared gradients",
                    struct conf, opts),
    .slot_names = slot_names,
    .keeps_at_zero = keeps_at_zero,
    .apply = apply,
};
