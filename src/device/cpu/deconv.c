/* What the CPU contributes to transposed convolutions (device/deconv.h). The bias is added by the
 * kernels of batch normalization with mean 0 and factor 1. */
#include "device/deconv.h"
#include "device/cpu/cpu.h"
#include "kernels/cpu/kernels.h"

static int reorder(struct sw_plan *p, const struct sw_desc *from, const void *src,
                   const struct sw_desc *to, void *dst, struct sw_err *err)
{
    sw_cpu_reorder(sw_cpu_threads(p->stream), from, src, to, dst);
    return SW_OK;
}

static int add_bias(struct sw_plan *p, const struct sw_plan_args *a, void *room, struct sw_err *err)
{
    struct sw_channels k;
    int64_t channels = p->dst.dim[1];
    float *zero = room, *one = zero + channels;
    bool known = sw_channels_of(&p->dst, &k);

    (void)known; /* always true for layouts that makers choose */

    for (int64_t c = 0; c < channels; c++) {
        zero[c] = 0;
        one[c] = 1;
    }

    sw_kernel_channel_apply(
        sw_cpu_threads(p->stream), &k,
        &(struct sw_kernel_norm){
            .x = a->dst, .mean = zero, .factor = one, .bias = a->bias, .out = a->dst});
    return SW_OK;
}

size_t sw_cpu_bias_room(const struct sw_desc *dst)
{
    return (2 + 2 * SW_CHANNEL_PARTS) * (size_t)dst->dim[1] * sizeof(double);
}

void sw_cpu_bias_gradient(int threads, const struct sw_desc *dst, const float *diff_dst, void *room,
                          float *diff_bias)
{
    struct sw_channels k;
    int64_t channels = dst->dim[1];
    double *sums = room, *parts = sums + 2 * channels;
    bool known = sw_channels_of(dst, &k);

    (void)known; /* always true for layouts that makers choose */
    sw_kernel_channel_sums(threads, &k, &(struct sw_kernel_norm){.x = diff_dst}, parts, sums);
    for (int64_t c = 0; c < channels; c++)
        diff_bias[c] = (float)sums[c];
}

static int bias_gradient(struct sw_plan *p, const struct sw_plan_args *a, void *room,
                         struct sw_err *err)
{
    sw_cpu_bias_gradient(sw_cpu_threads(p->stream), &p->dst, a->diff_dst, room, a->diff_bias);
    return SW_OK;
}

int sw_cpu_deconvolution(const struct sw_plan_request *q, const struct sw_desc *image,
                         struct sw_plan **out, struct sw_err *err)
{
    static const struct sw_deconv_device cpu = {64, reorder, add_bias, bias_gradient};
    return sw_deconv_new(q, image, &cpu, q->shape.conv->bias ? sw_cpu_bias_room(image) : 0, out,
                         err);
}
