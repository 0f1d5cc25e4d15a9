/* Back-propagation: one training step of one worker (SINGA, TOMM 3.3 and Algorithm 1), wait-free
 * (Poseidon, section 3.2): the update of a layer is handed over the moment its gradients exist,
 * while the layers below still compute, and each layer's values are collected just before its
 * forward. */
#include "base/os.h"
#include "train/job_private.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { WAIT_MS = 1000 };

/* Says in the live snapshot what is waited for. */
static void say_waiting(struct sw_worker *w, int param, uint64_t version)
{
    char what[SW_SNAPSHOT_TEXT];
    struct sw_wait wait = {SW_WAIT_VERSION, param, (int64_t)version};
    snprintf(what, sizeof what, "version %llu of %s", (unsigned long long)version,
             sw_table_param(w->table, param)->name);
    sw_slot_wait_on(w->slot, wait, what, w->lap_ns);
}

/* The table has the version; a device of its own needs a copy. */
static int have(struct sw_worker *w, int param, uint64_t version, struct sw_err *err)
{
    if (sw_table_param(w->table, param)->frozen)
        version = 0; /* no other comes */
    return w->replica ? sw_replica_need(w->replica, param, version, err) : SW_OK;
}

/* The gradient of step `version` is complete, or will be when what is queued is done. */
static int give(struct sw_worker *w, int param, uint64_t version, struct sw_err *err)
{
    if (w->replica)
        return sw_replica_give(w->replica, param, version, err);
    return sw_table_update(w->table, w->seat, param, version, err);
}

/* Waits until the parameter is at `version` for the party. A worker that runs servers itself serves
 * meanwhile: what it waits for may depend on them. */
static int see(struct sw_worker *w, int party, int param, uint64_t version, struct sw_err *err)
{
    struct sw_table *t = w->table;
    int rc = SW_OK;
    if (sw_table_ready(t, party, param, version))
        return SW_OK;
    sw_worker_lap(w, &w->ledger.idle_ms, NULL);
    say_waiting(w, param, version);
    while (rc == SW_OK && !sw_table_ready(t, party, param, version)) {
        rc = sw_server_poll(w, err);
        sw_worker_lap(w, &w->ledger.update_ms, NULL);
        if (rc != SW_OK || sw_table_ready(t, party, param, version))
            break;
        rc = sw_table_wait(t, party, param, version, w->served, w->served_count, WAIT_MS);
        sw_worker_lap(w, &w->ledger.comm_exposed_ms, NULL);
        if (rc == SW_ERR_CANCELLED)
            return sw_err_set(err, rc, "the job is ending");
        /* Mail, or the time is over: look again. What is waited for may be lost on its way. */
        rc = w->replica ? sw_replica_check(w->replica, err) : SW_OK;
    }
    sw_slot_wait(w->slot, NULL, w->lap_ns);
    return rc;
}

/* Where devices add up gradients: waits until all workers have queued theirs of step `version`. */
static int see_sum(struct sw_worker *w, int param, uint64_t version, struct sw_err *err)
{
    int rc = sw_replica_wait_sum(w->replica, param, version, 0);
    if (rc != SW_ERR_BUSY)
        return rc == SW_OK ? rc : sw_err_set(err, rc, "the job is ending");
    sw_worker_lap(w, &w->ledger.idle_ms, NULL);
    sw_slot_wait_on(w->slot, (struct sw_wait){.kind = SW_WAIT_GROUP},
                    "the gradients of the other workers", w->lap_ns);
    while (rc == SW_ERR_BUSY) {
        rc = sw_replica_wait_sum(w->replica, param, version, WAIT_MS);
        sw_worker_lap(w, &w->ledger.comm_exposed_ms, NULL);
        if (rc == SW_ERR_CANCELLED)
            return sw_err_set(err, rc, "the job is ending");
    }
    sw_slot_wait(w->slot, NULL, w->lap_ns);
    return rc;
}

static int collect(struct sw_worker *w, int param, uint64_t version, struct sw_err *err)
{
    int party = sw_table_party(w->table, w->seat);
    bool waits = !w->replica || sw_replica_waits(w->replica, param);
    int rc = waits ? see(w, party, param, version, err) : see_sum(w, param, version, err);
    return rc == SW_OK ? have(w, param, version, err) : rc;
}

static int see_every_param(struct sw_worker *w, int party, uint64_t version, struct sw_err *err)
{
    int rc = SW_OK;
    for (int p = 0; p < sw_table_count(w->table) && rc == SW_OK; p++)
        rc = see(w, party, p, version, err);
    return rc;
}

int sw_bp_see_all(struct sw_worker *w, uint64_t version, struct sw_err *err)
{
    return see_every_param(w, SW_TABLE_ALL, version, err);
}

int sw_bp_see_own(struct sw_worker *w, uint64_t version, struct sw_err *err)
{
    return see_every_param(w, sw_table_party(w->table, w->seat), version, err);
}

int sw_bp_collect_all(struct sw_worker *w, int split, uint64_t version, struct sw_err *err)
{
    const struct sw_net *net = split == SW_SPLIT_TRAIN ? w->train : w->eval;
    int rc = SW_OK;
    for (int p = 0; p < sw_net_param_count(net) && rc == SW_OK; p++)
        rc = collect(w, w->param_of[split][p], version, err);
    return rc;
}

static void trace(const struct sw_worker *w, enum sw_trace_what what, int64_t t, int layer,
                  int64_t begin_ns)
{
    if (!w->job->trace)
        return;
    struct sw_trace_event e = {.begin_ns = begin_ns,
                               .end_ns = w->lap_ns,
                               .step = t,
                               .what = what,
                               .unit = w->index,
                               .index = layer};
    sw_trace_add(w->job->trace, &e);
}

/* How much of other groups' work the values lack that were just collected. */
static void note_staleness(struct sw_worker *w, int param, uint64_t version)
{
    int party = sw_table_party(w->table, w->seat);
    int64_t stale = sw_table_staleness(w->table, party, param, version);
    if (stale > w->ledger.staleness)
        w->ledger.staleness = (int32_t)stale;
}

static int forward_layer(struct sw_worker *w, int64_t t, int i, struct sw_err *err)
{
    int first, count = sw_net_layer_params(w->train, i, &first), rc = SW_OK;
    for (int p = first; p < first + count && rc == SW_OK; p++) {
        rc = collect(w, w->param_of[SW_SPLIT_TRAIN][p], (uint64_t)t - 1, err);
        if (rc == SW_OK && w->job->apart)
            note_staleness(w, w->param_of[SW_SPLIT_TRAIN][p], (uint64_t)t - 1);
    }
    if (rc != SW_OK)
        return rc;
    /* A pass begins when its values are here: looking for them is no part of it, even when the look
     * is short. */
    if (count > 0)
        sw_worker_lap(w, &w->ledger.idle_ms, NULL);
    int64_t begin_ns = w->lap_ns;
    sw_slot_phase(w->slot, SW_PHASE_FORWARD, t, i, sw_net_layer(w->train, i)->name, begin_ns);
    w->pass_ms = &w->ledger.forward_ms;
    w->pass_total_ms = &w->forward_ms[i];
    rc = sw_parts_forward(w->parts[SW_SPLIT_TRAIN], i, err);
    sw_worker_lap(w, &w->ledger.forward_ms, &w->forward_ms[i]);
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
    if (w->job->copy != SW_COPY_SYNC)
        return give(w, param, version, err);
    int rc = w->replica ? sw_ledger_mark(w, SW_MARK_BACKWARD, err) : SW_OK;
    if (rc == SW_OK && w->replica)
        rc = sw_ledger_wait(w, err);
    if (rc == SW_OK)
        rc = give(w, param, version, err);
    if (rc == SW_OK && w->replica)
        sw_worker_lap(w, &w->ledger.comm_exposed_ms, NULL);
    if (rc != SW_OK || sw_table_has_phases(w->table))
        return rc;
    rc = collect(w, param, version, err);
    if (rc == SW_OK && w->replica)
        sw_worker_lap(w, &w->ledger.comm_exposed_ms, NULL);
    return rc;
}

/* Hands over the gradients that are complete when the layer's backward is done, and runs the
 * servers that this worker hosts. */
static int hand_over(struct sw_worker *w, int64_t t, int i, struct sw_err *err)
{
    int first, count = sw_net_layer_params(w->train, i, &first), rc = SW_OK;
    for (int p = first; p < first + count && rc == SW_OK; p++)
        if (gives(w->train, p))
            rc = give_and_wait(w, w->param_of[SW_SPLIT_TRAIN][p], (uint64_t)t, err);
    if (rc == SW_OK && count > 0 && w->served_count > 0) {
        sw_slot_phase(w->slot, SW_PHASE_UPDATE, t, i, sw_net_layer(w->train, i)->name, w->lap_ns);
        rc = sw_server_poll(w, err);
        sw_worker_lap(w, &w->ledger.update_ms, NULL);
    }
    return rc;
}

static int backward_layer(struct sw_worker *w, int64_t t, int i, struct sw_err *err)
{
    int64_t begin_ns = w->lap_ns;
    sw_slot_phase(w->slot, SW_PHASE_BACKWARD, t, i, sw_net_layer(w->train, i)->name, begin_ns);
    w->pass_ms = &w->ledger.backward_ms;
    w->pass_total_ms = &w->backward_ms[i];
    int rc = sw_parts_backward(w->parts[SW_SPLIT_TRAIN], i, err);
    sw_worker_lap(w, &w->ledger.backward_ms, &w->backward_ms[i]);
    trace(w, SW_TRACE_BACKWARD, t, i, begin_ns);
    return rc;
}

/* From the top down, each layer's updates right behind it or, without overlap, all at the end. */
static int backward(struct sw_worker *w, int64_t t, struct sw_err *err)
{
    bool overlaps = w->job->overlap == SW_OVERLAP_YES;
    int layers = sw_net_layer_count(w->train), rc = SW_OK;
    for (int i = layers - 1; i >= 0 && rc == SW_OK; i--) {
        if (!sw_net_has_backward(w->train, i))
            continue;
        rc = backward_layer(w, t, i, err);
        if (rc == SW_OK && overlaps)
            rc = hand_over(w, t, i, err);
    }
    for (int i = layers - 1; i >= 0 && rc == SW_OK && !overlaps; i--)
        if (sw_net_has_backward(w->train, i))
            rc = hand_over(w, t, i, err);
    return rc;
}

/* The weighted sum of all losses over this worker's rows, before anything learns from it. Where
 * that drops the update, the table is told. */
static int check_loss(struct sw_worker *w, int64_t t, struct sw_err *err)
{
    int rc = sw_parts_fetch(w->parts[SW_SPLIT_TRAIN], err);
    if (rc == SW_OK && w->replica)
        rc = sw_replica_ask_finite(w->replica, err);
    if (rc == SW_OK)
        rc = sw_ledger_wait(w, err);
    if (rc == SW_OK && w->replica)
        rc = sw_replica_check_finite(w->replica, err);
    if (rc != SW_OK)
        return rc;
    struct sw_series *s = &w->series[SW_SPLIT_TRAIN];
    sw_series_clear(s);
    for (int i = 0; i < s->parts; i++)
        sw_results_add(sw_parts_net(w->parts[SW_SPLIT_TRAIN], i), s, i);
    sw_results_sum_own(s);
    double loss = 0;
    for (int r = 0; r < sw_net_result_count(w->train); r++)
        if (sw_net_result(w->train, r).loss)
            loss += s->totals[sw_net_result(w->train, r).first].sum;
    if (w->job->conf->on_nan != SW_ON_NAN_STOP)
        return sw_mishap_verdict(w, loss, err);
    if (isfinite(loss))
        return SW_OK;
    return sw_err_set(err, SW_ERR_DIVERGED,
                      "step %lld: the loss is %s: training has diverged (try a smaller lr%s)",
                      (long long)t, isnan(loss) ? "not a number" : "infinite",
                      w->job->conf->loss_scale > 0
                          ? ", or precision = bf16: products of fp16 cannot read more than 65504"
                          : "");
}

/* The factor of this step's gradients. It is decided upon together with the update before, which
 * the first layer waits for anyway: servers apply the lowest layers first. */
static int learn_scale(struct sw_worker *w, int64_t t, double *scale, struct sw_err *err)
{
    int party = sw_table_party(w->table, w->seat), rc = SW_OK;
    for (int p = 0; p < sw_table_count(w->table) && w->job->conf->loss_scale > 0; p++) {
        if (sw_table_param(w->table, p)->frozen)
            continue;
        rc = see(w, party, p, (uint64_t)t - 1, err);
        break;
    }
    *scale = sw_table_loss_scale(w->table, party);
    return rc;
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
    sw_job_group_rows(w->job, w->group_index, SW_SPLIT_TRAIN, &group_row, &group_rows);
    /* Chance is a function of the batch: groups at one step must not have the same. */
    struct sw_step step = {.step = (uint64_t)batch->index,
                           .first_row = w->first_row[SW_SPLIT_TRAIN],
                           .group_row = group_row,
                           .valid_rows = batch->valid_rows,
                           .batch_valid_rows = batch->batch_valid_rows,
                           .sequences_begin = sw_carries_begin(w, SW_SPLIT_TRAIN, batch->index, t),
                           .chains_begin = sw_chains_begin(w, t),
                           .backward_scale = (float)scale / (float)w->job->conf->batch};
    rc = sw_parts_set_step(w->parts[SW_SPLIT_TRAIN], &step, err);
    if (rc == SW_OK && w->replica)
        rc = sw_replica_begin(w->replica, (uint64_t)t, err);
    for (int i = 0; i < layers && rc == SW_OK; i++)
        rc = forward_layer(w, t, i, err);
    if (rc == SW_OK)
        rc = sw_cd_chains(w, t, err);
    if (rc == SW_OK)
        rc = sw_ledger_mark(w, SW_MARK_FORWARD, err);
    /* A device of its own is not waited for in mid-step: its loss is read late. */
    bool late = !w->device->host_memory;
    if (rc == SW_OK && !late)
        rc = check_loss(w, t, err);
    if (rc == SW_OK)
        rc = backward(w, t, err);
    if (rc == SW_OK)
        rc = sw_ledger_mark(w, SW_MARK_BACKWARD, err);
    return rc == SW_OK && late ? check_loss(w, t, err) : rc;
}

int sw_bp_step(struct sw_worker *w, int64_t t, const struct sw_batch *batch, struct sw_err *err)
{
    int rc = both_passes(w, t, batch, err);
    w->pass_ms = NULL;
    return rc;
}
