/* The schema of the history database: tables, views and their versions. Table, view and column
 * names are API: people query them. PRAGMA user_version is the schema's version; older files are
 * migrated forward when a writer opens them, newer ones are refused with a clear sentence.
 * Called by the owner of a connection. */
#pragma once

#include "base/err.h"
#include <sqlite3.h>
#include <stdint.h>

enum {
    SW_SCHEMA_VERSION = 3,
    SW_SCHEMA_APPLICATION_ID = 0x53574853, /* "SWHS": tells our files from other people's */
};

/* Reads the version (0: an empty file). Errors: SW_ERR_FORMAT (another program's database,
 * damaged), SW_ERR_UNSUPPORTED (newer than this program), SW_ERR_BUSY, SW_ERR_IO. */
int sw_schema_version(sqlite3 *db, const char *path, int *version,
                      struct sw_err *err) SW_MUST_CHECK;
/* Brings the file to SW_SCHEMA_VERSION in one transaction. Errors as above. */
int sw_schema_migrate(sqlite3 *db, const char *path, struct sw_err *err) SW_MUST_CHECK;
