/* Matrix products and plans whose operands are rounded first (kernels/precision.h), on top of
 * products and plans that compute in fp32. Internal to device/cpu and to the operations that
 * multiply. */
#pragma once

#include "device/plan.h"
#include "kernels/precision.h"

/* c = alpha op(a) op(b) + beta c with a and b rounded to the precision (fp32: not rounded); shapes
 * as for sw_cpu_sgemm. Runs on the calling thread and uses 192 KiB of its stack. */
void sw_cpu_gemm(enum sw_precision precision, bool trans_a, bool trans_b, int64_t m, int64_t n,
                 int64_t k, float alpha, const float *a, int64_t lda, const float *b, int64_t ldb,
                 float beta, float *c, int64_t ldc);

/* Makers that round the operands and then use the makers of the stream's device
 * (sw_cpu_device.exact). Transposed convolutions need none, since they use convolution plans. */
sw_plan_maker sw_cpu_rounded_plan;
