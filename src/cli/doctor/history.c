/* The history: the SQLite library, the database file, and pending rows. */
#include "history/history.h"
#include "base/os.h"
#include "cli/doctor/doctor.h"
#include "history/health.h"

static void report_health(struct sw_doctor *d, const char *path, const struct sw_history_health *h)
{
    char a[32];

    if (h->damage[0])
        sw_doctor_find(
            d, SW_FINDING_BAD, "history",
            "runs cannot be recorded there; their rows stay in metrics.jsonl of their "
            "folders",
            "move the file away; the next run creates a new one and merges pending rows. "
            "'sqlite3 OLD .recover' may recover the rest",
            "%s: %s", path, h->damage);
    else if (h->exists && !h->writable)
        sw_doctor_find(d, SW_FINDING_BAD, "history", "runs cannot be recorded there",
                       "chmod u+w, or another file with --db FILE", "%s is read-only", path);
    else if (h->exists)
        sw_doctor_ok(d, "history", "%s: %lld runs, %s", path, (long long)h->runs,
                     sw_human_bytes(a, (double)h->bytes));
    else
        sw_doctor_ok(d, "history", "%s does not exist yet; the first run creates it", path);

    if (h->waiting)
        sw_doctor_find(d, SW_FINDING_NOTE, "history", "'singa-ws history' does not show them yet",
                       "none needed: the next run or resume merges them",
                       "%d runs have rows that are not yet in the database", h->waiting);

    if (h->wal_bytes > 1ll << 30)
        sw_doctor_find(
            d, SW_FINDING_NOTE, "history",
            "a program that keeps the history open prevents it from shrinking",
            "end programs that have the history open (see fuser), then run 'singa-ws history gc'",
            "the write-ahead log has grown to %s", sw_human_bytes(a, (double)h->wal_bytes));

    sw_doctor_ok(d, "history", "SQLite %s%s", h->sqlite,
                 h->wal_reset_safe ? ""
                                   : ", whose WAL-reset bug singa-ws avoids with a lock: "
                                     "modify the file with other programs only while no run "
                                     "writes");
}

int sw_doctor_history(struct sw_doctor *d, struct sw_err *err)
{
    struct sw_history_health h;
    char *path = NULL;
    int code = sw_history_default_path(d->db, NULL, &path, err);

    if (!code)
        code = sw_history_health(path, !d->quick, &h, err);

    if (!code)
        report_health(d, path, &h);
    else if (path) {
        sw_doctor_find(d, SW_FINDING_BAD, "history", "runs cannot be recorded there",
                       "see the message, or use another file with --db FILE", "%s", err->text);
        code = SW_OK;
    }

    sw_free(path);
    return code;
}
