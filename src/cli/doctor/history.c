/* The history: the SQLite library, the database file, and pending rows. */
#include "history/history.h"
#include "base/os.h"
#include "cli/doctor/doctor.h"
#include "history/health.h"

static void judge(struct sw_doctor *d, const char *path, const struct sw_history_health *h)
{
    char a[32];
    if (h->damage[0])
        sw_doctor_find(d, SW_FINDING_BAD, "history",
                       "runs cannot be written there; their rows wait in metrics.jsonl of their "
                       "folders",
                       "move the file away; the next run makes a new one and merges what waits. "
                       "'sqlite3 OLD .recover' may bring the rest back",
                       "%s: %s", path, h->damage);
    else if (h->exists && !h->writable)
        sw_doctor_find(d, SW_FINDING_BAD, "history", "runs cannot be written there",
                       "chmod u+w, or --db FILE elsewhere", "%s may only be read", path);
    else if (h->exists)
        sw_doctor_ok(d, "history", "%s: %lld runs, %s", path, (long long)h->runs,
                     sw_human_bytes(a, (double)h->bytes));
    else
        sw_doctor_ok(d, "history", "%s is not there yet; the first run makes it", path);
    if (h->waiting)
        sw_doctor_find(d, SW_FINDING_NOTE, "history", "'singa-ws history' does not show them yet",
                       "nothing: the next run or resume merges them",
                       "%d runs have rows that are not in the database yet", h->waiting);
    if (h->wal_bytes > 1ll << 30)
        sw_doctor_find(
            d, SW_FINDING_NOTE, "history",
            "a reader that stays open keeps it from "
            "shrinking",
            "end programs that have the history open (fuser), then 'singa-ws history gc'",
            "the write-ahead log has grown to %s", sw_human_bytes(a, (double)h->wal_bytes));
    sw_doctor_ok(d, "history", "SQLite %s%s", h->sqlite,
                 h->wal_reset_safe ? ""
                                   : ", whose WAL-reset bug our lock keeps away: change the "
                                     "file with other programs only while no run writes");
}

int sw_doctor_history(struct sw_doctor *d, struct sw_err *err)
{
    struct sw_history_health h;
    char *path = NULL;
    int code = sw_history_default_path(d->db, NULL, &path, err);
    if (!code)
        code = sw_history_health(path, !d->quick, &h, err);
    if (!code)
        judge(d, path, &h);
    else if (path) {
        sw_doctor_find(d, SW_FINDING_BAD, "history", "runs cannot be written there",
                       "--db FILE elsewhere, or mend what the message names", "%s", err->text);
        code = SW_OK;
    }
    sw_free(path);
    return code;
}
