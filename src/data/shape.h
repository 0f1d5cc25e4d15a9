/* The shape [C, H, W] of the `image` of a record: from the key `shape`, or by a default rule. Pure
 * functions. */
#pragma once

#include "base/err.h"
#include <stdint.h>

/* Parses "1x8x8" or "8x8" (one channel). If text is NULL or empty, `count` values become one
 * channel each if there are at most 64, so that `mean` and `std` can be given for each; else one
 * channel with one row. Requires that the shape has `count` elements. Errors: SW_ERR_INVALID naming
 * the key. */
int sw_shape_read(const char *text, int64_t count, int64_t shape[3],
                  struct sw_err *err) SW_MUST_CHECK;
