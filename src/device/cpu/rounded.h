/* Products whose factors are rounded first (kernels/precision.h), on plans and products that
 * compute in fp32. Internal to device/cpu and to the operations that multiply. */
#pragma once

#include "device/plan.h"
#include "kernels/precision.h"

/* sw_cpu_sgemm of rounded a and b; fp32 rounds nothing. On the calling thread, with 192 KiB of its
 * stack. */
void sw_cpu_gemm(enum sw_precision precision, bool trans_a, bool trans_b, int64_t m, int64_t n,
                 int64_t k, float alpha, const float *a, int64_t lda, const float *b, int64_t ldb,
                 float beta, float *c, int64_t ldc);

/* Makers that round what those of the stream's device (sw_cpu_device.exact) read. Transposed
 * convolutions are convolutions. */
int sw_cpu_rounded_convolution(struct sw_stream *s, const struct sw_desc *src,
                               const struct sw_conv_shape *shape, struct sw_plan_passes passes,
                               struct sw_plan **out, struct sw_err *err);
int sw_cpu_rounded_inner_product(struct sw_stream *s, const struct sw_desc *src,
                                 const struct sw_ip_shape *shape, struct sw_plan_passes passes,
                                 struct sw_plan **out, struct sw_err *err);
