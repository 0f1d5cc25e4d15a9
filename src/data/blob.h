/* The bytes of one data file, plain or .gz (detected by content, not by name). A plain file stays
 * on disk and is read where needed; a .gz is inflated into memory once. No size stored in a file is
 * trusted: the reader of a format says how many bytes the content must have, this is compared with
 * the file before memory is allocated, and the inflated stream must end exactly there. Text, whose
 * size is not known in advance, is read whole up to a limit.
 *
 * Thread rule: open, head and settle by one thread; afterwards view from any thread. */
#pragma once

#include "base/err.h"
#include "base/mapped.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SW_BLOB_MAX_BYTES UINT64_C(1000000000)
#define SW_BLOB_MAX_BYTES_TEXT "1GB" /* SW_BLOB_MAX_BYTES as written in recipes */

struct sw_blob {
    char *path; /* owned; for messages */
    bool is_open;
    int fd;
    bool gzip;
    uint64_t file_bytes;
    uint64_t bytes;           /* of the content, after settle */
    uint64_t max_bytes;       /* limit for content in memory; the key max_bytes */
    unsigned char *memory;    /* owned; content of a .gz or of a loaded file, else NULL */
    struct sw_mapped *mapped; /* memory maps the file, watched for truncation; else NULL */
};

/* At most max_bytes of content are inflated, or read by sw_blob_take; 0: SW_BLOB_MAX_BYTES. A plain
 * file that is read in place or mapped may have any size. Errors: SW_ERR_NOTFOUND, SW_ERR_IO,
 * SW_ERR_FORMAT (not a regular file). */
int sw_blob_open(struct sw_blob *b, const char *path, uint64_t max_bytes,
                 struct sw_err *err) SW_MUST_CHECK;
void sw_blob_close(struct sw_blob *b); /* a zeroed one is accepted */

/* Reads the first bytes of the content. Errors: SW_ERR_FORMAT if the content is shorter, SW_ERR_IO.
 */
int sw_blob_head(struct sw_blob *b, void *out, size_t bytes, struct sw_err *err) SW_MUST_CHECK;

/* Sets *bytes to the size of the content: that of a plain file, or the size stated in the trailer
 * of a .gz (modulo 2^32), which sw_blob_check_size then checks. Errors: SW_ERR_FORMAT, SW_ERR_IO.
 */
int sw_blob_stated_bytes(struct sw_blob *b, uint64_t *bytes, struct sw_err *err) SW_MUST_CHECK;

/* Requires that the content has header_bytes + records * record_bytes bytes, and inflates a .gz.
 * Errors: SW_ERR_FORMAT, naming the record in which the file ends or the excess data, also for a
 * .gz longer than max_bytes; SW_ERR_NOMEM. */
int sw_blob_check_size(struct sw_blob *b, uint64_t header_bytes, uint64_t record_bytes,
                       uint64_t records, struct sw_err *err) SW_MUST_CHECK;
/* After settle: reads the whole content into memory. Errors: SW_ERR_IO, SW_ERR_NOMEM. */
int sw_blob_load(struct sw_blob *b, struct sw_err *err) SW_MUST_CHECK;

/* Use instead of settle if the size of the content is not known: reads all of it into memory and
 * appends a zero byte. Errors: SW_ERR_FORMAT if the content is longer than max_bytes or damaged,
 * SW_ERR_IO, SW_ERR_NOMEM. */
int sw_blob_take(struct sw_blob *b, struct sw_err *err) SW_MUST_CHECK;

/* Opens a file and reads it whole (sw_blob_open, sw_blob_take). Nothing is open on failure. */
int sw_blob_open_whole(struct sw_blob *b, const char *path, uint64_t max_bytes,
                       struct sw_err *err) SW_MUST_CHECK;

/* After settle: makes the whole content accessible as memory; a plain file is mapped, not read. If
 * another program truncates the file, the mapped memory turns into zeros, so callers use
 * sw_blob_check after reading. Errors: SW_ERR_IO, SW_ERR_NOMEM. */
int sw_blob_map(struct sw_blob *b, struct sw_err *err) SW_MUST_CHECK;
/* Checks that a mapped file has not been truncated; succeeds for any other blob. Errors:
 * SW_ERR_FORMAT, SW_ERR_IO. */
int sw_blob_check(const struct sw_blob *b, struct sw_err *err) SW_MUST_CHECK;

/* After settle: sets *out to content [offset, offset + bytes), in memory of the blob or in scratch.
 * Errors: SW_ERR_IO, SW_ERR_FORMAT if the file has shrunk since. */
int sw_blob_view(const struct sw_blob *b, uint64_t offset, size_t bytes, void *scratch,
                 const void **out, struct sw_err *err) SW_MUST_CHECK;
