/* adamax: adam with the largest gradient instead of the mean square. The formula and its source are
 * in kernels/updaters/adamax.h. */
#include "kernels/updaters/adamax.h"
#include "optim/update_loop.h"
#include <math.h>
#include <stddef.h>

struct conf {
    double beta1, beta2;
};

static const struct sw_opt opts[] = {
    {.key = "beta1",
     .help = "decay rate of the running mean of gradients",
     .type = SW_OPT_REAL,
     .offset = offsetof(struct conf, beta1),
     .def = "0.9",
     .min = 0,
     .max = 1,
     .below_max = true},
    {.key = "beta2",
     .help = "decay rate of the largest gradient so far",
     .type = SW_OPT_REAL,
     .offset = offsetof(struct conf, beta2),
     .def = "0.999",
     .min = 0,
     .max = 1,
     .below_max = true},
    {0},
};

static const char *const slot_names[] = {"mean", "largest", NULL};

SW_KERNEL static bool block(const void *constants, const struct sw_update_block *b)
{
    const struct sw_adamax k = *(const struct sw_adamax *)constants;
    return sw_update_each(b, 2, sw_adamax_step, &k);
}

static const struct sw_update_formula formula = {"adamax", sizeof(struct sw_adamax), block};

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

extern const struct sw_updater sw_updater_adamax;
const struct sw_updater sw_updater_adamax = {
    .base = {.name = "adamax",
             .help = "adam with the largest gradient instead of the mean square",
             .opts = opts,
             .conf_bytes = sizeof(struct conf)},
    .slot_names = slot_names,
    .apply = apply,
};
