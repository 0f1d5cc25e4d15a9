/* Operations on features, whose layouts matter. */
#include "device/cuda/ops.h"
#include "device/ops/batch_norm.h"
#include "device/ops/channels.h"
#include "device/ops/dropout.h"
#include "device/ops/elementwise.h"
#include "device/ops/part.h"
#include "device/ops/sparsity.h"
#include "kernels/axis.h"
#include <cuda_runtime_api.h>

/* ---- Layouts ---- */

bool sw_cuda_channels(const struct sw_desc *d, struct sw_kernel_channels *k)
{
    return d->ndim >= 2 && sw_op_channels(d, k) && k->row_stride <= INT32_MAX;
}

struct sw_cuda_layout sw_cuda_layout_of(const struct sw_desc *d)
{
    _Static_assert((int)SW_CUDA_DIMS == (int)SW_MAX_DIMS, "room for all dimensions");
    _Static_assert((int)SW_CUDA_FACTORS == (int)SW_MAX_BLOCKS + 1, "room for all factors");
    struct sw_cuda_layout l = {.ndim = d->ndim};
    for (int i = 0; i < d->ndim; i++) {
        struct sw_axis axis = sw_axis_of(d, i);
        l.axis[i].count = axis.count;
        for (int f = 0; f < axis.count; f++) {
            l.axis[i].extent[f] = axis.factor[f].extent;
            l.axis[i].stride[f] = axis.factor[f].stride;
        }
    }
    return l;
}

static bool is_padded(const struct sw_desc *d)
{
    return sw_desc_storage(d) != sw_desc_count(d);
}

/* Padding that no kernel visits. */
static int clear(const struct sw_cuda_launch *l, const struct sw_desc *d, const void *from,
                 void *to)
{
    return from == to || !is_padded(d) ? (int)cudaSuccess
                                       : (int)cudaMemsetAsync(to, 0, sw_desc_bytes(d), l->stream);
}

/* Everything of one tensor, to another of the same shape. */
static struct sw_cuda_box whole(const struct sw_desc *from, const struct sw_desc *to)
{
    struct sw_cuda_box b = {.from = sw_cuda_layout_of(from),
                            .to = sw_cuda_layout_of(to),
                            .element_bytes = (int)sw_dtype_bytes(from->dtype)};
    for (int i = 0; i < from->ndim; i++)
        b.size[i] = from->dim[i];
    return b;
}

int sw_cuda_reorder_as(const struct sw_cuda_launch *l, enum sw_cuda_conversion c,
                       const struct sw_desc *from, const void *src, const struct sw_desc *to,
                       void *dst)
{
    if (sw_desc_equal(from, to))
        return sw_cuda_convert(c, sw_desc_storage(to), src, dst, l);
    struct sw_cuda_box b = whole(from, to);
    int answer = clear(l, to, NULL, dst);
    return answer ? answer : sw_cuda_convert_box(c, &b, src, dst, l);
}

int sw_cuda_reorder(const struct sw_cuda_launch *l, const struct sw_desc *from, const void *src,
                    const struct sw_desc *to, void *dst)
{
    if (sw_desc_equal(from, to))
        return (int)cudaMemcpyAsync(dst, src, sw_desc_bytes(to), cudaMemcpyDefault, l->stream);
    struct sw_cuda_box b = whole(from, to);
    int answer = clear(l, to, NULL, dst);
    return answer ? answer : sw_cuda_copy_box(&b, src, dst, l);
}

/* ---- Parts and padding ---- */

static int part(const struct sw_cuda_launch *l, const void *args)
{
    const struct sw_part_args *a = args;
    struct sw_cuda_box b = {.from = sw_cuda_layout_of(&a->from),
                            .to = sw_cuda_layout_of(&a->to),
                            .add = a->add,
                            .element_bytes = 4};
    for (int i = 0; i < a->from.ndim; i++)
        b.size[i] = i == a->axis ? a->count : a->from.dim[i];
    b.from_at[a->axis] = a->from_at;
    b.to_at[a->axis] = a->to_at;
    return sw_cuda_copy_box(&b, a->src, a->dst, l);
}

static int zero_padding(const struct sw_cuda_launch *l, const void *args)
{
    const struct sw_zero_padding_args *a = args;
    struct sw_cuda_layout layout = sw_cuda_layout_of(&a->desc);
    return sw_cuda_zero_padding(&layout, a->desc.dim, a->desc.padded, a->x, l);
}

/* ---- Dropout ---- */

static int dropout(const struct sw_cuda_launch *l, const void *args)
{
    const struct sw_dropout_args *a = args;
    const struct sw_dropout *d = &a->dropout;
    struct sw_cuda_dropout k = {.d = {.key = d->key,
                                      .threshold = d->threshold,
                                      .scale = d->scale,
                                      .low_below = d->low_below,
                                      .low = d->low,
                                      .high = d->high,
                                      .std = d->std},
                                .first_channel = d->first_channel,
                                .channels = d->channels,
                                .step = a->step,
                                .x = a->x,
                                .y = a->y};
    if (!sw_cuda_channels(&a->desc, &k.k))
        return SW_CUDA_NO_KERNEL;
    int answer = clear(l, &a->desc, a->x, a->y);
    return answer ? answer : sw_cuda_dropout(&k, l);
}

/* ---- Batch normalisation ---- */

static bool batch_norm_of(const struct sw_batch_norm_args *a, struct sw_cuda_batch_norm *out)
{
    const struct sw_batch_norm *b = &a->b;
    *out = (struct sw_cuda_batch_norm){.eps = b->eps,
                                       .momentum = b->momentum,
                                       .relu = b->relu,
                                       .sums = b->sums,
                                       .sums_out = b->sums,
                                       .parts = b->scratch,
                                       .scale = b->scale,
                                       .bias = b->bias,
                                       .running_mean = b->running_mean,
                                       .running_variance = b->running_variance,
                                       .mean = b->mean,
                                       .inv_std = b->inv_std,
                                       .update_mean = b->update_mean,
                                       .update_variance = b->update_variance,
                                       .x = a->x,
                                       .dy = a->dy,
                                       .y = a->y,
                                       .dx = a->dx,
                                       .dscale = a->dscale,
                                       .dbias = a->dbias};
    if (b->scratch)
        out->factor = (float *)(void *)((char *)b->scratch + sw_batch_norm_parts(&b->desc));
    return sw_cuda_channels(&b->desc, &out->k);
}

static int batch_norm_sums(const struct sw_cuda_launch *l, const void *args)
{
    struct sw_cuda_batch_norm b;
    return batch_norm_of(args, &b)
               ? sw_cuda_channel_sums(&b.k, b.x, NULL, b.parts, b.sums_out, NULL, l)
               : SW_CUDA_NO_KERNEL;
}

static int batch_norm(const struct sw_cuda_launch *l, const void *args)
{
    struct sw_cuda_batch_norm b;
    return batch_norm_of(args, &b) ? sw_cuda_batch_norm(&b, l) : SW_CUDA_NO_KERNEL;
}

static int batch_norm_running(const struct sw_cuda_launch *l, const void *args)
{
    struct sw_cuda_batch_norm b;
    return batch_norm_of(args, &b) ? sw_cuda_batch_norm_running(&b, l) : SW_CUDA_NO_KERNEL;
}

static int batch_norm_sums_backward(const struct sw_cuda_launch *l, const void *args)
{
    struct sw_cuda_batch_norm b;
    return batch_norm_of(args, &b) ? sw_cuda_batch_norm_sums_backward(&b, l) : SW_CUDA_NO_KERNEL;
}

static int batch_norm_backward(const struct sw_cuda_launch *l, const void *args)
{
    struct sw_cuda_batch_norm b;
    return batch_norm_of(args, &b) ? sw_cuda_batch_norm_backward(&b, l) : SW_CUDA_NO_KERNEL;
}

/* ---- Sparsity ---- */

static int sparsity_sums(const struct sw_cuda_launch *l, const void *args)
{
    const struct sw_sparsity_args *a = args;
    struct sw_kernel_channels k;
    return sw_cuda_channels(&a->desc, &k)
               ? sw_cuda_channel_sums(&k, a->x, a->step, a->scratch, a->sums, NULL, l)
               : SW_CUDA_NO_KERNEL;
}

static bool sparsity_of(const struct sw_sparsity_args *a, struct sw_cuda_sparsity *out)
{
    *out = (struct sw_cuda_sparsity){.rho = a->rho,
                                     .beta = a->beta,
                                     .step = a->step,
                                     .sums = a->sums,
                                     .slope = a->slope,
                                     .result = a->result,
                                     .dy = a->dy,
                                     .dx = a->dx};
    return sw_cuda_channels(&a->desc, &out->k);
}

static int sparsity(const struct sw_cuda_launch *l, const void *args)
{
    struct sw_cuda_sparsity a;
    return sparsity_of(args, &a) ? sw_cuda_sparsity(&a, l) : SW_CUDA_NO_KERNEL;
}

static int sparsity_backward(const struct sw_cuda_launch *l, const void *args)
{
    struct sw_cuda_sparsity a;
    return sparsity_of(args, &a) ? sw_cuda_sparsity_backward(&a, l) : SW_CUDA_NO_KERNEL;
}

const struct sw_cuda_op sw_cuda_feature_ops[] = {
    {.op = &sw_op_part, .launch = part},
    {.op = &sw_op_clear_padding, .launch = zero_padding},
    {.op = &sw_op_drop, .launch = dropout},
    {.op = &sw_batch_norm_ops[SW_BATCH_NORM_SUMS], .launch = batch_norm_sums},
    {.op = &sw_batch_norm_ops[SW_BATCH_NORM_NORMALISE], .launch = batch_norm},
    {.op = &sw_batch_norm_ops[SW_BATCH_NORM_RUNNING], .launch = batch_norm_running},
    {.op = &sw_batch_norm_ops[SW_BATCH_NORM_SUMS_BACKWARD], .launch = batch_norm_sums_backward},
    {.op = &sw_batch_norm_ops[SW_BATCH_NORM_BACKWARD], .launch = batch_norm_backward},
    {.op = &sw_op_sparsity_sums, .launch = sparsity_sums},
    {.op = &sw_op_sparsity, .launch = sparsity},
    {.op = &sw_op_sparsity_gradient, .launch = sparsity_backward},
    {0},
};
