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

/* Copies plain channels to blocked ones (in), or back. */
static void convert(int threads, int64_t rows, int64_t channels, int64_t pixels, int64_t block,
                    uint32_t *plain, uint32_t *blocked, bool in)
{
    int64_t blocks = (channels + block - 1) / block;
    int team = sw_team_size(threads, rows * channels * pixels);

#pragma omp parallel for num_threads(team) if (team > 1) schedule(static)
    for (int64_t i = 0; i < rows * blocks; i++) {
        int64_t first = i % blocks * block, left = channels - first;
        int64_t valid = left < block ? left : block;
        uint32_t *a = plain + (i / blocks * channels + first) * pixels;
        uint32_t *b = blocked + i * pixels * block;

        for (int64_t p = 0; p < pixels; p += PIXELS) {
            int64_t n = pixels - p < PIXELS ? pixels - p : PIXELS;

            if (in)
                interleave(valid, block, pixels, n, a + p, b + p * block);
            else
                deinterleave(valid, block, pixels, n, b + p * block, a + p);
        }
    }
}

void sw_kernel_block_channels(int threads, int64_t rows, int64_t channels, int64_t pixels,
                              int64_t block, const uint32_t *plain, uint32_t *blocked)
{
    convert(threads, rows, channels, pixels, block, (uint32_t *)(uintptr_t)plain, blocked, true);
}

void sw_kernel_unblock_channels(int threads, int64_t rows, int64_t channels, int64_t pixels,
                                int64_t block, const uint32_t *blocked, uint32_t *plain)
{
    convert(threads, rows, channels, pixels, block, plain, (uint32_t *)(uintptr_t)blocked, false);
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
