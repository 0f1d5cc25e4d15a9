/* The worker role: owns a stream and its nets, and runs the steps.
 *
 * Messages in: batches from the prefetch threads; versions of parameters. Messages out: updates to
 * the servers, rows to the history, notes to the main thread, its slot of the live snapshot. At
 * each step's end all workers of a job come to the same decision (evaluate, checkpoint, stop). It
 * ends after the last step, on a stop request at a step's end, when the fault is set, or by its own
 * error, which becomes the fault under its name. */
#include "base/os.h"
#include "train/job_private.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- building ---- */

static int make_fields(const struct sw_source *source, int64_t rows, struct sw_net_field *out)
{
    for (int f = 0; f < source->field_count; f++) {
        const struct sw_field *field = &source->field[f];
        int64_t dim[SW_MAX_DIMS] = {rows};
        for (int i = 0; i < field->ndim; i++)
            dim[i + 1] = field->dim[i];
        out[f] = (struct sw_net_field){.name = field->name,
                                       .desc = sw_desc_plain(field->dtype, field->ndim + 1, dim)};
    }
    return source->field_count;
}

static int build_net(struct sw_job *job, struct sw_worker *w, int split, struct sw_net **out,
                     struct sw_err *err)
{
    struct sw_net_field fields[SW_MAX_FIELDS];
    bool training = split == SW_SPLIT_TRAIN;
    int64_t rows = training ? job->conf->batch : job->conf->eval_batch;
    struct sw_net_args args = {.recipe = job->recipe,
                               .stream = w->stream,
                               .seed = (uint64_t)job->conf->seed,
                               .training = training,
                               .rows = rows,
                               .fields = fields,
                               .field_count = make_fields(job->source[split], rows, fields),
                               .source = job->data[split]->name,
                               .sharing = training ? NULL : w->train};
    return sw_net_new(&args, out, err);
}

int sw_worker_build(struct sw_job *job, struct sw_worker *w, struct sw_err *err)
{
    const struct sw_placement_row *row =
        sw_placement_worker(job->placement, &job->shape, 0, w->index);
    w->job = job;
    snprintf(w->unit, sizeof w->unit, "%s", row->unit);
    int rc = sw_stream_new(job->device, row->threads, &w->stream, err);
    if (rc == SW_OK)
        rc = build_net(job, w, SW_SPLIT_TRAIN, &w->train, err);
    if (rc != SW_OK)
        return rc;
    size_t layers = (size_t)sw_net_layer_count(w->train);
    w->forward_ms = sw_calloc(layers, sizeof *w->forward_ms);
    w->backward_ms = sw_calloc(layers, sizeof *w->backward_ms);
    if (!w->forward_ms || !w->backward_ms)
        return sw_err_nomem(err, "a worker", layers * sizeof *w->forward_ms);
    sw_series_name(w->train, &w->series[SW_SPLIT_TRAIN]);
    w->arena_bytes = sw_net_arena_bytes(w->train);
    return SW_OK;
}

int sw_worker_build_eval(struct sw_job *job, struct sw_worker *w, struct sw_err *err)
{
    int rc = build_net(job, w, SW_SPLIT_EVAL, &w->eval, err);
    if (rc != SW_OK)
        return rc;
    sw_series_name(w->eval, &w->series[SW_SPLIT_EVAL]);
    if (sw_net_arena_bytes(w->eval) > w->arena_bytes)
        w->arena_bytes = sw_net_arena_bytes(w->eval);
    return sw_job_map_params(job, SW_SPLIT_EVAL, w->eval, err);
}

static void bind_params(struct sw_worker *w, struct sw_net *net, int split)
{
    for (int p = 0; p < sw_net_param_count(net); p++) {
        const struct sw_param *param = sw_table_param(w->job->table, w->param_of[split][p]);
        sw_net_bind_param(net, p, param->value,
                          split == SW_SPLIT_TRAIN ? param->gradient[w->index] : NULL);
    }
}

int sw_worker_allocate(struct sw_worker *w, struct sw_err *err)
{
    int rc =
        sw_device_alloc(w->job->device, w->arena_bytes, "features and gradients", &w->arena, err);
    if (rc != SW_OK)
        return rc;
    sw_net_bind(w->train, w->arena);
    bind_params(w, w->train, SW_SPLIT_TRAIN);
    if (w->eval) {
        sw_net_bind(w->eval, w->arena);
        bind_params(w, w->eval, SW_SPLIT_EVAL);
    }
    return SW_OK;
}

static int name_series(struct sw_history *h, const char *split, struct sw_series *s,
                       struct sw_err *err)
{
    int rc = SW_OK;
    for (int i = 0; i < s->count && rc == SW_OK; i++)
        rc = sw_history_series(h, split, s->name[i], &s->handle[i], err);
    return rc;
}

int sw_worker_open_history(struct sw_worker *w, struct sw_err *err)
{
    struct sw_job *job = w->job;
    int rc = sw_history_producer_new(job->history, &w->producer, err);
    if (rc == SW_OK)
        rc = name_series(job->history, "train", &w->series[SW_SPLIT_TRAIN], err);
    if (rc == SW_OK && w->eval)
        rc = name_series(job->history, job->data[SW_SPLIT_EVAL]->name, &w->series[SW_SPLIT_EVAL],
                         err);
    if (rc == SW_OK)
        rc = sw_history_series(job->history, "train", "lr", &w->rate_series, err);
    if (rc == SW_OK)
        rc = sw_history_series(job->history, "train", "samples_per_s", &w->speed_series, err);
    if (rc == SW_OK)
        rc = sw_history_link(job->history, w->unit, job->server.unit, "shared", &w->link, err);
    return rc;
}

static int take_memory(void *user, size_t bytes, const char *what, void **out, struct sw_err *err)
{
    return sw_device_alloc(user, bytes, what, out, err);
}

static void give_memory(void *user, void *p, size_t bytes)
{
    sw_device_free(user, p, bytes);
}

int sw_worker_start_prefetch(struct sw_worker *w, int split, struct sw_err *err)
{
    struct sw_prefetch_args args;
    sw_job_prefetch_args(w->job, split, &args);
    args.first_batch = split == SW_SPLIT_TRAIN ? w->job->first_step : 0;
    args.fault = &w->job->fault;
    args.alloc = take_memory;
    args.free = give_memory;
    args.user = w->job->device;
    return sw_prefetch_start(&args, &w->prefetch[split], err);
}

void sw_worker_fini(struct sw_worker *w)
{
    for (int s = 0; s < SW_SPLITS; s++) {
        sw_prefetch_free(w->prefetch[s]);
        sw_free(w->param_of[s]);
    }
    sw_net_free(w->eval);
    sw_net_free(w->train);
    if (w->job)
        sw_device_free(w->job->device, w->arena, w->arena_bytes);
    sw_stream_free(w->stream);
    sw_free(w->forward_ms);
    sw_free(w->backward_ms);
}

/* ---- what a step leaves behind ---- */

static double speed(const struct sw_worker *w)
{
    double seconds = (double)w->trained_ns * 1e-9;
    return seconds > 0 ? (double)((w->step - w->first_step) * w->job->conf->batch) / seconds
                       : (double)NAN;
}

static void fill_event(const struct sw_worker *w, int split, struct sw_job_event *e)
{
    struct sw_job *job = w->job;
    e->step = w->step;
    e->steps = job->steps;
    e->elapsed_s = (double)(sw_os()->monotonic_ns() - w->started_ns) * 1e-9;
    e->split = split == SW_SPLIT_TRAIN ? "train" : job->data[SW_SPLIT_EVAL]->name;
    e->metric_count = w->last_count[split];
    memcpy(e->metric, w->last[split], sizeof e->metric);
    e->lr = w->step > 0 ? sw_table_rate(job->table, (uint64_t)w->step - 1) : (double)NAN;
    e->samples_per_s = speed(w);
    e->eta_s = e->samples_per_s > 0
                   ? (double)((job->steps - w->step) * job->conf->batch) / e->samples_per_s
                   : (double)NAN;
}

static bool display_due(struct sw_worker *w)
{
    const struct sw_display_policy *d = &w->job->display;
    if (w->step - w->first_step <= d->first_steps || w->step >= w->job->steps ||
        (d->every_steps > 0 && w->step % d->every_steps == 0))
        return true;
    return __atomic_exchange_n(&w->job->wants_display, 0, __ATOMIC_RELAXED) != 0;
}

/* Numbers of the step that ended, to the history, the snapshot and, when it is due, the display. */
static void record(struct sw_worker *w, int64_t began_ns)
{
    struct sw_job *job = w->job;
    const struct sw_series *s = &w->series[SW_SPLIT_TRAIN];
    int64_t step_ns = w->lap_ns - began_ns;
    w->trained_ns += step_ns;
    w->timed_steps++;
    w->ledger.step = w->step;
    w->ledger.worker = w->index;
    for (int i = 0; i < s->count; i++)
        sw_history_point(w->producer, s->handle[i], w->step, w->last[SW_SPLIT_TRAIN][i].value);
    sw_history_point(w->producer, w->rate_series, w->step,
                     sw_table_rate(job->table, (uint64_t)w->step - 1));
    sw_history_point(w->producer, w->speed_series, w->step,
                     (double)job->conf->batch * 1e9 / (double)(step_ns > 0 ? step_ns : 1));
    sw_history_step_time(w->producer, &w->ledger);
    /* Handed over in shared memory: the bytes a link would have carried, and nothing copied. */
    sw_history_traffic(w->producer, w->link, w->step,
                       sw_table_elements(job->table) * (int64_t)sizeof(float), 0);
    sw_slot_result(w->slot, w->step, w->last[SW_SPLIT_TRAIN][0].value, w->step * job->conf->batch,
                   w->lap_ns);
    if (display_due(w)) {
        struct sw_job_event e = {.type = SW_JOB_DISPLAY};
        fill_event(w, SW_SPLIT_TRAIN, &e);
        sw_job_note(job, &e, NULL);
    }
}

static void flush_layer_times(struct sw_worker *w)
{
    if (w->timed_steps == 0)
        return;
    for (int i = 0; i < sw_net_layer_count(w->train); i++) {
        sw_history_layer_time(w->job->history, sw_net_layer(w->train, i)->name, w->index,
                              w->forward_ms[i] / (double)w->timed_steps,
                              w->backward_ms[i] / (double)w->timed_steps, w->timed_steps);
        w->forward_ms[i] = w->backward_ms[i] = 0;
    }
    w->timed_steps = 0;
}

/* ---- steps ---- */

static int next_batch(struct sw_worker *w, struct sw_batch *batch, struct sw_err *err)
{
    const struct sw_source *source = w->job->source[SW_SPLIT_TRAIN];
    float waited_ms = 0;
    sw_slot_phase(w->slot, SW_PHASE_READ, w->step + 1, -1, NULL, w->lap_ns);
    int rc = sw_prefetch_next(w->prefetch[SW_SPLIT_TRAIN], batch, err);
    if (rc != SW_OK)
        return rc;
    sw_worker_lap(w, &waited_ms, NULL);
    /* What was waited for, in the proportion in which the prefetch threads spent their time. */
    double all = batch->read_ms + batch->decode_ms;
    double read_share = all > 0 ? batch->read_ms / all : 0;
    w->ledger.read_ms += (float)(waited_ms * read_share);
    w->ledger.decode_ms += (float)(waited_ms * (1 - read_share));
    for (int f = 0; f < source->field_count && rc == SW_OK; f++)
        rc = sw_net_set_field(w->train, source->field[f].name, batch->field[f], err);
    return rc;
}

/* Everything of update w->step + 1, up to the point where all its updates are applied. */
static int train_step(struct sw_worker *w, struct sw_err *err)
{
    struct sw_batch batch;
    int64_t began_ns = w->lap_ns;
    memset(&w->ledger, 0, sizeof w->ledger);
    int rc = next_batch(w, &batch, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_bp_step(w, w->step + 1, &batch, err);
    sw_prefetch_release(w->prefetch[SW_SPLIT_TRAIN], &batch);
    if (rc != SW_OK)
        return rc;
    w->step++;
    sw_worker_lap(w, &w->ledger.idle_ms, NULL);
    record(w, began_ns);
    return SW_OK;
}

static int evaluate(struct sw_worker *w, struct sw_err *err)
{
    struct sw_job *job = w->job;
    const struct sw_series *s = &w->series[SW_SPLIT_EVAL];
    sw_slot_phase(w->slot, SW_PHASE_EVALUATE, w->step, -1, NULL, sw_os()->monotonic_ns());
    int rc = sw_evaluate_pass(w, err);
    if (rc != SW_OK)
        return rc;
    for (int i = 0; i < s->count; i++)
        sw_history_point(w->producer, s->handle[i], w->step, w->last[SW_SPLIT_EVAL][i].value);
    flush_layer_times(w);
    struct sw_job_event e = {.type = SW_JOB_EVAL};
    fill_event(w, SW_SPLIT_EVAL, &e);
    sw_job_note(job, &e, NULL);
    return SW_OK;
}

/* A checkpoint that cannot be written in mid-run is an event and a counter; when the run ends with
 * it, it is an error. */
static int checkpoint(struct sw_worker *w, bool last, struct sw_err *err)
{
    sw_slot_phase(w->slot, SW_PHASE_CHECKPOINT, w->step, -1, NULL, sw_os()->monotonic_ns());
    int rc = sw_bp_collect_all(w, SW_SPLIT_TRAIN, (uint64_t)w->step, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_checkpoint_write(w, err);
    if (rc == SW_OK || last)
        return rc;
    w->checkpoint_failures++;
    sw_job_say(w->job, SW_LOG_ERROR, w->unit,
               "checkpoint %d could not be written and training goes on: %s",
               w->checkpoint_failures, err->text);
    return SW_OK;
}

struct decision {
    bool evaluate, checkpoint, stop, last;
};

static bool due(int64_t every, int64_t step)
{
    return every > 0 && step % every == 0;
}

static struct decision decide(struct sw_worker *w)
{
    struct sw_job *job = w->job;
    const struct sw_job_conf *c = job->conf;
    /* Only the checkpoint request is used up; a stop stays. */
    int asked = __atomic_fetch_and(&job->requests, ~SW_JOB_CHECKPOINT_NOW, __ATOMIC_RELAXED);
    struct decision d = {.stop = (asked & SW_JOB_STOP) != 0, .last = w->step >= job->steps};
    d.evaluate = w->eval && !(d.stop && !d.last) && (d.last || due(c->eval_every, w->step));
    d.checkpoint =
        d.last || d.stop || (asked & SW_JOB_CHECKPOINT_NOW) || due(c->checkpoint_every, w->step);
    return d;
}

static int train(struct sw_worker *w, struct sw_err *err)
{
    struct sw_job *job = w->job;
    int rc = SW_OK;
    w->lap_ns = sw_os()->monotonic_ns();
    while (rc == SW_OK && w->step < job->steps) {
        if (sw_fault_is_set(&job->fault))
            return sw_err_set(err, SW_ERR_CANCELLED, "the job is ending");
        rc = train_step(w, err);
        if (rc != SW_OK)
            return rc;
        struct decision d = decide(w);
        if (d.evaluate)
            rc = evaluate(w, err);
        if (rc == SW_OK && d.checkpoint)
            rc = checkpoint(w, d.last || d.stop, err);
        if (d.evaluate || d.checkpoint)
            w->lap_ns = sw_os()->monotonic_ns();
        if (rc == SW_OK && d.stop && !d.last) {
            w->stopped = true;
            return SW_OK;
        }
    }
    return rc;
}

/* Values from the initialisers, from another run's file, or from the checkpoint to go on from. A
 * new run writes checkpoint 0, so that there always is one. */
static int prepare(struct sw_worker *w, struct sw_err *err)
{
    struct sw_job *job = w->job;
    int rc = sw_bind_thread(
        job->machine, &sw_placement_worker(job->placement, &job->shape, 0, w->index)->cores, err);
    if (rc != SW_OK)
        return rc;
    sw_stream_attach(w->stream);
    w->step = w->first_step = job->first_step;
    w->started_ns = sw_os()->monotonic_ns();
    if (job->resume_checkpoint)
        return sw_checkpoint_load(w, job->resume_checkpoint, err);
    rc = sw_table_init_values(job->table, err);
    int taken = 0;
    if (rc == SW_OK && job->init_from) {
        rc = sw_checkpoint_take(job, w->stream, job->init_from, false, &taken, err);
        if (rc == SW_OK)
            sw_job_say(job, SW_LOG_INFO, w->unit, "%d of %d parameters start from %s", taken,
                       sw_table_count(job->table), job->init_from);
    }
    return rc == SW_OK ? sw_checkpoint_write(w, err) : rc;
}

void sw_worker_main(void *worker)
{
    struct sw_worker *w = worker;
    struct sw_err err = {0};
    int rc = prepare(w, &err);
    if (rc == SW_OK)
        rc = train(w, &err);
    flush_layer_times(w);
    if (rc != SW_OK)
        sw_fault_set(&w->job->fault, w->unit, &err);
    sw_slot_phase(w->slot, SW_PHASE_IDLE, w->step, -1, NULL, sw_os()->monotonic_ns());
    sw_job_note_ended(w->job);
}
