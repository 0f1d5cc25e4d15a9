/* The worker role: owns a stream and its nets, and runs the steps.
 *
 * Messages in: batches from the prefetch threads; versions of parameters. Messages out: updates to
 * the servers, rows to the history, events to the main thread, its slot of the live snapshot. At
 * each step's end all workers of a job come to the same decision (between.c). A worker ends after
 * the last step, on a stop request at a step's end, when the fault is set, or by its own error,
 * which becomes the fault under its name. */
#include "worker/worker.h"
#include "base/os.h"
#include "base/stop.h"
#include "exchange/table/sync.h"
#include "thread/tasks.h"
#include "worker/between.h"
#include "worker/input.h"
#include "worker/layer_clock.h"
#include "worker/recurrent_state.h"
#include "worker/segments.h"
#include "worker/step.h"
#include "worker/sums.h"
#include <string.h>

/* ---- A step ---- */

/* Takes the next batch from the prefetch threads (host memory) and charges the wait to the time
 * breakdown, in the proportion in which those threads spent their time. */
static int read_batch(struct sw_worker *w, struct sw_batch *batch, struct sw_err *err)
{
    float waited_ms = 0;

    sw_slot_phase(w->slot, SW_PHASE_READ, sw_flight_next(w), -1, NULL, w->timer.charged_ns);

    int rc = sw_worker_next_batch(w, SW_SPLIT_TRAIN, batch, err);
    if (rc != SW_OK)
        return rc;

    sw_step_timer_charge(w, &waited_ms, NULL);

    double all = batch->read_ms + batch->decode_ms;
    double read_share = all > 0 ? batch->read_ms / all : 0;
    w->timer.ledger.read_ms += (float)(waited_ms * read_share);
    w->timer.ledger.decode_ms += (float)(waited_ms * (1 - read_share));

    return SW_OK;
}

/* On a device with its own memory the batch may already have been uploaded during the previous
 * step. */
static int take_batch(struct sw_worker *w, struct sw_batch *batch, struct sw_err *err)
{
    if (w->batches.is_ahead) {
        *batch = w->batches.ahead;
        w->batches.is_ahead = false;
        return SW_OK;
    }

    int rc = read_batch(w, batch, err);
    if (rc != SW_OK || !w->batches.input)
        return rc;

    return sw_input_start(w->batches.input, batch, err);
}

/* Binds the batch to the training nets: its copy on the device, or the batch in place. */
static int bind_batch(struct sw_worker *w, const struct sw_batch *batch, struct sw_err *err)
{
    const struct sw_source *source = w->shared.data->source[SW_SPLIT_TRAIN];

    if (w->batches.input)
        return sw_input_take(w->batches.input, batch, err);

    for (int f = 0; f < source->field_count; f++) {
        int rc = sw_microbatches_set_field(w->microbatches[SW_SPLIT_TRAIN], source->field[f].name,
                                           batch->field[f], err);
        if (rc != SW_OK)
            return rc;
    }

    return SW_OK;
}

static int next_batch(struct sw_worker *w, struct sw_batch *batch, struct sw_err *err)
{
    int rc = take_batch(w, batch, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_exchange_mark(w->exchange, SW_MARK_BEGIN, err);
    if (rc != SW_OK)
        return rc;

    rc = bind_batch(w, batch, err);
    if (rc != SW_OK)
        return rc;

    return sw_exchange_mark(w->exchange, SW_MARK_INPUT, err);
}

/* Makes asynchronous groups wait for those that are too many steps behind. */
static int keep_pace(struct sw_worker *w, struct sw_err *err)
{
    const struct sw_topology *t = w->topology;

    if (!t->is_async)
        return SW_OK;

    return sw_worker_keep_pace(w, t->staleness >= 0 ? t->staleness : SW_GROUP_MOST_LAG, err);
}

/* Makes the next step, up to the point where all its updates are pushed. */
static int queue_step(struct sw_worker *w, struct sw_err *err)
{
    struct sw_batch batch;

    int rc = keep_pace(w, err);
    if (rc != SW_OK)
        return rc;
    rc = next_batch(w, &batch, err);
    if (rc != SW_OK)
        return rc;

    rc = sw_nonfinite_before_step(w, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_train_step(w, sw_flight_next(w), &batch, err);
    if (rc != SW_OK)
        return rc;

    return sw_flight_add(w, &batch, err);
}

/* From here on time is charged to the step that is finished next. */
static void begin_breakdown(struct sw_worker *w)
{
    memset(&w->timer.ledger, 0, sizeof w->timer.ledger);
    w->timer.began_ns = w->timer.charged_ns;
}

/* Finishes the oldest step in flight: reads its results, records it, and does what is due behind
 * it. */
static int finish_step(struct sw_worker *w, struct sw_err *err)
{
    int rc = sw_train_finish(w, w->step + 1, w->flight.count - 1, err);
    if (rc != SW_OK)
        return rc;

    sw_flight_remove(w);
    sw_step_timer_charge(w, &w->timer.ledger.idle_ms, NULL);

    rc = sw_record_step(w, w->timer.began_ns, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_nonfinite_after_step(w, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_worker_between_steps(w, err);
    if (rc != SW_OK)
        return rc;

    begin_breakdown(w);
    return SW_OK;
}

/* Rests in the warm-up of another group. */
static int rest(struct sw_worker *w, struct sw_err *err)
{
    int rc = sw_worker_sleep_in_warmup(w, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_worker_between_steps(w, err);
    if (rc != SW_OK)
        return rc;

    begin_breakdown(w);
    return SW_OK;
}

/* Is the next step queued now, or is the oldest one in flight finished first? */
static bool goes_ahead(struct sw_worker *w)
{
    const struct sw_flight *f = &w->flight;

    if (f->count == 0)
        return true;

    return f->count < f->depth && !sw_layer_clock_runs(w) &&
           !sw_worker_acts_after(w, w->step + f->count);
}

static int train(struct sw_worker *w, struct sw_err *err)
{
    w->timer.charged_ns = sw_os()->monotonic_ns();
    w->timer.resumes = true;
    begin_breakdown(w);

    while (!w->end.over && !w->end.stopped) {
        if (sw_fault_is_set(w->shared.fault))
            return sw_err_set(err, SW_ERR_CANCELLED, "the job is ending");

        int rc = sw_topology_sleeps(w->topology, w->rank->group, w->step + 1) ? rest(w, err)
                 : goes_ahead(w)                                              ? queue_step(w, err)
                                                                              : finish_step(w, err);
        if (rc != SW_OK)
            return rc;
    }

    return SW_OK;
}

/* ---- Before the first step ---- */

/* From here on a checkpoint exists that can be resumed, so the job itself handles the first request
 * to stop. */
static int hold_stop(struct sw_requests *requests, struct sw_err *err)
{
    int rc = sw_stop_hold(err);
    __atomic_store_n(&requests->holds_stop, rc == SW_OK, __ATOMIC_RELAXED);
    return rc;
}

/* By the leader. */
static int load_first_values(struct sw_worker *w, struct sw_err *err)
{
    sw_layer_clock_report(w);
    sw_slot_phase(w->slot, SW_PHASE_START, w->step, -1, NULL, sw_os()->monotonic_ns());

    int rc = w->shared.hooks->load_first_values(w->shared.run, err);
    if (rc == SW_OK)
        rc = hold_stop(w->shared.requests, err);
    if (w->shared.params->sync)
        sw_sync_broadcast(w->shared.params->sync, (uint64_t)w->step, false);

    return rc == SW_OK && w->topology->is_async ? w->shared.hooks->resume(w->shared.run, err) : rc;
}

static int prepare(struct sw_worker *w, struct sw_err *err)
{
    int rc = sw_worker_attach(w, err);
    if (rc != SW_OK)
        return rc;

    w->step = w->record.first_step = w->record.curves.norms_step = w->shared.span->first_step;
    if (w->rank->global_rank == 0)
        rc = load_first_values(w, err);
    if (rc != SW_OK)
        return rc;

    rc = sw_worker_barrier(w, "the first values", err);
    if (rc != SW_OK)
        return rc;

    w->state.reset_after = w->shared.state->reset_after;
    rc = sw_buffers_scatter(w, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_recurrent_state_scatter(w, err);
    if (rc != SW_OK)
        return rc;

    return sw_worker_refresh_values(w, err);
}

/* ---- The role ---- */

/* Records the host's cost of launches, for benchmarks. */
static void record_launches(const struct sw_worker *w)
{
    const struct sw_segment_stats s = sw_segments_stats(w->segments);

    if (s.launches > 0)
        sw_history_event(w->shared.events->history, SW_LOG_DEBUG, w->role,
                         "graphs of a step: %d of %d segments, %.2f us a launch", s.graphs,
                         sw_segments_count(w->segments), s.launch_us);
}

void sw_worker_main(void *worker)
{
    struct sw_worker *w = worker;
    struct sw_err err = {0};

    sw_slot_set_thread(w->slot, sw_task_self());

    int rc = prepare(w, &err);
    if (rc == SW_ERR_CANCELLED)
        sw_fault_stop(w->shared.fault, w->role, &err);
    if (rc == SW_OK)
        rc = train(w, &err);
    sw_record_layers(w);
    record_launches(w);
    if (rc != SW_OK)
        sw_fault_set(w->shared.fault, w->role, &err);
    sw_slot_phase(w->slot, SW_PHASE_IDLE, w->step, -1, NULL, sw_os()->monotonic_ns());
    sw_events_post_ended(w->shared.events);
}
