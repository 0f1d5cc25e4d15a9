/* r2: the coefficient of determination, 1 - sum (a - b)^2 / sum (b - mean b)^2: 1 is perfect, 0 is
 * as good as predicting the mean. Rows of several values have the mean of the values' r2, like
 * scikit-learn's r2_score; values whose targets are all the same have none and are left out.
 * Sources: predicted values a, and targets b (layers/share/regression.h). */
#include "layers/share/regression.h"
#include <math.h>

/* What rounding leaves of a variance of 0, relative to the mean of the squares. */
#define ROUNDING 1e-14

/* Sets *r2 to that of a column; false if its targets are all the same. */
static bool column(const struct sw_result *pairs, double *r2)
{
    const double n = pairs[SW_ERROR_SQUARED].weight, error = pairs[SW_ERROR_SQUARED].sum;
    const double sum = pairs[SW_ERROR_TARGET].sum, squares = pairs[SW_ERROR_TARGET].weight;
    const double spread = squares - sum * sum / n;

    *r2 = 1 - error / spread;
    return n > 1 && !(spread <= ROUNDING * squares);
}

static double value(const struct sw_layer *l, const struct sw_result *total, int which)
{
    const struct sw_regression *st = l->state;
    double sum = 0;
    int64_t defined = 0;

    for (int64_t c = 0; c < st->value.columns; c++) {
        double r2;
        const bool is_defined = column(total + SW_ERROR_PAIRS * c, &r2);

        sum += is_defined ? r2 : 0;
        defined += is_defined;
    }

    return defined > 0 ? sum / (double)defined : (double)NAN;
}

const struct sw_layer_type sw_layer_r2 = {
    .base = {.name = "r2", .help = "coefficient of determination of predicted values"},
    SW_REGRESSION_TYPE,
    .variant = 1,
    .value = value,
};
