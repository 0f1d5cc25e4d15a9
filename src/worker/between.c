/* Between two steps: one decision, which all workers of a job carry out together.
 *
 * The first worker that asks makes the decision after a step, and all others get the same one
 * (group.h). Mostly there is nothing to do. Else the workers synchronize: every update is applied,
 * asynchronous server groups merge, and all workers read the same values. Then follow, each as it
 * was decided: an evaluation, conditions of stop_at, rows by speed, a checkpoint by the leader, a
 * pause. All workers take the same way through this file, so that they meet at the same places.
 * Whatever ends the job makes every meeting return SW_ERR_CANCELLED. */
#include "worker/between.h"
#include "base/os.h"
#include "exchange/table/sync.h"
#include "worker/carries.h"
#include "worker/evaluate.h"
#include "worker/server.h"
#include "worker/sums.h"
#include "worker/worker.h"
#include "worker/worker_exchange.h"
#include "worker/worker_place.h"

static bool is_leader(const struct sw_worker *w)
{
    return w->rank->global_rank == 0;
}

/* ---- The decision ---- */

static bool due(int64_t every, int64_t step)
{
    return every > 0 && step % every == 0;
}

/* worker: any of the job, for what all of them share. */
static struct sw_decision decide(void *worker, int64_t t)
{
    const struct sw_worker *w = worker;
    const struct sw_worker_shared *job = &w->shared;
    const struct sw_job_conf *c = job->conf;
    const int64_t own = t - job->span->stage_from;

    /* Only the checkpoint request is used up; a stop stays. */
    int asked = sw_requests_get(job->requests);
    __atomic_fetch_and(&job->requests->bits, ~(asked & SW_JOB_CHECKPOINT_NOW), __ATOMIC_RELAXED);

    struct sw_decision d = {.stop = (asked & SW_JOB_STOP) != 0, .last = t >= job->span->steps};
    d.last = d.last || (job->stops->looks_at_steps &&
                        sw_stop_reached(job->stops, job->workers, SW_SPLIT_TRAIN, t, true));
    d.evaluate = job->data->source[SW_SPLIT_EVAL] && !(d.stop && !d.last) &&
                 (d.last || due(c->eval_every, own));
    d.checkpoint =
        d.last || d.stop || (asked & SW_JOB_CHECKPOINT_NOW) || due(c->checkpoint_every, own);
    d.pause = (asked & SW_JOB_PAUSE) && !d.stop && !d.last;
    d.join = w->topology->warmup_steps > 0 && t == w->topology->warmup_steps;
    d.rollback = sw_nonfinite_wants_rollback(job->nonfinite);
    return d;
}

/* ---- Synchronization ---- */

int sw_worker_refresh_values(struct sw_worker *w, struct sw_err *err)
{
    if (!w->topology->is_async)
        return SW_OK;
    if (w->rank->rank == 0)
        sw_table_refresh(w->table, sw_table_update_group(w->table, w->rank->table_rank));
    sw_exchange_refresh(w->exchange);
    return sw_worker_meet(w, "the values of all groups", err);
}

/* Waits until no delta is under way. Servers add deltas, and workers run some of the servers. */
static int drain_deltas(struct sw_worker *w, struct sw_err *err)
{
    enum { LOOK_MS = 1 };

    while (!sw_sync_is_quiet(w->shared.params->sync)) {
        int rc = sw_server_poll(w, err);
        if (rc != SW_OK)
            return rc;
        if (sw_table_wait(w->table, SW_TABLE_ALL, 0, UINT32_MAX, w->served.ranks, w->served.count,
                          LOOK_MS) == SW_ERR_CANCELLED)
            return sw_err_set(err, SW_ERR_CANCELLED, "the job is ending");
    }
    return sw_worker_meet(w, "deltas of other server groups", err);
}

static int settle_deltas(struct sw_worker *w, struct sw_err *err)
{
    int rc = drain_deltas(w, err);
    if (rc != SW_OK)
        return rc;

    if (is_leader(w)) {
        sw_sync_settle(w->shared.params->sync, (uint64_t)w->step);
        if (w->step == w->topology->warmup_steps)
            w->shared.hooks->end_warmup(w->shared.run);
    }
    return sw_worker_meet(w, "the merge of server groups", err);
}

/* All server groups have the same values. By all workers, when all their updates are applied. */
static int merge(struct sw_worker *w, struct sw_err *err)
{
    if (!w->shared.params->sync)
        return SW_OK;
    int rc = settle_deltas(w, err);
    sw_record_sync(w);
    return rc;
}

/* Asynchronous groups wait for each other, and go on from what all of them have learnt. */
static int merge_groups(struct sw_worker *w, struct sw_err *err)
{
    if (!w->topology->is_async)
        return SW_OK;

    int rc = sw_exchange_wait_all(w->exchange, (uint64_t)w->step, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_worker_meet(w, "the other groups", err);
    if (rc != SW_OK)
        return rc;

    rc = merge(w, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_nonfinite_roll_back(w, err);
    if (rc != SW_OK)
        return rc;
    return sw_worker_refresh_values(w, err);
}

/* What only devices know comes to the table, where the leader looks for it; when no device reads
 * there any more what was there before. */
static int sync_to_host(struct sw_worker *w, struct sw_err *err)
{
    if (!sw_exchange_keeps_values(w->exchange))
        return SW_OK;

    int rc = sw_worker_wait(w, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_worker_meet(w, "the other devices", err);
    if (rc != SW_OK)
        return rc;

    rc = sw_exchange_sync_to_host(w->exchange, (uint64_t)w->step, is_leader(w), err);
    if (rc != SW_OK)
        return rc;
    return sw_worker_meet(w, "the parameters of all devices", err);
}

/* Others may still read features where they lie, in memory that an evaluation uses, too. */
static int wait_for_readers(struct sw_worker *w, struct sw_err *err)
{
    if (!w->shared.groups->features[SW_SPLIT_TRAIN][w->rank->group])
        return SW_OK;
    return sw_worker_meet(w, "the readers of its features", err);
}

/* Every update of step w->step is applied, and all workers read the same values. */
static int synchronize(struct sw_worker *w, struct sw_err *err)
{
    int rc = merge_groups(w, err);
    if (rc != SW_OK)
        return rc;

    rc = sw_exchange_pull(w->exchange, sw_worker_params(w, SW_SPLIT_TRAIN), (uint64_t)w->step, err);
    if (rc != SW_OK)
        return rc;
    rc = wait_for_readers(w, err);
    if (rc != SW_OK)
        return rc;
    rc = sync_to_host(w, err);
    if (rc != SW_OK)
        return rc;

    rc = sw_states_gather(w, err);
    if (rc != SW_OK)
        return rc;
    return sw_carries_gather(w, err);
}

/* ---- What was decided ---- */

/* Every worker passes over its rows; the leader tells what came out. All leave it when the job is
 * to stop, but for the last evaluation of a stage, which nobody would make good. */
static int evaluate(struct sw_worker *w, struct sw_decision *d, struct sw_err *err)
{
    bool left = false;

    sw_slot_phase(w->slot, SW_PHASE_EVALUATE, w->step, -1, NULL, sw_os()->monotonic_ns());
    int rc = sw_evaluate_pass(w, d->last ? NULL : w->shared.requests, &left, err);
    sw_record_layers(w);
    if (left) {
        d->evaluate = false;
        d->stop = d->checkpoint = true;
        return rc;
    }

    if (rc == SW_OK && is_leader(w)) {
        sw_record_evaluation(w);
        w->shared.hooks->note_evaluation(w->shared.run, w->step);
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

    rc = w->shared.hooks->write_checkpoint(w->shared.run, err);
    if (rc == SW_OK || last || rc == SW_ERR_DIVERGED)
        return rc;

    w->failures.checkpoints++;
    sw_events_say(w->shared.events, SW_LOG_ERROR, w->unit,
                  "checkpoint %d could not be written and training goes on: %s",
                  w->failures.checkpoints, err->text);
    return SW_OK;
}

/* Until the request is taken back. Meanwhile the leader writes the checkpoints that are asked for.
 */
static int wait_at_gate(struct sw_worker *w, bool *stop, struct sw_err *err)
{
    bool over = false, save = false;

    while (!over) {
        sw_slot_phase(w->slot, SW_PHASE_PAUSED, w->step, -1, NULL, sw_os()->monotonic_ns());
        int rc = sw_gate_wait(w->shared.requests, w->step, is_leader(w), &over, &save, stop, err);
        if (rc == SW_OK && save)
            rc = checkpoint(w, false, err);
        if (rc != SW_OK)
            return rc;
    }
    return SW_OK;
}

/* A stop ends the pause as it would have ended the step. */
static int pause_here(struct sw_worker *w, struct sw_decision *d, struct sw_err *err)
{
    int rc = sw_worker_meet(w, "the others' pause", err);
    if (rc != SW_OK)
        return rc;

    if (is_leader(w))
        sw_events_say(w->shared.events, SW_LOG_INFO, w->unit, "paused by request after step %lld",
                      (long long)w->step);
    rc = wait_at_gate(w, &d->stop, err);
    if (rc != SW_OK || !is_leader(w))
        return rc;

    sw_events_say(w->shared.events, SW_LOG_INFO, w->unit, "the pause after step %lld is over",
                  (long long)w->step);
    if (d->stop && !w->shared.hooks->has_checkpoint(w->shared.run, w->step))
        return checkpoint(w, true, err);
    return SW_OK;
}

/* The evaluation, and what follows from it: the end by stop_at, rows by speed. */
static int evaluate_and_judge(struct sw_worker *w, struct sw_decision *d, struct sw_err *err)
{
    bool reached = false;

    int rc = evaluate(w, d, err);
    if (rc != SW_OK || !d->evaluate || d->last)
        return rc;
    rc = sw_stop_after_evaluation(w->shared.stops, w, &reached, err);
    if (rc != SW_OK)
        return rc;

    if (reached)
        d->last = d->checkpoint = true;
    if (d->last || d->stop)
        return SW_OK;
    return w->shared.hooks->rebalance(w->shared.run, w, err);
}

/* By the leader: the checkpoint that was decided on, or that of the best evaluation so far. */
static int keep(struct sw_worker *w, const struct sw_decision *d, struct sw_err *err)
{
    const struct sw_worker_hooks *hooks = w->shared.hooks;

    if (d->last)
        hooks->end_job(w->shared.run, w->step);
    bool best =
        w->shared.conf->checkpoint_best && d->evaluate && hooks->is_best(w->shared.run, w->step);
    if (!d->checkpoint && !best)
        return SW_OK;
    return checkpoint(w, d->last || d->stop, err);
}

/* Synchronizes, for what was decided; before an end that needs no evaluation all workers meet. */
static int come_together(struct sw_worker *w, const struct sw_decision *d, struct sw_err *err)
{
    int rc = synchronize(w, err);
    if (rc != SW_OK || d->evaluate || !(d->last || d->stop))
        return rc;
    return sw_worker_meet(w, "the last updates", err);
}

/* Before anything else all updates of the step are applied: a worker that runs a server may not
 * leave before its last message. */
static int carry_out(struct sw_worker *w, struct sw_decision *d, struct sw_err *err)
{
    int rc = come_together(w, d, err);
    sw_record_norms(w);
    if (rc != SW_OK)
        return rc;

    if (d->evaluate)
        rc = evaluate_and_judge(w, d, err);
    if (rc != SW_OK)
        return rc;
    if (is_leader(w))
        rc = keep(w, d, err);
    if (rc != SW_OK)
        return rc;
    if (d->pause && !d->last)
        rc = pause_here(w, d, err);
    if (rc != SW_OK || !w->topology->is_async)
        return rc;
    return sw_worker_meet(w, "the first worker's checkpoint",
                          err); /* it reads what others would update */
}

int sw_worker_between_steps(struct sw_worker *w, struct sw_err *err)
{
    struct sw_group *all = &w->shared.groups->all;

    if (!sw_topology_rests(w->topology, w->rank->group, w->step)) {
        int rc = sw_stop_gather(w->shared.stops, w, err);
        if (rc != SW_OK)
            return rc;
    }

    struct sw_decision d = sw_group_decide(all, w->step, decide, w);
    if (!d.evaluate && !d.checkpoint && !d.pause && !d.join && !d.rollback)
        return SW_OK;
    if (w->step <= w->topology->warmup_steps)
        sw_group_call(all, w->step);
    int rc = carry_out(w, &d, err);

    w->end.over = d.last;
    w->end.stopped = d.stop && !d.last;
    w->timer.lap_ns = sw_os()->monotonic_ns();
    return rc;
}
