/* Evaluation without training, as the verb eval does it: one worker, values of a checkpoint, one
 * pass over a section of the recipe. */
#include "infer/evaluate_alone.h"
#include "base/os.h"
#include "base/str.h"
#include "run/job_checkpoint.h"
#include "run/job_private.h"
#include "worker/evaluate.h"
#include "worker/server.h"
#include "worker/worker.h"
#include "worker/worker_place.h"
#include "worker/worker_setup.h"
#include <math.h>
#include <string.h>

static int load_weights(struct sw_job *job, const char *weights, struct sw_err *err)
{
    if (!weights)
        return sw_table_init_values(job->params.table, err);

    const struct sw_checkpoint_job c = sw_job_checkpoint(job);
    return sw_checkpoint_load_weights(&c, weights, &job->span.evaluated_step, err);
}

static int prepare(struct sw_job *job, const char *weights, struct sw_err *err)
{
    struct sw_worker *w = &job->workers[0];
    int rc = sw_worker_attach(w, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_table_allocate(job->params.table, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_buffers_allocate(&job->state.buffers, job->place.host, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_outputs_allocate(&job->outputs, job->place.host, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_worker_allocate(w, err);
    if (rc != SW_OK)
        return rc;
    rc = load_weights(job, weights, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_buffers_upload(w, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_snapshot_new(&job->events.snapshot, NULL,
                         &(struct sw_snapshot_run){0, "", job->options.name, 0, 1}, err);
    if (rc != SW_OK)
        return rc;

    w->slot = sw_snapshot_slot(job->events.snapshot, 0);
    return sw_worker_start_prefetch(w, SW_SPLIT_EVAL, err);
}

static int check(struct sw_job *job, struct sw_err *err)
{
    int rc = sw_servers_settle(&job->workers[0].shared, job->topology, err);

    if (rc == SW_OK && job->topology->workers != 1)
        rc = sw_err_set(err, SW_ERR_INVALID, "evaluation alone takes a job opened with one_worker");
    return rc == SW_OK ? sw_job_need_eval(job, err) : rc;
}

static int evaluate(struct sw_job *job, const char *weights, struct sw_err *err)
{
    struct sw_worker *w = &job->workers[0];
    int rc = prepare(job, weights, err);

    if (rc == SW_OK)
        rc = sw_evaluate_pass(w, NULL, NULL, err);
    if (rc == SW_ERR_CANCELLED && sw_fault_is_set(&job->fault))
        rc = sw_fault_get(&job->fault, err);
    sw_snapshot_free(job->events.snapshot);
    job->events.snapshot = NULL;

    return rc;
}

static int add_rows(void *user, const void *const *src, int64_t count, struct sw_err *err)
{
    const struct sw_eval_reports *r = user;

    if (r->values)
        return sw_value_report_rows(r->values, src[0], src[1], count, err);
    sw_class_report_add(r->classes, src, count);
    return SW_OK;
}

/* Evaluates, and passes the rows of a layer to the report. */
static int evaluate_rows(struct sw_job *job, const char *weights, struct sw_eval_reports r,
                         struct sw_err *err)
{
    const struct sw_net *net = job->workers[0].eval;
    struct sw_row_reader reader = {.rows = add_rows, .user = &r};
    int rc = r.values ? sw_value_report_begin(r.values, net, &reader.layer, err)
                      : sw_class_report_begin(r.classes, net, &reader.layer, err);
    if (rc != SW_OK)
        return rc;

    job->outputs.reader = &reader;
    rc = sw_outputs_plan(&job->outputs, job->workers, err);
    if (rc == SW_OK)
        rc = evaluate(job, weights, err);
    job->outputs.reader = NULL;
    if (rc != SW_OK)
        return rc;

    const struct sw_source *source = job->data.source[SW_SPLIT_EVAL];
    return r.values ? sw_value_report_finish(r.values, source, err)
                    : sw_class_report_finish(r.classes, source, err);
}

bool sw_job_predicts_values(const struct sw_job *job)
{
    const struct sw_net *net = job->workers[0].eval;
    return net && sw_class_report_layer(net) < 0 && sw_value_report_layer(net) >= 0;
}

int sw_job_evaluate(struct sw_job *job, const char *weights, struct sw_job_event *out,
                    struct sw_err *err)
{
    return sw_job_evaluate_with(job, weights, &(struct sw_eval_reports){NULL}, out, err);
}

int sw_job_evaluate_with(struct sw_job *job, const char *weights,
                         const struct sw_eval_reports *reports, struct sw_job_event *out,
                         struct sw_err *err)
{
    const bool reads_rows = reports->classes || reports->values;
    int64_t began_ns = sw_os()->monotonic_ns();

    int rc = check(job, err);
    if (rc == SW_OK)
        rc = reads_rows ? evaluate_rows(job, weights, *reports, err) : evaluate(job, weights, err);
    if (rc != SW_OK)
        return rc;

    *out = (struct sw_job_event){.type = SW_JOB_EVAL,
                                 .step = job->span.evaluated_step,
                                 .split = job->data.section[SW_SPLIT_EVAL]->name,
                                 .lr = NAN,
                                 .eta_s = NAN,
                                 .metric_count = job->metrics.count[SW_SPLIT_EVAL]};
    out->elapsed_s = (double)(sw_os()->monotonic_ns() - began_ns) * 1e-9;
    out->samples_per_s = (double)job->data.source[SW_SPLIT_EVAL]->records / out->elapsed_s;
    out->skipped_records = sw_source_skipped(job->data.source[SW_SPLIT_EVAL]);
    memcpy(out->metric, job->metrics.last[SW_SPLIT_EVAL], sizeof out->metric);

    return SW_OK;
}
