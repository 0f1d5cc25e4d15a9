/* Rows of queries as text for programs: tab-separated, comma-separated (RFC 4180, lines end in LF),
 * or objects with the columns' names. One owner. */
#pragma once

#include "cli/history/verb.h"

/* A text form of rows. */
typedef void sw_cells_form(struct sw_bytes *out, int columns, const struct sw_history_cell *cells);
sw_cells_form sw_cells_tabs, sw_cells_csv;

/* A walk over the rows of one or several queries: one array of objects, or text. */
struct sw_cells {
    struct sw_history_view *view; /* borrowed; its output is flushed on the way */
    sw_cells_form *form;
    bool header;  /* the names of the next query's columns are printed as text */
    char **names; /* of the columns, which a query returns only once; owned */
    int count;
};
void sw_cells_begin(struct sw_cells *c, struct sw_history_view *v, sw_cells_form *form,
                    bool header);
/* Errors, in c->view->err: those of sw_history_sql and sw_history_view_flush, SW_ERR_NOMEM. */
int sw_cells_query(struct sw_cells *c, const struct sw_bytes *sql) SW_MUST_CHECK;
void sw_cells_end(struct sw_cells *c);

/* Appends the text as an SQL string literal. */
void sw_sql_literal(struct sw_bytes *sql, const char *text);
