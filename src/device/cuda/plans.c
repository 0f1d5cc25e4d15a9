/* The table of plans, what they share, and the one that only changes a layout. */
#include "base/os.h"
#include "device/cpu/cpu.h"
#include "device/cuda/ops.h"
#include "device/cuda/plan_private.h"
#include <string.h>

size_t sw_cuda_reserve(struct sw_plan *p, size_t bytes)
{
    size_t offset =
        (p->scratch_bytes + SW_CUDA_ALIGN_BYTES - 1) / SW_CUDA_ALIGN_BYTES * SW_CUDA_ALIGN_BYTES;
    p->scratch_bytes = offset + bytes;
    return offset;
}

int sw_cuda_plan_check(struct sw_plan *p, int answer, struct sw_err *err)
{
    return sw_cuda_check(sw_cuda_device_of(p->stream->dev), answer, p->algorithm, err);
}

/* ---- Layouts ---- */

struct sw_desc sw_cuda_channels_last(const int64_t *dim)
{
    struct sw_desc d = sw_desc_plain(SW_F32, 4, dim);
    d.stride[1] = 1;
    d.stride[3] = dim[1];
    d.stride[2] = dim[1] * dim[3];
    d.stride[0] = dim[1] * dim[3] * dim[2];
    return d;
}

struct sw_desc sw_cuda_known_layout(const struct sw_desc *d)
{
    struct sw_kernel_channels k;
    return sw_cuda_channels(d, &k) ? *d : sw_desc_plain(d->dtype, d->ndim, d->dim);
}

struct sw_desc sw_cuda_layout_like(const struct sw_desc *kind, const int64_t *dim)
{
    int block = sw_desc_channel_block(kind);
    if (block)
        return sw_desc_blocked(SW_F32, kind->ndim, dim, 1, block);
    if (kind->ndim == 4 && !sw_desc_is_plain(kind))
        return sw_cuda_channels_last(dim);
    return sw_desc_plain(SW_F32, kind->ndim, dim);
}

/* ---- Sides ---- */

void sw_cuda_side_init(struct sw_plan *p, struct sw_cuda_side *side, const struct sw_desc *given,
                       const struct sw_desc *used)
{
    *side = (struct sw_cuda_side){
        .given = *given, .used = *used, .copied = !sw_desc_equal(given, used)};
    if (side->copied)
        side->offset = sw_cuda_reserve(p, sw_desc_bytes(used));
}

static int move(struct sw_plan *p, const struct sw_desc *from, const void *src,
                const struct sw_desc *to, void *dst, struct sw_err *err)
{
    struct sw_cuda_launch l = sw_cuda_launch_of(p->stream);
    int rc = sw_cuda_enter(sw_cuda_device_of(p->stream->dev), err);
    return rc == SW_OK ? sw_cuda_plan_check(p, sw_cuda_reorder(&l, from, src, to, dst), err) : rc;
}

int sw_cuda_side_in(struct sw_plan *p, const struct sw_cuda_side *side,
                    const struct sw_plan_args *a, const float *given, const float **used,
                    struct sw_err *err)
{
    float *copy = side->copied ? sw_cuda_at(a, side->offset) : NULL;
    *used = side->copied ? copy : given;
    return side->copied ? move(p, &side->given, given, &side->used, copy, err)
                        : sw_cuda_enter(sw_cuda_device_of(p->stream->dev), err);
}

float *sw_cuda_side_out(const struct sw_cuda_side *side, const struct sw_plan_args *a, float *given)
{
    return side->copied ? sw_cuda_at(a, side->offset) : given;
}

int sw_cuda_side_done(struct sw_plan *p, const struct sw_cuda_side *side,
                      const struct sw_plan_args *a, float *given, struct sw_err *err)
{
    return side->copied
               ? move(p, &side->used, sw_cuda_at(a, side->offset), &side->given, given, err)
               : SW_OK;
}

/* ---- Reorder ---- */

static int forward(struct sw_plan *p, const struct sw_plan_args *a, struct sw_err *err)
{
    return move(p, &p->src, a->src, &p->dst, a->dst, err);
}

static void free_plan(struct sw_plan *p)
{
    sw_free(p);
}

static const struct sw_plan_ops reorder_ops = {.forward = forward, .free = free_plan};

int sw_cuda_plan_reorder(struct sw_stream *s, const struct sw_desc *from, const struct sw_desc *to,
                         struct sw_plan **out, struct sw_err *err)
{
    int rc = sw_reorder_check(from, to, err);
    if (rc != SW_OK)
        return rc;
    struct sw_plan *p = sw_calloc(1, sizeof *p);
    if (!p)
        return sw_err_nomem(err, "reorder plan", sizeof *p);
    *p = (struct sw_plan){.ops = &reorder_ops, .stream = s, .src = *from, .dst = *to};
    strcpy(p->algorithm, "copy");
    *out = p;
    return SW_OK;
}

const struct sw_plan_makers sw_cuda_plans = {
    .convolution = sw_cuda_convolution,
    .deconvolution = sw_cuda_deconvolution,
    .pooling = sw_cuda_pooling,
    .lrn = sw_cuda_normalisation,
    .inner_product = sw_cuda_inner_product,
    .reorder = sw_cuda_plan_reorder,
};
