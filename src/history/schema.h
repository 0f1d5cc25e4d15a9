/* The schema of the history database: tables, views and their versions. Table, view and column
 * names are API: people query them. PRAGMA user_version is the schema's version; older files are
 * migrated forward when a writer opens them, newer ones are refused with a clear sentence.
 * Called by the owner of a connection. */
#ifndef SW_HISTORY_SCHEMA_H
#define SW_HISTORY_SCHEMA_H

#include "base/err.h"
#include <sqlite3.h>
#include <stdint.h>

enum {
    SW_SCHEMA_VERSION = 3,
    SW_SCHEMA_APPLICATION_ID = 0x53574853, /* "SWHS": tells our files from other people's */
};

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
/* The first column of the first row as an integer; 0 without a row. */
int sw_sqlite_int(sqlite3 *db, const char *sql, int64_t *value, const char *what,
                  struct sw_err *err) SW_MUST_CHECK;

/* Reads the version (0: an empty file). Errors: SW_ERR_FORMAT (another program's database,
 * damaged), SW_ERR_UNSUPPORTED (newer than this program), SW_ERR_BUSY, SW_ERR_IO. */
int sw_schema_version(sqlite3 *db, const char *path, int *version,
                      struct sw_err *err) SW_MUST_CHECK;
/* Brings the file to SW_SCHEMA_VERSION in one transaction. Errors as above. */
int sw_schema_migrate(sqlite3 *db, const char *path, struct sw_err *err) SW_MUST_CHECK;

#endif
