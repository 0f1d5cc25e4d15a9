/* Losses of a row against targets of the same size, or against a label, on plain [rows, n].
 *
 * Euclidean (Caffe's EuclideanLoss)        L = 1/2 sum (x - t)^2,  y = x - t,  dL/dx = y
 * Sigmoid with cross-entropy               L = sum max(x, 0) - x t + log(1 + exp -|x|),
 *                                          y = 1 / (1 + exp -x),  dL/dx = y - t
 * Softmax with targets (thesis, Eq 5.7)    L = -sum t log p / sum t,  y = p = softmax(x),
 *                                          dL/dx = y - t / sum t
 * Rate-adapting Poisson (Eq 5.3 to 5.5)    l = sum t,  y = l softmax(x),
 *                                          L = sum y - t log y + log t!,  dL/dx = y - t
 * Hinge (Caffe's HingeLoss)                m_k = max(0, margin - s_k x_k), s_k = 1 at the label,
 *                                          -1 elsewhere; L = sum m_k or sum m_k^2
 * Ranking hinge (Frome et al. 2013, Eq 1)  m_k = max(0, margin - x_label + x_k), k != label;
 *                                          L = sum m_k or sum m_k^2
 * Triplets of embeddings (a, p, q)         m = max(0, margin - a p + a q), L = m or m^2
 * For both hinges y = dL/dx. A target that is a sum of counts need not be whole: t! is
 * Gamma(t + 1). Softmax and Poisson take a row without targets (sum t = 0) for one without loss. */
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/softmax.h"

enum { BLOCK = 1024 }; /* elements whose lanes are added up before the next */

struct job {
    const struct sw_kernel_row_loss *loss;
    const float *x, *target;
    const int32_t *label;
    float *y;
};

/* ---- Element by element ---- */

SW_KERNEL_INLINE float euclidean_element(float x, float t, float *y)
{
    *y = x - t;
    return 0.5f * *y * *y;
}

SW_KERNEL_INLINE float sigmoid_element(float x, float t, float *y)
{
    float e = sw_v_exp(-sw_v_abs(x)), small = 1.0f / (1.0f + e);
    *y = x < 0 ? e * small : small;
    return (x > 0 ? x : 0) - x * t + sw_v_log1p_unit(e);
}

SW_KERNEL_INLINE float element(bool sigmoid, float x, float t, float *y)
{
    return sigmoid ? sigmoid_element(x, t, y) : euclidean_element(x, t, y);
}

SW_KERNEL_INLINE double elements(bool sigmoid, const float *x, const float *t, float *y, int64_t n)
{
    double sum = 0;
    for (int64_t from = 0; from < n; from += BLOCK) {
        int64_t left = n - from < BLOCK ? n - from : BLOCK;
        int64_t whole = left / SW_ROW_LANES * SW_ROW_LANES;
        float lane[SW_ROW_LANES] = {0};
        for (int64_t i = from; i < from + whole; i += SW_ROW_LANES) {
#pragma omp simd
            for (int64_t j = 0; j < SW_ROW_LANES; j++)
                lane[j] += element(sigmoid, x[i + j], t[i + j], &y[i + j]);
        }
        for (int64_t j = 0; j < left - whole; j++)
            lane[j] +=
                element(sigmoid, x[from + whole + j], t[from + whole + j], &y[from + whole + j]);
        for (int j = 0; j < SW_ROW_LANES; j++)
            sum += (double)lane[j];
    }
    return sum;
}

SW_KERNEL static double euclidean_row(const float *x, const float *t, float *y, int64_t n)
{
    return elements(false, x, t, y, n);
}

SW_KERNEL static double sigmoid_row(const float *x, const float *t, float *y, int64_t n)
{
    return elements(true, x, t, y, n);
}

/* ---- Through a softmax ---- */

static double sum_of(const float *t, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += (double)t[i];
    return sum;
}

/* Of a whole number or of any other that is not negative; lgamma itself writes a global. */
static double log_factorial(double t)
{
    int sign;
    return lgamma_r(t + 1, &sign);
}

/* What a row without targets says: nothing, unless a score is not a number. */
static double no_loss(double log_sum)
{
    return log_sum - log_sum;
}

/* sum t (x - m); where there is no target the score does not count, be it infinite. */
static double weighted_scores(const float *x, float m, const float *t, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += t[i] > 0 ? (double)t[i] * ((double)x[i] - (double)m) : 0;
    return sum;
}

/* y = exp(x - m), scaled to the sum `total`; log of the sum before that. */
SW_KERNEL static double softmax_row(const float *x, float *y, double total, float *m, int64_t n)
{
    *m = sw_row_max(x, n);
    double sum = sw_row_exp(x, *m, y, n);
    sw_row_scale((float)(total / sum), y, n);
    return log(sum);
}

static double target_row(const float *x, const float *t, float *y, int64_t n)
{
    float m;
    double total = sum_of(t, n), log_sum = softmax_row(x, y, 1, &m, n);
    return total > 0 ? log_sum - weighted_scores(x, m, t, n) / total : no_loss(log_sum);
}

static double poisson_row(const float *x, const float *t, float *y, int64_t n)
{
    float m;
    double total = sum_of(t, n), log_sum = softmax_row(x, y, total, &m, n), factorials = 0;
    if (!(total > 0))
        return no_loss(log_sum);
    for (int64_t i = 0; i < n; i++)
        if (t[i] > 0 && t[i] != 1)
            factorials += log_factorial((double)t[i]);
    return total - total * (log(total) - log_sum) - weighted_scores(x, m, t, n) + factorials;
}

/* ---- Hinges ---- */

/* The loss of one margin m, and its derivative by m. A NaN stays one. */
SW_KERNEL_INLINE float hinge(bool squared, float m, float *slope)
{
    float v = m <= 0 ? 0 : m;
    *slope = squared ? 2 * v : v > 0 ? 1.0f : v;
    return squared ? v * v : v;
}

SW_KERNEL static double hinge_row(const struct sw_kernel_row_loss *k, const float *x, int64_t label,
                                  float *y, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        float s = i == label ? 1.0f : -1.0f, slope;
        sum += (double)hinge(k->squared, k->margin - s * x[i], &slope);
        y[i] = -s * slope;
    }
    return sum;
}

SW_KERNEL static double ranking_row(const struct sw_kernel_row_loss *k, const float *x,
                                    int64_t label, float *y, int64_t n)
{
    double sum = 0, slopes = 0;
    float least = k->margin - x[label];
    for (int64_t i = 0; i < n; i++) {
        y[i] = 0;
        if (i == label)
            continue;
        sum += (double)hinge(k->squared, least + x[i], &y[i]);
        slopes += (double)y[i];
    }
    y[label] = (float)-slopes;
    return sum;
}

static double row_loss(const void *user, int64_t r)
{
    const struct job *j = user;
    const struct sw_kernel_row_loss *k = j->loss;
    int64_t n = k->columns;
    const float *x = j->x + r * n, *t = j->target ? j->target + r * n : NULL;
    float *y = j->y + r * n;
    switch (k->kind) {
    case SW_KERNEL_EUCLIDEAN:
        return euclidean_row(x, t, y, n);
    case SW_KERNEL_SIGMOID:
        return sigmoid_row(x, t, y, n);
    case SW_KERNEL_SOFTMAX:
        return target_row(x, t, y, n);
    case SW_KERNEL_POISSON:
        return poisson_row(x, t, y, n);
    case SW_KERNEL_HINGE:
        return hinge_row(k, x, j->label[r], y, n);
    case SW_KERNEL_RANKING:
        return ranking_row(k, x, j->label[r], y, n);
    }
    return 0;
}

double sw_kernel_row_losses(int threads, const struct sw_kernel_row_loss *k, int64_t rows,
                            const float *x, const float *target, const int32_t *label, float *y)
{
    const struct job j = {k, x, target, label, y};
    return sw_sum_over_rows(threads, rows, k->columns * SW_EXP_COST, row_loss, &j);
}

/* ---- Gradients ---- */

SW_KERNEL static void gradient_row(float scale, const float *y, float share, const float *t,
                                   float *dx, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        dx[i] = scale * (y[i] - share * t[i]);
}

SW_KERNEL static void scale_row(float scale, const float *y, float *dx, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        dx[i] = scale * y[i];
}

/* Softmax: targets are shares of their sum, and a row without any has no gradient. */
static void row_gradient(bool softmax, float scale, const float *y, const float *t, float *dx,
                         int64_t n)
{
    double total = t && softmax ? sum_of(t, n) : 1;
    if (!(total > 0))
        memset(dx, 0, (size_t)n * sizeof *dx);
    else if (t)
        gradient_row(scale, y, (float)(1 / total), t, dx, n);
    else
        scale_row(scale, y, dx, n);
}

void sw_kernel_row_losses_backward(int threads, enum sw_kernel_loss kind, int64_t rows,
                                   int64_t padded_rows, int64_t columns, const float *y,
                                   const float *target, float scale, float *dx)
{
    bool softmax = kind == SW_KERNEL_SOFTMAX;
    bool by_target = softmax || kind == SW_KERNEL_SIGMOID || kind == SW_KERNEL_POISSON;
    int team = sw_team_size(threads, rows * columns);
#pragma omp parallel for num_threads(team) if (team > 1) schedule(static)
    for (int64_t r = 0; r < rows; r++)
        row_gradient(softmax, scale, y + r * columns, by_target ? target + r * columns : NULL,
                     dx + r * columns, columns);
    if (padded_rows > rows)
        sw_kernel_zero(threads, dx + rows * columns,
                       (padded_rows - rows) * columns * (int64_t)sizeof *dx);
}

/* ---- Triplets ---- */

SW_KERNEL static double dot_of_difference(const float *a, const float *b, const float *c, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += (double)a[i] * ((double)c[i] - (double)b[i]);
    return sum;
}

struct triplets {
    const struct sw_kernel_row_loss *loss;
    const float *anchor, *match, *other;
    float *slope;
};

static double triplet_loss(const void *user, int64_t r)
{
    const struct triplets *t = user;
    int64_t n = t->loss->columns, at = r * n;
    double m = (double)t->loss->margin +
               dot_of_difference(t->anchor + at, t->match + at, t->other + at, n);
    return (double)hinge(t->loss->squared, (float)m, &t->slope[r]);
}

double sw_kernel_triplets(int threads, const struct sw_kernel_row_loss *k, int64_t rows,
                          const float *anchor, const float *match, const float *other, float *slope)
{
    const struct triplets t = {k, anchor, match, other, slope};
    return sw_sum_over_rows(threads, rows, 2 * k->columns, triplet_loss, &t);
}

void sw_kernel_triplets_backward(int threads, int64_t rows, int64_t padded_rows, int64_t columns,
                                 const float *slope, float scale, const float *plus,
                                 const float *minus, float *dx)
{
    int team = sw_team_size(threads, rows * columns);
#pragma omp parallel for num_threads(team) if (team > 1) schedule(static)
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = r * columns; i < (r + 1) * columns; i++)
            dx[i] = scale * slope[r] * ((plus ? plus[i] : 0) - (minus ? minus[i] : 0));
    if (padded_rows > rows)
        sw_kernel_zero(threads, dx + rows * columns,
                       (padded_rows - rows) * columns * (int64_t)sizeof *dx);
}
