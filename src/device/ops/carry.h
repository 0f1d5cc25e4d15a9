/* Where rows begin: what they carry on from the batch before, or zeros where the step says that
 * sequences begin. */
#ifndef SW_DEVICE_OPS_CARRY_H
#define SW_DEVICE_OPS_CARRY_H

#include "device/op.h"

struct sw_carry_args {
    int64_t n;         /* floats */
    const float *from; /* NULL: nothing is carried */
    const struct sw_step *step;
    float *to;
};
extern const struct sw_op sw_op_carry_on;

#endif
