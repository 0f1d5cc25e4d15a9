/* Division by a number that is known before a kernel starts: one multiplication and a shift
 * (Granlund and Montgomery, "Division by Invariant Integers using Multiplication", 1994), since a
 * GPU divides by some twenty instructions. Plain arithmetic; any thread. */
#pragma once

#include "kernels/both.h"
#include <stdbool.h>
#include <stdint.h>

/* A divisor of numbers below 2^31. */
struct sw_divisor {
    uint32_t by, factor;
    int shift;
};

/* 1 <= by < 2^31 */
SW_BOTH struct sw_divisor sw_divisor_of(int64_t by)
{
    struct sw_divisor d = {(uint32_t)by, 0, 0};

    while ((int64_t)1 << d.shift < by)
        d.shift++;

    /* factor = ceil(2^(31 + shift) / by), below 2^32 */
    d.factor = (uint32_t)((((uint64_t)1 << (31 + d.shift)) + d.by - 1) / d.by);

    return d;
}

SW_BOTH uint32_t sw_divide(const struct sw_divisor *d, uint32_t n)
{
    return (uint32_t)((uint64_t)n * d->factor >> 31 >> d->shift);
}

/* Divides *n, and returns the remainder. */
SW_BOTH uint32_t sw_divide_off(const struct sw_divisor *d, uint32_t *n)
{
    uint32_t rest = *n;

    *n = sw_divide(d, rest);
    return rest - *n * d->by;
}
