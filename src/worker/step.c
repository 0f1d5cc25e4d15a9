/* One training step of one worker (SINGA, TOMM 3.3 and Algorithm 1), wait-free (Poseidon, section
 * 3.2): the gradients of a layer are pushed the moment they exist, while the layers below still
 * compute, and a layer's values are pulled just before its forward pass. The exchange decides the
 * route of each parameter; the partition of the step into segments was made before (segments.h). */
#include "worker/step.h"

#include "worker/cd.h"
#include "worker/input.h"
#include "worker/layer_clock.h"
#include "worker/recurrent_state.h"
#include "worker/segments.h"
#include "worker/worker.h"
#include <math.h>

static void trace(const struct sw_worker *w, enum sw_trace_what what, int64_t t, int layer,
                  int64_t begin_ns)
{
    if (!w->shared.trace)
        return;

    struct sw_trace_event e = {.begin_ns = begin_ns,
                               .end_ns = w->timer.charged_ns,
                               .step = t,
                               .what = what,
                               .role = w->rank->global_rank,
                               .index = layer};
    sw_trace_add(w->shared.trace, &e);
}

/* ---- Passes ---- */

static int forward_layer(struct sw_worker *w, int64_t t, int i, struct sw_err *err)
{
    int64_t begin_ns = w->timer.charged_ns;

    sw_slot_phase(w->slot, SW_PHASE_FORWARD, t, i, sw_net_layer(w->train, i)->name, begin_ns);

    int rc = sw_layer_clock_begin(w, i, false, err);
    if (rc != SW_OK)
        goto out;
    rc = sw_microbatches_forward(w->microbatches[SW_SPLIT_TRAIN], i, err);
    if (rc != SW_OK)
        goto out;

    rc = sw_layer_clock_end(w, err);

out:
    trace(w, SW_TRACE_FORWARD, t, i, begin_ns);
    return rc;
}

static int backward_layer(struct sw_worker *w, int64_t t, int i, struct sw_err *err)
{
    int64_t begin_ns = w->timer.charged_ns;

    sw_slot_phase(w->slot, SW_PHASE_BACKWARD, t, i, sw_net_layer(w->train, i)->name, begin_ns);

    int rc = sw_layer_clock_begin(w, i, true, err);
    if (rc != SW_OK)
        goto out;
    rc = sw_microbatches_backward(w->microbatches[SW_SPLIT_TRAIN], i, err);
    if (rc != SW_OK)
        goto out;

    rc = sw_layer_clock_end(w, err);

out:
    trace(w, SW_TRACE_BACKWARD, t, i, begin_ns);
    return rc;
}

/* Pushes the gradients of a layer, and runs the servers that this worker hosts. */
static int push_layer(struct sw_worker *w, int64_t t, int i, struct sw_err *err)
{
    int rc = sw_exchange_push(w->exchange, sw_segments_pushes(w->segments, i), (uint64_t)t, err);
    if (rc != SW_OK || w->served.count == 0 || sw_segments_pulls(w->segments, i).count == 0)
        return rc;

    sw_slot_phase(w->slot, SW_PHASE_UPDATE, t, i, sw_net_layer(w->train, i)->name,
                  w->timer.charged_ns);
    rc = sw_server_poll(w, err);
    sw_step_timer_charge(w, &w->timer.ledger.update_ms, NULL);

    return rc;
}

/* ---- The loss ---- */

/* Queues the copy of all that the host reads of a step; meanwhile the next batch is uploaded. */
static int queue_results(struct sw_worker *w, int64_t t, struct sw_err *err)
{
    int rc = sw_microbatches_fetch(w->microbatches[SW_SPLIT_TRAIN], err);
    if (rc != SW_OK)
        return rc;
    rc = sw_input_start_next(w, t, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_layer_clock_queue_read(w, err);
    if (rc != SW_OK)
        return rc;

    return sw_exchange_queue_report(w->exchange, err);
}

/* Reads and checks the loss of step t, before update control on the host uses it. behind: 1 if the
 * next step is already queued. */
static int check_loss(struct sw_worker *w, int64_t t, int behind, struct sw_err *err)
{
    int rc = sw_ledger_wait(w, behind, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_exchange_check_finite(w->exchange, behind, err);
    if (rc != SW_OK)
        return rc;

    double loss = sw_results_step_loss(w->microbatches[SW_SPLIT_TRAIN], behind,
                                       &w->record.series[SW_SPLIT_TRAIN]);
    if (w->shared.conf->on_nan == SW_ON_NAN_STOP && !isfinite(loss))
        return sw_err_set(
            err, SW_ERR_DIVERGED,
            "step %lld: the loss is %s: training has diverged (try a smaller lr%s)", (long long)t,
            isnan(loss) ? "not a number" : "infinite",
            w->shared.conf->loss_scale > 0
                ? ", or precision = bf16: products of fp16 cannot read more than 65504"
                : "");

    return sw_exchange_finish(w->exchange, (uint64_t)t, behind, err);
}

/* After the last forward pass: Gibbs chains and, in host memory, the check of the loss. A device
 * with its own memory is not waited for in the middle of a step: its loss is read when the step is
 * finished. */
static int between_passes(struct sw_worker *w, int64_t t, struct sw_err *err)
{
    int rc = sw_cd_chains(w, t, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_exchange_mark(w->exchange, SW_MARK_FORWARD, err);
    if (rc != SW_OK)
        return rc;

    if (!w->device->host_memory)
        return SW_OK;

    rc = queue_results(w, t, err);
    if (rc != SW_OK)
        return rc;

    return check_loss(w, t, 0, err);
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

/* Queues all that the segment's passes do on the device. Depends on no state of the host except
 * what was pulled. */
static int queue_passes(void *submission, struct sw_err *err)
{
    const struct submission *s = submission;
    struct sw_worker *w = s->w;
    int layers = sw_net_layer_count(w->train), rc = SW_OK;

    for (int pass = s->segment->from; pass < s->segment->to; pass++) {
        int back = pass < layers ? -1 : backward_of(w, pass);

        if (pass < layers)
            rc = forward_layer(w, s->t, pass, err);
        else if (back >= 0)
            rc = backward_layer(w, s->t, back, err);

        if (rc != SW_OK)
            return rc;

        if (pass == layers - 1 && s->segment->to > layers)
            rc = sw_exchange_mark(w->exchange, SW_MARK_FORWARD, err);
        if (rc != SW_OK)
            return rc;
    }

    bool last = s->segment->to == 2 * layers;
    if (rc != SW_OK || !last || !sw_exchange_queues_updates(w->exchange))
        return rc;

    return sw_exchange_queue_updates(w->exchange, err);
}

/* Records the passes of a segment that was launched as a graph. */
static void record_launch(const struct submission *s)
{
    struct sw_worker *w = s->w;
    int layers = sw_net_layer_count(w->train);
    int64_t begin_ns = w->timer.charged_ns;
    bool forward = s->segment->from < layers;

    sw_step_timer_charge(w, forward ? &w->timer.ledger.forward_ms : &w->timer.ledger.backward_ms,
                         NULL);

    for (int pass = s->segment->from; pass < s->segment->to; pass++) {
        int i = pass < layers ? pass : backward_of(w, pass);
        if (i >= 0)
            trace(w, pass < layers ? SW_TRACE_FORWARD : SW_TRACE_BACKWARD, s->t, i, begin_ns);
    }
}

static int run_segment(struct sw_worker *w, int64_t t, int k, struct sw_err *err)
{
    struct submission s = {w, t, sw_segments_at(w->segments, k)};
    int layers = sw_net_layer_count(w->train), first = s.segment->from;
    bool launched;
    int rc = SW_OK;

    for (int pass = first; pass < s.segment->to && pass < layers; pass++) {
        rc = sw_exchange_pull(w->exchange, sw_segments_pulls(w->segments, pass), (uint64_t)t - 1,
                              err);
        if (rc != SW_OK)
            return rc;
    }

    int i = first < layers ? first : 2 * layers - 1 - first;
    if (s.segment->graph)
        sw_slot_phase(w->slot, first < layers ? SW_PHASE_FORWARD : SW_PHASE_BACKWARD, t, i,
                      sw_net_layer(w->train, i)->name, w->timer.charged_ns);

    rc = sw_segments_submit(w->segments, k, queue_passes, &s, &launched, err);
    if (rc != SW_OK)
        return rc;

    if (launched)
        record_launch(&s);

    for (int pass = first; pass < s.segment->to; pass++) {
        if (pass >= layers && backward_of(w, pass) >= 0 && !sw_segments_push_late(w->segments))
            rc = push_layer(w, t, backward_of(w, pass), err);
        if (rc != SW_OK)
            return rc;
    }

    return SW_OK;
}

/* Pushes the gradients that were delayed until the last backward pass (overlap = no), from the top
 * layer down. */
static int push_late(struct sw_worker *w, int64_t t, struct sw_err *err)
{
    for (int i = sw_net_layer_count(w->train) - 1; i >= 0; i--) {
        if (!sw_net_has_backward(w->train, i))
            continue;

        int rc = push_layer(w, t, i, err);
        if (rc != SW_OK)
            return rc;
    }

    return SW_OK;
}

/* ---- The step ---- */

static int begin(struct sw_worker *w, int64_t t, const struct sw_batch *batch, struct sw_err *err)
{
    int64_t group_row, group_rows;
    double scale;

    int rc = sw_exchange_begin(w->exchange, (uint64_t)t, &scale, err);
    if (rc != SW_OK)
        return rc;

    sw_topology_group_rows(w->topology, w->rank->group, SW_SPLIT_TRAIN, &group_row, &group_rows);

    /* Random numbers are a function of the batch, because asynchronous groups at the same step must
     * not draw the same ones. */
    struct sw_step step = {.step = (uint64_t)batch->index,
                           .first_row = sw_worker_first_row(w, SW_SPLIT_TRAIN),
                           .group_row = group_row,
                           .valid_rows = batch->valid_rows,
                           .batch_valid_rows = batch->batch_valid_rows,
                           .sequences_begin =
                               sw_recurrent_state_starts(w, SW_SPLIT_TRAIN, batch->index, t),
                           .chains_begin = sw_chains_start(w, t),
                           .backward_scale = (float)scale / (float)w->shared.conf->batch};
    return sw_microbatches_set_step(w->microbatches[SW_SPLIT_TRAIN], &step, err);
}

static int run_passes(struct sw_worker *w, int64_t t, const struct sw_batch *batch,
                      struct sw_err *err)
{
    int layers = sw_net_layer_count(w->train);

    int rc = begin(w, t, batch, err);
    if (rc != SW_OK)
        return rc;

    for (int k = 0; k < sw_segments_count(w->segments); k++) {
        if (sw_segments_at(w->segments, k)->from == layers)
            rc = between_passes(w, t, err);
        if (rc != SW_OK)
            return rc;

        rc = run_segment(w, t, k, err);
        if (rc != SW_OK)
            return rc;
    }

    if (sw_segments_push_late(w->segments))
        rc = push_late(w, t, err);
    if (rc != SW_OK)
        return rc;

    rc = sw_exchange_end(w->exchange, (uint64_t)t, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_exchange_mark(w->exchange, SW_MARK_BACKWARD, err);
    if (rc != SW_OK)
        return rc;

    return !w->device->host_memory ? queue_results(w, t, err) : SW_OK;
}

int sw_train_step(struct sw_worker *w, int64_t t, const struct sw_batch *batch, struct sw_err *err)
{
    sw_layer_clock_step(w, t);

    int rc = run_passes(w, t, batch, err);
    w->timer.ledger.staleness = (int32_t)sw_exchange_lag(w->exchange);
    w->timer.pass_ms = NULL;

    return rc;
}

int sw_train_finish(struct sw_worker *w, int64_t t, int behind, struct sw_err *err)
{
    int rc = w->device->host_memory ? SW_OK : check_loss(w, t, behind, err);
    if (rc != SW_OK)
        return rc;

    /* Nothing is queued behind a step whose layers are measured: these times are the newest one's.
     */
    if (behind == 0)
        sw_layer_clock_take(w);

    return SW_OK;
}
