/* Plain channels to blocked channels and back: for every block a transposition of [block, pixels]
 * to [pixels, block]. */
#include "kernels/cpu/kernel.h"
#include "kernels/cpu/kernels.h"
#include <string.h>

enum { PIXELS = 64 }; /* pixels per loop, so that the input stays in the L1 cache */

SW_KERNEL static void interleave(int64_t valid, int64_t block, int64_t pixels, int64_t n,
                                 const uint32_t *restrict plain, uint32_t *restrict blocked)
{
    if (valid < block)
        memset(blocked, 0, (size_t)(n * block) * sizeof *blocked);

    for (int64_t c = 0; c < valid; c++)
        for (int64_t p = 0; p < n; p++)
            blocked[p * block + c] = plain[c * pixels + p];
}

SW_KERNEL static void deinterleave(int64_t valid, int64_t block, int64_t pixels, int64_t n,
                                   const uint32_t *restrict blocked, uint32_t *restrict plain)
{
    for (int64_t c = 0; c < valid; c++)
        for (int64_t p = 0; p < n; p++)
            plain[c * pixels + p] = blocked[p * block + c];
}

void sw_kernel_block_channels(int threads, int64_t rows, int64_t channels, int64_t pixels,
                              int64_t block, const uint32_t *plain, uint32_t *blocked)
{
    int64_t blocks = (channels + block - 1) / block;
    int team = sw_team_size(threads, rows * channels * pixels);

#pragma omp parallel for num_threads(team) if (team > 1) schedule(static)
    for (int64_t i = 0; i < rows * blocks; i++) {
        int64_t first = i % blocks * block, left = channels - first;
        const uint32_t *from = plain + (i / blocks * channels + first) * pixels;
        uint32_t *to = blocked + i * pixels * block;

        for (int64_t p = 0; p < pixels; p += PIXELS)
            interleave(left < block ? left : block, block, pixels,
                       pixels - p < PIXELS ? pixels - p : PIXELS, from + p, to + p * block);
    }
}

void sw_kernel_unblock_channels(int threads, int64_t rows, int64_t channels, int64_t pixels,
                                int64_t block, const uint32_t *blocked, uint32_t *plain)
{
    int64_t blocks = (channels + block - 1) / block;
    int team = sw_team_size(threads, rows * channels * pixels);

#pragma omp parallel for num_threads(team) if (team > 1) schedule(static)
    for (int64_t i = 0; i < rows * blocks; i++) {
        int64_t first = i % blocks * block, left = channels - first;
        const uint32_t *from = blocked + i * pixels * block;
        uint32_t *to = plain + (i / blocks * channels + first) * pixels;

        for (int64_t p = 0; p < pixels; p += PIXELS)
            deinterleave(left < block ? left : block, block, pixels,
                         pixels - p < PIXELS ? pixels - p : PIXELS, from + p * block, to + p);
    }
}

void sw_kernel_zero_channel_padding(int threads, int64_t rows, int64_t channels, int64_t pixels,
                                    int64_t block, float *blocked)
{
    int64_t blocks = (channels + block - 1) / block, valid = channels - (blocks - 1) * block;
    if (valid == block)
        return;

    int team = sw_team_size(threads, rows * pixels * block);

#pragma omp parallel for num_threads(team) if (team > 1) schedule(static)
    for (int64_t r = 0; r < rows; r++) {
        float *last = blocked + ((r + 1) * blocks - 1) * pixels * block;
        for (int64_t p = 0; p < pixels; p++)
            memset(last + p * block + valid, 0, (size_t)(block - valid) * sizeof *last);
    }
}
