/* Gradients before an updater sees them: summed over the workers (base/tree.h), clipped by value,
 * and measured. Sums of squares are double, over blocks of SW_GATHER_BLOCK elements counted from
 * the range's start, each in an order of its own that does not depend on the machine, so that a
 * norm depends neither on slices and servers nor on threads. Host memory, any thread. */
#ifndef SW_PARAM_GATHER_H
#define SW_PARAM_GATHER_H

#include "kernels/cpu/fold.h"
#include <stdbool.h>
#include <stdint.h>

enum { SW_GATHER_BLOCK = 1024 };

/* out = x, cut at -limit and limit; out may be x. True when an x is not finite. */
bool sw_gather_clip(float *out, const float *x, float limit, int64_t n);

/* out = the sum over arrays [n]. With the calling thread's OpenMP team. */
void sw_gather_sum(const struct sw_terms *sum, float *out, int64_t n);

/* One range, for an update that is decided upon later. */
struct sw_gather_args {
    struct sw_terms sum; /* of arrays [count] */
    float *gradient;     /* [count]: the first of them, where the sum is left */
    const float *value;  /* [count]; NULL: not measured */
    int64_t count;
    float clip_value; /* 0: none */
    /* [blocks of count]: sums of squares of gradient (a NaN where one is not finite) and value. */
    double *squares, *value_squares;
};
/* With the calling thread's OpenMP team. False when a gradient is not finite. */
bool sw_gather(const struct sw_gather_args *a);

#endif
