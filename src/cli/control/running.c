/* Finds, asks and watches a running run. The contract is in cli/control/running.h. */
#include "cli/control/running.h"

#include "base/os.h"
#include "cli/history/run_text.h"
#include "cli/history/runs.h"
#include "history/control.h"
#include "history/process.h"
#include "machine/registry.h"
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { POLL_MS = 100, START_MS = 5000, EXIT_MS = 5000 };

static void nap(void)
{
    nanosleep(&(struct timespec){.tv_nsec = POLL_MS * 1000000L}, NULL);
}

/* ---- Finding ---- */

static int refuse(const struct sw_running *r, struct sw_err *err)
{
    char when[SW_RUN_TEXT];
    const struct sw_run *run = &r->run;

    if (run->ended_at > 0)
        return sw_err_set(err, SW_ERR_NOTFOUND, "%s is not running: %s since %s", r->title,
                          sw_run_status_name(run->status), sw_run_time_text(run->ended_at, when));
    return sw_err_set(err, SW_ERR_NOTFOUND, "%s is not running: %s", r->title,
                      sw_run_status_name(run->status));
}

/* Looks in the queue for a run of this user, the last one of this name; it is not in the history
 * yet. Returns rc, of the search in the history, if there is none. */
static int find_queued(struct sw_running *r, const char *name, int rc, struct sw_err *err)
{
    struct sw_registry *registry = NULL;
    struct sw_err ignored;

    if (sw_registry_open(&registry, &ignored) != SW_OK)
        return rc;

    for (int i = 0; i < sw_registry_count(registry); i++) {
        const struct sw_reserved *of = sw_registry_at(registry, i);

        if (of->state != SW_RESERVED_QUEUED || of->user != geteuid() || !sw_str_eq(of->name, name))
            continue;

        r->queued_pid = of->pid;
        snprintf(r->title, sizeof r->title, "run \"%s\" (pid %lld)", name, (long long)of->pid);
        rc = sw_err_set(err, SW_ERR_NOTFOUND,
                        "%s is queued and not running yet: it waits for %s; `singa-ws stop %s` "
                        "ends it",
                        r->title, of->waits_for, name);
    }
    sw_registry_close(registry);

    return rc;
}

static int find_running(struct sw_running *r, const struct sw_cli_common *common,
                        struct sw_err *err)
{
    int rc = sw_runs_open(common->db, NULL, &r->reader, &r->db, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_history_find(r->reader, common->args[0], &r->run, err);
    if (rc != SW_OK)
        return rc;

    sw_run_title(&r->run, r->title, sizeof r->title);
    return r->run.status == SW_RUN_RUNNING ? SW_OK : refuse(r, err);
}

int sw_running_find(struct sw_running *r, const struct sw_cli_common *common, struct sw_err *err)
{
    *r = (struct sw_running){0};

    int rc = find_running(r, common, err);
    return rc == SW_ERR_NOTFOUND ? find_queued(r, common->args[0], rc, err) : rc;
}

void sw_running_fini(struct sw_running *r)
{
    sw_history_reader_close(r->reader);
    sw_run_fini(&r->run);
    sw_free(r->db);
}

int sw_running_refresh(struct sw_running *r, struct sw_err *err)
{
    struct sw_run now = {0};

    int rc = sw_history_find_id(r->reader, r->run.id, &now, err);
    if (rc != SW_OK)
        return rc;

    sw_run_fini(&r->run);
    r->run = now;
    return SW_OK;
}

/* ---- Asking ---- */

/* Asks once; the socket of a run that has just begun may not exist yet. */
static int ask_once(const struct sw_running *r, const char *line, char *answer, size_t bytes,
                    struct sw_err *err)
{
    char *live = NULL, *path = NULL;

    int rc = sw_snapshot_find(r->run.uid, &live, err);
    if (rc != SW_OK)
        return rc;

    path = sw_control_path(live);
    rc = path ? sw_control_ask(path, line, answer, bytes, err)
              : sw_err_nomem(err, "path of the control socket", strlen(live));
    sw_free(path);
    sw_free(live);

    return rc;
}

static int explain_silence(const struct sw_running *r, struct sw_err *err)
{
    struct sw_process self;

    sw_process_self(&self);
    if (r->run.host && !sw_str_eq(r->run.host, self.host))
        return sw_err_set(err, SW_ERR_NOTFOUND,
                          "%s runs on %s, and this is %s: use `ssh %s singa-ws ...`", r->title,
                          r->run.host, self.host, r->run.host);
    return sw_err_set(err, SW_ERR_NOTFOUND,
                      "%s (pid %lld) does not listen on its control socket: use its user and "
                      "XDG_RUNTIME_DIR, or a signal (`kill %lld` stops it with a checkpoint)",
                      r->title, (long long)r->run.pid, (long long)r->run.pid);
}

int sw_running_ask(struct sw_running *r, const char *line, char *answer, size_t bytes,
                   struct sw_err *err)
{
    const int64_t until_ns = sw_os()->monotonic_ns() + (int64_t)START_MS * 1000000;
    int rc = ask_once(r, line, answer, bytes, err);

    while (rc == SW_ERR_NOTFOUND && sw_os()->monotonic_ns() < until_ns) {
        nap();
        rc = sw_running_refresh(r, err);
        if (rc != SW_OK)
            return rc;
        if (r->run.status != SW_RUN_RUNNING)
            return refuse(r, err);
        rc = ask_once(r, line, answer, bytes, err);
    }

    if (rc == SW_ERR_NOTFOUND)
        return explain_silence(r, err);
    if (rc != SW_OK)
        return sw_err_prefix(err, rc, "%s", r->title);
    if (sw_str_starts(answer, "error: "))
        return sw_err_set(err, SW_ERR_INVALID, "%s: %s", r->title, answer + strlen("error: "));
    if (sw_str_starts(answer, "ok: "))
        memmove(answer, answer + 4, strlen(answer + 4) + 1);

    return SW_OK;
}

int sw_running_tell(const struct sw_cli_common *common, const char *line)
{
    struct sw_running r;
    struct sw_err err;
    char answer[SW_CONTROL_LINE];

    int rc = sw_running_find(&r, common, &err);
    if (rc == SW_OK)
        rc = sw_running_ask(&r, line, answer, sizeof answer, &err);
    if (rc == SW_OK && !common->quiet)
        sw_cli_message("%s: %s", r.title, answer);
    sw_running_fini(&r);

    return rc == SW_OK ? SW_EXIT_DONE : sw_cli_fail(rc, &err);
}

/* ---- Watching ---- */

bool sw_live_read(const char *run_uid, struct sw_live *out)
{
    struct sw_snapshot_reader *reader = NULL;
    struct sw_err ignored;
    char *path = NULL;
    bool read = sw_snapshot_find(run_uid, &path, &ignored) == SW_OK &&
                sw_snapshot_reader_open(&reader, path, &ignored) == SW_OK;

    if (read)
        read = sw_snapshot_reader_state(reader, &out->state) &&
               sw_snapshot_reader_slot(reader, 0, &out->first);
    sw_snapshot_reader_close(reader);
    sw_free(path);

    return read;
}

int sw_running_leave_queue(const struct sw_running *r, bool wait, struct sw_err *err)
{
    if (kill((pid_t)r->queued_pid, SIGTERM) != 0 && errno != ESRCH)
        return sw_err_set(err, SW_ERR_IO, "%s cannot be stopped: %s", r->title, strerror(errno));

    while (wait && sw_process_alive(r->queued_pid, 0, NULL))
        nap();
    return SW_OK;
}

int sw_running_wait_end(struct sw_running *r, struct sw_err *err)
{
    int rc = SW_OK;

    while (rc == SW_OK && r->run.status == SW_RUN_RUNNING) {
        nap();
        rc = sw_running_refresh(r, err);
    }

    for (int ms = 0; ms < EXIT_MS && sw_process_alive(r->run.pid, 0, NULL); ms += POLL_MS)
        nap();
    return rc;
}

int sw_running_wait_pause(struct sw_running *r, bool released, int64_t *step, struct sw_err *err)
{
    struct sw_live live;

    for (;;) {
        if (sw_live_read(r->run.uid, &live) && live.first.phase == SW_PHASE_PAUSED &&
            (!released || sw_str_eq(live.first.name, "released")))
            break;

        int rc = sw_running_refresh(r, err);
        if (rc != SW_OK)
            return rc;
        if (r->run.status != SW_RUN_RUNNING)
            return refuse(r, err);
        nap();
    }

    *step = live.first.step;
    return SW_OK;
}
