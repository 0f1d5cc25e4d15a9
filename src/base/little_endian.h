/* Numbers as little-endian bytes, in files and messages. Pure functions. */
#pragma once

#include <stdint.h>

/* The lowest `bytes` (at most 8) of a value. */
static inline void sw_le_put(unsigned char *at, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++)
        at[i] = (unsigned char)(value >> (8 * i));
}

static inline uint64_t sw_le_get(const unsigned char *at, int bytes)
{
    uint64_t value = 0;

    for (int i = 0; i < bytes; i++)
        value |= (uint64_t)at[i] << (8 * i);
    return value;
}
