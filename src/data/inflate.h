/* Compressed bytes of a file, inflated: a .gz file, or a deflated member of a ZIP archive. A stream
 * is read from a given place of an open file and never beyond its given end; what comes out is as
 * much as the caller has room for. The only file that includes zlib.
 * One owner, one thread. */
#pragma once

#include "base/err.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Deflate never does better than 1032 : 1 (zlib's own documentation), so a stream of n bytes that
 * is said to hold more is lying, and no memory is taken for it. */
enum { SW_INFLATE_MAX_RATIO = 1032 };

enum sw_inflate_kind {
    SW_INFLATE_GZIP, /* RFC 1952; its checksum and size are checked at the end */
    SW_INFLATE_RAW,  /* RFC 1951, bare */
    SW_INFLATE_ZLIB, /* RFC 1950; its checksum is checked at the end */
};

struct sw_inflater;

/* The stream in bytes [first, first + bytes) of fd. what names the file in errors and is borrowed,
 * as fd is, until sw_inflater_free. Errors: SW_ERR_NOMEM. */
int sw_inflater_new(int fd, uint64_t first, uint64_t bytes, enum sw_inflate_kind kind,
                    const char *what, struct sw_inflater **out, struct sw_err *err) SW_MUST_CHECK;
void sw_inflater_free(struct sw_inflater *s); /* NULL is accepted */

/* Inflates the next `want` bytes; *got is less only when the stream ended.
 * Errors: SW_ERR_FORMAT (damaged, cut short), SW_ERR_IO, SW_ERR_NOMEM, SW_ERR_CANCELLED
 * (base/stop.h). */
int sw_inflate(struct sw_inflater *s, void *out, uint64_t want, uint64_t *got,
               struct sw_err *err) SW_MUST_CHECK;

/* The stream that lies in memory, its first `want` bytes at once; *got is less only when it ended.
 * Where whole is set it must end just there. Errors: as sw_inflate. */
int sw_inflate_bytes(const void *in, uint64_t bytes, enum sw_inflate_kind kind, const char *what,
                     bool whole, void *out, uint64_t want, uint64_t *got,
                     struct sw_err *err) SW_MUST_CHECK;

/* Whether the stream's end was met; how many of its bytes lie behind that end. */
bool sw_inflater_ended(const struct sw_inflater *s);
uint64_t sw_inflater_left(const struct sw_inflater *s);

/* The CRC-32 of ZIP and gzip (ISO 3309), continued; it begins with 0. */
uint32_t sw_crc32(uint32_t crc, const void *bytes, size_t n);
