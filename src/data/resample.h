/* Resampling of one axis of a picture: the weights with which old samples make a new one. The
 * filter is a triangle, as wide as one new sample where the picture shrinks (so that nothing is
 * skipped) and as one old sample where it grows (linear interpolation); its centre is ((i + 1/2)
 * from / to). Weights of a sample add up to 1. One owner per object. */
#pragma once

#include "data/room.h"
#include <stdint.h>

/* Zero-initialise; free with sw_resampling_fini. */
struct sw_resampling {
    int64_t count, taps; /* new samples, and old ones that make each */
    int64_t first, need; /* old samples that all of them read: first .. first + need - 1 */
    int32_t *start;      /* [count]: the first old sample, counted from `first` */
    float *weight;       /* [count, taps] */
    struct sw_room room; /* what start and weight lie in */
};

/* New samples begin .. begin + count - 1 of `to`, which stand for `from` old ones; from and to are
 * 65535 or less. Errors: SW_ERR_NOMEM. */
int sw_resampling_make(struct sw_resampling *a, int64_t from, int64_t to, int64_t begin,
                       int64_t count, struct sw_err *err) SW_MUST_CHECK;
void sw_resampling_fini(struct sw_resampling *a); /* a zeroed one is accepted */
