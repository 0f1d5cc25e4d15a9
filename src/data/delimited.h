/* Rows of delimited text as RFC 4180 has them (CSV): fields between separators, quoted where they
 * hold separators, quotes ("" stands for one) or line ends. A row is cut up in place, so the text
 * is overwritten as it is read. Empty lines are passed over; a line ends with \n or \r\n; a byte
 * order mark at the beginning is ignored. One owner. */
#pragma once

#include "base/err.h"
#include <stddef.h>
#include <stdint.h>

/* Stands for a separator: any number of blanks and tabs, ignored at the ends of a line. */
enum { SW_SEPARATOR_BLANKS = 0 };

struct sw_delimited {
    const char *what; /* borrowed: names the file in errors */
    char *at, *end;   /* borrowed: what is still to be read; *end is a zero byte */
    char separator;
    int64_t line;      /* where the last row began, from 1 */
    int64_t next_line; /* private */
    char **field;      /* owned; fields of the last row, each with a zero byte behind it */
    int count;
    int64_t capacity;
};

/* text has `bytes` bytes and a zero byte behind them; it is borrowed and changed until fini. */
void sw_delimited_init(struct sw_delimited *d, const char *what, char *text, size_t bytes,
                       char separator);
void sw_delimited_fini(struct sw_delimited *d); /* a zeroed one is accepted */

/* Passes over `lines` lines as they are, whatever quotes they hold.
 * Errors: SW_ERR_FORMAT when there are fewer. */
int sw_delimited_skip(struct sw_delimited *d, int64_t lines, struct sw_err *err) SW_MUST_CHECK;
/* Reads the next row; d->count is 0 at the end of the text.
 * Errors: SW_ERR_FORMAT naming the line, SW_ERR_NOMEM. */
int sw_delimited_next(struct sw_delimited *d, struct sw_err *err) SW_MUST_CHECK;
