/* The time on a device: where it has come to. Between two readings of one device their difference
 * counts; what the numbers count from is the device's affair. */
#pragma once

#include "kernels/op.h"

/* *ns becomes the nanoseconds of the device's clock when everything queued before is done. */
struct sw_clock_args {
    int64_t *ns;
};
extern const struct sw_op sw_op_clock;
