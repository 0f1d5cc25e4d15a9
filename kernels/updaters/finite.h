/* Finite tests that vectorise: all exponent bits set means infinity or not a number. */
#pragma once

#include "kernels/updaters/formula.h"
#include <stdint.h>
#include <string.h>

/* A magnitude that orders values; infinity and NaN have SW_MAGNITUDE_INFINITE or more. So the
 * largest of many values shows whether all are finite, with fewer operations than a test of
 * each. */
enum { SW_MAGNITUDE_INFINITE = 0x7f800000 };
SW_FORMULA uint32_t sw_magnitude(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits & 0x7fffffffu;
}

/* 1 when x is not finite, else 0. */
SW_FORMULA uint32_t sw_non_finite(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (bits & 0x7f800000u) == 0x7f800000u;
}
