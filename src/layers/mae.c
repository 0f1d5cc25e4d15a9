/* mae: the mean absolute error |a - b| over all values of all rows, in the units of the data.
 * Sources: predicted values a, and targets b (layers/share/regression.h). */
#include "layers/share/regression.h"

static double value(const struct sw_layer *l, const struct sw_result *total, int which)
{
    return sw_regression_mean(l, total, SW_ERROR_ABSOLUTE);
}

const struct sw_layer_type sw_layer_mae = {
    .base = {.name = "mae", .help = "mean absolute error of predicted values"},
    SW_REGRESSION_TYPE,
    .value = value,
    .less_is_better = true,
};
