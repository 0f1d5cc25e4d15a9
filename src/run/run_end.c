/* The end of a run: its roles in fixed order, what came of it, and what is closed behind it. */
#include "base/os.h"
#include "history/control.h"
#include "run/job_private.h"
#include "run/run.h"
#include "worker/server.h"
#include "worker/worker.h"

enum { SHUTDOWN_MS = 5000 };

static int left_ms(int64_t until_ns)
{
    int64_t ms = (until_ns - sw_os()->monotonic_ns()) / 1000000;
    return ms > 0 ? (int)ms : 0;
}

/* Every role in order, each with what is left of the time. The name of one that did not end, or
 * NULL. */
const char *sw_run_end_roles(struct sw_job *job)
{
    static const char *const readers[SW_SPLITS] = {"prefetch of training data",
                                                   "prefetch of evaluation data"};
    int64_t until_ns = sw_os()->monotonic_ns() + (int64_t)SHUTDOWN_MS * 1000000;
    for (int i = 0; i < job->topology->workers; i++)
        for (int s = 0; s < SW_SPLITS; s++) {
            struct sw_prefetch *p = job->workers[i].batches.prefetch[s];
            if (p && !sw_prefetch_end(p, left_ms(until_ns)))
                return readers[s];
        }
    for (int i = 0; i < job->topology->workers; i++)
        if (!sw_thread_join_timed(&job->workers[i].thread, left_ms(until_ns)))
            return job->workers[i].unit;
    for (int i = 0; i < job->topology->server_groups; i++)
        sw_table_close_v(job->params.copies[i].table);
    for (int i = 0; i < job->topology->servers; i++)
        if (!sw_thread_join_timed(&job->servers[i].thread, left_ms(until_ns)))
            return job->servers[i].unit;
    return NULL;
}

enum sw_run_status sw_run_status_of(int rc)
{
    return rc == SW_OK ? SW_RUN_DONE : rc == SW_ERR_CANCELLED ? SW_RUN_STOPPED : SW_RUN_FAILED;
}

/* SW_OK, SW_ERR_CANCELLED when it was stopped by request before the last step, or the fault. */
int sw_run_outcome(struct sw_job *job, struct sw_err *err)
{
    int rc = sw_fault_get(&job->fault, err);
    if (rc == SW_ERR_CANCELLED) /* a worker has said that it found the request, not when */
        sw_err_set(err, rc, "stopped by request before step %lld",
                   (long long)job->span.first_step + 1);
    if (rc != SW_OK)
        return rc;
    if (!job->workers[0].end.over && !job->workers[0].end.stopped)
        return sw_err_set(err, SW_ERR_LIBRARY, "%s: ended after step %lld without a reason",
                          job->workers[0].unit, (long long)job->workers[0].step);
    if (job->workers[0].end.stopped)
        return sw_err_set(err, SW_ERR_CANCELLED,
                          "stopped by request after step %lld; a checkpoint was written",
                          (long long)job->workers[0].step);
    return SW_OK;
}

/* Everything is stored afterwards; *claim is the run's claim of its folder, for the caller. */
static void close_history(struct sw_job *job, int rc, const struct sw_err *err,
                          struct sw_claim *claim)
{
    *claim = (struct sw_claim){0};
    if (!job->events.history)
        return;
    sw_history_keep_claim(job->events.history, claim);
    if (rc != SW_OK && rc != SW_ERR_CANCELLED)
        sw_history_event(job->events.history, SW_LOG_ERROR, "job", "%s", err->text);
    sw_history_finish_run(job->events.history, sw_run_status_of(rc));
    sw_history_close(job->events.history);
    job->events.history = NULL;
}

void sw_job_leave(struct sw_job *job)
{
    struct sw_err err = {0};
    struct sw_claim claim;
    close_history(job, SW_ERR_CANCELLED, &err, &claim);
    sw_claim_release(&claim);
}

/* The history stays open for the next stage. The claim of the folder is released last: a resume of
 * this run has live files of the same names. */
void sw_run_close(struct sw_job *job, int rc, const struct sw_err *err)
{
    const bool goes_on = rc == SW_OK && sw_job_has_next(job);
    struct sw_claim claim = {0};
    if (!goes_on)
        close_history(job, rc, err, &claim);
    if (job->events.snapshot) {
        if (!goes_on)
            sw_snapshot_set_status(job->events.snapshot, sw_run_status_of(rc));
        sw_snapshot_free(job->events.snapshot);
        job->events.snapshot = NULL;
    }
    if (job->events.ready)
        sw_queue_fini(&job->events.notes);
    job->events.ready = false;
    sw_claim_release(&claim);
}

/* The run's names in the live folder, where nothing can be freed any more. */
static void unlink_live(const struct sw_job *job)
{
    const char *live = sw_snapshot_file(job->events.snapshot);
    char *sock = live ? sw_control_path(live) : NULL;
    if (sock)
        sw_os()->unlink(sock);
    if (live)
        sw_os()->unlink(live);
    sw_free(sock);
}

/* A thread hangs: its memory cannot be freed, so all that is left is to write down why. */
int sw_run_say_stuck(struct sw_job *job, const char *role, struct sw_err *err)
{
    int rc = sw_fault_get(&job->fault, err);
    if (rc == SW_OK)
        rc = sw_err_set(err, SW_ERR_LIBRARY, "the run was over");
    sw_err_prefix(err, rc, "%s did not end within %d s", role, SHUTDOWN_MS / 1000);
    sw_history_event(job->events.history, SW_LOG_ERROR, "job", "%s", err->text);
    sw_history_finish_run(job->events.history, SW_RUN_FAILED);
    unlink_live(job);
    bool written = sw_history_flush(job->events.history, SHUTDOWN_MS);
    (void)written; /* there is nobody left to tell */
    return rc;
}
