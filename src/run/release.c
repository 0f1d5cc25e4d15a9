/* Waits without memory, cores and GPUs. The contract is in run/release.h. */
#include "run/release.h"

#include "base/os.h"
#include "history/control.h"
#include "monitor/requests.h"
#include "run/job_private.h"
#include "worker/worker.h"

enum { POLL_MS = 200 };

bool sw_release_is_requested(const struct sw_job *job)
{
    return __atomic_load_n(&job->requests.releases, __ATOMIC_RELAXED) &&
           !(sw_requests_get(&job->requests) & SW_JOB_STOP);
}

void sw_release_report(struct sw_job *job)
{
    if (job->workers[0].end.stopped && sw_release_is_requested(job))
        sw_events_report(&job->events, SW_LOG_INFO, "job",
                         "paused by request after step %lld: memory, cores and GPUs are released",
                         (long long)job->workers[0].step);
}

/* A snapshot with one slot, which is paused after the step. */
static int open_snapshot(struct sw_job *job, int64_t step, struct sw_err *err)
{
    char *path = NULL;
    const struct sw_snapshot_run run = {
        .id = sw_history_run_id(job->events.history),
        .uid = sw_history_run_uid(job->events.history),
        .name = job->options.name,
        .steps_total = job->span.run_steps,
        .slots = 1,
    };

    int rc = sw_snapshot_path(run.uid, job->events.log, &path, err);
    if (rc == SW_OK)
        rc = sw_snapshot_new(&job->events.snapshot, path, &run, err);
    sw_free(path);
    if (rc != SW_OK)
        return rc;

    struct sw_slot *slot = sw_snapshot_slot(job->events.snapshot, 0);
    sw_slot_set_name(slot, "released");
    sw_slot_result(slot, step, (double)NAN, sw_topology_samples(job->topology, step),
                   sw_os()->monotonic_ns());
    sw_slot_phase(slot, SW_PHASE_PAUSED, step, -1, NULL, sw_os()->monotonic_ns());
    return SW_OK;
}

static int listen_to(struct sw_control *control, const struct sw_snapshot *snapshot,
                     struct sw_err *err)
{
    char *path = sw_control_path(sw_snapshot_file(snapshot));
    if (!path)
        return sw_err_nomem(err, "the control socket", 0);

    int rc = sw_control_listen(control, path, err);
    sw_free(path);
    return rc;
}

/* Answers requests until one ends the wait. */
static int wait_for_request(struct sw_job *job, struct sw_control *control, int64_t step,
                            struct sw_err *err)
{
    struct sw_slot *slot = sw_snapshot_slot(job->events.snapshot, 0);
    int requested;

    while ((requested = sw_requests_get(&job->requests)) & SW_JOB_RELEASE) {
        if (requested & (SW_JOB_STOP | SW_JOB_ABORT))
            return sw_err_set(err, SW_ERR_CANCELLED,
                              "stopped by request after step %lld, where it was paused; a "
                              "checkpoint was written",
                              (long long)step);

        sw_slot_heartbeat(slot, sw_os()->monotonic_ns());
        sw_control_poll(control, POLL_MS, sw_request_answer, &job->requests);
    }

    /* The checkpoint of this step exists. */
    __atomic_fetch_and(&job->requests.bits, ~SW_JOB_CHECKPOINT_NOW, __ATOMIC_RELAXED);
    sw_history_event(job->events.history, SW_LOG_INFO, "job", "the pause after step %lld is over",
                     (long long)step);
    return SW_OK;
}

int sw_release_wait(struct sw_job *job, struct sw_err *err)
{
    const int64_t step = job->workers[0].step;
    struct sw_control *control = NULL;

    sw_job_drop(job);
    sw_reserve_give_back(job);

    int rc = open_snapshot(job, step, err);
    if (rc != SW_OK)
        goto out;
    rc = sw_control_new(&control, err);
    if (rc != SW_OK)
        goto out;
    rc = listen_to(control, job->events.snapshot, err);
    if (rc != SW_OK)
        goto out;

    rc = wait_for_request(job, control, step, err);

out:
    sw_control_free(control);
    sw_snapshot_free(job->events.snapshot);
    job->events.snapshot = NULL;
    return rc;
}
