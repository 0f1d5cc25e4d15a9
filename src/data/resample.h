/* Resampling of one axis of an image: the weights with which input samples are combined into output
 * samples. The filter is a triangle with a half-width of one output sample when shrinking (so that
 * no input is skipped) and of one input sample when enlarging (linear interpolation); its center is
 * ((i + 1/2) from / to). The weights of an output sample sum to 1. One owner per object. */
#pragma once

#include "data/room.h"
#include <stdint.h>

/* Zero-initialize; free with sw_resampling_fini. */
struct sw_resampling {
    int64_t count, taps; /* output samples, and input samples combined for each */
    int64_t first, need; /* input samples used: first .. first + need - 1 */
    int32_t *start;      /* [count]: first input sample, relative to `first` */
    float *weight;       /* [count, taps] */
    struct sw_room room; /* memory of start and weight */
};

/* Computes output samples begin .. begin + count - 1 when resampling `from` input samples to `to`
 * output samples, both at most 65535. Errors: SW_ERR_NOMEM. */
int sw_resampling_make(struct sw_resampling *a, int64_t from, int64_t to, int64_t begin,
                       int64_t count, struct sw_err *err) SW_MUST_CHECK;
void sw_resampling_fini(struct sw_resampling *a); /* a zeroed one is accepted */
