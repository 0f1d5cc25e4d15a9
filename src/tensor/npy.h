/* Arrays in .npy files (numpy's documentation, "numpy.lib.format", versions 1.0, 2.0 and 3.0): six
 * magic bytes, a version, the length of a header, the header (a Python dictionary of descr,
 * fortran_order and shape, padded with blanks), then the values. This header declares the parser of
 * array headers, the conversion of values, and the reader and writer of uncompressed files;
 * archives (.npz) and compressed files are data formats, which use the parser and the conversion.
 * Supported are unsigned bytes, booleans, signed integers of 1 to 8 bytes and floats of 4 and 8
 * bytes, little-endian, in C order; other arrays are rejected with advice. The size of the values
 * is compared with the file before memory is allocated.
 * One owner per object, any thread. */
#pragma once

#include "base/err.h"
#include "base/os.h"
#include "kernels/desc.h"
#include <stddef.h>
#include <stdint.h>

/* MIN_BYTES are enough for sw_npy_header_bytes; no header is longer than MAX_HEADER. */
enum { SW_NPY_MAX_DIMS = 8, SW_NPY_MIN_BYTES = 12, SW_NPY_MAX_HEADER = 1 << 16 };

enum sw_npy_dtype {
    SW_NPY_B1, /* numpy.bool_, bytes 0 and 1 */
    SW_NPY_U1,
    SW_NPY_I1,
    SW_NPY_I2,
    SW_NPY_I4,
    SW_NPY_I8,
    SW_NPY_F4,
    SW_NPY_F8,
};

size_t sw_npy_dtype_bytes(enum sw_npy_dtype t);
const char *sw_npy_dtype_name(enum sw_npy_dtype t); /* b1 u1 i1 i2 i4 i8 f4 f8 */

struct sw_npy_header {
    enum sw_npy_dtype dtype;
    int ndim; /* 0 is one number */
    int64_t shape[SW_NPY_MAX_DIMS];
    uint64_t data_offset; /* where the values begin */
    uint64_t count;       /* of values; below 2^62 bytes */
};

/* Finds the number of bytes before the values from the first SW_NPY_MIN_BYTES bytes of an array.
 * `what` names the file in errors, here and below. Errors: SW_ERR_FORMAT, SW_ERR_UNSUPPORTED
 * (version). */
int sw_npy_header_bytes(const void *head, const char *what, size_t *bytes,
                        struct sw_err *err) SW_MUST_CHECK;
/* Parses those bytes. Errors: SW_ERR_FORMAT, SW_ERR_UNSUPPORTED (type, order of bytes or of
 * dimensions). */
int sw_npy_parse(const void *head, size_t bytes, const char *what, struct sw_npy_header *h,
                 struct sw_err *err) SW_MUST_CHECK;

/* Converts `count` values of type `from` (any alignment) to `to`. Floats must be finite and within
 * the range of f32 (they are rounded); i32 takes whole numbers in its range, u8 numbers 0 to 255.
 * On an error *at is the index of the value. Errors: SW_ERR_FORMAT, which names the value only. */
int sw_npy_convert(enum sw_npy_dtype from, const void *values, int64_t count, enum sw_dtype to,
                   void *out, int64_t *at, struct sw_err *err) SW_MUST_CHECK;

/* --- plain files, read --- */

struct sw_npy_file {
    struct sw_npy_header header;
    char *path; /* owned */
    int fd;
    bool is_open;
};

/* Opens a file and checks that it is as long as its header says.
 * Errors: SW_ERR_NOTFOUND, SW_ERR_IO, SW_ERR_FORMAT, SW_ERR_UNSUPPORTED, SW_ERR_NOMEM. */
int sw_npy_open(struct sw_npy_file *f, const char *path, struct sw_err *err) SW_MUST_CHECK;
void sw_npy_close(struct sw_npy_file *f); /* a zeroed struct is accepted */

/* The length of dimension 0; a scalar has one row. */
int64_t sw_npy_rows(const struct sw_npy_header *h);
int64_t sw_npy_row_elements(const struct sw_npy_header *h); /* elements of a row */

/* Reads rows [first, first + rows) as type `to`, converted as by sw_npy_convert.
 * Errors: SW_ERR_INVALID (range), SW_ERR_FORMAT naming file, row and value, SW_ERR_IO,
 * SW_ERR_NOMEM. */
int sw_npy_read_rows(const struct sw_npy_file *f, int64_t first, int64_t rows, enum sw_dtype to,
                     void *out, struct sw_err *err) SW_MUST_CHECK;

/* --- written --- */

/* A file that is written row by row; the number of rows is stored in its header at the end. */
struct sw_npy_writer {
    struct sw_new_file file;
    enum sw_dtype dtype;
    int row_ndim;
    int64_t row_shape[SW_NPY_MAX_DIMS - 1];
    size_t row_bytes;
    int64_t rows; /* appended so far */
};

/* Begins PATH under a temporary name: an array of shape [rows, row_shape...], version 1.0.
 * Errors: SW_ERR_INVALID (shape), SW_ERR_IO, SW_ERR_NOMEM. */
int sw_npy_writer_begin(struct sw_npy_writer *w, const char *path, enum sw_dtype dtype,
                        int row_ndim, const int64_t *row_shape, struct sw_err *err) SW_MUST_CHECK;
/* Appends rows in plain order. */
int sw_npy_append(struct sw_npy_writer *w, int64_t rows, const void *values,
                  struct sw_err *err) SW_MUST_CHECK;
/* Writes the final header and renames the file to its path atomically; w is released. */
int sw_npy_writer_commit(struct sw_npy_writer *w, struct sw_err *err) SW_MUST_CHECK;
/* Deletes the temporary file; a writer from {.file.fd = -1} or a committed one is accepted. */
void sw_npy_writer_abandon(struct sw_npy_writer *w);

/* Writes a whole array at once; dimension 0 counts the rows, ndim is 1 or more. */
int sw_npy_write(const char *path, enum sw_dtype dtype, int ndim, const int64_t *shape,
                 const void *values, struct sw_err *err) SW_MUST_CHECK;
