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
 * Ranking hinge with targets (thesis, 5.7.3: DeViSE with the mean of several labels' vectors)
 *                                          s = sum t x / sum t,  m_k = max(0, margin - s + x_k)
 * where t_k = 0; L = sum m_k or sum m_k^2 Triplets of embeddings (a, p, q)         m = max(0,
 * margin - a p + a q), L = m or m^2 For hinges y = dL/dx; with targets, s_k = 1 where t_k > 0.
 * Targets of Poisson need not be integers: t! is Gamma(t + 1). With softmax, Poisson and ranking a
 * row without targets (sum t = 0) has no loss. */
#include "kernels/ops/row_loss.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/softmax.h"

enum { BLOCK = 1024 }; /* elements per partial sum of lanes */

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

/* ---- With a softmax ---- */

static double sum_of(const float *t, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += (double)t[i];
    return sum;
}

/* Returns log t! for any t >= 0; lgamma would write a global variable. */
static double log_factorial(double t)
{
    int sign;
    return lgamma_r(t + 1, &sign);
}

/* Returns the loss of a row without targets: 0, unless a score is NaN. */
static double no_loss(double log_sum)
{
    return log_sum - log_sum;
}

/* Returns sum t (x - m); scores without a target are ignored, even if they are infinite. */
static double weighted_scores(const float *x, float m, const float *t, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += t[i] > 0 ? (double)t[i] * ((double)x[i] - (double)m) : 0;
    return sum;
}

/* Sets y = exp(x - m), scaled to the sum `total`; returns the log of the sum before scaling. */
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

/* t: the targets of the row, or NULL: label is the only one. */
SW_KERNEL static double hinge_row(const struct sw_row_loss_args *k, const float *x, const float *t,
                                  int64_t label, float *y, int64_t n)
{
    double sum = 0;

    for (int64_t i = 0; i < n; i++) {
        float s = (t ? t[i] > 0 : i == label) ? 1.0f : -1.0f, slope;
        sum += (double)sw_hinge(k->squared, k->margin - s * x[i], &slope);
        y[i] = -s * slope;
    }

    return sum;
}

SW_KERNEL static double ranking_row(const struct sw_row_loss_args *k, const float *x, int64_t label,
                                    float *y, int64_t n)
{
    double sum = 0, slopes = 0;
    float least = k->margin - x[label];

    for (int64_t i = 0; i < n; i++) {
        y[i] = 0;
        if (i == label)
            continue;

        sum += (double)sw_hinge(k->squared, least + x[i], &y[i]);
        slopes += (double)y[i];
    }

    y[label] = (float)-slopes;
    return sum;
}

SW_KERNEL static double ranking_target_row(const struct sw_row_loss_args *k, const float *x,
                                           const float *t, float *y, int64_t n)
{
    double sum = 0, slopes = 0, total = sum_of(t, n);

    memset(y, 0, (size_t)n * sizeof *y);
    if (!(total > 0))
        return 0;

    float least = k->margin - (float)(weighted_scores(x, 0, t, n) / total);
    for (int64_t i = 0; i < n; i++) {
        if (t[i] > 0)
            continue;

        sum += (double)sw_hinge(k->squared, least + x[i], &y[i]);
        slopes += (double)y[i];
    }

    for (int64_t i = 0; i < n; i++) {
        if (t[i] > 0)
            y[i] = (float)(-slopes * (double)t[i] / total);
    }

    return sum;
}

/* ---- Rows ---- */

int sw_row_loss_report_bad(enum sw_loss kind, const char *who, int64_t row, int64_t column,
                           double target, struct sw_err *err)
{
    return sw_err_set(err, SW_ERR_INVALID, "%s: target %lld of row %lld is %g, but %s", who,
                      (long long)column, (long long)row, target,
                      kind == SW_LOSS_SIGMOID
                          ? "a target must be 0 to 1 (for pixels set scale = 0.00390625)"
                          : "a target must be 0 or more");
}

static int check_targets(const struct sw_row_loss_args *a, int64_t rows, struct sw_err *err)
{
    for (int64_t i = 0; i < rows * a->columns; i++)
        if (!sw_target_fits(a->kind, a->target[i]))
            return sw_row_loss_report_bad(a->kind, a->who, i / a->columns, i % a->columns,
                                          (double)a->target[i], err);

    return SW_OK;
}

static double row_loss(const void *user, int64_t r)
{
    const struct sw_row_loss_args *k = user;
    int64_t n = k->columns;
    const float *x = k->x + r * n, *t = k->target ? k->target + r * n : NULL;
    float *y = k->y + r * n;

    switch (k->kind) {
    case SW_LOSS_EUCLIDEAN:
        return euclidean_row(x, t, y, n);
    case SW_LOSS_SIGMOID:
        return sigmoid_row(x, t, y, n);
    case SW_LOSS_SOFTMAX:
        return target_row(x, t, y, n);
    case SW_LOSS_POISSON:
        return poisson_row(x, t, y, n);
    case SW_LOSS_HINGE:
        return hinge_row(k, x, t, t ? 0 : k->labels.label[r], y, n);
    case SW_LOSS_RANKING:
        return t ? ranking_target_row(k, x, t, y, n) : ranking_row(k, x, k->labels.label[r], y, n);
    }

    return 0;
}

static void arrays(const void *args, struct sw_op_arrays *out)
{
    const struct sw_row_loss_args *a = args;
    const size_t matrix = sw_op_matrix(a->rows, a->columns);

    SW_ARRAY(out, a, x, matrix);
    SW_ARRAY_OR_NULL(out, a, target, matrix);
    SW_ARRAY_OR_NULL(out, &a->labels, label, sw_op_floats(a->rows));
    SW_ARRAY(out, a, step, sizeof *a->step);
    SW_ARRAY(out, a, y, matrix);
    SW_ARRAY(out, a, result, sizeof *a->result);
}

static int forward(const struct sw_host_launch *l, const void *args)
{
    const struct sw_row_loss_args *a = args;
    int64_t valid = sw_op_valid_rows(a->step, a->rows);

    int rc = a->target ? check_targets(a, valid, l->err)
                       : sw_labels_check(a->who, &a->labels, valid, a->columns, l->err);
    if (rc != SW_OK)
        return rc;

    double sum = sw_sum_over_rows(l->threads, valid, a->columns * SW_EXP_COST, row_loss, a);
    *a->result = (struct sw_result){.sum = (double)a->weight * sum, .weight = (double)valid};
    return SW_OK;
}

const struct sw_op sw_op_row_loss = {"row_loss", sizeof(struct sw_row_loss_args), arrays, forward};

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

/* Softmax: targets are divided by their sum, and a row without targets has no gradient. */
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

static void gradient_arrays(const void *args, struct sw_op_arrays *out)
{
    const struct sw_row_gradient_args *a = args;
    const size_t matrix = sw_op_matrix(a->rows, a->columns);

    SW_ARRAY(out, a, y, matrix);
    SW_ARRAY_OR_NULL(out, a, target, matrix);
    SW_ARRAY(out, a, step, sizeof *a->step);
    SW_ARRAY(out, a, dx, matrix);
}

static int gradient(const struct sw_host_launch *l, const void *args)
{
    const struct sw_row_gradient_args *a = args;
    const int64_t n = a->columns, valid = sw_op_valid_rows(a->step, a->rows);
    const bool softmax = a->kind == SW_LOSS_SOFTMAX;
    const bool by_target = softmax || a->kind == SW_LOSS_SIGMOID || a->kind == SW_LOSS_POISSON;
    const float scale = a->weight * a->step->backward_scale;
    int team = sw_team_size(l->threads, valid * n);

#pragma omp parallel for num_threads(team) if (team > 1) schedule(static)
    for (int64_t r = 0; r < valid; r++)
        row_gradient(softmax, scale, a->y + r * n, by_target ? a->target + r * n : NULL,
                     a->dx + r * n, n);

    sw_kernel_zero_rows(l->threads, valid, a->rows, n, a->dx);
    return SW_OK;
}

const struct sw_op sw_op_row_loss_gradient = {
    "row_loss_backward", sizeof(struct sw_row_gradient_args), gradient_arrays, gradient};

/* ---- Triplets ---- */

SW_KERNEL static double dot_of_difference(const float *a, const float *b, const float *c, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += (double)a[i] * ((double)c[i] - (double)b[i]);
    return sum;
}

static double triplet_loss(const void *user, int64_t r)
{
    const struct sw_triplet_loss_args *t = user;
    int64_t n = t->columns, at = r * n;
    double m =
        (double)t->margin + dot_of_difference(t->anchor + at, t->match + at, t->other + at, n);

    return (double)sw_hinge(t->squared, (float)m, &t->slope[r]);
}

static void triplet_arrays(const void *args, struct sw_op_arrays *out)
{
    const struct sw_triplet_loss_args *a = args;
    const size_t matrix = sw_op_matrix(a->rows, a->columns);

    SW_ARRAY(out, a, anchor, matrix);
    SW_ARRAY(out, a, match, matrix);
    SW_ARRAY(out, a, other, matrix);
    SW_ARRAY(out, a, step, sizeof *a->step);
    SW_ARRAY(out, a, slope, sw_op_floats(a->rows));
    SW_ARRAY(out, a, result, sizeof *a->result);
}

static int triplets(const struct sw_host_launch *l, const void *args)
{
    const struct sw_triplet_loss_args *a = args;
    int64_t valid = sw_op_valid_rows(a->step, a->rows);
    double sum = sw_sum_over_rows(l->threads, valid, 2 * a->columns, triplet_loss, a);

    *a->result = (struct sw_result){.sum = (double)a->weight * sum, .weight = (double)valid};
    return SW_OK;
}

const struct sw_op sw_op_triplet_loss = {"triplet_loss", sizeof(struct sw_triplet_loss_args),
                                         triplet_arrays, triplets};

static void triplet_gradient_arrays(const void *args, struct sw_op_arrays *out)
{
    const struct sw_triplet_gradient_args *a = args;
    const size_t matrix = sw_op_matrix(a->rows, a->columns);

    SW_ARRAY(out, a, slope, sw_op_floats(a->rows));
    SW_ARRAY_OR_NULL(out, a, plus, matrix);
    SW_ARRAY_OR_NULL(out, a, minus, matrix);
    SW_ARRAY(out, a, step, sizeof *a->step);
    SW_ARRAY(out, a, dx, matrix);
}

static int triplet_gradient(const struct sw_host_launch *l, const void *args)
{
    const struct sw_triplet_gradient_args *a = args;
    const int64_t n = a->columns, valid = sw_op_valid_rows(a->step, a->rows);
    const float scale = a->weight * a->step->backward_scale;
    int team = sw_team_size(l->threads, valid * n);

#pragma omp parallel for num_threads(team) if (team > 1) schedule(static)
    for (int64_t r = 0; r < valid; r++)
        for (int64_t i = r * n; i < (r + 1) * n; i++)
            a->dx[i] =
                scale * a->slope[r] * ((a->plus ? a->plus[i] : 0) - (a->minus ? a->minus[i] : 0));

    sw_kernel_zero_rows(l->threads, valid, a->rows, n, a->dx);
    return SW_OK;
}

const struct sw_op sw_op_triplet_loss_gradient = {"triplet_loss_backward",
                                                  sizeof(struct sw_triplet_gradient_args),
                                                  triplet_gradient_arrays, triplet_gradient};
