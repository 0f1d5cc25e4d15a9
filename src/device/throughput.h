/* Throughput of a device: an operation runs several times, and the median counts. The best pass may
 * be luck and does not show other load; the spread of the passes does. Only the owner of the stream
 * calls. */
#pragma once

#include "base/err.h"
#include <stdint.h>

struct sw_stream;

/* Units per nanosecond, that is Gflop/s or GB/s. */
struct sw_throughput {
    double median, fastest;
};

/* Writes n numbers between -1 and 1 into the device's memory at x. What was never written need not
 * lie in memory: an operating system shows the same page of zeros at every address of it. Errors:
 * SW_ERR_NOMEM, those of the device. */
int sw_throughput_fill(struct sw_stream *s, float *x, int64_t n, struct sw_err *err) SW_MUST_CHECK;

/* Runs an operation of so many units once to warm up, then 3 times, and on for budget_ms, up to 15
 * times. Errors: those of run, and of the device. */
int sw_throughput_of(struct sw_stream *s, double units,
                     int (*run)(struct sw_stream *s, void *args, struct sw_err *err), void *args,
                     int budget_ms, struct sw_throughput *out, struct sw_err *err) SW_MUST_CHECK;

/* c = a b of matrices [side, side] in device memory; fills a and b. Errors: as above. */
int sw_throughput_product(struct sw_stream *s, float *const abc[3], int side, int budget_ms,
                          struct sw_throughput *out, struct sw_err *err) SW_MUST_CHECK;
/* y = x + y over arrays of *n floats in device memory, which it fills: three transfers an element.
 * Where writing them for the first time takes longer than budget_ms (a virtual machine may have to
 * ask its host for memory), *n becomes less, but not less than 16 Mi floats (64 MiB). It is memory
 * that is measured where no cache holds both arrays. Errors: as above. */
int sw_throughput_memory(struct sw_stream *s, float *x, float *y, int64_t *n, int budget_ms,
                         struct sw_throughput *out, struct sw_err *err) SW_MUST_CHECK;
