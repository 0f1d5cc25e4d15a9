/* Adagrad: Duchi, Hazan and Singer, "Adaptive subgradient methods for online learning and
 * stochastic optimization" (JMLR 2011), figure 1 with the diagonal matrix H = delta + diag(s):
 *
 *     g = g + decay w
 *     h = h + g^2
 *     w = w - lr g / (sqrt(h) + delta)
 *
 * The same as in Caffe and PyTorch; SINGA 0.3 adds delta under the root. */
#pragma once

#include "kernels/updaters/formula.h"

struct sw_adagrad {
    float lr, decay, delta;
};

/* s0 is the sum of squares; delta is above 0. */
SW_FORMULA struct sw_element sw_adagrad_step(const void *constants, struct sw_element c, float g)
{
    const struct sw_adagrad *k = (const struct sw_adagrad *)constants;

    g += k->decay * c.w;
    c.s0 += g * g;
    c.w -= k->lr * g / (sqrtf(c.s0) + k->delta);

    return c;
}
