/* nesterov: Nesterov's accelerated gradient. The formula and its source are in
 * kernels/updaters/nesterov.h. */
#include "kernels/updaters/nesterov.h"
#include "optim/update_loop.h"
#include <stddef.h>

struct conf {
    double momentum;
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
    {0},
};

static const char *const slot_names[] = {"momentum", NULL};

SW_KERNEL static bool block(const void *constants, const struct sw_update_block *b)
{
    const struct sw_nesterov k = *(const struct sw_nesterov *)constants;
    return sw_update_each(b, 1, sw_nesterov_step, &k);
}

static const struct sw_update_formula formula = {"nesterov", sizeof(struct sw_nesterov), block};

static void apply(const void *conf, const struct sw_update_args *a)
{
    const struct conf *c = conf;
    struct sw_nesterov k = {.lr = a->lr, .decay = a->weight_decay, .momentum = (float)c->momentum};
    sw_update_blocks(a, &formula, &k);
}

extern const struct sw_updater sw_updater_nesterov;
const struct sw_updater sw_updater_nesterov = {
    .base = {.name = "nesterov",
             .help = "Nesterov's accelerated gradient (look-ahead momentum)",
             .opts = opts,
             .conf_bytes = sizeof(struct conf)},
    .slot_names = slot_names,
    .apply = apply,
};
