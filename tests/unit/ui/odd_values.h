/* Numbers that break careless axes: the ends of double, what is not a number, neighbors that differ
 * in the last place, and the values between which a rounded mean of equal values lies. */
#pragma once

#include <float.h>
#include <math.h>

static const double odd_values[] = {
    0,
    -0.0,
    0.1,
    0.1 + 0x1p-56,
    0.1 - 0x1p-56,
    0.01,
    0.01 + 0x1p-59,
    0.10000001,
    1,
    1 + 0x1p-52,
    1 + 0x1p-23,
    -1,
    2.302585,
    2.3025851,
    1e6,
    1e6 + 1,
    0x1p53,
    0x1p53 + 2,
    2e16,
    2e16 + 4,
    -2e16,
    1e-7,
    FLT_MAX,
    FLT_MIN,
    -FLT_MAX,
    1e150,
    1e-150,
    1e300,
    DBL_MAX,
    -DBL_MAX,
    DBL_MIN,
    DBL_TRUE_MIN,
    -DBL_TRUE_MIN,
    3e-320,
    INFINITY,
    -INFINITY,
    NAN,
};
enum { ODD_VALUES = sizeof odd_values / sizeof *odd_values };
