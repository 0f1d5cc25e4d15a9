/* Random words to floats, in chunks: the arithmetic behind initial values and random tensors, in a
 * form that compilers turn into vectors. Only + - * / and square root on doubles, which IEEE 754
 * rounds the same way everywhere; logarithm and sine are polynomials here, since a libm may differ
 * in the last bit. */
#pragma once

#include "base/philox.h"

enum { SW_FILL_CHUNK = 256 }; /* elements that are computed together */

/* out = elements [256 chunk, 256 chunk + 256) of the stream: mean + std z with normal z (Box and
 * Muller 1958), or low + (high - low) u with u uniform between 0 and 1 (rounding to float may
 * reach the ends). */
void sw_fill_gaussian(struct sw_philox key, uint64_t chunk, double mean, double std, float *out);
void sw_fill_uniform(struct sw_philox key, uint64_t chunk, double low, double high, float *out);
