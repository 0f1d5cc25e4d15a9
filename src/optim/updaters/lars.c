/* lars: sgd with momentum and a rate per parameter that depends on the norms of value and gradient.
 * The formula and its source are in kernels/updaters/lars.h. */
#include "kernels/updaters/lars.h"
#include "optim/update_loop.h"
#include <math.h>
#include <stddef.h>

struct conf {
    double momentum, trust;
};

static const struct sw_opt opts[] = {
    {.key = "momentum",
     .help = "fraction of the previous step that is added",
     .type = SW_OPT_REAL,
     .offset = offsetof(struct conf, momentum),
     .def = "0.9",
     .min = 0,
     .max = 1,
     .below_max = true},
    {.key = "trust",
     .help = "step relative to the norm of a parameter at lr = 1 (eta in the paper)",
     .type = SW_OPT_REAL,
     .offset = offsetof(struct conf, trust),
     .def = "0.001",
     .min = 0,
     .max = INFINITY,
     .above_min = true},
    {0},
};

static const char *const slot_names[] = {"momentum", NULL};

SW_KERNEL static bool block(const void *constants, const struct sw_update_block *b)
{
    const struct sw_sgd k = *(const struct sw_sgd *)constants;
    return sw_update_each(b, 1, sw_sgd_momentum, &k);
}

static const struct sw_update_formula formula = {"sgd_momentum", sizeof(struct sw_sgd), block};

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

extern const struct sw_updater sw_updater_lars;
const struct sw_updater sw_updater_lars = {
    .base = {.name = "lars",
             .help = "sgd with a rate per parameter, from the norms of value and gradient",
             .opts = opts,
             .conf_bytes = sizeof(struct conf)},
    .slot_names = slot_names,
    .needs_norms = true,
    .apply = apply,
};
