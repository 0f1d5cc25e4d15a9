/* Between two steps: one decision, which all workers of a job carry out together.
 *
 * The first worker that asks makes the decision after a step, and all others get the same one
 * (group.h). Usually there is nothing to do. Otherwise the workers synchronize: every update is
 * applied, asynchronous server groups merge, and all workers read the same values. Then follow, as
 * decided: an evaluation, the end by stop_at or patience, rebalancing rows, a checkpoint by the
 * leader, a pause. All workers take the same path through this file, so that they reach the same
 * barriers. Whatever ends the job makes every barrier return SW_ERR_CANCELLED. */
#include "worker/between.h"
#include "base/os.h"
#include "worker/evaluate.h"
#include "worker/recurrent_state.h"
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

/* worker: any worker of the job; only shared data is read. */
static struct sw_group_decision decide(void *worker, int64_t t)
{
    const struct sw_worker *w = worker;
    const struct sw_worker_shared *job = &w->shared;
    const struct sw_job_conf *c = job->conf;
    const int64_t own = t - job->span->stage_from;

    const int asked = sw_worker_requests(w, t);

    struct sw_group_decision d = {.stop = asked & SW_JOB_STOP, .last = t >= job->span->steps};
    d.last = d.last || (job->stops->uses_training &&
                        sw_stop_reached(job->stops, job->workers, SW_SPLIT_TRAIN, t, true));
    d.evaluate = job->data->source[SW_SPLIT_EVAL] &&
                 (d.last || (due(c->eval_every, own) && (!d.stop || c->patience > 0)));
    d.checkpoint = (d.last && c->checkpoint_ends) || d.stop || (asked & SW_JOB_CHECKPOINT_NOW) ||
                   due(c->checkpoint_every, own);
    d.pause = (asked & SW_JOB_PAUSE) && !d.stop && !d.last;
    d.join = w->topology->warmup_steps > 0 && t == w->topology->warmup_steps;
    if (job->span->times_only)
        d.evaluate = d.checkpoint = false;
    if (d.evaluate && !d.last && sw_requests_replan(job->requests, asked))
        d.stop = d.checkpoint = true;
    d.rollback = sw_nonfinite_requests_rollback(job->nonfinite);

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

    return sw_worker_barrier(w, "the values of all groups", err);
}

/* Waits until no change is in flight between replicas of the parameters. Servers add changes, and
 * workers run some of the servers. */
static int drain_changes(struct sw_worker *w, struct sw_err *err)
{
    enum { CHECK_MS = 1 };

    while (!w->shared.hooks->is_quiet(w->shared.run)) {
        int rc = sw_server_poll(w, err);
        if (rc != SW_OK)
            return rc;
        if (sw_table_wait(w->table, SW_TABLE_ALL, 0, UINT32_MAX, w->served.ranks, w->served.count,
                          CHECK_MS) == SW_ERR_CANCELLED)
            return sw_err_set(err, SW_ERR_CANCELLED, "the job is ending");
    }

    return sw_worker_barrier(w, "changes of other server groups", err);
}

static int merge_replicas(struct sw_worker *w, struct sw_err *err)
{
    const struct sw_worker_hooks *hooks = w->shared.hooks;

    int rc = drain_changes(w, err);
    if (rc != SW_OK)
        return rc;

    if (is_leader(w)) {
        rc = hooks->merge(w->shared.run, w->step, err);
        if (rc == SW_OK && w->step == w->topology->warmup_steps)
            hooks->end_warmup(w->shared.run);
    }
    if (rc != SW_OK)
        return rc;

    return sw_worker_barrier(w, "the merge of server groups", err);
}

/* All replicas of the parameters have the same values. By all workers, when all their updates are
 * applied. */
static int merge(struct sw_worker *w, struct sw_err *err)
{
    if (!w->shared.params->sync && w->topology->hosts == 1)
        return SW_OK;

    int rc = merge_replicas(w, err);
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
    rc = sw_worker_barrier(w, "the other groups", err);
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

/* Copies values that only devices have to the table, where the leader reads them. The first barrier
 * ensures that no device still reads the old values there. */
static int sync_to_host(struct sw_worker *w, struct sw_err *err)
{
    if (!sw_exchange_keeps_values(w->exchange))
        return SW_OK;

    int rc = sw_worker_wait(w, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_worker_barrier(w, "the other devices", err);
    if (rc != SW_OK)
        return rc;

    rc = sw_exchange_sync_to_host(w->exchange, (uint64_t)w->step, is_leader(w), err);
    if (rc != SW_OK)
        return rc;

    return sw_worker_barrier(w, "the parameters of all devices", err);
}

/* Other workers may still read this worker's activations in memory that an evaluation reuses. */
static int wait_for_readers(struct sw_worker *w, struct sw_err *err)
{
    if (!w->shared.groups->transfers[SW_SPLIT_TRAIN][w->rank->group])
        return SW_OK;
    return sw_worker_barrier(w, "the readers of its activations", err);
}

/* Workers of asynchronous hosts have updated the running statistics of their own. */
static int share_state(struct sw_worker *w, struct sw_err *err)
{
    if (!w->topology->is_async || w->topology->hosts == 1 || w->shared.state->buffers.count == 0)
        return SW_OK;

    int rc = is_leader(w) ? w->shared.hooks->share_state(w->shared.run, err) : SW_OK;
    if (rc == SW_OK)
        rc = sw_worker_barrier(w, "the state of the layers of the first host", err);
    return rc == SW_OK ? sw_buffers_scatter(w, err) : rc;
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

    rc = sw_buffers_gather(w, err);
    if (rc != SW_OK)
        return rc;
    rc = share_state(w, err);
    if (rc != SW_OK)
        return rc;

    return sw_recurrent_state_gather(w, err);
}

/* ---- Carrying out the decision ---- */

/* Every worker evaluates its rows; the leader records the result. All leave the pass early when the
 * job is to stop, except for the last evaluation of a stage and those that job.patience counts,
 * which would never be repeated, and where other hosts would have to leave at the same round. */
static int evaluate(struct sw_worker *w, struct sw_group_decision *d, struct sw_err *err)
{
    bool left = false, stays = d->last || w->shared.conf->patience > 0 || w->topology->hosts > 1;

    sw_slot_phase(w->slot, SW_PHASE_EVALUATE, w->step, -1, NULL, sw_os()->monotonic_ns());

    int rc = sw_evaluate_pass(w, stays ? NULL : w->shared.requests, &left, err);
    sw_record_layers(w);
    if (left) {
        d->evaluate = false;
        d->stop = d->checkpoint = true;
        return rc;
    }

    if (rc != SW_OK)
        return rc;

    if (is_leader(w)) {
        sw_record_evaluation(w);
        w->shared.hooks->note_evaluation(w->shared.run, w->step);
    }

    return SW_OK;
}

/* By the leader. A failed checkpoint in the middle of a run is logged and counted; at the end of
 * the run it is an error. */
static int checkpoint(struct sw_worker *w, bool last, struct sw_err *err)
{
    sw_slot_phase(w->slot, SW_PHASE_CHECKPOINT, w->step, -1, NULL, sw_os()->monotonic_ns());

    /* The file also contains parameters that other workers update. */
    int rc = sw_exchange_wait_all(w->exchange, (uint64_t)w->step, err);
    if (rc != SW_OK)
        return rc;

    rc = w->shared.hooks->write_checkpoint(w->shared.run, err);
    if (rc == SW_OK || last || rc == SW_ERR_DIVERGED)
        return rc;

    w->failures.checkpoints++;
    sw_events_report(w->shared.events, SW_LOG_ERROR, w->role,
                     "checkpoint %d could not be written and training continues: %s",
                     w->failures.checkpoints, err->text);

    return SW_OK;
}

/* Waits until the pause request is withdrawn. Meanwhile the leader writes the checkpoints that are
 * requested. */
static int wait_at_gate(struct sw_worker *w, bool *stop, struct sw_err *err)
{
    bool over = false, save = false;

    while (!over) {
        sw_slot_phase(w->slot, SW_PHASE_PAUSED, w->step, -1, NULL, sw_os()->monotonic_ns());

        int rc = sw_gate_wait(w->shared.requests, w->step, is_leader(w), &over, &save, stop, err);
        if (rc != SW_OK)
            return rc;

        if (save)
            rc = checkpoint(w, false, err);
        if (rc != SW_OK)
            return rc;
    }

    return SW_OK;
}

/* Pauses; a stop request ends the pause as it would have ended the step. */
static int pause_here(struct sw_worker *w, struct sw_group_decision *d, struct sw_err *err)
{
    int rc = sw_worker_barrier(w, "the others' pause", err);
    if (rc != SW_OK)
        return rc;

    if (is_leader(w))
        sw_events_report(w->shared.events, SW_LOG_INFO, w->role,
                         "paused by request after step %lld", (long long)w->step);

    rc = wait_at_gate(w, &d->stop, err);
    if (rc != SW_OK || !is_leader(w))
        return rc;

    sw_events_report(w->shared.events, SW_LOG_INFO, w->role, "the pause after step %lld is over",
                     (long long)w->step);
    if (d->stop && !w->shared.hooks->has_checkpoint(w->shared.run, w->step))
        return checkpoint(w, true, err);

    return SW_OK;
}

/* The evaluation and its consequences: the end by stop_at or patience, rebalancing rows. */
static int evaluate_and_judge(struct sw_worker *w, struct sw_group_decision *d, struct sw_err *err)
{
    bool reached = false;

    int rc = evaluate(w, d, err);
    if (rc != SW_OK || !d->evaluate || d->last)
        return rc;
    rc = sw_stop_after_evaluation(w, &reached, err);
    if (rc != SW_OK)
        return rc;

    if (reached) {
        d->last = true;
        d->checkpoint |= w->shared.conf->checkpoint_ends;
    }
    if (d->last || d->stop)
        return SW_OK;

    return w->shared.hooks->rebalance(w->shared.run, w, err);
}

/* By the leader: the parameters that the job ends with. */
static int end_job(struct sw_worker *w, struct sw_err *err)
{
    const struct sw_worker_hooks *hooks = w->shared.hooks;

    hooks->end_job(w->shared.run, w->step);

    /* Values that other workers update are replaced, too. */
    int rc = sw_exchange_wait_all(w->exchange, (uint64_t)w->step, err);
    return rc == SW_OK ? hooks->restore_best(w->shared.run, w->step, err) : rc;
}

/* By the leader: writes the checkpoint that was decided on, or that of the best evaluation so far.
 */
static int save(struct sw_worker *w, const struct sw_group_decision *d, struct sw_err *err)
{
    const struct sw_worker_hooks *hooks = w->shared.hooks;

    int rc = d->last ? end_job(w, err) : SW_OK;
    if (rc != SW_OK)
        return rc;

    bool best =
        w->shared.conf->checkpoint_best && d->evaluate && hooks->is_best(w->shared.run, w->step);
    if (!d->checkpoint && !best)
        return SW_OK;

    return checkpoint(w, d->last || d->stop, err);
}

/* Synchronizes the workers, with one more barrier before an end without evaluation. */
static int synchronize_for(struct sw_worker *w, const struct sw_group_decision *d,
                           struct sw_err *err)
{
    int rc = synchronize(w, err);
    if (rc != SW_OK || d->evaluate || !(d->last || d->stop))
        return rc;
    return sw_worker_barrier(w, "the last updates", err);
}

/* All updates of the step are applied first: a worker that runs a server may not leave before that
 * server's last message. */
static int carry_out(struct sw_worker *w, struct sw_group_decision *d, struct sw_err *err)
{
    int rc = synchronize_for(w, d, err);

    sw_record_norms(w);
    if (rc != SW_OK)
        return rc;

    if (d->evaluate)
        rc = evaluate_and_judge(w, d, err);
    if (rc != SW_OK)
        return rc;

    if (is_leader(w))
        rc = save(w, d, err);
    if (rc != SW_OK)
        return rc;

    if (d->pause && !d->last)
        rc = pause_here(w, d, err);
    if (rc != SW_OK || !w->topology->is_async)
        return rc;

    /* The leader has read values that others would update. */
    if (is_leader(w))
        rc = w->shared.hooks->resume(w->shared.run, err);
    return rc == SW_OK ? sw_worker_barrier(w, "the first worker's checkpoint", err) : rc;
}

static bool acts(const struct sw_group_decision *d)
{
    return d->evaluate || d->checkpoint || d->last || d->stop || d->pause || d->join || d->rollback;
}

bool sw_worker_acts_after(struct sw_worker *w, int64_t t)
{
    if (w->shared.stops->uses_training) /* the decision needs the metrics of the step */
        return true;

    const struct sw_group_decision d = sw_group_decide(&w->shared.groups->all, t, decide, w);
    return acts(&d);
}

int sw_worker_between_steps(struct sw_worker *w, struct sw_err *err)
{
    struct sw_group *all = &w->shared.groups->all;

    if (!sw_topology_sleeps(w->topology, w->rank->group, w->step)) {
        int rc = sw_stop_gather(w->shared.stops, w, err);
        if (rc != SW_OK)
            return rc;
    }

    struct sw_group_decision d = sw_group_decide(all, w->step, decide, w);
    if (!acts(&d))
        return SW_OK;

    if (w->step <= w->topology->warmup_steps)
        sw_group_wake(all, w->step);

    int rc = carry_out(w, &d, err);

    w->end.over = d.last;
    w->end.stopped = d.stop && !d.last;
    w->timer.charged_ns = sw_os()->monotonic_ns();
    w->timer.resumes = true;

    return rc;
}
