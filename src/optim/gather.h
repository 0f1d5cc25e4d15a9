/* Gradients on the host before the update: reduced over the workers (base/tree.h), clipped by
 * value, and their sums of squares. Sums of squares are over blocks of SW_GATHER_BLOCK elements
 * counted from the start of the range, in the order of kernels/updaters/update_control.h, so that a
 * norm depends neither on slices and servers nor on threads. Host memory, any thread. */
#pragma once

#include "kernels/cpu/fold.h"
#include "kernels/updaters/update_control.h"
#include <stdbool.h>
#include <stdint.h>

enum { SW_GATHER_BLOCK = SW_NORM_BLOCK };

/* Sets out [n] to x clipped to -limit .. limit; out may be x. Returns true if an x is not
 * finite. */
bool sw_gather_clip(float *out, const float *x, float limit, int64_t n);

/* Sets out [n] to the sum of arrays [n], with the calling thread's OpenMP team. */
void sw_gather_sum(const struct sw_fold_inputs *sum, float *out, int64_t n);

/* One range whose update depends on update control. */
struct sw_gather_args {
    struct sw_fold_inputs sum; /* arrays [count] to be summed */
    float *gradient;           /* [count]: the first of these arrays; receives the sum */
    const float *value;        /* [count]; NULL: no sums of squares of the value */
    int64_t count;
    float clip_value; /* limit of each element of the sum; 0: none */
    /* [blocks of count]: sums of squares of gradient (NaN if an element is not finite) and of
     * value. */
    double *squares, *value_squares;
};
/* Sums and clips the gradient and computes the sums of squares, with the calling thread's OpenMP
 * team. Returns false if a gradient is not finite. */
bool sw_gather(const struct sw_gather_args *a);

/* Sets squares [blocks of n] to the sums of squares of x clipped to limit (0: not clipped), as
 * sw_gather computes them. x is not changed. */
void sw_gather_measure(const float *x, int64_t n, float limit, double *squares);
