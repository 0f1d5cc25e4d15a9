/* Batch normalisation on any layout: plain, blocked and channels-last features go to the kernels,
 * others element by element. What is done per channel (moments, running statistics, coefficients)
 * is done here, in double. */
#include "device/ops/batch_norm.h"
#include "device/ops/channels.h"
#include "kernels/cpu/kernels.h"
#include <math.h>
#include <string.h>

_Static_assert((int)SW_BATCH_NORM_PARTS == (int)SW_KERNEL_CHANNEL_PARTS, "room for all parts");

/* ---- Element by element ---- */

struct elements {
    const float *x, *mean, *a, *b, *c, *dy;
    const struct sw_kernel_relu *relu; /* or NULL */
    float *out;
    double *sum, *square;
};
typedef void visit_fn(const struct elements *e, int64_t channel, int64_t at);

static void visit(const struct sw_desc *d, visit_fn *f, const struct elements *e)
{
    int64_t index[SW_MAX_DIMS] = {0};
    for (int64_t n = sw_desc_count(d); n > 0; n--) {
        f(e, index[1], sw_desc_offset(d, index));
        for (int i = d->ndim - 1; i >= 0; i--) {
            if (++index[i] < d->dim[i])
                break;
            index[i] = 0;
        }
    }
}

/* Padding that nobody visits. */
static void clear(int threads, const struct sw_desc *d, const float *from, float *to)
{
    if (from != to && sw_desc_storage(d) != sw_desc_count(d))
        sw_kernel_zero(threads, to, (int64_t)sw_desc_bytes(d));
}

static void add_element(const struct elements *e, int64_t c, int64_t at)
{
    e->sum[c] += (double)e->x[at];
    e->square[c] += (double)e->x[at] * (double)e->x[at];
}

/* What the relu lets through of the gradient. */
static float passed(const struct elements *e, int64_t c, int64_t at)
{
    const struct sw_kernel_relu *r = e->relu;
    bool passes = !r || r->factor[c] * (e->x[at] - e->mean[c]) + r->bias[c] > 0;
    return passes ? e->dy[at] : 0;
}

static void add_gradient(const struct elements *e, int64_t c, int64_t at)
{
    double g = (double)passed(e, c, at);
    e->sum[c] += g;
    e->square[c] += g * ((double)e->x[at] - (double)e->mean[c]) * (double)e->a[c];
}

static void normalise_element(const struct elements *e, int64_t c, int64_t at)
{
    float y = e->a[c] * (e->x[at] - e->mean[c]) + e->b[c];
    e->out[at] = e->relu && 0 > y ? 0 : y;
}

static void backward_element(const struct elements *e, int64_t c, int64_t at)
{
    e->out[at] = e->a[c] * passed(e, c, at) - e->b[c] - e->c[c] * (e->x[at] - e->mean[c]);
}

/* ---- The operations ---- */

static int64_t channels_of(const struct sw_batch_norm *b)
{
    return b->desc.dim[1];
}

static double elements_per_channel(const struct sw_desc *d)
{
    return (double)d->dim[0] * (double)sw_desc_pixels(d);
}

static void zero_sums(const struct sw_batch_norm *b)
{
    for (int64_t c = 0; c < 2 * channels_of(b); c++)
        b->sums[c] = 0;
}

static int sums_cpu(int threads, const void *args, struct sw_err *err)
{
    const struct sw_batch_norm_args *a = args;
    const struct sw_batch_norm *b = &a->b;
    const float *x = a->x;
    struct sw_kernel_channels k;
    int64_t channels = channels_of(b);
    (void)err;
    if (sw_op_channels(&b->desc, &k)) {
        sw_kernel_channel_sums(threads, &k, x, b->scratch, b->sums);
    } else {
        zero_sums(b);
        visit(&b->desc, add_element,
              &(struct elements){.x = x, .sum = b->sums, .square = b->sums + channels});
    }
    b->sums[2 * channels] = elements_per_channel(&b->desc);
    return SW_OK;
}

/* running = momentum running + (1 - momentum) batch, of the variance's unbiased estimate. */
static void keep_running(const struct sw_batch_norm *b, int64_t c, double mean, double variance,
                         double count)
{
    double m = b->momentum, unbiased = count > 1 ? variance * count / (count - 1) : variance;
    b->update_mean[c] = (float)(m * (double)b->update_mean[c] + (1 - m) * mean);
    b->update_variance[c] = (float)(m * (double)b->update_variance[c] + (1 - m) * unbiased);
}

/* y = factor (x - mean) + bias. */
static void apply(int threads, const struct sw_batch_norm *b, const float *x, const float *mean,
                  const float *factor, float *y)
{
    const struct sw_kernel_relu relu = {factor, b->bias};
    struct sw_kernel_channels k;
    if (sw_op_channels(&b->desc, &k)) {
        sw_kernel_channel_normalise(threads, &k, b->relu, x, mean, factor, b->bias, y);
    } else {
        clear(threads, &b->desc, x, y);
        visit(&b->desc, normalise_element,
              &(struct elements){.x = x,
                                 .mean = mean,
                                 .a = factor,
                                 .b = b->bias,
                                 .relu = b->relu ? &relu : NULL,
                                 .out = y});
    }
}

/* Of y = factor (x - mean) + bias; backward must find the same bits to see what the relu saw. */
static void find_factors(const struct sw_batch_norm *b, float *factor)
{
    for (int64_t c = 0; c < channels_of(b); c++)
        factor[c] = (float)((double)b->scale[c] * (double)b->inv_std[c]);
}

/* With the batch's mean and inv_std. */
static int again_cpu(int threads, const void *args, struct sw_err *err)
{
    const struct sw_batch_norm_args *a = args;
    const struct sw_batch_norm *b = &a->b;
    float *factor = b->scratch;
    (void)err;
    find_factors(b, factor);
    apply(threads, b, a->x, b->mean, factor, a->y);
    return SW_OK;
}

static int normalise_cpu(int threads, const void *args, struct sw_err *err)
{
    const struct sw_batch_norm_args *a = args;
    const struct sw_batch_norm *b = &a->b;
    int64_t channels = channels_of(b);
    double count = b->sums[2 * channels];
    for (int64_t c = 0; c < channels; c++) {
        double mean = b->sums[c] / count;
        double variance = b->sums[channels + c] / count - mean * mean;
        variance = variance < 0 ? 0 : variance; /* by rounding; a NaN passes */
        double inv_std = 1 / sqrt(variance + (double)b->eps);
        b->mean[c] = (float)mean;
        b->inv_std[c] = (float)inv_std;
        if (b->update_mean)
            keep_running(b, c, mean, variance, count);
    }
    return again_cpu(threads, args, err);
}

static int running_cpu(int threads, const void *args, struct sw_err *err)
{
    const struct sw_batch_norm_args *a = args;
    const struct sw_batch_norm *b = &a->b;
    float *factor = b->scratch;
    (void)err;
    for (int64_t c = 0; c < channels_of(b); c++)
        factor[c] =
            (float)((double)b->scale[c] / sqrt((double)b->running_variance[c] + (double)b->eps));
    apply(threads, b, a->x, b->running_mean, factor, a->y);
    return SW_OK;
}

/* For the passes back, behind what else they keep in scratch. */
static struct sw_kernel_relu relu_of(const struct sw_batch_norm *b)
{
    float *factor = (float *)(void *)((char *)b->scratch + sw_batch_norm_parts(&b->desc));
    find_factors(b, factor);
    return (struct sw_kernel_relu){factor, b->bias};
}

static int sums_backward_cpu(int threads, const void *args, struct sw_err *err)
{
    const struct sw_batch_norm_args *a = args;
    const struct sw_batch_norm *b = &a->b;
    const float *x = a->x, *dy = a->dy;
    struct sw_kernel_channels k;
    int64_t channels = channels_of(b);
    const struct sw_kernel_relu at = relu_of(b), *relu = b->relu ? &at : NULL;
    (void)err;
    if (sw_op_channels(&b->desc, &k)) {
        sw_kernel_channel_sums_backward(threads, &k, relu, x, b->mean, b->inv_std, dy, b->scratch,
                                        b->sums);
    } else {
        zero_sums(b);
        visit(&b->desc, add_gradient,
              &(struct elements){.x = x,
                                 .mean = b->mean,
                                 .a = b->inv_std,
                                 .dy = dy,
                                 .relu = relu,
                                 .sum = b->sums,
                                 .square = b->sums + channels});
    }
    b->sums[2 * channels] = elements_per_channel(&b->desc);
    for (int64_t c = 0; c < channels; c++) {
        a->dbias[c] = (float)b->sums[c];
        a->dscale[c] = (float)b->sums[channels + c];
    }
    return SW_OK;
}

/* dx = scale / std (dy - sum dy / m - xhat sum(dy xhat) / m), m elements per channel. */
static int backward_cpu(int threads, const void *args, struct sw_err *err)
{
    const struct sw_batch_norm_args *a = args;
    const struct sw_batch_norm *b = &a->b;
    const float *x = a->x, *dy = a->dy;
    float *dx = a->dx;
    struct sw_kernel_channels k;
    int64_t channels = channels_of(b);
    double count = b->sums[2 * channels];
    float *of_dy = b->scratch, *constant = of_dy + channels, *of_x = constant + channels;
    const struct sw_kernel_relu at = relu_of(b), *relu = b->relu ? &at : NULL;
    (void)err;
    for (int64_t c = 0; c < channels; c++) {
        double inv_std = (double)b->inv_std[c], factor = (double)b->scale[c] * inv_std;
        of_dy[c] = (float)factor;
        constant[c] = (float)(factor * b->sums[c] / count);
        of_x[c] = (float)(factor * inv_std * b->sums[channels + c] / count);
    }
    if (sw_op_channels(&b->desc, &k)) {
        sw_kernel_channel_backward(threads, &k, relu, x, b->mean, of_dy, constant, of_x, dy, dx);
    } else {
        clear(threads, &b->desc, dy, dx);
        visit(&b->desc, backward_element,
              &(struct elements){.x = x,
                                 .mean = b->mean,
                                 .a = of_dy,
                                 .b = constant,
                                 .c = of_x,
                                 .dy = dy,
                                 .relu = relu,
                                 .out = dx});
    }
    return SW_OK;
}

/* ---- Descriptors ---- */

enum { SUMS, SCRATCH, FEATURES = 12 }; /* places among the pointers; from FEATURES on x, y, ... */

#define IN_NORM(m)                                                                                 \
    {                                                                                              \
        .name = #m, .offset = offsetof(struct sw_batch_norm_args, b.m),                            \
        .written = SW_OP_WRITTEN(struct sw_batch_norm_args, b.m)                                   \
    }
static const struct sw_op_pointer pointers[] = {
    IN_NORM(sums),
    IN_NORM(scratch),
    IN_NORM(scale),
    IN_NORM(bias),
    IN_NORM(mean),
    IN_NORM(inv_std),
    IN_NORM(running_mean),
    IN_NORM(running_variance),
    IN_NORM(update_mean),
    IN_NORM(update_variance),
    SW_OP_POINTER(struct sw_batch_norm_args, dscale),
    SW_OP_POINTER(struct sw_batch_norm_args, dbias),
    SW_OP_POINTER(struct sw_batch_norm_args, x),
    SW_OP_POINTER(struct sw_batch_norm_args, y),
    SW_OP_POINTER(struct sw_batch_norm_args, dy),
    SW_OP_POINTER(struct sw_batch_norm_args, dx),
    {0},
};

/* What is not given has no bytes: which arrays an operation needs is its own affair. */
static void spans(const void *args, size_t *bytes)
{
    const struct sw_batch_norm_args *a = args;
    size_t per_channel = sw_op_floats(channels_of(&a->b));
    size_t feature = sw_desc_bytes(&a->b.desc);
    for (int i = 0; pointers[i].name; i++) {
        const void *p;
        memcpy(&p, (const char *)args + pointers[i].offset, sizeof p);
        bytes[i] = !p ? 0 : i < FEATURES ? per_channel : feature;
    }
    bytes[SUMS] = a->b.sums ? (2 * (size_t)channels_of(&a->b) + 1) * sizeof(double) : 0;
    bytes[SCRATCH] = a->b.scratch ? sw_batch_norm_scratch(&a->b.desc) : 0;
}

#define OP(name_, cpu_)                                                                            \
    {                                                                                              \
        .name = name_, .args_bytes = sizeof(struct sw_batch_norm_args), .pointers = pointers,      \
        .spans = spans, .cpu = cpu_                                                                \
    }

const struct sw_op sw_batch_norm_ops[SW_BATCH_NORM_OPS] = {
    [SW_BATCH_NORM_SUMS] = OP("batch_norm_sums", sums_cpu),
    [SW_BATCH_NORM_NORMALISE] = OP("batch_norm", normalise_cpu),
    [SW_BATCH_NORM_AGAIN] = OP("batch_norm_again", again_cpu),
    [SW_BATCH_NORM_RUNNING] = OP("batch_norm_running", running_cpu),
    [SW_BATCH_NORM_SUMS_BACKWARD] = OP("batch_norm_sums_backward", sums_backward_cpu),
    [SW_BATCH_NORM_BACKWARD] = OP("batch_norm_backward", backward_cpu),
};
