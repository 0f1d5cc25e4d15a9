/* Labels as operations get them: a class per row, of which one value may stand for "not known". The
 * steps of a sequence are rows of their own. */
#ifndef SW_DEVICE_OPS_LABELS_H
#define SW_DEVICE_OPS_LABELS_H

#include "device/op.h"

struct sw_labels {
    const int32_t *label; /* [rows], device memory */
    bool ignores;         /* rows whose label is `ignored` do not count */
    int32_t ignored;
    int64_t per_sample; /* rows of a sample; 0: one */
};

/* Rows of the samples that count, of all `rows`. */
static inline int64_t sw_labels_valid_rows(const struct sw_labels *l, const struct sw_step *step,
                                           int64_t rows)
{
    const int64_t per_sample = l->per_sample > 1 ? l->per_sample : 1;
    return sw_op_valid_rows(step, rows / per_sample) * per_sample;
}

/* For the list of an operation's pointers: member `m` of arguments `t` is a struct sw_labels. */
#define SW_OP_LABELS(t, m)                                                                         \
    {                                                                                              \
        .name = "label", .offset = offsetof(t, m.label)                                            \
    }

/* The label that does not count, as kernels want it: INT64_MIN for none. */
static inline int64_t sw_labels_ignored(const struct sw_labels *l)
{
    return l->ignores ? l->ignored : INT64_MIN;
}

/* All of the first `rows` labels that count are in 0..classes-1. Errors: SW_ERR_INVALID naming row
 * and value. */
int sw_labels_check(const char *who, const struct sw_labels *l, int64_t rows, int64_t classes,
                    struct sw_err *err) SW_MUST_CHECK;
/* What such an error says. */
int sw_labels_say_bad(const char *who, int64_t row, int64_t label, int64_t classes,
                      struct sw_err *err) SW_MUST_CHECK;
/* How many of them count. */
int64_t sw_labels_count(const struct sw_labels *l, int64_t rows);

struct sw_label_count_args {
    int64_t rows;
    struct sw_labels labels;
    const struct sw_step *step;
    double *count;
};
extern const struct sw_op sw_op_label_count;

/* *count becomes the number of valid rows whose label counts. */
SW_MUST_CHECK static inline int
sw_op_count_labels(struct sw_stream *s, const struct sw_label_count_args *a, struct sw_err *err)
{
    return sw_op_run(s, &sw_op_label_count, a, err);
}

#endif
