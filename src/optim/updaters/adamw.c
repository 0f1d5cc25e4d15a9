/* adamw: adam with decoupled weight decay, which is not part of the gradient. The formula and its
 * source are in kernels/updaters/adamw.h. */
#include "kernels/updaters/adamw.h"
#include "optim/update_loop.h"
#include "optim/updaters/adam.h"

SW_UPDATE_FORMULA(formula, "adamw", 2, struct sw_adam, sw_adamw_step)

static void apply(const void *conf, const struct sw_update_args *a)
{
    struct sw_adam k = sw_adam_constants(conf, a);
    sw_update_blocks(a, &formula, &k);
}

const struct sw_updater sw_updater_adamw = {
    .base = SW_TYPE("adamw", "adam with decoupled weight decay", struct sw_adam_conf, sw_adam_opts),
    .slot_names = sw_adam_slot_names,
    .apply = apply,
};
