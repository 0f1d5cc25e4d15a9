/* Inflates compressed data: a .gz file, or a deflated member of a ZIP archive. A stream is read
 * from a given range of an open file and never beyond it; the caller chooses how much to inflate.
 * This is the only header behind which zlib is used. One owner, one thread. */
#pragma once

#include "base/err.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Deflate never exceeds 1032 : 1 (documentation of zlib). A stream of n bytes that claims to hold
 * more is refused before memory is allocated. */
enum { SW_INFLATE_MAX_RATIO = 1032 };

enum sw_inflate_kind {
    SW_INFLATE_GZIP, /* RFC 1952; its checksum and size are checked at the end */
    SW_INFLATE_RAW,  /* RFC 1951, without a header */
    SW_INFLATE_ZLIB, /* RFC 1950; its checksum is checked at the end */
};

struct sw_inflater;

/* A compressed stream in memory; all pointers are borrowed. */
struct sw_compressed {
    const void *data;
    uint64_t bytes;
    enum sw_inflate_kind kind;
    const char *what; /* names the file in errors */
};

/* Opens the stream in bytes [first, first + bytes) of fd. what names the file in errors; what and
 * fd are borrowed until sw_inflater_free. Errors: SW_ERR_NOMEM. */
int sw_inflater_new(int fd, uint64_t first, uint64_t bytes, enum sw_inflate_kind kind,
                    const char *what, struct sw_inflater **out, struct sw_err *err) SW_MUST_CHECK;
void sw_inflater_free(struct sw_inflater *s); /* NULL is accepted */

/* Inflates the next `want` bytes; *got is less only if the stream ended. Errors: SW_ERR_FORMAT
 * (damaged or truncated), SW_ERR_IO, SW_ERR_NOMEM, SW_ERR_CANCELLED (base/stop.h). */
int sw_inflate(struct sw_inflater *s, void *out, uint64_t want, uint64_t *got,
               struct sw_err *err) SW_MUST_CHECK;

/* Inflates the first `want` bytes of a stream in memory; *got is less only if the stream ended. If
 * whole is set, the stream must end exactly there. Errors: as sw_inflate. */
int sw_inflate_bytes(const struct sw_compressed *in, bool whole, void *out, uint64_t want,
                     uint64_t *got, struct sw_err *err) SW_MUST_CHECK;

/* Whether the end of the stream was reached, and how many bytes of the range follow it. */
bool sw_inflater_ended(const struct sw_inflater *s);
uint64_t sw_inflater_left(const struct sw_inflater *s);

/* Updates the CRC-32 of ZIP and gzip (ISO 3309); the initial value is 0. */
uint32_t sw_crc32(uint32_t crc, const void *bytes, size_t n);
