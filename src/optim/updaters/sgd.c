/* sgd: stochastic gradient descent with momentum and weight decay. The formula and its source are
 * in kernels/updaters/sgd.h. Without momentum there is no state. */
#include "kernels/updaters/sgd.h"
#include "optim/update_loop.h"

struct conf {
    double momentum;
};

static const struct sw_opt opts[] = {
    SW_OPT(REAL, struct conf, momentum, "fraction of the previous step that is added", .def = "0",
           .min = 0, .max = 1, .below_max = true),
    {0},
};

static const char *const slot_names[] = {"momentum", NULL};

static int slots(const void *conf)
{
    return ((const struct conf *)conf)->momentum > 0;
}

static bool keeps_at_zero(const void *conf)
{
    return slots(conf) == 0;
}

SW_UPDATE_FORMULA(without, "sgd_plain", 0, struct sw_sgd, sw_sgd_plain)
SW_UPDATE_FORMULA(with, "sgd_momentum", 1, struct sw_sgd, sw_sgd_momentum)

static void apply(const void *conf, const struct sw_update_args *a)
{
    const struct conf *c = conf;
    struct sw_sgd k = {.lr = a->lr, .decay = a->weight_decay, .momentum = (float)c->momentum};
    sw_update_blocks(a, slots(conf) ? &with : &without, &k);
}

const struct sw_updater sw_updater_sgd = {
    .base = SW_TYPE("sgd", "stochastic gradient descent with momentum and weight decay",
                    struct conf, opts),
    .slots = slots,
    .slot_names = slot_names,
    .keeps_at_zero = keeps_at_zero,
    .apply = apply,
};
