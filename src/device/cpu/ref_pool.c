/* Pooling on plain planes; max pooling saves the index of the maximum as int32. */
#include "base/os.h"
#include "device/cpu/ref.h"
#include "kernels/cpu/kernels.h"

struct pool {
    struct sw_ref_plan ref;
    struct sw_kernel_windows windows;
    int64_t planes;
    bool max, training;
    enum sw_pool_divisor divisor;
};

static int forward(struct sw_plan *p, const struct sw_plan_args *a, struct sw_err *err)
{
    const struct pool *c = (const struct pool *)p;
    const float *src = sw_ref_source(&c->ref, a);

    if (c->max)
        sw_kernel_max_pool(c->ref.threads, &c->windows, c->planes, src, a->dst,
                           c->training ? a->saved : NULL);
    else
        sw_kernel_avg_pool(c->ref.threads, &c->windows, c->planes, c->divisor, src, a->dst);

    return SW_OK;
}

static int backward_data(struct sw_plan *p, const struct sw_plan_args *a, struct sw_err *err)
{
    const struct pool *c = (const struct pool *)p;
    float *diff = sw_ref_diff(&c->ref, a);

    if (c->max)
        sw_kernel_max_pool_backward(c->ref.threads, &c->windows, c->planes, a->diff_dst, a->saved,
                                    diff);
    else
        sw_kernel_avg_pool_backward(c->ref.threads, &c->windows, c->planes, c->divisor, a->diff_dst,
                                    diff);

    sw_ref_diff_done(&c->ref, a);
    return SW_OK;
}

static const struct sw_plan_ops ops = {
    .forward = forward,
    .backward_data = backward_data,
    .free = sw_ref_plan_free,
};

int sw_ref_pooling(struct sw_stream *s, const struct sw_desc *src,
                   const struct sw_pool_shape *shape, struct sw_plan_passes passes,
                   struct sw_plan **out, struct sw_err *err)
{
    int rc = sw_pool_check(src, shape, err);
    if (rc != SW_OK)
        return rc;
    if (src->dim[2] * src->dim[3] > INT32_MAX)
        return sw_err_set(err, SW_ERR_UNSUPPORTED,
                          "pooling does not support planes of 2^31 pixels or more");

    struct pool *c = (struct pool *)sw_ref_plan_new(sizeof *c, &ops, s, src, "direct");
    if (!c)
        return sw_err_nomem(err, "pooling plan", sizeof *c);

    const int64_t dst[] = {src->dim[0], src->dim[1], shape->out_h, shape->out_w};
    c->windows = (struct sw_kernel_windows){.in_h = src->dim[2],
                                            .in_w = src->dim[3],
                                            .out_h = shape->out_h,
                                            .out_w = shape->out_w,
                                            .kernel_h = shape->kernel_h,
                                            .kernel_w = shape->kernel_w,
                                            .stride_h = shape->stride_h,
                                            .stride_w = shape->stride_w,
                                            .pad_h = shape->pad_h,
                                            .pad_w = shape->pad_w,
                                            .dilation_h = 1,
                                            .dilation_w = 1};
    c->planes = src->dim[0] * src->dim[1];
    c->max = shape->max;
    c->divisor = shape->divisor;
    c->training = passes.training || passes.backward_data;
    c->ref.base.dst = sw_desc_plain(SW_F32, 4, dst);
    if (c->max && c->training)
        c->ref.base.saved_bytes = (size_t)sw_desc_count(&c->ref.base.dst) * sizeof(int32_t);
    *out = &c->ref.base;

    return SW_OK;
}
