/* The softmax in two levels (kernels/ops/class_softmax.h), without the products, which are in
 * device/ops/class_softmax.c. */
#include "kernels/ops/class_softmax.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/softmax.h"
#include <math.h>
#include <string.h>

/* ---- Groups ---- */

static void group_arrays(const void *args, struct sw_op_arrays *out)
{
    const struct sw_class_group_args *a = args;

    SW_ARRAY(out, &a->labels, label, sw_op_floats(a->rows));
    SW_ARRAY(out, a, step, sizeof *a->step);
    SW_ARRAY(out, a, label, sw_op_floats(a->rows));
    SW_ARRAY(out, a, order, sw_op_floats(a->rows));
    SW_ARRAY(out, a, begin, a->rows > 0 ? sw_op_floats(a->kind.classes + 1) : 0);
}

/* Sorts the rows by counting. begin[c] is first the end of class c, then falls to its beginning. */
static int group(const struct sw_host_launch *l, const void *args)
{
    const struct sw_class_group_args *a = args;
    const int64_t valid = sw_labels_valid_rows(&a->labels, a->step, a->rows);
    const int64_t ignored = sw_labels_ignored(&a->labels);

    if (a->rows == 0)
        return SW_OK;
    int rc = sw_labels_check("class_softmax_loss", &a->labels, valid, a->kind.words, l->err);
    if (rc != SW_OK)
        return rc;

    memset(a->begin, 0, (size_t)(a->kind.classes + 1) * sizeof *a->begin);
    for (int64_t r = 0; r < valid; r++) {
        const int32_t word = a->labels.label[r];
        a->label[r] = word == ignored ? -1 : (int32_t)sw_class_of(&a->kind, word);
        if (a->label[r] >= 0)
            a->begin[a->label[r]]++;
    }

    for (int64_t c = 1; c <= a->kind.classes; c++)
        a->begin[c] += a->begin[c - 1];
    for (int64_t r = valid - 1; r >= 0; r--)
        if (a->label[r] >= 0)
            a->order[--a->begin[a->label[r]]] = (int32_t)r;

    return SW_OK;
}

const struct sw_op sw_op_class_group = {"class_group", sizeof(struct sw_class_group_args),
                                        group_arrays, group};

/* ---- Rows ---- */

SW_KERNEL static double softmax_of(float *x, const float *bias, int64_t at, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        x[i] += bias[i];

    const float most = sw_row_max(x, n), own = x[at];
    const double sum = sw_row_exp(x, most, x, n);
    sw_row_scale((float)(1.0 / sum), x, n);
    return log(sum) - ((double)own - (double)most);
}

double sw_kernel_class_row(const struct sw_class_words_args *a, int64_t i)
{
    const int64_t word = a->labels.label[a->order[i]], c = sw_class_of(&a->kind, word);
    const int64_t first = sw_class_first(&a->kind, c);

    return softmax_of(a->prob + i * a->widest, a->bias + first, word - first,
                      sw_class_words(&a->kind, c));
}

SW_KERNEL static void gradient_of(float *p, float scale, int64_t at, int64_t n)
{
    const float own = scale * (p[at] - 1.0f);
    sw_row_scale(scale, p, n);
    p[at] = own;
}

void sw_kernel_class_row_gradient(const struct sw_class_words_gradient_args *a, float scale,
                                  int64_t i)
{
    const int64_t word = a->labels.label[a->order[i]], c = sw_class_of(&a->kind, word);

    gradient_of(a->prob + i * a->widest, scale, word - sw_class_first(&a->kind, c),
                sw_class_words(&a->kind, c));
}

/* ---- All words ---- */

/* Returns log sum exp x. */
SW_KERNEL static double log_sum(const float *x, int64_t n)
{
    float lane[SW_ROW_LANES] = {0};
    const float most = sw_row_max(x, n);
    const int64_t whole = n / SW_ROW_LANES * SW_ROW_LANES;
    double sum = 0;

    for (int64_t i = 0; i < whole; i += SW_ROW_LANES) {
#pragma omp simd
        for (int64_t j = 0; j < SW_ROW_LANES; j++)
            lane[j] += sw_v_exp(x[i + j] - most);
    }

    for (int64_t i = whole; i < n; i++)
        lane[i - whole] += sw_v_exp(x[i] - most);
    for (int j = 0; j < SW_ROW_LANES; j++)
        sum += (double)lane[j];

    return (double)most + log(sum);
}

SW_KERNEL static void shift(float *x, float by, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        x[i] += by;
}

static void log_softmax_row(const struct sw_class_log_softmax_args *a, int64_t r)
{
    const float *of_class = a->class_score + r * a->kind.classes;
    const double all = log_sum(of_class, a->kind.classes);

    for (int64_t c = 0; c < a->kind.classes; c++) {
        float *x = a->score + r * a->kind.words + sw_class_first(&a->kind, c);
        const int64_t n = sw_class_words(&a->kind, c);

        shift(x, (float)((double)of_class[c] - all - log_sum(x, n)), n);
    }
}

static void log_softmax_arrays(const void *args, struct sw_op_arrays *out)
{
    const struct sw_class_log_softmax_args *a = args;

    SW_ARRAY(out, a, class_score, sw_op_matrix(a->rows, a->kind.classes));
    SW_ARRAY(out, a, score, sw_op_matrix(a->rows, a->kind.words));
}

static int log_softmax(const struct sw_host_launch *l, const void *args)
{
    const struct sw_class_log_softmax_args *a = args;
    int team = sw_team_size(l->threads, a->rows * a->kind.words * SW_EXP_COST);

#pragma omp parallel for num_threads(team) if (team > 1) schedule(static)
    for (int64_t r = 0; r < a->rows; r++)
        log_softmax_row(a, r);
    return SW_OK;
}

const struct sw_op sw_op_class_log_softmax = {
    "class_log_softmax", sizeof(struct sw_class_log_softmax_args), log_softmax_arrays, log_softmax};
