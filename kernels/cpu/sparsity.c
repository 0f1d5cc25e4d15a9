/* The sparsity penalty: sums per channel as in batch normalization, on any layout. */
#include "kernels/ops/sparsity.h"
#include "kernels/cpu/kernels.h"
#include <math.h>
#include <string.h>

static const double least = 1e-6; /* mean activations are clamped to least .. 1 - least */

static int64_t channels_of(const struct sw_sparsity_args *a)
{
    return a->desc.dim[1];
}

static int64_t rows_of(const struct sw_sparsity_args *a)
{
    return sw_op_valid_rows(a->step, a->desc.dim[0]);
}

/* Advances to the next element of the activation in any layout; false at the end. */
static bool next_element(const struct sw_desc *d, int64_t *index)
{
    for (int i = d->ndim - 1; i >= 0; i--) {
        if (++index[i] < d->dim[i])
            return true;
        index[i] = 0;
    }

    return false;
}

/* ---- Sums ---- */

static int sums_cpu(const struct sw_host_launch *l, const void *args)
{
    const struct sw_sparsity_args *a = args;
    struct sw_desc valid = a->desc;
    struct sw_channels k;
    int64_t channels = channels_of(a), index[SW_MAX_DIMS] = {0};

    valid.dim[0] = rows_of(a);
    memset(a->sums, 0, (size_t)(2 * channels + 1) * sizeof *a->sums);
    a->sums[2 * channels] = (double)(valid.dim[0] * sw_desc_pixels(&valid));
    if (sw_desc_count(&valid) == 0)
        return SW_OK;

    if (sw_channels_of(&a->desc, &k)) {
        k.rows = valid.dim[0];
        sw_kernel_channel_sums(l->threads, &k, &(struct sw_kernel_norm){.x = a->x}, a->scratch,
                               a->sums);
    } else {
        do {
            a->sums[index[1]] += (double)a->x[sw_desc_offset(&a->desc, index)];
        } while (next_element(&valid, index));
    }

    return SW_OK;
}

/* ---- Penalty and slopes ---- */

static int penalty_cpu(const struct sw_host_launch *l, const void *args)
{
    const struct sw_sparsity_args *a = args;
    int64_t channels = channels_of(a);
    double rho = (double)a->rho, beta = (double)a->beta, penalty = 0;
    double count = a->sums[2 * channels], pixels = (double)sw_desc_pixels(&a->desc);
    double rows = (double)rows_of(a);

    for (int64_t c = 0; c < channels; c++) {
        double mean = a->sums[c] / (count > 0 ? count : 1);
        mean = mean < least ? least : mean > 1 - least ? 1 - least : mean; /* NaN passes */
        penalty += beta * (rho * log(rho / mean) + (1 - rho) * log((1 - rho) / (1 - mean)));
        a->slope[c] = (float)(beta * ((1 - rho) / (1 - mean) - rho / mean) / pixels);
    }

    *a->result = (struct sw_result){.sum = penalty * rows, .weight = rows};
    return SW_OK;
}

/* ---- Gradient ---- */

/* Invalid rows also get a slope, which has no effect: nothing is trained on them. */
static int gradient_cpu(const struct sw_host_launch *l, const void *args)
{
    const struct sw_sparsity_args *a = args;
    struct sw_channels k;
    int64_t channels = channels_of(a), index[SW_MAX_DIMS] = {0};
    float *add = a->slope + channels, *one = add + channels;
    const float *dy = a->dy ? a->dy : a->dx;

    for (int64_t c = 0; c < channels; c++) {
        add[c] = a->slope[c] * a->step->backward_scale;
        one[c] = 1;
    }

    if (!a->dy || (a->dy != a->dx && sw_desc_storage(&a->desc) != sw_desc_count(&a->desc)))
        sw_kernel_zero(l->threads, a->dx, (int64_t)sw_desc_bytes(&a->desc));

    if (sw_channels_of(&a->desc, &k)) {
        float *zero = (float *)a->scratch;
        memset(zero, 0, (size_t)channels * sizeof *zero);
        sw_kernel_channel_apply(
            l->threads, &k,
            &(struct sw_kernel_norm){
                .x = dy, .mean = zero, .factor = one, .bias = add, .out = a->dx});
    } else if (sw_desc_count(&a->desc) > 0) {
        do {
            int64_t at = sw_desc_offset(&a->desc, index);
            a->dx[at] = dy[at] + add[index[1]];
        } while (next_element(&a->desc, index));
    }

    return SW_OK;
}

static void arrays(const void *args, struct sw_op_arrays *out)
{
    const struct sw_sparsity_args *a = args;
    const size_t feature = sw_desc_bytes(&a->desc), channels = (size_t)channels_of(a);

    SW_ARRAY_OR_NULL(out, a, step, sizeof *a->step);
    SW_ARRAY_OR_NULL(out, a, sums, (2 * channels + 1) * sizeof *a->sums);
    SW_ARRAY_OR_NULL(out, a, scratch, sw_channel_scratch_bytes(&a->desc));
    SW_ARRAY_OR_NULL(out, a, slope, 3 * channels * sizeof *a->slope);
    SW_ARRAY_OR_NULL(out, a, result, sizeof *a->result);
    SW_ARRAY_OR_NULL(out, a, x, feature);
    SW_ARRAY_OR_NULL(out, a, dy, feature);
    SW_ARRAY_OR_NULL(out, a, dx, feature);
}

#define OP(name, cpu)                                                                              \
    {                                                                                              \
        name, sizeof(struct sw_sparsity_args), arrays, cpu                                         \
    }
const struct sw_op sw_op_sparsity_sums = OP("sparsity_sums", sums_cpu);
const struct sw_op sw_op_sparsity = OP("sparsity", penalty_cpu);
const struct sw_op sw_op_sparsity_gradient = OP("sparsity_backward", gradient_cpu);
