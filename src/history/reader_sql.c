/* SQL queries of users. They are read-only in three ways: the file is opened read-only, query_only
 * is on, and the authorizer below allows only actions that read. */
#include "base/os.h"
#include "history/reader_open.h"

/* Pragmas that only read, with or without an argument. */
static const char *const reading_pragmas[] = {
    "table_info",  "table_xinfo",     "table_list",     "index_list",        "index_info",
    "index_xinfo", "database_list",   "collation_list", "function_list",     "compile_options",
    "pragma_list", "integrity_check", "quick_check",    "foreign_key_check", "foreign_key_list",
};
/* Pragmas that read if they have no argument. */
static const char *const bare_pragmas[] = {
    "user_version", "application_id", "journal_mode", "page_count", "page_size",
    "encoding",     "freelist_count", "foreign_keys", "query_only", "wal_autocheckpoint",
};

/* Functions that access files, run code, or return memory addresses (fts3_tokenizer, fts5). The
 * last ones belong to the sqlite3 shell; a library may be built with them. */
static const char *const refused_functions[] = {
    "load_extension", "fts3_tokenizer", "fts5", "optimize", "readfile", "writefile", "edit",
};

static bool is_in(const char *const *names, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (sqlite3_stricmp(names[i], name) == 0)
            return true;
    return false;
}

static int allow_reading(void *user, int action, const char *a, const char *b, const char *database,
                         const char *trigger)
{
    switch (action) {
    case SQLITE_SELECT:
    case SQLITE_READ:
    case SQLITE_RECURSIVE:
        return SQLITE_OK;
    case SQLITE_FUNCTION:
        return b && is_in(refused_functions, sizeof refused_functions / sizeof *refused_functions,
                          b)
                   ? SQLITE_DENY
                   : SQLITE_OK;
    case SQLITE_PRAGMA:
        if (is_in(reading_pragmas, sizeof reading_pragmas / sizeof *reading_pragmas, a) ||
            (!b && is_in(bare_pragmas, sizeof bare_pragmas / sizeof *bare_pragmas, a)))
            return SQLITE_OK;
        return SQLITE_DENY;
    default:
        return SQLITE_DENY;
    }
}

static int refuse(struct sw_history_reader *r, int rc, struct sw_err *err)
{
    if (rc == SQLITE_AUTH || rc == SQLITE_READONLY)
        return sw_err_set(
            err, SW_ERR_INVALID,
            "SQL: only reading statements (SELECT) are allowed, without functions that access "
            "anything outside the database");

    if (rc == SQLITE_ERROR || rc == SQLITE_TOOBIG || rc == SQLITE_RANGE || rc == SQLITE_MISMATCH)
        return sw_err_set(err, SW_ERR_INVALID, "SQL: %s", sqlite3_errmsg(r->db));
    return sw_sqlite_check(r->db, rc, r->path, err);
}

/* Prepares a statement that only blanks, semicolons and comments may follow. */
static int prepare_one(struct sw_history_reader *r, const char *sql, sqlite3_stmt **st,
                       struct sw_err *err)
{
    const char *tail = NULL;
    sqlite3_stmt *second = NULL;

    *st = NULL;

    int rc = sqlite3_prepare_v2(r->db, sql, -1, st, &tail);
    if (rc != SQLITE_OK)
        return refuse(r, rc, err);
    if (!*st)
        return sw_err_set(err, SW_ERR_INVALID, "SQL: the query is empty");
    if (!sqlite3_stmt_readonly(*st))
        return refuse(r, SQLITE_READONLY, err);

    rc = sqlite3_prepare_v2(r->db, tail, -1, &second, NULL);
    sqlite3_finalize(second);
    if (rc != SQLITE_OK || second)
        return sw_err_set(err, SW_ERR_INVALID,
                          "SQL: more than one statement; pass one statement at a time");

    return SW_OK;
}

static struct sw_history_cell cell_of(sqlite3_stmt *st, int column)
{
    /* The type is read first, because reading the text may change it. */
    int type = sqlite3_column_type(st, column);
    return (struct sw_history_cell){(const char *)sqlite3_column_text(st, column),
                                    type == SQLITE_INTEGER || type == SQLITE_FLOAT};
}

static int walk(struct sw_history_reader *r, sqlite3_stmt *st, struct sw_history_cell *cells,
                sw_history_row *each, void *user, struct sw_err *err)
{
    int columns = sqlite3_column_count(st), rc;

    for (int i = 0; i < columns; i++)
        cells[i] = (struct sw_history_cell){sqlite3_column_name(st, i), false};

    int code = each(user, -1, columns, cells);
    for (int64_t row = 0; !code && (rc = sqlite3_step(st)) != SQLITE_DONE; row++) {
        if (rc != SQLITE_ROW)
            return refuse(r, rc, err);

        for (int i = 0; i < columns; i++)
            cells[i] = cell_of(st, i);
        code = each(user, row, columns, cells);
    }

    return code;
}

int sw_history_sql(struct sw_history_reader *r, const char *sql, sw_history_row *each, void *user,
                   struct sw_err *err)
{
    sqlite3_stmt *st = NULL;
    struct sw_history_cell *cells = NULL;

    sqlite3_set_authorizer(r->db, allow_reading, NULL);

    int code = prepare_one(r, sql, &st, err);
    if (!code) {
        size_t columns = (size_t)sqlite3_column_count(st);
        cells = sw_calloc(columns ? columns : 1, sizeof *cells);
        code = cells ? walk(r, st, cells, each, user, err)
                     : sw_err_nomem(err, "cells of a row", columns * sizeof *cells);
    }

    sw_free(cells);
    sqlite3_finalize(st);
    sqlite3_set_authorizer(r->db, NULL, NULL);

    return code;
}
