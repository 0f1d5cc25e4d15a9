/* Measures the throughput of a device: the median of several passes of an operation. The fastest
 * pass does not show other load on the machine, the difference to the median does. Only the owner
 * of the stream calls. */
#pragma once

#include "base/err.h"
#include <stdint.h>

struct sw_stream;

/* In units per nanosecond, that is Gflop/s or GB/s. */
struct sw_throughput {
    double median, fastest;
};

/* Fills x [n] in device memory with values between -1 and 1. Memory that was never written cannot
 * be used for measurements: the operating system maps it to a shared page of zeros. Errors:
 * SW_ERR_NOMEM, those of the device. */
int sw_throughput_fill(struct sw_stream *s, float *x, int64_t n, struct sw_err *err) SW_MUST_CHECK;

/* Runs an operation of `units` flop or bytes once to warm up, then at least 3 times, and on until
 * budget_ms have passed, at most 15 times. Errors: those of run and of the device. */
int sw_throughput_of(struct sw_stream *s, double units,
                     int (*run)(struct sw_stream *s, void *args, struct sw_err *err), void *args,
                     int budget_ms, struct sw_throughput *out, struct sw_err *err) SW_MUST_CHECK;

/* Measures c = a b for matrices [side, side] in device memory; fills a and b. Errors: as above. */
int sw_throughput_product(struct sw_stream *s, float *const abc[3], int side, int budget_ms,
                          struct sw_throughput *out, struct sw_err *err) SW_MUST_CHECK;
/* Measures y = x + y for arrays of *n floats in device memory, which it fills: three transfers per
 * element. If the first write takes longer than budget_ms (a virtual machine may have to request
 * memory from its host), *n is reduced, but to no less than 16 Mi floats (64 MiB). The result is
 * the memory bandwidth if no cache holds both arrays. Errors: as above. */
int sw_throughput_memory(struct sw_stream *s, float *x, float *y, int64_t *n, int budget_ms,
                         struct sw_throughput *out, struct sw_err *err) SW_MUST_CHECK;
