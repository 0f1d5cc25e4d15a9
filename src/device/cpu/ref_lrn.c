/* Local response normalization on plain planes, and within channels also on blocked channels, for
 * reference and oneDNN plans; sources in other layouts are copied. Forward saves the scale of every
 * element. Padding channels stay zero. */
#include "base/os.h"
#include "device/cpu/ref.h"
#include "kernels/cpu/kernels.h"

struct lrn {
    struct sw_ref_plan ref;
    struct sw_kernel_lrn shape;
    bool training;
    size_t ratio_offset, diff_offset; /* diff_offset: the gradient, if the source is copied */
};

static int forward(struct sw_plan *p, const struct sw_plan_args *a, struct sw_err *err)
{
    const struct lrn *l = (const struct lrn *)p;
    const float *src = sw_ref_source(&l->ref, a);
    sw_kernel_lrn(l->ref.threads, &l->shape, src, a->dst, l->training ? a->saved : NULL);
    return SW_OK;
}

static int backward_data(struct sw_plan *p, const struct sw_plan_args *a, struct sw_err *err)
{
    const struct lrn *l = (const struct lrn *)p;
    const float *src = sw_ref_source(&l->ref, a);
    float *diff = l->ref.copied ? sw_ref_scratch(a, l->diff_offset) : a->diff_src;

    sw_kernel_lrn_backward(l->ref.threads, &l->shape, src, a->saved, a->diff_dst,
                           sw_ref_scratch(a, l->ratio_offset), diff);
    if (l->ref.copied)
        sw_cpu_reorder(l->ref.threads, &l->ref.plain, diff, &p->src, a->diff_src);

    return SW_OK;
}

static const struct sw_plan_ops ops = {
    .forward = forward,
    .backward_data = backward_data,
    .free = sw_ref_plan_free,
};

int sw_ref_lrn(const struct sw_plan_request *q, struct sw_plan **out, struct sw_err *err)
{
    const struct sw_desc *src = q->src;
    const struct sw_lrn_shape *shape = q->shape.lrn;
    const struct sw_plan_passes passes = q->passes;
    struct lrn *l = sw_ref_plan_new(sizeof *l, &ops, q, "direct");
    if (!l)
        return sw_err_nomem(err, "lrn plan", sizeof *l);

    struct sw_plan *p = &l->ref.base;
    int block = shape->within_channel ? sw_desc_channel_block(src) : 0;
    if (block) {
        l->ref.copied = false;
        p->scratch_bytes = 0;
    }

    p->dst = block ? *src : l->ref.plain;
    p->backward_reads_src = passes.backward_data;
    l->shape = (struct sw_kernel_lrn){.within_channel = shape->within_channel,
                                      .planes = src->dim[0],
                                      .channels = src->dim[1],
                                      .height = src->dim[2],
                                      .width = src->dim[3],
                                      .lanes = block ? block : 1,
                                      .size = shape->size,
                                      .alpha = shape->alpha,
                                      .beta = shape->beta,
                                      .k = shape->k};
    if (shape->within_channel)
        l->shape.planes *= p->dst.padded[1] / l->shape.lanes;
    l->training = passes.training || passes.backward_data;

    size_t bytes = sw_desc_bytes(&p->dst);
    if (l->training)
        p->saved_bytes = bytes;
    if (passes.backward_data)
        l->ratio_offset = sw_cpu_reserve(p, bytes);
    if (passes.backward_data && l->ref.copied)
        l->diff_offset = sw_cpu_reserve(p, bytes);
    *out = p;

    return SW_OK;
}
