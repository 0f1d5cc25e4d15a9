/* Labels as operations get them: a class per row, of which one value may stand for "not known". The
 * steps of a sequence are rows of their own. A label that counts and is outside 0..classes-1 is
 * SW_ERR_INVALID naming row and value; nothing is written then. */
#pragma once

#include "kernels/op.h"

struct sw_labels {
    const int32_t *label; /* [rows] */
    bool ignores;         /* rows whose label is `ignored` do not count */
    int32_t ignored;
    int64_t per_sample; /* rows of a sample; 0: one */
};

/* Rows of the samples that count, of all `rows`. */
SW_BOTH int64_t sw_labels_valid_rows(const struct sw_labels *l, const struct sw_step *step,
                                     int64_t rows)
{
    const int64_t per_sample = l->per_sample > 1 ? l->per_sample : 1;
    return sw_op_valid_rows(step, rows / per_sample) * per_sample;
}

/* The label that does not count; INT64_MIN for none. */
SW_BOTH int64_t sw_labels_ignored(const struct sw_labels *l)
{
    return l->ignores ? l->ignored : INT64_MIN;
}

/* All of the first `rows` labels that count are in 0..classes-1. Errors: SW_ERR_INVALID naming row
 * and value. */
int sw_labels_check(const char *who, const struct sw_labels *l, int64_t rows, int64_t classes,
                    struct sw_err *err) SW_MUST_CHECK;
/* The message of that error. */
int sw_labels_say_bad(const char *who, int64_t row, int64_t label, int64_t classes,
                      struct sw_err *err) SW_MUST_CHECK;
/* The number of labels that count. */
int64_t sw_labels_count(const struct sw_labels *l, int64_t rows);
