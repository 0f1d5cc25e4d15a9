/* Back-propagation: one training step of one worker (SINGA, TOMM 3.3 and Algorithm 1), wait-free
 * (Poseidon, section 3.2): the update of a layer is handed over the moment its gradients exist,
 * while the layers below still compute, and each layer's values are collected just before its
 * forward. */
#include "train/bp.h"
#include "train/carries.h"
#include "train/cd.h"
#include "train/decision.h"
#include "train/input.h"
#include "train/job_private.h"
#include "train/layer_clock.h"
#include "train/pull.h"
#include "train/segments.h"
#include "train/server.h"
#include "train/worker.h"
#include <math.h>

/* The gradient of step `version` is complete, or will be when what is queued is done. */
static int give(struct sw_worker *w, int param, uint64_t version, struct sw_err *err)
{
    if (w->replica)
        return sw_replica_give(w->replica, param, version, err);
    return sw_table_update(w->table, w->rank->table_rank, param, version, err);
}

static void trace(const struct sw_worker *w, enum sw_trace_what what, int64_t t, int layer,
                  int64_t begin_ns)
{
    if (!w->job->monitor.trace)
        return;
    struct sw_trace_event e = {.begin_ns = begin_ns,
                               .end_ns = w->timer.lap_ns,
                               .step = t,
                               .what = what,
                               .unit = w->rank->global_rank,
                               .index = layer};
    sw_trace_add(w->job->monitor.trace, &e);
}

/* How much of other groups' work the values lack that were just collected. */
static void note_staleness(struct sw_worker *w, int param, uint64_t version)
{
    int party = sw_table_party(w->table, w->rank->table_rank);
    int64_t stale = sw_table_staleness(w->table, party, param, version);
    if (stale > w->timer.ledger.staleness)
        w->timer.ledger.staleness = (int32_t)stale;
}

static int collect_params(struct sw_worker *w, int64_t t, int i, struct sw_err *err)
{
    int first, count = sw_net_layer_params(w->train, i, &first), rc = SW_OK;
    for (int p = first; p < first + count && rc == SW_OK; p++) {
        rc = sw_pull_param(w, w->param_of[SW_SPLIT_TRAIN][p], (uint64_t)t - 1, err);
        if (rc == SW_OK && w->topology->is_async)
            note_staleness(w, w->param_of[SW_SPLIT_TRAIN][p], (uint64_t)t - 1);
    }
    /* A pass begins when its values are here: looking for them is no part of it, even when the look
     * is short. */
    if (rc == SW_OK && count > 0)
        sw_worker_lap(w, &w->timer.ledger.idle_ms, NULL);
    return rc;
}

static int forward_layer(struct sw_worker *w, int64_t t, int i, struct sw_err *err)
{
    int64_t begin_ns = w->timer.lap_ns;
    sw_slot_phase(w->slot, SW_PHASE_FORWARD, t, i, sw_net_layer(w->train, i)->name, begin_ns);
    int rc = sw_layer_clock_begin(w, i, false, err);
    if (rc == SW_OK)
        rc = sw_parts_forward(w->parts[SW_SPLIT_TRAIN], i, err);
    if (rc == SW_OK)
        rc = sw_layer_clock_end(w, err);
    trace(w, SW_TRACE_FORWARD, t, i, begin_ns);
    return rc;
}

/* Is the parameter's gradient complete when its layer's backward is done? */
static bool gives(const struct sw_net *net, int p)
{
    const struct sw_net_param *param = sw_net_param(net, p);
    return !param->frozen && param->root < 0; /* else a layer below gives more */
}

/* With `copy = sync` each gradient is waited for, then its copy and its update with the new value,
 * unless that is decided upon when all gradients are there. */
static int give_and_wait(struct sw_worker *w, int param, uint64_t version, struct sw_err *err)
{
    if (w->job->exchange.copy != SW_COPY_SYNC)
        return give(w, param, version, err);
    int rc = w->replica ? sw_ledger_mark(w, SW_MARK_BACKWARD, err) : SW_OK;
    if (rc == SW_OK && w->replica)
        rc = sw_ledger_wait(w, err);
    if (rc == SW_OK)
        rc = give(w, param, version, err);
    if (rc == SW_OK && w->replica)
        sw_worker_lap(w, &w->timer.ledger.comm_exposed_ms, NULL);
    if (rc != SW_OK || sw_table_has_phases(w->table))
        return rc;
    rc = sw_pull_param(w, param, version, err);
    if (rc == SW_OK && w->replica)
        sw_worker_lap(w, &w->timer.ledger.comm_exposed_ms, NULL);
    return rc;
}

/* Is the parameter updated by the device as soon as its gradient is there, within the step's own
 * operations? */
static bool updates_inside(const struct sw_worker *w, int param)
{
    return w->replica && w->job->exchange.overlap == SW_OVERLAP_YES &&
           sw_replica_is_own(w->replica, param);
}

/* Hands over the gradients that are complete when the layer's backward is done; inside: those that
 * the device's own operations hand over, else the others. */
static int give_params(struct sw_worker *w, int64_t t, int i, bool inside, struct sw_err *err)
{
    int first, count = sw_net_layer_params(w->train, i, &first), rc = SW_OK;
    for (int p = first; p < first + count && rc == SW_OK; p++) {
        int param = w->param_of[SW_SPLIT_TRAIN][p];
        if (gives(w->train, p) && updates_inside(w, param) == inside)
            rc = give_and_wait(w, param, (uint64_t)t, err);
    }
    return rc;
}

/* And runs the servers that this worker hosts. */
static int hand_over(struct sw_worker *w, int64_t t, int i, struct sw_err *err)
{
    int first, count = sw_net_layer_params(w->train, i, &first);
    int rc = give_params(w, t, i, false, err);
    if (rc == SW_OK && count > 0 && w->served.count > 0) {
        sw_slot_phase(w->slot, SW_PHASE_UPDATE, t, i, sw_net_layer(w->train, i)->name,
                      w->timer.lap_ns);
        rc = sw_server_poll(w, err);
        sw_worker_lap(w, &w->timer.ledger.update_ms, NULL);
    }
    return rc;
}

static int backward_layer(struct sw_worker *w, int64_t t, int i, struct sw_err *err)
{
    int64_t begin_ns = w->timer.lap_ns;
    sw_slot_phase(w->slot, SW_PHASE_BACKWARD, t, i, sw_net_layer(w->train, i)->name, begin_ns);
    int rc = sw_layer_clock_begin(w, i, true, err);
    if (rc == SW_OK)
        rc = sw_parts_backward(w->parts[SW_SPLIT_TRAIN], i, err);
    if (rc == SW_OK)
        rc = sw_layer_clock_end(w, err);
    trace(w, SW_TRACE_BACKWARD, t, i, begin_ns);
    return rc;
}

/* Before anything on the host learns from the loss. Where that drops the update, the table is told;
 * a device that decides for itself has known it. */
static int check_loss(struct sw_worker *w, int64_t t, struct sw_err *err)
{
    int rc = sw_parts_fetch(w->parts[SW_SPLIT_TRAIN], err);
    if (rc == SW_OK)
        rc = sw_input_look_ahead(w, t, err);
    if (rc == SW_OK)
        rc = sw_layer_clock_ask(w, err);
    if (rc == SW_OK)
        rc = sw_ledger_wait(w, err);
    if (rc == SW_OK && w->replica)
        rc = sw_replica_check_finite(w->replica, err);
    if (rc != SW_OK)
        return rc;
    double loss = sw_results_step_loss(w->parts[SW_SPLIT_TRAIN], &w->record.series[SW_SPLIT_TRAIN]);
    bool decided = w->replica && sw_replica_decides(w->replica);
    if (w->job->conf->on_nan != SW_ON_NAN_STOP && !decided)
        return sw_nonfinite_verdict(w, loss, err);
    if (w->job->conf->on_nan != SW_ON_NAN_STOP || isfinite(loss))
        return sw_decision_learn(w, t, err);
    return sw_err_set(err, SW_ERR_DIVERGED,
                      "step %lld: the loss is %s: training has diverged (try a smaller lr%s)",
                      (long long)t, isnan(loss) ? "not a number" : "infinite",
                      w->job->conf->loss_scale > 0
                          ? ", or precision = bf16: products of fp16 cannot read more than 65504"
                          : "");
}

/* The factor of this step's gradients. It is decided upon together with the update before, which
 * the first layer waits for anyway: servers apply the lowest layers first. What devices decide is
 * known when a step is over. */
static int learn_scale(struct sw_worker *w, int64_t t, double *scale, struct sw_err *err)
{
    int party = sw_table_party(w->table, w->rank->table_rank), rc = SW_OK;
    bool waits = w->job->conf->loss_scale > 0 && !sw_table_is_decided_elsewhere(w->table);
    for (int p = 0; p < sw_table_count(w->table) && waits; p++) {
        if (sw_table_param(w->table, p)->frozen)
            continue;
        rc = sw_pull_wait(w, party, p, (uint64_t)t - 1, err);
        break;
    }
    *scale = sw_table_loss_scale(w->table, party);
    return rc;
}

/* ---- Segments ---- */

struct submission {
    struct sw_worker *w;
    int64_t t;
    const struct sw_segment *segment;
};

static int backward_of(const struct sw_worker *w, int pass)
{
    int i = 2 * sw_net_layer_count(w->train) - 1 - pass;
    return i >= 0 && sw_net_has_backward(w->train, i) ? i : -1;
}

/* All that the segment's passes do on the device. */
static int queue_passes(void *submission, struct sw_err *err)
{
    const struct submission *s = submission;
    int layers = sw_net_layer_count(s->w->train), rc = SW_OK;
    for (int pass = s->segment->from; pass < s->segment->to && rc == SW_OK; pass++) {
        int back = pass < layers ? -1 : backward_of(s->w, pass);
        if (pass < layers)
            rc = forward_layer(s->w, s->t, pass, err);
        else if (back >= 0)
            rc = backward_layer(s->w, s->t, back, err);
        if (rc == SW_OK && back >= 0)
            rc = give_params(s->w, s->t, back, true, err);
        if (rc == SW_OK && pass == layers - 1 && s->segment->to > layers)
            rc = sw_ledger_mark(s->w, SW_MARK_FORWARD, err);
    }
    bool last = s->segment->to == 2 * layers;
    return rc == SW_OK && last && sw_decision_is_inside(s->w) ? sw_decision_queue(s->w, s->t, err)
                                                              : rc;
}

/* What is left to note of passes that were queued at once. */
static void note_launch(const struct submission *s)
{
    struct sw_worker *w = s->w;
    int layers = sw_net_layer_count(w->train);
    int64_t begin_ns = w->timer.lap_ns;
    bool forward = s->segment->from < layers;
    sw_worker_lap(w, forward ? &w->timer.ledger.forward_ms : &w->timer.ledger.backward_ms, NULL);
    for (int pass = s->segment->from; pass < s->segment->to; pass++) {
        int i = pass < layers ? pass : backward_of(w, pass), first = 0;
        int count = i < 0 || pass < layers ? 0 : sw_net_layer_params(w->train, i, &first);
        for (int p = first; p < first + count; p++) {
            int param = w->param_of[SW_SPLIT_TRAIN][p];
            if (gives(w->train, p) && updates_inside(w, param))
                sw_replica_gave(w->replica, param, (uint64_t)s->t);
        }
        if (i >= 0)
            trace(w, pass < layers ? SW_TRACE_FORWARD : SW_TRACE_BACKWARD, s->t, i, begin_ns);
    }
    if (s->segment->to == 2 * layers && sw_decision_is_inside(w))
        sw_replica_went_on(w->replica, (uint64_t)s->t);
}

static int submit(struct sw_worker *w, int64_t t, int k, struct sw_err *err)
{
    struct submission s = {w, t, sw_segments_at(w->segments, k)};
    int layers = sw_net_layer_count(w->train), first = s.segment->from, rc = SW_OK;
    bool launched;
    for (int pass = first; pass < s.segment->to && pass < layers && rc == SW_OK; pass++)
        rc = collect_params(w, t, pass, err);
    if (rc != SW_OK)
        return rc;
    int i = first < layers ? first : 2 * layers - 1 - first;
    if (s.segment->graph)
        sw_slot_phase(w->slot, first < layers ? SW_PHASE_FORWARD : SW_PHASE_BACKWARD, t, i,
                      sw_net_layer(w->train, i)->name, w->timer.lap_ns);
    rc = sw_segments_submit(w->segments, k, queue_passes, &s, &launched, err);
    if (rc == SW_OK && launched)
        note_launch(&s);
    bool overlaps = w->job->exchange.overlap == SW_OVERLAP_YES;
    for (int pass = first; pass < s.segment->to && overlaps && rc == SW_OK; pass++)
        if (pass >= layers && backward_of(w, pass) >= 0)
            rc = hand_over(w, t, backward_of(w, pass), err);
    return rc;
}

/* Without overlap all updates come behind the last backward, from the top down. */
static int hand_over_all(struct sw_worker *w, int64_t t, struct sw_err *err)
{
    int rc = SW_OK;
    for (int i = sw_net_layer_count(w->train) - 1; i >= 0 && rc == SW_OK; i--)
        if (sw_net_has_backward(w->train, i))
            rc = hand_over(w, t, i, err);
    return rc;
}

/* What comes behind the last forward and is part of it: chains, and on the host the look at the
 * loss. A device of its own is not waited for in mid-step: its loss is read late. */
static int between_passes(struct sw_worker *w, int64_t t, struct sw_err *err)
{
    int rc = sw_cd_chains(w, t, err);
    if (rc == SW_OK)
        rc = sw_ledger_mark(w, SW_MARK_FORWARD, err);
    return rc == SW_OK && w->device->host_memory ? check_loss(w, t, err) : rc;
}

static int both_passes(struct sw_worker *w, int64_t t, const struct sw_batch *batch,
                       struct sw_err *err)
{
    int layers = sw_net_layer_count(w->train);
    int64_t group_row, group_rows;
    double scale;
    int rc = learn_scale(w, t, &scale, err);
    if (rc != SW_OK)
        return rc;
    sw_topology_group_rows(w->topology, w->rank->group, SW_SPLIT_TRAIN, &group_row, &group_rows);
    /* Chance is a function of the batch: groups at one step must not have the same. */
    struct sw_step step = {.step = (uint64_t)batch->index,
                           .first_row = sw_worker_first_row(w, SW_SPLIT_TRAIN),
                           .group_row = group_row,
                           .valid_rows = batch->valid_rows,
                           .batch_valid_rows = batch->batch_valid_rows,
                           .sequences_begin = sw_carries_begin(w, SW_SPLIT_TRAIN, batch->index, t),
                           .chains_begin = sw_chains_begin(w, t),
                           .backward_scale = (float)scale / (float)w->job->conf->batch};
    rc = sw_parts_set_step(w->parts[SW_SPLIT_TRAIN], &step, err);
    if (rc == SW_OK && w->replica)
        rc = sw_replica_begin(w->replica, (uint64_t)t, err);
    for (int k = 0; k < sw_segments_count(w->segments) && rc == SW_OK; k++) {
        if (sw_segments_at(w->segments, k)->from == layers)
            rc = between_passes(w, t, err);
        if (rc == SW_OK)
            rc = submit(w, t, k, err);
    }
    if (rc == SW_OK && w->job->exchange.overlap == SW_OVERLAP_NO)
        rc = hand_over_all(w, t, err);
    if (rc == SW_OK)
        rc = sw_decision_make(w, t, err);
    if (rc == SW_OK)
        rc = sw_ledger_mark(w, SW_MARK_BACKWARD, err);
    return rc == SW_OK && !w->device->host_memory ? check_loss(w, t, err) : rc;
}

int sw_bp_step(struct sw_worker *w, int64_t t, const struct sw_batch *batch, struct sw_err *err)
{
    sw_layer_clock_step(w);
    int rc = both_passes(w, t, batch, err);
    if (rc == SW_OK)
        sw_layer_clock_take(w);
    w->timer.pass_ms = NULL;
    return rc;
}
