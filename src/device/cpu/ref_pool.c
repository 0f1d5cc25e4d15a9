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

int sw_ref_pooling(const struct sw_plan_request *q, struct sw_plan **out, struct sw_err *err)
{
    const struct sw_desc *src = q->src;
    const struct sw_pool_shape *shape = q->shape.pool;
    const struct sw_plan_passes passes = q->passes;

    if (src->dim[2] * src->dim[3] > INT32_MAX)
        return sw_err_set(err, SW_ERR_UNSUPPORTED,
                          "pooling does not support planes of 2^31 pixels or more");

    struct pool *c = sw_ref_plan_new(sizeof *c, &ops, q, "direct");
    if (!c)
        return sw_err_nomem(err, "pooling plan", sizeof *c);

    const int64_t dst[] = {src->dim[0], src->dim[1], shape->out_h, shape->out_w};
    c->windows = sw_pool_windows(src, shape);
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
