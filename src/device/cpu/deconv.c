/* Transposed convolution by a convolution plan with its passes swapped (Caffe's
 * DeconvolutionLayer):
 *
 *   forward            dst = convolution's backward data of src, + bias
 *   backward data      diff_src = convolution of diff_dst
 *   backward weights   diff_weight = convolution's, of diff_dst as its source and src as its
 * gradient
 *
 * The convolution plan has one layout for its output, which is the source here; a source with
 * another layout is copied. The bias is added by the kernels of batch normalization with mean 0 and
 * factor 1. */
#include "base/os.h"
#include "device/cpu/cpu.h"
#include "kernels/cpu/kernels.h"
#include <stdio.h>

struct deconv {
    struct sw_plan base;   /* first member */
    struct sw_plan *conv;  /* owned: from dst to src */
    bool copied;           /* src and the convolution's output differ in layout */
    size_t copy_offset;    /* in scratch: the copy of the source */
    size_t channel_offset; /* in scratch: buffers for the bias */
    int threads;
};

static struct deconv *deconv_of(struct sw_plan *p)
{
    return (struct deconv *)(void *)p;
}

static void *at(const struct sw_plan_args *a, size_t offset)
{
    return (char *)a->scratch + offset;
}

/* Returns the source in the layout of the output of the convolution. */
static const float *source(const struct deconv *d, const struct sw_plan_args *a)
{
    if (!d->copied)
        return a->src;

    float *copy = at(a, d->copy_offset);
    sw_cpu_reorder(d->threads, &d->base.src, a->src, &d->conv->dst, copy);
    return copy;
}

static void add_bias(const struct deconv *d, const struct sw_plan_args *a)
{
    struct sw_channels k;
    int64_t channels = d->base.dst.dim[1];
    float *zero = at(a, d->channel_offset), *one = zero + channels;
    bool known = sw_channels_of(&d->base.dst, &k);

    (void)known; /* always true for layouts that makers choose */

    for (int64_t c = 0; c < channels; c++) {
        zero[c] = 0;
        one[c] = 1;
    }

    sw_kernel_channel_apply(
        d->threads, &k,
        &(struct sw_kernel_norm){
            .x = a->dst, .mean = zero, .factor = one, .bias = a->bias, .out = a->dst});
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

static int forward(struct sw_plan *p, const struct sw_plan_args *a, struct sw_err *err)
{
    struct deconv *d = deconv_of(p);
    struct sw_plan_args inner = {
        .diff_dst = source(d, a), .weight = a->weight, .diff_src = a->dst, .scratch = a->scratch};

    int rc = sw_plan_backward_data(d->conv, &inner, err);
    if (rc != SW_OK)
        return rc;

    if (p->bias.ndim)
        add_bias(d, a);
    return SW_OK;
}

static int backward_data(struct sw_plan *p, const struct sw_plan_args *a, struct sw_err *err)
{
    struct deconv *d = deconv_of(p);
    float *diff = d->copied ? at(a, d->copy_offset) : a->diff_src;
    struct sw_plan_args inner = {
        .src = a->diff_dst, .weight = a->weight, .dst = diff, .scratch = a->scratch};

    int rc = sw_plan_forward(d->conv, &inner, err);
    if (rc != SW_OK)
        return rc;

    if (d->copied)
        sw_cpu_reorder(d->threads, &d->conv->dst, diff, &p->src, a->diff_src);
    return SW_OK;
}

static int backward_weights(struct sw_plan *p, const struct sw_plan_args *a, struct sw_err *err)
{
    struct deconv *d = deconv_of(p);
    struct sw_plan_args inner = {.src = a->diff_dst,
                                 .diff_dst = source(d, a),
                                 .diff_weight = a->diff_weight,
                                 .scratch = a->scratch};

    int rc = sw_plan_backward_weights(d->conv, &inner, err);
    if (rc != SW_OK)
        return rc;

    if (p->bias.ndim)
        sw_cpu_bias_gradient(d->threads, &p->dst, a->diff_dst, at(a, d->channel_offset),
                             a->diff_bias);

    return SW_OK;
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

    p->weight = d->conv->weight;
    if (shape->bias)
        p->bias = sw_desc_plain(SW_F32, 1, &shape->outputs);
    p->dst = d->conv->src;
    p->backward_reads_src = passes.backward_weights;
    p->scratch_bytes = d->conv->scratch_bytes;
    d->copied = !sw_desc_equal(&p->src, &d->conv->dst);
    if (d->copied)
        d->copy_offset = sw_cpu_reserve(p, sw_desc_bytes(&d->conv->dst));
    if (shape->bias)
        d->channel_offset = sw_cpu_reserve(p, sw_cpu_bias_room(&p->dst));
    snprintf(p->algorithm, sizeof p->algorithm, "%s", d->conv->algorithm);
}

int sw_cpu_deconvolution(const struct sw_plan_request *q, const struct sw_desc *image,
                         struct sw_plan **out, struct sw_err *err)
{
    struct sw_conv_shape shape = *q->shape.conv;
    const struct sw_plan_request inner = {.kind = SW_PLAN_CONVOLUTION,
                                          .stream = q->stream,
                                          .src = image,
                                          .passes = {.backward_data = true,
                                                     .backward_weights = q->passes.backward_weights,
                                                     .training = q->passes.training},
                                          .shape.conv = &shape};

    shape.outputs = q->src->dim[1];
    shape.out_h = q->src->dim[2];
    shape.out_w = q->src->dim[3];
    shape.bias = shape.fuse_relu = false;

    struct deconv *d = sw_calloc(1, sizeof *d);
    if (!d)
        return sw_err_nomem(err, "a deconvolution plan", sizeof *d);

    d->base = (struct sw_plan){.ops = &ops, .stream = q->stream, .src = *q->src};
    d->threads = sw_cpu_threads(q->stream);

    int rc = sw_plan_new(&inner, &d->conv, err);
    if (rc != SW_OK) {
        free_plan(&d->base);
        return rc;
    }

    describe(d, q->shape.conv, q->passes);
    *out = &d->base;
    return SW_OK;
}
