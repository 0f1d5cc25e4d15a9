/* The writer's connection and its lock: opens the file, creates or migrates it under the flock,
 * begins and ends transactions, and checkpoints the WAL under the lock. store.h explains why every
 * write takes the lock. store.c applies rows. */
#include "base/os.h"
#include "history/store.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>

enum {
    BUSY_MS = 20,     /* busy timeout of SQLite; sw_store_begin repeats it until its own timeout */
    WAL_PAGES = 2000, /* 8 MiB: size from which the WAL is checkpointed */
};

int sw_store_init(struct sw_store *s, const char *path, struct sw_err *err)
{
    memset(s, 0, sizeof *s);
    s->lock_fd = -1;
    s->path = sw_strdup(path);
    return s->path ? SW_OK : sw_err_nomem(err, "path of the history", strlen(path) + 1);
}

static int make_parent(const char *path, struct sw_err *err)
{
    const char *slash = strrchr(path, '/');
    if (!slash || slash == path)
        return SW_OK;

    char *parent = sw_strdup(path);
    if (!parent)
        return sw_err_nomem(err, "path of the history", 0);

    parent[slash - path] = 0;

    int code = sw_os_mkdirs(parent, 0700, err);
    sw_free(parent);
    return code;
}

static int open_lock(struct sw_store *s, struct sw_err *err)
{
    if (s->lock_fd >= 0)
        return SW_OK;

    char *path = sw_format("%s-lock", s->path);
    if (!path)
        return sw_err_nomem(err, "path of the history's lock", 0);

    int code = SW_OK;

    s->lock_fd = sw_os()->open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (s->lock_fd < 0)
        code =
            sw_err_set(err, SW_ERR_IO, "cannot open the lock file %s: %s", path, strerror(errno));

    sw_free(path);
    return code;
}

static void sleep_ms(int ms)
{
    nanosleep(&(struct timespec){ms / 1000, (long)(ms % 1000) * 1000000}, NULL);
}

/* flock has no timeout, so it is retried every millisecond. */
static int take_lock(struct sw_store *s, int wait_ms, struct sw_err *err)
{
    int64_t until = sw_os()->monotonic_ns() + wait_ms * 1000000ll;

    while (flock(s->lock_fd, LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            return sw_err_set(err, SW_ERR_IO, "cannot lock %s: %s", s->path, strerror(errno));
        if (sw_os()->monotonic_ns() >= until)
            return sw_err_set(err, SW_ERR_BUSY, "%s is locked by another process", s->path);

        sleep_ms(1);
    }

    return SW_OK;
}

static void release_lock(struct sw_store *s)
{
    if (s->lock_fd >= 0)
        flock(s->lock_fd, LOCK_UN);
}

static int note_wal_pages(void *user, sqlite3 *db, const char *name, int pages)
{
    ((struct sw_store *)user)->wal_pages = pages;
    return SQLITE_OK;
}

/* Queries or sets the journal mode; *wal: the mode is now WAL. */
static int journal_is_wal(struct sw_store *s, const char *pragma, bool *wal, struct sw_err *err)
{
    struct sw_query q = sw_query_begin(s->db, s->path, pragma, NULL, 0, err);

    *wal = sw_query_next(&q) && sw_str_eq(sw_query_text(&q, 0), "wal");
    return sw_query_end(&q);
}

/* Under the lock: enables the WAL, which needs a file system with shared memory, and migrates the
 * schema. */
static int create_and_migrate(struct sw_store *s, struct sw_err *err)
{
    bool wal;
    int code = journal_is_wal(s, "PRAGMA journal_mode = WAL", &wal, err);
    if (code)
        return code;
    if (!wal)
        return sw_err_set(err, SW_ERR_IO,
                          "%s: the file system does not support the WAL mode of SQLite", s->path);

    return sw_schema_migrate(s->db, s->path, err);
}

static int open_file(struct sw_store *s, struct sw_err *err)
{
    int code = make_parent(s->path, err);
    if (code)
        return code;
    code = open_lock(s, err);
    if (code)
        return code;

    /* We create the file ourselves so that it is private. A file that cannot be opened for writing
     * may still be readable. */
    int fd = sw_os()->open(s->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0600);
    struct stat st;
    if (fd >= 0)
        sw_os()->close(fd);
    if (sw_os()->stat(s->path, &st) == 0 && sw_os_need_regular(s->path, &st, err) != SW_OK)
        return SW_ERR_FORMAT;

    int rc = sqlite3_open_v2(s->path, &s->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL);
    code = sw_sqlite_check(s->db, rc, s->path, err);
    if (code)
        return code;

    sqlite3_extended_result_codes(s->db, 1);
    sqlite3_busy_timeout(s->db, BUSY_MS);
    sw_sqlite_harden(s->db);

    if (sw_os()->stat(s->path, &st) == 0) {
        s->device = st.st_dev;
        s->inode = st.st_ino;
    }

    code = sw_sqlite_exec(s->db,
                          "PRAGMA wal_autocheckpoint = 0; PRAGMA foreign_keys = ON;"
                          "PRAGMA synchronous = NORMAL; PRAGMA temp_store = MEMORY;"
                          "PRAGMA journal_size_limit = 67108864",
                          s->path, err);

    /* The automatic checkpoint is a WAL hook; this one replaces it. */
    sqlite3_wal_hook(s->db, note_wal_pages, s);
    return code;
}

static int try_open(struct sw_store *s, int wait_ms, struct sw_err *err)
{
    bool wal = false;
    int version = 0, code = open_file(s, err);
    if (code)
        goto out;
    code = sw_schema_version(s->db, s->path, &version, err);
    if (code)
        goto out;
    code = journal_is_wal(s, "PRAGMA journal_mode", &wal, err);
    if (code)
        goto out;

    if (!wal || version < SW_SCHEMA_VERSION) {
        code = take_lock(s, wait_ms, err);
        if (!code)
            code = create_and_migrate(s, err);
        release_lock(s);
    }

out:
    if (code)
        sw_store_close(s);
    return code;
}

/* After a crash the first connection that opens the file recovers the WAL, and all others find the
 * database locked until it has. */
int sw_store_open(struct sw_store *s, int wait_ms, struct sw_err *err)
{
    int64_t until = sw_os()->monotonic_ns() + wait_ms * 1000000ll;
    int code = s->db ? SW_OK : try_open(s, wait_ms, err);

    while (code == SW_ERR_BUSY && sw_os()->monotonic_ns() < until) {
        sleep_ms(2);
        code = try_open(s, wait_ms, err);
    }

    return code;
}

/* The last connection that closes checkpoints the WAL. That is a write and needs the lock; without
 * the lock the WAL stays for the next connection. After the file was removed there must be no
 * checkpoint, since the WAL may be that of its successor. */
void sw_store_close(struct sw_store *s)
{
    for (int k = 0; k < SW_ROW_KINDS; k++)
        for (int i = 0; i < SW_STORE_STATEMENTS; i++) {
            sqlite3_finalize(s->statements[k][i]);
            s->statements[k][i] = NULL;
        }

    if (s->db) {
        bool locked = s->lock_fd >= 0 && !sw_store_moved(s) && take_lock(s, 200, NULL) == SW_OK;

        if (!locked)
            sqlite3_db_config(s->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
        sqlite3_close(s->db);
        s->db = NULL;
        if (locked)
            release_lock(s);
    }

    if (s->lock_fd >= 0)
        sw_os()->close(s->lock_fd);
    s->lock_fd = -1;
    memset(s->series, 0, sizeof s->series);
    s->cached_run = 0;
    s->wal_pages = 0;
}

void sw_store_fini(struct sw_store *s)
{
    sw_store_close(s);
    sw_free(s->path);
    s->path = NULL;
}

bool sw_store_moved(const struct sw_store *s)
{
    struct stat st;
    return sw_os()->stat(s->path, &st) != 0 || st.st_dev != s->device || st.st_ino != s->inode;
}

int sw_store_begin(struct sw_store *s, int wait_ms, struct sw_err *err)
{
    int64_t until = sw_os()->monotonic_ns() + wait_ms * 1000000ll;

    for (;;) {
        int64_t left_ms = (until - sw_os()->monotonic_ns()) / 1000000;
        int code = take_lock(s, left_ms > 0 ? (int)left_ms : 0, err);
        if (code)
            return code;
        code = sw_sqlite_exec(s->db, "BEGIN IMMEDIATE", s->path, err);
        if (!code) {
            s->cached_run = 0; /* others may have changed its summaries */
            return SW_OK;
        }

        release_lock(s);
        if (code != SW_ERR_BUSY || sw_os()->monotonic_ns() >= until)
            return code;

        sleep_ms(2);
    }
}

/* Checkpoints a large WAL. Readers may block a part of it, which is moved later. A failure is
 * harmless, since the rows are safe in the WAL. */
static void move_wal(struct sw_store *s)
{
    if (s->wal_pages < WAL_PAGES)
        return;
    sqlite3_wal_checkpoint_v2(s->db, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
    s->wal_pages = 0;
}

int sw_store_end(struct sw_store *s, int code, struct sw_err *err)
{
    if (!code)
        code = sw_sqlite_exec(s->db, "COMMIT", s->path, err);

    if (code) {
        sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
        /* The rollback may have undone inserts whose ids were cached. */
        memset(s->series, 0, sizeof s->series);
        s->cached_run = 0;
    } else {
        move_wal(s);
    }

    release_lock(s);
    return code;
}

int sw_store_exec(struct sw_store *s, const char *sql, int wait_ms, struct sw_err *err)
{
    int code = take_lock(s, wait_ms, err);
    if (code)
        return code;

    code = sw_sqlite_exec(s->db, sql, s->path, err);
    if (!code)
        sqlite3_wal_checkpoint_v2(s->db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
    s->wal_pages = 0;
    release_lock(s);

    return code;
}
