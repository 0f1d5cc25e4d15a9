/* Update control, for C and nvcc: an update is dropped if a gradient or a loss is not finite, and
 * its gradients are scaled if their norm is too large (Pascanu et al., "On the difficulty of
 * training recurrent neural networks", 2013, algorithm 1). Servers on the host and devices compute
 * the same bits.
 *
 * Sums of squares are in double and in a fixed order: blocks of SW_NORM_BLOCK elements, counted
 * from the first element of the parameter, each summed in SW_NORM_LANES lanes that are added in
 * order; then groups of SW_NORM_GROUP blocks, then the groups. Squares of floats are exact in
 * double and do not overflow. */
#pragma once

#include "kernels/updaters/formula.h"
#include <stdint.h>

enum { SW_NORM_BLOCK = 1024, SW_NORM_LANES = 16, SW_NORM_GROUP = 256 };

/* The inputs of the decision. */
struct sw_update_control_input {
    double loss_scale; /* factor of the gradients; 1: none */
    double vetoes;     /* workers that request to drop the update: their loss is not finite */
};

struct sw_update_control_result {
    double
        grad_norm; /* norm of all gradients after clipping by value and before clipping by norm */
    double loss_scale; /* as in struct sw_update_control_input */
    float scale;       /* factor for the gradients: clipping by norm, divided by the loss scale */
    int32_t bad_param; /* first parameter whose gradient is not finite; -1: none */
    int32_t dropped;   /* whether the update is dropped */
    int32_t vetoed;    /* whether a worker requested to drop it */
};

/* Returns the number of blocks of n elements. */
SW_FORMULA int64_t sw_norm_blocks(int64_t n)
{
    return (n + SW_NORM_BLOCK - 1) / SW_NORM_BLOCK;
}

/* Returns the sum over the first group of `blocks` blocks. */
SW_FORMULA double sw_norm_group(const double *squares, int64_t blocks)
{
    double sum = 0;
    for (int64_t b = 0; b < blocks && b < SW_NORM_GROUP; b++)
        sum += squares[b];
    return sum;
}

/* Returns the sum over all blocks of a parameter. */
SW_FORMULA double sw_norm_total(const double *squares, int64_t blocks)
{
    double sum = 0;
    for (int64_t b = 0; b < blocks; b += SW_NORM_GROUP)
        sum += sw_norm_group(squares + b, blocks - b);
    return sum;
}

/* Makes the decision. squares: sum of squares of each parameter's gradient, which includes the loss
 * scale; clip_norm 0: no limit. */
SW_FORMULA struct sw_update_control_result sw_update_control(const double *squares, int params,
                                                             struct sw_update_control_input known,
                                                             double clip_norm)
{
    struct sw_update_control_result d = {0, known.loss_scale, 1, -1, 0, known.vetoes > 0};
    double sum = 0;

    for (int p = 0; p < params; p++) {
        double square = squares[p];
        if (square - square != 0 && d.bad_param < 0) /* infinity - infinity is NaN */
            d.bad_param = p;
        sum += square;
    }

    d.grad_norm = sqrt(sum) / known.loss_scale;
    d.dropped = d.bad_param >= 0 || d.vetoed;
    if (clip_norm > 0 && d.grad_norm > clip_norm)
        d.scale = (float)(clip_norm / d.grad_norm);
    d.scale /= (float)known.loss_scale;

    return d;
}
