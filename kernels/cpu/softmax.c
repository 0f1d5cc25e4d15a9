/* Softmax with cross-entropy loss by a label, on plain [rows, classes].
 *
 *   p_j = exp(x_j - m) / S,  m = max x,  S = sum exp(x_j - m)
 *   loss of a row = log S - (x_label - m),  d loss / dx_j = p_j - [j = label]
 *
 * A row of the ignored label has its p, no loss and no gradient. */
#include "kernels/cpu/softmax.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/rows.h"

struct job {
    int64_t classes, ignore;
    const float *x;
    const int32_t *label;
    float *prob;
};

SW_KERNEL static double loss_of_row(const float *x, float at_label, float *prob, int64_t n)
{
    float m = sw_row_max(x, n);
    double sum = sw_row_exp(x, m, prob, n);
    sw_row_scale((float)(1.0 / sum), prob, n);
    return log(sum) - ((double)at_label - (double)m);
}

static double row_loss(const void *user, int64_t r)
{
    const struct job *j = user;
    const float *x = j->x + r * j->classes;
    bool ignored = j->label[r] == j->ignore;
    float at_label = ignored ? 0 : x[j->label[r]];
    double loss = loss_of_row(x, at_label, j->prob + r * j->classes, j->classes);
    return ignored ? 0 : loss;
}

double sw_kernel_softmax_loss(int threads, int64_t rows, int64_t classes, const float *x,
                              const int32_t *label, int64_t ignore, float *prob)
{
    const struct job j = {classes, ignore, x, label, prob};
    return sw_sum_over_rows(threads, rows, classes * SW_EXP_COST, row_loss, &j);
}

SW_KERNEL static void scale_row(float scale, const float *p, float *dx, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        dx[i] = scale * p[i];
}

void sw_kernel_softmax_loss_backward(int threads, int64_t rows, int64_t padded_rows,
                                     int64_t classes, const float *prob, const int32_t *label,
                                     int64_t ignore, float scale, float *dx)
{
    int team = sw_team_size(threads, rows * classes);
#pragma omp parallel for num_threads(team) if (team > 1) schedule(static)
    for (int64_t r = 0; r < rows; r++) {
        const float *p = prob + r * classes;
        float *d = dx + r * classes;
        if (label[r] == ignore) {
            memset(d, 0, (size_t)classes * sizeof *d);
            continue;
        }
        float at_label = scale * (p[label[r]] - 1.0f);
        scale_row(scale, p, d, classes);
        d[label[r]] = at_label;
    }
    if (padded_rows > rows)
        sw_kernel_zero(threads, dx + rows * classes,
                       (padded_rows - rows) * classes * (int64_t)sizeof *dx);
}
