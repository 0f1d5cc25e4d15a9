/* Reads application id, version and number of tables of a file in one transaction, and migrates it
 * version by version in another; views are dropped and created again. The SQL is in
 * schema_tables.c. */
#include "history/schema.h"
#include "base/os.h"
#include "base/str.h"
#include "history/schema_tables.h"
#include "history/sqlite.h"
#include <stdio.h>

/* What identifies a file. */
struct marks {
    int64_t user, application, tables;
};

static int read_marks(sqlite3 *db, const char *path, struct marks *m, struct sw_err *err)
{
    const struct {
        const char *sql;
        int64_t *value;
    } marks[] = {{"PRAGMA user_version", &m->user},
                 {"PRAGMA application_id", &m->application},
                 {"SELECT count(*) FROM sqlite_schema", &m->tables}};

    int code = SW_OK;

    for (size_t i = 0; !code && i < sizeof marks / sizeof *marks; i++)
        code = sw_query_once(db, path, marks[i].sql, NULL, 0, marks[i].value, err);

    return code;
}

/* Reads all marks in one transaction, since another process may be creating the tables now. */
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
        return sw_err_set(
            err, SW_ERR_FORMAT,
            "%s is a database of another program; use another file with --db FILE or SINGA_DB",
            path);

    if (m.user > SW_SCHEMA_VERSION)
        return sw_err_set(
            err, SW_ERR_UNSUPPORTED,
            "%s was written by a newer singa-ws (schema version %lld, this program supports %d); "
            "use that program, or another file with --db",
            path, (long long)m.user, SW_SCHEMA_VERSION);

    *version = (int)m.user;
    return SW_OK;
}

/* Drops all views of the file, whatever version created them. */
static int drop_views(sqlite3 *db, const char *path, struct sw_err *err)
{
    static const char sql[] = "SELECT name FROM sqlite_schema WHERE type = 'view'";
    struct sw_bytes drops = {0};
    struct sw_query q = sw_query_begin(db, path, sql, NULL, 0, err);

    while (sw_query_next(&q))
        sw_bytes_printf(&drops, "DROP VIEW \"%s\";", sw_query_text(&q, 0));

    int code = sw_query_end(&q);
    if (!code && drops.failed)
        code = sw_err_nomem(err, "names of views", drops.length);
    if (!code)
        code = sw_sqlite_exec(db, sw_bytes_text(&drops), path, err);
    sw_bytes_fini(&drops);

    return code;
}

static int migrate_in_transaction(sqlite3 *db, const char *path, struct sw_err *err)
{
    int version, code = sw_schema_version(db, path, &version, err);
    if (code)
        return code;
    code = drop_views(db, path, err);
    if (code)
        return code;

    for (int v = version; v < SW_SCHEMA_VERSION; v++) {
        code = sw_sqlite_exec(db, sw_schema_tables[v], path, err);
        if (code)
            return code;
    }

    code = sw_sqlite_exec(db, sw_schema_views, path, err);
    if (code)
        return code;

    char pragmas[96];
    snprintf(pragmas, sizeof pragmas, "PRAGMA application_id = %d; PRAGMA user_version = %d",
             SW_SCHEMA_APPLICATION_ID, SW_SCHEMA_VERSION);

    return sw_sqlite_exec(db, pragmas, path, err);
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
