/* Vectorizable tests for finite floats: a float is infinite or NaN if all its exponent bits are
 * set. */
#pragma once

#include "kernels/updaters/formula.h"
#include <stdint.h>
#include <string.h>

/* Returns the bits of |x|, which are ordered like |x|; infinity and NaN give SW_MAGNITUDE_INFINITE
 * or more. So the maximum shows whether many values are all finite, with fewer operations than a
 * test of each. */
enum { SW_MAGNITUDE_INFINITE = 0x7f800000 };
SW_FORMULA uint32_t sw_magnitude(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits & 0x7fffffffu;
}

/* Returns 1 if x is not finite, else 0. */
SW_FORMULA uint32_t sw_non_finite(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (bits & 0x7f800000u) == 0x7f800000u;
}
