/* The reader's connection, shared by reader.c (runs), reader_rows.c and reader_sql.c (queries of
 * the user's own). Internal to this folder. */
#pragma once

#include "history/process.h"
#include "history/reader.h"
#include "history/sqlite.h"

struct sw_history_reader {
    sqlite3 *db;
    char *path;             /* owned */
    int version;            /* the schema's: an older file has neither summaries nor their views */
    struct sw_process self; /* to tell runs of this host and boot */
};
