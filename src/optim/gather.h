/* Gradients before an updater sees them: summed over the workers (base/tree.h), clipped by value,
 * and measured. Sums of squares are over blocks of SW_GATHER_BLOCK elements counted from the
 * range's start, in the order of kernels/updaters/decide.h, so that a norm depends neither on
 * slices and servers nor on threads. Host memory, any thread. */
#pragma once

#include "kernels/cpu/fold.h"
#include "kernels/updaters/decide.h"
#include <stdbool.h>
#include <stdint.h>

enum { SW_GATHER_BLOCK = SW_NORM_BLOCK };

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

/* squares[blocks of n]: what sw_gather finds of an array that is cut at limit (0: it is not), which
 * stays as it is. */
void sw_gather_measure(const float *x, int64_t n, float limit, double *squares);
