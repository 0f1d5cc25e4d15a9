#include "data/transform.h"

/* Blocks of constant length are what every compiler turns into vector code. */
enum { BLOCK = 16 };

/* out = (in - mean) * gain over one contiguous run. */
static void scale_u8(float *restrict out, const unsigned char *restrict in, int64_t n, float mean,
                     float gain)
{
    int64_t i = 0;
    for (; i + BLOCK <= n; i += BLOCK) {
        for (int k = 0; k < BLOCK; k++)
            out[i + k] = ((float)in[i + k] - mean) * gain;
    }
    for (; i < n; i++)
        out[i] = ((float)in[i] - mean) * gain;
}

static void scale_f32(float *restrict out, const float *restrict in, int64_t n, float mean,
                      float gain)
{
    int64_t i = 0;
    for (; i + BLOCK <= n; i += BLOCK) {
        for (int k = 0; k < BLOCK; k++)
            out[i + k] = (in[i + k] - mean) * gain;
    }
    for (; i < n; i++)
        out[i] = (in[i] - mean) * gain;
}

static void scale_run(enum sw_dtype dtype, float *out, const void *raw, int64_t first, int64_t n,
                      float mean, float gain)
{
    if (dtype == SW_U8)
        scale_u8(out, (const unsigned char *)raw + first, n, mean, gain);
    else
        scale_f32(out, (const float *)raw + first, n, mean, gain);
}

static void reverse(float *row, int64_t n)
{
    for (int64_t i = 0; i < n / 2; i++) {
        float t = row[i];
        row[i] = row[n - 1 - i];
        row[n - 1 - i] = t;
    }
}

struct sw_crop_place sw_transform_place(const struct sw_transform *t, struct sw_philox key,
                                        int64_t sample)
{
    const int64_t down = t->height - t->out_height, across = t->width - t->out_width;
    struct sw_crop_place place = {down / 2, across / 2, false};
    if (!t->random_crop && !t->random_mirror)
        return place;
    struct sw_philox4 word = sw_philox_at(key, (uint64_t)sample, 0, 0);
    if (t->random_crop) {
        place.top = (int64_t)((uint64_t)word.v[0] * (uint64_t)(down + 1) >> 32);
        place.left = (int64_t)((uint64_t)word.v[1] * (uint64_t)(across + 1) >> 32);
    }
    place.mirrored = t->random_mirror && word.v[2] >> 31;
    return place;
}

void sw_transform_row(const struct sw_transform *t, struct sw_crop_place place, const void *raw,
                      float *out)
{
    const int64_t plane = t->height * t->width, out_plane = t->out_height * t->out_width;
    const bool whole = out_plane == plane && !place.mirrored;
    for (int64_t c = 0; c < t->channels; c++) {
        const int64_t base = c * plane + place.top * t->width + place.left;
        float *to = out + c * out_plane;
        if (whole) {
            scale_run(t->dtype, to, raw, base, plane, t->mean[c], t->gain[c]);
            continue;
        }
        for (int64_t y = 0; y < t->out_height; y++, to += t->out_width) {
            scale_run(t->dtype, to, raw, base + y * t->width, t->out_width, t->mean[c], t->gain[c]);
            if (place.mirrored)
                reverse(to, t->out_width);
        }
    }
}
