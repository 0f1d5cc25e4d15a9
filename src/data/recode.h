/* Re-encodes images before they are stored: resizes them with the code used in training
 * (data/transform.h), and writes pixels, JPEG or PNG. One thread. */
#pragma once

#include "data/picture.h"
#include "recipe/option.h"

enum sw_recode_form {
    SW_RECODE_SAME, /* unchanged: a JPEG file stays a JPEG file */
    SW_RECODE_PIXELS,
    SW_RECODE_JPEG,
    SW_RECODE_PNG,
};

struct sw_recode_args {
    int64_t shorter;       /* target length of the shorter side; 0: not requested */
    int64_t height, width; /* or target height and width; 0: not requested */
    int64_t channels;      /* 1 or 3; 0: as stored */
    enum sw_recode_form form;
    int quality;        /* of JPEG, 1 to 100 */
    int64_t max_pixels; /* limit for the input image; 0: SW_PICTURE_MAX_PIXELS */
};

/* Whether any change is requested. */
bool sw_recode_is_needed(const struct sw_recode_args *a);

struct sw_recoder;

/* Makes a recoder with these settings. Errors: SW_ERR_NOMEM. */
int sw_recoder_new(const struct sw_recode_args *a, struct sw_recoder **out,
                   struct sw_err *err) SW_MUST_CHECK;
void sw_recoder_free(struct sw_recoder *r); /* NULL is accepted */

/* Re-encodes one image. *out is memory of the recoder until the next call, or that of *in if
 * nothing changes. Errors: SW_ERR_FORMAT, SW_ERR_UNSUPPORTED (problems of the image), SW_ERR_NOMEM.
 */
int sw_recode(struct sw_recoder *r, const struct sw_picture *in, struct sw_picture *out,
              struct sw_err *err) SW_MUST_CHECK;
