/* Pooling and local response normalization by kernels of this project, since cuDNN supports neither
 * windows that are clipped at the border nor normalization within channels. They keep every layout
 * that the kernels support, so that nothing is reordered between them and a convolution, and
 * compute in fp32 on activations of either type. What they save is fp32. */
#include "base/os.h"
#include "device/cpu/cpu.h"
#include "device/cuda/plan_private.h"
#include <string.h>

/* ---- Pooling ---- */

struct pool {
    struct sw_plan base; /* first member */
    struct sw_cuda_side src;
    struct sw_cuda_pool kernel; /* without arrays */
    bool max, training;
};

static int pool_forward(struct sw_plan *p, const struct sw_plan_args *a, struct sw_err *err)
{
    const struct pool *c = (const struct pool *)(void *)p;
    struct sw_cuda_launch l = sw_cuda_launch_of(p->stream);
    struct sw_cuda_pool k = c->kernel;

    int rc = sw_cuda_side_in(p, &c->src, a, a->src, false, &k.x, err);
    if (rc != SW_OK)
        return rc;

    k.y = a->dst;
    k.index = c->max && c->training ? a->saved : NULL;
    return sw_cuda_plan_check(p, c->max ? sw_cuda_max_pool(&k, &l) : sw_cuda_avg_pool(&k, &l), err);
}

static int pool_backward(struct sw_plan *p, const struct sw_plan_args *a, struct sw_err *err)
{
    const struct pool *c = (const struct pool *)(void *)p;
    struct sw_cuda_launch l = sw_cuda_launch_of(p->stream);
    struct sw_cuda_pool k = c->kernel;

    int rc = sw_cuda_enter(sw_cuda_device_of(p->stream->dev), err);
    if (rc != SW_OK)
        return rc;

    k.dy = a->diff_dst;
    k.dx = sw_cuda_side_out(&c->src, a, a->diff_src);
    k.index = c->max ? a->saved : NULL;

    rc = sw_cuda_plan_check(
        p, c->max ? sw_cuda_max_pool_backward(&k, &l) : sw_cuda_avg_pool_backward(&k, &l), err);
    if (rc != SW_OK)
        return rc;

    return sw_cuda_side_done(p, &c->src, a, a->diff_src, err);
}

static void free_plan(struct sw_plan *p)
{
    sw_free(p);
}

static const struct sw_plan_ops pool_ops = {
    .forward = pool_forward, .backward_data = pool_backward, .free = free_plan};

int sw_cuda_pooling(const struct sw_plan_request *q, struct sw_plan **out, struct sw_err *err)
{
    const struct sw_desc *src = q->src;
    const struct sw_pool_shape *shape = q->shape.pool;
    if (src->dtype != q->dst_type)
        return SW_ERR_UNSUPPORTED;

    struct pool *c = sw_calloc(1, sizeof *c);
    if (!c)
        return sw_err_nomem(err, "pooling plan", sizeof *c);

    struct sw_plan *p = &c->base;
    const int64_t dst[] = {src->dim[0], src->dim[1], shape->out_h, shape->out_w};
    struct sw_desc used = sw_cuda_known_layout(src);
    *p = (struct sw_plan){.ops = &pool_ops, .stream = q->stream, .src = *src};
    p->dst = sw_cuda_layout_like(&used, dst);
    sw_cuda_side_init(p, &c->src, src, &used);
    c->kernel.w = sw_pool_windows(src, shape);
    c->kernel.by = shape->divisor;
    c->kernel.type = src->dtype;
    c->max = shape->max;
    c->training = q->passes.training || q->passes.backward_data;
    if (c->max && c->training)
        p->saved_bytes = (size_t)sw_desc_storage(&p->dst) * sizeof(int32_t);
    strcpy(p->algorithm, "cuda:direct");
    if (!sw_cuda_channels(&used, &c->kernel.in) || !sw_cuda_channels(&p->dst, &c->kernel.out)) {
        sw_free(c);
        return sw_err_set(err, SW_ERR_UNSUPPORTED,
                          "pooling does not support images of 2^31 pixels or more");
    }

    *out = p;
    return SW_OK;
}

/* ---- Local response normalization ---- */

struct lrn {
    struct sw_plan base;           /* first member */
    struct sw_cuda_side src, diff; /* diff: the gradient, separate from the copy of the source */
    struct sw_cuda_lrn kernel;     /* without arrays */
    bool training;
    size_t ratio_offset;
};

static int lrn_forward(struct sw_plan *p, const struct sw_plan_args *a, struct sw_err *err)
{
    const struct lrn *c = (const struct lrn *)(void *)p;
    struct sw_cuda_launch l = sw_cuda_launch_of(p->stream);
    struct sw_cuda_lrn k = c->kernel;

    int rc = sw_cuda_side_in(p, &c->src, a, a->src, false, &k.x, err);
    if (rc != SW_OK)
        return rc;

    k.y = a->dst;
    k.scale = c->training ? a->saved : NULL;
    return sw_cuda_plan_check(p, sw_cuda_lrn(&k, &l), err);
}

static int lrn_backward(struct sw_plan *p, const struct sw_plan_args *a, struct sw_err *err)
{
    const struct lrn *c = (const struct lrn *)(void *)p;
    struct sw_cuda_launch l = sw_cuda_launch_of(p->stream);
    struct sw_cuda_lrn k = c->kernel;

    int rc = sw_cuda_side_in(p, &c->src, a, a->src, false, &k.x, err);
    if (rc != SW_OK)
        return rc;

    k.dy = a->diff_dst;
    k.dx = sw_cuda_side_out(&c->diff, a, a->diff_src);
    k.scale = a->saved;
    k.ratio = sw_cuda_at(a, c->ratio_offset);

    rc = sw_cuda_plan_check(p, sw_cuda_lrn_backward(&k, &l), err);
    if (rc != SW_OK)
        return rc;

    return sw_cuda_side_done(p, &c->diff, a, a->diff_src, err);
}

static const struct sw_plan_ops lrn_ops = {
    .forward = lrn_forward, .backward_data = lrn_backward, .free = free_plan};

int sw_cuda_normalisation(const struct sw_plan_request *q, struct sw_plan **out, struct sw_err *err)
{
    const struct sw_desc *src = q->src;
    const struct sw_lrn_shape *shape = q->shape.lrn;
    if (src->dtype != q->dst_type)
        return SW_ERR_UNSUPPORTED;

    struct lrn *c = sw_calloc(1, sizeof *c);
    if (!c)
        return sw_err_nomem(err, "lrn plan", sizeof *c);

    struct sw_plan *p = &c->base;
    struct sw_desc used = sw_cuda_known_layout(src);
    size_t floats = (size_t)sw_desc_storage(&used) * sizeof(float);
    int64_t window = shape->within_channel ? shape->size * shape->size : shape->size;
    *p = (struct sw_plan){.ops = &lrn_ops,
                          .stream = q->stream,
                          .src = *src,
                          .dst = used,
                          .backward_reads_src = q->passes.backward_data};
    sw_cuda_side_init(p, &c->src, src, &used);
    sw_cuda_side_init(p, &c->diff, src, &used);
    c->kernel = (struct sw_cuda_lrn){.height = src->dim[2],
                                     .width = src->dim[3],
                                     .size = shape->size,
                                     .within_channel = shape->within_channel,
                                     .alpha = shape->alpha / (float)window,
                                     .beta = shape->beta,
                                     .bias = shape->k,
                                     .type = src->dtype};
    c->training = q->passes.training || q->passes.backward_data;
    if (c->training)
        p->saved_bytes = floats;
    if (q->passes.backward_data)
        c->ratio_offset = sw_cuda_reserve(p, floats);
    strcpy(p->algorithm, "cuda:direct");
    if (!sw_cuda_channels(&used, &c->kernel.k)) {
        sw_free(c);
        return sw_err_set(err, SW_ERR_UNSUPPORTED,
                          "lrn does not support images of 2^31 pixels or more");
    }

    *out = p;
    return SW_OK;
}
