/* lars: sgd with momentum and a rate per parameter that depends on the norms of value and gradient.
 * The formula and its source are in kernels/updaters/lars.h. */
#include "kernels/updaters/lars.h"
#include "optim/update_loop.h"
#include <math.h>

struct conf {
    double momentum, trust;
};

static const struct sw_opt opts[] = {
    SW_OPT(REAL, struct conf, momentum, "fraction of the previous step that is added", .def = "0.9",
           .min = 0, .max = 1, .below_max = true),
    SW_OPT(REAL, struct conf, trust,
           "step relative to the norm of a parameter at lr = 1 (eta in the paper)", .def = "0.001",
           .min = 0, .max = INFINITY, .above_min = true),
    {0},
};

static const char *const slot_names[] = {"momentum", NULL};

SW_UPDATE_FORMULA(formula, "sgd_momentum", 1, struct sw_sgd, sw_sgd_momentum)

static void apply(const void *conf, const struct sw_update_args *a)
{
    const struct conf *c = conf;
    double ratio =
        sw_lars_ratio(c->trust, (double)a->weight_decay, a->value_norm, a->gradient_norm);
    struct sw_sgd k = {.lr = (float)((double)a->lr * ratio),
                       .decay = a->weight_decay,
                       .momentum = (float)c->momentum};

    sw_update_blocks(a, &formula, &k);
    if (a->order)
        a->order->trust = c->trust;
}

const struct sw_updater sw_updater_lars = {
    .base = SW_TYPE("lars", "sgd with a rate per parameter, from the norms of value and gradient",
                    struct conf, opts),
    .slot_names = slot_names,
    .needs_norms = true,
    .apply = apply,
};
