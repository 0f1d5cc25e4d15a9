/* The spool replaces a database that cannot be written: OUT/metrics.jsonl, one row per line, is
 * appended to while the database is unavailable and merged afterwards. A file begins with
 * {"row":"spool","id":...}. The database stores per id how many bytes have been merged, in the same
 * transaction as the rows, so that each row is merged exactly once, whichever process merges and
 * whenever it is killed. A spool is announced to other processes by a small file DB-spool/UID (of
 * another host of the run: UID.NUMBER) that contains its path and is removed after the merge. The
 * spool itself is never truncated or removed. A line that a full disk or a crash truncated is
 * skipped; its owner writes the row again. Internal to this folder; one owner per struct sw_spool.
 */
#pragma once

#include "base/log.h"
#include "history/store.h"

struct sw_spool {
    char *path;                 /* owned; NULL: the run has no directory yet */
    char *db_path;              /* owned */
    char name[SW_UID_TEXT + 8]; /* of its announcement: the uid, of another host UID.NUMBER */
    bool started; /* the file has its head and the run and segment rows of this process */
    bool waiting; /* it may hold lines that are not in the database */
};

/* Sets the path of the spool of the run with that uid; the file is created with the first rows.
 * Texts are copied. Errors: SW_ERR_NOMEM. */
int sw_spool_init(struct sw_spool *s, const char *db_path, const char *out_dir, const char *uid,
                  struct sw_err *err) SW_MUST_CHECK;
/* The same for host `number` of the run, which is called `host` (part.h). */
int sw_spool_init_part(struct sw_spool *s, const char *db_path, const char *out_dir,
                       const char *uid, int number, const char *host,
                       struct sw_err *err) SW_MUST_CHECK;
void sw_spool_fini(struct sw_spool *s);

/* Appends complete lines and announces the spool. *taken is the number of bytes of complete lines
 * that were written, also after an error (a full disk). Errors: SW_ERR_IO, SW_ERR_NOMEM. */
int sw_spool_append(struct sw_spool *s, const char *lines, size_t bytes, size_t *taken,
                    struct sw_err *err) SW_MUST_CHECK;

struct sw_merge {
    uint64_t rows;    /* applied */
    uint64_t refused; /* complete lines that violate a constraint */
    uint64_t damaged; /* lines that are not rows */
    int64_t offset;   /* up to where the file is merged */
    bool more;        /* the spool has further chunks */
};
/* Applies the next chunk (about 1 MiB) of a spool file inside the caller's transaction. A missing
 * file, or one that is not a spool, counts as empty. Errors: those of sw_store_apply, SW_ERR_NOMEM,
 * SW_ERR_IO. */
int sw_spool_merge_chunk(struct sw_store *store, const char *path, struct sw_merge *m,
                         struct sw_err *err) SW_MUST_CHECK;

/* Paths of all announced spools and of their announcements, owned by the list. */
struct sw_spool_list {
    struct sw_announced {
        char *announcement, *spool;
    } * items;
    size_t count;
};
/* Lists the announced spools; a missing directory gives an empty list. Errors: SW_ERR_NOMEM. */
int sw_spool_list(const char *db_path, struct sw_spool_list *list,
                  struct sw_err *err) SW_MUST_CHECK;
void sw_spool_list_fini(struct sw_spool_list *list);
/* Removes the announcement after a merge that reached the end of the spool; restores it if the
 * owner has appended meanwhile. bytes_before is sw_spool_bytes before the last chunk was merged. */
void sw_spool_withdraw(const struct sw_announced *a, int64_t bytes_before);
int64_t sw_spool_bytes(const char *path); /* size of the file; 0: missing */
