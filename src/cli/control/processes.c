/* Collects the runs of this machine. The contract is in cli/control/processes.h. */
#include "cli/control/processes.h"

#include "base/os.h"
#include "base/text.h"
#include "history/process.h"
#include <string.h>
#include <unistd.h>

/* Is it the same file? A database may be named in several ways. */
static bool is_same_file(const char *a, const char *b)
{
    struct stat x, y;
    return *a && b && sw_os()->stat(a, &x) == 0 && sw_os()->stat(b, &y) == 0 &&
           x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* The state of a run of this user by its live snapshot. */
static void read_live(struct sw_process_row *row)
{
    struct sw_live live;

    row->state = "starting";
    if (!*row->reserved.run_uid || !sw_live_read(row->reserved.run_uid, &live))
        return;

    row->step = live.first.done_step >= 0 ? live.first.done_step : 0;
    row->steps = live.state.steps_total;
    if (live.first.phase == SW_PHASE_PAUSED)
        row->state = "paused";
    else if (live.first.phase != SW_PHASE_START && live.first.phase != SW_PHASE_IDLE)
        row->state = "running";
}

static int add(struct sw_processes *p, const struct sw_reserved *of, bool registered,
               struct sw_err *err)
{
    struct sw_process_row *row = sw_array_add(&p->rows, &p->count, sizeof *row);
    if (!row)
        return sw_err_nomem(err, "the list of runs", sizeof *row);

    *row = (struct sw_process_row){.reserved = *of,
                                   .registered = registered,
                                   .is_ours = of->user == geteuid(),
                                   .state = "running",
                                   .step = -1,
                                   .steps = -1};
    if (of->state == SW_RESERVED_QUEUED)
        row->state = "queued";
    else if (row->is_ours)
        read_live(row);
    return SW_OK;
}

static int read_registry(struct sw_processes *p, const char *db, struct sw_err *err)
{
    struct sw_registry *registry = NULL;

    int rc = sw_registry_open(&registry, err);
    for (int i = 0; rc == SW_OK && i < sw_registry_count(registry); i++) {
        struct sw_reserved r = *sw_registry_at(registry, i);

        if (!is_same_file(r.history, db))
            r.run_id = 0; /* a number in another history */
        rc = add(p, &r, true, err);
    }
    sw_registry_close(registry);

    return rc;
}

/* ---- Runs that are not registered, such as those of programs that use the library ---- */

struct walk {
    struct sw_processes *p;
    struct sw_process self;
    struct sw_err *err;
};

static bool is_listed(const struct sw_processes *p, const char *uid)
{
    for (int i = 0; i < p->count; i++)
        if (sw_str_eq(p->rows[i].reserved.run_uid, uid))
            return true;
    return false;
}

static int visit(void *user, const struct sw_run *run)
{
    struct walk *w = user;
    struct sw_reserved r = {.pid = run->pid,
                            .user = geteuid(),
                            .run_id = run->id,
                            .since = run->segment_at > 0 ? run->segment_at : run->started_at};

    if (run->status != SW_RUN_RUNNING || !run->uid || is_listed(w->p, run->uid) || !run->host ||
        !sw_str_eq(run->host, w->self.host))
        return 0;

    sw_utf8_copy(r.run_uid, sizeof r.run_uid, run->uid);
    sw_utf8_copy(r.name, sizeof r.name, run->name ? run->name : "");
    return add(w->p, &r, false, w->err);
}

int sw_processes_read(struct sw_processes *p, struct sw_history_reader *reader, const char *db,
                      struct sw_err *err)
{
    struct walk w = {.p = p, .err = err};

    int rc = read_registry(p, db, err);
    if (rc != SW_OK || !reader)
        return rc;

    sw_process_self(&w.self);
    return sw_history_each_run(reader, visit, &w, err);
}

void sw_processes_fini(struct sw_processes *p)
{
    sw_free(p->rows);
    *p = (struct sw_processes){0};
}
