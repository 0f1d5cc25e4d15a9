/* The time on a device: where it has come to. Between two readings of one device their difference
 * counts; what the numbers count from is the device's affair. */
#ifndef SW_DEVICE_OPS_CLOCK_H
#define SW_DEVICE_OPS_CLOCK_H

#include "device/op.h"

struct sw_clock_args {
    int64_t *ns; /* device memory */
};
extern const struct sw_op sw_op_read_clock;

/* *ns becomes the nanoseconds of the device's clock when everything queued before is done. */
SW_MUST_CHECK static inline int sw_op_clock(struct sw_stream *s, int64_t *ns, struct sw_err *err)
{
    const struct sw_clock_args a = {.ns = ns};
    return sw_op_run(s, &sw_op_read_clock, &a, err);
}

#endif
