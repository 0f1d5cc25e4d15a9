/* What adam and adamw have in common: keys, state and constants. They differ only in weight
 * decay. */
#pragma once

#include "kernels/updaters/adam.h"
#include "optim/updater.h"

struct sw_adam_conf {
    double beta1, beta2, delta;
};
extern const struct sw_opt sw_adam_opts[];
extern const char *const sw_adam_slot_names[];
/* Returns the constants of one update, including bias corrections. */
struct sw_adam sw_adam_constants(const struct sw_adam_conf *c, const struct sw_update_args *a);
