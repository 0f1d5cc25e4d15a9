/* The bytes of one data file, plain or .gz (told apart by content, not by name). A plain file stays
 * on disk and is read where it is wanted; a .gz is inflated into memory once. Nothing that the file
 * says about its size is believed: the reader of a format tells how many bytes there must be, that
 * is compared with the file before memory is taken, and the inflated stream must end exactly there.
 * Text, whose size nothing tells, is taken whole up to a limit.
 *
 * Thread rule: open, head and settle by one thread; afterwards view from any thread. */
#pragma once

#include "base/err.h"
#include "base/mapped.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SW_BLOB_MAX_BYTES UINT64_C(1000000000)
#define SW_BLOB_MAX_BYTES_TEXT "1GB" /* as recipes write it */

struct sw_blob {
    char *path; /* owned; for messages */
    bool is_open;
    int fd;
    bool gzip;
    uint64_t file_bytes;
    uint64_t bytes;           /* of the content, after settle */
    uint64_t max_bytes;       /* of content in memory; users know it as a key */
    unsigned char *memory;    /* owned; the content of a .gz, or of a loaded file; else NULL */
    struct sw_mapped *mapped; /* memory is the file itself, mapped and watched; else NULL */
};

/* max_bytes of content at most are inflated, or taken by sw_blob_take; 0: SW_BLOB_MAX_BYTES. A
 * plain file that is read where it is wanted, or mapped, may be of any size. Errors:
 * SW_ERR_NOTFOUND, SW_ERR_IO, SW_ERR_FORMAT (not a regular file). */
int sw_blob_open(struct sw_blob *b, const char *path, uint64_t max_bytes,
                 struct sw_err *err) SW_MUST_CHECK;
void sw_blob_close(struct sw_blob *b); /* a zeroed one is accepted */

/* The first bytes of the content. Errors: SW_ERR_FORMAT when it is shorter, SW_ERR_IO. */
int sw_blob_head(struct sw_blob *b, void *out, size_t bytes, struct sw_err *err) SW_MUST_CHECK;

/* The size of the content: of the file, or what the end of a .gz claims (modulo 2^32), which settle
 * then checks. Errors: SW_ERR_FORMAT, SW_ERR_IO. */
int sw_blob_claimed(struct sw_blob *b, uint64_t *bytes, struct sw_err *err) SW_MUST_CHECK;

/* Demands that the content is header_bytes + records * record_bytes, and inflates a .gz.
 * Errors: SW_ERR_FORMAT naming the record where the file ends or what is too much, also of a .gz
 * that is longer than max_bytes; SW_ERR_NOMEM. */
int sw_blob_settle(struct sw_blob *b, uint64_t header_bytes, uint64_t record_bytes,
                   uint64_t records, struct sw_err *err) SW_MUST_CHECK;
/* After settle: brings the whole content into memory. Errors: SW_ERR_IO, SW_ERR_NOMEM. */
int sw_blob_load(struct sw_blob *b, struct sw_err *err) SW_MUST_CHECK;

/* Instead of settle, where nothing says how long the content must be: brings all of it into memory,
 * with a zero byte behind it. Errors: SW_ERR_FORMAT when it is longer than max_bytes or damaged,
 * SW_ERR_IO, SW_ERR_NOMEM. */
int sw_blob_take(struct sw_blob *b, struct sw_err *err) SW_MUST_CHECK;

/* Open and take at once; nothing is open on failure. */
int sw_blob_open_whole(struct sw_blob *b, const char *path, uint64_t max_bytes,
                       struct sw_err *err) SW_MUST_CHECK;

/* After settle: makes the whole content memory, without reading it where it is plain: a plain file
 * is mapped. Where another program truncates it the memory turns into zeros, so that who uses it
 * calls sw_blob_check afterwards. Errors: SW_ERR_IO, SW_ERR_NOMEM. */
int sw_blob_map(struct sw_blob *b, struct sw_err *err) SW_MUST_CHECK;
/* Whether a mapped file is still whole; any other blob is. Errors: SW_ERR_FORMAT, SW_ERR_IO. */
int sw_blob_check(const struct sw_blob *b, struct sw_err *err) SW_MUST_CHECK;

/* After settle: sets *out to content [offset, offset + bytes): memory of the blob, or scratch.
 * Errors: SW_ERR_IO, SW_ERR_FORMAT when the file has shrunk since. */
int sw_blob_view(const struct sw_blob *b, uint64_t offset, size_t bytes, void *scratch,
                 const void **out, struct sw_err *err) SW_MUST_CHECK;
