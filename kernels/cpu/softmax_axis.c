/* Softmax along one dimension of a plain array, seen as [rows, classes, places]:
 *
 *   y_j = exp(x_j - max x) / sum exp(x - max x)    dx_j = y_j (dy_j - sum_k y_k dy_k)
 *
 * Where places is 1 the classes are neighbours and fill the lanes; else the places do. Sums are
 * kept in fixed lanes or in double, so that threads change nothing. */
#include "kernels/cpu/kernel.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/vmath.h"

enum {
    LANES = 16,
    PIECE = 64,   /* places at once */
    EXP_COST = 8, /* light operations per exponential */
};

/* ---- Classes beside each other ---- */

SW_KERNEL static void row(int64_t n, const float *x, float *y)
{
    float most = x[0], lane[LANES] = {0};
    double sum = 0;
#pragma omp simd reduction(max : most)
    for (int64_t i = 1; i < n; i++)
        most = x[i] > most ? x[i] : most;
    int64_t whole = n / LANES * LANES;
    for (int64_t i = 0; i < whole; i += LANES) {
#pragma omp simd
        for (int64_t j = 0; j < LANES; j++) {
            y[i + j] = sw_v_exp(x[i + j] - most);
            lane[j] += y[i + j];
        }
    }
    for (int64_t i = whole; i < n; i++) {
        y[i] = sw_v_exp(x[i] - most);
        lane[i - whole] += y[i];
    }
    for (int j = 0; j < LANES; j++)
        sum += (double)lane[j];
    float scale = (float)(1.0 / sum);
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] *= scale;
}

SW_KERNEL static void row_backward(int64_t n, const float *y, const float *dy, float *dx)
{
    float lane[LANES] = {0};
    double sum = 0;
    int64_t whole = n / LANES * LANES;
    for (int64_t i = 0; i < whole; i += LANES) {
#pragma omp simd
        for (int64_t j = 0; j < LANES; j++)
            lane[j] += y[i + j] * dy[i + j];
    }
    for (int64_t i = whole; i < n; i++)
        lane[i - whole] += y[i] * dy[i];
    for (int j = 0; j < LANES; j++)
        sum += (double)lane[j];
    float dot = (float)sum;
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        dx[i] = y[i] * (dy[i] - dot);
}

/* ---- Places beside each other: n of them at x, classes a step apart ---- */

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

void sw_kernel_softmax(int threads, int64_t rows, int64_t classes, int64_t places, const float *x,
                       float *y)
{
    int64_t pieces = (places + PIECE - 1) / PIECE;
    int team = sw_team_size(threads, rows * classes * places * EXP_COST);
#pragma omp parallel for num_threads(team) if (team > 1) schedule(static)
    for (int64_t i = 0; i < rows * pieces; i++) {
        int64_t first = i % pieces * PIECE, at = i / pieces * classes * places + first;
        if (places == 1)
            row(classes, x + at, y + at);
        else
            piece(classes, places, places - first < PIECE ? places - first : PIECE, x + at, y + at);
    }
}

void sw_kernel_softmax_backward(int threads, int64_t rows, int64_t classes, int64_t places,
                                const float *y, const float *dy, float *dx)
{
    int64_t pieces = (places + PIECE - 1) / PIECE;
    int team = sw_team_size(threads, rows * classes * places);
#pragma omp parallel for num_threads(team) if (team > 1) schedule(static)
    for (int64_t i = 0; i < rows * pieces; i++) {
        int64_t first = i % pieces * PIECE, at = i / pieces * classes * places + first;
        if (places == 1)
            row_backward(classes, y + at, dy + at, dx + at);
        else
            piece_backward(classes, places, places - first < PIECE ? places - first : PIECE, y + at,
                           dy + at, dx + at);
    }
}
