/* Centers and contexts for the kernels of skip-gram. */
#pragma once

#include "kernels/cuda/cuda.cuh"
#include "kernels/skip_gram.h"

/* A center, and its contexts: the other centers of reach. */
struct sw_center {
    const int32_t *row, *picks;
    int64_t k;
    struct sw_pick_reach reach;
    int contexts;
};

static __device__ __forceinline__ struct sw_center sw_center_of(const struct sw_skip_gram_shape &s,
                                                                const int32_t *row, int64_t k)
{
    const int32_t *picks = sw_pick_center(&s, row, k);
    const struct sw_pick_reach reach = sw_pick_reach_of(row, picks, k);
    const struct sw_center c = {row, picks, k, reach, (int)(reach.to - reach.from - 1)};
    return c;
}

/* Returns the position of context i in the row. */
static __device__ __forceinline__ int64_t sw_context_position(const struct sw_skip_gram_shape &s,
                                                              const struct sw_center &c, int i)
{
    const int64_t k = c.reach.from + i;
    return sw_pick_center(&s, c.row, k + (k >= c.k))[SW_PICK_POSITION];
}
