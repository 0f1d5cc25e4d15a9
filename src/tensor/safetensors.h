/* Safetensors files (github.com/huggingface/safetensors, "Format"): eight bytes with the header's
 * length, a JSON header {name: {dtype, shape, data_offsets}, "__metadata__": {string: string}},
 * then the values, little-endian, row-major, without holes. Any reader of the format opens our
 * files. Our files end with one more tensor, `sw.checksum` (U8, 16 bytes): the 128-bit XXH3 hash,
 * most significant byte first, of every byte of the file before its data. The reader checks sizes,
 * offsets, names and, if the file has one, the checksum before it returns anything. One owner per
 * object, any thread. */
#pragma once

#include "base/err.h"
#include "tensor/tensor.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { SW_ST_MAX_DIMS = 8, SW_ST_MAX_HEADER = 100000000 };

/* In the order of the file: larger elements first, so that all are aligned. */
enum sw_st_dtype { SW_ST_F64, SW_ST_I64, SW_ST_U64, SW_ST_F32, SW_ST_I32, SW_ST_U8, SW_ST_DTYPES };

size_t sw_st_dtype_bytes(enum sw_st_dtype t);
const char *sw_st_dtype_name(enum sw_st_dtype t); /* F64 I64 U64 F32 I32 U8 */

/* --- writing --- */

struct sw_st_writer;
struct sw_st_sink;

/* Writes all values of one tensor with calls of sw_st_emit, in pieces of any size. */
typedef int sw_st_source(void *user, struct sw_st_sink *sink, struct sw_err *err);
int sw_st_emit(struct sw_st_sink *sink, const void *bytes, size_t n,
               struct sw_err *err) SW_MUST_CHECK;
/* Emits all values of a device tensor in row-major order. */
int sw_st_emit_tensor(const struct sw_tensor *t, struct sw_stream *stream, struct sw_st_sink *sink,
                      struct sw_err *err) SW_MUST_CHECK;

struct sw_st_writer *sw_st_writer_new(void); /* NULL when memory is exhausted */
void sw_st_writer_free(struct sw_st_writer *w);

/* Adds a string to __metadata__; key and value are copied. Errors: SW_ERR_INVALID for a duplicate
 * key or text that is not UTF-8, SW_ERR_NOMEM. */
int sw_st_writer_metadata(struct sw_st_writer *w, const char *key, const char *value,
                          struct sw_err *err) SW_MUST_CHECK;

struct sw_st_shape {
    enum sw_st_dtype dtype;
    int ndim;
    const int64_t *dim; /* borrowed during the call */
};
/* Adds a tensor; name and shape are copied, source is called once by write (user is borrowed until
 * then). Errors: SW_ERR_INVALID for a bad or reserved name, a duplicate or an overflow;
 * SW_ERR_NOMEM. */
int sw_st_writer_add(struct sw_st_writer *w, const char *name, struct sw_st_shape shape,
                     sw_st_source *source, void *user, struct sw_err *err) SW_MUST_CHECK;

enum { SW_ST_CHUNK_BYTES = 1 << 20 }; /* buffer of a writer */
/* Bytes of the buffers that writing a tensor of this layout takes. */
size_t sw_st_write_bytes(const struct sw_desc *layout);
/* Adds a device tensor, which is stored in row-major order (t and stream are borrowed until write)
 * and converted a few megabytes at a time. */
int sw_st_writer_add_tensor(struct sw_st_writer *w, const char *name, const struct sw_tensor *t,
                            struct sw_stream *stream, struct sw_err *err) SW_MUST_CHECK;

/* Writes the file so that a crash at any instant leaves the old file or the new one (base/os.h,
 * sw_os_new_file). bytes and checksum_hex (33 bytes) may be NULL.
 * Errors: SW_ERR_IO, SW_ERR_NOMEM, SW_ERR_INVALID when a source emits too few or too many bytes,
 * and the errors of the sources; the file at path is then unchanged and no temporary file remains.
 */
int sw_st_writer_write(struct sw_st_writer *w, const char *path, mode_t mode, uint64_t *bytes,
                       char *checksum_hex, struct sw_err *err) SW_MUST_CHECK;

/* --- reading --- */

struct sw_st_file;

struct sw_st_entry {
    const char *name; /* owned by the file */
    enum sw_st_dtype dtype;
    int ndim;
    int64_t shape[SW_ST_MAX_DIMS];
    uint64_t offset; /* in the file */
    uint64_t bytes;
};

/* Opens and checks a whole file. Without need_checksum, PATH/NAME.npy is accepted, too: an array of
 * float32 is a file with the tensor NAME. need_checksum rejects a file without sw.checksum: a
 * checkpoint of ours whose header is damaged may look like one. Errors: SW_ERR_NOTFOUND, SW_ERR_IO,
 * SW_ERR_NOMEM, SW_ERR_FORMAT (damaged), SW_ERR_UNSUPPORTED (a type or rank that this program does
 * not have). */
int sw_st_open(const char *path, bool need_checksum, struct sw_st_file **out,
               struct sw_err *err) SW_MUST_CHECK;
void sw_st_close(struct sw_st_file *f); /* NULL is accepted */
const char *sw_st_path(const struct sw_st_file *f);

bool sw_st_verified(const struct sw_st_file *f);            /* has a checksum, which matches */
const char *sw_st_checksum_hex(const struct sw_st_file *f); /* NULL when unverified */

/* Reads the stored checksum without reading the rest of the file, to compare two files of ours.
 * Errors: SW_ERR_NOTFOUND, SW_ERR_IO, SW_ERR_FORMAT (too short). */
int sw_st_peek_checksum(const char *path, char hex[33], struct sw_err *err) SW_MUST_CHECK;

/* Tensors in the order of their data, sw.checksum excepted. */
size_t sw_st_count(const struct sw_st_file *f);
const struct sw_st_entry *sw_st_entry_at(const struct sw_st_file *f, size_t i);
const struct sw_st_entry *sw_st_find(const struct sw_st_file *f, const char *name); /* or NULL */

const char *sw_st_metadata(const struct sw_st_file *f, const char *key); /* NULL when absent */
/* The i-th pair of __metadata__ in file order; false past the end. */
bool sw_st_metadata_at(const struct sw_st_file *f, size_t i, const char **key, const char **value);

/* Reads bytes [first, first + n) of a tensor's values.
 * Errors: SW_ERR_INVALID (range), SW_ERR_IO, SW_ERR_FORMAT when the file became shorter. */
int sw_st_read(const struct sw_st_file *f, const struct sw_st_entry *e, uint64_t first, size_t n,
               void *buffer, struct sw_err *err) SW_MUST_CHECK;

/* Reads the named tensor into t, whose type and logical shape must be those of the file.
 * Errors: SW_ERR_NOTFOUND, SW_ERR_INVALID (says both shapes), those of reading and of the device.
 */
int sw_st_read_tensor(const struct sw_st_file *f, const char *name, struct sw_tensor *t,
                      struct sw_stream *stream, struct sw_err *err) SW_MUST_CHECK;
