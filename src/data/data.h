/* The keys that every [data NAME] section takes, whatever its format, and the line that `check`
 * prints about a section. The recipe binds sw_data_opts into a struct sw_data_conf, and the option
 * rows of the format of the section (sw_format_find(format)->base.opts) into the struct of that
 * format; sw_source_open takes both. Const tables and pure functions: any thread. */
#pragma once

#include "base/str.h"
#include "data/format.h"
#include "recipe/option.h"

enum sw_crop_method { SW_CROP_AUTO, SW_CROP_RANDOM, SW_CROP_CENTRE };

/* The keys that transform an image; data/transform.h lists the order of the steps. Input = (x -
 * mean) / std * scale, mean in raw units; only whitening follows. */
struct sw_data_conf {
    const char *fallback; /* name of a format; the recipe has already applied it */
    double scale;
    struct sw_reals mean;   /* empty (0), one value, or one per channel */
    struct sw_reals std;    /* empty (1), one value, or one per channel */
    const char *mean_image; /* a file, or NULL */
    const char *whiten;     /* a file, or NULL */
    int64_t channels;       /* images are converted to this number; 0: as stored */
    struct sw_reals resize; /* empty, the shorter side, or height and width */
    int64_t pad;            /* pixels on every side */
    int64_t crop;           /* side of the square crop; 0: the whole image */
    int crop_method;        /* enum sw_crop_method; auto: random in training, else center */
    bool mirror;            /* in training: flip half of the images at random */
    double brightness, contrast, saturation; /* in training: factors are 1 - v to 1 + v */
    double elastic_alpha, elastic_sigma;     /* in training: pixels */
    bool log1p;                              /* log(x + 1) */
    bool shuffle;                            /* in training */
    struct sw_reals part;                    /* for this and the next two see data/subset.h */
    int64_t part_seed;
    int64_t streams;
    int64_t max_bytes;       /* of the content of a file in memory */
    int64_t max_pixels;      /* of an image */
    const char *class_names; /* a file, or NULL */
    int64_t workers;         /* decoding threads */
    int64_t prefetch;        /* batches in flight */
};

/* Rows for struct sw_data_conf, without the key `format`, which selects the table of the format. */
extern const struct sw_opt sw_data_opts[];

struct sw_source;

/* Appends one line without newline: "idx, 60000 records of 1x28x28, 10 classes, /data/... (1
 * file)", "text, 900 of 1000 records, 65 classes, tokens of 50, target of 50, ...". */
void sw_data_describe(const struct sw_source *s, struct sw_bytes *out);
