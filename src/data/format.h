/* A data format: how records are found in files (or generated). One format is one file in
 * data/formats/; the file cifar10.c must export `const struct sw_format sw_format_cifar10`, and the
 * build writes the registry sw_formats[] from the file names. A format does not deal with batches,
 * epochs, transforms or threads: it opens files, describes a record, and fetches record i. No input
 * is trusted: sizes are checked before memory is allocated, and every error names the file, the
 * record and what was expected. In a fetch, SW_ERR_FORMAT, SW_ERR_UNSUPPORTED and SW_ERR_NOTFOUND
 * concern that record, which `on_bad_record = skip` skips; other errors concern the machine.
 *
 * Thread rule: open and close by one thread; in between a struct sw_records is frozen, and fetch
 * may be called from any number of threads at once. */
#pragma once

#include "base/err.h"
#include "base/str.h"
#include "data/lexicon.h"
#include "data/picture.h"
#include "kernels/desc.h"
#include "recipe/option.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SW_MAX_FIELDS = 8, SW_MAX_FIELD_DIMS = 4 };

/* One field of a record. `image` is u8 or f32 [C, H, W] in raw units; only this field is
 * transformed, all others are passed on as the format returns them. `label` is one i32 class, or a
 * row of f32 values (label sets, soft labels). Lists of tokens are i32, padded with -1. Only fields
 * that an input layer names are fetched. */
struct sw_field {
    const char *name; /* static, or memory of the records */
    enum sw_dtype dtype;
    int ndim; /* without the batch; 0 is one number */
    int64_t dim[SW_MAX_FIELD_DIMS];
};

int64_t sw_field_count(const struct sw_field *f); /* elements of one record, 1 for ndim 0 */
size_t sw_field_bytes(const struct sw_field *f);
bool sw_field_same(const struct sw_field *a, const struct sw_field *b); /* in type and shape */

/* The sizes of a data set of images, texts, pairs of both, or series; 0: unknown. */
struct sw_geometry {
    int64_t records, classes, channels, height, width;
    int64_t length; /* texts only: tokens of a record */
    int64_t frames; /* series only: frames of a sequence; width: values of a frame */
    int64_t words;  /* pairs only: features of the text */
};

struct sw_data_spec;
struct sw_format;
struct sw_vocabulary;

/* One file of a data set whose format opens its files one by one; its own struct begins with this.
 * Records are numbered in the order of the files. */
struct sw_part {
    int64_t first, count; /* its records: the number of the first, and how many */
};

/* An open data set. */
struct sw_records {
    const struct sw_format *format;
    void *part; /* owned; parts of format->part_bytes bytes each; NULL without open_part */
    int parts;
    int64_t count;
    int64_t classes;    /* labels are 0 .. classes-1 */
    bool classes_fixed; /* classes is their number by definition or by a key, not merely the largest
                           label + 1; always so if they have names */
    /* Hash of the names of the classes or tokens, in order; 0: they have no names. It must be the
     * same in all sections of a job. Names are numbered by data/classes.h (sorted) or
     * data/vocabulary.h (by frequency), never in the order of arrival. */
    uint64_t naming;
    struct sw_lexicon class_names; /* in the order of their numbers; empty: only numbers */
    struct sw_lexicon columns;     /* tables only: names of the columns of `image`; empty: none */
    int field_count;
    struct sw_field field[SW_MAX_FIELDS];
    int64_t files;      /* number of open files, 0 for generated data */
    uint64_t max_bytes; /* limit for a file in memory, as given to open or the default */
    int64_t max_pixels; /* limit for an image, for decoders */
    /* If has_pictures is set, field picture_field is fetched with fetch_picture instead of fetch:
     * u8 [C, H, W] as pixels, or an encoded JPEG or PNG file, which the reader decodes. Its dim[0]
     * is the requested number of channels, or the usual number of its images; an image may have
     * another number, which the reader converts. dim[1] and dim[2] are 0 if height and width differ
     * between records, else those of every record. */
    bool has_pictures;
    int picture_field;
    size_t picture_bytes; /* size of the largest sw_picture if known in advance: the buffer is then
                             allocated at setup; 0: it grows as needed */
    const struct sw_vocabulary
        *vocabulary;                  /* texts only: their tokens, memory of state; else NULL */
    int unit;                         /* with vocabulary: enum sw_text_unit */
    const struct sw_vocabulary *tags; /* of a field `tags` that was read from words, memory of
                                         state; else NULL */
    char *origin;                     /* owned; the origin stored in the files, or NULL */
    char *where; /* owned; for messages: the first file, or a description of generated data */
    void *state; /* owned; format->state_bytes bytes, zeroed before open */
};

/* Arguments of open, borrowed for the call. */
struct sw_files;
struct sw_format_args {
    const void *conf; /* the bound option struct of the format */
    const struct sw_files
        *files;        /* set by sw_records_open from the key paths; NULL: generated data */
    const char *split; /* name of the section: train, test; synthetic data depend on it */
    int64_t channels;  /* the key of the section: images are converted to it; 0: not set */
    int64_t max_bytes, max_pixels; /* the keys of the section: limits for decoding; 0: defaults */
    struct sw_geometry implied;    /* sizes of the format that `fallback` replaces, else all 0 */
    /* Of the trained net that will read the data, whose class names and vocabulary replace those of
     * the files (data/spec.h); NULL: the data is its own. */
    const struct sw_data_spec *spec;
    bool unlabeled;          /* labels and targets may be missing */
    const char *class_names; /* the key of the section, or NULL */
    /* Set by sw_records_open: the names of the classes in the order of their numbers, of the
     * trained net, the key `classes` of formats without names, or class_names; empty: none. */
    const struct sw_lexicon *names;
};

/* The option struct begins with `struct sw_strings paths`, unless the records are generated. */
struct sw_format {
    struct sw_type base;
    bool generated;
    struct sw_geometry implied; /* usual sizes of such files, for a fallback */
    size_t state_bytes, part_bytes;
    /* The name of a file that lists the names of the classes, if it exists beside the data, one per
     * line; conf is the option struct. NULL: none. */
    const char *(*names_file)(const void *conf);

    /* Fills *r except format and state. open runs first, then open_part for each file, then finish;
     * each may be NULL. open_part adds the records of its file to r->count. If they leave `where`
     * NULL, `files` and `where` are set from the list of files afterwards. Errors: SW_ERR_NOTFOUND,
     * SW_ERR_IO, SW_ERR_FORMAT, SW_ERR_UNSUPPORTED, SW_ERR_NOMEM. */
    int (*open)(struct sw_records *r, const struct sw_format_args *args, struct sw_err *err);
    int (*open_part)(struct sw_records *r, void *part, const char *path,
                     const struct sw_format_args *args, struct sw_err *err);
    int (*finish)(struct sw_records *r, const struct sw_format_args *args, struct sw_err *err);
    /* Both are also called after a failed open; NULL: nothing is owned. */
    void (*close)(struct sw_records *r);
    void (*close_part)(void *part);
    /* Sets *out to field f of a record: memory of r, or scratch (sw_field_bytes bytes, aligned to
     * 64), valid until scratch is used again or r is closed. Errors: SW_ERR_IO, SW_ERR_FORMAT. */
    int (*fetch)(const struct sw_records *r, int64_t record, int f, void *scratch, const void **out,
                 struct sw_err *err);
    /* Fetches r->picture_field; NULL if the format has no such field. out->data is memory of r, or
     * of room, which grows as needed, and is valid until room is used again or r is closed. An
     * encoded image is returned as stored; the decoder reports what is wrong inside it. Errors:
     * those of fetch, SW_ERR_NOTFOUND, SW_ERR_NOMEM. */
    int (*fetch_picture)(const struct sw_records *r, int64_t record, struct sw_room *room,
                         struct sw_picture *out, struct sw_err *err);
    /* Checks that the data fetched since open from this file were valid: memory of a mapped file
     * turns into zeros when another program truncates the file. NULL: nothing is mapped. Errors:
     * SW_ERR_FORMAT, SW_ERR_IO. */
    int (*check_part)(const void *part, struct sw_err *err);
    /* Appends the location of a record: the name of its file, or the file and the number in it. The
     * reader puts it in front of errors of fetch and of decoding. NULL: the messages of the format
     * contain it. */
    void (*locate)(const struct sw_records *r, int64_t record, struct sw_bytes *out);
};

/* Members of a descriptor: the callbacks of every format. */
#define SW_FORMAT_CALLS(open_, close_, fetch_) .open = open_, .close = close_, .fetch = fetch_
/* The callbacks of a format that opens its files one by one into structs `part`. */
#define SW_FORMAT_PARTS(part, open_, close_)                                                       \
    .part_bytes = sizeof(part), .open_part = open_, .close_part = close_

/* All formats, NULL-terminated, in the order of their file names; written by the build. */
extern const struct sw_format *const sw_formats[];

const struct sw_format *sw_format_find(const char *name); /* NULL when unknown */

/* Opens the files with `format`; close with sw_records_close. Errors: as sw_format.open. */
int sw_records_open(struct sw_records *r, const struct sw_format *format,
                    const struct sw_format_args *args, struct sw_err *err) SW_MUST_CHECK;
void sw_records_close(struct sw_records *r); /* a zeroed one is accepted */

/* The part that contains a record. */
const void *sw_records_part(const struct sw_records *r, int64_t record);

/* Call after using fetched data: checks that they were valid (sw_format.check_part). Errors:
 * SW_ERR_FORMAT naming the file, SW_ERR_IO. */
int sw_records_check(const struct sw_records *r, struct sw_err *err) SW_MUST_CHECK;

/* Appends "record 17 (LOCATION)", with which messages about a record begin. */
void sw_records_locate(const struct sw_records *r, int64_t record, struct sw_bytes *out);
