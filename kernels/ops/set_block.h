/* Copies a plain matrix, or its transpose, into a block of a larger one. */
#pragma once

#include "kernels/op.h"

struct sw_set_block_args {
    bool transposed;       /* x is [columns, rows] */
    int64_t rows, columns; /* of the block */
    int64_t width;         /* columns of y */
    const float *x;
    float *y; /* first element of the block */
};
extern const struct sw_op sw_op_set_block; /* y[r, c] = x[r, c], or x[c, r] */
