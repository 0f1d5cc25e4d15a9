/* rmse: the square root of the mean of (a - b)^2 over all values of all rows, in the units of the
 * data. Sources: predicted values a, and targets b (layers/share/regression.h). */
#include "layers/share/regression.h"
#include <math.h>

static double value(const struct sw_layer *l, const struct sw_result *total, int which)
{
    return sqrt(sw_regression_mean(l, total, SW_ERROR_SQUARED));
}

const struct sw_layer_type sw_layer_rmse = {
    .base = {.name = "rmse", .help = "root of the mean squared error of predicted values"},
    SW_REGRESSION_TYPE,
    .value = value,
    .less_is_better = true,
};
