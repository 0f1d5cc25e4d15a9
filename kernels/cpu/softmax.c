/* Softmax along one dimension of a plain array, viewed as [rows, classes, places]:
 *
 *   y_j = exp(x_j - max x) / sum exp(x - max x)    dx_j = y_j (dy_j - sum_k y_k dy_k)
 *
 * If places is 1 the classes are adjacent and fill the lanes; else the places do. Sums are in fixed
 * lanes or in double, so results do not depend on the number of threads. */
#include "kernels/ops/softmax.h"
#include "kernels/cpu/softmax.h"

enum { PIECE = 64 }; /* places per loop */

/* ---- Adjacent classes ---- */

SW_KERNEL static void row(int64_t n, const float *x, float *y)
{
    double sum = sw_row_exp(x, sw_row_max(x, n), y, n);
    sw_row_scale((float)(1.0 / sum), y, n);
}

SW_KERNEL static void row_backward(int64_t n, const float *y, const float *dy, float *dx)
{
    const float dot = (float)sw_row_dot(y, dy, n);

#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        dx[i] = y[i] * (dy[i] - dot);
}

/* ---- Adjacent places: n of them at x, classes at a distance of `step` ---- */

SW_KERNEL static void piece(int64_t classes, int64_t step, int64_t n, const float *x, float *y)
{
    float most[PIECE], scale[PIECE];
    double sum[PIECE] = {0};

    for (int64_t i = 0; i < n; i++)
        most[i] = x[i];

    for (int64_t c = 1; c < classes; c++) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            most[i] = x[c * step + i] > most[i] ? x[c * step + i] : most[i];
    }

    for (int64_t c = 0; c < classes; c++) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++) {
            y[c * step + i] = sw_v_exp(x[c * step + i] - most[i]);
            sum[i] += (double)y[c * step + i];
        }
    }

    for (int64_t i = 0; i < n; i++)
        scale[i] = (float)(1.0 / sum[i]);

    for (int64_t c = 0; c < classes; c++) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            y[c * step + i] *= scale[i];
    }
}

SW_KERNEL static void piece_backward(int64_t classes, int64_t step, int64_t n, const float *y,
                                     const float *dy, float *dx)
{
    double sum[PIECE] = {0};

    for (int64_t c = 0; c < classes; c++) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            sum[i] += (double)(y[c * step + i] * dy[c * step + i]);
    }

    for (int64_t c = 0; c < classes; c++) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            dx[c * step + i] = y[c * step + i] * (dy[c * step + i] - (float)sum[i]);
    }
}

/* ---- Whole arrays ---- */

static void arrays(const void *args, struct sw_op_arrays *out)
{
    const struct sw_softmax_args *a = args;
    const size_t all = sw_op_floats(a->rows * a->classes * a->places);
    SW_ARRAY(out, a, x, all);
    SW_ARRAY(out, a, y, all);
}

/* Calls the loops for all rows; with dy those of the gradient. */
static int run(const struct sw_host_launch *l, const struct sw_softmax_args *a, const float *dy,
               int64_t cost)
{
    const int64_t classes = a->classes, places = a->places, pieces = (places + PIECE - 1) / PIECE;
    int team = sw_team_size(l->threads, a->rows * classes * places * cost);

#pragma omp parallel for num_threads(team) if (team > 1) schedule(static)
    for (int64_t i = 0; i < a->rows * pieces; i++) {
        int64_t first = i % pieces * PIECE, at = i / pieces * classes * places + first;
        int64_t n = places - first < PIECE ? places - first : PIECE;

        if (places == 1 && dy)
            row_backward(classes, a->y + at, dy + at, a->dx + at);
        else if (places == 1)
            row(classes, a->x + at, a->y + at);
        else if (dy)
            piece_backward(classes, places, n, a->y + at, dy + at, a->dx + at);
        else
            piece(classes, places, n, a->x + at, a->y + at);
    }

    return SW_OK;
}

static int forward(const struct sw_host_launch *l, const void *args)
{
    return run(l, args, NULL, SW_EXP_COST);
}

const struct sw_op sw_op_softmax = {"softmax", sizeof(struct sw_softmax_args), arrays, forward};

static void gradient_arrays(const void *args, struct sw_op_arrays *out)
{
    const struct sw_softmax_args *a = args;
    const size_t all = sw_op_floats(a->rows * a->classes * a->places);

    SW_ARRAY(out, a, y, all);
    SW_ARRAY(out, a, dy, all);
    SW_ARRAY(out, a, dx, all);
}

static int gradient(const struct sw_host_launch *l, const void *args)
{
    return run(l, args, ((const struct sw_softmax_args *)args)->dy, 1);
}

const struct sw_op sw_op_softmax_gradient = {"softmax_backward", sizeof(struct sw_softmax_args),
                                             gradient_arrays, gradient};
