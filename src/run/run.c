/* Running a job, from the main thread: opens the run, starts watchdog, servers, prefetch and
 * workers; then delivers events to the observer until the workers have ended or the fault is set;
 * then ends every role in fixed order: prefetch, workers, servers, history (drains last), snapshot.
 */
#include "run/run.h"
#include "base/os.h"
#include "base/stop.h"
#include "machine/bind.h"
#include "monitor/monitor.h"
#include "monitor/sensors.h"
#include "plan/choices.h"
#include "run/host_loss.h"
#include "run/job_private.h"
#include "run/release.h"
#include "run/tune.h"
#include "worker/record.h"
#include "worker/server.h"
#include "worker/worker.h"
#include <math.h>
#include <string.h>
#include <sys/resource.h>

enum { POLL_MS = 100, WATCH_MS = 1000 };

struct running {
    struct sw_job *job;
    sw_job_observer *observer;
    void *user;
    int64_t displayed_ns, watched_ns;
    int64_t displayed_step;
    struct sw_job_event last_eval, last_display;
    bool has_eval, has_display;
};

static int start_worker(struct sw_worker *w, struct sw_err *err)
{
    int rc = sw_worker_start_prefetch(w, SW_SPLIT_TRAIN, err);
    if (rc != SW_OK)
        return rc;

    if (w->eval)
        rc = sw_worker_start_prefetch(w, SW_SPLIT_EVAL, err);
    if (rc != SW_OK)
        return rc;

    return sw_thread_start(&w->thread, w->role, sw_worker_main, w, err);
}

static void check_sums(void *exchange)
{
    sw_reduce_check(exchange);
}

static int start_monitor(struct sw_job *job, struct sw_err *err)
{
    const struct sw_monitor_args args = {
        .roles = {job->topology, job->workers, job->servers},
        .slots = sw_job_slots(job),
        .cluster = sw_recipe_find(job->recipe, "cluster", NULL)->common,
        .saved_step = &job->retention.saved_step,
        .events = &job->events,
        .requests = &job->requests,
        .fault = &job->fault,
        .check_sums = check_sums,
        .user = &job->exchange,
    };
    return sw_monitor_start(&args, &job->monitor.monitor_thread, err);
}

static int start_roles(struct sw_job *job, struct sw_err *err)
{
    int rc = start_monitor(job, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_sensors_start(job->events.history, job->place.machine, job->place.placement,
                          &job->monitor.sensors, err);
    if (rc != SW_OK)
        return rc;

    for (int i = 0; i < job->topology->servers; i++) {
        struct sw_server *s = &job->servers[i];
        if (!s->hosted)
            rc = sw_thread_start(&s->thread, s->role, sw_server_main, s, err);
        if (rc != SW_OK)
            return rc;
    }

    for (int i = 0; i < job->topology->workers; i++) {
        rc = start_worker(&job->workers[i], err);
        if (rc != SW_OK)
            return rc;
    }

    return SW_OK;
}

/* ---- while it runs ---- */

static void observe(struct running *r, const struct sw_job_event *e)
{
    if (e->type == SW_JOB_DISPLAY) {
        r->last_display = *e;
        r->has_display = true;
        r->displayed_ns = sw_os()->monotonic_ns();
        r->displayed_step = e->step;
    } else if (e->type == SW_JOB_EVAL) {
        r->last_eval = *e;
        r->has_eval = true;
    }

    if (r->observer)
        r->observer(r->user, e);
}

static void report_start(struct running *r)
{
    struct sw_job *job = r->job;
    struct sw_job_event e = {.type = SW_JOB_START,
                             .step = job->span.first_step,
                             .steps = job->span.run_steps,
                             .run_id = sw_history_run_id(job->events.history),
                             .out_dir = sw_history_out_dir(job->events.history),
                             .db_path = sw_history_path(job->events.history)};
    observe(r, &e);
}

/* Requests a display by time: after max(every_s, the time that every_share of the steps takes). */
static void request_display(struct running *r)
{
    struct sw_job *job = r->job;
    const struct sw_display_policy *d = &job->options.display;
    int64_t now_ns = sw_os()->monotonic_ns();
    if (d->every_steps > 0 || d->every_s <= 0 ||
        (double)(now_ns - r->displayed_ns) * 1e-9 < d->every_s)
        return;

    struct sw_slot_state s;
    if (d->every_share > 0 && sw_snapshot_read_slot(job->events.snapshot, 0, &s) &&
        (double)(s.done_step - r->displayed_step) < d->every_share * (double)job->span.run_steps)
        return;

    __atomic_store_n(&job->requests.display_requested, 1, __ATOMIC_RELAXED);
}

/* Other runs come to the cores of this one, and go, at any time. */
static void watch_cores(struct running *r)
{
    int64_t now_ns = sw_os()->monotonic_ns();

    if (r->watched_ns && now_ns - r->watched_ns < (int64_t)WATCH_MS * 1000000)
        return;

    r->watched_ns = now_ns;
    sw_reserve_watch(r->job);
}

static void deliver(struct running *r, struct sw_queued_event *queued)
{
    if (queued->wake)
        return;

    if (queued->event.type == SW_JOB_CHECKPOINT)
        queued->event.path = queued->text;
    else
        queued->event.text = queued->text;

    queued->event.source = queued->source;
    observe(r, &queued->event);
}

static void abort_if_requested(struct sw_job *job)
{
    if (!(sw_requests_get(&job->requests) & SW_JOB_ABORT))
        return;

    struct sw_err err;
    sw_err_set(&err, SW_ERR_LIBRARY,
               "aborted by request in the middle of a step; the last checkpoint is kept");
    sw_fault_set(&job->fault, "job", &err);
}

static void follow(struct running *r)
{
    struct sw_job *job = r->job;
    struct sw_queued_event queued;
    bool over = false;

    while (!over) {
        over = __atomic_load_n(&job->events.ended, __ATOMIC_ACQUIRE) == job->topology->workers ||
               sw_fault_is_set(&job->fault);
        while (sw_queue_try_pop(&job->events.queue, &queued) == SW_OK)
            deliver(r, &queued);
        if (over)
            break;

        if (sw_queue_pop_ms(&job->events.queue, &queued, POLL_MS) == SW_OK)
            deliver(r, &queued);
        request_display(r);
        watch_cores(r);
        sw_following_watch(job);
        sw_job_hosts_ask(job);
        abort_if_requested(job);
    }

    /* An abort also ends the reading of data, and a worker may have ended by that alone. Without a
     * fault all workers have ended, so nobody writes what is read here. */
    if (!sw_fault_is_set(&job->fault) && !job->workers[0].end.over && !job->workers[0].end.stopped)
        abort_if_requested(job);
}

/* ---- the end ---- */

static size_t resident_bytes(void)
{
    struct rusage u;
    return getrusage(RUSAGE_SELF, &u) == 0 ? (size_t)u.ru_maxrss * 1024 : 0;
}

/* Peak memory of the host and of all devices with their own memory. */
static size_t peak_bytes(const struct sw_job *job)
{
    size_t bytes = sw_device_bytes_of(job->place.host).peak;

    for (int i = 0; i < job->topology->workers; i++)
        if (!job->workers[i].device->host_memory)
            bytes += sw_device_bytes_of(job->workers[i].device).peak;

    return bytes;
}

/* Warns about operations that ran on the CPU: correct, but each waits for the device and for two
 * copies. */
static void warn_bridged(struct sw_job *job)
{
    for (int i = 0; i < job->topology->workers; i++) {
        struct sw_device *dev = job->workers[i].device;
        uint64_t bridged = sw_device_bytes_of(dev).bridged;

        if (bridged > 0)
            sw_events_report(&job->events, SW_LOG_WARN, dev->name,
                             "%llu operations have no kernel on %s and ran on the CPU, on copies",
                             (unsigned long long)bridged, dev->name);
    }
}

/* The step after which a run stopped need not have been displayed. */
static void report_last_step(struct running *r)
{
    const struct sw_worker *w = &r->job->workers[0];
    struct sw_job_event e = {.type = SW_JOB_DISPLAY};

    if (w->step == w->record.first_step || r->displayed_step == w->step)
        return;

    sw_record_event(w, SW_SPLIT_TRAIN, &e);
    observe(r, &e);
}

static void report_summary(struct running *r, enum sw_run_status status)
{
    struct sw_job *job = r->job;
    struct sw_worker *w = &job->workers[0];
    struct sw_job_event e = {.type = SW_JOB_SUMMARY,
                             .step = w->step,
                             .steps = job->span.run_steps,
                             .status = status,
                             .run_id = sw_history_run_id(job->events.history),
                             .out_dir = sw_history_out_dir(job->events.history),
                             .db_path = sw_history_path(job->events.history),
                             .elapsed_s =
                                 (double)(sw_os()->monotonic_ns() - job->span.run_began_ns) * 1e-9,
                             .samples_per_s = NAN,
                             .step_ms = NAN,
                             .lr = NAN,
                             .eta_s = NAN,
                             .peak_bytes = peak_bytes(job),
                             .rss_bytes = resident_bytes(),
                             .skipped_records = sw_job_skipped(job)};
    int64_t from = w->record.first_step, trained_ns = w->timer.trained_ns;

    if (w->step > from + 1) { /* the first step is no typical one */
        from++;
        trained_ns -= w->timer.first_ns;
    }

    if (w->step > from && trained_ns > 0) {
        e.step_ms = (double)trained_ns * 1e-6 / (double)(w->step - from);
        sw_history_plan_measured(job->events.history, e.step_ms);
        e.samples_per_s = (double)(sw_topology_samples(job->topology, w->step) -
                                   sw_topology_samples(job->topology, from)) *
                          1e9 / (double)trained_ns;
    }

    if (job->retention.best_seen.step >= 0) {
        e.best_metric = job->retention.metric_name;
        e.best_value = job->retention.best_seen.value;
        e.best_step = job->retention.best_seen.step;
    }

    int split = r->has_eval ? SW_SPLIT_EVAL : SW_SPLIT_TRAIN;
    e.split = split == SW_SPLIT_EVAL ? job->data.section[SW_SPLIT_EVAL]->name : "train";
    e.metric_count = job->metrics.count[split];
    memcpy(e.metric, job->metrics.last[split], sizeof e.metric);
    observe(r, &e);
}

static int leave_stuck(struct sw_job *job, const char *role, bool *stuck, struct sw_err *err)
{
    if (stuck)
        *stuck = true;
    return sw_run_report_stuck(job, role, err);
}

static int run(struct sw_job *job, sw_job_observer *observer, void *user, bool *stuck,
               struct sw_err *err)
{
    struct running r = {.job = job, .observer = observer, .user = user};
    const bool first = !job->span.run_began_ns;

    r.displayed_ns = sw_os()->monotonic_ns();
    if (first)
        job->span.run_began_ns = r.displayed_ns;
    if (stuck)
        *stuck = false;
    for (int i = 0; i < job->topology->workers; i++)
        job->workers[i].step = job->span.first_step;

    int rc = sw_run_open(job, err);
    if (sw_reduce_hangs(&job->exchange.sums)) {
        sw_fault_stop(&job->fault, "job", err);
        return leave_stuck(job, "the all-reduce library", stuck, err);
    }

    if (rc == SW_OK && job->span.first_step < job->span.steps) {
        sw_run_record_placement(job);
        if (first)
            report_start(&r);
        sw_job_collective_report(job);
        sw_stage_report(job);
        sw_following_report(job);
        sw_run_record_stage(job);
        sw_reserve_report(job);
        sw_run_report_misplaced(job);
        sw_throughputs_save(&job->speed.throughputs, job->workers);
        sw_job_tune_save(job->speed.tune, job->workers);
        sw_job_tune_report(job->speed.tune, job->workers);

        rc = start_roles(job, err);
        if (rc != SW_OK)
            sw_fault_stop(&job->fault, "job", err);
        else
            follow(&r);

        sw_reserve_unwatch(job);
        const char *hanging = sw_run_end_roles(job);
        if (hanging)
            return leave_stuck(job, hanging, stuck, err);

        sw_job_tune_save(job->speed.tune, job->workers); /* plans for rows that were rebalanced */

        struct sw_queued_event queued;
        sw_sensors_end(job->monitor.sensors);
        job->monitor.sensors = NULL;
        sw_monitor_end(job->monitor.monitor_thread);
        job->monitor.monitor_thread = NULL;
        warn_bridged(job);
        sw_release_report(job);
        rc = sw_host_loss_save(job, sw_run_outcome(job, err), err);
        while (sw_queue_try_pop(&job->events.queue, &queued) == SW_OK)
            deliver(&r, &queued);
        if (rc == SW_ERR_CANCELLED)
            report_last_step(&r);
        if (rc != SW_OK || !sw_job_has_next(job))
            report_summary(&r, sw_run_status_of(rc));
    }

    sw_run_close(job, rc, err);
    return rc;
}

/* The calling thread is the job's main thread during the call, and is bound as that is placed, as
 * are threads that it starts and that do not bind themselves: the history's writer, the watchdog.
 */
int sw_job_run(struct sw_job *job, sw_job_observer *observer, void *user, bool *stuck,
               struct sw_err *err)
{
    struct sw_err ignored; /* if the system refuses, it runs where it did */
    void *kept = NULL;
    int bound = sw_bind_save(job->place.machine, &kept, &ignored);

    if (bound == SW_OK)
        bound = sw_bind_thread(job->place.machine,
                               &sw_placement_helper(job->place.placement, SW_PLACE_MAIN)->cores,
                               &ignored);

    int rc = run(job, observer, user, stuck, err);

    /* Exchanged atomically, because a hanging worker that was left behind may still reach its own
     * end. */
    if (__atomic_exchange_n(&job->requests.holds_stop, false, __ATOMIC_RELAXED))
        sw_stop_release();
    sw_bind_restore(job->place.machine, kept);

    return rc;
}
