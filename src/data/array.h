/* Arrays of numpy as fields of records: dimension 0 counts the records. An array comes from a .npy
 * file, plain or .gz, or from a member of an archive; several with rows alike, one after the other,
 * make a column, which answers fetch. What needs no change of type stays where it is; the rest is
 * converted once, at opening, with a check of every value.
 *
 * The field's name decides its type: `image` is u8 for bytes and truth values, else f32, and
 * [C, H, W]; `label` is one i32 class, or f32 numbers where a row has several (label sets, soft
 * labels); of any other field integers are i32, all else is f32.
 *
 * Thread rule: frozen after opening; fetch from any thread. */
#pragma once

#include "data/format.h"
#include "data/zip.h"
#include "tensor/npy.h"

struct sw_array {
    char *what; /* owned; the file, or archive and member, for messages */
    struct sw_npy_header header;
    int64_t rows;
    struct sw_blob blob;         /* open while rows are read from it */
    unsigned char *memory;       /* owned; what rows lie in, else NULL */
    const unsigned char *values; /* of row 0 in memory, or NULL: in blob */
};

struct sw_column {
    struct sw_field field;
    int64_t records;
    int64_t classes;        /* of a label that is one class, else 0 */
    struct sw_array *array; /* owned, each too */
    int count;
};

/* Opens the files as one field. shape is for an image whose rows have one dimension, as
 * sw_shape_read takes it; may be NULL. On failure the column is closed. Errors: SW_ERR_NOTFOUND,
 * SW_ERR_IO, SW_ERR_NOMEM, SW_ERR_FORMAT, SW_ERR_UNSUPPORTED, SW_ERR_INVALID (shape). */
struct sw_files;
int sw_column_open(struct sw_column *c, const char *name, const struct sw_files *files,
                   const char *shape, uint64_t max_bytes, struct sw_err *err) SW_MUST_CHECK;
/* The same for a member of each archive. */
int sw_column_open_members(struct sw_column *c, const char *name, const struct sw_zip *zip,
                           int zip_count, const char *member, const char *shape,
                           struct sw_err *err) SW_MUST_CHECK;
void sw_column_close(struct sw_column *c); /* a zeroed one is accepted */

/* Sets *out to the values of a record: memory of the column, or scratch (sw_field_bytes, aligned to
 * 64). Errors: SW_ERR_IO, SW_ERR_FORMAT (not finite, or the file has shrunk). */
int sw_column_fetch(const struct sw_column *c, int64_t record, void *scratch, const void **out,
                    struct sw_err *err) SW_MUST_CHECK;

/* What formats made of columns share: takes over fields and classes of the columns, and demands
 * that all have as many records as the first. Errors: SW_ERR_FORMAT. */
int sw_columns_join(struct sw_records *r, const struct sw_column *columns, int count,
                    struct sw_err *err) SW_MUST_CHECK;
