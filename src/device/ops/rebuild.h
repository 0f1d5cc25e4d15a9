/* Computes gradients of a fully-connected layer from their factors, in host memory: over rows r of
 * a batch the gradient of the weights is the sum of dy[r]^T x[r], that of the bias the sum of dy[r]
 * (Poseidon, equation 5). Tiles depend on the shape only, so the result does not depend on the
 * OpenMP team. Any thread. */
#pragma once

#include "kernels/precision.h"
#include <stdint.h>

/* dw [outputs, inputs] from x [rows, inputs] and dy [rows, outputs], whose rows begin dy_step
 * elements from one another; both are rounded to the precision of products. */
void sw_rebuild_weight(enum sw_precision precision, const float *x, const float *dy,
                       int64_t dy_step, int64_t rows, int64_t outputs, int64_t inputs, float *dw);
/* db [outputs] */
void sw_rebuild_bias(const float *dy, int64_t dy_step, int64_t rows, int64_t outputs, float *db);
