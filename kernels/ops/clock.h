/* Reads the clock of a device in stream order. Only differences between readings of the same device
 * are meaningful. */
#pragma once

#include "kernels/op.h"

/* Sets *ns to the device's clock, in nanoseconds, when all work queued before is done. */
struct sw_clock_args {
    int64_t *ns;
};
extern const struct sw_op sw_op_clock;
