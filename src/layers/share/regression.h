/* Metrics of predicted values (source 1) against targets (source 2), rows of the same number of
 * values in any layout; targets may be integers. Where the data source standardized the targets,
 * the errors are in the units of the data. The pairs of all batches and workers are summed before
 * any division, so a value is exact over all samples, whatever the batches. */
#pragma once

#include "kernels/ops/target_error.h"
#include "layers/share/plain.h"

struct sw_regression {
    struct sw_plain value, target;
    bool by_column;
};

/* The callbacks of the layer types. Errors: SW_ERR_INVALID naming both shapes, and those of
 * sw_plain_init. */
int sw_regression_setup(struct sw_layer *l, const struct sw_layer_setup *s,
                        struct sw_err *err) SW_MUST_CHECK;
int sw_regression_forward(struct sw_layer *l, const struct sw_pass *r,
                          struct sw_err *err) SW_MUST_CHECK;

/* Returns the mean over all values of pair `which`, SW_ERROR_ABSOLUTE or SW_ERROR_SQUARED, in the
 * units of the data (or their squares); NaN without samples. */
double sw_regression_mean(const struct sw_layer *l, const struct sw_result *total, int which);

extern const struct sw_layer_example sw_regression_examples[];

/* Members of a descriptor: a metric whose type sets variant to 1 if it needs sums of each column.
 */
#define SW_REGRESSION_TYPE                                                                         \
    .role = SW_ROLE_METRIC, .split_reason = "a row's error needs all its values",                  \
    SW_LAYER_FEATURES(2, 2, 0), .state_bytes = sizeof(struct sw_regression),                       \
    .examples = sw_regression_examples,                                                            \
    SW_LAYER_CALLS(sw_regression_setup, sw_regression_forward, NULL)
