/* A thin layer over SQLite: converts its errors to ours, and runs a statement with parameters and
 * rows. Internal to this folder; the owner of the connection calls. */
#pragma once

#include "history/row.h"
#include <sqlite3.h>
#include <stdbool.h>

/* Turns the result of an SQLite call into an error of ours: BUSY and LOCKED become SW_ERR_BUSY,
 * NOTADB and CORRUPT SW_ERR_FORMAT, NOMEM SW_ERR_NOMEM, what the file system refuses SW_ERR_IO, the
 * rest SW_ERR_LIBRARY. SQLITE_OK, ROW and DONE are SW_OK. */
int sw_sqlite_check(sqlite3 *db, int rc, const char *what, struct sw_err *err) SW_MUST_CHECK;
/* sqlite3_exec with sw_sqlite_check. */
int sw_sqlite_exec(sqlite3 *db, const char *sql, const char *what,
                   struct sw_err *err) SW_MUST_CHECK;
/* Disables, on a newly opened connection, features that a damaged or malicious file could exploit:
 * functions and virtual tables with side effects in the schema, extensions, tokenizers given as
 * pointers, and writes to the schema tables. */
void sw_sqlite_harden(sqlite3 *db);
/* A running statement. The first error ends it and is returned by sw_query_end, so a loop over rows
 * needs no error checks. */
struct sw_query {
    sqlite3 *db;
    const char *path; /* path of the database, for messages */
    sqlite3_stmt *st;
    int code;
    struct sw_err *err;
};

/* Parameters ?1, ?2, ... of a statement: expands to an array of cells and their count. */
#define SW_CELLS(...)                                                                              \
    (const struct sw_cell[]){__VA_ARGS__},                                                         \
        sizeof((const struct sw_cell[]){__VA_ARGS__}) / sizeof(struct sw_cell)

/* Prepares the statement and binds its parameters; surplus cells are ignored. Texts are borrowed
 * until sw_query_end. */
struct sw_query sw_query_begin(sqlite3 *db, const char *path, const char *sql,
                               const struct sw_cell *cells, size_t count, struct sw_err *err);
/* Steps to the next row; false at the end and after an error. */
bool sw_query_next(struct sw_query *q);
int sw_query_end(struct sw_query *q) SW_MUST_CHECK;

/* Runs a statement that returns at most one row. value (may be NULL) gets the first column and is
 * unchanged if there is no row. */
int sw_query_once(sqlite3 *db, const char *path, const char *sql, const struct sw_cell *cells,
                  size_t count, int64_t *value, struct sw_err *err) SW_MUST_CHECK;

/* Binds a cell; returns the result of sqlite3_bind_*. */
int sw_query_bind(sqlite3_stmt *st, int parameter, const struct sw_cell *c);

/* Columns of the current row. */
static inline int64_t sw_query_int(const struct sw_query *q, int column)
{
    return sqlite3_column_int64(q->st, column);
}

static inline const char *sw_query_text(const struct sw_query *q, int column) /* or NULL */
{
    return (const char *)sqlite3_column_text(q->st, column);
}

double sw_query_real(const struct sw_query *q, int column); /* NaN for NULL */
