/* A stateless keyed permutation of 0 .. count-1: element i of epoch e is a pure function of (key,
 * e, count, i), so any worker and any thread can compute any position, and resuming needs no
 * replay. Construction: a Feistel network over the next power of two (uneven halves, round keys
 * from Philox), and cycle walking back into the range (Black and Rogaway, "Ciphers with Arbitrary
 * Finite Domains", CT-RSA 2002). Plain value, any thread. */
#pragma once

#include "base/philox.h"
#include <stdint.h>

enum { SW_PERMUTE_ROUNDS = 8 };

struct sw_permutation {
    int64_t count;
    uint64_t epoch;
    int left_bits, right_bits;
    uint32_t round_key[SW_PERMUTE_ROUNDS];
};

/* count is 1 or more. */
void sw_permutation_init(struct sw_permutation *p, struct sw_philox key, uint64_t epoch,
                         int64_t count);
/* The image of i, both in 0 .. count-1. Takes fewer than two passes through the network on average.
 */
int64_t sw_permutation_at(const struct sw_permutation *p, int64_t i);
