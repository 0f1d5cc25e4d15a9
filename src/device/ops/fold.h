/* Sums of several arrays in the order of base/tree.h: what several parts of a batch give. */
#ifndef SW_DEVICE_OPS_FOLD_H
#define SW_DEVICE_OPS_FOLD_H

#include "device/op.h"

enum { SW_FOLD_TERMS = 16 };

/* y [n] = the sum of x[0 .. count); y may be x[0]. ends: as in struct sw_terms. */
struct sw_fold_args {
    const float *x[SW_FOLD_TERMS];
    int ends[SW_FOLD_TERMS];
    int count;
    int64_t n;
    float *y;
};
extern const struct sw_op sw_op_fold_arrays;

SW_MUST_CHECK static inline int sw_op_fold(struct sw_stream *s, const struct sw_fold_args *a,
                                           struct sw_err *err)
{
    return sw_op_run(s, &sw_op_fold_arrays, a, err);
}

#endif
