/* Recipes of random stacks of restricted Boltzmann machines, with 8-bit images as probabilities:
 * chains that begin at the data or are persistent, sampled data, units of both kinds; and deep
 * machines. Include once per program. */
#pragma once

#include "unit/device/device_support.h"

#include "base/os.h"
#include "base/str.h"

/* Machine number i of the stack reads the layer `src`. A machine above another is gaussian at
 * times, and then learns slowly. The hidden units of some depend on the image. */
static inline void add_machine(struct sw_bytes *b, struct rng *r, int i, const char *src,
                               bool binary)
{
    bool gaussian = i > 0 && rng_int(r, 0, 1), persistent = rng_int(r, 0, 2) == 0;
    const bool sparse = !gaussian && rng_int(r, 0, 2) == 0;
    const int k = (int)rng_int(r, 1, 3), hidden = (int)rng_int(r, 5, 17);
    const bool conditioned = !persistent && hidden % 3 == 0;
    char condition[32] = "";
    if (conditioned) {
        snprintf(condition, sizeof condition, ", bias%d\nconditioned = yes", i);
        sw_bytes_printf(b,
                        "[layer bias%d]\ntype = inner_product\nsrc = image\noutputs = %d\n"
                        "bias = no\nweight.init = gaussian\nweight.std = 0.01\n",
                        i, hidden);
    }
    sw_bytes_printf(b, "[layer vis%d]\ntype = rbm_visible\nsrc = %s\n%s", i, src,
                    binary ? "binary = yes\n" : "");
    sw_bytes_printf(b,
                    "[layer hid%d]\ntype = rbm_hidden\nsrc = vis%d%s\nhidden = %d\nk = %d\n"
                    "weight.init = gaussian\nweight.std = 0.1\n%s%s%s",
                    i, i, condition, hidden, k, persistent ? "persistent = yes\n" : "",
                    gaussian ? "units = gaussian\n" : "", sparse ? "sparsity = 0.2\n" : "");
    sw_bytes_printf(b,
                    "[layer down%d]\ntype = rbm_visible\nsrc = vis%d, hid%d\ninclude = eval\n"
                    "[layer error%d]\ntype = reconstruction_error\nsrc = down%d, vis%d\n"
                    "include = eval\n",
                    i, i, i, i, i, i);
    if (gaussian)
        sw_bytes_printf(b, "[updater *%d.*]\nlr_mult = 0.1\n", i);
}

/* A deep machine of two or three hidden layers. */
static inline void add_deep_machine(struct sw_bytes *b, struct rng *r, bool binary)
{
    const int layers = (int)rng_int(r, 2, 3), updates = (int)rng_int(r, 1, 4);
    const bool persistent = rng_int(r, 0, 1) == 0;
    sw_bytes_printf(b, "[layer hid0]\ntype = rbm_visible\nsrc = image\n%s",
                    binary ? "binary = yes\n" : "");
    for (int i = 1; i <= layers; i++)
        sw_bytes_printf(b,
                        "[layer hid%d]\ntype = rbm_hidden\nsrc = hid%d\nhidden = %d\nk = 2\n"
                        "mean_field = %d\nweight.init = gaussian\nweight.std = 0.1\n%s",
                        i, i - 1, (int)rng_int(r, 5, 17), updates,
                        persistent ? "persistent = yes\n" : "");
    sw_bytes_add(b, "[layer down]\ntype = rbm_visible\nsrc = hid0, hid1\ninclude = eval\n"
                    "[layer error]\ntype = reconstruction_error\nsrc = down, hid0\n"
                    "include = eval\n");
}

/* The layers of stack number `seed`; owned by the caller (sw_free). */
static inline char *random_machines_for(uint64_t seed)
{
    struct sw_bytes b = {0};
    struct rng r = rng_of(32000 + seed);
    sw_bytes_add(&b, "[layer image]\ntype = input\nfield = image\n");
    if (seed % 4 == 3) {
        add_deep_machine(&b, &r, rng_int(&r, 0, 1));
        return sw_bytes_take(&b);
    }

    add_machine(&b, &r, 0, "image", rng_int(&r, 0, 1));
    if (rng_int(&r, 0, 1))
        add_machine(&b, &r, 1, "hid0", false);
    return sw_bytes_take(&b);
}
