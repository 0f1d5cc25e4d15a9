/* A shard, the record file format of this project, designed for reading in any order. It is mapped
 * into memory; a record is found through an index and returned without a copy; header, index and
 * every record have a checksum, so that any change of the file is detected. Several shards with the
 * same fields form one data set (data/formats/shard.c).
 *
 * The format, for programs that read or write it: numbers are little-endian; everything
 * begins at a multiple of 8; gaps are zero. A checksum is the XXH3 hash of
 * 64 bits with seed 0 (https://xxhash.com).
 *
 *     header                                       field table, 80 bytes for each of F fields
 *        0  8   89 53 57 53 48 44 0d 0a               0  32  name: a-z 0-9 _, zeros behind
 *        8  u32 version, 1                           32  u32 kind: 0 array, 1 image
 *       12  u32 F, number of fields, 1 to 16         36  u32 type: 1 f32, 2 i32, 3 u8
 *       16  u64 H, bytes of the header               40  u32 D, number of dimensions, 0 to 4
 *       24  u64 bytes of the file                    44  u32 0
 *       32  u64 N, number of records, 1 or more      48  u64 dimensions, D of 4, zeros behind
 *       40  u64 classes; labels are below it; 0: none
 *       48  u64 I, where the index begins
 *       56  u64 checksum of the index                an image
 *       64  u64 T, bytes of the origin                0  u64 B, its bytes
 *       72  u64 0                                     8  u32 0: pixels, u8 [C, H, W]; 1: a JPEG or
 * PNG
 *       80      field table, F x 80 bytes            12  u32 channels   \
 *       ..      origin, T bytes: text in UTF-8       16  u32 height     | of pixels; else 0
 *       ..      zeros up to a multiple of 64         20  u32 width      /
 *      H-8  u64 checksum of bytes 0 to H-9           24      B bytes
 *     records, from H to I: contiguous, each with its fields in the order of the table. An
 *       array is its values in row-major order; an image is as above. A field named `label` that
 *       is one i32 is a class, 0 to classes-1. Dimensions of an image are channels, height and
 *       width, 0 where they differ from record to record.
 *     index, from I to the end: for each record u64 offset, u64 checksum. A record ends where the
 *       next one, or the index, begins; zeros after its last field belong to it.
 *
 * No part of a file is trusted: sizes are checked against the file before use, header and index are
 * checked at opening, and a record when it is first read (one bit per record remembers this,
 * because hashing a mapped record costs a third of the time of reading it). Errors name the file,
 * the record and what was expected.
 *
 * Thread rule: open and close by one thread; in between any number of threads may read. A writer
 * belongs to one thread. */
#pragma once

#include "base/os.h"
#include "data/blob.h"
#include "kernels/desc.h"

enum {
    SW_SHARD_VERSION = 1,
    SW_SHARD_MAX_FIELDS = 16,
    SW_SHARD_MAX_DIMS = 4,
    SW_SHARD_NAME_BYTES = 32, /* with the zero */
    SW_SHARD_MAX_ORIGIN = 1 << 16,
};

enum sw_shard_kind { SW_SHARD_ARRAY, SW_SHARD_PICTURE };

struct sw_shard_field {
    char name[SW_SHARD_NAME_BYTES];
    enum sw_shard_kind kind;
    enum sw_dtype dtype; /* u8 for an image */
    int ndim;            /* without the batch; 3 for an image */
    int64_t dim[SW_SHARD_MAX_DIMS];
};

/* One field of one record; for an array only data and bytes are set. */
struct sw_shard_value {
    const void *data;
    size_t bytes;
    bool encoded;                    /* image: a JPEG or PNG file, not pixels */
    int64_t channels, height, width; /* of pixels, else 0 */
};

/* Bytes of an array; 0 for an image. */
size_t sw_shard_field_bytes(const struct sw_shard_field *f);
/* Is it the class of the records: the field label, one i32? */
bool sw_shard_is_label(const struct sw_shard_field *f);

/* ---- reading ---- */

struct sw_shard {
    char *path; /* owned; for messages */
    int64_t records, classes;
    int field_count;
    struct sw_shard_field field[SW_SHARD_MAX_FIELDS];
    char *origin; /* owned: description of the source of the records */
    uint64_t file_bytes;
    /* the rest is private */
    const unsigned char *bytes; /* the whole file: memory of the blob, or of the caller */
    uint64_t records_at, index_at;
    unsigned char *index; /* owned: checked copy of the index */
    uint64_t *checked;    /* owned; atomic; bit of each record whose checksum was verified */
    struct sw_blob blob;
};

/* Maps a plain file, or inflates a .gz of at most max_bytes (0: a default), and checks header and
 * index. Errors: SW_ERR_NOTFOUND, SW_ERR_IO, SW_ERR_FORMAT, SW_ERR_UNSUPPORTED (version),
 * SW_ERR_NOMEM. */
int sw_shard_open(struct sw_shard *s, const char *path, uint64_t max_bytes,
                  struct sw_err *err) SW_MUST_CHECK;
/* Opens a shard in memory. bytes is aligned to 8 and borrowed until close; name is for messages. */
int sw_shard_parse(struct sw_shard *s, const char *name, const void *bytes, uint64_t size,
                   struct sw_err *err) SW_MUST_CHECK;
void sw_shard_close(struct sw_shard *s); /* a zeroed one is accepted */

/* Sets *out to field f of a record, 0 .. records-1: memory of the shard, aligned to 8.
 * Errors: SW_ERR_FORMAT. */
int sw_shard_read(const struct sw_shard *s, int64_t record, int f, struct sw_shard_value *out,
                  struct sw_err *err) SW_MUST_CHECK;
/* Checks that the file has not changed since it was opened. Data from sw_shard_read are valid only
 * if this succeeds after their use. Errors: SW_ERR_FORMAT, SW_ERR_IO. */
int sw_shard_whole(const struct sw_shard *s, struct sw_err *err) SW_MUST_CHECK;
/* Checks the checksum, sizes and label of a record, even if it was checked before. *bytes (may be
 * NULL) is its size in the file. Errors: SW_ERR_FORMAT. */
int sw_shard_check(const struct sw_shard *s, int64_t record, size_t *bytes,
                   struct sw_err *err) SW_MUST_CHECK;

/* ---- writing ---- */

/* Begin from {.file.fd = -1}. */
struct sw_shard_writer {
    struct sw_new_file file;
    int field_count;
    struct sw_shard_field field[SW_SHARD_MAX_FIELDS];
    int64_t records;
    uint64_t header_bytes, at; /* at: offset of the next record */
    char *origin;              /* owned */
    unsigned char *buffer;     /* owned; bytes not yet written */
    size_t used;
    unsigned char *record; /* owned; the current record */
    size_t record_room;
    uint64_t *index; /* owned; pairs */
    int64_t index_room;
};

/* Begins PATH under a temporary name.
 * Errors: SW_ERR_INVALID (fields, origin), SW_ERR_IO, SW_ERR_NOMEM. */
int sw_shard_begin(struct sw_shard_writer *w, const char *path, const struct sw_shard_field *fields,
                   int count, const char *origin, struct sw_err *err) SW_MUST_CHECK;
/* Appends a record: one value for each field.
 * Errors: SW_ERR_INVALID (a value that does not fit its field), SW_ERR_IO, SW_ERR_NOMEM. */
int sw_shard_append(struct sw_shard_writer *w, const struct sw_shard_value *values,
                    struct sw_err *err) SW_MUST_CHECK;
/* The size of the file in bytes if it were committed now. */
uint64_t sw_shard_bytes(const struct sw_shard_writer *w);
/* Writes index and header and moves the file to its final name, complete or not at all; w is
 * released. Errors: SW_ERR_INVALID if there is no record, SW_ERR_IO. */
int sw_shard_commit(struct sw_shard_writer *w, int64_t classes, struct sw_err *err) SW_MUST_CHECK;
/* Removes an unfinished file; a writer that was never begun, or is committed, is accepted. */
void sw_shard_abandon(struct sw_shard_writer *w);
