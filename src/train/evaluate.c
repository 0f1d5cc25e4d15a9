/* A pass over the evaluation data, in training and alone. */
#include "base/os.h"
#include "base/stop.h"
#include "base/str.h"
#include "train/job_private.h"
#include "train/results.h"
#include "train/saved.h"
#include "train/states.h"
#include "train/watch.h"
#include "train/worker.h"
#include <math.h>
#include <string.h>

/* Its group's batch of round n: in a round every group has one. */
static int evaluate_batch(struct sw_worker *w, struct sw_batch *batch, int64_t n,
                          struct sw_err *err)
{
    const struct sw_source *source = w->job->source[SW_SPLIT_EVAL];
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
    sw_prefetch_release(w->prefetch[SW_SPLIT_EVAL], &batch);
    for (int i = 0; i < w->rank->microbatches && rc == SW_OK; i++)
        sw_results_add(sw_parts_net(w->parts[SW_SPLIT_EVAL], i), &w->series[SW_SPLIT_EVAL], i);
    return rc;
}

/* Adds up over all workers; the leader reads the totals. */
static int sum_up(struct sw_worker *w, struct sw_err *err)
{
    struct sw_job *job = w->job;
    const struct sw_series *s = &w->series[SW_SPLIT_EVAL];
    bool last =
        sw_group_deposit(&job->all, w->rank->global_rank, SW_GROUP_EVALUATION, s->sums, s->pairs);
    (void)last; /* all have deposited when all have met */
    if (sw_worker_meet(w, "the other workers' evaluation") != SW_OK)
        return sw_err_set(err, SW_ERR_CANCELLED, "the job is ending");
    if (w->rank->global_rank != 0)
        return SW_OK;
    sw_group_total(&job->all, SW_GROUP_EVALUATION, s->totals, s->pairs);
    sw_results_read(w->eval, s, s->totals, job->last[SW_SPLIT_EVAL],
                    &job->last_count[SW_SPLIT_EVAL]);
    return SW_OK;
}

/* All that is left to do is to stop. */
static int leave_pass(struct sw_worker *w, struct sw_err *err)
{
    struct sw_err ignored;
    int rc = sw_outputs_end(w, SW_ERR_CANCELLED, &ignored);
    if (rc == SW_ERR_CANCELLED && sw_worker_meet(w, "the end of the evaluation") == SW_OK)
        return SW_OK;
    return sw_err_set(err, SW_ERR_CANCELLED, "the job is ending");
}

int sw_evaluate_pass(struct sw_worker *w, bool *left, struct sw_err *err)
{
    int64_t own = sw_worker_eval_batches(w), rounds = sw_worker_eval_batches(&w->job->workers[0]);
    sw_series_clear(&w->series[SW_SPLIT_EVAL]);
    int rc = sw_bp_collect_all(w, SW_SPLIT_EVAL, (uint64_t)w->step, err);
    if (rc == SW_OK)
        rc = sw_states_share(w, err);
    if (rc == SW_OK)
        rc = sw_outputs_begin(w, err);
    for (int64_t n = 0; n < rounds && rc == SW_OK; n++) {
        if (left && !sw_gate_begin_round(w, n)) {
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
        rc = sw_prefetch_rewind(w->prefetch[SW_SPLIT_EVAL], w->rank->group, err);
    return rc == SW_OK ? sum_up(w, err) : rc;
}

/* ---- alone: the verb eval ---- */

/* Another section than the one that training evaluates on. */
static int choose_split(struct sw_job *job, const char *split, struct sw_err *err)
{
    struct sw_worker *w = &job->workers[0];
    const struct sw_section *section = sw_recipe_find(job->recipe, "data", split);
    if (!section)
        return sw_err_set(err, SW_ERR_NOTFOUND, "there is no [data %s] section", split);
    sw_parts_free(w->parts[SW_SPLIT_EVAL]);
    w->parts[SW_SPLIT_EVAL] = NULL;
    w->eval = NULL;
    sw_source_close(job->source[SW_SPLIT_EVAL]);
    job->source[SW_SPLIT_EVAL] = NULL;
    sw_free(w->param_of[SW_SPLIT_EVAL]);
    w->param_of[SW_SPLIT_EVAL] = NULL;
    int rc = sw_job_open_split(job, SW_SPLIT_EVAL, section, err);
    return rc == SW_OK ? sw_job_build_eval(job, err) : rc;
}

static int load_weights(struct sw_job *job, const char *weights, struct sw_err *err)
{
    if (!weights)
        return sw_table_init_values(job->table, err);
    return sw_checkpoint_take(job, sw_worker_host_stream(&job->workers[0]), weights,
                              &job->evaluated_step, err);
}

static int prepare(struct sw_job *job, const char *weights, struct sw_err *err)
{
    struct sw_worker *w = &job->workers[0];
    int rc = sw_worker_attach(w, err);
    if (rc == SW_OK)
        rc = sw_table_allocate(job->table, err);
    if (rc == SW_OK)
        rc = sw_states_allocate(job, err);
    if (rc == SW_OK)
        rc = sw_outputs_allocate(job, err);
    if (rc == SW_OK)
        rc = sw_worker_allocate(w, err);
    if (rc == SW_OK)
        rc = load_weights(job, weights, err);
    if (rc == SW_OK)
        rc = sw_states_send(w, err);
    if (rc == SW_OK)
        rc = sw_snapshot_new(&job->snapshot, NULL, 0, "", job->name, 0, 1, err);
    if (rc == SW_OK)
        w->slot = sw_snapshot_slot(job->snapshot, 0);
    return rc == SW_OK ? sw_worker_start_prefetch(w, SW_SPLIT_EVAL, err) : rc;
}

int sw_job_evaluate(struct sw_job *job, const char *weights, const char *split,
                    struct sw_job_event *out, struct sw_err *err)
{
    struct sw_worker *w = &job->workers[0];
    int64_t began_ns = sw_os()->monotonic_ns();
    int rc = sw_job_settle_servers(job, err);
    if (rc == SW_OK && job->topology->workers != 1)
        rc = sw_err_set(err, SW_ERR_INVALID, "evaluation alone takes a job opened with one_worker");
    if (rc == SW_OK && split && !(w->eval && sw_str_eq(split, job->data[SW_SPLIT_EVAL]->name)))
        rc = choose_split(job, split, err);
    if (rc == SW_OK && !w->eval)
        rc = sw_err_set(err, SW_ERR_NOTFOUND,
                        "there is neither a [data val] nor a [data test] section to evaluate on");
    if (rc == SW_OK)
        rc = prepare(job, weights, err);
    if (rc == SW_OK)
        rc = sw_evaluate_pass(w, NULL, err);
    if (rc == SW_ERR_CANCELLED && sw_fault_is_set(&job->fault))
        rc = sw_fault_get(&job->fault, err);
    sw_snapshot_free(job->snapshot);
    job->snapshot = NULL;
    if (rc != SW_OK)
        return rc;
    *out = (struct sw_job_event){.type = SW_JOB_EVAL,
                                 .step = job->evaluated_step,
                                 .split = job->data[SW_SPLIT_EVAL]->name,
                                 .lr = NAN,
                                 .eta_s = NAN,
                                 .metric_count = job->last_count[SW_SPLIT_EVAL]};
    out->elapsed_s = (double)(sw_os()->monotonic_ns() - began_ns) * 1e-9;
    out->samples_per_s = (double)job->source[SW_SPLIT_EVAL]->records / out->elapsed_s;
    out->skipped_records = sw_source_skipped(job->source[SW_SPLIT_EVAL]);
    memcpy(out->metric, job->last[SW_SPLIT_EVAL], sizeof out->metric);
    return SW_OK;
}
