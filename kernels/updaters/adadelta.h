/* AdaDelta: Zeiler, "ADADELTA: an adaptive learning rate method" (2012), algorithm 1:
 *
 *     g = g + decay w
 *     h = rho h + (1 - rho) g^2
 *     d = sqrt(u + delta) / sqrt(h + delta) g
 *     u = rho u + (1 - rho) d^2
 *     w = w - lr d
 *
 * The paper has no learning rate, which is lr = 1. The rate multiplies only the step, as in Caffe
 * and PyTorch. */
#pragma once

#include "kernels/updaters/formula.h"

struct sw_adadelta {
    float lr, decay, rho, one_minus_rho, delta;
};

/* s0 is the mean square of gradients, s1 that of steps; delta is above 0. */
SW_FORMULA struct sw_element sw_adadelta_step(const void *constants, struct sw_element c, float g)
{
    const struct sw_adadelta *k = (const struct sw_adadelta *)constants;

    g += k->decay * c.w;
    c.s0 = k->rho * c.s0 + k->one_minus_rho * g * g;

    float d = sqrtf(c.s1 + k->delta) / sqrtf(c.s0 + k->delta) * g;
    c.s1 = k->rho * c.s1 + k->one_minus_rho * d * d;
    c.w -= k->lr * d;

    return c;
}
