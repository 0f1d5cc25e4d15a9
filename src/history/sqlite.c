/* Converts SQLite results to our errors, and runs statements with parameters and rows. */
#include "history/sqlite.h"

#include <math.h>

static int code_of(int rc)
{
    switch (rc & 0xff) {
    case SQLITE_OK:
    case SQLITE_ROW:
    case SQLITE_DONE:
        return SW_OK;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_PROTOCOL: /* the lock of the WAL was not available */
        return SW_ERR_BUSY;
    case SQLITE_NOTADB:
    case SQLITE_CORRUPT:
        return SW_ERR_FORMAT;
    case SQLITE_NOMEM:
        return SW_ERR_NOMEM;
    case SQLITE_FULL:
    case SQLITE_IOERR:
    case SQLITE_READONLY:
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
    case SQLITE_NOLFS:
        return SW_ERR_IO;
    default:
        return SW_ERR_LIBRARY;
    }
}

int sw_sqlite_check(sqlite3 *db, int rc, const char *what, struct sw_err *err)
{
    int code = code_of(rc);
    if (!code)
        return SW_OK;
    return sw_err_set(err, code, "%s: %s", what, db ? sqlite3_errmsg(db) : sqlite3_errstr(rc));
}

void sw_sqlite_harden(sqlite3 *db)
{
    static const struct {
        int option, value;
    } options[] = {
        {SQLITE_DBCONFIG_DEFENSIVE, 1},
        {SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0},
        {SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0},
        {SQLITE_DBCONFIG_ENABLE_FTS3_TOKENIZER, 0},
    };
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        sqlite3_db_config(db, options[i].option, options[i].value, NULL);
}

int sw_sqlite_exec(sqlite3 *db, const char *sql, const char *what, struct sw_err *err)
{
    return sw_sqlite_check(db, sqlite3_exec(db, sql, NULL, NULL, NULL), what, err);
}

/* ---- Statements ---- */

int sw_query_bind(sqlite3_stmt *st, int parameter, const struct sw_cell *c)
{
    switch (c->type) {
    case SW_CELL_INT:
        return sqlite3_bind_int64(st, parameter, c->i);
    case SW_CELL_REAL:
        return sqlite3_bind_double(st, parameter, c->r);
    case SW_CELL_TEXT:
        return sqlite3_bind_text(st, parameter, c->t, -1, SQLITE_STATIC);
    default:
        return sqlite3_bind_null(st, parameter);
    }
}

struct sw_query sw_query_begin(sqlite3 *db, const char *path, const char *sql,
                               const struct sw_cell *cells, size_t count, struct sw_err *err)
{
    struct sw_query q = {.db = db, .path = path, .err = err};

    int rc = sqlite3_prepare_v2(db, sql, -1, &q.st, NULL);
    int wanted = rc == SQLITE_OK ? sqlite3_bind_parameter_count(q.st) : 0;

    for (int i = 0; rc == SQLITE_OK && i < wanted && i < (int)count; i++)
        rc = sw_query_bind(q.st, i + 1, &cells[i]);

    q.code = sw_sqlite_check(db, rc, path, err);
    return q;
}

bool sw_query_next(struct sw_query *q)
{
    if (q->code)
        return false;

    int rc = sqlite3_step(q->st);
    q->code = sw_sqlite_check(q->db, rc, q->path, q->err);
    return !q->code && rc == SQLITE_ROW;
}

int sw_query_end(struct sw_query *q)
{
    sqlite3_finalize(q->st);
    q->st = NULL;
    return q->code;
}

int sw_query_once(sqlite3 *db, const char *path, const char *sql, const struct sw_cell *cells,
                  size_t count, int64_t *value, struct sw_err *err)
{
    struct sw_query q = sw_query_begin(db, path, sql, cells, count, err);

    if (sw_query_next(&q) && value)
        *value = sw_query_int(&q, 0);
    return sw_query_end(&q);
}

double sw_query_real(const struct sw_query *q, int column)
{
    return sqlite3_column_type(q->st, column) == SQLITE_NULL ? (double)NAN
                                                             : sqlite3_column_double(q->st, column);
}
