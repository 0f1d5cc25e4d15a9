/* Stochastic gradient descent with momentum and weight decay, in Caffe's form (Jia et al. 2014, the
 * solver's SGD): the rate is inside the velocity, so a change of rate acts on new gradients only.
 *
 *     v = momentum v + lr (scale g + weight_decay w)
 *     w = w - v
 *
 * A zero with zero gradient and zero velocity stays zero: padding may be updated too. */
#ifndef SW_KERNELS_UPDATERS_SGD_H
#define SW_KERNELS_UPDATERS_SGD_H

#include "kernels/updaters/formula.h"

/* lr * (scale g + weight_decay w) */
SW_FORMULA float sw_sgd_delta(float w, float g, float scale, float lr, float weight_decay)
{
    return lr * (scale * g + weight_decay * w);
}

/* Without momentum, which needs no velocity: the new w. */
SW_FORMULA float sw_sgd_plain(float w, float g, float scale, float lr, float weight_decay)
{
    return w - sw_sgd_delta(w, g, scale, lr, weight_decay);
}

/* With momentum: the new w; *v is changed. */
SW_FORMULA float sw_sgd_momentum(float w, float *v, float g, float scale, float lr,
                                 float weight_decay, float momentum)
{
    *v = momentum * *v + sw_sgd_delta(w, g, scale, lr, weight_decay);
    return w - *v;
}

#endif
