/* A data format: how records are found in files (or made by code). One format is one file in
 * data/formats/; the stem cifar10.c must export `const struct sw_format sw_format_cifar10`, and the
 * build writes the registry sw_formats[] from the stems. A format knows nothing of batches, epochs,
 * transforms or threads: it opens, says what a record looks like, and fetches record i. Everything
 * outside is not trusted: sizes are checked before memory is taken, and every error names file,
 * record and what was expected. Of a fetch, SW_ERR_FORMAT, SW_ERR_UNSUPPORTED and SW_ERR_NOTFOUND
 * are about that record, which `on_bad_record = skip` may pass over; others are about the machine.
 *
 * Thread rule: open and close by one thread; in between a struct sw_records is frozen, and fetch
 * may be called from any number of threads at once. */
#pragma once

#include "base/err.h"
#include "base/str.h"
#include "data/picture.h"
#include "kernels/desc.h"
#include "recipe/option.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SW_MAX_FIELDS = 8, SW_MAX_FIELD_DIMS = 4 };

/* One field of a record. `image` is u8 or f32 [C, H, W] in raw units and alone goes through
 * transforms; all others come out as the format gave them. `label` is i32 and one class, or f32
 * and a row of numbers (label sets, soft labels). Lists of tokens are i32, filled up with -1. Only
 * fields that an input layer names are fetched. */
struct sw_field {
    const char *name; /* static, or memory of the records */
    enum sw_dtype dtype;
    int ndim; /* without the batch; 0 is one number */
    int64_t dim[SW_MAX_FIELD_DIMS];
};

int64_t sw_field_count(const struct sw_field *f); /* elements of one record, 1 for ndim 0 */
size_t sw_field_bytes(const struct sw_field *f);

/* What a set of pictures looks like, or of texts or pairs of both; 0 is unknown. */
struct sw_geometry {
    int64_t records, classes, channels, height, width;
    int64_t length; /* tokens of a record, of texts only */
    int64_t words;  /* features of the text of a pair, of pairs only */
};

struct sw_format;
struct sw_vocabulary;

/* An opened set of records. */
struct sw_records {
    const struct sw_format *format;
    int64_t count;
    int64_t classes; /* labels are 0 .. classes-1 */
    /* Identity of what classes or tokens are called, in their order; 0: they are numbers. The
     * sections of a job must agree. Names are numbered by data/classes.h (sorted) or
     * data/vocabulary.h (by frequency), never by order of arrival. */
    uint64_t naming;
    int field_count;
    struct sw_field field[SW_MAX_FIELDS];
    int64_t files;      /* how many are open, 0 when made by code */
    uint64_t max_bytes; /* what open was told, or the default: of a file in memory */
    int64_t max_pixels; /* of a picture; for those who decode it */
    /* Index of the field that fetch_picture answers instead of fetch, or none (false): u8
     * [C, H, W], as pixels or as the bytes of a JPEG or PNG file, which the reader decodes. Its
     * dim[0] is the number of channels that the format was asked for, or that its pictures usually
     * have; a picture may have another, and the reader converts. dim[1] and dim[2] are 0 where
     * height and width differ from record to record, else those of every record. */
    bool has_pictures;
    int picture_field;
    size_t picture_bytes; /* of the largest sw_picture, where it is known without looking: memory is
                             then taken at set-up; 0: it grows with what is met */
    const struct sw_vocabulary *vocabulary; /* of texts, in state: their tokens; else NULL */
    int unit;                               /* with it: enum sw_text_unit */
    char *origin; /* owned; what the files themselves say of where they came from, or NULL */
    char *where;  /* owned; one line for people: the first file, or what was made */
    void *state;  /* owned; state_bytes of the format, zeroed before open */
};

/* What open is told. Everything is borrowed for the call only. */
struct sw_files;
struct sw_format_args {
    const void *conf;             /* conf_bytes of the format's base, filled by the recipe */
    const struct sw_files *files; /* set by sw_records_open: the conf's paths; NULL: made by code */
    const char *split; /* the section's name: train, test; synthetic splits differ by it */
    int64_t channels;  /* the section's key: what pictures are converted to; 0: not said */
    int64_t max_bytes, max_pixels; /* the section's keys: what decoding may cost; 0: defaults */
    struct sw_geometry implied;    /* of the format it stands in for under `fallback`, else all 0 */
};

/* The conf begins with `struct sw_strings paths`, unless records are made by code. */
struct sw_format {
    struct sw_type base;
    bool made_by_code;
    struct sw_geometry implied; /* what the files look like by convention, for a stand-in */
    size_t state_bytes;

    /* Fills *r except format and state; files and where too are set afterwards, to the files that
     * it was told, where where is NULL. On failure close is called all the same.
     * Errors: SW_ERR_NOTFOUND, SW_ERR_IO, SW_ERR_FORMAT, SW_ERR_UNSUPPORTED, SW_ERR_NOMEM. */
    int (*open)(struct sw_records *r, const struct sw_format_args *args, struct sw_err *err);
    void (*close)(struct sw_records *r); /* of a partly opened one too */
    /* Sets *out to field f of a record: memory of r, or scratch (sw_field_bytes, aligned to 64),
     * valid until scratch is used again or r is closed. Errors: SW_ERR_IO, SW_ERR_FORMAT. */
    int (*fetch)(const struct sw_records *r, int64_t record, int f, void *scratch, const void **out,
                 struct sw_err *err);
    /* The same for r->picture_field; NULL where a format never has one. out->data is memory of r,
     * or of room, which the format makes as large as it needs; it is valid until room is used again
     * or r is closed. The bytes of an encoded picture are handed out as they are: what is wrong
     * inside them is found by whoever decodes. Errors: those of fetch, SW_ERR_NOTFOUND,
     * SW_ERR_NOMEM. */
    int (*fetch_picture)(const struct sw_records *r, int64_t record, struct sw_room *room,
                         struct sw_picture *out, struct sw_err *err);
    /* Whether what fetch handed out since open was true: memory of a mapped file turns into zeros
     * when another program truncates the file. NULL: nothing is mapped. Errors: SW_ERR_FORMAT,
     * SW_ERR_IO. */
    int (*check)(const struct sw_records *r, struct sw_err *err);
    /* Appends where a record lies: the name of its file, or the file and its number there. The
     * reader puts it in front of errors of fetch and of decoding. NULL: the format's own messages
     * say it. */
    void (*locate)(const struct sw_records *r, int64_t record, struct sw_buf *out);
};

/* NULL-terminated, in the order of their file names; written by the build. */
extern const struct sw_format *const sw_formats[];

const struct sw_format *sw_format_find(const char *name); /* NULL when unknown */

/* Opens with `format`; close with sw_records_close. Errors as sw_format.open. */
int sw_records_open(struct sw_records *r, const struct sw_format *format,
                    const struct sw_format_args *args, struct sw_err *err) SW_MUST_CHECK;
void sw_records_close(struct sw_records *r); /* a zeroed one is accepted */

/* After the use of what was fetched: whether it was true (see sw_format.check). Errors:
 * SW_ERR_FORMAT naming the file, SW_ERR_IO. */
int sw_records_check(const struct sw_records *r, struct sw_err *err) SW_MUST_CHECK;

/* Appends "record 17" and where that is; what messages about a record begin with. */
void sw_records_locate(const struct sw_records *r, int64_t record, struct sw_buf *out);
