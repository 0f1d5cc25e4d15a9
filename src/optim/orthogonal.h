/* A random orthogonal matrix: Saxe, McClelland and Ganguli, "Exact solutions to the nonlinear
 * dynamics of learning in deep linear neural networks" (2014). Every value depends on all others,
 * so the matrix is computed as a whole. Like all initial values it is a function of the key, with
 * the same bits on every machine and for every number of threads. Host memory, any thread. */
#pragma once

#include "base/err.h"
#include "base/philox.h"

/* Sets out [rows, columns] to gain Q, where the rows of Q (its columns if there are more rows) are
 * orthonormal; Q is uniformly distributed over all such matrices. Temporarily allocates rows *
 * columns doubles and uses the calling thread's OpenMP team. Errors: SW_ERR_NOMEM, SW_ERR_CANCELLED
 * (base/stop.h). */
int sw_fill_orthogonal(struct sw_philox key, int64_t rows, int64_t columns, double gain, float *out,
                       struct sw_err *err) SW_MUST_CHECK;
