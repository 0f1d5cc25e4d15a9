/* The way round a database that cannot be written: OUT/metrics.jsonl, one row per line, appended
 * while the trouble lasts and merged when it is over. A file begins with {"row":"spool","id":...};
 * the database remembers per id how many bytes it has, in the transaction of the rows themselves,
 * so that a row is merged exactly once, whoever merges and whenever it is killed. So that others
 * find it, a spool is announced by a small file DB-spool/UID that holds its path, removed after the
 * merge. Lines stay in the spool: it is never cut or removed. A line that a full disk or a crash
 * cut short is skipped; its row is written again by its owner. Internal to this folder; one owner
 * per struct sw_spool. */
#pragma once

#include "base/log.h"
#include "history/store.h"

struct sw_spool {
    char *path;    /* owned; NULL: the run has no directory yet */
    char *db_path; /* owned */
    char uid[SW_UID_TEXT];
    bool started; /* the file has its head and this process' run and segment rows */
    bool waiting; /* it may hold lines that are not in the database */
};

/* Says where the rows of the run with that uid go; a file is made when there are any. Texts are
 * copied. Errors: SW_ERR_NOMEM. */
int sw_spool_init(struct sw_spool *s, const char *db_path, const char *out_dir, const char *uid,
                  struct sw_err *err) SW_MUST_CHECK;
void sw_spool_fini(struct sw_spool *s);

/* Appends whole lines and announces the spool. *taken is how many bytes of complete lines are in
 * the file, also when it fails in between (a full disk). Errors: SW_ERR_IO, SW_ERR_NOMEM. */
int sw_spool_append(struct sw_spool *s, const char *lines, size_t bytes, size_t *taken,
                    struct sw_err *err) SW_MUST_CHECK;

struct sw_merge {
    uint64_t rows;    /* applied */
    uint64_t refused; /* whole lines that the database cannot take */
    uint64_t damaged; /* lines that are no rows */
    bool more;        /* the spool goes on */
};
/* Applies the next part (about 1 MiB) of a spool file inside the caller's transaction. A file that
 * is gone or is no spool is an empty one. Errors: as sw_store_apply, SW_ERR_NOMEM, SW_ERR_IO. */
int sw_spool_merge_chunk(struct sw_store *store, const char *path, struct sw_merge *m,
                         struct sw_err *err) SW_MUST_CHECK;

/* Paths of all announced spools with the files that announce them. Owned by the list. */
struct sw_spool_list {
    struct sw_announced {
        char *announcement, *spool;
    } * items;
    size_t count;
};
/* An absent directory is an empty list. Errors: SW_ERR_NOMEM. */
int sw_spool_list(const char *db_path, struct sw_spool_list *list,
                  struct sw_err *err) SW_MUST_CHECK;
void sw_spool_list_fini(struct sw_spool_list *list);
/* Takes the announcement away after a merge that reached the end; should its owner have appended
 * meanwhile, it is put back. merged_bytes from sw_spool_bytes before the last part. */
void sw_spool_withdraw(const struct sw_announced *a, int64_t bytes_before);
int64_t sw_spool_bytes(const char *path); /* 0 when absent */
