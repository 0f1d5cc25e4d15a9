/* Pictures made into others before they are stored: resized by the very code that resizes in
 * training (data/transform.h), and written as pixels, JPEG or PNG. One thread. */
#pragma once

#include "data/picture.h"
#include "recipe/option.h"

enum sw_recode_form {
    SW_RECODE_SAME, /* as it came: a JPEG file stays one */
    SW_RECODE_PIXELS,
    SW_RECODE_JPEG,
    SW_RECODE_PNG,
};

struct sw_recode_args {
    int64_t shorter;       /* the shorter side becomes so long; 0: not asked for */
    int64_t height, width; /* or the sides become these; 0: not asked for */
    int64_t channels;      /* 1 or 3; 0: as the picture has them */
    enum sw_recode_form form;
    int quality;        /* of JPEG, 1 to 100 */
    int64_t max_pixels; /* of the picture that comes; 0: SW_PICTURE_MAX_PIXELS */
};

/* Whether anything is asked for at all. */
bool sw_recode_wanted(const struct sw_recode_args *a);

struct sw_recoder;

/* Errors: SW_ERR_NOMEM. */
int sw_recoder_new(const struct sw_recode_args *a, struct sw_recoder **out,
                   struct sw_err *err) SW_MUST_CHECK;
void sw_recoder_free(struct sw_recoder *r); /* NULL is accepted */

/* *out is memory of the recoder until the next call, or that of *in where it is taken as it is.
 * Errors: SW_ERR_FORMAT, SW_ERR_UNSUPPORTED (what is wrong with the picture), SW_ERR_NOMEM. */
int sw_recode(struct sw_recoder *r, const struct sw_picture *in, struct sw_picture *out,
              struct sw_err *err) SW_MUST_CHECK;
