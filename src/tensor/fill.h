/* Converts random words to floats in chunks, for initial values and random tensors, in loops that
 * compilers vectorize. The code uses only + - * / and square root on doubles, which IEEE 754 rounds
 * identically on every machine; logarithm and sine are polynomials, because libm implementations
 * differ in the last bit. */
#pragma once

#include "base/philox.h"

enum { SW_FILL_CHUNK = 256 }; /* elements that are computed together */

/* Writes out = elements [256 chunk, 256 chunk + 256) of the stream: mean + std z with normal z (Box
 * and Muller 1958), or low + (high - low) u with u uniform between 0 and 1 (rounding to float may
 * reach the ends). */
void sw_fill_gaussian(struct sw_philox key, uint64_t chunk, double mean, double std, float *out);
void sw_fill_uniform(struct sw_philox key, uint64_t chunk, double low, double high, float *out);
