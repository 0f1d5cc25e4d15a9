/* LARS, layer-wise adaptive rate scaling: You, Gitman and Ginsburg, "Large batch training of
 * convolutional networks" (2017), algorithm 1:
 *
 *     ratio = trust |w| / (|g| + decay |w|)        norms over the whole parameter
 *     v     = momentum v + lr ratio (g + decay w)
 *     w     = w - v
 *
 * If |w| or |g| is zero the ratio is 1, as in the authors' code: otherwise biases that start at
 * zero would never change. Except for the ratio LARS is sgd with momentum at the rate lr ratio
 * (sgd.h). */
#pragma once

#include "kernels/updaters/sgd.h"

SW_FORMULA double sw_lars_ratio(double trust, double decay, double value_norm, double gradient_norm)
{
    if (!(value_norm > 0) || !(gradient_norm > 0))
        return 1;
    return trust * value_norm / (gradient_norm + decay * value_norm);
}

/* Returns the constants k with an adapted rate, from the sums of squares of the value and of the
 * gradient, which will be multiplied by scale. */
SW_FORMULA struct sw_sgd sw_lars_adapt(struct sw_sgd k, double trust, double value_squares,
                                       double gradient_squares, float scale)
{
    double gradient_norm = sqrt(gradient_squares) * (double)scale;
    k.lr = (float)((double)k.lr *
                   sw_lars_ratio(trust, (double)k.decay, sqrt(value_squares), gradient_norm));
    return k;
}
