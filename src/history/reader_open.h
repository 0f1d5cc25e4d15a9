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

/* Stores the first columns of a row in the fields of a struct, by their types: i int64_t; d
 * int32_t; n int, -1 for NULL; r double, NaN for NULL; z double, 0 for NULL; f float; t text, ""
 * for NULL; o text or NULL; texts are borrowed until the next row. Returns the bytes that were
 * filled. */
size_t sw_query_take(const struct sw_query *q, const char *types, void *row);
