/* From a picture to a finished row of floats [C, H, W]. What is asked for is done in this order:
 *
 *     resize, pad, cut out, mirror         where the pixels of the row come from (sw_view)
 *     brightness, contrast, saturation     data/distort.h
 *     elastic distortion                   data/distort.h
 *     log(x + 1)
 *     (x - mean) / std * scale             mean by channel or of a picture
 *     ZCA whitening                        data/statistics.h
 *
 * The usual way, cutting, turning and (x - mean) / std * scale of bytes, is one pass from pixels to
 * floats (kernels/cpu/picture.c). Everything drawn at random is a pure function of (key, sample),
 * key being that of (seed, split).
 *
 * A picture of any size goes through three steps: sw_transform_view decides everything from its
 * sides alone, sw_transform_need says which pixels that takes, so that no others are decoded, and
 * sw_transform_run does it. A struct sw_transform is frozen after set-up and may be used by any
 * thread, each with working memory of its own. */
#pragma once

#include "base/philox.h"
#include "data/data.h"
#include "data/picture.h"
#include "data/resample.h"
#include "kernels/desc.h"
#include <stdbool.h>
#include <stdint.h>

enum { SW_MAX_CHANNELS = 64 };

struct sw_transform {
    int64_t channels, height, width; /* of pictures as they come; of the first where they differ */
    bool differ;                     /* pictures have sides of their own */
    int64_t resize_shorter;          /* the shorter side becomes so long; 0: not asked for */
    int64_t resize_height, resize_width;
    int64_t pad, crop;             /* 0: none */
    int64_t out_height, out_width; /* of rows */
    bool random_crop, random_mirror;
    float brightness, contrast, saturation; /* factors are 1 - v to 1 + v */
    float elastic_alpha, elastic_sigma;     /* pixels */
    bool log1p;
    float mean[SW_MAX_CHANNELS], gain[SW_MAX_CHANNELS]; /* out = (x - mean) * gain */
    float *mean_picture;                                /* owned; [C, mean_height, mean_width] */
    int64_t mean_height, mean_width;
    float *whiten_mean, *whiten; /* owned; [D] and [D, D], D elements of a row */
};

/* Fills *t from the keys of a section for pictures [channels, height, width]; height and width 0:
 * they differ, and first_height and first_width are those of the first one. Reads the files that
 * keys name. Errors: SW_ERR_INVALID naming the key, those of reading a file. Free with fini, also
 * after an error. */
struct sw_transform_input {
    int64_t channels, height, width, first_height, first_width;
    bool training;
};
int sw_transform_init(struct sw_transform *t, const struct sw_data_conf *conf,
                      const struct sw_transform_input *in, struct sw_err *err) SW_MUST_CHECK;
void sw_transform_fini(struct sw_transform *t); /* a zeroed one is accepted */

/* Working memory of one thread; zero-initialise. */
struct sw_transform_work {
    struct sw_resampling down, across;
    struct sw_room row, stretched; /* rows of a resampling */
    struct sw_room field;          /* of an elastic distortion, and a copy of the row */
};
void sw_transform_work_fini(struct sw_transform_work *w);

/* What resizing makes of a picture's sides. Where pictures differ and a crop is larger than one of
 * them, that picture grows to fit. */
void sw_transform_resized(const struct sw_transform *t, int64_t *height, int64_t *width);

/* Where the pixels of one row come from. Sides and places are in the picture after resizing. */
struct sw_view {
    int64_t height, width; /* of the picture after resizing */
    int64_t top, left;     /* first pixel that is taken */
    int64_t rows, columns; /* that are taken */
    int64_t out_top;       /* where they go; around them is padding. */
    int64_t out_left;      /* before mirroring */
    bool mirrored;         /* left to right, the padding too */
};

/* Decides for one picture: a pure function of (t, key, sample, sides).
 * Errors: SW_ERR_FORMAT for sides that the section does not take. */
int sw_transform_view(const struct sw_transform *t, struct sw_philox key, int64_t sample,
                      int64_t height, int64_t width, struct sw_view *v,
                      struct sw_err *err) SW_MUST_CHECK;

/* The part of a picture that the view reads, where it was decoded at height x width (its own sides,
 * or less, but not below those of the view). Errors: SW_ERR_NOMEM. */
int sw_transform_need(const struct sw_view *v, struct sw_transform_work *w, int64_t height,
                      int64_t width, struct sw_picture_part *part,
                      struct sw_err *err) SW_MUST_CHECK;

/* Makes the row: pixels are those of the part that sw_transform_need has just answered; out is
 * [C, out_height, out_width]. Errors: SW_ERR_NOMEM. */
int sw_transform_run(const struct sw_transform *t, struct sw_transform_work *w,
                     const struct sw_view *v, const struct sw_pixels *pixels, struct sw_philox key,
                     int64_t sample, float *out, struct sw_err *err) SW_MUST_CHECK;
