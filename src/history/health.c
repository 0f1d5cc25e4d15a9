/* Checks the history for `doctor`: the version of SQLite, file sizes, the schema version, unmerged
 * spools, and on request quick_check. Reads only. */
#include "history/health.h"

#include "base/os.h"
#include "base/str.h"
#include "history/history.h"
#include "history/reader_open.h"
#include <string.h>
#include <unistd.h>

enum { FIXED_IN = 3051003 };

static int64_t bytes_of(const char *path)
{
    struct stat st;
    return sw_os()->stat(path, &st) == 0 ? (int64_t)st.st_size : 0;
}

/* Stores the first problem that quick_check reports; its answer "ok" means none. */
static int run_quick_check(struct sw_history_reader *r, struct sw_history_health *out,
                           struct sw_err *err)
{
    struct sw_query q = sw_query_begin(r->db, r->path, "PRAGMA quick_check(1)", NULL, 0, err);
    const char *text = sw_query_next(&q) ? sw_query_text(&q, 0) : NULL;

    if (text && strcmp(text, "ok") != 0)
        snprintf(out->damage, sizeof out->damage, "%s", text);
    return sw_query_end(&q);
}

static int inspect(const char *path, bool check, struct sw_history_health *out, struct sw_err *err)
{
    struct sw_history_reader *r = NULL;
    int code = sw_history_reader_open(&r, path, err);
    if (code == SW_ERR_NOTFOUND) /* an empty file: no run has been recorded yet */
        return SW_OK;

    if (!code) {
        out->version = r->version;
        code = sw_query_once(r->db, path, "SELECT count(*) FROM runs", NULL, 0, &out->runs, err);
    }

    if (!code && check)
        code = run_quick_check(r, out, err);
    sw_history_reader_close(r);

    return code;
}

int sw_history_health(const char *path, bool check, struct sw_history_health *out,
                      struct sw_err *err)
{
    *out = (struct sw_history_health){.wal_reset_safe = sqlite3_libversion_number() >= FIXED_IN};
    snprintf(out->sqlite, sizeof out->sqlite, "%s", sqlite3_libversion());

    struct stat st;
    out->exists = sw_os()->stat(path, &st) == 0;
    out->writable = access(path, W_OK) == 0;

    out->waiting = sw_history_waiting(path);
    if (!out->exists)
        return SW_OK;

    char *wal = sw_format("%s-wal", path);
    if (!wal)
        return sw_err_nomem(err, "path of the WAL", 0);

    out->bytes = (int64_t)st.st_size;
    out->wal_bytes = bytes_of(wal);
    sw_free(wal);

    int code = inspect(path, check, out, err);
    if (code == SW_ERR_FORMAT || code == SW_ERR_UNSUPPORTED) {
        snprintf(out->damage, sizeof out->damage, "%.*s", (int)sizeof out->damage - 1, err->text);
        code = SW_OK;
    }

    return code;
}
