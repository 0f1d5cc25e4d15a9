/* Transposed convolutions; device/deconv.h explains the passes. */
#include "device/deconv.h"
#include "base/os.h"
#include <stdio.h>

struct deconv {
    struct sw_plan base;  /* first member */
    struct sw_plan *conv; /* owned: from dst to src */
    const struct sw_deconv_device *device;
    bool copied;        /* src and the convolution's output differ in layout */
    size_t copy_offset; /* in scratch: the copy of the source */
    size_t room_offset; /* in scratch: for the bias */
};

static struct deconv *deconv_of(struct sw_plan *p)
{
    return (struct deconv *)(void *)p;
}

static void *at(const struct sw_plan_args *a, size_t offset)
{
    return (char *)a->scratch + offset;
}

/* Stores the source in the layout of the output of the convolution in *out. */
static int find_source(struct deconv *d, const struct sw_plan_args *a, const void **out,
                       struct sw_err *err)
{
    *out = d->copied ? at(a, d->copy_offset) : a->src;
    return d->copied ? d->device->reorder(&d->base, &d->base.src, a->src, &d->conv->dst,
                                          at(a, d->copy_offset), err)
                     : SW_OK;
}

static int forward(struct sw_plan *p, const struct sw_plan_args *a, struct sw_err *err)
{
    struct deconv *d = deconv_of(p);
    struct sw_plan_args inner = {.weight = a->weight, .diff_src = a->dst, .scratch = a->scratch};

    int rc = find_source(d, a, &inner.diff_dst, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_plan_backward_data(d->conv, &inner, err);
    if (rc != SW_OK)
        return rc;

    return p->bias.ndim ? d->device->add_bias(p, a, at(a, d->room_offset), err) : SW_OK;
}

static int backward_data(struct sw_plan *p, const struct sw_plan_args *a, struct sw_err *err)
{
    struct deconv *d = deconv_of(p);
    void *diff = d->copied ? at(a, d->copy_offset) : a->diff_src;
    struct sw_plan_args inner = {
        .src = a->diff_dst, .weight = a->weight, .dst = diff, .scratch = a->scratch};

    int rc = sw_plan_forward(d->conv, &inner, err);
    if (rc != SW_OK || !d->copied)
        return rc;

    return d->device->reorder(p, &d->conv->dst, diff, &p->src, a->diff_src, err);
}

static int backward_weights(struct sw_plan *p, const struct sw_plan_args *a, struct sw_err *err)
{
    struct deconv *d = deconv_of(p);
    struct sw_plan_args inner = {
        .src = a->diff_dst, .diff_weight = a->diff_weight, .scratch = a->scratch};

    int rc = find_source(d, a, &inner.diff_dst, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_plan_backward_weights(d->conv, &inner, err);
    if (rc != SW_OK)
        return rc;

    return p->bias.ndim ? d->device->bias_gradient(p, a, at(a, d->room_offset), err) : SW_OK;
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

static void describe(struct deconv *d, const struct sw_plan_request *q, size_t room_bytes)
{
    struct sw_plan *p = &d->base;

    p->weight = d->conv->weight;
    if (q->shape.conv->bias)
        p->bias = sw_desc_plain(SW_F32, 1, &q->shape.conv->outputs);
    p->dst = d->conv->src;
    p->backward_reads_src = q->passes.backward_weights;
    p->scratch_bytes = d->conv->scratch_bytes;
    d->copied = !sw_desc_equal(&p->src, &d->conv->dst);
    if (d->copied)
        d->copy_offset = sw_plan_reserve(p, sw_desc_bytes(&d->conv->dst), d->device->alignment);
    if (room_bytes)
        d->room_offset = sw_plan_reserve(p, room_bytes, d->device->alignment);
    snprintf(p->algorithm, sizeof p->algorithm, "%s", d->conv->algorithm);
}

int sw_deconv_new(const struct sw_plan_request *q, const struct sw_desc *image,
                  const struct sw_deconv_device *device, size_t room_bytes, struct sw_plan **out,
                  struct sw_err *err)
{
    struct sw_conv_shape shape = *q->shape.conv;
    /* Not training: the passes run in a different order. */
    const struct sw_plan_request inner = {
        .kind = SW_PLAN_CONVOLUTION,
        .stream = q->stream,
        .src = image,
        .dst_type = q->src->dtype,
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
    d->device = device;

    int rc = sw_plan_new(&inner, &d->conv, err);
    if (rc != SW_OK) {
        free_plan(&d->base);
        return rc;
    }

    describe(d, q, room_bytes);
    *out = &d->base;
    return SW_OK;
}
