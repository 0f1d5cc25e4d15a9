/* Precision: the type to which products round their factors, and in which a net stores its
 * activations. One setting per job, `precision` in [job].
 *
 *   fp32   nothing is rounded
 *   tf32   10 bits of mantissa, a float's range
 *   bf16    7 bits of mantissa, a float's range
 *   fp16   10 bits of mantissa, 6e-8 to 65504: gradients need a loss scale (optim/loss_scale.h)
 *
 * Rounded to the type: both factors of every product. These are convolution, transposed convolution
 * and inner product (forward, gradient of the source and gradient of the weights), the products of
 * recurrent cells, and sw_op_gemm. Products are summed in fp32. Rounding is to nearest, ties to
 * even (kernels/half.h).
 *
 * Stored in 16 bits with bf16 and fp16: the output of a layer, and its gradient, if the layer and
 * all its readers support it (enum sw_layer_halves in layers/layer.h; net/shape/setup.c decides).
 * Such a layer reads 16 bits, computes in fp32, and rounds each result once, when it is stored. So
 * the scores that a loss reads, for example, stay fp32; and so do partial sums and gradients that
 * workers add.
 *
 * Always fp32: bias, softmax, losses and metrics, recurrent cells between their products, sums and
 * running statistics of normalization, gradients of parameters and their sums over workers,
 * updaters with their state, and the parameters. So the value of a parameter that is trained, saved
 * and sent is its fp32 master copy; the product makes the copy in the type.
 *
 * On `cpu` and `sim` a pass converts activations to floats and rounds the factors in scratch
 * memory, and runs the fp32 plan or operation on them (device/converted.c, device/cpu/rounded.c,
 * device/ops/compute.c), which gives the numerics of GPUs without their speed. If the processor
 * multiplies bf16 and oneDNN is available, oneDNN reads 16 bits. On `cuda` weights are converted to
 * 16 bits once per version: the forward pass writes them to the saved data of the plan, from which
 * backward reads them. sw_op_gemm leaves the conversion to cuBLAS, as do recurrent cells that do
 * not run in one kernel. With tf32 the tensor cores round.
 *
 * Devices round at the same places but sum in different orders, so the bits of results differ
 * between devices. Where cuDNN or cuBLAS adds a bias to a result of 16 bits, it reads the bias
 * rounded to 16 bits; where no such engine exists, the result is rounded before the bias is added,
 * too. Rounding does not depend on threads or on workers that split a batch by rows, and is the
 * same in evaluation and training. */
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
