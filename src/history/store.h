/* The connection of a writer: opens and creates the file, takes the writers' lock, applies rows.
 * Every write and every checkpoint of the WAL happens between sw_store_begin and sw_store_end,
 * under an exclusive flock on DB-lock: SQLite before 3.51.3 can lose pages when a write coincides
 * with the checkpoint of another connection (sqlite.org/wal.html, "WAL-reset bug"), and the flock
 * prevents that. No function waits longer than its wait_ms. Internal to this folder; the owner is
 * the thread that sets the run up, then the writer thread. */
#pragma once

#include "history/schema.h"
#include "history/sqlite.h"
#include <sys/types.h>

enum { SW_STORE_SERIES = 1024, SW_STORE_STATEMENTS = 10 };

struct sw_store {
    char *path;    /* owned */
    sqlite3 *db;   /* NULL: closed */
    int lock_fd;   /* -1: closed */
    dev_t device;  /* device and inode of the file when it was opened: if they differ */
    ino_t inode;   /* from those of path now, the file was removed or replaced */
    int wal_pages; /* after the last commit */
    sqlite3_stmt *statements[SW_ROW_KINDS][SW_STORE_STATEMENTS];
    int64_t series[SW_STORE_SERIES]; /* ids by handle; 0: not looked up */
    char cached_uid[SW_UID_TEXT];    /* uid of the run last looked up in this transaction */
    int64_t cached_run;
    int64_t summed_to;   /* last step that the summaries of that run cover */
    int64_t newest_step; /* newest step of the rows of that run since its first look-up */
};

/* path is copied; nothing is opened. Errors: SW_ERR_NOMEM. */
int sw_store_init(struct sw_store *s, const char *path, struct sw_err *err) SW_MUST_CHECK;
void sw_store_fini(struct sw_store *s); /* closes */

/* Opens, creates (directory 0700, file 0600) and migrates the file, unless it is open. Waits at
 * most wait_ms for a locked database. Errors: SW_ERR_BUSY, SW_ERR_IO (also: no WAL on this file
 * system), SW_ERR_FORMAT, SW_ERR_UNSUPPORTED (newer schema), SW_ERR_NOMEM. */
int sw_store_open(struct sw_store *s, int wait_ms, struct sw_err *err) SW_MUST_CHECK;
void sw_store_close(struct sw_store *s);
/* Whether path no longer names the open file. */
bool sw_store_moved(const struct sw_store *s);

/* Takes the lock within wait_ms and begins a transaction. Errors: SW_ERR_BUSY, SW_ERR_IO, ... */
int sw_store_begin(struct sw_store *s, int wait_ms, struct sw_err *err) SW_MUST_CHECK;
/* Ends the transaction: commits if code is SW_OK, else rolls back; checkpoints the WAL if it is
 * large; releases the lock. Returns code, or the error of the commit. */
int sw_store_end(struct sw_store *s, int code, struct sw_err *err) SW_MUST_CHECK;

/* Runs, under the lock, a statement that is not allowed in a transaction; then checkpoints the
 * whole WAL as far as readers allow. */
int sw_store_exec(struct sw_store *s, const char *sql, int wait_ms,
                  struct sw_err *err) SW_MUST_CHECK;

/* Finds the id of a run; 0: the run is not in the database. */
int sw_store_run_id(struct sw_store *s, const char *uid, int64_t *run_id,
                    struct sw_err *err) SW_MUST_CHECK;
/* Applies one row of the run. SW_ERR_INVALID: the row cannot be stored (it violates a constraint,
 * or its run is unknown), but the transaction can continue; after any other error it must be rolled
 * back. */
int sw_store_apply(struct sw_store *s, const char *uid, const struct sw_row *row,
                   struct sw_err *err) SW_MUST_CHECK;
/* Updates the summaries of the run whose rows were applied last, if enough rows were added since.
 * Called inside a transaction; costs about 0.2 us per row. */
int sw_store_update_summaries(struct sw_store *s, struct sw_err *err) SW_MUST_CHECK;
/* Reads the stored row of a run (SW_ROW_RUN); the caller frees *row with sw_row_free. Errors:
 * SW_ERR_NOTFOUND. May be called outside a transaction. */
int sw_store_read_run(struct sw_store *s, int64_t run_id, struct sw_row **row,
                      struct sw_err *err) SW_MUST_CHECK;

/* Reads and sets the number of merged bytes of a spool (0: none), in the same transaction as the
 * rows. */
int sw_store_spool_offset(struct sw_store *s, const char *spool_id, int64_t *bytes,
                          struct sw_err *err) SW_MUST_CHECK;
int sw_store_set_spool_offset(struct sw_store *s, const char *spool_id, const char *path,
                              int64_t bytes, struct sw_err *err) SW_MUST_CHECK;
