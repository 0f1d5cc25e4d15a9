/* The labels of an operation: a class per row; one value may mean "unknown" and is ignored. Every
 * step of a sequence is a row. A label that is not ignored and not in 0..classes-1 is
 * SW_ERR_INVALID naming row and value, and the operation writes nothing. Plain values, any
 * thread. */
#pragma once

#include "kernels/op.h"

struct sw_labels {
    const int32_t *label; /* [rows] */
    bool ignores;         /* rows whose label is `ignored` are ignored */
    int32_t ignored;
    int64_t per_sample; /* rows of a sample; 0: one */
};

/* Returns how many of `rows` rows belong to valid samples. */
SW_BOTH int64_t sw_labels_valid_rows(const struct sw_labels *l, const struct sw_step *step,
                                     int64_t rows)
{
    const int64_t per_sample = l->per_sample > 1 ? l->per_sample : 1;
    return sw_op_valid_rows(step, rows / per_sample) * per_sample;
}

/* Returns the ignored label; INT64_MIN: none. */
SW_BOTH int64_t sw_labels_ignored(const struct sw_labels *l)
{
    return l->ignores ? l->ignored : INT64_MIN;
}

/* Checks that all of the first `rows` labels are ignored or in 0..classes-1. Errors: SW_ERR_INVALID
 * naming row and value. */
int sw_labels_check(const char *who, const struct sw_labels *l, int64_t rows, int64_t classes,
                    struct sw_err *err) SW_MUST_CHECK;
/* Sets the error of that check; returns SW_ERR_INVALID. */
int sw_labels_report_bad(const char *who, int64_t row, int64_t label, int64_t classes,
                         struct sw_err *err) SW_MUST_CHECK;
/* Returns how many of the first `rows` labels are not ignored. */
int64_t sw_labels_count(const struct sw_labels *l, int64_t rows);
