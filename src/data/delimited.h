/* Rows of delimited text as in RFC 4180 (CSV): fields between separators, quoted if they contain
 * separators, quotes (written "") or line ends. Rows are split in place, so reading overwrites the
 * text. Empty lines are skipped; a line ends with \n or \r\n; a byte order mark at the beginning is
 * ignored. One owner. */
#pragma once

#include "base/err.h"
#include <stddef.h>
#include <stdint.h>

/* A separator of any number of blanks and tabs, ignored at both ends of a line. */
enum { SW_SEPARATOR_BLANKS = 0 };

struct sw_delimited {
    const char *what; /* borrowed: names the file in errors */
    char *at, *end;   /* borrowed: the unread text; *end is a zero byte */
    char separator;
    int64_t line;      /* line on which the last row began, from 1 */
    int64_t next_line; /* private */
    char **field;      /* owned; zero-terminated fields of the last row */
    int count;
    int64_t capacity;
};

/* text has `bytes` bytes and a zero byte after them; it is borrowed, and changed, until fini. */
void sw_delimited_init(struct sw_delimited *d, const char *what, char *text, size_t bytes,
                       char separator);
void sw_delimited_fini(struct sw_delimited *d); /* a zeroed one is accepted */

/* Skips `lines` lines without interpreting quotes. Errors: SW_ERR_FORMAT if there are fewer. */
int sw_delimited_skip(struct sw_delimited *d, int64_t lines, struct sw_err *err) SW_MUST_CHECK;
/* Reads the next row; d->count is 0 at the end of the text.
 * Errors: SW_ERR_FORMAT naming the line, SW_ERR_NOMEM. */
int sw_delimited_next(struct sw_delimited *d, struct sw_err *err) SW_MUST_CHECK;
