/* The rate of one parameter's update by the norms of its value and gradient (LARS,
 * kernels/updaters/lars.h), as an operation: numbers of an update, in device memory, get the rate
 * times the ratio. Behind a decision, which has the gradient's scale. The descriptor is in
 * param/update_op.c.
 *
 * Plain data; any thread. */
#ifndef SW_DEVICE_OPS_RATE_H
#define SW_DEVICE_OPS_RATE_H

#include "device/ops/update.h"

struct sw_rate_args {
    const double *value_squares, *gradient_squares; /* of the whole parameter */
    const struct sw_decided *decided;
    struct sw_update_numbers *numbers; /* whose constants are a struct sw_sgd */
};
extern const struct sw_op sw_op_rate;

#endif
