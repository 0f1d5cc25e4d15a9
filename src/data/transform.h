/* From an image to a finished row of floats [C, H, W]. The requested steps are applied in this
 * order:
 *
 *     resize, pad, crop, mirror            where the pixels of the row come from (sw_view)
 *     brightness, contrast, saturation     data/distort.h
 *     elastic distortion                   data/distort.h
 *     log(x + 1)
 *     (x - mean) / std * scale             mean by channel, or a mean image
 *     ZCA whitening                        data/statistics.h
 *
 * The common case (crop, mirror and (x - mean) / std * scale of bytes) is one pass from pixels to
 * floats (kernels/cpu/picture.c). All random choices are pure functions of (key, sample), where key
 * is derived from (seed, split).
 *
 * An image is transformed in three steps: sw_transform_view makes all choices from its height and
 * width alone, sw_transform_need returns the window of pixels required, so that no others are
 * decoded, and sw_transform_run computes the row. A struct sw_transform is frozen after setup and
 * may be used by any thread, each with its own working memory. */
#pragma once

#include "base/philox.h"
#include "data/data.h"
#include "data/picture.h"
#include "data/resample.h"
#include "kernels/desc.h"
#include <stdbool.h>
#include <stdint.h>

enum { SW_MAX_CHANNELS = 64 };

struct sw_data_spec;

struct sw_transform {
    int64_t channels, height, width; /* of input images; of the first one if sizes vary */
    bool differ;                     /* the size varies between images */
    int64_t resize_shorter;          /* target length of the shorter side; 0: not requested */
    int64_t resize_height, resize_width;
    int64_t pad, crop;             /* 0: none */
    int64_t out_height, out_width; /* size of rows */
    bool random_crop, random_mirror;
    float brightness, contrast, saturation; /* factors are 1 - v to 1 + v */
    float elastic_alpha, elastic_sigma;     /* pixels */
    bool log1p;
    float mean[SW_MAX_CHANNELS], gain[SW_MAX_CHANNELS]; /* out = (x - mean) * gain */
    float *mean_image;                                  /* owned; [C, mean_height, mean_width] */
    int64_t mean_height, mean_width;
    float *whiten_mean, *whiten; /* owned; [D] and [D, D], D elements of a row */
};

/* Fills *t from the keys of a section for images [channels, height, width]. height and width are 0
 * if the size varies; first_height and first_width are then those of the first image. Reads the
 * files that keys name. Errors: SW_ERR_INVALID naming the key, those of reading a file. Free with
 * fini, also after an error. */
struct sw_transform_input {
    int64_t channels, height, width, first_height, first_width;
    bool training;
    const struct sw_data_spec *spec; /* its mean image and whitening replace files; or NULL */
};
int sw_transform_init(struct sw_transform *t, const struct sw_data_conf *conf,
                      const struct sw_transform_input *in, struct sw_err *err) SW_MUST_CHECK;
void sw_transform_fini(struct sw_transform *t); /* a zeroed one is accepted */

/* Working memory of one thread; zero-initialize. */
struct sw_transform_work {
    struct sw_resampling down, across;
    struct sw_room row, stretched; /* rows of a resampling */
    struct sw_room field;          /* elastic distortion, and a copy of the row */
};
void sw_transform_work_fini(struct sw_transform_work *w);

/* Replaces *height and *width by the size after resizing. If sizes vary, an image smaller than the
 * crop is enlarged to fit. */
void sw_transform_resized(const struct sw_transform *t, int64_t *height, int64_t *width);

/* Where the pixels of one row come from. Sizes and positions refer to the resized image. */
struct sw_view {
    int64_t height, width; /* size of the resized image */
    int64_t top, left;     /* first pixel used */
    int64_t rows, columns; /* number of rows and columns used */
    int64_t out_top;       /* position in the output; padding around it */
    int64_t out_left;      /* before mirroring */
    bool mirrored;         /* flipped left to right, including padding */
    struct sw_philox key;  /* the random numbers of the row: the key, and its sample */
    int64_t sample;
};

/* Makes all choices for one image: a pure function of (t, key, sample, size). Errors: SW_ERR_FORMAT
 * for a size that the section does not accept. */
int sw_transform_view(const struct sw_transform *t, struct sw_philox key, int64_t sample,
                      int64_t height, int64_t width, struct sw_view *v,
                      struct sw_err *err) SW_MUST_CHECK;

/* Sets *part to the window that the view reads of an image decoded at height x width (its own size,
 * or a smaller one that is not below that of the view). Errors: SW_ERR_NOMEM. */
int sw_transform_need(const struct sw_view *v, struct sw_transform_work *w, int64_t height,
                      int64_t width, struct sw_picture_part *part,
                      struct sw_err *err) SW_MUST_CHECK;

/* Computes the row. pixels is the window returned by the last sw_transform_need; out is [C,
 * out_height, out_width]. Errors: SW_ERR_NOMEM. */
int sw_transform_run(const struct sw_transform *t, struct sw_transform_work *w,
                     const struct sw_view *v, const struct sw_pixels *pixels, float *out,
                     struct sw_err *err) SW_MUST_CHECK;

/* Whether a row of floats has the values of the record. */
bool sw_transform_keeps_values(const struct sw_transform *t);

/* Whether rows of bytes are a function of crop, mirror, padding, mean and gain alone, so that a
 * device can finish them (kernels/ops/pixels.h). */
bool sw_transform_keeps_pixels(const struct sw_transform *t);
/* Copies the cropped bytes to a row of sw_pixels_row_bytes bytes, in place of sw_transform_run. */
void sw_transform_pack(const struct sw_transform *t, const struct sw_view *v,
                       const struct sw_pixels *pixels, unsigned char *row);
