/* Labels of operations: checks, error messages, and the number of labels that are not ignored. */
#include "kernels/ops/label_count.h"

int sw_labels_report_bad(const char *who, int64_t row, int64_t label, int64_t classes,
                         struct sw_err *err)
{
    return sw_err_set(err, SW_ERR_INVALID,
                      "%s: the label of row %lld is %lld, but there are %lld classes (0..%lld)",
                      who, (long long)row, (long long)label, (long long)classes,
                      (long long)classes - 1);
}

int sw_labels_check(const char *who, const struct sw_labels *l, int64_t rows, int64_t classes,
                    struct sw_err *err)
{
    int64_t ignored = sw_labels_ignored(l);

    for (int64_t r = 0; r < rows; r++)
        if ((l->label[r] < 0 || l->label[r] >= classes) && l->label[r] != ignored)
            return sw_labels_report_bad(who, r, l->label[r], classes, err);

    return SW_OK;
}

int64_t sw_labels_count(const struct sw_labels *l, int64_t rows)
{
    int64_t n = rows;
    for (int64_t r = 0; r < rows && l->ignores; r++)
        n -= l->label[r] == l->ignored;
    return n;
}

static void arrays(const void *args, struct sw_op_arrays *out)
{
    const struct sw_label_count_args *a = args;
    SW_ARRAY(out, &a->labels, label, sw_op_floats(a->rows));
    SW_ARRAY(out, a, step, sizeof *a->step);
    SW_ARRAY(out, a, count, sizeof *a->count);
}

static int count(const struct sw_host_launch *l, const void *args)
{
    const struct sw_label_count_args *a = args;
    *a->count =
        (double)sw_labels_count(&a->labels, sw_labels_valid_rows(&a->labels, a->step, a->rows));
    return SW_OK;
}

const struct sw_op sw_op_label_count = {"label_count", sizeof(struct sw_label_count_args), arrays,
                                        count};
