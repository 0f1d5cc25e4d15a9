/* nesterov: Nesterov's accelerated gradient. The formula and its source are in
 * kernels/updaters/nesterov.h. */
#include "kernels/updaters/nesterov.h"
#include "optim/update_loop.h"

struct conf {
    double momentum;
};

static const struct sw_opt opts[] = {
    SW_OPT(REAL, struct conf, momentum, "fraction of the previous step that is added", .def = "0.9",
           .min = 0, .max = 1, .below_max = true),
    {0},
};

static const char *const slot_names[] = {"momentum", NULL};

SW_UPDATE_FORMULA(formula, "nesterov", 1, struct sw_nesterov, sw_nesterov_step)

static void apply(const void *conf, const struct sw_update_args *a)
{
    const struct conf *c = conf;
    struct sw_nesterov k = {.lr = a->lr, .decay = a->weight_decay, .momentum = (float)c->momentum};
    sw_update_blocks(a, &formula, &k);
}

const struct sw_updater sw_updater_nesterov = {
    .base = SW_TYPE("nesterov", "Nesterov's accelerated gradient (look-ahead momentum)",
                    struct conf, opts),
    .slot_names = slot_names,
    .apply = apply,
};
