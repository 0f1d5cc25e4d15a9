/* A random orthogonal matrix: Saxe, McClelland and Ganguli, "Exact solutions to the nonlinear
 * dynamics of learning in deep linear neural networks" (2014). Every value depends on all others,
 * so it is computed as a whole; like all initial values it is a function of the key, in arithmetic
 * that is the same on every machine and for every number of threads. Host memory, any thread. */
#pragma once

#include "base/err.h"
#include "base/philox.h"

/* out [rows, columns] = gain Q, whose rows (columns, where there are more rows) are orthonormal:
 * drawn evenly from all such matrices. Takes min(rows, columns) max(rows, columns) doubles of
 * memory meanwhile, and uses the calling thread's OpenMP team. Errors: SW_ERR_NOMEM,
 * SW_ERR_CANCELLED (base/stop.h). */
int sw_fill_orthogonal(struct sw_philox key, int64_t rows, int64_t columns, double gain, float *out,
                       struct sw_err *err) SW_MUST_CHECK;
