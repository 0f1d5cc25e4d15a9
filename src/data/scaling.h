/* Standardized values of a field, as regression targets are: (v - mean) / std with the mean and the
 * standard deviation of each value of a row over the records of the training section. The source
 * of every section applies the same numbers; checkpoints carry them, so that predictions and errors
 * can be given in the units of the data.
 *
 * Thread rule: set up by one thread before records are fetched; constant afterwards. */
#pragma once

#include "base/err.h"
#include "recipe/option.h"

struct sw_source;

/* Zero-initialize; free with sw_scaling_fini. */
struct sw_scaling {
    int64_t count; /* values of a row */
    double *mean;  /* owned [2 count]; std is the second half */
    double *std;   /* above 0 */
    bool known;    /* false: values are not set yet, and pass unchanged */
};

/* Sets mean 0 and std 1, not known. Errors: SW_ERR_NOMEM. */
int sw_scaling_init(struct sw_scaling *s, int64_t count, struct sw_err *err) SW_MUST_CHECK;
void sw_scaling_fini(struct sw_scaling *s);
/* Sets the values from lists of one number, or of one per value; an empty list leaves them.
 * Errors: SW_ERR_INVALID naming the key and both counts. */
int sw_scaling_set(struct sw_scaling *s, const struct sw_reals *mean, const struct sw_reals *std,
                   struct sw_err *err) SW_MUST_CHECK;
void sw_scaling_copy(struct sw_scaling *to, const struct sw_scaling *from); /* of the same count */

/* Standardizes a row, or returns standardized values to the units of the data. */
void sw_scaling_apply(const struct sw_scaling *s, float *row);
void sw_scaling_undo(const struct sw_scaling *s, float *row);

/* Makes an open source standardize field f, which becomes f32. Errors: SW_ERR_INVALID for an image
 * or a list of integers, SW_ERR_NOMEM. */
int sw_source_standardize(struct sw_source *s, int f, struct sw_err *err) SW_MUST_CHECK;
/* Measures field f over all records of the section, in their order, so that the result does not
 * depend on shuffling. A value that is the same in all records gets std 1. Errors: those of the
 * format, SW_ERR_FORMAT for a value that is not finite. */
int sw_source_measure(struct sw_source *s, int f, struct sw_err *err) SW_MUST_CHECK;
