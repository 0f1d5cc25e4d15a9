#include "history/schema.h"
#include "base/os.h"
#include "base/str.h"
#include "history/schema_tables.h"
#include <stdio.h>

static int code_of(int rc)
{
    switch (rc & 0xff) {
    case SQLITE_OK:
    case SQLITE_ROW:
    case SQLITE_DONE:
        return SW_OK;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_PROTOCOL: /* the WAL's own lock was not to be had */
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

int sw_sqlite_int(sqlite3 *db, const char *sql, int64_t *value, const char *what,
                  struct sw_err *err)
{
    sqlite3_stmt *s = NULL;
    int rc = sqlite3_prepare_v2(db, sql, -1, &s, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(s);
    int code = sw_sqlite_check(db, rc, what, err);
    if (!code)
        *value = rc == SQLITE_ROW ? sqlite3_column_int64(s, 0) : 0;
    sqlite3_finalize(s);
    return code;
}

/* What a file says it is. */
struct marks {
    int64_t user, application, tables;
};

static int read_marks(sqlite3 *db, const char *path, struct marks *m, struct sw_err *err)
{
    int code = sw_sqlite_int(db, "PRAGMA user_version", &m->user, path, err);
    if (!code)
        code = sw_sqlite_int(db, "PRAGMA application_id", &m->application, path, err);
    if (!code)
        code = sw_sqlite_int(db, "SELECT count(*) FROM sqlite_schema", &m->tables, path, err);
    return code;
}

/* All of one moment: another process may be making the tables just now. */
static int read_marks_at_once(sqlite3 *db, const char *path, struct marks *m, struct sw_err *err)
{
    if (!sqlite3_get_autocommit(db))
        return read_marks(db, path, m, err);
    int code = sw_sqlite_exec(db, "BEGIN", path, err);
    if (code)
        return code;
    code = read_marks(db, path, m, err);
    sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL); /* nothing was written */
    return code;
}

int sw_schema_version(sqlite3 *db, const char *path, int *version, struct sw_err *err)
{
    struct marks m = {0};
    int code = read_marks_at_once(db, path, &m, err);
    if (code)
        return code;
    if (m.application != SW_SCHEMA_APPLICATION_ID && (m.tables || m.user || m.application))
        return sw_err_set(err, SW_ERR_FORMAT,
                          "%s is a database of another program; give --db FILE or set SINGA_DB",
                          path);
    if (m.user > SW_SCHEMA_VERSION)
        return sw_err_set(
            err, SW_ERR_UNSUPPORTED,
            "%s was written by a newer singa-ws (schema %lld, this program knows %d); "
            "use that program, or another file with --db",
            path, (long long)m.user, SW_SCHEMA_VERSION);
    *version = (int)m.user;
    return SW_OK;
}

/* All views of the file, whatever version made them. */
static int drop_views(sqlite3 *db, const char *path, struct sw_err *err)
{
    sqlite3_stmt *st = NULL;
    struct sw_buf drops = {0};
    int rc =
        sqlite3_prepare_v2(db, "SELECT name FROM sqlite_schema WHERE type = 'view'", -1, &st, NULL);
    while (rc == SQLITE_OK || rc == SQLITE_ROW) {
        rc = sqlite3_step(st);
        if (rc == SQLITE_ROW)
            sw_buf_printf(&drops, "DROP VIEW \"%s\";", (const char *)sqlite3_column_text(st, 0));
    }
    int code = sw_sqlite_check(db, rc, path, err);
    sqlite3_finalize(st);
    if (!code && drops.failed)
        code = sw_err_nomem(err, "names of views", drops.length);
    if (!code)
        code = sw_sqlite_exec(db, sw_buf_text(&drops), path, err);
    sw_buf_fini(&drops);
    return code;
}

static int migrate_in_transaction(sqlite3 *db, const char *path, struct sw_err *err)
{
    int version, code = sw_schema_version(db, path, &version, err);
    if (!code)
        code = drop_views(db, path, err);
    for (int v = version; !code && v < SW_SCHEMA_VERSION; v++)
        code = sw_sqlite_exec(db, sw_schema_tables[v], path, err);
    if (!code)
        code = sw_sqlite_exec(db, sw_schema_views, path, err);
    char pragmas[96];
    snprintf(pragmas, sizeof pragmas, "PRAGMA application_id = %d; PRAGMA user_version = %d",
             SW_SCHEMA_APPLICATION_ID, SW_SCHEMA_VERSION);
    return code ? code : sw_sqlite_exec(db, pragmas, path, err);
}

int sw_schema_migrate(sqlite3 *db, const char *path, struct sw_err *err)
{
    int version, code = sw_schema_version(db, path, &version, err);
    if (code || version == SW_SCHEMA_VERSION)
        return code;
    code = sw_sqlite_exec(db, "BEGIN IMMEDIATE", path, err);
    if (code)
        return code;
    code = migrate_in_transaction(db, path, err);
    if (!code)
        code = sw_sqlite_exec(db, "COMMIT", path, err);
    if (code)
        sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
    return code;
}
