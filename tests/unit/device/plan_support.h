/* Common parts of the tests of plans: formulas in double that follow the definitions literally, and
 * a function that runs all passes of a plan on plain data, whatever layouts it chooses. Scratch and
 * outputs are filled with NaN before each pass. */
#pragma once

#include "device_support.h"

enum kind { CONVOLUTION, DECONVOLUTION, POOLING, LRN, INNER_PRODUCT };

/* A plan to create, and the passes to run. */
struct problem {
    const char *name;
    enum kind kind;
    int64_t dim[4];    /* source; dim[2] 0 makes it 2-D */
    int channel_block; /* 0: plain, else the source's channels are blocked by this */
    struct sw_conv_shape conv;
    struct sw_pool_shape pool;
    struct sw_lrn_shape lrn;
    struct sw_ip_shape ip;
};

/* Everything in plain order; owned. */
struct tensors {
    int64_t src_count, weight_count, bias_count, dst_count;
    float *src, *weight, *bias, *dst;
    float *diff_dst, *diff_src, *diff_weight, *diff_bias;
};

static inline int64_t conv_out(int64_t in, int64_t kernel, int64_t stride, int64_t pad,
                               int64_t dilation)
{
    return (in + 2 * pad - dilation * (kernel - 1) - 1) / stride + 1;
}

/* The output size, rounded up as in Caffe: the last window starts inside the image or its left
 * padding. */
static inline int64_t pool_out(int64_t in, int64_t kernel, int64_t stride, int64_t pad)
{
    int64_t out = (in + 2 * pad - kernel + stride - 1) / stride + 1;
    return (out - 1) * stride >= in + pad ? out - 1 : out;
}

static inline struct problem conv_problem(const char *name, int64_t n, int64_t c, int64_t h,
                                          int64_t w, int64_t outputs, int64_t kernel,
                                          int64_t stride, int64_t pad, int64_t groups)
{
    struct problem p = {.name = name, .kind = CONVOLUTION, .dim = {n, c, h, w}};
    p.conv = (struct sw_conv_shape){.outputs = outputs,
                                    .groups = groups,
                                    .kernel_h = kernel,
                                    .kernel_w = kernel,
                                    .stride_h = stride,
                                    .stride_w = stride,
                                    .pad_h = pad,
                                    .pad_w = pad,
                                    .dilation_h = 1,
                                    .dilation_w = 1,
                                    .out_h = conv_out(h, kernel, stride, pad, 1),
                                    .out_w = conv_out(w, kernel, stride, pad, 1),
                                    .bias = true};
    return p;
}

/* The transposed convolution whose result has the shape of such a convolution's source, with
 * `outputs` channels. There is no formula for it here. */
static inline struct problem deconv_problem(const char *name, int64_t n, int64_t c, int64_t h,
                                            int64_t w, int64_t outputs, int64_t kernel,
                                            int64_t stride, int64_t pad, int64_t groups)
{
    struct problem p = conv_problem(name, n, c, h, w, outputs, kernel, stride, pad, groups);
    p.kind = DECONVOLUTION;
    p.conv.out_h = (h - 1) * stride + kernel - 2 * pad;
    p.conv.out_w = (w - 1) * stride + kernel - 2 * pad;
    return p;
}

static inline struct problem pool_problem(const char *name, bool max, int64_t n, int64_t c,
                                          int64_t h, int64_t w, int64_t kernel, int64_t stride,
                                          int64_t pad)
{
    struct problem p = {.name = name, .kind = POOLING, .dim = {n, c, h, w}};
    p.pool = (struct sw_pool_shape){.max = max,
                                    .kernel_h = kernel,
                                    .kernel_w = kernel,
                                    .stride_h = stride,
                                    .stride_w = stride,
                                    .pad_h = pad,
                                    .pad_w = pad,
                                    .out_h = pool_out(h, kernel, stride, pad),
                                    .out_w = pool_out(w, kernel, stride, pad)};
    return p;
}

static inline struct problem lrn_problem(const char *name, int64_t n, int64_t c, int64_t h,
                                         int64_t w, int64_t size, float alpha, float beta, float k)
{
    struct problem p = {.name = name, .kind = LRN, .dim = {n, c, h, w}};
    p.lrn = (struct sw_lrn_shape){.size = size, .alpha = alpha, .beta = beta, .k = k};
    return p;
}

/* h 0: a 2-D source. */
static inline struct problem ip_problem(const char *name, int64_t n, int64_t c, int64_t h,
                                        int64_t w, int64_t outputs)
{
    struct problem p = {.name = name, .kind = INNER_PRODUCT, .dim = {n, c, h, w}};
    p.ip = (struct sw_ip_shape){.outputs = outputs, .bias = true};
    return p;
}

static inline int problem_ndim(const struct problem *p)
{
    return p->dim[2] ? 4 : 2;
}

static inline struct sw_desc source_desc(const struct problem *p)
{
    if (p->channel_block)
        return sw_desc_blocked(SW_F32, problem_ndim(p), p->dim, 1, p->channel_block);
    return sw_desc_plain(SW_F32, problem_ndim(p), p->dim);
}

/* Makes a plan for a source in the given layout, with a result of that type. */
static inline int make_plan_to(const struct problem *p, const struct sw_desc *src,
                               enum sw_dtype dst_type, struct sw_stream *s,
                               struct sw_plan_passes passes, struct sw_plan **plan,
                               struct sw_err *err)
{
    struct sw_plan_request q = {.stream = s, .src = src, .dst_type = dst_type, .passes = passes};
    switch (p->kind) {
    case CONVOLUTION:
    case DECONVOLUTION:
        q.kind = p->kind == CONVOLUTION ? SW_PLAN_CONVOLUTION : SW_PLAN_DECONVOLUTION;
        q.shape.conv = &p->conv;
        break;
    case POOLING:
        q.kind = SW_PLAN_POOLING;
        q.shape.pool = &p->pool;
        break;
    case LRN:
        q.kind = SW_PLAN_LRN;
        q.shape.lrn = &p->lrn;
        break;
    case INNER_PRODUCT:
        q.kind = SW_PLAN_INNER_PRODUCT;
        q.shape.ip = &p->ip;
        break;
    }
    return sw_plan_new(&q, plan, err);
}

/* The result has the type of the source. */
static inline int make_plan_from(const struct problem *p, const struct sw_desc *src,
                                 struct sw_stream *s, struct sw_plan_passes passes,
                                 struct sw_plan **plan, struct sw_err *err)
{
    return make_plan_to(p, src, src->dtype, s, passes, plan, err);
}

static inline int make_plan(const struct problem *p, struct sw_stream *s,
                            struct sw_plan_passes passes, struct sw_plan **plan, struct sw_err *err)
{
    struct sw_desc src = source_desc(p);
    return make_plan_from(p, &src, s, passes, plan, err);
}

static inline int make_reorder(struct sw_stream *s, const struct sw_desc *from,
                               const struct sw_desc *to, struct sw_plan **plan, struct sw_err *err)
{
    const struct sw_plan_request q = {
        .kind = SW_PLAN_REORDER, .stream = s, .src = from, .shape.to = to};
    return sw_plan_new(&q, plan, err);
}

static inline bool convolves(const struct problem *p)
{
    return p->kind == CONVOLUTION || p->kind == DECONVOLUTION;
}

static inline bool has_weights(const struct problem *p)
{
    return convolves(p) || p->kind == INNER_PRODUCT;
}

static inline bool has_bias(const struct problem *p)
{
    return convolves(p) ? p->conv.bias : p->kind == INNER_PRODUCT && p->ip.bias;
}

static inline bool has_relu(const struct problem *p)
{
    return p->kind == CONVOLUTION ? p->conv.fuse_relu : p->kind == INNER_PRODUCT && p->ip.fuse_relu;
}

/* ---- Formulas ---- */

static inline int64_t outputs_of(const struct problem *p)
{
    return p->kind == CONVOLUTION     ? p->conv.outputs
           : p->kind == INNER_PRODUCT ? p->ip.outputs
                                      : p->dim[1];
}

static inline double pixel(const struct problem *p, const double *src, int64_t n, int64_t c,
                           int64_t y, int64_t x)
{
    const int64_t *d = p->dim;
    if (y < 0 || y >= d[2] || x < 0 || x >= d[3])
        return 0;
    return src[((n * d[1] + c) * d[2] + y) * d[3] + x];
}

static inline double conv_at(const struct problem *p, const double *src, const double *weight,
                             int64_t n, int64_t m, int64_t oh, int64_t ow)
{
    const struct sw_conv_shape *s = &p->conv;
    int64_t channels = p->dim[1] / s->groups, first = m / (s->outputs / s->groups) * channels;
    double sum = 0;
    for (int64_t c = 0; c < channels; c++)
        for (int64_t i = 0; i < s->kernel_h; i++)
            for (int64_t j = 0; j < s->kernel_w; j++)
                sum += weight[((m * channels + c) * s->kernel_h + i) * s->kernel_w + j] *
                       pixel(p, src, n, first + c, oh * s->stride_h - s->pad_h + i * s->dilation_h,
                             ow * s->stride_w - s->pad_w + j * s->dilation_w);
    return sum;
}

static inline double pool_at(const struct problem *p, const double *src, int64_t n, int64_t c,
                             int64_t oh, int64_t ow)
{
    const struct sw_pool_shape *s = &p->pool;
    int64_t y0 = oh * s->stride_h - s->pad_h, x0 = ow * s->stride_w - s->pad_w;
    double sum = 0, largest = -INFINITY, count = 0;
    for (int64_t y = y0; y < y0 + s->kernel_h && y < p->dim[2] + s->pad_h; y++)
        for (int64_t x = x0; x < x0 + s->kernel_w && x < p->dim[3] + s->pad_w; x++) {
            bool inside = y >= 0 && y < p->dim[2] && x >= 0 && x < p->dim[3];
            double v = pixel(p, src, n, c, y, x);
            sum += v;
            count++;
            if (inside && v > largest)
                largest = v;
        }
    return s->max ? largest : sum / count;
}

static inline double lrn_at(const struct problem *p, const double *src, int64_t n, int64_t c,
                            int64_t y, int64_t x)
{
    double sum = 0;
    for (int64_t j = c - p->lrn.size / 2; j <= c + p->lrn.size / 2; j++)
        if (j >= 0 && j < p->dim[1])
            sum += pixel(p, src, n, j, y, x) * pixel(p, src, n, j, y, x);
    double scale = (double)p->lrn.k + (double)p->lrn.alpha / (double)p->lrn.size * sum;
    return pixel(p, src, n, c, y, x) * pow(scale, -(double)p->lrn.beta);
}

/* dst, before the relu. */
static inline void exact_forward(const struct problem *p, const double *src, const double *weight,
                                 const double *bias, double *dst)
{
    int64_t features = p->dim[1] * (p->dim[2] ? p->dim[2] * p->dim[3] : 1);
    int64_t m = outputs_of(p);
    int64_t height = p->kind == CONVOLUTION ? p->conv.out_h
                     : p->kind == POOLING   ? p->pool.out_h
                     : p->kind == LRN       ? p->dim[2]
                                            : 1;
    int64_t width = p->kind == CONVOLUTION ? p->conv.out_w
                    : p->kind == POOLING   ? p->pool.out_w
                    : p->kind == LRN       ? p->dim[3]
                                           : 1;
    for (int64_t i = 0; i < p->dim[0] * m * height * width; i++) {
        int64_t x = i % width, y = i / width % height, c = i / width / height % m;
        int64_t n = i / width / height / m;
        double v = bias ? bias[c] : 0;
        if (p->kind == CONVOLUTION)
            v += conv_at(p, src, weight, n, c, y, x);
        else if (p->kind == POOLING)
            v += pool_at(p, src, n, c, y, x);
        else if (p->kind == LRN)
            v += lrn_at(p, src, n, c, y, x);
        else
            for (int64_t k = 0; k < features; k++)
                v += src[n * features + k] * weight[c * features + k];
        dst[i] = v;
    }
}

/* ---- Running ---- */

static inline float *stored_of(const struct sw_desc *d, const float *plain)
{
    float *stored = get_bytes(sw_desc_bytes(d));
    sw_desc_from_plain(d, plain, stored);
    return stored;
}

/* Copies an output of a plan back to plain order and frees it; its padding must be zero. */
static inline float *plain_of(const char *what, const struct sw_desc *d, float *stored)
{
    float *plain = get_floats(sw_desc_count(d)), *again = get_bytes(sw_desc_bytes(d));
    sw_desc_to_plain(d, stored, plain);
    sw_desc_from_plain(d, plain, again);
    for (int64_t i = 0; i < sw_desc_storage(d); i++)
        if (!(stored[i] == again[i]) && !(isnan(stored[i]) && isnan(again[i])))
            fail_msg("%s: padding element %lld is %g", what, (long long)i, (double)stored[i]);
    free(again);
    free(stored);
    return plain;
}

static inline float *unwritten(const struct sw_desc *d)
{
    float *stored = get_bytes(sw_desc_bytes(d));
    poison(stored, sw_desc_bytes(d));
    return stored;
}

/* Creates random inputs for the shapes of a plan. Sources of max pooling are shuffled distinct
 * values, without ties. */
static inline struct tensors random_tensors(const struct problem *p, const struct sw_plan *plan,
                                            uint64_t seed)
{
    struct rng r = rng_of(seed);
    struct tensors t = {.src_count = sw_desc_count(&plan->src),
                        .weight_count = has_weights(p) ? sw_desc_count(&plan->weight) : 0,
                        .bias_count = has_bias(p) ? sw_desc_count(&plan->bias) : 0,
                        .dst_count = sw_desc_count(&plan->dst)};
    t.src = random_floats(&r, t.src_count, -1, 1);
    t.weight = random_floats(&r, t.weight_count, -1, 1);
    t.bias = random_floats(&r, t.bias_count, -1, 1);
    t.diff_dst = random_floats(&r, t.dst_count, -1, 1);
    if (p->kind == POOLING && p->pool.max)
        for (int64_t i = 0; i < t.src_count; i++) {
            int64_t j = rng_int(&r, 0, i);
            t.src[i] = t.src[j];
            t.src[j] = (float)i / 64;
        }
    return t;
}

static inline void free_tensors(struct tensors *t)
{
    free(t->src);
    free(t->weight);
    free(t->bias);
    free(t->dst);
    free(t->diff_dst);
    free(t->diff_src);
    free(t->diff_weight);
    free(t->diff_bias);
    *t = (struct tensors){0};
}

/* Runs forward and all backward passes; fills dst and the gradients of t. */
static inline void run_plan(const struct problem *p, struct sw_plan *plan, struct tensors *t)
{
    struct sw_err err;
    float *src = stored_of(&plan->src, t->src), *diff_dst = stored_of(&plan->dst, t->diff_dst);
    float *weight = has_weights(p) ? stored_of(&plan->weight, t->weight) : NULL;
    float *bias = has_bias(p) ? stored_of(&plan->bias, t->bias) : NULL;
    float *dst = unwritten(&plan->dst), *diff_src = unwritten(&plan->src);
    float *diff_weight = has_weights(p) ? unwritten(&plan->weight) : NULL;
    float *diff_bias = has_bias(p) ? unwritten(&plan->bias) : NULL;
    char *saved = get_bytes(plan->saved_bytes), *scratch = get_bytes(plan->scratch_bytes);
    struct sw_plan_args a = {
        .src = src, .weight = weight, .bias = bias, .dst = dst, .saved = saved, .scratch = scratch};
    poison(scratch, plan->scratch_bytes);
    ASSERT_OK(sw_plan_forward(plan, &a, &err));

    a = (struct sw_plan_args){.weight = weight,
                              .src = plan->backward_reads_src ? src : NULL,
                              .dst = plan->backward_reads_dst ? dst : NULL,
                              .diff_dst = diff_dst,
                              .diff_src = diff_src,
                              .saved = saved,
                              .scratch = scratch};
    poison(scratch, plan->scratch_bytes);
    ASSERT_OK(sw_plan_backward_data(plan, &a, &err));
    if (has_weights(p)) {
        a.diff_src = NULL;
        a.diff_weight = diff_weight;
        a.diff_bias = diff_bias;
        poison(scratch, plan->scratch_bytes);
        ASSERT_OK(sw_plan_backward_weights(plan, &a, &err));
        t->diff_weight = plain_of("diff_weight", &plan->weight, diff_weight);
    }
    if (has_bias(p))
        t->diff_bias = plain_of("diff_bias", &plan->bias, diff_bias);
    t->dst = plain_of("dst", &plan->dst, dst);
    t->diff_src = plain_of("diff_src", &plan->src, diff_src);
    free(src);
    free(diff_dst);
    free(weight);
    free(bias);
    free(saved);
    free(scratch);
}

/* Creates the plan, runs it on random tensors, and frees it. */
static inline struct tensors run_problem(const struct problem *p, struct sw_stream *s,
                                         uint64_t seed)
{
    const struct sw_plan_passes all = {true, has_weights(p), true};
    struct sw_plan *plan;
    struct sw_err err;
    ASSERT_OK(make_plan(p, s, all, &plan, &err));
    assert_true(plan->algorithm[0]);
    struct tensors t = random_tensors(p, plan, seed);
    run_plan(p, plan, &t);
    sw_plan_free(plan);
    return t;
}
