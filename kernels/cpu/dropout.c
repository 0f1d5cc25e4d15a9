/* Dropout: y = scale x where the element's random word is at least the threshold, else 0
 * (Srivastava, Hinton, Krizhevsky, Sutskever, Salakhutdinov 2014); and the noise of denoising
 * autoencoders, where dropped values become one of two values, or a normal sample is added
 * (Vincent, Larochelle, Lajoie, Bengio, Manzagol, "Stacked Denoising Autoencoders", 2010, section
 * 3.3).
 *
 * Philox gives four words for the counter (step, global row, element / 4), with elements numbered
 * channels-last, so a layout only changes which words are adjacent (draw.h). The common layouts
 * generate sixteen blocks of random words at a time, others go element by element. */
#include "kernels/ops/dropout.h"
#include "kernels/cpu/draw.h"
#include "kernels/cpu/kernels.h"

/* The parameters of a pass. */
struct pass {
    struct sw_dropout k;
    uint64_t step;
    uint32_t first_row;
};

enum { LANES = SW_DRAW_LANES, WORDS = SW_DRAW_WORDS, ROW_GRAIN = SW_DRAW_COST };

/* Sets word[i][lane] to word i of block first + offset[lane]. */
SW_KERNEL_INLINE void draw(const struct pass *d, uint32_t row, uint32_t first,
                           const uint32_t *restrict offset, uint32_t (*restrict word)[LANES])
{
    sw_draw_blocks(d->k.key, d->step, row, first, offset, word);
    if (d->k.std > 0)
        sw_draw_make_normal(word);
}

/* Changes n elements whose words are adjacent. */
SW_KERNEL_INLINE void change(const struct pass *d, const uint32_t *word, int64_t n, const float *x,
                             float *y)
{
    if (d->k.std > 0) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            y[i] = x[i] + d->k.std * sw_v_from_bits(word[i]);
    } else {
#pragma omp simd
        for (int64_t i = 0; i < n; i++) {
            float lost = word[i] < d->k.low_below ? d->k.low : d->k.high;
            y[i] = word[i] >= d->k.threshold ? x[i] * d->k.scale : lost;
        }
    }
}

/* Changes a piece whose words are in memory order. */
SW_KERNEL_INLINE void change_interleaved(const struct pass *d, uint32_t (*restrict word)[LANES],
                                         int64_t n, const float *x, float *y)
{
    uint32_t flat[WORDS];
    sw_draw_in_order(word, flat);
    change(d, flat, n, x, y);
}

SW_KERNEL static void drop_row(const struct pass *d, uint32_t row, int64_t features, const float *x,
                               float *y)
{
    uint32_t offset[LANES], word[4][LANES];

    for (uint32_t i = 0; i < LANES; i++)
        offset[i] = i;

    for (int64_t e = 0; e < features; e += WORDS) {
        int64_t left = features - e;

        draw(d, row, (uint32_t)(e / 4), offset, word);

        if (left >= WORDS)
            change_interleaved(d, word, WORDS, x + e, y + e);
        else
            change_interleaved(d, word, left, x + e, y + e);
    }
}

/* Changes four planes of a row: lanes are pixels, and the blocks of adjacent lanes have a distance
 * of channels / 4. */
SW_KERNEL static void drop_planes(const struct pass *d, uint32_t row, int64_t channels,
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

/* Changes one block of channels of a row: per pixel `valid` channels, then padding. */
SW_KERNEL static void drop_block(const struct pass *d, uint32_t row, int64_t channels,
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
        change_interleaved(d, word, n * block, x + p * block, y + p * block);

        if (valid < block)
            for (int64_t i = 0; i < n * block; i++)
                y[p * block + i] = i % block < valid ? y[p * block + i] : 0.0f;
    }
}

static void drop_rows(int threads, const struct pass *d, int64_t rows, int64_t features,
                      const float *x, float *y)
{
    int team = sw_team_size(threads, rows * features * ROW_GRAIN);
#pragma omp parallel for num_threads(team) if (team > 1) schedule(static)
    for (int64_t r = 0; r < rows; r++)
        drop_row(d, d->first_row + (uint32_t)r, features, x + r * features, y + r * features);
}

static void drop_all_planes(int threads, const struct pass *d, int64_t rows, int64_t channels,
                            int64_t pixels, const float *x, float *y)
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

static void drop_blocks(int threads, const struct pass *d, int64_t rows, int64_t channels,
                        int64_t pixels, int64_t block, const float *x, float *y)
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

SW_KERNEL static float change_one(const struct pass *d, struct sw_philox4 block, uint32_t number,
                                  float x)
{
    float y;

    if (d->k.std > 0) {
        sw_draw_normal(&block.v[0], &block.v[1]);
        sw_draw_normal(&block.v[2], &block.v[3]);
    }

    change(d, &block.v[number % 4], 1, &x, &y);
    return y;
}

/* Sets the index of element `element` of row r, counted channels-last within this shard. */
static void index_of(const struct sw_desc *d, int64_t r, int64_t element, int64_t *index)
{
    index[0] = r;
    index[1] = element % d->dim[1];

    element /= d->dim[1];
    for (int i = d->ndim - 1; i >= 2; i--) {
        index[i] = element % d->dim[i];
        element /= d->dim[i];
    }
}

/* Changes elements of any layout and any shard, one by one. */
static void drop_by_offset(int threads, const struct pass *p, const struct sw_desc *d,
                           const float *x, float *y)
{
    int64_t features = sw_desc_features(d);
    int64_t channels = p->k.channels ? p->k.channels : d->dim[1]; /* channels of the whole tensor */

    if (x != y && sw_desc_storage(d) != sw_desc_count(d))
        sw_kernel_zero(threads, y, (int64_t)sw_desc_bytes(d));

#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
    for (int64_t r = 0; r < d->dim[0]; r++)
        for (int64_t e = 0; e < features; e++) {
            int64_t index[SW_MAX_DIMS];
            uint32_t row = p->first_row + (uint32_t)r;

            index_of(d, r, e, index);

            int64_t at = sw_desc_offset(d, index);
            int64_t number = p->k.first_channel + index[1] + e / d->dim[1] * channels;
            y[at] = change_one(p, sw_philox_at(p->k.key, p->step, row, (uint32_t)number / 4),
                               (uint32_t)number, x[at]);
        }
}

static void arrays(const void *args, struct sw_op_arrays *out)
{
    const struct sw_dropout_args *a = args;
    SW_ARRAY(out, a, step, sizeof *a->step);
    SW_ACTIVATION(out, a, x, a->desc.dtype, sw_desc_storage(&a->desc));
    SW_ACTIVATION(out, a, y, a->desc.dtype, sw_desc_storage(&a->desc));
}

static int dropout(const struct sw_host_launch *l, const void *args)
{
    const struct sw_dropout_args *a = args;
    const struct sw_desc *d = &a->desc;
    const struct pass p = {
        .k = a->dropout, .step = a->step->step, .first_row = (uint32_t)a->step->first_row};
    bool part = p.k.channels && p.k.channels != d->dim[1];
    char text[128];

    if (d->ndim < 2 || sw_desc_features(d) > INT32_MAX)
        return sw_err_set(
            l->err, SW_ERR_INVALID,
            "dropout and noise require 2 dimensions or more and rows below 2^31 elements, not %s",
            sw_desc_text(d, text));

    int block = sw_desc_channel_block(d);
    int64_t rows = d->dim[0], channels = d->dim[1], pixels = sw_desc_pixels(d);
    if (part)
        drop_by_offset(l->threads, &p, d, a->x, a->y);
    else if (sw_desc_is_channels_last(d))
        drop_rows(l->threads, &p, rows, channels * pixels, a->x, a->y);
    else if (channels % 4 == 0 && sw_desc_is_plain(d))
        drop_all_planes(l->threads, &p, rows, channels, pixels, a->x, a->y);
    else if (channels % 4 == 0 && block)
        drop_blocks(l->threads, &p, rows, channels, pixels, block, a->x, a->y);
    else
        drop_by_offset(l->threads, &p, d, a->x, a->y);

    return SW_OK;
}

const struct sw_op sw_op_dropout = {"dropout", sizeof(struct sw_dropout_args), arrays, dropout};
