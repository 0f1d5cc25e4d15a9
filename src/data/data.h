/* The keys that every [data NAME] section takes, whatever its format, and what `check` prints about
 * it. The recipe binds sw_data_opts into a struct sw_data_conf, the rows of the section's format
 * (sw_format_find(format)->base.opts) into that format's own struct, and both go to sw_source_open.
 * Const tables and pure functions: any thread. */
#pragma once

#include "base/str.h"
#include "data/format.h"
#include "recipe/option.h"

enum sw_crop_method { SW_CROP_AUTO, SW_CROP_RANDOM, SW_CROP_CENTRE };

/* What is done to a picture, and in which order, is in data/transform.h. Input = (x - mean) / std *
 * scale, mean in raw units; after that only whitening touches the numbers. */
struct sw_data_conf {
    const char *fallback; /* name of a format; the recipe has acted on it before this is filled */
    double scale;
    struct sw_reals mean;   /* none (0), one, or one per channel */
    struct sw_reals std;    /* none (1), one, or one per channel */
    const char *mean_image; /* a file, or NULL */
    const char *whiten;     /* a file, or NULL */
    int64_t channels;       /* what pictures are converted to; 0: as the format has them */
    struct sw_reals resize; /* none, the shorter side, or height and width */
    int64_t pad;            /* pixels on every side */
    int64_t crop;           /* side of the square cut out; 0: the whole picture */
    int crop_method;        /* enum sw_crop_method; auto: random in training, centre elsewhere */
    bool mirror;            /* in training, every second picture at random */
    double brightness, contrast, saturation; /* in training: factors are 1 - v to 1 + v */
    double elastic_alpha, elastic_sigma;     /* in training: pixels */
    bool log1p;                              /* log(x + 1) */
    bool shuffle;                            /* in training */
    struct sw_reals part;                    /* see data/subset.h, as the next two */
    int64_t part_seed;
    int64_t streams;
    int64_t max_bytes;  /* of the content of a file in memory */
    int64_t max_pixels; /* of a picture */
    int64_t workers;    /* decoding threads */
    int64_t prefetch;   /* batches in flight */
};

/* Rows for struct sw_data_conf. `format` itself is not among them: it selects the table beside
 * this. */
extern const struct sw_opt sw_data_opts[];

struct sw_source;

/* Appends one line without newline: "idx, 60000 records of 1x28x28, 10 classes, /data/... (1
 * file)", "text, 900 of 1000 records, 65 classes, tokens of 50, target of 50, ...". */
void sw_data_describe(const struct sw_source *s, struct sw_buf *out);
