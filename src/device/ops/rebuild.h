/* Gradients of a fully-connected layer out of their factors, on host memory: of rows r of a batch
 * the weights' gradient is the sum of dy[r]^T x[r], the bias's that of dy[r] (Poseidon, equation
 * 5). Cut into tiles that depend on the shape only, so that the calling thread's OpenMP team makes
 * no difference. Any thread. */
#pragma once

#include "kernels/precision.h"
#include <stdint.h>

/* dw [outputs, inputs] of x [rows, inputs] and dy [rows, outputs], whose rows are dy_step apart;
 * both are rounded to what products of the job read. */
void sw_rebuild_weight(enum sw_precision precision, const float *x, const float *dy,
                       int64_t dy_step, int64_t rows, int64_t outputs, int64_t inputs, float *dw);
/* db [outputs] */
void sw_rebuild_bias(const float *dy, int64_t dy_step, int64_t rows, int64_t outputs, float *db);
