/* RMSProp: Tieleman and Hinton, "Neural networks for machine learning", lecture 6e (2012):
 *
 *     g = g + decay w
 *     h = rho h + (1 - rho) g^2
 *     w = w - lr g / (sqrt(h) + delta)
 *
 * The lecture has no delta; Caffe and PyTorch add it to the root, as here; SINGA 0.3 adds it under
 * the root. */
#pragma once

#include "kernels/updaters/formula.h"

struct sw_rmsprop {
    float lr, decay, rho, one_minus_rho, delta;
};

/* s0 is the mean square; delta is above 0. */
SW_FORMULA struct sw_element sw_rmsprop_step(const void *constants, struct sw_element c, float g)
{
    const struct sw_rmsprop *k = (const struct sw_rmsprop *)constants;

    g += k->decay * c.w;
    c.s0 = k->rho * c.s0 + k->one_minus_rho * g * g;
    c.w -= k->lr * g / (sqrtf(c.s0) + k->delta);

    return c;
}
