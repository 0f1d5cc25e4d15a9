/* Adam: Kingma and Ba, "Adam: a method for stochastic optimization" (2015), algorithm 1,
 * with bias correction, for update t = 1, 2, ...:
 *
 *     m = beta1 m + (1 - beta1) g
 *     v = beta2 v + (1 - beta2) g^2
 *     w = w - lr (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + delta)
 *
 * Weight decay is added to the gradient, g + decay w, as in PyTorch. Caffe adds delta to the root
 * before its correction, sqrt(v) + delta; SINGA 0.3 has no bias correction. */
#pragma once

#include "kernels/updaters/formula.h"

struct sw_adam {
    float lr, decay, beta1, one_minus_beta1, beta2, one_minus_beta2, delta;
    float step; /* lr / (1 - beta1^t) */
    float root; /* 1 / (1 - beta2^t) */
};

/* Returns what is subtracted from w, without decay; s0 is m, s1 is v; delta is above 0. */
SW_FORMULA float sw_adam_delta(const struct sw_adam *k, struct sw_element *c, float g)
{
    c->s0 = k->beta1 * c->s0 + k->one_minus_beta1 * g;
    c->s1 = k->beta2 * c->s1 + k->one_minus_beta2 * g * g;
    return k->step * c->s0 / (sqrtf(c->s1 * k->root) + k->delta);
}

SW_FORMULA struct sw_element sw_adam_step(const void *constants, struct sw_element c, float g)
{
    const struct sw_adam *k = (const struct sw_adam *)constants;
    c.w -= sw_adam_delta(k, &c, g + k->decay * c.w);
    return c;
}
