/* What is decided about an update that depends on all gradients, by C and by nvcc: it is dropped
 * when something is not finite, and scaled where the norm of all gradients is too large (Pascanu et
 * al., "On the difficulty of training recurrent neural networks", 2013, algorithm 1). Whoever
 * decides, servers on the host or a device, comes to the same bits.
 *
 * A sum of squares is double and has one order: blocks of SW_NORM_BLOCK elements, counted from a
 * parameter's first, each in SW_NORM_LANES lanes that are added in turn; blocks in groups of
 * SW_NORM_GROUP, and then the groups. Squares of floats are exact in double and do not overflow. */
#pragma once

#include "kernels/updaters/formula.h"
#include <stdint.h>

enum { SW_NORM_BLOCK = 1024, SW_NORM_LANES = 16, SW_NORM_GROUP = 256 };

/* What is known before. */
struct sw_deciding {
    double loss_scale; /* by which gradients come multiplied; 1: as they are */
    double vetoes;     /* of workers whose loss is not finite */
};

struct sw_decided {
    double grad_norm;  /* of all gradients as they are, clipped by value but not by norm */
    double loss_scale; /* as above */
    float scale;       /* of what the gradients are: clipping by norm, over the loss scale */
    int32_t bad_param; /* the first whose gradient is not finite; -1: none */
    int32_t dropped;   /* is the update dropped, */
    int32_t vetoed;    /* and did a worker say so? */
};

/* How many blocks n elements are. */
SW_FORMULA int64_t sw_norm_blocks(int64_t n)
{
    return (n + SW_NORM_BLOCK - 1) / SW_NORM_BLOCK;
}

/* The blocks of a group, from the first one of `blocks` on. */
SW_FORMULA double sw_norm_group(const double *squares, int64_t blocks)
{
    double sum = 0;
    for (int64_t b = 0; b < blocks && b < SW_NORM_GROUP; b++)
        sum += squares[b];
    return sum;
}

/* Of a whole parameter. */
SW_FORMULA double sw_norm_total(const double *squares, int64_t blocks)
{
    double sum = 0;
    for (int64_t b = 0; b < blocks; b += SW_NORM_GROUP)
        sum += sw_norm_group(squares + b, blocks - b);
    return sum;
}

/* squares: of each parameter's gradient, as it came; clip_norm 0: no limit. */
SW_FORMULA struct sw_decided sw_decide(const double *squares, int params, struct sw_deciding known,
                                       double clip_norm)
{
    struct sw_decided d = {0, known.loss_scale, 1, -1, 0, known.vetoes > 0};
    double sum = 0;
    for (int p = 0; p < params; p++) {
        double square = squares[p];
        if (square - square != 0 && d.bad_param < 0) /* infinity - infinity is not a number */
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
