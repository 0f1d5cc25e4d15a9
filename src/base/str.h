/* Strings: a growing buffer, a few helpers, human-readable numbers. No thread rule beyond one
 * owner per object. Numbers are read and written in the "C" locale: the program never sets
 * LC_NUMERIC. */
#pragma once

#include "base/err.h"
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A growing zero-terminated text. Zero-initialise; free with sw_bytes_fini. A failed allocation
 * sets `failed` and later calls do nothing, so that callers check once at the end. */
struct sw_bytes {
    char *text; /* owned; NULL while empty */
    size_t length;
    size_t capacity;
    bool failed;
};

void sw_bytes_fini(struct sw_bytes *b);
void sw_bytes_clear(struct sw_bytes *b); /* empties the text; the memory is reused */
void sw_bytes_add(struct sw_bytes *b, const char *s);
void sw_bytes_append(struct sw_bytes *b, const void *bytes, size_t n);
void sw_bytes_printf(struct sw_bytes *b, const char *fmt, ...) SW_PRINTF(2, 3);
void sw_bytes_vprintf(struct sw_bytes *b, const char *fmt, va_list ap);
const char *sw_bytes_text(const struct sw_bytes *b); /* never NULL */
/* Hands the text over to the caller (sw_free) and empties the buffer; NULL when it failed. */
char *sw_bytes_take(struct sw_bytes *b);

/* printf into new memory; NULL when exhausted. */
char *sw_format(const char *fmt, ...) SW_PRINTF(1, 2);

/* Length in bytes (1 to 4) of the well-formed UTF-8 character (RFC 3629) at s, of which `bytes` are
 * available; 0: there is none. */
size_t sw_utf8_length(const char *s, size_t bytes);
bool sw_utf8_is_valid(const char *s); /* the whole string is well-formed */

bool sw_str_eq(const char *a, const char *b); /* NULL equals NULL only */
bool sw_str_starts(const char *s, const char *prefix);
bool sw_str_ends(const char *s, const char *suffix);
/* Shell-like match with * and ? over the whole string, as in [updater *.bias]. */
bool sw_str_match(const char *pattern, const char *s);

/* Levenshtein distance with transposition counted as one; for "did you mean". */
int sw_str_distance(const char *a, const char *b);
/* The candidate nearest to word within a third of its length (at least 1, at most 3), or NULL. */
const char *sw_str_nearest(const char *word, const char *const *candidates, size_t count);

/* Strict decimal parsing of a whole string: false on junk, overflow, NaN or an empty string. */
bool sw_parse_int(const char *s, int64_t *value);
bool sw_parse_real(const char *s, double *value);
/* Bytes with an optional unit: 4GB, 512MB, 64KiB, 1000 (powers of 1000 for kB, of 1024 for KiB).
 * Also bits: 500Mbit are 62.5 MB. */
bool sw_parse_bytes(const char *s, int64_t *value);
/* A throughput: bytes or bits as above, per second: 12GB/s, 1Gbit/s, 900Mbit. */
bool sw_parse_rate(const char *s, int64_t *bytes_per_s);
/* A time with its unit: 50us, 1.5ms, 2s, 100ns. */
bool sw_parse_seconds(const char *s, double *value);
bool sw_parse_bool(const char *s, bool *value); /* yes no true false on off 1 0 */

/* Numbers for people, into out (at least 32 bytes); all return out. A value that is not finite is
 * "--". Every output for people uses these, so that a quantity looks the same everywhere. */

/* A value with a decimal SI prefix and its unit: "773 flop", "97.4 Gflop/s", "0.25 B/s". The unit
 * has at most 16 bytes. */
const char *sw_human_unit(char *out, double value, const char *unit);
/* "1.6 GB", "61.0 M", "94.7 us", "2 m 05 s". */
const char *sw_human_bytes(char *out, double bytes);
const char *sw_human_count(char *out, double count);
/* A measured number with four digits: "0.0742", "1698", "22.4 k". */
const char *sw_human_real(char *out, double value);
const char *sw_human_seconds(char *out, double seconds);

/* "128x96x55x55", cut at `bytes`. */
void sw_shape_text(int ndim, const int64_t *dim, char *out, size_t bytes);
