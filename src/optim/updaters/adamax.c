/* adamax: adam with the largest gradient instead of the mean square. The formula and its source are
 * in kernels/updaters/adamax.h. */
#include "kernels/updaters/adamax.h"
#include "optim/update_loop.h"
#include <math.h>

struct conf {
    double beta1, beta2;
};

static const struct sw_opt opts[] = {
    SW_OPT(REAL, struct conf, beta1, "decay rate of the running mean of gradients", .def = "0.9",
           .min = 0, .max = 1, .below_max = true),
    SW_OPT(REAL, struct conf, beta2, "decay rate of the largest gradient so far", .def = "0.999",
           .min = 0, .max = 1, .below_max = true),
    {0},
};

static const char *const slot_names[] = {"mean", "largest", NULL};

SW_UPDATE_FORMULA(formula, "adamax", 2, struct sw_adamax, sw_adamax_step)

static void apply(const void *conf, const struct sw_update_args *a)
{
    const struct conf *c = conf;
    double t = (double)a->step + 1;
    struct sw_adamax k = {.decay = a->weight_decay,
                          .beta1 = (float)c->beta1,
                          .one_minus_beta1 = (float)(1 - c->beta1),
                          .beta2 = (float)c->beta2,
                          .step = (float)((double)a->lr / (1 - pow(c->beta1, t)))};
    sw_update_blocks(a, &formula, &k);
}

const struct sw_updater sw_updater_adamax = {
    .base = SW_TYPE("adamax", "adam with the largest gradient instead of the mean square",
                    struct conf, opts),
    .slot_names = slot_names,
    .apply = apply,
};
