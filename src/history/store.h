/* The writer's connection: opens and creates the file, holds the lock of all writers, applies rows.
 * Every write and every checkpoint of the WAL happens between sw_store_begin and sw_store_end,
 * under an exclusive flock on DB-lock: SQLite before 3.51.3 can lose pages when a write meets the
 * checkpoint of another connection at the wrong moment (sqlite.org/wal.html, "WAL-reset bug"), and
 * with the flock they never meet. Nothing here waits longer than it is told. Internal to this
 * folder; one owner: the thread that sets the run up, then the writer thread. */
#pragma once

#include "history/schema.h"
#include "history/sqlite.h"
#include <sys/types.h>

enum { SW_STORE_SERIES = 1024, SW_STORE_STATEMENTS = 10 };

struct sw_store {
    char *path;    /* owned */
    sqlite3 *db;   /* NULL: closed */
    int lock_fd;   /* -1: closed */
    dev_t device;  /* of the file when it was opened: another one there now means that it was */
    ino_t inode;   /* removed or replaced */
    int wal_pages; /* after the last commit */
    sqlite3_stmt *statements[SW_ROW_KINDS][SW_STORE_STATEMENTS];
    int64_t series[SW_STORE_SERIES]; /* ids by handle; 0: not looked up */
    char cached_uid[SW_UID_TEXT]; /* of the run last looked up in this transaction, with its id */
    int64_t cached_run;
    int64_t summed_to;   /* of that run: what its summaries cover */
    int64_t newest_step; /* of that run's rows since it was looked up first */
};

/* path is copied; nothing is opened. Errors: SW_ERR_NOMEM. */
int sw_store_init(struct sw_store *s, const char *path, struct sw_err *err) SW_MUST_CHECK;
void sw_store_fini(struct sw_store *s); /* closes */

/* Opens, creates (directory 0700, file 0600) and migrates, unless open. A database that is locked,
 * or that is to be created, is waited for, at most wait_ms. Errors: SW_ERR_BUSY, SW_ERR_IO (also:
 * no WAL on this file system), SW_ERR_FORMAT, SW_ERR_UNSUPPORTED (newer schema), SW_ERR_NOMEM. */
int sw_store_open(struct sw_store *s, int wait_ms, struct sw_err *err) SW_MUST_CHECK;
void sw_store_close(struct sw_store *s);
/* True when the open file no longer is the one at path. */
bool sw_store_moved(const struct sw_store *s);

/* Takes the lock within wait_ms and begins a transaction. Errors: SW_ERR_BUSY, SW_ERR_IO, ... */
int sw_store_begin(struct sw_store *s, int wait_ms, struct sw_err *err) SW_MUST_CHECK;
/* Ends it: commits when code is SW_OK, else rolls back; moves the WAL into the file when it has
 * grown; gives the lock back. Returns code, or what the commit answered. */
int sw_store_end(struct sw_store *s, int code, struct sw_err *err) SW_MUST_CHECK;

/* Under the lock, a statement that cannot stand in a transaction; then the whole WAL is moved into
 * the file, as far as readers let it. */
int sw_store_exec(struct sw_store *s, const char *sql, int wait_ms,
                  struct sw_err *err) SW_MUST_CHECK;

/* The id of a run, 0 when the database does not know it. */
int sw_store_run_id(struct sw_store *s, const char *uid, int64_t *run_id,
                    struct sw_err *err) SW_MUST_CHECK;
/* Applies one row of the run. SW_ERR_INVALID: this row cannot be stored (it breaks a constraint, or
 * its run is unknown) but the transaction goes on; every other error means rolling back. */
int sw_store_apply(struct sw_store *s, const char *uid, const struct sw_row *row,
                   struct sw_err *err) SW_MUST_CHECK;
/* Brings the summaries of the run whose rows were applied last up to date, where that has become
 * worth it. Inside a transaction; costs about 0.2 us for each row that is added up. */
int sw_store_update_summaries(struct sw_store *s, struct sw_err *err) SW_MUST_CHECK;
/* Fills row (SW_ROW_RUN) with what is stored of a run; texts are owned by *row, a sw_row_copy.
 * Errors: SW_ERR_NOTFOUND. Works without sw_store_begin. */
int sw_store_read_run(struct sw_store *s, int64_t run_id, struct sw_row **row,
                      struct sw_err *err) SW_MUST_CHECK;

/* How much of a spool was merged; 0 when nothing. And to note it, in the rows' own transaction. */
int sw_store_spool_offset(struct sw_store *s, const char *spool_id, int64_t *bytes,
                          struct sw_err *err) SW_MUST_CHECK;
int sw_store_set_spool_offset(struct sw_store *s, const char *spool_id, const char *path,
                              int64_t bytes, struct sw_err *err) SW_MUST_CHECK;
