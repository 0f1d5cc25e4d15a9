/* Products of plain, dense matrices. Results do not depend on the number of threads. */
#pragma once

#include "kernels/op.h"

struct sw_gemm_args {
    bool trans_a, trans_b;
    int64_t m, n, k;
    float alpha, beta;
    const float *a, *b;
    float *c;
    bool exact; /* do not round factors, whatever the precision: for exact counts and sums */
};
extern const struct sw_op sw_op_gemm; /* c [m, n] = alpha op(a) [m, k] op(b) [k, n] + beta c */
