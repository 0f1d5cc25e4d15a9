/* Internal to base/hash*.c: XXH3-64 compiled for AVX2, for processors that have it. */
#pragma once

#include <stddef.h>
#include <stdint.h>

uint64_t sw_hash_bytes64_avx2(const void *data, size_t bytes);
