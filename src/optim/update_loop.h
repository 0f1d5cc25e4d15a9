/* The loop that all updaters share: a formula (kernels/updaters/) over a block of elements. It is
 * inlined into the updater's function together with the formula, so that the compiler sees a single
 * plain loop over arrays and vectorizes it. An updater defines its loop with SW_UPDATE_FORMULA.
 *
 * Any thread. */
#pragma once

#include "kernels/cpu/kernel.h"
#include "kernels/updaters/finite.h"
#include "kernels/updaters/formula.h"
#include "optim/updater.h"

SW_KERNEL_INLINE uint32_t sw_larger(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

/* Updates a block with `slots` (0 to SW_UPDATER_SLOTS) state arrays. Returns true if a gradient or
 * a new value or state is not finite. */
SW_KERNEL_INLINE bool sw_update_each(const struct sw_update_block *b, int slots,
                                     sw_formula *formula, const void *constants)
{
    float *restrict w = b->value;
    float *restrict s0 = b->slot[0];
    float *restrict s1 = b->slot[1];
    const float *restrict g = b->gradient;
    const float scale = b->gradient_scale;
    uint32_t most = 0;

#ifdef _OPENMP /* the header must also compile without OpenMP */
#pragma omp simd reduction(max : most)
#endif
    for (int64_t i = 0; i < b->count; i++) {
        struct sw_element c = {w[i], slots > 0 ? s0[i] : 0, slots > 1 ? s1[i] : 0};

        c = formula(constants, c, scale * g[i]);
        w[i] = c.w;
        most = sw_larger(most, sw_larger(sw_magnitude(g[i]), sw_magnitude(c.w)));

        if (slots > 0) {
            s0[i] = c.s0;
            most = sw_larger(most, sw_magnitude(c.s0));
        }

        if (slots > 1) {
            s1[i] = c.s1;
            most = sw_larger(most, sw_magnitude(c.s1));
        }
    }

    return most >= SW_MAGNITUDE_INFINITE;
}

/* Defines `formula`, a struct sw_update_formula: the name that devices know it by, the number of
 * state arrays, the struct of the constants, and the step of one element. */
#define SW_UPDATE_FORMULA(formula, name, slots, constants_, step)                                  \
    SW_KERNEL static bool formula##_loop(const void *constants, const struct sw_update_block *b)   \
    {                                                                                              \
        const constants_ k = *(const constants_ *)constants;                                       \
        return sw_update_each(b, slots, step, &k);                                                 \
    }                                                                                              \
    static const struct sw_update_formula formula = {name, sizeof(constants_), formula##_loop};
