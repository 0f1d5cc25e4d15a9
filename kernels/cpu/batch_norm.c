/* Batch normalization on any layout: plain, blocked and channels-last activations use the loops of
 * channels.c, others go element by element. Per-channel values (moments, running statistics,
 * coefficients) are computed here, in double. */
#include "kernels/ops/batch_norm.h"
#include "kernels/cpu/kernels.h"
#include <math.h>

/* ---- Element by element ---- */

typedef void visit_fn(const struct sw_kernel_norm *e, double *sums, int64_t channels, int64_t c,
                      int64_t at);

static void visit(const struct sw_desc *d, visit_fn *f, const struct sw_kernel_norm *e,
                  double *sums)
{
    int64_t index[SW_MAX_DIMS] = {0};

    for (int64_t n = sw_desc_count(d); n > 0; n--) {
        f(e, sums, d->dim[1], index[1], sw_desc_offset(d, index));

        for (int i = d->ndim - 1; i >= 0; i--) {
            if (++index[i] < d->dim[i])
                break;
            index[i] = 0;
        }
    }
}

static float normalized(const struct sw_kernel_norm *e, int64_t c, int64_t at)
{
    return e->factor[c] * (e->x[at] - e->mean[c]) + e->bias[c];
}

/* Returns the gradient that the relu passes. */
static float passed(const struct sw_kernel_norm *e, int64_t c, int64_t at)
{
    return !e->relu || normalized(e, c, at) > 0 ? e->dy[at] : 0;
}

static void add_element(const struct sw_kernel_norm *e, double *sums, int64_t channels, int64_t c,
                        int64_t at)
{
    double v = e->dy ? (double)passed(e, c, at) : (double)e->x[at];

    sums[c] += v;
    sums[channels + c] +=
        e->dy ? v * ((double)e->x[at] - (double)e->mean[c]) * (double)e->inv_std[c] : v * v;
}

static void apply_element(const struct sw_kernel_norm *e, double *sums, int64_t channels, int64_t c,
                          int64_t at)
{
    if (e->dy) {
        e->out[at] = e->a[c] * passed(e, c, at) - e->b[c] - e->c[c] * (e->x[at] - e->mean[c]);
    } else {
        float y = normalized(e, c, at);
        e->out[at] = e->relu && 0 > y ? 0 : y;
    }
}

/* ---- The operations ---- */

static int64_t channels_of(const struct sw_batch_norm *b)
{
    return b->desc.dim[1];
}

/* Computes the two sums per channel and the number of their elements. */
static void sum(int threads, const struct sw_batch_norm *b, const struct sw_kernel_norm *e)
{
    struct sw_channels k;

    if (sw_channels_of(&b->desc, &k)) {
        sw_kernel_channel_sums(threads, &k, e, b->scratch, b->sums);
    } else {
        for (int64_t c = 0; c < 2 * channels_of(b); c++)
            b->sums[c] = 0;
        visit(&b->desc, add_element, e, b->sums);
    }

    b->sums[2 * channels_of(b)] = (double)b->desc.dim[0] * (double)sw_desc_pixels(&b->desc);
}

/* Computes y or dx, and sets padding that no loop visits to zero. */
static void apply(int threads, const struct sw_batch_norm *b, const struct sw_kernel_norm *e)
{
    const float *from = e->dy ? e->dy : e->x;
    struct sw_channels k;

    if (sw_channels_of(&b->desc, &k)) {
        sw_kernel_channel_apply(threads, &k, e);
        return;
    }

    if (from != e->out && sw_desc_storage(&b->desc) != sw_desc_count(&b->desc))
        sw_kernel_zero(threads, e->out, (int64_t)sw_desc_bytes(&b->desc));
    visit(&b->desc, apply_element, e, NULL);
}

static int sums_cpu(const struct sw_host_launch *l, const void *args)
{
    const struct sw_batch_norm_args *a = args;
    sum(l->threads, &a->b, &(struct sw_kernel_norm){.x = a->x});
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

/* Sets y = factor (x - mean) + bias. */
static int normalize(const struct sw_host_launch *l, const struct sw_batch_norm_args *a,
                     const float *mean, const float *factor)
{
    apply(l->threads, &a->b,
          &(struct sw_kernel_norm){.x = a->x,
                                   .mean = mean,
                                   .relu = a->b.relu,
                                   .factor = factor,
                                   .bias = a->b.bias,
                                   .out = a->y});
    return SW_OK;
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
    find_factors(&a->b, a->b.scratch);
    return normalize(l, a, a->b.mean, a->b.scratch);
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

    return normalize(l, a, b->running_mean, factor);
}

/* Returns the arrays of the gradient's passes; its factors are in scratch after the partial
 * sums. */
static struct sw_kernel_norm gradient_of(const struct sw_batch_norm_args *a)
{
    const struct sw_batch_norm *b = &a->b;
    float *factor = (float *)(void *)((char *)b->scratch + sw_channel_parts_bytes(&b->desc));

    find_factors(b, factor);
    return (struct sw_kernel_norm){.x = a->x,
                                   .mean = b->mean,
                                   .inv_std = b->inv_std,
                                   .relu = b->relu,
                                   .factor = factor,
                                   .bias = b->bias,
                                   .dy = a->dy,
                                   .out = a->dx};
}

static int sums_backward_cpu(const struct sw_host_launch *l, const void *args)
{
    const struct sw_batch_norm_args *a = args;
    const struct sw_kernel_norm e = gradient_of(a);
    int64_t channels = channels_of(&a->b);

    sum(l->threads, &a->b, &e);

    for (int64_t c = 0; c < channels; c++) {
        a->dbias[c] = (float)a->b.sums[c];
        a->dscale[c] = (float)a->b.sums[channels + c];
    }

    return SW_OK;
}

/* dx = scale / std (dy - sum dy / m - xhat sum(dy xhat) / m), m elements per channel. */
static int backward_cpu(const struct sw_host_launch *l, const void *args)
{
    const struct sw_batch_norm_args *a = args;
    const struct sw_batch_norm *b = &a->b;
    int64_t channels = channels_of(b);
    double count = b->sums[2 * channels];
    float *of_dy = b->scratch, *constant = of_dy + channels, *of_x = constant + channels;
    struct sw_kernel_norm e = gradient_of(a);

    for (int64_t c = 0; c < channels; c++) {
        double inv_std = (double)b->inv_std[c], factor = (double)b->scale[c] * inv_std;
        of_dy[c] = (float)factor;
        constant[c] = (float)(factor * b->sums[c] / count);
        of_x[c] = (float)(factor * inv_std * b->sums[channels + c] / count);
    }

    e.a = of_dy;
    e.b = constant;
    e.c = of_x;
    apply(l->threads, b, &e);

    return SW_OK;
}

/* ---- Descriptors ---- */

/* Arrays that are NULL are not used; which ones are needed depends on the operation. */
static void arrays(const void *args, struct sw_op_arrays *out)
{
    const struct sw_batch_norm_args *a = args;
    const struct sw_batch_norm *b = &a->b;
    const size_t channels = (size_t)channels_of(b), each = channels * sizeof(float);
    const int64_t n = sw_desc_storage(&b->desc);

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
    SW_ACTIVATION_OR_NULL(out, a, x, b->desc.dtype, n);
    SW_ACTIVATION_OR_NULL(out, a, y, b->desc.dtype, n);
    SW_ACTIVATION_OR_NULL(out, a, dy, b->desc.dtype, n);
    SW_ACTIVATION_OR_NULL(out, a, dx, b->desc.dtype, n);
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
