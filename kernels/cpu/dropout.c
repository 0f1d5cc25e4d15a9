/* Dropout: y = scale x where the element's random word is at least the threshold, else 0
 * (Srivastava, Hinton, Krizhevsky, Sutskever, Salakhutdinov 2014); and the noise of denoising
 * auto-encoders, where what is lost is one of two values, or a normal number is added (Vincent,
 * Larochelle, Lajoie, Bengio, Manzagol, "Stacked Denoising Autoencoders", 2010, section 3.3).
 *
 * Philox gives four words for the counter (step, global row, element / 4), elements numbered
 * channels-last; so a layout only changes which words lie beside one another (draw.h). */
#include "kernels/cpu/draw.h"
#include "kernels/cpu/kernels.h"

enum { LANES = SW_DRAW_LANES, WORDS = SW_DRAW_WORDS, ROW_GRAIN = SW_DRAW_COST };

/* word[i][lane] is word i of block first + offset[lane]. */
SW_KERNEL_INLINE void draw(const struct sw_kernel_dropout *d, uint32_t row, uint32_t first,
                           const uint32_t *restrict offset, uint32_t (*restrict word)[LANES])
{
    sw_draw_blocks(d->key, d->step, row, first, offset, word);
    if (d->std > 0)
        sw_draw_make_normal(word);
}

/* n elements, whose words lie beside each other. */
SW_KERNEL_INLINE void change(const struct sw_kernel_dropout *d, const uint32_t *word, int64_t n,
                             const float *x, float *y)
{
    if (d->std > 0) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            y[i] = x[i] + d->std * sw_v_from_bits(word[i]);
    } else {
#pragma omp simd
        for (int64_t i = 0; i < n; i++) {
            float lost = word[i] < d->low_below ? d->low : d->high;
            y[i] = word[i] >= d->threshold ? x[i] * d->scale : lost;
        }
    }
}

/* A piece in which words lie in memory order. */
SW_KERNEL_INLINE void keep_interleaved(const struct sw_kernel_dropout *d,
                                       uint32_t (*restrict word)[LANES], int64_t n, const float *x,
                                       float *y)
{
    uint32_t flat[WORDS];
    sw_draw_in_order(word, flat);
    change(d, flat, n, x, y);
}

SW_KERNEL static void drop_row(const struct sw_kernel_dropout *d, uint32_t row, int64_t features,
                               const float *x, float *y)
{
    uint32_t offset[LANES], word[4][LANES];
    for (uint32_t i = 0; i < LANES; i++)
        offset[i] = i;
    for (int64_t e = 0; e < features; e += WORDS) {
        int64_t left = features - e;
        draw(d, row, (uint32_t)(e / 4), offset, word);
        if (left >= WORDS)
            keep_interleaved(d, word, WORDS, x + e, y + e);
        else
            keep_interleaved(d, word, left, x + e, y + e);
    }
}

/* Four planes of one row: the lanes are pixels, block offsets lie channels / 4 apart. */
SW_KERNEL static void drop_planes(const struct sw_kernel_dropout *d, uint32_t row, int64_t channels,
                                  int64_t channel, int64_t pixels, const float *x, float *y)
{
    uint32_t offset[LANES], word[4][LANES];
    for (uint32_t i = 0; i < LANES; i++)
        offset[i] = i * (uint32_t)(channels / 4);
    for (int64_t p = 0; p < pixels; p += LANES) {
        int64_t n = pixels - p < LANES ? pixels - p : LANES;
        draw(d, row, (uint32_t)((p * channels + channel) / 4), offset, word);
        for (int64_t c = 0; c < 4; c++) {
            int64_t at = (channel + c) * pixels + p;
            change(d, word[c], n, x + at, y + at);
        }
    }
}

/* One block of channels of one row: per pixel `valid` channels, then padding. */
SW_KERNEL static void drop_block(const struct sw_kernel_dropout *d, uint32_t row, int64_t channels,
                                 int64_t channel, int64_t pixels, int64_t block, const float *x,
                                 float *y)
{
    uint32_t offset[LANES], word[4][LANES];
    int64_t valid = channels - channel < block ? channels - channel : block;
    int64_t per_pixel = block / 4, pixels_at_once = LANES / per_pixel;
    for (int64_t i = 0; i < LANES; i++)
        offset[i] = (uint32_t)(i / per_pixel * (channels / 4) + i % per_pixel);
    for (int64_t p = 0; p < pixels; p += pixels_at_once) {
        int64_t n = pixels - p < pixels_at_once ? pixels - p : pixels_at_once;
        draw(d, row, (uint32_t)((p * channels + channel) / 4), offset, word);
        keep_interleaved(d, word, n * block, x + p * block, y + p * block);
        if (valid < block)
            for (int64_t i = 0; i < n * block; i++)
                y[p * block + i] = i % block < valid ? y[p * block + i] : 0.0f;
    }
}

void sw_kernel_dropout_rows(int threads, const struct sw_kernel_dropout *d, int64_t rows,
                            int64_t features, const float *x, float *y)
{
    int team = sw_team_size(threads, rows * features * ROW_GRAIN);
#pragma omp parallel for num_threads(team) if (team > 1) schedule(static)
    for (int64_t r = 0; r < rows; r++)
        drop_row(d, d->first_row + (uint32_t)r, features, x + r * features, y + r * features);
}

void sw_kernel_dropout_planes(int threads, const struct sw_kernel_dropout *d, int64_t rows,
                              int64_t channels, int64_t pixels, const float *x, float *y)
{
    int team = sw_team_size(threads, rows * channels * pixels * ROW_GRAIN);
    int64_t quads = channels / 4, features = channels * pixels;
#pragma omp parallel for num_threads(team) if (team > 1) schedule(static)
    for (int64_t i = 0; i < rows * quads; i++) {
        int64_t r = i / quads, channel = i % quads * 4;
        drop_planes(d, d->first_row + (uint32_t)r, channels, channel, pixels, x + r * features,
                    y + r * features);
    }
}

void sw_kernel_dropout_blocked(int threads, const struct sw_kernel_dropout *d, int64_t rows,
                               int64_t channels, int64_t pixels, int64_t block, const float *x,
                               float *y)
{
    int64_t blocks = (channels + block - 1) / block, piece = pixels * block;
    int team = sw_team_size(threads, rows * blocks * piece * ROW_GRAIN);
#pragma omp parallel for num_threads(team) if (team > 1) schedule(static)
    for (int64_t i = 0; i < rows * blocks; i++) {
        int64_t r = i / blocks, channel = i % blocks * block;
        drop_block(d, d->first_row + (uint32_t)r, channels, channel, pixels, block, x + i * piece,
                   y + i * piece);
    }
}

SW_KERNEL static float change_one(const struct sw_kernel_dropout *d, struct sw_philox4 block,
                                  uint32_t number, float x)
{
    float y;
    if (d->std > 0) {
        sw_draw_normal(&block.v[0], &block.v[1]);
        sw_draw_normal(&block.v[2], &block.v[3]);
    }
    change(d, &block.v[number % 4], 1, &x, &y);
    return y;
}

float sw_kernel_dropout_element(const struct sw_kernel_dropout *d, uint32_t row, uint32_t number,
                                float x)
{
    return change_one(d, sw_philox_at(d->key, d->step, row, number / 4), number, x);
}
