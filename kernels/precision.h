/* Precision: the type to which products round their factors. One setting per job, `precision` in
 * [job].
 *
 *   fp32   nothing is rounded
 *   tf32   10 bits of mantissa, a float's range
 *   bf16    7 bits of mantissa, a float's range
 *   fp16   10 bits of mantissa, 6e-8 to 65504: gradients need a loss scale (optim/loss_scale.h)
 *
 * Rounded to the type: both factors of every product. These are convolution, transposed convolution
 * and inner product (forward, gradient of the source and gradient of the weights), the products of
 * recurrent cells, and sw_op_gemm. Products are summed in fp32, and results are fp32. A product
 * rounds the floats that it reads (kernels/half.h: to nearest, ties to even); nothing else rounds.
 *
 * Always fp32: activations and gradients between layers, bias, activation functions, softmax,
 * losses and metrics, sums and running statistics of normalization, gradients of parameters and
 * their sums over workers, updaters with their state, and the parameters. So the value of a
 * parameter that is trained, saved and sent is its fp32 master copy; the product makes the copy in
 * the type.
 *
 * The copy: on `cpu` and `sim` every pass rounds the factors into scratch memory, still as floats,
 * and runs the fp32 plan on them (device/cpu/rounded.c), which gives the numerics of GPUs without
 * their speed. If the processor multiplies bf16 and oneDNN is available, oneDNN reads 16 bits. On
 * `cuda` weights are converted to 16 bits once per version: the forward pass writes them to the
 * saved data of the plan, from which backward reads them; sources and gradients are converted into
 * scratch memory when they are read. sw_op_gemm leaves the conversion to
 * cuBLAS, and recurrent cells where they do not run in one kernel, which rounds U and h itself.
 * With tf32 the tensor cores round. A convolution of cuDNN writes its results in 16 bits, too,
 * since the library has compiled engines only for these; they are stored as floats.
 *
 * Devices round the same values but sum them in different orders, so the bits of results differ
 * between devices. Rounding does not depend on threads or workers, and is the same in evaluation
 * and training. */
#pragma once

#include <stdbool.h>

/* In the order of the recipe's choices. */
enum sw_precision { SW_PRECISION_FP32, SW_PRECISION_TF32, SW_PRECISION_BF16, SW_PRECISION_FP16 };

static inline const char *sw_precision_name(enum sw_precision p)
{
    static const char *const names[] = {"fp32", "tf32", "bf16", "fp16"};
    return names[p];
}

/* Do factors have 16 bits? */
static inline bool sw_precision_is_half(enum sw_precision p)
{
    return p == SW_PRECISION_BF16 || p == SW_PRECISION_FP16;
}
