/* Random words of many elements at a time, for CPU kernels. Philox gives four words for the counter
 * (step, global row, element / 4); sixteen such blocks are generated at once, one per vector lane.
 * Two words give two normal samples (Box and Muller 1958):
 *
 *   sqrt(-2 log u) sin 2 pi v,  sqrt(-2 log u) cos 2 pi v    u = (a + 1) / 2^24, v = b / 2^24
 *
 * where a and b are the upper 24 bits of the words. */
#pragma once

#include "base/philox.h"
#include "kernels/cpu/kernel.h"
#include "kernels/cpu/vmath.h"

enum {
    SW_DRAW_LANES = 16,
    SW_DRAW_WORDS = 4 * SW_DRAW_LANES,
    SW_DRAW_COST = 4, /* cost of a random word in light operations */
};

/* Replaces two words by the bits of two normal samples. */
SW_KERNEL_INLINE void sw_draw_normal(uint32_t *a, uint32_t *b)
{
    float sine, cosine;
    float radius = sqrtf(-2.0f * sw_v_log_unit((float)((*a >> 8) + 1) * 0x1p-24f));

    sw_v_turn(sw_philox_uniform(*b), &sine, &cosine);
    *a = sw_v_bits(radius * sine);
    *b = sw_v_bits(radius * cosine);
}

/* Sets word[i][lane] to word i of block first + offset[lane]. */
SW_KERNEL_INLINE void sw_draw_blocks(struct sw_philox key, uint64_t step, uint32_t row,
                                     uint32_t first, const uint32_t *offset,
                                     uint32_t (*word)[SW_DRAW_LANES])
{
    uint32_t step_low = (uint32_t)step, step_high = (uint32_t)(step >> 32);

#pragma omp simd
    for (int lane = 0; lane < SW_DRAW_LANES; lane++) {
        struct sw_philox4 w = sw_philox_block(key, first + offset[lane], row, step_low, step_high);
        word[0][lane] = w.v[0];
        word[1][lane] = w.v[1];
        word[2][lane] = w.v[2];
        word[3][lane] = w.v[3];
    }
}

/* Replaces all words by normal samples. */
SW_KERNEL_INLINE void sw_draw_make_normal(uint32_t (*word)[SW_DRAW_LANES])
{
#pragma omp simd
    for (int lane = 0; lane < SW_DRAW_LANES; lane++) {
        sw_draw_normal(&word[0][lane], &word[1][lane]);
        sw_draw_normal(&word[2][lane], &word[3][lane]);
    }
}

/* Stores the words in the order of their elements, if the blocks were adjacent. */
SW_KERNEL_INLINE void sw_draw_in_order(uint32_t (*word)[SW_DRAW_LANES], uint32_t *flat)
{
#pragma omp simd
    for (int lane = 0; lane < SW_DRAW_LANES; lane++) {
        flat[4 * lane] = word[0][lane];
        flat[4 * lane + 1] = word[1][lane];
        flat[4 * lane + 2] = word[2][lane];
        flat[4 * lane + 3] = word[3][lane];
    }
}
