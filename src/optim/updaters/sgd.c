/* sgd: stochastic gradient descent with momentum and weight decay. The formula and its source are
 * in kernels/updaters/sgd.h. Without momentum there is no state. */
#include "kernels/updaters/sgd.h"
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
     .def = "0",
     .min = 0,
     .max = 1,
     .below_max = true},
    {0},
};

static const char *const slot_names[] = {"momentum", NULL};

static int slots(const void *conf)
{
    return ((const struct conf *)conf)->momentum > 0;
}

SW_KERNEL static bool plain(const void *constants, const struct sw_update_block *b)
{
    const struct sw_sgd k = *(const struct sw_sgd *)constants;
    return sw_update_each(b, 0, sw_sgd_plain, &k);
}

SW_KERNEL static bool with_momentum(const void *constants, const struct sw_update_block *b)
{
    const struct sw_sgd k = *(const struct sw_sgd *)constants;
    return sw_update_each(b, 1, sw_sgd_momentum, &k);
}

static const struct sw_update_formula without = {"sgd_plain", sizeof(struct sw_sgd), plain};
static const struct sw_update_formula with = {"sgd_momentum", sizeof(struct sw_sgd), with_momentum};

static void apply(const void *conf, const struct sw_update_args *a)
{
    const struct conf *c = conf;
    struct sw_sgd k = {.lr = a->lr, .decay = a->weight_decay, .momentum = (float)c->momentum};
    sw_update_blocks(a, slots(conf) ? &with : &without, &k);
}

extern const struct sw_updater sw_updater_sgd;
const struct sw_updater sw_updater_sgd = {
    .base = {.name = "sgd",
             .help = "stochastic gradient descent with momentum and weight decay",
             .opts = opts,
             .conf_bytes = sizeof(struct conf)},
    .slots = slots,
    .slot_names = slot_names,
    .apply = apply,
};
