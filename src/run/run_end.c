/* The end of a run: ending its roles in fixed order, its outcome, and closing the rest. */
#include "base/os.h"
#include "history/control.h"
#include "run/hosts_history.h"
#include "run/job_private.h"
#include "run/release.h"
#include "run/run.h"
#include "worker/server.h"
#include "worker/worker.h"

/* A worker may be in the middle of a checkpoint, or of a long layer, when another host is lost, and
 * the step is saved afterwards. */
enum { SHUTDOWN_MS = 5000, AFTER_LOSS_MS = 600000 };

static int left_ms(int64_t until_ns)
{
    int64_t ms = (until_ns - sw_os()->monotonic_ns()) / 1000000;
    return ms > 0 ? (int)ms : 0;
}

/* Ends every role in order, within a common deadline. */
const char *sw_run_end_roles(struct sw_job *job)
{
    static const char *const readers[SW_SPLITS] = {"prefetch of training data",
                                                   "prefetch of evaluation data"};
    struct sw_err ignored;
    const bool loss = sw_fault_get(&job->fault, &ignored) == SW_ERR_LOST;
    int64_t until_ns =
        sw_os()->monotonic_ns() + (int64_t)(loss ? AFTER_LOSS_MS : SHUTDOWN_MS) * 1000000;

    for (int i = 0; i < job->topology->workers; i++)
        for (int s = 0; s < SW_SPLITS; s++) {
            struct sw_prefetch *p = job->workers[i].batches.prefetch[s];
            if (p && !sw_prefetch_end(p, left_ms(until_ns)))
                return readers[s];
        }

    for (int i = 0; i < job->topology->workers; i++)
        if (!sw_thread_join_timed(&job->workers[i].thread, left_ms(until_ns)))
            return job->workers[i].role;

    for (int i = 0; i < job->topology->server_groups; i++)
        sw_table_close_v(job->params.copies[i].table);

    for (int i = 0; i < job->topology->servers; i++)
        if (!sw_thread_join_timed(&job->servers[i].thread, left_ms(until_ns)))
            return job->servers[i].role;

    if (!sw_reduce_ends(&job->exchange.sums, left_ms(until_ns)))
        return "the abort of the all-reduce library";

    return NULL;
}

enum sw_run_status sw_run_status_of(int rc)
{
    return rc == SW_OK ? SW_RUN_DONE : rc == SW_ERR_CANCELLED ? SW_RUN_STOPPED : SW_RUN_FAILED;
}

int sw_run_outcome(struct sw_job *job, struct sw_err *err)
{
    int rc = sw_fault_get(&job->fault, err);

    if (rc == SW_ERR_CANCELLED) /* the worker's message does not name the step */
        sw_err_set(err, rc, "stopped by request before step %lld",
                   (long long)job->span.first_step + 1);

    if (rc != SW_OK)
        return rc;
    if (!job->workers[0].end.over && !job->workers[0].end.stopped)
        return sw_err_set(err, SW_ERR_LIBRARY, "%s: ended after step %lld without an error",
                          job->workers[0].role, (long long)job->workers[0].step);
    if (job->workers[0].end.stopped && sw_release_is_requested(job)) {
        job->reserve.released = true;
        return SW_OK;
    }
    if (job->workers[0].end.stopped && sw_replan_is_requested(job)) {
        job->following.ended = true;
        return SW_OK;
    }
    if (job->workers[0].end.stopped)
        return sw_err_set(err, SW_ERR_CANCELLED,
                          "stopped by request after step %lld; a checkpoint was written",
                          (long long)job->workers[0].step);

    return SW_OK;
}

/* Stores everything and closes the history; *claim is the run's claim of its folder, to be released
 * by the caller. */
static void close_history(struct sw_job *job, int rc, const struct sw_err *err,
                          struct sw_claim *claim)
{
    *claim = (struct sw_claim){0};
    if (!job->events.history)
        return;

    sw_history_move_claim(job->events.history, claim);
    if (sw_hosts_history_end(job) && rc != SW_OK && rc != SW_ERR_CANCELLED)
        sw_history_event(job->events.history, SW_LOG_ERROR, "job", "%s", err->text);
    sw_history_finish_run(job->events.history, sw_run_status_of(rc));
    sw_history_close(job->events.history);
    sw_hosts_history_free(job);
    job->events.history = NULL;
}

void sw_job_end_resumable(struct sw_job *job)
{
    struct sw_err err = {0};
    struct sw_claim claim;
    close_history(job, SW_ERR_CANCELLED, &err, &claim);
    sw_claim_release(&claim);
}

/* The history stays open for the next stage. The claim of the folder is released last, because a
 * resume of this run has live files of the same names. */
void sw_run_close(struct sw_job *job, int rc, const struct sw_err *err)
{
    const bool goes_on = rc == SW_OK && sw_job_has_next(job);
    struct sw_claim claim = {0};

    sw_job_hosts_close(job, rc, err);

    if (!goes_on)
        close_history(job, rc, err, &claim);

    if (job->events.snapshot) {
        if (!goes_on)
            sw_snapshot_set_status(job->events.snapshot, sw_run_status_of(rc));
        sw_snapshot_free(job->events.snapshot);
        job->events.snapshot = NULL;
    }

    if (job->events.ready)
        sw_queue_fini(&job->events.queue);
    job->events.ready = false;
    sw_claim_release(&claim);
}

/* Removes the run's files from the live folder when nothing can be freed any more. */
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

int sw_run_report_stuck(struct sw_job *job, const char *role, struct sw_err *err)
{
    int rc = sw_fault_get(&job->fault, err);

    if (rc == SW_OK)
        rc = sw_err_set(err, SW_ERR_LIBRARY, "the run had ended");
    sw_err_prefix(err, rc, "%s did not end within %d s", role, SHUTDOWN_MS / 1000);
    sw_history_event(job->events.history, SW_LOG_ERROR, "job", "%s", err->text);
    sw_history_finish_run(job->events.history, SW_RUN_FAILED);
    unlink_live(job);

    bool written = sw_history_flush(job->events.history, SHUTDOWN_MS);
    (void)written; /* nobody is left to report a failure to */
    return rc;
}
