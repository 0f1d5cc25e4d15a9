/* A keyed permutation without state: rounds of a Feistel network over the next power of two,
 * repeated until the result is in range (cycle walking). permute.h has the source. Pure; any
 * thread. */
#include "data/permute.h"

void sw_permutation_init(struct sw_permutation *p, struct sw_philox key, uint64_t epoch,
                         int64_t count)
{
    int bits = 0;

    while (bits < 62 && (int64_t)1 << bits < count)
        bits++;
    p->count = count;
    p->epoch = epoch;
    p->left_bits = bits / 2;
    p->right_bits = bits - bits / 2;
    for (uint32_t i = 0; i < SW_PERMUTE_ROUNDS; i++)
        p->round_key[i] = sw_philox_word(key, epoch, 0, i);
}

static uint64_t mix(uint64_t half, uint32_t key)
{
    return sw_mix64(half ^ ((uint64_t)key << 32 | (key ^ 0xA5A5A5A5u)));
}

/* Each round XORs one half with a function of the other and is its own inverse, so the network is a
 * bijection on 0 .. 2^bits - 1. */
static uint64_t network(const struct sw_permutation *p, uint64_t x)
{
    const uint64_t left_mask = ((uint64_t)1 << p->left_bits) - 1;
    const uint64_t right_mask = ((uint64_t)1 << p->right_bits) - 1;
    uint64_t left = x >> p->right_bits, right = x & right_mask;

    for (int i = 0; i < SW_PERMUTE_ROUNDS; i += 2) {
        left ^= mix(right, p->round_key[i]) & left_mask;
        right ^= mix(left, p->round_key[i + 1]) & right_mask;
    }

    return left << p->right_bits | right;
}

int64_t sw_permutation_at(const struct sw_permutation *p, int64_t i)
{
    uint64_t x = (uint64_t)i;

    do {
        x = network(p, x);
    } while (x >= (uint64_t)p->count);

    return (int64_t)x;
}
