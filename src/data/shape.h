/* How the numbers of a record become its `image`, [C, H, W]: written by people, or by rule where
 * nobody said. Pure functions. */
#pragma once

#include "base/err.h"
#include <stdint.h>

/* Reads "1x8x8" or "8x8" (one channel). text NULL or empty: a channel for each number, so that
 * `mean` and `std` can be given for each, where there are no more than 64 of them; else one channel
 * in a row. Demands that the shape has `count` elements. Errors: SW_ERR_INVALID naming the key. */
int sw_shape_read(const char *text, int64_t count, int64_t shape[3],
                  struct sw_err *err) SW_MUST_CHECK;
