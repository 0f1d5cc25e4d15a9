/* Rows of a query as text for programs: tab-separated, comma-separated (RFC 4180, lines end in LF),
 * or objects with the columns' names. One owner. */
#pragma once

#include "base/json.h"
#include "history/reader.h"

/* The names of the columns, which a query returns only once. Zero-initialise. */
struct sw_cells {
    char **names; /* owned */
    int count;
};
int sw_cells_names(struct sw_cells *c, int columns, const struct sw_history_cell *cells,
                   struct sw_err *err) SW_MUST_CHECK;
void sw_cells_fini(struct sw_cells *c);

void sw_cells_tabs(struct sw_bytes *out, int columns, const struct sw_history_cell *cells);
void sw_cells_csv(struct sw_bytes *out, int columns, const struct sw_history_cell *cells);
void sw_cells_json(const struct sw_cells *c, struct sw_json_writer *w,
                   const struct sw_history_cell *cells);

/* Appends the text as an SQL string literal. */
void sw_sql_literal(struct sw_bytes *sql, const char *text);
