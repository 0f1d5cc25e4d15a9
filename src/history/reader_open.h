/* The connection of a reader, shared by reader.c (runs), reader_rows.c (rows) and reader_sql.c (SQL
 * of users). Internal to this folder. */
#pragma once

#include "history/process.h"
#include "history/reader.h"
#include "history/sqlite.h"

struct sw_history_reader {
    sqlite3 *db;
    char *path;  /* owned */
    int version; /* version of the schema; a file of version 1 has no summaries and views of them */
    struct sw_process self; /* to recognize runs of this host and boot */
};
