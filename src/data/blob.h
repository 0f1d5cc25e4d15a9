/* The bytes of one data file, plain or .gz (told apart by content, not by name). A plain file stays
 * on disk and is read where it is wanted; a .gz is inflated into memory once. Nothing that the file
 * says about its size is believed: the reader of a format tells how many bytes there must be, that
 * is compared with the file before memory is taken, and the inflated stream must end exactly there.
 * Text, whose size nothing tells, is taken whole up to a limit.
 *
 * Thread rule: open, head and settle by one thread; afterwards view from any thread. */
#ifndef SW_DATA_BLOB_H
#define SW_DATA_BLOB_H

#include "base/err.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sw_blob {
    char *path; /* owned; for messages */
    bool is_open;
    int fd;
    bool gzip;
    uint64_t file_bytes;
    uint64_t bytes;        /* of the content, after settle */
    unsigned char *memory; /* owned; the content of a .gz, or of a loaded file; else NULL */
    bool mapped;           /* memory is the file itself, mapped */
};

/* Errors: SW_ERR_NOTFOUND, SW_ERR_IO, SW_ERR_FORMAT (not a regular file). */
int sw_blob_open(struct sw_blob *b, const char *path, struct sw_err *err) SW_MUST_CHECK;
void sw_blob_close(struct sw_blob *b); /* a zeroed one is accepted */

/* The first bytes of the content. Errors: SW_ERR_FORMAT when it is shorter, SW_ERR_IO. */
int sw_blob_head(struct sw_blob *b, void *out, size_t bytes, struct sw_err *err) SW_MUST_CHECK;

/* The size of the content: of the file, or what the end of a .gz claims (modulo 2^32), which settle
 * then checks. Errors: SW_ERR_FORMAT, SW_ERR_IO. */
int sw_blob_claimed(struct sw_blob *b, uint64_t *bytes, struct sw_err *err) SW_MUST_CHECK;

/* Demands that the content is header_bytes + records * record_bytes, and inflates a .gz.
 * Errors: SW_ERR_FORMAT naming the record where the file ends or what is too much; SW_ERR_NOMEM. */
int sw_blob_settle(struct sw_blob *b, uint64_t header_bytes, uint64_t record_bytes,
                   uint64_t records, struct sw_err *err) SW_MUST_CHECK;
/* After settle: brings the whole content into memory. Errors: SW_ERR_IO, SW_ERR_NOMEM. */
int sw_blob_load(struct sw_blob *b, struct sw_err *err) SW_MUST_CHECK;

/* Instead of settle, where nothing says how long the content must be: brings all of it into memory,
 * with a zero byte behind it. Errors: SW_ERR_FORMAT when it is longer than max_bytes (which users
 * know as a key) or damaged, SW_ERR_IO, SW_ERR_NOMEM. */
int sw_blob_take(struct sw_blob *b, uint64_t max_bytes, struct sw_err *err) SW_MUST_CHECK;

/* After settle: makes the whole content memory, without reading it where it is plain: a plain file
 * is mapped. Whoever cuts a mapped file short ends the process (SIGBUS).
 * Errors: SW_ERR_IO, SW_ERR_NOMEM. */
int sw_blob_map(struct sw_blob *b, struct sw_err *err) SW_MUST_CHECK;

/* After settle: sets *out to content [offset, offset + bytes): memory of the blob, or scratch.
 * Errors: SW_ERR_IO, SW_ERR_FORMAT when the file has shrunk since. */
int sw_blob_view(const struct sw_blob *b, uint64_t offset, size_t bytes, void *scratch,
                 const void **out, struct sw_err *err) SW_MUST_CHECK;

#endif
