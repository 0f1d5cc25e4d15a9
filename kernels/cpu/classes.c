/* Compares the predicted classes of a row of scores with its label or labels: top-k hits, and
 * counts per class. Of equal scores the lower class comes first; a NaN is never predicted. */
#include "kernels/ops/classes.h"
#include "kernels/cpu/kernel.h"
#include <string.h>

static const float present_above = 0.5f; /* targets are 0 and 1, or fractions of 1 */

/* Returns the number of scores that rank before that of the label. */
SW_KERNEL static int64_t rank_of_label(const float *x, int64_t label, int64_t n)
{
    float mine = x[label];
    int64_t after = 0;

#pragma omp simd reduction(+ : after)
    for (int64_t j = 0; j < n; j++)
        after += x[j] < mine || (x[j] == mine && j > label);
    return n - 1 - after;
}

static int64_t hits_of_labels(const struct sw_top_k_args *a, int threads, int64_t rows)
{
    const int32_t *label = a->labels.label;
    const int64_t ignored = sw_labels_ignored(&a->labels);
    int team = sw_team_size(threads, rows * a->classes);
    int64_t hits = 0;

#pragma omp parallel for num_threads(team) if (team > 1) schedule(static) reduction(+ : hits)
    for (int64_t r = 0; r < rows; r++)
        hits += label[r] != ignored &&
                rank_of_label(a->x + r * a->classes, label[r], a->classes) < a->top_k;

    return hits;
}

/* Returns the class of the best score among the labels of a row, -1 without labels. If all their
 * scores are NaN it is any of them. */
static int64_t best_label(const float *x, const float *target, int64_t n)
{
    int64_t best = -1;

    for (int64_t j = 0; j < n; j++)
        if (target[j] > present_above && (best < 0 || !(x[j] <= x[best])))
            best = j;

    return best;
}

/* Counts rows whose best label is a hit; sets *counted to the rows that have a label. */
static int64_t hits_of_targets(const struct sw_top_k_args *a, int threads, int64_t rows,
                               int64_t *counted)
{
    int team = sw_team_size(threads, rows * a->classes);
    int64_t hits = 0, with_label = 0;

#pragma omp parallel for num_threads(team) if (team > 1) schedule(static)                          \
    reduction(+ : hits, with_label)
    for (int64_t r = 0; r < rows; r++) {
        const float *row = a->x + r * a->classes;
        int64_t best = best_label(row, a->target + r * a->classes, a->classes);
        with_label += best >= 0;
        hits += best >= 0 && rank_of_label(row, best, a->classes) < a->top_k;
    }

    *counted = with_label;
    return hits;
}

static void top_k_arrays(const void *args, struct sw_op_arrays *out)
{
    const struct sw_top_k_args *a = args;

    SW_ARRAY(out, a, x, sw_op_matrix(a->rows, a->classes));
    SW_ARRAY_OR_NULL(out, &a->labels, label, sw_op_floats(a->rows));
    SW_ARRAY_OR_NULL(out, a, target, sw_op_matrix(a->rows, a->classes));
    SW_ARRAY(out, a, step, sizeof *a->step);
    SW_ARRAY(out, a, result, sizeof *a->result);
}

static int top_k(const struct sw_host_launch *l, const void *args)
{
    const struct sw_top_k_args *a = args;
    int64_t rows = sw_labels_valid_rows(&a->labels, a->step, a->rows), counted, hits;

    if (a->target) {
        hits = hits_of_targets(a, l->threads, rows, &counted);
    } else {
        int rc = sw_labels_check("accuracy", &a->labels, rows, a->classes, l->err);
        if (rc != SW_OK)
            return rc;

        hits = hits_of_labels(a, l->threads, rows);
        counted = sw_labels_count(&a->labels, rows);
    }

    *a->result = (struct sw_result){.sum = (double)hits, .weight = (double)counted};
    return SW_OK;
}

const struct sw_op sw_op_top_k = {"accuracy", sizeof(struct sw_top_k_args), top_k_arrays, top_k};

/* ---- Counts per class ---- */

static bool is_present(int64_t c, int64_t label, const float *target)
{
    return target ? target[c] > present_above : c == label;
}

/* Counts a row that predicts class c. */
static void count_prediction(struct sw_result *count, int64_t c, bool present)
{
    count[2 * c].weight++;
    count[2 * c].sum += present;
    count[2 * c + 1].sum += present;
}

/* Returns the class of the next best score after x[last], or -1; last -1: the best of all. */
static int64_t next_best(const float *x, int64_t last, int64_t n)
{
    int64_t best = -1;

    for (int64_t j = 0; j < n; j++) {
        bool after = last < 0 ? x[j] == x[j] : x[j] < x[last] || (x[j] == x[last] && j > last);
        if (after && (best < 0 || x[j] > x[best]))
            best = j;
    }

    return best;
}

static void count_row(const struct sw_class_count_args *a, int64_t r)
{
    const int64_t classes = a->classes;
    const float *x = a->x + r * classes, *target = a->target ? a->target + r * classes : NULL;
    int64_t c = -1, label = -1;

    /* With one column, label 1 is that column and 0 is none. */
    if (!target)
        label = classes == 1 ? a->labels.label[r] - 1 : a->labels.label[r];

    for (int64_t k = 0; k < classes; k++)
        a->count[2 * k + 1].weight += is_present(k, label, target);
    for (int64_t i = 0; i < a->top_k && (c = next_best(x, c, classes)) >= 0; i++)
        count_prediction(a->count, c, is_present(c, label, target));

    for (c = 0; c < classes && a->top_k == 0; c++)
        if (x[c] > a->threshold)
            count_prediction(a->count, c, is_present(c, label, target));
}

static void count_arrays(const void *args, struct sw_op_arrays *out)
{
    const struct sw_class_count_args *a = args;

    SW_ARRAY(out, a, x, sw_op_matrix(a->rows, a->classes));
    SW_ARRAY_OR_NULL(out, &a->labels, label, sw_op_floats(a->rows));
    SW_ARRAY_OR_NULL(out, a, target, sw_op_matrix(a->rows, a->classes));
    SW_ARRAY(out, a, step, sizeof *a->step);
    SW_ARRAY(out, a, count, 2 * (size_t)a->classes * sizeof *a->count);
}

static int count(const struct sw_host_launch *l, const void *args)
{
    const struct sw_class_count_args *a = args;
    const int32_t *label = a->target ? NULL : a->labels.label;
    int64_t rows = sw_labels_valid_rows(&a->labels, a->step, a->rows);

    if (label) {
        int64_t classes = a->classes == 1 ? 2 : a->classes;
        int rc = sw_labels_check("precision_recall", &a->labels, rows, classes, l->err);
        if (rc != SW_OK)
            return rc;
    }

    memset(a->count, 0, 2 * (size_t)a->classes * sizeof *a->count);

    for (int64_t r = 0; r < rows; r++)
        if (!label || label[r] != sw_labels_ignored(&a->labels))
            count_row(a, r);

    return SW_OK;
}

const struct sw_op sw_op_class_count = {"class_count", sizeof(struct sw_class_count_args),
                                        count_arrays, count};
