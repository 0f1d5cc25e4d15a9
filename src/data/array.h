/* NumPy arrays as fields of records: dimension 0 counts the records. An array comes from a .npy
 * file, plain or .gz, or from a member of an archive. Several arrays whose rows have the same shape
 * and type form a column, one after the other, from which rows are fetched. An array whose type
 * needs no conversion is read in place; any other is converted once, at opening, with a check of
 * every value.
 *
 * The name of the field decides its type. `image` is u8 for bytes and booleans, else f32, and has
 * shape [C, H, W]. `label` is one i32 class, or a row of f32 values (label sets, soft labels). In
 * any other field integers become i32 and all other types f32.
 *
 * Thread rule: frozen after opening; fetch from any thread. */
#pragma once

#include "data/format.h"
#include "data/zip.h"
#include "tensor/npy.h"

struct sw_array {
    char *what; /* owned; for messages: the file, or the archive and its member */
    struct sw_npy_header header;
    int64_t rows;
    struct sw_blob blob;         /* open while rows are read from the file */
    unsigned char *memory;       /* owned; holds the rows, or NULL */
    const unsigned char *values; /* row 0 in memory; NULL: rows are read from blob */
};

struct sw_column {
    struct sw_field field;
    int64_t records;
    int64_t classes;        /* of a label that is a single class, else 0 */
    struct sw_array *array; /* owned, elements too */
    int count;
};

/* Opens the files as one field. shape (may be NULL) is passed to sw_shape_read for an image whose
 * rows have one dimension. On failure the column is closed. Errors: SW_ERR_NOTFOUND, SW_ERR_IO,
 * SW_ERR_NOMEM, SW_ERR_FORMAT, SW_ERR_UNSUPPORTED, SW_ERR_INVALID (shape). */
struct sw_files;
int sw_column_open(struct sw_column *c, const char *name, const struct sw_files *files,
                   const char *shape, uint64_t max_bytes, struct sw_err *err) SW_MUST_CHECK;
/* Like sw_column_open, for one member of each archive. */
int sw_column_open_members(struct sw_column *c, const char *name, const struct sw_zip *zip,
                           int zip_count, const char *member, const char *shape,
                           struct sw_err *err) SW_MUST_CHECK;
void sw_column_close(struct sw_column *c); /* a zeroed one is accepted */

/* Sets *out to the values of a record. They are in memory of the column, or in scratch, which has
 * sw_field_bytes bytes and is aligned to 64. Errors: SW_ERR_IO, SW_ERR_FORMAT (a value is not
 * finite, or the file has shrunk). */
int sw_column_fetch(const struct sw_column *c, int64_t record, void *scratch, const void **out,
                    struct sw_err *err) SW_MUST_CHECK;

/* Sets the fields, the record count and the classes of r from its columns. All columns must have as
 * many records as the first. Errors: SW_ERR_FORMAT. */
int sw_columns_join(struct sw_records *r, const struct sw_column *columns, int count,
                    struct sw_err *err) SW_MUST_CHECK;
