/* Whole numbers as floats. */
#ifndef SW_DEVICE_OPS_FLOATS_H
#define SW_DEVICE_OPS_FLOATS_H

#include "device/op.h"

struct sw_floats_args {
    int64_t n;
    const int32_t *x;
    float *y;
};
extern const struct sw_op sw_op_to_floats;

/* y = x over n elements; whole numbers beyond 2^24 are rounded. */
SW_MUST_CHECK static inline int sw_op_floats_of(struct sw_stream *s, int64_t n, const int32_t *x,
                                                float *y, struct sw_err *err)
{
    const struct sw_floats_args a = {.n = n, .x = x, .y = y};
    return sw_op_run(s, &sw_op_to_floats, &a, err);
}

#endif
