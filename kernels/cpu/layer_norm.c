/* Layer normalization of the rows of a matrix [rows, n] (Ba, Kiros and Hinton, "Layer
 * Normalization", 2016, section 3): with the row's own mean and biased variance,
 *
 *   xhat = (x - mean) / sqrt(variance + eps)    y = scale xhat + bias
 *   g = scale dy    dx = (g - mean of g - xhat mean of (g xhat)) / sqrt(variance + eps)
 *   dscale = sum over rows of dy xhat    dbias = sum over rows of dy
 *
 * Moments are summed in double in fixed lanes; sums over rows run column by column, in row order,
 * so results do not depend on the number of threads. */
#include "kernels/ops/layer_norm.h"
#include "kernels/cpu/kernel.h"
#include <math.h>

enum { LANES = 16, COLUMNS = 64 };

SW_KERNEL_INLINE double add_lanes(const double *lane)
{
    double sum = 0;
    for (int j = 0; j < LANES; j++)
        sum += lane[j];
    return sum;
}

SW_KERNEL static void row(const struct sw_layer_norm_args *k, int64_t r)
{
    const float *x = k->x + r * k->n, *scale = k->scale, *bias = k->bias;
    float *y = k->y + r * k->n;
    double sum[LANES] = {0}, square[LANES] = {0};
    int64_t whole = k->n / LANES * LANES;

    for (int64_t i = 0; i < whole; i += LANES) {
#pragma omp simd
        for (int64_t j = 0; j < LANES; j++)
            sum[j] += (double)x[i + j];
    }

    for (int64_t i = whole; i < k->n; i++)
        sum[i - whole] += (double)x[i];

    double middle = add_lanes(sum) / (double)k->n;
    for (int64_t i = 0; i < whole; i += LANES) {
#pragma omp simd
        for (int64_t j = 0; j < LANES; j++) {
            double d = (double)x[i + j] - middle;
            square[j] += d * d;
        }
    }

    for (int64_t i = whole; i < k->n; i++)
        square[i - whole] += ((double)x[i] - middle) * ((double)x[i] - middle);

    float mean = (float)middle;
    float inv_std = (float)(1.0 / sqrt(add_lanes(square) / (double)k->n + (double)k->eps));
    k->moments[2 * r] = mean;
    k->moments[2 * r + 1] = inv_std;

#pragma omp simd
    for (int64_t i = 0; i < k->n; i++)
        y[i] = scale[i] * ((x[i] - mean) * inv_std) + bias[i];
}

static void arrays(const void *args, struct sw_op_arrays *out)
{
    const struct sw_layer_norm_args *a = args;

    SW_ARRAY(out, a, x, sw_op_floats(a->rows * a->n));
    SW_ARRAY(out, a, scale, sw_op_floats(a->n));
    SW_ARRAY(out, a, bias, sw_op_floats(a->n));
    SW_ARRAY(out, a, y, sw_op_floats(a->rows * a->n));
    SW_ARRAY(out, a, moments, sw_op_floats(2 * a->rows));
}

static int forward(const struct sw_host_launch *l, const void *args)
{
    const struct sw_layer_norm_args *k = args;
    int team = sw_team_size(l->threads, k->rows * k->n);

#pragma omp parallel for num_threads(team) if (team > 1) schedule(static)
    for (int64_t r = 0; r < k->rows; r++)
        row(k, r);
    return SW_OK;
}

const struct sw_op sw_op_layer_norm = {"layer_norm", sizeof(struct sw_layer_norm_args), arrays,
                                       forward};

/* ---- Gradients ---- */

SW_KERNEL static void row_backward(const struct sw_layer_norm_args *k, int64_t r)
{
    const float *x = k->x + r * k->n, *dy = k->dy + r * k->n, *scale = k->scale;
    float *dx = k->dx + r * k->n;
    float mean = k->moments[2 * r], inv_std = k->moments[2 * r + 1];
    double sum[LANES] = {0}, product[LANES] = {0};
    int64_t whole = k->n / LANES * LANES;

    for (int64_t i = 0; i < whole; i += LANES) {
#pragma omp simd
        for (int64_t j = 0; j < LANES; j++) {
            float g = scale[i + j] * dy[i + j];
            sum[j] += (double)g;
            product[j] += (double)g * (double)((x[i + j] - mean) * inv_std);
        }
    }

    for (int64_t i = whole; i < k->n; i++) {
        float g = scale[i] * dy[i];
        sum[i - whole] += (double)g;
        product[i - whole] += (double)g * (double)((x[i] - mean) * inv_std);
    }

    float of_g = (float)(add_lanes(sum) / (double)k->n);
    float of_x = (float)(add_lanes(product) / (double)k->n);

#pragma omp simd
    for (int64_t i = 0; i < k->n; i++)
        dx[i] = (scale[i] * dy[i] - of_g - (x[i] - mean) * inv_std * of_x) * inv_std;
}

SW_KERNEL static void columns(const struct sw_layer_norm_args *k, int64_t first, int64_t n)
{
    double scale[COLUMNS] = {0}, bias[COLUMNS] = {0};

    for (int64_t r = 0; r < k->rows; r++) {
        const float *x = k->x + r * k->n + first, *dy = k->dy + r * k->n + first;
        float mean = k->moments[2 * r], inv_std = k->moments[2 * r + 1];

#pragma omp simd
        for (int64_t i = 0; i < n; i++) {
            scale[i] += (double)(dy[i] * ((x[i] - mean) * inv_std));
            bias[i] += (double)dy[i];
        }
    }

    for (int64_t i = 0; i < n; i++) {
        k->dscale[first + i] = (float)scale[i];
        k->dbias[first + i] = (float)bias[i];
    }
}

static void gradient_arrays(const void *args, struct sw_op_arrays *out)
{
    const struct sw_layer_norm_args *a = args;

    SW_ARRAY(out, a, x, sw_op_floats(a->rows * a->n));
    SW_ARRAY(out, a, scale, sw_op_floats(a->n));
    SW_ARRAY(out, a, moments, sw_op_floats(2 * a->rows));
    SW_ARRAY(out, a, dy, sw_op_floats(a->rows * a->n));
    SW_ARRAY_OR_NULL(out, a, dx, sw_op_floats(a->rows * a->n));
    SW_ARRAY(out, a, dscale, sw_op_floats(a->n));
    SW_ARRAY(out, a, dbias, sw_op_floats(a->n));
}

/* dscale and dbias come first: dx may be dy. */
static int gradient(const struct sw_host_launch *l, const void *args)
{
    const struct sw_layer_norm_args *k = args;
    int team = sw_team_size(l->threads, k->rows * k->n);

#pragma omp parallel for num_threads(team) if (team > 1) schedule(static)
    for (int64_t first = 0; first < k->n; first += COLUMNS)
        columns(k, first, k->n - first < COLUMNS ? k->n - first : COLUMNS);

    if (!k->dx)
        return SW_OK;

#pragma omp parallel for num_threads(team) if (team > 1) schedule(static)
    for (int64_t r = 0; r < k->rows; r++)
        row_backward(k, r);
    return SW_OK;
}

const struct sw_op sw_op_layer_norm_gradient = {
    "layer_norm_backward", sizeof(struct sw_layer_norm_args), gradient_arrays, gradient};
