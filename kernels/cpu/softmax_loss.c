/* Softmax with cross-entropy loss by a label, on plain [rows, classes].
 *
 *   p_j = exp(x_j - m) / S,  m = max x,  S = sum exp(x_j - m)
 *   loss of a row = log S - (x_label - m),  d loss / dx_j = p_j - [j = label]
 *
 * A row with the ignored label has p, but no loss and no gradient. */
#include "kernels/ops/softmax_loss.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/softmax.h"

SW_KERNEL static double loss_of_row(const float *x, float at_label, float *prob, int64_t n)
{
    float m = sw_row_max(x, n);
    double sum = sw_row_exp(x, m, prob, n);
    sw_row_scale((float)(1.0 / sum), prob, n);
    return log(sum) - ((double)at_label - (double)m);
}

static double row_loss(const void *user, int64_t r)
{
    const struct sw_softmax_loss_args *a = user;
    const float *x = a->x + r * a->classes;
    const int32_t label = a->labels.label[r];
    bool ignored = label == sw_labels_ignored(&a->labels);
    float at_label = ignored ? 0 : x[label];
    double loss = loss_of_row(x, at_label, a->prob + r * a->classes, a->classes);

    return ignored ? 0 : loss;
}

static void arrays(const void *args, struct sw_op_arrays *out)
{
    const struct sw_softmax_loss_args *a = args;

    SW_ARRAY(out, a, x, sw_op_matrix(a->rows, a->classes));
    SW_ARRAY(out, &a->labels, label, sw_op_floats(a->rows));
    SW_ARRAY(out, a, step, sizeof *a->step);
    SW_ARRAY(out, a, prob, sw_op_matrix(a->rows, a->classes));
    SW_ARRAY(out, a, result, sizeof *a->result);
}

static int forward(const struct sw_host_launch *l, const void *args)
{
    const struct sw_softmax_loss_args *a = args;
    int64_t valid = sw_labels_valid_rows(&a->labels, a->step, a->rows);

    int rc = sw_labels_check("softmax_loss", &a->labels, valid, a->classes, l->err);
    if (rc != SW_OK)
        return rc;

    double sum = sw_sum_over_rows(l->threads, valid, a->classes * SW_EXP_COST, row_loss, a);
    *a->result = (struct sw_result){.sum = (double)a->weight * sum,
                                    .weight = (double)sw_labels_count(&a->labels, valid)};

    return SW_OK;
}

const struct sw_op sw_op_softmax_loss = {"softmax_loss", sizeof(struct sw_softmax_loss_args),
                                         arrays, forward};

/* ---- Gradient ---- */

SW_KERNEL static void scale_row(float scale, const float *p, float *dx, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        dx[i] = scale * p[i];
}

static void gradient_row(const struct sw_softmax_gradient_args *a, float scale, int64_t r)
{
    const int64_t n = a->classes;
    const int32_t label = a->labels.label[r];
    const float *p = a->prob + r * n;
    float *d = a->dx + r * n;

    if (label == sw_labels_ignored(&a->labels)) {
        memset(d, 0, (size_t)n * sizeof *d);
        return;
    }

    float at_label = scale * (p[label] - 1.0f);
    scale_row(scale, p, d, n);
    d[label] = at_label;
}

static void gradient_arrays(const void *args, struct sw_op_arrays *out)
{
    const struct sw_softmax_gradient_args *a = args;

    SW_ARRAY(out, a, prob, sw_op_matrix(a->rows, a->classes));
    SW_ARRAY(out, &a->labels, label, sw_op_floats(a->rows));
    SW_ARRAY(out, a, step, sizeof *a->step);
    SW_ARRAY(out, a, dx, sw_op_matrix(a->rows, a->classes));
    SW_ARRAY_OR_NULL(out, a, counted, sizeof *a->counted);
}

static int gradient(const struct sw_host_launch *l, const void *args)
{
    const struct sw_softmax_gradient_args *a = args;
    int64_t valid = sw_labels_valid_rows(&a->labels, a->step, a->rows);

    int rc = sw_labels_check("softmax_loss", &a->labels, valid, a->classes, l->err);
    if (rc != SW_OK)
        return rc;

    float scale = sw_softmax_gradient_scale(a);
    int team = sw_team_size(l->threads, valid * a->classes);

#pragma omp parallel for num_threads(team) if (team > 1) schedule(static)
    for (int64_t r = 0; r < valid; r++)
        gradient_row(a, scale, r);
    sw_kernel_zero_rows(l->threads, valid, a->rows, a->classes, a->dx);

    return SW_OK;
}

const struct sw_op sw_op_softmax_loss_gradient = {
    "softmax_loss_backward", sizeof(struct sw_softmax_gradient_args), gradient_arrays, gradient};
