/* What an input layer asks to be done to the values of its field, in this order:
 *
 *     sign(v) |v|^power    (Perronnin et al., "Improving the Fisher kernel for large-scale image
 *                          classification", ECCV 2010)
 *     log(v + 1)
 *     (v - mean) / std     with the mean and the standard deviation of each value of a row over the
 *                          records of the training section, or given ones
 *     ZCA whitening        of these rows: their covariance becomes the identity (Bell and
 * Sejnowski, "The 'independent components' of natural scenes are edge filters", Vision Research 37,
 * 1997) v * factor
 *
 * The source of every section applies the same numbers; checkpoints carry those that were measured.
 * Without power, logarithm and whitening predictions and errors can be given in the units of the
 * data.
 *
 * Thread rule: set up by one thread before records are fetched; constant afterwards. */
#pragma once

#include "base/err.h"
#include "recipe/option.h"

struct sw_source;

struct sw_room;

/* Zero-initialize; free with sw_scaling_fini. */
struct sw_scaling {
    int64_t count; /* values of a row */
    double power;  /* above 0, at most 1 */
    bool log1p;
    double *mean; /* owned [2 count]; std is the second half */
    double *std;  /* above 0 */
    bool whitens;
    float *whiten; /* owned [count, count], (covariance + epsilon)^(-1/2); NULL: unknown, or none */
    double factor;
    bool known; /* false: mean, std and whiten are not set yet, and nothing is done */
};

/* Sets mean 0, std 1, power 1 and factor 1, not known. Errors: SW_ERR_NOMEM. */
int sw_scaling_init(struct sw_scaling *s, int64_t count, struct sw_err *err) SW_MUST_CHECK;
void sw_scaling_fini(struct sw_scaling *s);
/* Sets the values from lists of one number, or of one per value; an empty list leaves them.
 * Errors: SW_ERR_INVALID naming the key and both counts. */
int sw_scaling_set(struct sw_scaling *s, const struct sw_reals *mean, const struct sw_reals *std,
                   struct sw_err *err) SW_MUST_CHECK;
/* Copies what was measured: mean, std, and the matrix of one that whitens. Both have the same
 * count. Errors: SW_ERR_NOMEM. */
int sw_scaling_copy(struct sw_scaling *to, const struct sw_scaling *from,
                    struct sw_err *err) SW_MUST_CHECK;

/* Transforms a row; scratch is memory of the thread. Errors: SW_ERR_FORMAT (the logarithm of a
 * value of -1 or below), SW_ERR_NOMEM. */
int sw_scaling_apply(const struct sw_scaling *s, struct sw_room *scratch, float *row,
                     struct sw_err *err) SW_MUST_CHECK;
/* Are transformed values those of the data in another unit? Only then sw_scaling_undo returns a row
 * to the units of the data, and a difference of 1 in value c is one of sw_scaling_unit there. */
bool sw_scaling_has_units(const struct sw_scaling *s);
void sw_scaling_undo(const struct sw_scaling *s, float *row);
double sw_scaling_unit(const struct sw_scaling *s, int64_t c);

/* Makes an open source transform field f, which becomes f32; the caller sets power, log1p,
 * whitens and factor. Errors: SW_ERR_INVALID for pictures, for an image that the keys of its
 * section transform, and for a list of integers; SW_ERR_NOMEM. */
int sw_source_scale(struct sw_source *s, int f, struct sw_err *err) SW_MUST_CHECK;

struct sw_scaling_measure {
    bool mean, std; /* measure them; else they are known */
    double epsilon; /* of whitening: added to the variances, above 0 */
};
/* Measures field f over all records of the section, in their order, so that the result does not
 * depend on shuffling; with `whitens` also the matrix. A value that is the same in all records gets
 * std 1. Errors: those of the format, SW_ERR_FORMAT for a value that is not finite or has no
 * logarithm, SW_ERR_INVALID for rows that are too long to be whitened. */
int sw_source_measure(struct sw_source *s, int f, const struct sw_scaling_measure *how,
                      struct sw_err *err) SW_MUST_CHECK;
