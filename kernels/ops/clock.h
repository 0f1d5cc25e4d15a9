/* Reads the clock of a device in stream order. Only differences between two readings of the same
 * device have a meaning. */
#pragma once

#include "kernels/op.h"

/* *ns becomes the nanoseconds of the device's clock when everything queued before is done. */
struct sw_clock_args {
    int64_t *ns;
};
extern const struct sw_op sw_op_clock;
