/* Color changes and elastic distortion of one row. All random words come from Philox by (key,
 * sample), at the counters defined below, so every thread computes the same row. The work memory
 * belongs to the reader. */
#include "data/distort.h"
#include <math.h>
#include <string.h>

/* Philox counters of (key, sample). Row 0 holds single draws; its block 0 is the crop position. Row
 * 1 holds the displacements, one element each for x and y. */
enum { BLOCK_COLOUR = 1, ROW_ELASTIC = 1 };

/* ---- Color ---- */

static float factor(uint32_t word, float v)
{
    return 1 + v * (2 * sw_philox_uniform(word) - 1);
}

static float gray_of(const float *x, int64_t channels, int64_t plane)
{
    if (channels == 3)
        return 0.299f * x[0] + 0.587f * x[plane] + 0.114f * x[2 * plane];

    float sum = 0;
    for (int64_t c = 0; c < channels; c++)
        sum += x[c * plane];

    return sum / (float)channels;
}

static float mean_gray(const float *x, int64_t channels, int64_t plane)
{
    double sum = 0;
    for (int64_t i = 0; i < plane; i++)
        sum += gray_of(x + i, channels, plane);
    return (float)(sum / (double)plane);
}

static void change_color(const struct sw_transform *t, struct sw_philox key, int64_t sample,
                         float *x)
{
    const struct sw_philox4 word = sw_philox_at(key, (uint64_t)sample, 0, BLOCK_COLOUR);
    const int64_t plane = t->out_height * t->out_width;
    const float b = factor(word.v[0], t->brightness), c = factor(word.v[1], t->contrast);
    const float s = t->channels == 3 ? factor(word.v[2], t->saturation) : 1;
    const float center = t->contrast > 0 ? b * mean_gray(x, t->channels, plane) : 0;

    /* Brightness and contrast in one step: c (b x - center) + center. */
    const float by = b * c, add = center * (1 - c);

    for (int64_t i = 0; i < t->channels * plane; i++)
        x[i] = by * x[i] + add;
    if (s == 1)
        return;

    for (int64_t i = 0; i < plane; i++) {
        const float gray = gray_of(x + i, 3, plane);
        for (int64_t k = 0; k < 3; k++)
            x[k * plane + i] = gray + s * (x[k * plane + i] - gray);
    }
}

/* ---- Elastic ---- */

/* Convolves n samples with a stride of `step` elements, with a symmetric filter. taps is [reach +
 * 1], the center first. */
static void smooth_line(const float *in, float *out, int64_t n, int64_t step, const float *taps,
                        int64_t reach)
{
    for (int64_t i = 0; i < n; i++) {
        const int64_t low = i < reach ? i : reach, high = n - 1 - i < reach ? n - 1 - i : reach;
        float sum = taps[0] * in[i * step];

        for (int64_t k = 1; k <= low; k++)
            sum += taps[k] * in[(i - k) * step];
        for (int64_t k = 1; k <= high; k++)
            sum += taps[k] * in[(i + k) * step];
        out[i * step] = sum;
    }
}

/* A Gaussian truncated at three standard deviations, with weights that sum to `total`. */
static int64_t make_taps(float *taps, int64_t most, double sigma, double total)
{
    const int64_t reach = (int64_t)ceil(3 * sigma) < most ? (int64_t)ceil(3 * sigma) : most;
    double sum = 0;

    for (int64_t k = -reach; k <= reach; k++)
        sum += exp(-(double)(k * k) / (2 * sigma * sigma));
    for (int64_t k = 0; k <= reach; k++)
        taps[k] = (float)(total * exp(-(double)(k * k) / (2 * sigma * sigma)) / sum);

    return reach;
}

/* Fills both fields with values uniform in -1 .. 1: one block of random words gives x and y of two
 * pixels. */
static void fill_noise(struct sw_philox key, int64_t sample, int64_t n, float *across, float *down)
{
    for (int64_t i = 0; i < n; i += 2) {
        const struct sw_philox4 word =
            sw_philox_at(key, (uint64_t)sample, ROW_ELASTIC, (uint32_t)(i / 2));

        for (int64_t k = 0; k < 2 && i + k < n; k++) {
            across[i + k] = 2 * sw_philox_uniform(word.v[2 * k]) - 1;
            down[i + k] = 2 * sw_philox_uniform(word.v[2 * k + 1]) - 1;
        }
    }
}

/* Smooths noise d [height, width] into a displacement field; spare has the same size. */
static void smooth(const struct sw_transform *t, float *d, float *spare)
{
    enum { MOST_TAPS = 192 };

    const int64_t height = t->out_height, width = t->out_width;
    float taps[MOST_TAPS + 1];
    int64_t reach = make_taps(taps, MOST_TAPS, t->elastic_sigma, 1);
    for (int64_t y = 0; y < height; y++)
        smooth_line(d + y * width, spare + y * width, width, 1, taps, reach);
    reach = make_taps(taps, MOST_TAPS, t->elastic_sigma, t->elastic_alpha);
    for (int64_t x = 0; x < width; x++)
        smooth_line(spare + x, d + x, height, width, taps, reach);
}

static float limited(float v, float most)
{
    return v < 0 ? 0 : v > most ? most : v;
}

/* Bilinear interpolation at (y, x), which is inside the plane. */
static float between(const float *from, int64_t height, int64_t width, float y, float x)
{
    const int64_t y0 = (int64_t)y, x0 = (int64_t)x;
    const int64_t y1 = y0 + 1 < height ? y0 + 1 : y0, x1 = x0 + 1 < width ? x0 + 1 : x0;
    const float down = y - (float)y0, across = x - (float)x0;
    const float upper = from[y0 * width + x0] * (1 - across) + from[y0 * width + x1] * across;
    const float lower = from[y1 * width + x0] * (1 - across) + from[y1 * width + x1] * across;

    return upper * (1 - down) + lower * down;
}

static int bend(const struct sw_transform *t, struct sw_transform_work *w, struct sw_philox key,
                int64_t sample, float *x, struct sw_err *err)
{
    const int64_t height = t->out_height, width = t->out_width, plane = height * width;

    int rc =
        sw_room_need(&w->field, (size_t)(3 * plane) * sizeof(float), "an elastic distortion", err);
    if (rc)
        return rc;

    float *across = (float *)(void *)w->field.memory, *down = across + plane, *copy = down + plane;
    fill_noise(key, sample, plane, across, down);
    smooth(t, across, copy);
    smooth(t, down, copy);

    for (int64_t c = 0; c < t->channels; c++, x += plane) {
        memcpy(copy, x, (size_t)plane * sizeof *x);

        for (int64_t i = 0; i < plane; i++) {
            const float to_y = (float)(i / width) + down[i], to_x = (float)(i % width) + across[i];
            x[i] = between(copy, height, width, limited(to_y, (float)(height - 1)),
                           limited(to_x, (float)(width - 1)));
        }
    }

    return SW_OK;
}

int sw_distort(const struct sw_transform *t, struct sw_transform_work *w, struct sw_philox key,
               int64_t sample, float *x, struct sw_err *err)
{
    if (t->brightness > 0 || t->contrast > 0 || t->saturation > 0)
        change_color(t, key, sample, x);
    return t->elastic_alpha > 0 ? bend(t, w, key, sample, x, err) : SW_OK;
}
