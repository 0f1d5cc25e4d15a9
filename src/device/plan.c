/* Creates plans. Requests are checked here, so that all devices refuse the same shapes with the
 * same messages. Also lists of the arrays of plans. */
#include "device/plan.h"
#include "device/converted.h"

typedef long long ll; /* for printf */

/* Floats or their 16-bit forms. */
static bool has_features(const struct sw_desc *d)
{
    return d->dtype == SW_F32 || sw_dtype_is_half(d->dtype);
}

static int need_image(const struct sw_desc *src, const char *who, struct sw_err *err)
{
    char text[128];

    if (src->ndim != 4 || !has_features(src))
        return sw_err_set(err, SW_ERR_INVALID,
                          "%s needs a 4-D f32 source [N, C, H, W], its source is %s", who,
                          sw_desc_text(src, text));

    for (int i = 0; i < 4; i++)
        if (src->dim[i] < 1)
            return sw_err_set(err, SW_ERR_INVALID, "%s: the source %s is empty", who,
                              sw_desc_text(src, text));

    return SW_OK;
}

struct axis {
    const char *name;
    int64_t in, out, kernel, stride, pad, dilation;
};

static int check_axis(const struct axis *a, const char *who, struct sw_err *err)
{
    if (a->kernel < 1 || a->stride < 1 || a->dilation < 1 || a->pad < 0 || a->out < 1)
        return sw_err_set(
            err, SW_ERR_INVALID,
            "%s: kernel_%s %lld, stride_%s %lld, dilation_%s %lld and out_%s %lld must "
            "be at least 1, pad_%s %lld at least 0",
            who, a->name, (ll)a->kernel, a->name, (ll)a->stride, a->name, (ll)a->dilation, a->name,
            (ll)a->out, a->name, (ll)a->pad);
    return SW_OK;
}

static int check_axes(const struct axis axis[2], const char *who, struct sw_err *err)
{
    int rc = check_axis(&axis[0], who, err);
    return rc != SW_OK ? rc : check_axis(&axis[1], who, err);
}

static int check_weight_layout(const struct sw_desc *w, const struct sw_desc *want, const char *who,
                               struct sw_err *err)
{
    char have_text[128], want_text[128];

    if (!w || sw_desc_same_shape(w, want))
        return SW_OK;
    return sw_err_set(err, SW_ERR_INVALID, "%s: the weight layout is %s, but the weight is %s", who,
                      sw_desc_text(w, have_text), sw_desc_text(want, want_text));
}

static int check_conv(const struct sw_desc *src, const struct sw_conv_shape *c, struct sw_err *err)
{
    const char *who = "convolution";

    int rc = need_image(src, who, err);
    if (rc != SW_OK)
        return rc;

    const struct axis axis[2] = {
        {"h", src->dim[2], c->out_h, c->kernel_h, c->stride_h, c->pad_h, c->dilation_h},
        {"w", src->dim[3], c->out_w, c->kernel_w, c->stride_w, c->pad_w, c->dilation_w}};
    rc = check_axes(axis, who, err);
    if (rc != SW_OK)
        return rc;
    if (c->outputs < 1 || c->groups < 1 || c->outputs % c->groups || src->dim[1] % c->groups)
        return sw_err_set(err, SW_ERR_INVALID,
                          "%s: groups %lld must divide %lld input and %lld output channels", who,
                          (ll)c->groups, (ll)src->dim[1], (ll)c->outputs);

    const int64_t dim[4] = {c->outputs, src->dim[1] / c->groups, c->kernel_h, c->kernel_w};
    struct sw_desc want = sw_desc_plain(SW_F32, 4, dim);
    return check_weight_layout(c->weight_layout, &want, who, err);
}

/* The first window must reach into the input and the last one start inside it; then all see it. */
static int check_windows(const struct axis *a, struct sw_err *err)
{
    if (a->pad >= a->kernel)
        return sw_err_set(err, SW_ERR_INVALID,
                          "pooling: pad_%s %lld must be smaller than kernel_%s %lld", a->name,
                          (ll)a->pad, a->name, (ll)a->kernel);

    int64_t last = (a->out - 1) * a->stride - a->pad;
    if (last >= a->in)
        return sw_err_set(err, SW_ERR_INVALID,
                          "pooling: out_%s %lld puts the last window at pixel %lld, beyond the "
                          "%lld pixels of the input",
                          a->name, (ll)a->out, (ll)last, (ll)a->in);

    return SW_OK;
}

static int check_pool(const struct sw_desc *src, const struct sw_pool_shape *p, struct sw_err *err)
{
    int rc = need_image(src, "pooling", err);
    if (rc != SW_OK)
        return rc;

    const struct axis axis[2] = {
        {"h", src->dim[2], p->out_h, p->kernel_h, p->stride_h, p->pad_h, 1},
        {"w", src->dim[3], p->out_w, p->kernel_w, p->stride_w, p->pad_w, 1}};
    rc = check_axes(axis, "pooling", err);
    if (rc != SW_OK)
        return rc;

    for (int i = 0; i < 2; i++) {
        rc = check_windows(&axis[i], err);
        if (rc != SW_OK)
            return rc;
    }

    return SW_OK;
}

static int check_lrn(const struct sw_desc *src, const struct sw_lrn_shape *l, struct sw_err *err)
{
    int rc = need_image(src, "lrn", err);
    if (rc != SW_OK)
        return rc;
    if (l->size < 1 || l->size % 2 == 0)
        return sw_err_set(err, SW_ERR_INVALID, "lrn: size %lld must be odd", (ll)l->size);
    if (l->within_channel && l->size > 255)
        return sw_err_set(err, SW_ERR_INVALID,
                          "lrn: size %lld within a channel must be at most 255", (ll)l->size);
    if (!(l->k > 0) || !(l->alpha >= 0))
        return sw_err_set(err, SW_ERR_INVALID, "lrn: k %g must be above 0 and alpha %g at least 0",
                          (double)l->k, (double)l->alpha);

    return SW_OK;
}

static int check_ip(const struct sw_desc *src, const struct sw_ip_shape *ip, struct sw_err *err)
{
    const char *who = "inner_product";
    char text[128];

    if (src->ndim < 2 || !has_features(src) || src->dim[0] < 1 || sw_desc_features(src) < 1)
        return sw_err_set(err, SW_ERR_INVALID,
                          "%s needs an f32 source of 2 dimensions or more, its source is %s", who,
                          sw_desc_text(src, text));
    if (ip->outputs < 1)
        return sw_err_set(err, SW_ERR_INVALID, "%s: outputs %lld must be at least 1", who,
                          (ll)ip->outputs);

    const int64_t dim[2] = {ip->outputs, sw_desc_features(src)};
    struct sw_desc want = sw_desc_plain(SW_F32, 2, dim);
    return check_weight_layout(ip->weight_layout, &want, who, err);
}

static int check_reorder(const struct sw_desc *from, const struct sw_desc *to, struct sw_err *err)
{
    char from_text[128], to_text[128];

    /* Of two 16-bit types, neither becomes the other. */
    bool converts =
        has_features(from) && has_features(to) && (from->dtype == SW_F32 || to->dtype == SW_F32);
    struct sw_desc same = sw_desc_as(from, converts ? to->dtype : from->dtype);
    if (sw_desc_same_shape(&same, to))
        return SW_OK;

    return sw_err_set(err, SW_ERR_INVALID, "reorder: %s and %s differ in type or shape",
                      sw_desc_text(from, from_text), sw_desc_text(to, to_text));
}

static int check(const struct sw_plan_request *q, struct sw_err *err)
{
    switch (q->kind) {
    case SW_PLAN_CONVOLUTION:
        return check_conv(q->src, q->shape.conv, err);
    case SW_PLAN_POOLING:
        return check_pool(q->src, q->shape.pool, err);
    case SW_PLAN_LRN:
        return check_lrn(q->src, q->shape.lrn, err);
    case SW_PLAN_INNER_PRODUCT:
        return check_ip(q->src, q->shape.ip, err);
    case SW_PLAN_REORDER:
        return check_reorder(q->src, q->shape.to, err);
    default:
        return SW_OK; /* makers of deconvolutions request a convolution */
    }
}

int sw_plan_new(const struct sw_plan_request *q, struct sw_plan **out, struct sw_err *err)
{
    const struct sw_plan_makers *makers = q->stream->dev->ops->plans;
    bool halves = sw_dtype_is_half(q->src->dtype) || sw_dtype_is_half(q->dst_type);

    int rc = check(q, err);
    if (rc != SW_OK)
        return rc;

    rc = halves && !makers->halves[q->kind] ? SW_ERR_UNSUPPORTED
                                            : makers->make[q->kind](q, out, err);
    return halves && rc == SW_ERR_UNSUPPORTED && q->kind != SW_PLAN_REORDER
               ? sw_converted_plan(q, out, err)
               : rc;
}

const char *sw_plan_kind_name(enum sw_plan_kind kind)
{
    static const char *const names[SW_PLAN_KINDS] = {"convolution", "deconvolution", "pooling",
                                                     "lrn",         "inner_product", "reorder"};
    return names[kind];
}

bool sw_plan_is_transposed(const struct sw_desc *layout)
{
    if (!layout || sw_desc_is_plain(layout))
        return false;
    struct sw_desc other = sw_desc_transposed(layout, 0, 1);
    return sw_desc_is_plain(&other);
}

/* ---- Arrays ---- */

void sw_plan_bytes(const struct sw_plan *p, size_t bytes[SW_PLAN_ARRAYS])
{
    const struct sw_desc *const blob[] = {&p->src, &p->weight, &p->bias,   &p->dst,
                                          &p->dst, &p->src,    &p->weight, &p->bias};

    for (int i = 0; i < SW_PLAN_SAVED; i++)
        bytes[i] = blob[i]->ndim ? sw_desc_bytes(blob[i]) : 0;
    bytes[SW_PLAN_SAVED] = p->saved_bytes;
    bytes[SW_PLAN_SCRATCH] = p->scratch_bytes;
}

void sw_plan_list(const struct sw_plan_args *a, void *array[SW_PLAN_ARRAYS])
{
    const void *const all[SW_PLAN_ARRAYS] = {a->src,      a->weight,   a->bias,        a->dst,
                                             a->diff_dst, a->diff_src, a->diff_weight, a->diff_bias,
                                             a->saved,    a->scratch};

    for (int i = 0; i < SW_PLAN_ARRAYS; i++)
        array[i] = (void *)all[i];
}

struct sw_plan_args sw_plan_args_of(void *const array[SW_PLAN_ARRAYS])
{
    return (struct sw_plan_args){.src = array[SW_PLAN_SRC],
                                 .weight = array[SW_PLAN_WEIGHT],
                                 .bias = array[SW_PLAN_BIAS],
                                 .dst = array[SW_PLAN_DST],
                                 .diff_dst = array[SW_PLAN_DIFF_DST],
                                 .diff_src = array[SW_PLAN_DIFF_SRC],
                                 .diff_weight = array[SW_PLAN_DIFF_WEIGHT],
                                 .diff_bias = array[SW_PLAN_DIFF_BIAS],
                                 .saved = array[SW_PLAN_SAVED],
                                 .scratch = array[SW_PLAN_SCRATCH]};
}
