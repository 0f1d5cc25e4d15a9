/* Batch normalization on any layout: plain, blocked and channels-last activations use the loops of
 * channels.c, others go element by element. Per-channel values (moments, running statistics,
 * coefficients) are computed here, in double. */
#include "kernels/ops/batch_norm.h"
#include "kernels/cpu/kernels.h"
#include <math.h>

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

/* Sets padding that no loop visits to zero. */
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

/* Returns the gradient that the relu passes. */
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

static void normalize_element(const struct elements *e, int64_t c, int64_t at)
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

static int sums_cpu(const struct sw_host_launch *l, const void *args)
{
    const struct sw_batch_norm_args *a = args;
    const struct sw_batch_norm *b = &a->b;
    const float *x = a->x;
    struct sw_channels k;
    int64_t channels = channels_of(b);

    if (sw_channels_of(&b->desc, &k)) {
        sw_kernel_channel_sums(l->threads, &k, x, b->scratch, b->sums);
    } else {
        zero_sums(b);
        visit(&b->desc, add_element,
              &(struct elements){.x = x, .sum = b->sums, .square = b->sums + channels});
    }

    b->sums[2 * channels] = elements_per_channel(&b->desc);
    return SW_OK;
}

/* running = momentum running + (1 - momentum) batch, with the unbiased variance. */
static void update_running(const struct sw_batch_norm *b, int64_t c, double mean, double variance,
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
    struct sw_channels k;

    if (sw_channels_of(&b->desc, &k)) {
        sw_kernel_channel_normalise(threads, &k, b->relu, x, mean, factor, b->bias, y);
    } else {
        clear(threads, &b->desc, x, y);
        visit(&b->desc, normalize_element,
              &(struct elements){.x = x,
                                 .mean = mean,
                                 .a = factor,
                                 .b = b->bias,
                                 .relu = b->relu ? &relu : NULL,
                                 .out = y});
    }
}

/* The factors of y = factor (x - mean) + bias. Backward must compute the same bits to know what the
 * relu passed. */
static void find_factors(const struct sw_batch_norm *b, float *factor)
{
    for (int64_t c = 0; c < channels_of(b); c++)
        factor[c] = (float)((double)b->scale[c] * (double)b->inv_std[c]);
}

/* Recomputes y from the mean and inv_std of the batch. */
static int recompute_cpu(const struct sw_host_launch *l, const void *args)
{
    const struct sw_batch_norm_args *a = args;
    const struct sw_batch_norm *b = &a->b;
    float *factor = b->scratch;

    find_factors(b, factor);
    apply(l->threads, b, a->x, b->mean, factor, a->y);
    return SW_OK;
}

static int normalize_cpu(const struct sw_host_launch *l, const void *args)
{
    const struct sw_batch_norm_args *a = args;
    const struct sw_batch_norm *b = &a->b;
    int64_t channels = channels_of(b);
    double count = b->sums[2 * channels];

    for (int64_t c = 0; c < channels; c++) {
        double mean = b->sums[c] / count;
        double variance = b->sums[channels + c] / count - mean * mean;

        variance = variance < 0 ? 0 : variance; /* below 0 only by rounding; NaN stays NaN */

        double inv_std = 1 / sqrt(variance + (double)b->eps);
        b->mean[c] = (float)mean;
        b->inv_std[c] = (float)inv_std;
        if (b->update_mean)
            update_running(b, c, mean, variance, count);
    }

    return recompute_cpu(l, args);
}

static int running_cpu(const struct sw_host_launch *l, const void *args)
{
    const struct sw_batch_norm_args *a = args;
    const struct sw_batch_norm *b = &a->b;
    float *factor = b->scratch;

    for (int64_t c = 0; c < channels_of(b); c++)
        factor[c] =
            (float)((double)b->scale[c] / sqrt((double)b->running_variance[c] + (double)b->eps));

    apply(l->threads, b, a->x, b->running_mean, factor, a->y);
    return SW_OK;
}

/* Returns the relu for the backward passes; its factors are in scratch after the partial sums. */
static struct sw_kernel_relu relu_of(const struct sw_batch_norm *b)
{
    float *factor = (float *)(void *)((char *)b->scratch + sw_channel_parts_bytes(&b->desc));
    find_factors(b, factor);
    return (struct sw_kernel_relu){factor, b->bias};
}

static int sums_backward_cpu(const struct sw_host_launch *l, const void *args)
{
    const struct sw_batch_norm_args *a = args;
    const struct sw_batch_norm *b = &a->b;
    const float *x = a->x, *dy = a->dy;
    struct sw_channels k;
    int64_t channels = channels_of(b);
    const struct sw_kernel_relu at = relu_of(b), *relu = b->relu ? &at : NULL;

    if (sw_channels_of(&b->desc, &k)) {
        sw_kernel_channel_sums_backward(l->threads, &k, relu, x, b->mean, b->inv_std, dy,
                                        b->scratch, b->sums);
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
static int backward_cpu(const struct sw_host_launch *l, const void *args)
{
    const struct sw_batch_norm_args *a = args;
    const struct sw_batch_norm *b = &a->b;
    const float *x = a->x, *dy = a->dy;
    float *dx = a->dx;
    struct sw_channels k;
    int64_t channels = channels_of(b);
    double count = b->sums[2 * channels];
    float *of_dy = b->scratch, *constant = of_dy + channels, *of_x = constant + channels;
    const struct sw_kernel_relu at = relu_of(b), *relu = b->relu ? &at : NULL;

    for (int64_t c = 0; c < channels; c++) {
        double inv_std = (double)b->inv_std[c], factor = (double)b->scale[c] * inv_std;
        of_dy[c] = (float)factor;
        constant[c] = (float)(factor * b->sums[c] / count);
        of_x[c] = (float)(factor * inv_std * b->sums[channels + c] / count);
    }

    if (sw_channels_of(&b->desc, &k)) {
        sw_kernel_channel_backward(l->threads, &k, relu, x, b->mean, of_dy, constant, of_x, dy, dx);
    } else {
        clear(l->threads, &b->desc, dy, dx);
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

/* Arrays that are NULL are not used; which ones are needed depends on the operation. */
static void arrays(const void *args, struct sw_op_arrays *out)
{
    const struct sw_batch_norm_args *a = args;
    const struct sw_batch_norm *b = &a->b;
    const size_t channels = (size_t)channels_of(b), each = channels * sizeof(float);
    const size_t feature = sw_desc_bytes(&b->desc);

    SW_ARRAY_OR_NULL(out, b, sums, (2 * channels + 1) * sizeof(double));
    SW_ARRAY_OR_NULL(out, b, scratch, sw_channel_scratch_bytes(&b->desc));
    SW_ARRAY_OR_NULL(out, b, scale, each);
    SW_ARRAY_OR_NULL(out, b, bias, each);
    SW_ARRAY_OR_NULL(out, b, mean, each);
    SW_ARRAY_OR_NULL(out, b, inv_std, each);
    SW_ARRAY_OR_NULL(out, b, running_mean, each);
    SW_ARRAY_OR_NULL(out, b, running_variance, each);
    SW_ARRAY_OR_NULL(out, b, update_mean, each);
    SW_ARRAY_OR_NULL(out, b, update_variance, each);
    SW_ARRAY_OR_NULL(out, a, dscale, each);
    SW_ARRAY_OR_NULL(out, a, dbias, each);
    SW_ARRAY_OR_NULL(out, a, x, feature);
    SW_ARRAY_OR_NULL(out, a, y, feature);
    SW_ARRAY_OR_NULL(out, a, dy, feature);
    SW_ARRAY_OR_NULL(out, a, dx, feature);
}

#define OP(name, cpu)                                                                              \
    {                                                                                              \
        name, sizeof(struct sw_batch_norm_args), arrays, cpu                                       \
    }
const struct sw_op sw_op_batch_norm_sums = OP("batch_norm_sums", sums_cpu);
const struct sw_op sw_op_batch_norm = OP("batch_norm", normalize_cpu);
const struct sw_op sw_op_batch_norm_again = OP("batch_norm_again", recompute_cpu);
const struct sw_op sw_op_batch_norm_running = OP("batch_norm_running", running_cpu);
const struct sw_op sw_op_batch_norm_sums_gradient =
    OP("batch_norm_sums_backward", sums_backward_cpu);
const struct sw_op sw_op_batch_norm_gradient = OP("batch_norm_backward", backward_cpu);
