/* Recipes of random stacks of restricted Boltzmann machines, with 8-bit images as probabilities:
 * chains that begin at the data or are persistent, sampled data, units of both kinds. Include once
 * per program. */
#pragma once

#include "unit/device/device_support.h"

#include "base/os.h"
#include "base/str.h"

/* Machine number i of the stack reads the layer `src`. A machine above another is gaussian at
 * times, and then learns slowly. */
static inline void add_machine(struct sw_bytes *b, struct rng *r, int i, const char *src,
                               bool binary)
{
    bool gaussian = i > 0 && rng_int(r, 0, 1), persistent = rng_int(r, 0, 2) == 0;
    sw_bytes_printf(b, "[layer vis%d]\ntype = rbm_visible\nsrc = %s\n%s", i, src,
                    binary ? "binary = yes\n" : "");
    sw_bytes_printf(b,
                    "[layer hid%d]\ntype = rbm_hidden\nsrc = vis%d\nhidden = %d\nk = %d\n"
                    "weight.init = gaussian\nweight.std = 0.1\n%s%s%s",
                    i, i, (int)rng_int(r, 5, 17), (int)rng_int(r, 1, 3),
                    persistent ? "persistent = yes\n" : "", gaussian ? "units = gaussian\n" : "",
                    !gaussian && rng_int(r, 0, 2) == 0 ? "sparsity = 0.2\n" : "");
    sw_bytes_printf(b,
                    "[layer down%d]\ntype = rbm_visible\nsrc = vis%d, hid%d\ninclude = eval\n"
                    "[layer error%d]\ntype = reconstruction_error\nsrc = down%d, vis%d\n"
                    "include = eval\n",
                    i, i, i, i, i, i);
    if (gaussian)
        sw_bytes_printf(b, "[updater *%d.*]\nlr_mult = 0.1\n", i);
}

/* The layers of stack number `seed`; owned by the caller (sw_free). */
static inline char *random_machines_for(uint64_t seed)
{
    struct sw_bytes b = {0};
    struct rng r = rng_of(32000 + seed);
    sw_bytes_add(&b, "[layer image]\ntype = input\nfield = image\n");
    add_machine(&b, &r, 0, "image", rng_int(&r, 0, 1));
    if (rng_int(&r, 0, 1))
        add_machine(&b, &r, 1, "hid0", false);
    return sw_bytes_take(&b);
}
