/* The worker role: owns a stream and its nets, and runs the steps.
 *
 * Messages in: batches from the prefetch threads; versions of parameters. Messages out: updates to
 * the servers, rows to the history, notes to the main thread, its slot of the live snapshot. At
 * each step's end all workers of a job come to the same decision (evaluate, checkpoint, stop). It
 * ends after the last step, on a stop request at a step's end, when the fault is set, or by its own
 * error, which becomes the fault under its name. */
#include "train/worker.h"
#include "base/os.h"
#include "base/stop.h"
#include "param/sync.h"
#include "sync/tasks.h"
#include "train/carries.h"
#include "train/evaluate.h"
#include "train/input.h"
#include "train/job_checkpoint.h"
#include "train/job_private.h"
#include "train/layer_clock.h"
#include "train/segments.h"
#include "train/server.h"
#include "train/step.h"
#include "train/sums.h"
#include "train/worker_exchange.h"
#include "train/worker_place.h"
#include <string.h>

/* Where it is in host memory. */
static int read_batch(struct sw_worker *w, struct sw_batch *batch, struct sw_err *err)
{
    float waited_ms = 0;
    sw_slot_phase(w->slot, SW_PHASE_READ, w->step + 1, -1, NULL, w->timer.lap_ns);
    int rc = sw_worker_next_batch(w, SW_SPLIT_TRAIN, batch, err);
    if (rc != SW_OK)
        return rc;
    sw_worker_lap(w, &waited_ms, NULL);
    /* What was waited for, in the proportion in which the prefetch threads spent their time. */
    double all = batch->read_ms + batch->decode_ms;
    double read_share = all > 0 ? batch->read_ms / all : 0;
    w->timer.ledger.read_ms += (float)(waited_ms * read_share);
    w->timer.ledger.decode_ms += (float)(waited_ms * (1 - read_share));
    return SW_OK;
}

/* A device of its own may have been sent it during the step before. */
static int next_batch(struct sw_worker *w, struct sw_batch *batch, struct sw_err *err)
{
    const struct sw_source *source = w->shared.data->source[SW_SPLIT_TRAIN];
    int rc = SW_OK;
    if (w->batches.is_ahead)
        *batch = w->batches.ahead;
    else
        rc = read_batch(w, batch, err);
    if (rc == SW_OK && w->batches.input && !w->batches.is_ahead)
        rc = sw_input_start(w->batches.input, batch, err);
    w->batches.is_ahead = false;
    if (rc == SW_OK)
        rc = sw_exchange_mark(w->exchange, SW_MARK_BEGIN, err);
    if (rc == SW_OK && w->batches.input)
        rc = sw_input_take(w->batches.input, batch, err);
    for (int f = 0; f < source->field_count && rc == SW_OK && !w->batches.input; f++)
        rc = sw_parts_set_field(w->parts[SW_SPLIT_TRAIN], source->field[f].name, batch->field[f],
                                err);
    return rc == SW_OK ? sw_exchange_mark(w->exchange, SW_MARK_INPUT, err) : rc;
}

static int keep_pace(struct sw_worker *w, struct sw_err *err)
{
    const struct sw_job *job = w->job;
    int64_t most = job->topology->staleness >= 0 ? job->topology->staleness : SW_GROUP_APART;
    return job->topology->is_async ? sw_worker_keep_pace(w, most, err) : SW_OK;
}

/* Everything of update w->step + 1, up to the point where all its updates are handed over. */
static int next_step(struct sw_worker *w, struct sw_err *err)
{
    struct sw_batch batch;
    int64_t began_ns = w->timer.lap_ns;
    memset(&w->timer.ledger, 0, sizeof w->timer.ledger);
    int rc = keep_pace(w, err);
    if (rc == SW_OK)
        rc = next_batch(w, &batch, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_nonfinite_before_step(w, err);
    if (rc == SW_OK)
        rc = sw_train_step(w, w->step + 1, &batch, err);
    sw_prefetch_release(w->batches.prefetch[SW_SPLIT_TRAIN], &batch);
    if (rc != SW_OK)
        return rc;
    w->step++;
    sw_worker_lap(w, &w->timer.ledger.idle_ms, NULL);
    sw_record_step(w, began_ns);
    return SW_OK;
}

/* Every worker passes over its rows; the leader tells what came out. All leave it when the job is
 * to stop, but for the last evaluation of a stage, which nobody would make good. */
static int evaluate(struct sw_worker *w, struct sw_decision *d, struct sw_err *err)
{
    bool left = false;
    sw_slot_phase(w->slot, SW_PHASE_EVALUATE, w->step, -1, NULL, sw_os()->monotonic_ns());
    int rc = sw_evaluate_pass(w, d->last ? NULL : &w->job->requests, &left, err);
    sw_record_layers(w);
    if (left) {
        d->evaluate = false;
        d->stop = d->checkpoint = true;
        return rc;
    }
    if (rc == SW_OK && w->rank->global_rank == 0) {
        sw_record_evaluation(w);
        w->job->retention.evaluated = w->step;
    }
    return rc;
}

/* By the leader. One that cannot be written in mid-run is an event and a counter; when the run ends
 * with it, it is an error. */
static int checkpoint(struct sw_worker *w, bool last, struct sw_err *err)
{
    sw_slot_phase(w->slot, SW_PHASE_CHECKPOINT, w->step, -1, NULL, sw_os()->monotonic_ns());
    /* The file has the parameters that other workers hold, too. */
    int rc = sw_exchange_wait_all(w->exchange, (uint64_t)w->step, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_job_write_checkpoint(w->job, err);
    if (rc == SW_OK || last || rc == SW_ERR_DIVERGED)
        return rc;
    w->failures.checkpoints++;
    sw_events_say(w->shared.events, SW_LOG_ERROR, w->unit,
                  "checkpoint %d could not be written and training goes on: %s",
                  w->failures.checkpoints, err->text);
    return SW_OK;
}

static bool due(int64_t every, int64_t step)
{
    return every > 0 && step % every == 0;
}

static struct sw_decision decide(void *user, int64_t t)
{
    struct sw_job *job = user;
    const struct sw_job_conf *c = job->conf;
    /* Only the checkpoint request is used up; a stop stays. */
    int asked = sw_requests_get(&job->requests);
    __atomic_fetch_and(&job->requests.bits, ~(asked & SW_JOB_CHECKPOINT_NOW), __ATOMIC_RELAXED);
    struct sw_decision d = {.stop = (asked & SW_JOB_STOP) != 0, .last = t >= job->span.steps};
    d.last = d.last || (job->stops.looks_at_steps &&
                        sw_stop_reached(&job->stops, job->workers, SW_SPLIT_TRAIN, t, true));
    const int64_t own = t - job->stage.from;
    d.evaluate = job->data.source[SW_SPLIT_EVAL] && !(d.stop && !d.last) &&
                 (d.last || due(c->eval_every, own));
    d.checkpoint =
        d.last || d.stop || (asked & SW_JOB_CHECKPOINT_NOW) || due(c->checkpoint_every, own);
    d.pause = (asked & SW_JOB_PAUSE) && !d.stop && !d.last;
    d.join = job->topology->warmup_steps > 0 && t == job->topology->warmup_steps;
    d.rollback = sw_nonfinite_wants_rollback(&job->nonfinite);
    return d;
}

/* Between two steps. A stop ends the pause as it would have ended the step. */
static int pause_here(struct sw_worker *w, struct sw_decision *d, struct sw_err *err)
{
    bool over = false, save = false;
    int rc = sw_worker_meet(w, "the others' pause", err);
    if (rc == SW_OK && w->rank->global_rank == 0)
        sw_events_say(w->shared.events, SW_LOG_INFO, w->unit, "paused by request after step %lld",
                      (long long)w->step);
    while (rc == SW_OK && !over) {
        sw_slot_phase(w->slot, SW_PHASE_PAUSED, w->step, -1, NULL, sw_os()->monotonic_ns());
        rc = sw_gate_wait(&w->job->requests, w->step, w->rank->global_rank == 0, &over, &save,
                          &d->stop, err);
        if (rc == SW_OK && save)
            rc = checkpoint(w, false, err);
    }
    if (rc == SW_OK && w->rank->global_rank == 0)
        sw_events_say(w->shared.events, SW_LOG_INFO, w->unit, "the pause after step %lld is over",
                      (long long)w->step);
    bool saved = __atomic_load_n(&w->job->retention.saved_step, __ATOMIC_RELAXED) == w->step;
    if (rc == SW_OK && d->stop && w->rank->global_rank == 0 && !saved)
        rc = checkpoint(w, true, err);
    return rc;
}

/* All groups read what the table has now. By all workers, when nothing is to be applied. */
static int refresh_values(struct sw_worker *w, struct sw_err *err)
{
    if (!w->topology->is_async)
        return SW_OK;
    if (w->rank->rank == 0)
        sw_table_refresh(w->table, sw_table_update_group(w->table, w->rank->table_rank));
    sw_exchange_refresh(w->exchange);
    return sw_worker_meet(w, "the values of all groups", err);
}

/* All server groups have the same values. By all workers, when all their updates are applied. */
static int merge(struct sw_worker *w, struct sw_err *err)
{
    enum { LOOK_MS = 1 };
    struct sw_job *job = w->job;
    int rc = SW_OK;
    if (!job->params.sync)
        return SW_OK;
    /* Deltas that are under way are added by servers, some of which workers run. */
    while (rc == SW_OK && !sw_sync_is_quiet(job->params.sync)) {
        rc = sw_server_poll(w, err);
        if (rc == SW_OK && sw_table_wait(w->table, SW_TABLE_ALL, 0, UINT32_MAX, w->served.ranks,
                                         w->served.count, LOOK_MS) == SW_ERR_CANCELLED)
            rc = sw_err_set(err, SW_ERR_CANCELLED, "the job is ending");
    }
    if (rc == SW_OK)
        rc = sw_worker_meet(w, "deltas of other server groups", err);
    if (rc == SW_OK && w->rank->global_rank == 0) {
        sw_sync_settle(job->params.sync, (uint64_t)w->step);
        if (w->step == job->topology->warmup_steps)
            sw_job_join(job);
    }
    if (rc == SW_OK)
        rc = sw_worker_meet(w, "the merge of server groups", err);
    sw_record_sync(w);
    return rc;
}

/* What only devices know comes to the table, where the leader looks for it; when no device reads
 * there any more what was there before. */
static int sync_to_host(struct sw_worker *w, struct sw_err *err)
{
    int rc = sw_worker_wait(w, err);
    if (rc == SW_OK)
        rc = sw_worker_meet(w, "the other devices", err);
    if (rc == SW_OK)
        rc = sw_exchange_sync_to_host(w->exchange, (uint64_t)w->step, w->rank->global_rank == 0,
                                      err);
    return rc == SW_OK ? sw_worker_meet(w, "the parameters of all devices", err) : rc;
}

/* Every update of step w->step is applied, and all workers read the same values: asynchronous
 * groups wait for each other, and go on from what all of them have learnt. */
static int synchronize(struct sw_worker *w, struct sw_err *err)
{
    int rc = SW_OK;
    if (w->topology->is_async) {
        rc = sw_exchange_wait_all(w->exchange, (uint64_t)w->step, err);
        if (rc == SW_OK)
            rc = sw_worker_meet(w, "the other groups", err);
        if (rc == SW_OK)
            rc = merge(w, err);
        if (rc == SW_OK)
            rc = sw_nonfinite_roll_back(w, err);
        if (rc == SW_OK)
            rc = refresh_values(w, err);
    }
    if (rc == SW_OK)
        rc = sw_exchange_pull(w->exchange, sw_worker_params(w, SW_SPLIT_TRAIN), (uint64_t)w->step,
                              err);
    /* Others may still read features where they lie, in memory that an evaluation uses, too. */
    if (rc == SW_OK && w->shared.groups->features[SW_SPLIT_TRAIN][w->rank->group])
        rc = sw_worker_meet(w, "the readers of its features", err);
    if (rc == SW_OK && sw_exchange_keeps_values(w->exchange))
        rc = sync_to_host(w, err);
    if (rc == SW_OK)
        rc = sw_states_gather(w, err);
    return rc == SW_OK ? sw_carries_gather(w, err) : rc;
}

/* What all decided after step w->step. Before anything else all its updates are applied: a
 * worker that runs a server may not leave before its last message. */
static int between_steps(struct sw_worker *w, struct sw_err *err)
{
    bool reached = false, rested = sw_topology_rests(w->topology, w->rank->group, w->step);
    int rc = rested ? SW_OK : sw_stop_gather(&w->job->stops, w, err);
    if (rc != SW_OK)
        return rc;
    struct sw_decision d = sw_group_decide(&w->shared.groups->all, w->step, decide, w->job);
    if (!d.evaluate && !d.checkpoint && !d.pause && !d.join && !d.rollback)
        return SW_OK;
    if (w->step <= w->topology->warmup_steps)
        sw_group_call(&w->shared.groups->all, w->step);
    rc = synchronize(w, err);
    if (rc == SW_OK && (d.last || d.stop) && !d.evaluate)
        rc = sw_worker_meet(w, "the last updates", err);
    sw_record_norms(w);
    if (rc == SW_OK && d.evaluate)
        rc = evaluate(w, &d, err);
    if (rc == SW_OK && d.evaluate && !d.last)
        rc = sw_stop_after_evaluation(&w->job->stops, w, &reached, err);
    d.last = d.last || reached;
    if (rc == SW_OK && d.evaluate && !d.last && !d.stop)
        rc = sw_rebalance(w, err);
    d.checkpoint = d.checkpoint || reached;
    if (w->rank->global_rank == 0 && d.last)
        sw_stage_note_end(w->job, w->step);
    bool best = w->rank->global_rank == 0 && w->shared.conf->checkpoint_best && d.evaluate &&
                sw_retention_beats(&w->job->retention, w->step);
    if (rc == SW_OK && w->rank->global_rank == 0 && (d.checkpoint || best))
        rc = checkpoint(w, d.last || d.stop, err);
    if (rc == SW_OK && d.pause && !d.last)
        rc = pause_here(w, &d, err);
    if (rc == SW_OK && w->topology->is_async)
        rc = sw_worker_meet(w, "the first worker's checkpoint",
                            err); /* it reads what others would update */
    w->end.over = d.last;
    w->end.stopped = d.stop && !d.last;
    w->timer.lap_ns = sw_os()->monotonic_ns();
    return rc;
}

static int train(struct sw_worker *w, struct sw_err *err)
{
    struct sw_job *job = w->job;
    int rc = SW_OK;
    w->timer.lap_ns = sw_os()->monotonic_ns();
    while (rc == SW_OK && !w->end.over && !w->end.stopped) {
        if (sw_fault_is_set(&job->fault))
            return sw_err_set(err, SW_ERR_CANCELLED, "the job is ending");
        bool rests = sw_topology_rests(job->topology, w->rank->group, w->step + 1);
        rc = rests ? sw_worker_rest(w, err) : next_step(w, err);
        if (rc == SW_OK && !rests)
            rc = sw_nonfinite_after_step(w, err);
        if (rc == SW_OK)
            rc = between_steps(w, err);
    }
    return rc;
}

/* Values from the initialisers, from another run's file or the stage before, or from the checkpoint
 * to go on from. A new run writes checkpoint 0, so that there always is one, and a new stage its
 * own in the place of that which it begins from. By the leader. */
static int first_values(struct sw_worker *w, struct sw_err *err)
{
    struct sw_job *job = w->job;
    int rc;
    for (int i = 0; i < job->topology->server_groups; i++)
        sw_job_put_step(job, i, job->stage.begins ? job->span.first_step : 0, 0, 0);
    if (job->options.resume_checkpoint && !job->stage.begins)
        return sw_job_load_checkpoint(job, job->options.resume_checkpoint, err);
    if (job->stage.begins)
        job->state.reset_after = job->span.first_step;
    rc = sw_table_init_values(job->params.table, err);
    if (rc == SW_OK)
        rc = sw_job_take_values(job, err);
    return rc == SW_OK ? sw_job_write_checkpoint(job, err) : rc;
}

/* Now there is something to resume: from here on the job itself answers the first request to stop.
 */
static int hold_stop(struct sw_job *job, struct sw_err *err)
{
    int rc = sw_stop_hold(err);
    __atomic_store_n(&job->requests.holds_stop, rc == SW_OK, __ATOMIC_RELAXED);
    return rc;
}

static int prepare(struct sw_worker *w, struct sw_err *err)
{
    struct sw_job *job = w->job;
    int rc = sw_worker_attach(w, err);
    if (rc != SW_OK)
        return rc;
    w->step = w->first_step = w->record.curves.norms_step = job->span.first_step;
    if (w->rank->global_rank == 0) {
        sw_layer_clock_say(w);
        sw_slot_phase(w->slot, SW_PHASE_START, w->step, -1, NULL, sw_os()->monotonic_ns());
        rc = first_values(w, err);
        if (rc == SW_OK)
            rc = hold_stop(job, err);
        if (job->params.sync)
            sw_sync_spread(job->params.sync, (uint64_t)w->step, false);
    }
    if (rc == SW_OK)
        rc = sw_worker_meet(w, "the first values", err);
    w->state.reset_after = job->state.reset_after;
    if (rc == SW_OK)
        rc = sw_states_deal(w, err);
    if (rc == SW_OK)
        rc = sw_carries_deal(w, err);
    return rc == SW_OK ? refresh_values(w, err) : rc;
}

/* What the host pays for a step, for benchmarks. */
static void record_launches(const struct sw_worker *w)
{
    const struct sw_segment_stats s = sw_segments_stats(w->segments);
    if (s.launches > 0)
        sw_history_event(w->shared.events->history, SW_LOG_DEBUG, w->unit,
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
        sw_fault_stop(w->shared.fault, w->unit, &err);
    if (rc == SW_OK)
        rc = train(w, &err);
    sw_record_layers(w);
    record_launches(w);
    if (rc != SW_OK)
        sw_fault_set(w->shared.fault, w->unit, &err);
    sw_slot_phase(w->slot, SW_PHASE_IDLE, w->step, -1, NULL, sw_os()->monotonic_ns());
    sw_events_tell_ended(w->shared.events);
}
