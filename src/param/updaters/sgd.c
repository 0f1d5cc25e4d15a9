/* sgd: stochastic gradient descent with momentum and weight decay. The formula and its source are
 * in kernels/updaters/sgd.h. Without momentum there is no state. */
#include "kernels/updaters/sgd.h"
#include "kernels/cpu/kernel.h"
#include "kernels/updaters/finite.h"
#include "param/updater.h"
#include <stddef.h>

struct conf {
    double momentum;
};

static const struct sw_opt opts[] = {
    {.key = "momentum",
     .help = "share of the last change that goes on",
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

SW_KERNEL static bool plain(float *restrict w, const float *restrict g, int64_t n, float scale,
                            float lr, float decay)
{
    uint32_t bad = 0;
#pragma omp simd reduction(| : bad)
    for (int64_t i = 0; i < n; i++) {
        w[i] = sw_sgd_plain(w[i], g[i], scale, lr, decay);
        bad |= sw_non_finite(g[i]) | sw_non_finite(w[i]);
    }
    return bad;
}

SW_KERNEL static bool with_momentum(float *restrict w, float *restrict v, const float *restrict g,
                                    int64_t n, float scale, float lr, float decay, float momentum)
{
    uint32_t bad = 0;
#pragma omp simd reduction(| : bad)
    for (int64_t i = 0; i < n; i++) {
        w[i] = sw_sgd_momentum(w[i], &v[i], g[i], scale, lr, decay, momentum);
        bad |= sw_non_finite(g[i]) | sw_non_finite(w[i]);
    }
    return bad;
}

static bool range(const void *conf, const struct sw_update_args *a, int64_t from, int64_t to)
{
    float momentum = (float)((const struct conf *)conf)->momentum;
    float *w = a->value + from;
    const float *g = a->gradient + from;

    if (!slots(conf))
        return plain(w, g, to - from, a->gradient_scale, a->lr, a->weight_decay);
    return with_momentum(w, a->slot[0] + from, g, to - from, a->gradient_scale, a->lr,
                         a->weight_decay, momentum);
}

extern const struct sw_updater sw_updater_sgd;
const struct sw_updater sw_updater_sgd = {
    .base = {.name = "sgd",
             .help = "stochastic gradient descent with momentum and weight decay",
             .opts = opts,
             .conf_bytes = sizeof(struct conf)},
    .slots = slots,
    .slot_names = slot_names,
    .range = range,
};
