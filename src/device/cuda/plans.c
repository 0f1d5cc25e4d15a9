/* The table of makers, common functions of the plans, and the reorder plan. */
#include "base/os.h"
#include "device/cpu/cpu.h"
#include "device/cuda/plan_private.h"
#include <cuda_runtime_api.h>
#include <stdio.h>

size_t sw_cuda_reserve(struct sw_plan *p, size_t bytes)
{
    return sw_plan_reserve(p, bytes, SW_CUDA_ALIGN_BYTES);
}

int sw_cuda_plan_check(struct sw_plan *p, int status, struct sw_err *err)
{
    return sw_cuda_check(sw_cuda_device_of(p->stream->dev), status, p->algorithm, err);
}

/* ---- Layouts ---- */

struct sw_desc sw_cuda_known_layout(const struct sw_desc *d)
{
    struct sw_channels k;
    return sw_cuda_channels(d, &k) ? *d : sw_desc_plain(d->dtype, d->ndim, d->dim);
}

struct sw_desc sw_cuda_layout_like(const struct sw_desc *kind, const int64_t *dim)
{
    int block = sw_desc_channel_block(kind);
    if (block)
        return sw_desc_blocked(kind->dtype, kind->ndim, dim, 1, block);
    if (kind->ndim == 4 && !sw_desc_is_plain(kind)) {
        struct sw_desc last = sw_cuda_channels_last(dim);
        return sw_desc_as(&last, kind->dtype);
    }

    return sw_desc_plain(kind->dtype, kind->ndim, dim);
}

/* ---- Operands ---- */

enum sw_dtype sw_cuda_half_type(const struct sw_stream *s)
{
    return sw_cuda_device_of(s->dev)->precision == SW_PRECISION_BF16 ? SW_BF16 : SW_F16;
}

bool sw_cuda_reads_types(const struct sw_plan_request *q)
{
    const enum sw_dtype types[] = {q->src->dtype, q->dst_type};
    bool halves = sw_precision_is_half(sw_cuda_device_of(q->stream->dev)->precision);

    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i] != SW_F32 && (!halves || types[i] != sw_cuda_half_type(q->stream)))
            return false;

    return true;
}

static void init_side(struct sw_plan *p, struct sw_cuda_side *side, bool saved)
{
    size_t bytes = sw_desc_bytes(&side->used);

    side->copied = side->rounded || !sw_desc_equal(&side->given, &side->used);
    side->saved = saved && side->copied;
    if (side->saved) {
        side->offset = p->saved_bytes;
        p->saved_bytes += sw_aligned(bytes, SW_CUDA_ALIGN_BYTES);
    } else if (side->copied) {
        side->offset = sw_cuda_reserve(p, bytes);
    }
}

void sw_cuda_side_init(struct sw_plan *p, struct sw_cuda_side *side, const struct sw_desc *given,
                       const struct sw_desc *used)
{
    *side = (struct sw_cuda_side){.given = *given, .used = *used};
    init_side(p, side, false);
}

void sw_cuda_factor_init(struct sw_plan *p, struct sw_cuda_side *side, const struct sw_desc *given,
                         const struct sw_desc *used, enum sw_cuda_form form, bool saved)
{
    enum sw_dtype type = form == SW_CUDA_HALVES ? sw_cuda_half_type(p->stream) : SW_F32;

    *side = (struct sw_cuda_side){.given = *given,
                                  .used = sw_desc_as(used, type),
                                  .rounded = form == SW_CUDA_ROUNDED && given->dtype == SW_F32};
    init_side(p, side, saved);
}

static void *copy_of(const struct sw_cuda_side *side, const struct sw_plan_args *a)
{
    return (char *)(side->saved ? a->saved : a->scratch) + side->offset;
}

int sw_cuda_reorder_in_plan(struct sw_plan *p, const struct sw_desc *from, const void *src,
                            const struct sw_desc *to, void *dst, struct sw_err *err)
{
    struct sw_cuda_launch l = sw_cuda_launch_of(p->stream);

    int rc = sw_cuda_enter(sw_cuda_device_of(p->stream->dev), err);
    if (rc != SW_OK)
        return rc;

    return sw_cuda_plan_check(p, sw_cuda_reorder(&l, from, src, to, dst), err);
}

/* As reorder, and rounds floats to 16-bit precision. */
static int round_in_plan(struct sw_plan *p, const struct sw_desc *from, const void *src,
                         const struct sw_desc *to, void *dst, struct sw_err *err)
{
    struct sw_cuda_launch l = sw_cuda_launch_of(p->stream);
    enum sw_cuda_conversion c =
        sw_cuda_half_type(p->stream) == SW_BF16 ? SW_CUDA_ROUND_BF16 : SW_CUDA_ROUND_FP16;

    int rc = sw_cuda_enter(sw_cuda_device_of(p->stream->dev), err);
    if (rc != SW_OK)
        return rc;

    return sw_cuda_plan_check(p, sw_cuda_reorder_as(&l, c, from, src, to, dst), err);
}

int sw_cuda_side_in(struct sw_plan *p, const struct sw_cuda_side *side,
                    const struct sw_plan_args *a, const void *given, bool cached, const void **used,
                    struct sw_err *err)
{
    *used = side->copied ? copy_of(side, a) : given;
    if (!side->copied || cached)
        return sw_cuda_enter(sw_cuda_device_of(p->stream->dev), err);

    return (side->rounded ? round_in_plan : sw_cuda_reorder_in_plan)(
        p, &side->given, given, &side->used, copy_of(side, a), err);
}

void *sw_cuda_side_out(const struct sw_cuda_side *side, const struct sw_plan_args *a, void *given)
{
    return side->copied ? copy_of(side, a) : given;
}

int sw_cuda_side_done(struct sw_plan *p, const struct sw_cuda_side *side,
                      const struct sw_plan_args *a, void *given, struct sw_err *err)
{
    return side->copied
               ? sw_cuda_reorder_in_plan(p, &side->used, copy_of(side, a), &side->given, given, err)
               : SW_OK;
}

/* ---- Measured algorithms ---- */

/* The model of the GPU, since GPUs of one model share choices. */
static void name_model(const struct sw_cuda_device *d, char *out, size_t bytes)
{
    struct cudaDeviceProp prop;
    bool known = cudaGetDeviceProperties(&prop, d->gpu) == cudaSuccess;
    snprintf(out, bytes, "%.80s with %d processors", known ? prop.name : "cuda", d->processors);
}

int sw_cuda_tuned_plan(const struct sw_plan_request *q, const struct sw_cuda_tuned *t,
                       struct sw_plan **out, struct sw_err *err)
{
    struct sw_cuda_device *d = sw_cuda_device_of(q->stream->dev);
    struct sw_plan_request user = *q;
    struct sw_bytes key = {0};
    char model[SW_TUNE_KEY / 4];

    name_model(d, model, sizeof model);
    sw_bytes_printf(&key, "%s with factors of %s on %s, %s", t->what,
                    sw_precision_name(d->precision), model, t->library);

    const struct sw_tune_maker maker = {
        .key = sw_bytes_text(&key), .user = &user, .make = t->make, .list = t->list};
    int rc = key.failed ? sw_err_nomem(err, "key of measured algorithms", SW_TUNE_KEY)
                        : sw_tune_plan(q->stream, q->passes, &maker, out, err);
    sw_bytes_fini(&key);

    return rc;
}

/* ---- Reorder ---- */

static int forward(struct sw_plan *p, const struct sw_plan_args *a, struct sw_err *err)
{
    return sw_cuda_reorder_in_plan(p, &p->src, a->src, &p->dst, a->dst, err);
}

static void free_plan(struct sw_plan *p)
{
    sw_free(p);
}

static const struct sw_plan_ops reorder_ops = {.forward = forward, .free = free_plan};

int sw_cuda_plan_reorder(const struct sw_plan_request *q, struct sw_plan **out, struct sw_err *err)
{
    struct sw_plan *p = sw_calloc(1, sizeof *p);
    if (!p)
        return sw_err_nomem(err, "reorder plan", sizeof *p);

    *p = (struct sw_plan){.ops = &reorder_ops,
                          .stream = q->stream,
                          .src = *q->src,
                          .dst = *q->shape.to,
                          .algorithm = "copy"};
    *out = p;
    return SW_OK;
}

const struct sw_plan_makers sw_cuda_plans = {
    .make =
        {
            [SW_PLAN_CONVOLUTION] = sw_cuda_convolution,
            [SW_PLAN_DECONVOLUTION] = sw_cuda_deconvolution,
            [SW_PLAN_POOLING] = sw_cuda_pooling,
            [SW_PLAN_LRN] = sw_cuda_normalisation,
            [SW_PLAN_INNER_PRODUCT] = sw_cuda_inner_product,
            [SW_PLAN_REORDER] = sw_cuda_plan_reorder,
        },
    .halves = {[SW_PLAN_CONVOLUTION] = true,
               [SW_PLAN_DECONVOLUTION] = true,
               [SW_PLAN_POOLING] = true,
               [SW_PLAN_LRN] = true,
               [SW_PLAN_INNER_PRODUCT] = true,
               [SW_PLAN_REORDER] = true}};
