/* Methods that learn binary codes: what they fit to rows of one view of the data, or of two views
 * that belong together by row (images and their texts), is an encoder for each view, so that codes
 * of related rows differ in few bits, within a view and between both. A method is a descriptor;
 * code_model.h keeps what was learned. Main thread; results do not depend on threads. */
#pragma once

#include "search/encoder.h"
#include "search/row_labels.h"

enum { SW_CODE_VIEWS = 2 };
/* A ridge is a factor of the variances; a smaller one is lost in the rounding of doubles. */
#define SW_CODE_LEAST_RIDGE 1e-12
#define SW_CODE_MOST_RIDGE 1e6

struct sw_code_fit {
    struct sw_vectors view[SW_CODE_VIEWS]; /* checked; the second has count 0 for methods of one */
    const struct sw_row_labels *labels;    /* checked, of the rows; NULL: none */
    int bits;                              /* 1 to SW_CODE_MOST_BITS */
    uint64_t seed;
    double ridge; /* 0: the usual one */
    int clusters; /* 0: the usual number */
    int threads;
};

/* What a method takes besides rows, bits and seed. */
enum sw_code_takes {
    SW_CODE_LABELS = 1,
    SW_CODE_RIDGE = 2,
    SW_CODE_CLUSTERS = 4,
    SW_CODE_SEED = 8, /* others ignore it */
};

struct sw_code_method {
    const char *name;
    const char *help; /* one line, with its paper */
    int views;        /* 1: one encoder serves all rows; 2 */
    unsigned takes;   /* enum sw_code_takes */
    double usual_ridge;
    int usual_clusters;
    bool any_scale; /* it learns nothing from how large numbers are */
    /* Fits zeroed encoders, with their own memory (sw_encoder_room), also after an error. */
    int (*fit)(const struct sw_code_fit *f, struct sw_encoder view[SW_CODE_VIEWS],
               struct sw_err *err);
};

/* hyperplanes, spectral, cvh, lcmh, cmssh; NULL at the end. */
extern const struct sw_code_method *const sw_code_methods[];
const struct sw_code_method *sw_code_method_find(const char *name); /* NULL: unknown */

/* Fits a method: checks what it was given, and fills in what is usual. The encoders are zeroed
 * after an error; free them with sw_encoder_fini. Errors: SW_ERR_INVALID, SW_ERR_NOMEM,
 * SW_ERR_CANCELLED, SW_ERR_LIBRARY. */
int sw_code_method_fit(const struct sw_code_method *m, const struct sw_code_fit *f,
                       struct sw_encoder view[SW_CODE_VIEWS], struct sw_err *err) SW_MUST_CHECK;

/* One file each, method_NAME.c. */
extern const struct sw_code_method sw_code_hyperplanes, sw_code_spectral, sw_code_cvh, sw_code_lcmh,
    sw_code_cmssh;
