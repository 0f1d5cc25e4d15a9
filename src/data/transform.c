/* From pixels to a finished row. Reading order follows the steps of transform.h: the source of the
 * pixels (sw_transform_view, sw_transform_need), pixels to floats by cropping or resampling, then
 * the operations on the row. The plain case (crop, mirror and (x - mean) / std * scale) is one pass
 * over the pixels. Any thread, each with its own working memory; setup is in transform_setup.c. */
#include "data/transform.h"
#include "data/distort.h"
#include "kernels/cpu/kernels.h"
#include "kernels/ops/pixels.h"
#include <math.h>
#include <string.h>

void sw_transform_work_fini(struct sw_transform_work *w)
{
    sw_resampling_fini(&w->down);
    sw_resampling_fini(&w->across);
    sw_room_fini(&w->row);
    sw_room_fini(&w->stretched);
    sw_room_fini(&w->field);
}

/* ---- Where pixels come from ---- */

static int64_t in_proportion(int64_t side, int64_t to, int64_t from)
{
    const int64_t n = (2 * side * to + from) / (2 * from); /* rounded */
    return n < 1 ? 1 : n;
}

void sw_transform_resized(const struct sw_transform *t, int64_t *height, int64_t *width)
{
    if (t->resize_height) {
        *height = t->resize_height;
        *width = t->resize_width;
        return;
    }

    const int64_t shorter = *height < *width ? *height : *width;
    int64_t to = t->resize_shorter;
    if (!to && t->differ && t->crop > shorter + 2 * t->pad)
        to = t->crop - 2 * t->pad;
    if (!to || to == shorter)
        return;

    if (*height < *width) {
        *width = in_proportion(*width, to, shorter);
        *height = to;
    } else {
        *height = in_proportion(*height, to, shorter);
        *width = to;
    }
}

/* Crops one axis of `side` pixels padded by `pad` at both ends: `out` pixels from position `place`
 * on. */
static void cut_axis(int64_t side, int64_t pad, int64_t place, int64_t out, int64_t *first,
                     int64_t *count, int64_t *to)
{
    const int64_t end = place + out - pad;
    *first = place > pad ? place - pad : 0;
    *to = place < pad ? pad - place : 0;
    *count = (end < side ? end : side) - *first;
}

int sw_transform_view(const struct sw_transform *t, struct sw_philox key, int64_t sample,
                      int64_t height, int64_t width, struct sw_view *v, struct sw_err *err)
{
    *v = (struct sw_view){.height = height, .width = width, .key = key, .sample = sample};
    sw_transform_resized(t, &v->height, &v->width);

    const int64_t down = v->height + 2 * t->pad - t->out_height;
    const int64_t across = v->width + 2 * t->pad - t->out_width;
    if (down < 0 || across < 0 || (!t->crop && (down || across)))
        return sw_err_set(
            err, SW_ERR_FORMAT, "image of %lldx%lld (height x width), expected %lldx%lld%s",
            (long long)height, (long long)width, (long long)t->height, (long long)t->width,
            t->differ ? " like the first one; for images of different sizes set "
                        "crop, or resize with height and width"
                      : "");

    int64_t top = down / 2, left = across / 2;
    if (t->random_crop || t->random_mirror) {
        const struct sw_philox4 word = sw_philox_at(key, (uint64_t)sample, 0, 0);

        if (t->random_crop) {
            top = (int64_t)((uint64_t)word.v[0] * (uint64_t)(down + 1) >> 32);
            left = (int64_t)((uint64_t)word.v[1] * (uint64_t)(across + 1) >> 32);
        }

        v->mirrored = t->random_mirror && word.v[2] >> 31;
    }

    cut_axis(v->height, t->pad, top, t->out_height, &v->top, &v->rows, &v->out_top);
    cut_axis(v->width, t->pad, left, t->out_width, &v->left, &v->columns, &v->out_left);
    return SW_OK;
}

static bool is_resampled(const struct sw_view *v, int64_t height, int64_t width)
{
    return v->height != height || v->width != width;
}

int sw_transform_need(const struct sw_view *v, struct sw_transform_work *w, int64_t height,
                      int64_t width, struct sw_picture_part *part, struct sw_err *err)
{
    *part = (struct sw_picture_part){v->top, v->left, v->rows, v->columns};
    w->down.count = 0;
    if (!is_resampled(v, height, width))
        return SW_OK;

    int rc = sw_resampling_make(&w->down, height, v->height, v->top, v->rows, err);
    if (rc)
        return rc;
    rc = sw_resampling_make(&w->across, width, v->width, v->left, v->columns, err);
    if (rc)
        return rc;

    *part = (struct sw_picture_part){w->down.first, w->across.first, w->down.need, w->across.need};
    return rc;
}

/* ---- Pixels to floats ---- */

/* The destination of pixels, and the conversion (x - mean) * gain. */
struct target {
    const float *mean, *gain; /* by channel */
    float *out;               /* first element written, channel 0 */
    int64_t width, plane;     /* width and plane size of out */
    bool mirrored;
};

static const void *element(const struct sw_pixels *p, int64_t at)
{
    return p->dtype == SW_U8 ? (const void *)((const unsigned char *)p->data + at)
                             : (const void *)((const float *)p->data + at);
}

static void scale_run(const struct sw_pixels *p, int64_t at, int64_t n, float mean, float gain,
                      bool mirrored, float *out)
{
    if (p->dtype == SW_U8)
        sw_kernel_scale_u8(n, element(p, at), mean, gain, mirrored, out);
    else
        sw_kernel_scale_f32(n, element(p, at), mean, gain, mirrored, out);
}

static void cut(const struct sw_pixels *p, const struct target *to)
{
    if (p->pixel_step == 4) {
        for (int64_t y = 0; y < p->height; y++)
            sw_kernel_scale_packed(p->width, element(p, y * p->row_step), to->mean, to->gain,
                                   to->mirrored, to->out + y * to->width, to->plane);
        return;
    }

    /* If rows are contiguous in both input and output, a channel is one run. */
    const bool whole = p->width == p->row_step && p->width == to->width && !to->mirrored;
    const int64_t rows = whole ? 1 : p->height, n = whole ? p->height * p->width : p->width;
    for (int64_t c = 0; c < p->channels; c++) {
        for (int64_t y = 0; y < rows; y++)
            scale_run(p, c * p->channel_step + y * p->row_step, n, to->mean[c], to->gain[c],
                      to->mirrored, to->out + c * to->plane + y * to->width);
    }
}

/* Blends input rows into one row of floats, which finish_row then stretches: blending is a
 * contiguous loop, and stretching is done once per output row. */
static void resample_row(const struct sw_transform_work *w, const struct sw_pixels *p, int64_t c,
                         int64_t y, float *row)
{
    const struct sw_resampling *down = &w->down;
    const int64_t n = p->width * p->pixel_step;
    const void *from = element(p, c * p->channel_step + down->start[y] * p->row_step);

    if (p->dtype == SW_U8)
        sw_kernel_blend_u8(n, down->taps, from, p->row_step, down->weight + y * down->taps, row);
    else
        sw_kernel_blend_f32(n, down->taps, from, p->row_step, down->weight + y * down->taps, row);
}

/* Stretches and normalizes one output row of channel c, or of the three channels of packed pixels.
 */
static void finish_row(const struct sw_transform_work *w, bool packed, int64_t c, int64_t y,
                       const float *row, float *new, const struct target *to)
{
    const struct sw_resampling *across = &w->across;
    const int64_t n = across->count;
    float *out = to->out + c * to->plane + y * to->width;

    if (packed) {
        sw_kernel_stretch_packed(n, across->taps, across->start, across->weight, row, new);
        sw_kernel_scale_packed_f32(n, new, to->mean, to->gain, to->mirrored, out, to->plane);
    } else {
        sw_kernel_stretch(n, across->taps, across->start, across->weight, row, new);
        sw_kernel_scale_f32(n, new, to->mean[c], to->gain[c], to->mirrored, out);
    }
}

static int resample(struct sw_transform_work *w, const struct sw_pixels *p, const struct target *to,
                    struct sw_err *err)
{
    const bool packed = p->pixel_step == 4;

    int rc = sw_room_need(&w->row, (size_t)(p->width * p->pixel_step) * sizeof(float),
                          "a row of a resampling", err);
    if (rc)
        return rc;
    rc = sw_room_need(&w->stretched, (size_t)(w->across.count * p->pixel_step) * sizeof(float),
                      "a row of a resampling", err);
    if (rc)
        return rc;

    float *row = (float *)(void *)w->row.memory, *new = (float *)(void *)w->stretched.memory;
    for (int64_t c = 0; c < p->channels; c += packed ? 3 : 1) {
        for (int64_t y = 0; y < w->down.count; y++) {
            resample_row(w, p, c, y, row);
            finish_row(w, packed, c, y, row, new, to);
        }
    }

    return SW_OK;
}

/* ---- The row ---- */

/* Whether the pixels only need (x - mean) * gain. */
static bool is_plain(const struct sw_transform *t)
{
    return !t->brightness && !t->contrast && !t->saturation && !t->elastic_alpha && !t->log1p &&
           !t->mean_image;
}

/* Fills the output with the padding value, which is the mean before normalization. */
static void fill_padding(const struct sw_transform *t, const struct sw_view *v, bool plain,
                         float *out)
{
    const int64_t plane = t->out_height * t->out_width;
    if (v->rows == t->out_height && v->columns == t->out_width)
        return;

    for (int64_t c = 0; c < t->channels; c++) {
        const float value = plain ? 0 : t->mean[c];
        for (int64_t i = 0; i < plane; i++)
            out[c * plane + i] = value;
    }
}

/* A mean image refers to the image, not to the row: it is cropped and mirrored in the same way. A
 * mean image with the size of a row is only mirrored. */
static void subtract_mean_image(const struct sw_transform *t, const struct sw_view *v, float *out)
{
    const bool of_row = t->mean_height == t->out_height && t->mean_width == t->out_width;
    const int64_t plane = t->mean_height * t->mean_width;

    for (int64_t c = 0; c < t->channels; c++) {
        const float *mean =
            t->mean_image + c * plane + (of_row ? 0 : v->top * t->mean_width + v->left);
        for (int64_t y = 0; y < t->out_height; y++, out += t->out_width, mean += t->mean_width)
            sw_kernel_subtract_scale(t->out_width, mean, t->gain[c], v->mirrored, out);
    }
}

static void normalize(const struct sw_transform *t, const struct sw_view *v, float *out)
{
    const int64_t plane = t->out_height * t->out_width;

    if (t->log1p) {
        for (int64_t i = 0; i < t->channels * plane; i++)
            out[i] = log1pf(out[i]);
    }

    if (t->mean_image) {
        subtract_mean_image(t, v, out);
        return;
    }

    for (int64_t c = 0; c < t->channels; c++)
        sw_kernel_rescale(plane, t->mean[c], t->gain[c], out + c * plane);
}

static int whiten(const struct sw_transform *t, struct sw_transform_work *w, float *out,
                  struct sw_err *err)
{
    const int64_t n = t->channels * t->out_height * t->out_width;

    int rc = sw_room_need(&w->field, (size_t)n * sizeof(float), "a row to be whitened", err);
    if (rc)
        return rc;

    float *centered = (float *)(void *)w->field.memory;
    for (int64_t i = 0; i < n; i++)
        centered[i] = out[i] - t->whiten_mean[i];
    sw_kernel_matrix_vector(n, n, t->whiten, centered, out);

    return SW_OK;
}

int sw_transform_run(const struct sw_transform *t, struct sw_transform_work *w,
                     const struct sw_view *v, const struct sw_pixels *pixels, float *out,
                     struct sw_err *err)
{
    static const float none[SW_MAX_CHANNELS] = {0};
    float one[SW_MAX_CHANNELS];
    const bool plain = is_plain(t);
    const int64_t left = v->mirrored ? t->out_width - v->out_left - v->columns : v->out_left;
    struct target to = {t->mean,
                        t->gain,
                        out + v->out_top * t->out_width + left,
                        t->out_width,
                        t->out_height * t->out_width,
                        v->mirrored};
    int rc = SW_OK;

    if (!plain) {
        for (int64_t c = 0; c < t->channels; c++)
            one[c] = 1;
        to.mean = none;
        to.gain = one;
    }

    fill_padding(t, v, plain, out);

    if (w->down.count)
        rc = resample(w, pixels, &to, err);
    else
        cut(pixels, &to);

    if (!rc && !plain)
        rc = sw_distort(t, w, v->key, v->sample, out, err);
    if (!rc && !plain)
        normalize(t, v, out);
    if (!rc && t->whiten)
        rc = whiten(t, w, out, err);

    return rc;
}

bool sw_transform_keeps_values(const struct sw_transform *t)
{
    bool keeps = is_plain(t) && !t->whiten && !t->random_mirror && !t->pad &&
                 t->out_height == t->height && t->out_width == t->width;

    for (int64_t c = 0; c < t->channels; c++)
        keeps = keeps && t->mean[c] == 0 && t->gain[c] == 1;
    return keeps;
}

/* ---- A row that a device finishes ---- */

bool sw_transform_keeps_pixels(const struct sw_transform *t)
{
    int64_t height = t->height, width = t->width;
    sw_transform_resized(t, &height, &width);

    return !t->differ && height == t->height && width == t->width && !t->brightness &&
           !t->contrast && !t->saturation && !t->elastic_alpha && !t->log1p && !t->whiten;
}

/* Copies n values of a line: step is 4 for packed pixels. */
static void copy_line(int64_t n, const unsigned char *from, int64_t step, unsigned char *to)
{
    if (step == 1) {
        memcpy(to, from, (size_t)n);
        return;
    }

    for (int64_t i = 0; i < n; i++)
        to[i] = from[i * step];
}

void sw_transform_pack(const struct sw_transform *t, const struct sw_view *v,
                       const struct sw_pixels *pixels, unsigned char *row)
{
    const bool of_row = t->mean_height == t->out_height && t->mean_width == t->out_width;
    const int64_t count = t->channels * t->out_height * t->out_width;
    const struct sw_pixels_head head = {
        .mirrored = v->mirrored,
        .top = of_row ? 0 : (int32_t)v->top,
        .left = of_row ? 0 : (int32_t)v->left,
        .first_line = (int32_t)v->out_top,
        .end_line = (int32_t)(v->out_top + v->rows),
        .first_column = (int32_t)v->out_left,
        .end_column = (int32_t)(v->out_left + v->columns),
    };
    unsigned char *to = row + sizeof head;

    memcpy(row, &head, sizeof head);
    if (v->rows < t->out_height || v->columns < t->out_width)
        memset(to, 0, (size_t)count);
    memset(to + count, 0, sw_pixels_row_bytes(count) - sizeof head - (size_t)count);

    for (int64_t c = 0; c < t->channels; c++) {
        for (int64_t y = 0; y < v->rows; y++)
            copy_line(v->columns, element(pixels, c * pixels->channel_step + y * pixels->row_step),
                      pixels->pixel_step,
                      to + (c * t->out_height + v->out_top + y) * t->out_width + v->out_left);
    }
}
