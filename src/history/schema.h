/* The schema of the history database: tables, views and their versions. Table, view and column
 * names are API: people query them. PRAGMA user_version is the schema's version; older files are
 * migrated when a writer opens them, newer ones are refused. Called by the owner of a connection.
 */
#pragma once

#include "base/err.h"
#include <sqlite3.h>
#include <stdint.h>

enum {
    SW_SCHEMA_VERSION = 5,
    SW_SCHEMA_APPLICATION_ID =
        0x53574853, /* "SWHS"; distinguishes our files from those of other programs */
};

/* Reads the version (0: an empty file). Errors: SW_ERR_FORMAT (another program's database,
 * damaged), SW_ERR_UNSUPPORTED (newer than this program), SW_ERR_BUSY, SW_ERR_IO. */
int sw_schema_version(sqlite3 *db, const char *path, int *version,
                      struct sw_err *err) SW_MUST_CHECK;
/* Migrates the file to SW_SCHEMA_VERSION in one transaction. Errors: those of sw_schema_version. */
int sw_schema_migrate(sqlite3 *db, const char *path, struct sw_err *err) SW_MUST_CHECK;
