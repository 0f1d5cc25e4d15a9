/* SQLite as this folder uses it: its errors as ours, and a statement from its parameters to its
 * last row. Internal to this folder; one owner: that of the connection. */
#pragma once

#include "history/row.h"
#include <sqlite3.h>
#include <stdbool.h>

/* Turns the result of an SQLite call into an error of ours: BUSY and LOCKED become SW_ERR_BUSY,
 * NOTADB and CORRUPT SW_ERR_FORMAT, NOMEM SW_ERR_NOMEM, what the file system refuses SW_ERR_IO, the
 * rest SW_ERR_LIBRARY. SQLITE_OK, ROW and DONE are SW_OK. */
int sw_sqlite_check(sqlite3 *db, int rc, const char *what, struct sw_err *err) SW_MUST_CHECK;
/* sqlite3_exec with that. */
int sw_sqlite_exec(sqlite3 *db, const char *sql, const char *what,
                   struct sw_err *err) SW_MUST_CHECK;
/* Switches off, on a connection just opened, what a damaged or foreign file could use against us:
 * functions and virtual tables that have side effects inside its schema, extensions, tokenizers
 * given as pointers, and writes to the tables that hold the schema. */
void sw_sqlite_harden(sqlite3 *db);
/* A statement under way. The first error ends it, and is what sw_query_end answers: so a walk needs
 * no checks of its own. */
struct sw_query {
    sqlite3 *db;
    const char *path; /* of the database, for messages */
    sqlite3_stmt *st;
    int code;
    struct sw_err *err;
};

/* Parameters ?1, ?2, ... of a statement, as its cells and their count. */
#define SW_CELLS(...)                                                                              \
    (const struct sw_cell[]){__VA_ARGS__},                                                         \
        sizeof((const struct sw_cell[]){__VA_ARGS__}) / sizeof(struct sw_cell)

/* Prepares the statement and binds its parameters, of which cells may have more. Texts are borrowed
 * until the end. */
struct sw_query sw_query_begin(sqlite3 *db, const char *path, const char *sql,
                               const struct sw_cell *cells, size_t count, struct sw_err *err);
/* The next row; false at the end and after an error. */
bool sw_query_next(struct sw_query *q);
int sw_query_end(struct sw_query *q) SW_MUST_CHECK;

/* All of it for a statement with one row or none: value (may be NULL) is the first column, and left
 * alone without a row. */
int sw_query_once(sqlite3 *db, const char *path, const char *sql, const struct sw_cell *cells,
                  size_t count, int64_t *value, struct sw_err *err) SW_MUST_CHECK;

/* sqlite3_bind_* of a cell; its result. */
int sw_query_bind(sqlite3_stmt *st, int parameter, const struct sw_cell *c);

/* Columns of the row at hand. */
static inline int64_t sw_query_int(const struct sw_query *q, int column)
{
    return sqlite3_column_int64(q->st, column);
}

static inline const char *sw_query_text(const struct sw_query *q, int column) /* or NULL */
{
    return (const char *)sqlite3_column_text(q->st, column);
}

double sw_query_real(const struct sw_query *q, int column); /* NaN where it is NULL */
