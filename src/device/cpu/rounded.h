/* Matrix products and plans whose operands are rounded first (kernels/precision.h), on top of
 * products and plans that compute in fp32. Internal to device/cpu and to the operations that
 * multiply. */
#pragma once

#include "device/plan.h"
#include "kernels/precision.h"
#include "kernels/product.h"

/* The product with both factors rounded to the precision (fp32: not rounded). Runs on the calling
 * thread and uses 192 KiB of its stack. */
void sw_cpu_gemm(enum sw_precision precision, struct sw_product p);

/* Makers that round the operands and then use the makers of the stream's device
 * (sw_cpu_device.exact). Transposed convolutions need none, since they use convolution plans. */
sw_plan_maker sw_cpu_rounded_plan;
