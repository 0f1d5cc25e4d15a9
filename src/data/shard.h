/* The project's own record file, a shard: made to be read in any order, where it lies. It is mapped
 * into memory; a record is found through an index and handed out without a copy; header, index and
 * every record have a checksum, so that no byte of the file can change unnoticed. Several shards
 * with the same fields are one set of records (data/formats/shard.c).
 *
 * The bytes, so that another program can read and write them. Numbers are little-endian; everything
 * begins at a multiple of 8; what is left over in between is zero. A checksum is the XXH3 hash of
 * 64 bits with seed 0 (https://xxhash.com).
 *
 *     header                                       field table, 80 bytes for each of F fields
 *        0  8   89 53 57 53 48 44 0d 0a               0  32  name: a-z 0-9 _, zeros behind
 *        8  u32 version, 1                           32  u32 kind: 0 array, 1 picture
 *       12  u32 F, number of fields, 1 to 16         36  u32 type: 1 f32, 2 i32, 3 u8
 *       16  u64 H, bytes of the header               40  u32 D, number of dimensions, 0 to 4
 *       24  u64 bytes of the file                    44  u32 0
 *       32  u64 N, number of records, 1 or more      48  u64 dimensions, D of 4, zeros behind
 *       40  u64 classes; labels are below; 0: none
 *       48  u64 I, where the index begins
 *       56  u64 checksum of the index                a picture
 *       64  u64 T, bytes of the origin                0  u64 B, its bytes
 *       72  u64 0                                     8  u32 0: pixels, u8 [C, H, W]; 1: a JPEG or
 * PNG
 *       80      field table, F x 80 bytes            12  u32 channels   \
 *       ..      origin, T bytes: text in UTF-8       16  u32 height     | of pixels; else 0
 *       ..      zeros up to a multiple of 64         20  u32 width      /
 *      H-8  u64 checksum of bytes 0 to H-9           24      B bytes
 *     records, from H to I: one behind the other, each its fields in the order of the table. An
 *       array is its values in row-major order; a picture is as above. A field named `label` that
 *       is one i32 is a class, 0 to classes-1. Dimensions of a picture are channels, height and
 *       width, 0 where they differ from record to record.
 *     index, from I to the end: for each record u64 where it begins, u64 its checksum. A record
 * ends where the next one, or the index, begins; the zeros behind its last field belong to it.
 *
 * Reading trusts nothing: sizes are compared with the file's before anything is used, header and
 * index are checked at opening, a record when it is first read (a bit for each remembers that: to
 * hash a mapped record again costs a third of what reading it does). Errors name file, record and
 * what was expected.
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
    enum sw_dtype dtype; /* u8 for a picture */
    int ndim;            /* without the batch; 3 for a picture */
    int64_t dim[SW_SHARD_MAX_DIMS];
};

/* One field of one record: an array fills data and bytes alone. */
struct sw_shard_value {
    const void *data;
    size_t bytes;
    bool encoded;                    /* a picture: a JPEG or PNG file, not pixels */
    int64_t channels, height, width; /* of pixels, else 0 */
};

/* Bytes of an array; for a picture 0. */
size_t sw_shard_field_bytes(const struct sw_shard_field *f);

/* ---- reading ---- */

struct sw_shard {
    char *path; /* owned; for messages */
    int64_t records, classes;
    int field_count;
    struct sw_shard_field field[SW_SHARD_MAX_FIELDS];
    char *origin; /* owned: where the records came from, for people */
    uint64_t file_bytes;
    /* the rest is private */
    const unsigned char *bytes; /* of the whole file: the blob's, or the caller's */
    uint64_t records_at, index_at;
    unsigned char *index; /* owned: the file's, checked */
    uint64_t *checked;    /* owned; a bit for each record whose checksum was right; atomic */
    struct sw_blob blob;
};

/* Maps a plain file, or inflates a .gz of at most max_bytes (0: a default), and checks header and
 * index. Errors: SW_ERR_NOTFOUND, SW_ERR_IO, SW_ERR_FORMAT, SW_ERR_UNSUPPORTED (version),
 * SW_ERR_NOMEM. */
int sw_shard_open(struct sw_shard *s, const char *path, uint64_t max_bytes,
                  struct sw_err *err) SW_MUST_CHECK;
/* The same with bytes in memory, aligned to 8 and borrowed until close; name is for messages. */
int sw_shard_parse(struct sw_shard *s, const char *name, const void *bytes, uint64_t size,
                   struct sw_err *err) SW_MUST_CHECK;
void sw_shard_close(struct sw_shard *s); /* a zeroed one is accepted */

/* Sets *out to field f of a record, 0 .. records-1: memory of the shard, aligned to 8.
 * Errors: SW_ERR_FORMAT. */
int sw_shard_read(const struct sw_shard *s, int64_t record, int f, struct sw_shard_value *out,
                  struct sw_err *err) SW_MUST_CHECK;
/* Whether the file was left alone since it was opened. What sw_shard_read handed out is to be
 * trusted only where this succeeds after its use. Errors: SW_ERR_FORMAT, SW_ERR_IO. */
int sw_shard_whole(const struct sw_shard *s, struct sw_err *err) SW_MUST_CHECK;
/* Checks a record's checksum, sizes and label, also where that was done before. *bytes (or NULL):
 * what it takes in the file. Errors: SW_ERR_FORMAT. */
int sw_shard_check(const struct sw_shard *s, int64_t record, size_t *bytes,
                   struct sw_err *err) SW_MUST_CHECK;

/* ---- writing ---- */

/* Begin from {.file.fd = -1}. */
struct sw_shard_writer {
    struct sw_new_file file;
    int field_count;
    struct sw_shard_field field[SW_SHARD_MAX_FIELDS];
    int64_t records;
    uint64_t header_bytes, at; /* at: where the next record begins */
    char *origin;              /* owned */
    unsigned char *buffer;     /* owned; bytes not yet written */
    size_t used;
    unsigned char *record; /* owned; the record being put together */
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
/* What the file would have if it ended here, in bytes. */
uint64_t sw_shard_bytes(const struct sw_shard_writer *w);
/* Writes index and header and puts the file in its place, whole or not at all; w is released.
 * Errors: SW_ERR_INVALID without a record, SW_ERR_IO. */
int sw_shard_commit(struct sw_shard_writer *w, int64_t classes, struct sw_err *err) SW_MUST_CHECK;
/* Removes what was begun; one that was never begun, or is committed, is accepted. */
void sw_shard_abandon(struct sw_shard_writer *w);
