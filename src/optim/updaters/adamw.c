/* adamw: adam with decoupled weight decay, which is not part of the gradient. The formula and its
 * source are in kernels/updaters/adamw.h. */
#include "kernels/updaters/adamw.h"
#include "optim/update_loop.h"
#include "optim/updaters/adam.h"

SW_KERNEL static bool block(const void *constants, const struct sw_update_block *b)
{
    const struct sw_adam k = *(const struct sw_adam *)constants;
    return sw_update_each(b, 2, sw_adamw_step, &k);
}

static const struct sw_update_formula formula = {"adamw", sizeof(struct sw_adam), block};

static void apply(const void *conf, const struct sw_update_args *a)
{
    struct sw_adam k = sw_adam_constants(conf, a);
    sw_update_blocks(a, &formula, &k);
}

extern const struct sw_updater sw_updater_adamw;
const struct sw_updater sw_updater_adamw = {
    .base = {.name = "adamw",
             .help = "adam with decoupled weight decay",
             .opts = sw_adam_opts,
             .conf_bytes = sizeof(struct sw_adam_conf)},
    .slot_names = sw_adam_slot_names,
    .apply = apply,
};
