/* A data source: one [data] section opened for training or for evaluation. It turns a sample number
 * into a finished row: it selects the record (shuffle), and returns the fields of the record after
 * crop, mirror and (x - mean) / std * scale, in plain [C, H, W] order.
 *
 * Samples are numbered globally: batch n of B rows has samples n*B .. n*B+B-1. In training the
 * numbers are unbounded: sample s is position s % records of epoch s / records, so batches are
 * always full and may span two epochs; with shuffle the position goes through a permutation keyed
 * by (seed, epoch). In evaluation sample = record, each exactly once. Order and augmentation are
 * pure functions of (seed, split, sample): no state, any number of workers, any thread.
 *
 * Thread rule: frozen after sw_source_open; sw_source_fetch may be called from any thread with its
 * own reader. */
#pragma once

#include "base/philox.h"
#include "data/data.h"
#include "data/format.h"
#include "data/permute.h"
#include "data/scaling.h"
#include "data/subset.h"
#include "data/transform.h"
#include <string.h>

/* Arguments of sw_source_open; everything is borrowed until sw_source_close. */
struct sw_source_args {
    const char *name;                 /* name of the section: train, test */
    const struct sw_data_conf *conf;  /* common keys */
    const struct sw_format *format;   /* the format to use: that of the fallback, if it applies */
    const void *format_conf;          /* its bound option struct */
    const struct sw_format *replaced; /* the format that a fallback replaces, else NULL */
    const struct sw_data_spec *spec;  /* of the trained net that reads the data, or NULL */
    bool unlabeled;                   /* labels and targets may be missing */
    uint64_t seed;                    /* job.seed: shuffle and augmentation */
    int64_t groups; /* that take batches in turn, each with its own streams; 0: one */
    bool training;  /* true: endless, shuffled, augmented; false: each record once */
    /* job.on_bad_record = skip: an unreadable record is replaced by the next readable one of the
     * section, in file order. Each is reported once, from the thread that found it; text contains
     * its location and the problem. report_bad may be NULL. */
    bool skip_bad;
    void (*report_bad)(void *user, const char *text);
    void *report_user;
};

/* The bad records found so far; shared by all threads that fetch. */
struct sw_bad_records {
    bool skip;
    void (*report)(void *user, const char *text);
    void *user;
    unsigned char
        *bits;     /* owned; atomic; one bit for each position of the section; NULL unless skip */
    int64_t count; /* atomic */
};

/* The labels that a net accepts in an integer field. */
struct sw_label_range {
    int64_t classes; /* labels are 0 .. classes-1; 0: any */
    bool ignores;    /* `ignored` is valid, too */
    int32_t ignored;
    const char *layer; /* that reads them, for messages; borrowed */
};

struct sw_source {
    char name[64];
    bool training;
    int64_t records, classes;               /* records: in the part of this section */
    bool classes_fixed;                     /* as in sw_records */
    uint64_t naming;                        /* as in sw_records; the same in all sources of a job */
    const struct sw_lexicon *class_names;   /* as in sw_records; memory of raw or another source */
    const struct sw_vocabulary *vocabulary; /* as in sw_records */
    int unit;
    int64_t
        streams; /* rows of one batch of every group, each a contiguous run of records; 0: any */
    int64_t workers, prefetch; /* keys of the section */
    int field_count;
    struct sw_field field[SW_MAX_FIELDS]; /* after transforms: `image` f32 [C, H, W], `label` i32 */
    struct sw_label_range labels[SW_MAX_FIELDS]; /* of each field; set before records are fetched */
    struct sw_scaling scaling[SW_MAX_FIELDS];    /* of each field; count 0: values are unchanged */
    /* Bytes of an image that a device finishes (kernels/ops/pixels.h); 0: it must be floats. */
    size_t pixels_bytes;
    /* the rest is private to source.c */
    bool shuffle;
    struct sw_subset subset;
    struct sw_philox shuffle_key, augment_key;
    int64_t raw_height, raw_width; /* of images before transforms; 0: they vary */
    struct sw_bad_records *bad;    /* owned; the only member that changes after open */
    struct sw_transform transform; /* transform of the image field */
    struct sw_records raw;         /* owned */
};

/* Opens the files and checks conf against them (crop and channels). Errors: those of the format,
 * and SW_ERR_INVALID if a key does not fit the images; the message begins with "data NAME: ". */
int sw_source_open(const struct sw_source_args *args, struct sw_source **out,
                   struct sw_err *err) SW_MUST_CHECK;
void sw_source_close(struct sw_source *s); /* NULL is accepted */

/* The number of distinct records skipped so far. Any thread. */
int64_t sw_source_skipped(const struct sw_source *s);

/* Whether the record at a position was found to be bad and is skipped. Any thread. */
bool sw_source_is_bad(const struct sw_source *s, int64_t place);

/* Index of a field by name, or -1. */
static inline int sw_source_find(const struct sw_source *s, const char *field)
{
    for (int f = 0; f < s->field_count; f++)
        if (strcmp(s->field[f].name, field) == 0)
            return f;
    return -1;
}

/* Bytes of a row of field f; pixels: images that a device can finish are not finished. */
size_t sw_source_row_bytes(const struct sw_source *s, int f, bool pixels);
/* Sets *out to the arguments that finish images [C, H, W] on a device, except rows, x and y;
 * mean_image is host memory. Only with pixels_bytes. */
struct sw_pixels_args;
void sw_source_pixels(const struct sw_source *s, struct sw_pixels_args *out);

/* Number of batches of `batch` rows in one evaluation pass; the last may be incomplete. */
int64_t sw_source_batches(const struct sw_source *s, int64_t batch);
/* ceil(epochs * records / batch): the steps of `job.epochs`. */
int64_t sw_source_steps(const struct sw_source *s, double epochs, int64_t batch);

/* Working memory of one thread that fetches. It grows only for images of varying size. */
struct sw_reader {
    const struct sw_source *source; /* borrowed */
    unsigned char *block;           /* owned; scratch with room for alignment */
    unsigned char *scratch; /* in block; `rows` raw records, each field aligned to 64 bytes */
    size_t scratch_bytes, row_bytes, field_offset[SW_MAX_FIELDS];
    int64_t rows;               /* records read before they are transformed */
    int64_t *place;             /* owned; [rows], position in the section */
    const void **raw;           /* owned; [rows, SW_MAX_FIELDS] */
    struct sw_decoder *decoder; /* owned; NULL: nothing to decode */
    struct sw_room room;        /* bytes of an encoded image */
    struct sw_picture image;    /* the current image, if the format has images */
    struct sw_transform_work work;
    struct sw_permutation order; /* of the epoch requested last */
    bool pixels;               /* set after init: rows of images are as sw_source_row_bytes says */
    double read_ms, decode_ms; /* times of the last sw_source_fetch */
};

/* Allocates the memory for reading from an open source, which must outlive it. Errors:
 * SW_ERR_NOMEM; sw_reader_fini is then not needed. */
int sw_reader_init(struct sw_reader *r, const struct sw_source *s,
                   struct sw_err *err) SW_MUST_CHECK;
void sw_reader_fini(struct sw_reader *r); /* a zeroed one is accepted */

/* Height and width of the first undamaged image from this position of the section on. Errors: as
 * sw_source_fetch. */
int sw_reader_peek(struct sw_reader *r, int64_t place, int64_t *height, int64_t *width,
                   struct sw_err *err) SW_MUST_CHECK;

/* Replaces the number of a sample of an evaluation by that of its record; *where gets its location,
 * owned by the caller: the name of a file, or what the format says; "": nothing. Errors:
 * SW_ERR_NOMEM. */
int sw_source_locate(const struct sw_source *s, int64_t *record, char **where,
                     struct sw_err *err) SW_MUST_CHECK;
/* The record of a sample, good or bad. */
int64_t sw_source_record(struct sw_reader *r, int64_t sample);

/* Fills `count` rows of every field with the samples from `first` on: field_out[f] points to the
 * first row, rows are contiguous [count, ...] of s->field[f]. A field with NULL field_out[f] is
 * skipped. In evaluation first + count must not exceed the number of records. Errors: those of the
 * format, and SW_ERR_INVALID for a label outside its range, prefixed with "data NAME: ". */
int sw_source_fetch(struct sw_reader *r, int64_t first, int64_t count,
                    void *const field_out[SW_MAX_FIELDS], struct sw_err *err) SW_MUST_CHECK;
