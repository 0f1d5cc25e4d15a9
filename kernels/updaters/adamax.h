/* AdaMax: Kingma and Ba, "Adam: a method for stochastic optimization" (2015), algorithm 2, for
 * update t = 1, 2, ...:
 *
 *     g = g + decay w
 *     m = beta1 m + (1 - beta1) g
 *     u = max(beta2 u, |g|)
 *     w = w - lr / (1 - beta1^t) m / u
 *
 * As in the paper, u may be zero: an element that never had a gradient does not change. PyTorch
 * adds a small number to |g|; SINGA 0.3 has no bias correction. */
#pragma once

#include "kernels/updaters/formula.h"

struct sw_adamax {
    float decay, beta1, one_minus_beta1, beta2;
    float step; /* lr / (1 - beta1^t) */
};

/* s0 is m, s1 is u. */
SW_FORMULA struct sw_element sw_adamax_step(const void *constants, struct sw_element c, float g)
{
    const struct sw_adamax *k = (const struct sw_adamax *)constants;

    g += k->decay * c.w;

    float size = fabsf(g), faded = k->beta2 * c.s1;
    c.s0 = k->beta1 * c.s0 + k->one_minus_beta1 * g;
    c.s1 = faded > size ? faded : size;
    c.w -= k->step * c.s0 / (c.s1 > 0 ? c.s1 : 1.0f);

    return c;
}
