/* A job in motion, from the main thread: starts history, snapshot, table, prefetch, servers and
 * workers; then hands their notes to the observer until the workers have ended or the fault is set;
 * then ends every role in fixed order: prefetch, workers, servers, history (drains last), snapshot.
 */
#include "base/os.h"
#include "base/str.h"
#include "history/control.h"
#include "train/choices.h"
#include "train/job_private.h"
#include "train/results.h"
#include "train/saved.h"
#include "train/states.h"
#include "train/watch.h"
#include "train/worker.h"
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

enum { NOTES = 1024, POLL_MS = 100, SHUTDOWN_MS = 5000 };

struct running {
    struct sw_job *job;
    sw_job_observer *observer;
    void *user;
    int64_t displayed_ns;
    int64_t displayed_step;
    struct sw_job_event last_eval, last_display;
    bool has_eval, has_display;
};

/* ---- set-up ---- */

static int open_history(struct sw_job *job, struct sw_err *err)
{
    char *path = NULL;
    if (job->history) /* of the stages before */
        return SW_OK;
    int rc = sw_history_default_path(job->db_option, job->conf->db, &path, err);
    if (rc == SW_OK)
        rc = sw_history_open(&job->history, path, job->log, err);
    sw_free(path);
    if (rc != SW_OK)
        return rc;
    const struct sw_job_plan *p = &job->plan;
    struct sw_run_info info = {
        .name = job->name,
        .recipe = p->recipe,
        .recipe_text = sw_recipe_text(job->recipe),
        .recipe_hash = sw_recipe_hash(job->recipe),
        .overrides = sw_recipe_overrides(job->recipe),
        .fallback = sw_recipe_fallback(job->recipe),
        .command = job->command,
        .framework = p->framework,
        .device = p->device,
        .version = SW_VERSION,
        .out_dir = job->out_option,
        .workers = job->placement->worker_count,
        .seed = job->conf->seed,
        .batch = p->batch * (job->apart ? job->group_count : 1), /* samples of a step */
        .steps = job->run_steps,
        .epoch_records = job->source[SW_SPLIT_TRAIN]->records,
        .params = p->params,
        .flops_per_sample = p->flops_per_sample,
    };
    return job->resume_run_id ? sw_history_resume_run(job->history, job->resume_run_id,
                                                      job->first_step, &info, err)
                              : sw_history_begin_run(job->history, &info, err);
}

static void record_placement(struct sw_job *job)
{
    const struct sw_placement *p = job->placement;
    for (int i = 0; i < p->row_count; i++) {
        const struct sw_placement_row *row = &p->rows[i];
        char cores[256];
        sw_history_placement(job->history, row->unit, row->device, row->numa,
                             sw_core_set_text(&row->cores, cores, sizeof cores), row->reason);
    }
    if (*job->plan.copy)
        sw_history_tag(job->history, "copy", job->plan.copy);
}

int sw_job_slots(const struct sw_job *job)
{
    const struct sw_worker *last = &job->workers[job->placement->worker_count - 1];
    return last->reading[SW_SPLITS - 1].first + last->reading[SW_SPLITS - 1].count;
}

/* Slots of workers, then of servers, then of the threads that read for the workers, as far as there
 * is room. */
static int number_slots(struct sw_job *job)
{
    int next = job->placement->worker_count + job->placement->server_count;
    for (int i = 0; i < job->placement->worker_count; i++)
        for (int s = 0; s < SW_SPLITS; s++) {
            int left = SW_SNAPSHOT_MAX_SLOTS - next;
            int threads = job->source[s] ? (int)job->source[s]->workers : 0;
            job->workers[i].reading[s] = (struct sw_reading){&job->workers[i], next,
                                                             threads < left ? threads
                                                             : left < 0     ? 0
                                                                            : left};
            next += job->workers[i].reading[s].count;
        }
    return next;
}

/* "prefetch0.1 train 0": whose, of which data, which thread. */
static void name_readers(const struct sw_job *job, const struct sw_worker *w)
{
    char name[SW_SNAPSHOT_NAME];
    for (int s = 0; s < SW_SPLITS; s++)
        for (int i = 0; i < w->reading[s].count; i++) {
            snprintf(name, sizeof name, "prefetch%s %s %d", w->unit + strlen("worker"),
                     job->data[s]->name, i);
            sw_slot_set_name(sw_snapshot_slot(job->snapshot, w->reading[s].first + i), name);
        }
}

static int open_snapshot(struct sw_job *job, struct sw_err *err)
{
    char *path = NULL;
    struct sw_err ignored;
    int units = number_slots(job);
    const char *uid = sw_history_run_uid(job->history);
    int rc = sw_snapshot_path(uid, &path, &ignored);
    if (rc == SW_OK)
        rc = sw_snapshot_new(&job->snapshot, path, sw_history_run_id(job->history), uid, job->name,
                             job->run_steps, units, &ignored);
    /* A snapshot that nobody can read is no reason not to train. */
    if (rc != SW_OK) {
        sw_log_write(job->log, SW_LOG_WARN, "snapshot", "%s: the run cannot be watched live",
                     ignored.text);
        rc = sw_snapshot_new(&job->snapshot, NULL, sw_history_run_id(job->history), uid, job->name,
                             job->run_steps, units, err);
    }
    sw_free(path);
    if (rc != SW_OK)
        return rc;
    for (int i = 0; i < job->placement->worker_count; i++) {
        job->workers[i].slot = sw_snapshot_slot(job->snapshot, i);
        sw_slot_set_name(job->workers[i].slot, job->workers[i].unit);
        name_readers(job, &job->workers[i]);
    }
    for (int i = 0; i < job->placement->server_count; i++) {
        job->servers[i].slot = sw_snapshot_slot(job->snapshot, job->placement->worker_count + i);
        sw_slot_set_name(job->servers[i].slot, job->servers[i].unit);
    }
    return SW_OK;
}

static void watch_update(void *user, int server, int param, uint64_t version, int64_t begin_ns,
                         int64_t end_ns)
{
    struct sw_job *job = user;
    struct sw_trace_event e = {.begin_ns = begin_ns,
                               .end_ns = end_ns,
                               .step = (int64_t)version,
                               .what = SW_TRACE_UPDATE,
                               .unit = 1000 + server,
                               .index = param};
    sw_trace_add(job->trace, &e);
}

static int make_trace(struct sw_job *job, struct sw_err *err)
{
    if (job->trace_capacity <= 0)
        return SW_OK;
    job->trace = sw_trace_new((size_t)job->trace_capacity);
    if (!job->trace)
        return sw_err_nomem(err, "a trace", (size_t)job->trace_capacity);
    for (int i = 0; i < job->shape.server_groups; i++)
        sw_table_set_watch(job->copies[i].table, watch_update, job);
    return SW_OK;
}

static bool shares_cores(const struct sw_job *job, int worker, int server)
{
    const struct sw_placement_row *w = sw_placement_worker(job->placement, &job->shape, 0, worker);
    const struct sw_placement_row *s = sw_placement_server(job->placement, &job->shape, 0, server);
    return sw_core_set_overlaps(&w->cores, &s->cores);
}

static int serve(struct sw_worker *w, struct sw_server *s, struct sw_err *err)
{
    int servers = w->job->shape.servers_per_group;
    if (!w->served)
        w->served = sw_calloc((size_t)servers, sizeof *w->served);
    if (!w->served)
        return sw_err_nomem(err, "a worker", (size_t)servers * sizeof *w->served);
    w->served[w->served_count++] = s->seat;
    s->hosted = true;
    return SW_OK;
}

/* Who runs a server that shares a worker's cores: that one, first of all the one it is bound to.
 * Where groups are apart no worker can count on another to come by: whoever has something for a
 * server then runs it. One with cores of its own is a thread. */
static int settle(struct sw_server *s, struct sw_err *err)
{
    struct sw_job *job = s->job;
    int workers = job->placement->worker_count, host = -1, rc = SW_OK;
    int bound = s->index % workers;
    for (int i = 0; i < workers && host < 0; i++)
        if (shares_cores(job, (bound + i) % workers, s->index))
            host = (bound + i) % workers;
    if (host < 0)
        return SW_OK;
    if (!job->apart)
        return serve(&job->workers[host], s, err);
    for (int i = 0; i < workers && rc == SW_OK; i++)
        if (job->workers[i].table == s->table)
            rc = serve(&job->workers[i], s, err);
    return rc;
}

int sw_job_settle_servers(struct sw_job *job, struct sw_err *err)
{
    int servers = job->placement->server_count, per = job->shape.servers_per_group, rc = SW_OK;
    for (int i = 0; i < servers && rc == SW_OK; i++) {
        struct sw_server *s = &job->servers[i];
        const struct sw_placement_row *row = sw_placement_server(job->placement, &job->shape, 0, i);
        *s = (struct sw_server){
            .job = job, .table = job->copies[i / per].table, .index = i, .seat = i % per};
        memcpy(s->unit, row->unit, sizeof row->unit);
        rc = settle(s, err);
    }
    return rc;
}

const struct sw_server *sw_job_servers(const struct sw_job *job, const struct sw_table *table)
{
    int i = 0;
    while (job->copies[i].table != table)
        i++;
    return &job->servers[job->copies[i].first_server];
}

static int allocate(struct sw_job *job, struct sw_err *err)
{
    int rc = SW_OK;
    for (int i = 0; i < job->shape.server_groups && rc == SW_OK; i++)
        rc = sw_table_allocate(job->copies[i].table, err);
    if (rc == SW_OK)
        rc = sw_job_make_sync(job, err);
    if (rc == SW_OK)
        rc = sw_job_connect(job, SW_SPLIT_TRAIN, err);
    if (rc == SW_OK && job->workers[0].eval)
        rc = sw_job_connect(job, SW_SPLIT_EVAL, err);
    if (rc == SW_OK)
        rc = sw_states_allocate(job, err);
    if (rc == SW_OK)
        rc = sw_carries_allocate(job, err);
    if (rc == SW_OK)
        rc = sw_outputs_allocate(job, err);
    if (rc == SW_OK && job->apart)
        rc = sw_group_let_apart(&job->all, job->first_step, err);
    if (rc == SW_OK)
        rc = sw_reduce_make(job, err);
    if (rc == SW_OK)
        rc = sw_comm_make(job, err);
    for (int i = 0; i < job->placement->worker_count && rc == SW_OK; i++) {
        rc = sw_worker_allocate(&job->workers[i], err);
        if (rc == SW_OK)
            rc = sw_worker_open_history(&job->workers[i], err);
    }
    if (rc == SW_OK)
        rc = sw_queue_init(&job->notes, sizeof(struct sw_note), NOTES, err);
    job->notes_ready = rc == SW_OK;
    for (int i = 0; i < job->shape.server_groups && rc == SW_OK; i++)
        rc = sw_fault_attach(&job->fault, sw_table_close_v, job->copies[i].table, err);
    if (rc == SW_OK)
        rc = sw_fault_attach(&job->fault, sw_group_close_v, &job->all, err);
    for (int g = 0; g < job->group_count && rc == SW_OK; g++)
        rc = sw_fault_attach(&job->fault, sw_group_close_v, &job->groups[g], err);
    for (int i = 0; i < job->group_size && rc == SW_OK && job->hybrid; i++)
        rc = sw_fault_attach(&job->fault, sw_group_close_v, &job->peers[i], err);
    for (int i = 0; i < job->placement->worker_count && rc == SW_OK; i++)
        if (!job->workers[i].device->host_memory)
            rc = sw_fault_attach(&job->fault, sw_device_cancel_v, job->workers[i].device, err);
    return rc;
}

/* Where binding was refused, the run is right and may be slow. */
static void tell_misplaced(struct sw_job *job)
{
    size_t bytes = sw_device_bytes_of(job->device).misplaced;
    char text[32];
    if (bytes > 0)
        sw_job_say(job, SW_LOG_WARN, "memory",
                   "the system refuses to place memory on NUMA nodes (mbind, %s): pages lie where "
                   "they are first touched; a container needs the right to (docker: --cap-add "
                   "SYS_NICE)",
                   sw_human_bytes(text, (double)bytes));
}

static int start_worker(struct sw_worker *w, struct sw_err *err)
{
    int rc = sw_worker_start_prefetch(w, SW_SPLIT_TRAIN, err);
    if (rc == SW_OK && w->eval)
        rc = sw_worker_start_prefetch(w, SW_SPLIT_EVAL, err);
    return rc == SW_OK ? sw_thread_start(&w->thread, w->unit, sw_worker_main, w, err) : rc;
}

static int start_roles(struct sw_job *job, struct sw_err *err)
{
    int rc = sw_watch_start(job, err);
    if (rc == SW_OK)
        rc = sw_sense_start(job, err);
    for (int i = 0; i < job->placement->server_count && rc == SW_OK; i++) {
        struct sw_server *s = &job->servers[i];
        if (!s->hosted)
            rc = sw_thread_start(&s->thread, s->unit, sw_server_main, s, err);
    }
    for (int i = 0; i < job->placement->worker_count && rc == SW_OK; i++)
        rc = start_worker(&job->workers[i], err);
    return rc;
}

/* ---- in motion ---- */

static void tell(struct running *r, const struct sw_job_event *e)
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

static void tell_start(struct running *r)
{
    struct sw_job *job = r->job;
    struct sw_job_event e = {.type = SW_JOB_START,
                             .step = job->first_step,
                             .steps = job->run_steps,
                             .run_id = sw_history_run_id(job->history),
                             .out_dir = sw_history_out_dir(job->history),
                             .db_path = sw_history_path(job->history)};
    tell(r, &e);
}

/* By time: after max(every_s, the time that every_share of the steps takes). */
static void ask_for_display(struct running *r)
{
    struct sw_job *job = r->job;
    const struct sw_display_policy *d = &job->display;
    int64_t now_ns = sw_os()->monotonic_ns();
    if (d->every_steps > 0 || d->every_s <= 0 ||
        (double)(now_ns - r->displayed_ns) * 1e-9 < d->every_s)
        return;
    struct sw_slot_state s;
    if (d->every_share > 0 && sw_snapshot_read_slot(job->snapshot, 0, &s) &&
        (double)(s.done_step - r->displayed_step) < d->every_share * (double)job->run_steps)
        return;
    __atomic_store_n(&job->wants_display, 1, __ATOMIC_RELAXED);
}

static void deliver(struct running *r, struct sw_note *note)
{
    if (note->wake)
        return;
    if (note->event.type == SW_JOB_CHECKPOINT)
        note->event.path = note->text;
    else
        note->event.text = note->text;
    note->event.source = note->source;
    tell(r, &note->event);
}

static void abort_when_asked(struct sw_job *job)
{
    if (!(__atomic_load_n(&job->requests, __ATOMIC_RELAXED) & SW_JOB_ABORT))
        return;
    struct sw_err err;
    sw_err_set(&err, SW_ERR_LIBRARY,
               "aborted by request in the middle of a step; the last checkpoint stands");
    sw_fault_set(&job->fault, "job", &err);
}

static void follow(struct running *r)
{
    struct sw_job *job = r->job;
    struct sw_note note;
    bool over = false;
    while (!over) {
        over = __atomic_load_n(&job->ended, __ATOMIC_ACQUIRE) == job->placement->worker_count ||
               sw_fault_is_set(&job->fault);
        while (sw_queue_try_pop(&job->notes, &note) == SW_OK)
            deliver(r, &note);
        if (over)
            break;
        if (sw_queue_pop_ms(&job->notes, &note, POLL_MS) == SW_OK)
            deliver(r, &note);
        ask_for_display(r);
        abort_when_asked(job);
    }
}

/* ---- the end ---- */

static int left_ms(int64_t until_ns)
{
    int64_t ms = (until_ns - sw_os()->monotonic_ns()) / 1000000;
    return ms > 0 ? (int)ms : 0;
}

/* Every role in order, each with what is left of the time. The name of one that did not end, or
 * NULL. */
static const char *end_roles(struct sw_job *job)
{
    static const char *const readers[SW_SPLITS] = {"prefetch of training data",
                                                   "prefetch of evaluation data"};
    int64_t until_ns = sw_os()->monotonic_ns() + (int64_t)SHUTDOWN_MS * 1000000;
    for (int i = 0; i < job->placement->worker_count; i++)
        for (int s = 0; s < SW_SPLITS; s++) {
            struct sw_prefetch *p = job->workers[i].prefetch[s];
            if (p && !sw_prefetch_end(p, left_ms(until_ns)))
                return readers[s];
        }
    for (int i = 0; i < job->placement->worker_count; i++)
        if (!sw_thread_join_timed(&job->workers[i].thread, left_ms(until_ns)))
            return job->workers[i].unit;
    for (int i = 0; i < job->shape.server_groups; i++)
        sw_table_close_v(job->copies[i].table);
    for (int i = 0; i < job->placement->server_count; i++)
        if (!sw_thread_join_timed(&job->servers[i].thread, left_ms(until_ns)))
            return job->servers[i].unit;
    return NULL;
}

static size_t resident_bytes(void)
{
    struct rusage u;
    return getrusage(RUSAGE_SELF, &u) == 0 ? (size_t)u.ru_maxrss * 1024 : 0;
}

/* Of the host and of all devices of their own. */
static size_t peak_bytes(const struct sw_job *job)
{
    size_t bytes = sw_cpu_bytes_peak();
    for (int i = 0; i < job->placement->worker_count; i++)
        if (!job->workers[i].device->host_memory)
            bytes += sw_device_bytes_of(job->workers[i].device).peak;
    return bytes;
}

/* Right, but each waits for the device and for two copies. */
static void tell_bridged(struct sw_job *job)
{
    for (int i = 0; i < job->placement->worker_count; i++) {
        struct sw_device *dev = job->workers[i].device;
        uint64_t bridged = sw_device_bytes_of(dev).bridged;
        if (bridged > 0)
            sw_job_say(job, SW_LOG_WARN, dev->name,
                       "%llu operations had no kernel on %s: the CPU computed them, on copies",
                       (unsigned long long)bridged, dev->name);
    }
}

static void tell_summary(struct running *r, enum sw_run_status status)
{
    struct sw_job *job = r->job;
    struct sw_worker *w = &job->workers[0];
    struct sw_job_event e = {.type = SW_JOB_SUMMARY,
                             .step = w->step,
                             .steps = job->run_steps,
                             .status = status,
                             .run_id = sw_history_run_id(job->history),
                             .out_dir = sw_history_out_dir(job->history),
                             .db_path = sw_history_path(job->history),
                             .elapsed_s =
                                 (double)(sw_os()->monotonic_ns() - job->stage.run_began_ns) * 1e-9,
                             .samples_per_s = NAN,
                             .step_ms = NAN,
                             .lr = NAN,
                             .eta_s = NAN,
                             .peak_bytes = peak_bytes(job),
                             .rss_bytes = resident_bytes(),
                             .skipped_records = sw_job_skipped(job)};
    int64_t steps = w->step - w->first_step;
    if (steps > 0 && w->trained_ns > 0) {
        e.step_ms = (double)w->trained_ns * 1e-6 / (double)steps;
        e.samples_per_s =
            (double)(sw_job_samples(job, w->step) - sw_job_samples(job, w->first_step)) * 1e9 /
            (double)w->trained_ns;
    }
    int split = r->has_eval ? SW_SPLIT_EVAL : SW_SPLIT_TRAIN;
    e.split = split == SW_SPLIT_EVAL ? job->data[SW_SPLIT_EVAL]->name : "train";
    e.metric_count = job->last_count[split];
    memcpy(e.metric, job->last[split], sizeof e.metric);
    tell(r, &e);
}

static enum sw_run_status status_of(int rc)
{
    return rc == SW_OK ? SW_RUN_DONE : rc == SW_ERR_CANCELLED ? SW_RUN_STOPPED : SW_RUN_FAILED;
}

/* SW_OK, SW_ERR_CANCELLED when it was stopped by request before the last step, or the fault. */
static int outcome(struct sw_job *job, struct sw_err *err)
{
    int rc = sw_fault_get(&job->fault, err);
    if (rc != SW_OK)
        return rc;
    if (!job->workers[0].over && !job->workers[0].stopped)
        return sw_err_set(err, SW_ERR_LIBRARY, "%s: ended after step %lld without a reason",
                          job->workers[0].unit, (long long)job->workers[0].step);
    if (job->workers[0].stopped)
        return sw_err_set(err, SW_ERR_CANCELLED,
                          "stopped by request after step %lld; a checkpoint was written",
                          (long long)job->workers[0].step);
    return SW_OK;
}

static void close_history(struct sw_job *job, int rc, const struct sw_err *err)
{
    if (!job->history)
        return;
    if (rc != SW_OK && rc != SW_ERR_CANCELLED)
        sw_history_event(job->history, SW_LOG_ERROR, "job", "%s", err->text);
    sw_history_finish_run(job->history, status_of(rc));
    sw_history_close(job->history);
    job->history = NULL;
}

void sw_job_leave(struct sw_job *job)
{
    struct sw_err err = {0};
    close_history(job, SW_ERR_CANCELLED, &err);
}

/* The history stays open for the next stage. */
static void close_run(struct sw_job *job, int rc, const struct sw_err *err)
{
    const bool goes_on = rc == SW_OK && sw_job_has_next(job);
    if (!goes_on)
        close_history(job, rc, err);
    if (job->snapshot) {
        if (!goes_on)
            sw_snapshot_set_status(job->snapshot, status_of(rc));
        sw_snapshot_free(job->snapshot);
        job->snapshot = NULL;
    }
    if (job->notes_ready)
        sw_queue_fini(&job->notes);
    job->notes_ready = false;
}

/* The run's names in the live folder, where nothing can be freed any more. */
static void unlink_live(const struct sw_job *job)
{
    const char *live = sw_snapshot_file(job->snapshot);
    char *sock = live ? sw_control_path(live) : NULL;
    if (sock)
        sw_os()->unlink(sock);
    if (live)
        sw_os()->unlink(live);
    sw_free(sock);
}

/* A thread hangs: its memory cannot be freed, so all that is left is to write down why. */
static int say_stuck(struct sw_job *job, const char *role, struct sw_err *err)
{
    int rc = sw_fault_get(&job->fault, err);
    if (rc == SW_OK)
        rc = sw_err_set(err, SW_ERR_LIBRARY, "the run was over");
    sw_err_prefix(err, rc, "%s did not end within %d s", role, SHUTDOWN_MS / 1000);
    sw_history_event(job->history, SW_LOG_ERROR, "job", "%s", err->text);
    sw_history_finish_run(job->history, SW_RUN_FAILED);
    unlink_live(job);
    bool written = sw_history_flush(job->history, SHUTDOWN_MS);
    (void)written; /* there is nobody left to tell */
    return rc;
}

static int run(struct sw_job *job, sw_job_observer *observer, void *user, bool *stuck,
               struct sw_err *err)
{
    struct running r = {.job = job, .observer = observer, .user = user};
    const bool first = !job->stage.run_began_ns;
    r.displayed_ns = sw_os()->monotonic_ns();
    if (first)
        job->stage.run_began_ns = r.displayed_ns;
    if (stuck)
        *stuck = false;
    for (int i = 0; i < job->placement->worker_count; i++)
        job->workers[i].step = job->first_step;
    int rc = sw_job_settle_servers(job, err);
    if (rc == SW_OK)
        rc = open_history(job, err);
    if (rc == SW_OK)
        sw_checkpoint_sweep(sw_history_out_dir(job->history));
    if (rc == SW_OK)
        rc = make_trace(job, err);
    if (rc == SW_OK)
        rc = open_snapshot(job, err);
    if (rc == SW_OK)
        rc = allocate(job, err);
    if (rc == SW_OK && job->first_step < job->steps) {
        record_placement(job);
        if (first)
            tell_start(&r);
        sw_stage_tell(job);
        tell_misplaced(job);
        sw_rates_keep(job);
        sw_job_tune_keep(job);
        sw_job_tune_tell(job);
        rc = start_roles(job, err);
        if (rc != SW_OK)
            sw_fault_set(&job->fault, "job", err);
        else
            follow(&r);
        const char *hanging = end_roles(job);
        if (hanging) {
            if (stuck)
                *stuck = true;
            return say_stuck(job, hanging, err);
        }
        sw_job_tune_keep(job); /* of rows that workers were given on the way */
        struct sw_note note;
        sw_sense_end(job);
        sw_watch_end(job);
        tell_bridged(job);
        while (sw_queue_try_pop(&job->notes, &note) == SW_OK)
            deliver(&r, &note);
        rc = outcome(job, err);
        if (rc != SW_OK || !sw_job_has_next(job))
            tell_summary(&r, status_of(rc));
    }
    close_run(job, rc, err);
    return rc;
}

/* The calling thread is the job's main thread for a while, and runs where that is placed. So do
 * threads that it starts and that do not bind themselves: the history's writer, the watch. */
int sw_job_run(struct sw_job *job, sw_job_observer *observer, void *user, bool *stuck,
               struct sw_err *err)
{
    struct sw_err ignored; /* where the system refuses, it runs where it did */
    void *kept = NULL;
    int bound = sw_bind_keep(job->machine, &kept, &ignored);
    if (bound == SW_OK)
        bound = sw_bind_thread(
            job->machine, &sw_placement_helper(job->placement, SW_PLACE_MAIN)->cores, &ignored);
    int rc = run(job, observer, user, stuck, err);
    sw_bind_restore(job->machine, kept);
    return rc;
}
