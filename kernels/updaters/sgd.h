/* Stochastic gradient descent with momentum and weight decay, in Caffe's form (Jia et al. 2014, the
 * solver's SGD): the rate is part of the velocity, so a change of the rate affects only new
 * gradients.
 *
 *     v = momentum v + lr (g + decay w)
 *     w = w - v
 *
 * PyTorch keeps the rate outside, v = momentum v + g + decay w, w = w - lr v, which is the same as
 * long as the rate does not change. */
#pragma once

#include "kernels/updaters/formula.h"

struct sw_sgd {
    float lr, decay, momentum;
};

/* The step without momentum, which needs no state. */
SW_FORMULA struct sw_element sw_sgd_plain(const void *constants, struct sw_element c, float g)
{
    const struct sw_sgd *k = (const struct sw_sgd *)constants;
    c.w -= k->lr * (g + k->decay * c.w);
    return c;
}

/* s0 is the velocity. */
SW_FORMULA struct sw_element sw_sgd_momentum(const void *constants, struct sw_element c, float g)
{
    const struct sw_sgd *k = (const struct sw_sgd *)constants;
    c.s0 = k->momentum * c.s0 + k->lr * (g + k->decay * c.w);
    c.w -= c.s0;
    return c;
}
