/* A pass over the evaluation data, in training and alone. */
#include "train/evaluate.h"
#include "base/os.h"
#include "base/stop.h"
#include "history/snapshot.h"
#include "train/carries.h"
#include "train/gate.h"
#include "train/outputs.h"
#include "train/sums.h"
#include "train/worker.h"
#include "train/worker_exchange.h"
#include "train/worker_place.h"

/* Its group's batch of round n: in a round every group has one. */
static int evaluate_batch(struct sw_worker *w, struct sw_batch *batch, int64_t n,
                          struct sw_err *err)
{
    const struct sw_source *source = w->shared.data->source[SW_SPLIT_EVAL];
    struct sw_step step = {.step = (uint64_t)w->step,
                           .first_row = sw_worker_first_row(w, SW_SPLIT_EVAL),
                           .valid_rows = batch->valid_rows,
                           .batch_valid_rows = batch->batch_valid_rows,
                           .pass_begins = n == 0,
                           .sequences_begin = sw_carries_begin(w, SW_SPLIT_EVAL, n, 0)};
    struct sw_parts *parts = w->parts[SW_SPLIT_EVAL];
    int rc = sw_parts_set_step(parts, &step, err);
    for (int f = 0; f < source->field_count && rc == SW_OK; f++)
        rc = sw_parts_set_field(parts, source->field[f].name, batch->field[f], err);
    for (int i = 0; i < sw_net_layer_count(w->eval) && rc == SW_OK; i++) {
        sw_slot_phase(w->slot, SW_PHASE_EVALUATE, w->step, i, sw_net_layer(w->eval, i)->name,
                      sw_os()->monotonic_ns());
        rc = sw_parts_forward(parts, i, err);
        if (rc == SW_OK)
            rc = sw_outputs_collect(w, i, n, err);
    }
    if (rc == SW_OK)
        rc = sw_parts_fetch(parts, err);
    return rc == SW_OK ? sw_worker_wait(w, err) : rc;
}

static int next_batch(struct sw_worker *w, int64_t n, struct sw_err *err)
{
    struct sw_batch batch;
    int rc = sw_worker_next_batch(w, SW_SPLIT_EVAL, &batch, err);
    if (rc != SW_OK)
        return rc;
    rc = evaluate_batch(w, &batch, n, err);
    sw_prefetch_release(w->batches.prefetch[SW_SPLIT_EVAL], &batch);
    for (int i = 0; i < w->rank->microbatches && rc == SW_OK; i++)
        sw_results_add(sw_parts_net(w->parts[SW_SPLIT_EVAL], i), &w->record.series[SW_SPLIT_EVAL],
                       i);
    return rc;
}

/* Adds up over all workers; the leader reads the totals. */
static int sum_up(struct sw_worker *w, struct sw_err *err)
{
    struct sw_group *all = &w->shared.groups->all;
    struct sw_job_metrics *metrics = w->shared.metrics;
    const struct sw_series *s = &w->record.series[SW_SPLIT_EVAL];
    bool last = sw_group_deposit(all, w->rank->global_rank, SW_GROUP_EVALUATION, s->sums, s->pairs);
    (void)last; /* all have deposited when all have met */
    int rc = sw_worker_meet(w, "the other workers' evaluation", err);
    if (rc != SW_OK || w->rank->global_rank != 0)
        return rc;
    sw_group_total(all, SW_GROUP_EVALUATION, s->totals, s->pairs);
    sw_results_read(w->eval, s, s->totals, metrics->last[SW_SPLIT_EVAL],
                    &metrics->count[SW_SPLIT_EVAL]);
    return SW_OK;
}

/* All that is left to do is to stop. */
static int leave_pass(struct sw_worker *w, struct sw_err *err)
{
    int rc = sw_outputs_end(w, SW_ERR_CANCELLED, err); /* gives them up, and says what it is told */
    (void)rc;
    return sw_worker_meet(w, "the end of the evaluation", err);
}

int sw_evaluate_pass(struct sw_worker *w, struct sw_requests *stop, bool *left, struct sw_err *err)
{
    int64_t own = sw_worker_eval_batches(w), rounds = sw_worker_eval_batches(&w->shared.workers[0]);
    sw_series_clear(&w->record.series[SW_SPLIT_EVAL]);
    int rc =
        sw_exchange_pull(w->exchange, sw_worker_params(w, SW_SPLIT_EVAL), (uint64_t)w->step, err);
    if (rc == SW_OK)
        rc = sw_states_share(w, err);
    if (rc == SW_OK)
        rc = sw_outputs_begin(w, err);
    for (int64_t n = 0; n < rounds && rc == SW_OK; n++) {
        if (stop && !sw_gate_begin_round(stop, w->step, n)) {
            *left = true;
            return leave_pass(w, err);
        }
        rc = sw_stop_check(err);
        if (rc == SW_OK && n < own)
            rc = next_batch(w, n, err);
        if (rc == SW_OK)
            rc = sw_outputs_hand_over(w, n, err);
    }
    rc = sw_outputs_end(w, rc, err);
    if (rc == SW_OK)
        rc = sw_prefetch_rewind(w->batches.prefetch[SW_SPLIT_EVAL], w->rank->group, err);
    return rc == SW_OK ? sum_up(w, err) : rc;
}
