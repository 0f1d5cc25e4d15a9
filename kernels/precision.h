/* Precision: what products round their factors to. One setting of a device, `precision` in [job].
 *
 *   fp32   nothing is rounded
 *   tf32   10 bits of mantissa, a float's range
 *   bf16    7 bits of mantissa, a float's range
 *   fp16   10 bits of mantissa, 6e-8 to 65504: gradients need a loss scale (optim/loss_scale.h)
 *
 * What works in the type: both factors of every product. That is convolution, transposed
 * convolution and inner product, forward, to the source and to the weights; the products of
 * recurrent cells; and sw_op_gemm. Products are added up in fp32, and what comes out is fp32.
 * A float that a product reads is rounded on its way in (kernels/half.h: to the nearest, ties to
 * even), and only there.
 *
 * What stays fp32: features and gradients between layers, bias, activations, softmax, losses and
 * metrics, sums of normalisation and its running statistics, gradients of parameters and their sums
 * over workers, updaters with their state, and the parameters themselves. So the one value of a
 * parameter that is trained, saved and sent is its fp32 master; a product's copy of it in the type
 * is made by who multiplies.
 *
 * That copy:  on `cpu` and `sim` factors are rounded into scratch whenever a pass reads them, still
 * as floats, and the plan that computes in fp32 does the rest (device/cpu/rounded.c): numerics of
 * GPUs without their speed; but where the processor multiplies bf16 and oneDNN is there, that reads
 * 16 bits. On `cuda` weights become 16 bits once per version: the forward pass
 * converts them into what a plan saves for backward, which reads them from there; sources and
 * gradients are converted into scratch as they are read. Recurrent cells and sw_op_gemm leave the
 * conversion to cuBLAS. With tf32 the tensor cores round for themselves.
 *
 * The bits of one precision are not the same on all devices, since sums are added in another order,
 * but what is rounded is. Nothing of this depends on threads or workers, and evaluation rounds as
 * training does. */
#pragma once

#include <stdbool.h>

/* In the order of the recipe's choices. */
enum sw_precision { SW_PRECISION_FP32, SW_PRECISION_TF32, SW_PRECISION_BF16, SW_PRECISION_FP16 };

static inline const char *sw_precision_name(enum sw_precision p)
{
    static const char *const names[] = {"fp32", "tf32", "bf16", "fp16"};
    return names[p];
}

/* Is a factor 16 bits? */
static inline bool sw_precision_is_half(enum sw_precision p)
{
    return p == SW_PRECISION_BF16 || p == SW_PRECISION_FP16;
}
