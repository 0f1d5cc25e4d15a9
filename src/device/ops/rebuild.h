/* Computes gradients of a fully-connected layer from their factors, in host memory: the gradient of
 * the weights is the sum over the rows r of a batch of dy[r]^T x[r], that of the bias the sum of
 * dy[r] (Poseidon, equation 5). Tiles depend on the shape only, so the result does not depend on
 * the OpenMP team. Any thread. */
#pragma once

#include "kernels/precision.h"
#include <stdint.h>

/* The factors of a layer: x [rows, inputs], and dy [rows, outputs] with a row stride of dy_step
 * elements. */
struct sw_rebuild {
    const float *x, *dy;
    int64_t dy_step, rows, outputs, inputs;
};
/* Computes dw [outputs, inputs] from the factors, which are rounded to the precision. */
void sw_rebuild_weight(enum sw_precision precision, const struct sw_rebuild *f, float *dw);
/* db [outputs] */
void sw_rebuild_bias(const float *dy, int64_t dy_step, int64_t rows, int64_t outputs, float *db);
