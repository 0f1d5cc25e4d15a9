/* A pass over the evaluation data, during training and alone. The batches are distributed over the
 * worker groups in rounds, one batch per group, and within a group every worker has its rows.
 * Losses and metrics are summed over all workers at the end; output layers write the results of
 * each round. Before every round the workers check for a stop request, so that all leave the pass
 * at the same round. */
#include "worker/evaluate.h"
#include "base/os.h"
#include "base/stop.h"
#include "history/snapshot.h"
#include "worker/gate.h"
#include "worker/outputs.h"
#include "worker/recurrent_state.h"
#include "worker/sums.h"
#include "worker/worker.h"
#include "worker/worker_exchange.h"
#include "worker/worker_place.h"

static int forward(struct sw_worker *w, int64_t n, struct sw_err *err)
{
    for (int i = 0; i < sw_net_layer_count(w->eval); i++) {
        sw_slot_phase(w->slot, SW_PHASE_EVALUATE, w->step, i, sw_net_layer(w->eval, i)->name,
                      sw_os()->monotonic_ns());

        int rc = sw_microbatches_forward(w->microbatches[SW_SPLIT_EVAL], i, err);
        if (rc != SW_OK)
            return rc;
        rc = sw_outputs_collect(w, i, n, err);
        if (rc != SW_OK)
            return rc;
    }

    return SW_OK;
}

/* Evaluates the worker's rows of its group's batch in round n. */
static int evaluate_batch(struct sw_worker *w, struct sw_batch *batch, int64_t n,
                          struct sw_err *err)
{
    const struct sw_source *source = w->shared.data->source[SW_SPLIT_EVAL];
    struct sw_step step = {.step = (uint64_t)w->step,
                           .first_row = sw_worker_first_row(w, SW_SPLIT_EVAL),
                           .valid_rows = batch->valid_rows,
                           .batch_valid_rows = batch->batch_valid_rows,
                           .pass_begins = n == 0,
                           .sequences_begin =
                               sw_recurrent_state_starts(w, SW_SPLIT_EVAL, batch->index, 0)};
    struct sw_microbatches *microbatches = w->microbatches[SW_SPLIT_EVAL];

    int rc = sw_microbatches_set_step(microbatches, &step, err);
    if (rc != SW_OK)
        return rc;

    for (int f = 0; f < source->field_count; f++) {
        rc = sw_microbatches_set_field(microbatches, source->field[f].name, batch->field[f], err);
        if (rc != SW_OK)
            return rc;
    }

    rc = forward(w, n, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_microbatches_fetch(microbatches, err);
    if (rc != SW_OK)
        return rc;

    return sw_worker_wait(w, err);
}

static int next_batch(struct sw_worker *w, int64_t n, struct sw_err *err)
{
    struct sw_batch batch;

    int rc = sw_worker_next_batch(w, SW_SPLIT_EVAL, &batch, err);
    if (rc != SW_OK)
        return rc;

    rc = evaluate_batch(w, &batch, n, err);
    sw_prefetch_release(w->batches.prefetch[SW_SPLIT_EVAL], &batch);
    if (rc != SW_OK)
        return rc;

    for (int i = 0; i < w->rank->microbatches; i++) {
        sw_results_add(sw_microbatches_net(w->microbatches[SW_SPLIT_EVAL], i),
                       &w->record.series[SW_SPLIT_EVAL], i);
    }

    return SW_OK;
}

/* Sums losses and metrics over all workers; the leader reads the totals. */
static int sum_up(struct sw_worker *w, struct sw_err *err)
{
    struct sw_group *all = &w->shared.groups->all;
    struct sw_job_metrics *metrics = w->shared.metrics;
    const struct sw_series *s = &w->record.series[SW_SPLIT_EVAL];

    bool last = sw_group_deposit(all, w->rank->global_rank, SW_GROUP_EVALUATION, s->sums, s->pairs);

    (void)last; /* all have deposited after the barrier */

    int rc = sw_worker_barrier(w, "the other workers' evaluation", err);
    if (rc != SW_OK || w->rank->global_rank != 0)
        return rc;

    rc = sw_worker_total(w, SW_GROUP_EVALUATION, s->totals, s->pairs, err);
    if (rc != SW_OK)
        return rc;

    sw_results_read(w->eval, s, s->totals, metrics->last[SW_SPLIT_EVAL],
                    &metrics->count[SW_SPLIT_EVAL]);

    return SW_OK;
}

/* Leaves the pass without a result, because the job is to stop. */
static int leave_pass(struct sw_worker *w, struct sw_err *err)
{
    int rc = sw_outputs_end(w, SW_ERR_CANCELLED,
                            err); /* abandons the files, and returns the code that it is given */
    (void)rc;
    return sw_worker_barrier(w, "the end of the evaluation", err);
}

static int begin_pass(struct sw_worker *w, struct sw_err *err)
{
    sw_series_clear(&w->record.series[SW_SPLIT_EVAL]);

    int rc =
        sw_exchange_pull(w->exchange, sw_worker_params(w, SW_SPLIT_EVAL), (uint64_t)w->step, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_buffers_distribute(w, err);
    if (rc != SW_OK)
        return rc;

    return sw_outputs_begin(w, err);
}

/* own: number of batches of the worker's group; it has at most one in this round. */
static int make_round(struct sw_worker *w, int64_t n, int64_t own, struct sw_err *err)
{
    int rc = sw_stop_check(err);
    if (rc != SW_OK)
        return rc;

    if (n < own)
        rc = next_batch(w, n, err);
    if (rc != SW_OK)
        return rc;

    return sw_outputs_hand_over(w, n, err);
}

int sw_evaluate_pass(struct sw_worker *w, struct sw_requests *stop, bool *left, struct sw_err *err)
{
    int64_t own = sw_worker_eval_batches(w), rounds = sw_worker_eval_batches(&w->shared.workers[0]);

    int rc = begin_pass(w, err);

    for (int64_t n = 0; n < rounds && rc == SW_OK; n++) {
        if (stop && !sw_gate_begin_round(stop, w->step, n)) {
            *left = true;
            return leave_pass(w, err);
        }

        rc = make_round(w, n, own, err);
    }

    rc = sw_outputs_end(w, rc, err);
    if (rc != SW_OK)
        return rc;

    rc = sw_prefetch_rewind(w->batches.prefetch[SW_SPLIT_EVAL], w->rank->group, err);
    if (rc != SW_OK)
        return rc;

    return sum_up(w, err);
}
