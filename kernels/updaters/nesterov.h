/* Nesterov's accelerated gradient: Sutskever, Martens, Dahl and Hinton, "On the importance of
 * initialization and momentum in deep learning" (2013), equations 3 and 4, in the form of Bengio,
 * Boulanger-Lewandowski and Pascanu, "Advances in optimizing recurrent networks" (2012), equation
 * 7, whose parameters are those at which the gradient is taken:
 *
 *     v' = momentum v + lr (g + decay w)
 *     w  = w - ((1 + momentum) v' - momentum v)
 *
 * This is the form of Caffe and SINGA. PyTorch keeps the rate outside of v, which is the same as
 * long as the rate does not change. */
#pragma once

#include "kernels/updaters/formula.h"

struct sw_nesterov {
    float lr, decay, momentum;
};

/* s0 is the velocity. */
SW_FORMULA struct sw_element sw_nesterov_step(const void *constants, struct sw_element c, float g)
{
    const struct sw_nesterov *k = (const struct sw_nesterov *)constants;
    float v = k->momentum * c.s0 + k->lr * (g + k->decay * c.w);

    c.w -= (1 + k->momentum) * v - k->momentum * c.s0;
    c.s0 = v;
    return c;
}
