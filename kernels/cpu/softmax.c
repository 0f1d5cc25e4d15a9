/* Softmax with cross-entropy loss, and top-k accuracy, on plain [rows, classes].
 *
 *   p_j = exp(x_j - m) / S,  m = max x,  S = sum exp(x_j - m)
 *   loss of a row = log S - (x_label - m),  d loss / dx_j = p_j - [j = label]
 *
 * S is summed in LANES fixed lanes and then in double; the rows' losses are added in row order. */
#include "kernels/cpu/kernel.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/vmath.h"

enum {
    LANES = 16,
    ROWS_AT_ONCE = 1024, /* losses that wait for being added in order */
    EXP_COST = 8,        /* light operations per exponential */
};

SW_KERNEL_INLINE float row_max(const float *x, int64_t n)
{
    float m = x[0];
#pragma omp simd reduction(max : m)
    for (int64_t i = 1; i < n; i++)
        m = x[i] > m ? x[i] : m;
    return m;
}

/* Writes exp(x - m) to e (may be x) and returns the sum. */
SW_KERNEL_INLINE double row_exp(const float *x, float m, float *e, int64_t n)
{
    float lane[LANES] = {0};
    int64_t whole = n / LANES * LANES;
    for (int64_t i = 0; i < whole; i += LANES) {
#pragma omp simd
        for (int64_t j = 0; j < LANES; j++) {
            float v = sw_v_exp(x[i + j] - m);
            e[i + j] = v;
            lane[j] += v;
        }
    }
    for (int64_t i = whole; i < n; i++) {
        e[i] = sw_v_exp(x[i] - m);
        lane[i - whole] += e[i];
    }
    double sum = 0;
    for (int j = 0; j < LANES; j++)
        sum += (double)lane[j];
    return sum;
}

SW_KERNEL static double loss_of_row(const float *x, int32_t label, float *prob, int64_t n)
{
    float m = row_max(x, n), at_label = x[label];
    double sum = row_exp(x, m, prob, n);
    float scale = (float)(1.0 / sum);
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        prob[i] *= scale;
    return log(sum) - ((double)at_label - (double)m);
}

double sw_kernel_softmax_loss(int threads, int64_t rows, int64_t classes, const float *x,
                              const int32_t *label, float *prob)
{
    double total = 0;
    for (int64_t first = 0; first < rows; first += ROWS_AT_ONCE) {
        double loss[ROWS_AT_ONCE];
        int64_t n = rows - first < ROWS_AT_ONCE ? rows - first : ROWS_AT_ONCE;
        int team = sw_team_size(threads, n * classes * EXP_COST);
#pragma omp parallel for num_threads(team) if (team > 1) schedule(static)
        for (int64_t i = 0; i < n; i++) {
            int64_t r = first + i;
            loss[i] = loss_of_row(x + r * classes, label[r], prob + r * classes, classes);
        }
        for (int64_t i = 0; i < n; i++)
            total += loss[i];
    }
    return total;
}

SW_KERNEL static void scale_row(float scale, const float *p, float *dx, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        dx[i] = scale * p[i];
}

void sw_kernel_softmax_loss_backward(int threads, int64_t rows, int64_t padded_rows,
                                     int64_t classes, const float *prob, const int32_t *label,
                                     float scale, float *dx)
{
    int team = sw_team_size(threads, rows * classes);
#pragma omp parallel for num_threads(team) if (team > 1) schedule(static)
    for (int64_t r = 0; r < rows; r++) {
        float at_label = scale * (prob[r * classes + label[r]] - 1.0f);
        scale_row(scale, prob + r * classes, dx + r * classes, classes);
        dx[r * classes + label[r]] = at_label;
    }
    if (padded_rows > rows)
        sw_kernel_zero(threads, dx + rows * classes,
                       (padded_rows - rows) * classes * (int64_t)sizeof *dx);
}

/* Scores that come before the label's. */
SW_KERNEL static int64_t rank_of_label(const float *x, int64_t label, int64_t n)
{
    float mine = x[label];
    int64_t after = 0;
#pragma omp simd reduction(+ : after)
    for (int64_t j = 0; j < n; j++)
        after += x[j] < mine || (x[j] == mine && j > label);
    return n - 1 - after;
}

int64_t sw_kernel_top_k_hits(int threads, int64_t rows, int64_t classes, int64_t top_k,
                             const float *x, const int32_t *label)
{
    int team = sw_team_size(threads, rows * classes);
    int64_t hits = 0;
#pragma omp parallel for num_threads(team) if (team > 1) schedule(static) reduction(+ : hits)
    for (int64_t r = 0; r < rows; r++)
        hits += rank_of_label(x + r * classes, label[r], classes) < top_k;
    return hits;
}
