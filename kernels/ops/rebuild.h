/* Computes gradients of a fully-connected layer from their factors: the gradient of the weights is
 * the sum over the rows r of a batch of dy[r]^T x[r], that of the bias the sum of dy[r] (Poseidon,
 * equation 5). */
#pragma once

#include "kernels/op.h"

struct sw_rebuild_args {
    int64_t rows, outputs, inputs;
    int64_t dy_step;     /* elements from a row of dy to the next */
    const float *x, *dy; /* [rows, inputs], [rows, outputs]; x NULL: of the bias */
    float *out;          /* [outputs, inputs]; of the bias [outputs] */
};
extern const struct sw_op sw_op_rebuild; /* out = dy^T x, of factors rounded to the precision */
