/* Transposed convolution by a convolution plan with its passes swapped, as in device/cpu/deconv.c:
 * forward is that plan's backward data, backward data its forward, and backward weights passes the
 * gradient as the image. */
#include "base/os.h"
#include "device/cpu/cpu.h"
#include "device/cuda/plan_private.h"
#include <stdio.h>

struct deconv {
    struct sw_plan base;     /* first member */
    struct sw_plan *conv;    /* owned: from dst to src */
    struct sw_cuda_side src; /* source of this plan and output of the convolution */
    struct sw_channels dst_channels;
    size_t sums_offset; /* in scratch: for the bias gradient */
};

static struct deconv *deconv_of(struct sw_plan *p)
{
    return (struct deconv *)(void *)p;
}

static int forward(struct sw_plan *p, const struct sw_plan_args *a, struct sw_err *err)
{
    struct deconv *d = deconv_of(p);
    struct sw_cuda_launch l = sw_cuda_launch_of(p->stream);
    struct sw_plan_args inner = {.weight = a->weight, .diff_src = a->dst, .scratch = a->scratch};

    int rc = sw_cuda_side_in(p, &d->src, a, a->src, &inner.diff_dst, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_plan_backward_data(d->conv, &inner, err);
    if (rc != SW_OK)
        return rc;
    if (!p->bias.ndim)
        return SW_OK;

    return sw_cuda_plan_check(
        p, sw_cuda_channel_bias(&d->dst_channels, a->dst, a->bias, false, a->dst, &l), err);
}

static int backward_data(struct sw_plan *p, const struct sw_plan_args *a, struct sw_err *err)
{
    struct deconv *d = deconv_of(p);
    struct sw_plan_args inner = {.src = a->diff_dst,
                                 .weight = a->weight,
                                 .dst = sw_cuda_side_out(&d->src, a, a->diff_src),
                                 .scratch = a->scratch};

    int rc = sw_plan_forward(d->conv, &inner, err);
    if (rc != SW_OK)
        return rc;

    return sw_cuda_side_done(p, &d->src, a, a->diff_src, err);
}

static int bias_gradient(struct deconv *d, const struct sw_plan_args *a, struct sw_err *err)
{
    struct sw_cuda_launch l = sw_cuda_launch_of(d->base.stream);
    double *sums = sw_cuda_at(a, d->sums_offset), *parts = sums + 2 * d->base.dst.dim[1] + 1;

    return sw_cuda_plan_check(
        &d->base,
        sw_cuda_channel_sums(&d->dst_channels, a->diff_dst, NULL, parts, sums, a->diff_bias, &l),
        err);
}

static int backward_weights(struct sw_plan *p, const struct sw_plan_args *a, struct sw_err *err)
{
    struct deconv *d = deconv_of(p);
    struct sw_plan_args inner = {
        .src = a->diff_dst, .diff_weight = a->diff_weight, .scratch = a->scratch};

    int rc = sw_cuda_side_in(p, &d->src, a, a->src, &inner.diff_dst, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_plan_backward_weights(d->conv, &inner, err);
    if (rc != SW_OK)
        return rc;

    return p->bias.ndim ? bias_gradient(d, a, err) : SW_OK;
}

static void free_plan(struct sw_plan *p)
{
    sw_plan_free(deconv_of(p)->conv);
    sw_free(p);
}

static const struct sw_plan_ops ops = {.forward = forward,
                                       .backward_data = backward_data,
                                       .backward_weights = backward_weights,
                                       .free = free_plan};

static void describe(struct deconv *d, const struct sw_conv_shape *shape,
                     struct sw_plan_passes passes)
{
    struct sw_plan *p = &d->base;
    size_t doubles = (2 + 2 * SW_CHANNEL_PARTS) * (size_t)shape->outputs + 1;

    p->weight = d->conv->weight;
    if (shape->bias)
        p->bias = sw_desc_plain(SW_F32, 1, &shape->outputs);
    p->dst = d->conv->src;
    p->backward_reads_src = passes.backward_weights;
    p->scratch_bytes = d->conv->scratch_bytes;
    sw_cuda_side_init(p, &d->src, &p->src, &d->conv->dst);
    if (shape->bias && passes.backward_weights)
        d->sums_offset = sw_cuda_reserve(p, doubles * sizeof(double));
    snprintf(p->algorithm, sizeof p->algorithm, "%s", d->conv->algorithm);
}

int sw_cuda_deconvolution(const struct sw_plan_request *q, struct sw_plan **out, struct sw_err *err)
{
    struct sw_conv_shape shape = *q->shape.conv;
    const int64_t dim[] = {q->src->dim[0], shape.outputs, shape.out_h, shape.out_w};
    struct sw_desc image = sw_desc_plain(SW_F32, 4, dim);
    /* Not training: its passes run in a different order. */
    const struct sw_plan_request inner = {
        .kind = SW_PLAN_CONVOLUTION,
        .stream = q->stream,
        .src = &image,
        .passes = {.backward_data = true, .backward_weights = q->passes.backward_weights},
        .shape.conv = &shape};

    shape.outputs = q->src->dim[1];
    shape.out_h = q->src->dim[2];
    shape.out_w = q->src->dim[3];
    shape.bias = shape.fuse_relu = false;

    struct deconv *d = sw_calloc(1, sizeof *d);
    if (!d)
        return sw_err_nomem(err, "a deconvolution plan", sizeof *d);

    d->base = (struct sw_plan){.ops = &ops, .stream = q->stream, .src = *q->src};

    int rc = sw_plan_new(&inner, &d->conv, err);
    if (rc != SW_OK)
        goto fail;

    if (!sw_cuda_channels(&d->conv->src, &d->dst_channels)) {
        rc = sw_err_set(err, SW_ERR_UNSUPPORTED,
                        "deconvolution does not support images of 2^31 pixels or more");
        goto fail;
    }

    describe(d, q->shape.conv, q->passes);
    *out = &d->base;
    return SW_OK;

fail:
    free_plan(&d->base);
    return rc;
}
