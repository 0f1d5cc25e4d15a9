/* A table with columns as wide as their texts: it is filled cell by cell and then printed. Text is
 * aligned to the left, numbers to the right. Cells may be foreign text (base/text.h). One owner. */
#pragma once

#include "base/str.h"

enum { SW_COLUMNS_MOST = 20 };

/* Zero-initialise; free with sw_columns_fini. */
struct sw_columns {
    int columns;
    bool right[SW_COLUMNS_MOST]; /* numbers */
    char **cells;                /* owned, row by row */
    int count;
    bool failed; /* out of memory */
};

void sw_columns_fini(struct sw_columns *t);
/* Adds a column with its title, before any cell. A title that begins with '>' aligns the column to
 * the right. */
void sw_columns_add(struct sw_columns *t, const char *title);
/* Adds several columns: "tensor|type|>bytes". */
void sw_columns_begin(struct sw_columns *t, const char *titles);
/* Appends a cell; the last column of a row is followed by the first of the next row. */
void sw_columns_cell(struct sw_columns *t, const char *fmt, ...) SW_PRINTF(2, 3);
/* Appends the rows, with two blanks between columns and no trailing blanks. */
void sw_columns_print(const struct sw_columns *t, struct sw_bytes *out);
