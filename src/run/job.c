/* Opening a job: recipe, machine, data, nets, parameter table, plan. Nothing large is allocated and
 * nothing is written. */
#include "run/job.h"
#include "base/os.h"
#include "base/str.h"
#include "checkpoint/tokens.h"
#include "exchange/table/sync.h"
#include "net/transfer.h"
#include "run/find_errors.h"
#include "run/hosts_history.h"
#include "run/job_checkpoint.h"
#include "run/job_private.h"
#include "run/label_range.h"
#include "run/limits.h"
#include "run/memory.h"
#include "run/run.h"
#include "run/tune.h"
#include "worker/layer_sums.h"
#include "worker/recurrent_state.h"
#include "worker/worker.h"
#include "worker/worker_setup.h"
#include <string.h>

static int copy_text(char **to, const char *from, struct sw_err *err)
{
    if (!from)
        return SW_OK;
    *to = sw_strdup(from);
    return *to ? SW_OK : sw_err_nomem(err, "a job's options", strlen(from) + 1);
}

static int copy_options(struct sw_run_options *to, const struct sw_job_options *o,
                        struct sw_err *err)
{
    const struct {
        char **to;
        const char *from;
    } texts[] = {{&to->out_dir, o->out_dir},
                 {&to->db, o->db},
                 {&to->command, o->command},
                 {&to->eval_split, o->eval_split},
                 {&to->resume_checkpoint, o->resume ? o->resume_checkpoint : NULL}};
    to->resume_run_id = o->resume ? o->resume->id : 0;
    to->resume_segments = o->resume ? o->resume->segments : 0;
    to->overwrite = o->overwrite;
    to->trace_capacity = o->trace_capacity;
    to->oversubscribe = o->oversubscribe;
    to->reserve = o->reserve;
    to->evaluates = o->one_worker && !o->predict && !o->model.of_net;
    to->model = o->model;

    to->display = o->display;
    to->hosts = o->one_worker || o->predict || o->only_placement ? NULL : o->hosts;

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        int rc = copy_text(texts[i].to, texts[i].from, err);
        if (rc != SW_OK)
            return rc;
    }

    return SW_OK;
}

static int load_recipe(struct sw_job *job, const struct sw_job_options *o, struct sw_err *err)
{
    int rc = sw_stage_choose(job, o, err);
    if (rc != SW_OK)
        return rc;

    if (job->conf->display_every > 0)
        job->options.display.every_steps = job->conf->display_every;
    return SW_OK;
}

static int larger(int a, int b)
{
    return a > b ? a : b;
}

/* Length of the longest sum over a group: of a layer of any worker, or of norms. */
static int longest_sum(const struct sw_job *job)
{
    const struct sw_topology *t = job->topology;
    int most = sw_exchange_vote_count(job->params.table);

    for (int i = 0; i < t->group_size && (t->microbatches > 1 || t->splits_layers || t->hosts > 1);
         i++) {
        const struct sw_worker *w = &job->workers[i];
        most = larger(most, sw_net_sum_count(w->train));
        most = larger(most, w->eval ? sw_net_sum_count(w->eval) : 0);
    }

    return most;
}

/* Reserves room in all groups for sums and for results. */
static int reserve_sums(struct sw_job *job, struct sw_err *err)
{
    const struct sw_topology *t = job->topology;
    struct sw_job_groups *groups = &job->groups;
    const int most = longest_sum(job), split_groups = t->splits_layers ? t->group_size : 0;

    int rc = sw_group_reserve_pairs(&groups->all, sw_net_pair_count(job->workers[0].train), err);
    if (rc != SW_OK)
        return rc;
    rc = sw_group_reserve_pairs(&groups->leaders, SW_DECISION_PAIRS, err);
    if (rc != SW_OK)
        return rc;

    for (int g = 0; g < t->worker_groups; g++) {
        rc = sw_group_reserve_sums(&groups->each[g], most, err);
        if (rc != SW_OK)
            return rc;
    }

    if (t->splits_layers)
        rc = sw_group_reserve_sums(&groups->all, most, err);
    if (rc != SW_OK)
        return rc;

    for (int i = 0; i < split_groups; i++) {
        rc = sw_group_reserve_sums(&groups->peers[i], most, err);
        if (rc != SW_OK)
            return rc;
    }

    return SW_OK;
}

/* Builds the nets: the table is made from the training nets, and the evaluation nets use its
 * parameters. */
static int build_workers(struct sw_job *job, struct sw_err *err)
{
    int rc = SW_OK, workers = job->topology->workers;

    for (int i = 0; i < workers; i++) {
        rc = sw_worker_build(&job->workers[i], err);
        if (rc != SW_OK)
            return rc;
    }

    rc = job->options.evaluates ? SW_OK : sw_job_check_labels(job, SW_SPLIT_TRAIN, err);
    if (rc != SW_OK)
        return rc;

    rc = sw_exchange_modes_check(&job->exchange.comm, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_job_make_table(job, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_job_hosts_prepare(job, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_reduce_plan(&job->exchange, job->workers[0].train,
                        job->workers[0].param_of[SW_SPLIT_TRAIN], err);
    if (rc != SW_OK)
        return rc;
    rc = sw_buffers_build(&job->state.buffers, job->workers, err);
    if (rc != SW_OK)
        return rc;
    rc = job->options.evaluates ? SW_OK : sw_recurrent_state_build(&job->state, job->workers, err);
    if (rc != SW_OK)
        return rc;

    if (job->data.source[SW_SPLIT_EVAL])
        rc = sw_job_build_eval(job, err);
    if (rc != SW_OK)
        return rc;

    return reserve_sums(job, err);
}

int sw_job_build_eval(struct sw_job *job, struct sw_err *err)
{
    int rc = SW_OK;

    for (int i = 0; i < job->topology->workers; i++) {
        rc = sw_worker_build_eval(&job->workers[i], err);
        if (rc != SW_OK)
            return rc;
    }

    rc = sw_job_check_labels(job, SW_SPLIT_EVAL, err);
    if (rc != SW_OK)
        return rc;

    rc = sw_group_reserve_pairs(&job->groups.all, sw_net_pair_count(job->workers[0].eval), err);
    if (rc != SW_OK)
        return rc;
    rc = sw_buffers_match(&job->state.buffers, job->workers, err);
    if (rc != SW_OK)
        return rc;

    for (int i = 0; i < job->topology->workers; i++) {
        rc = sw_job_map_params(job, &job->workers[i], SW_SPLIT_EVAL, err);
        if (rc != SW_OK)
            return rc;
    }

    return sw_outputs_plan(&job->outputs, job->workers, err);
}

static int prepare_tune(struct sw_job *job, struct sw_err *err)
{
    const struct sw_json *kept = sw_json_get(job->exchange.comm.kept, "tune");
    return sw_job_tune_prepare(&job->speed.tune, kept, job->workers, err);
}

static void log_warnings(const struct sw_job *job)
{
    const struct sw_diags *d = sw_recipe_warnings(job->recipe);

    for (int i = 0; i < d->count; i++)
        sw_log_write(job->events.log, SW_LOG_WARN, "recipe", "%s: %s%s%s", d->items[i].where,
                     d->items[i].text, d->items[i].hint ? "; " : "",
                     d->items[i].hint ? d->items[i].hint : "");
}

static int build(struct sw_job *job, const struct sw_job_options *o, struct sw_err *err)
{
    int rc = copy_options(&job->options, o, err);
    if (rc != SW_OK)
        return rc;
    rc = load_recipe(job, o, err);
    if (rc != SW_OK)
        return rc;

    rc = o->weights ? sw_job_read_spec(job, o->weights, err) : SW_OK;
    if (rc != SW_OK)
        return rc;

    if (job->stage.name)
        sw_log_write(job->events.log, SW_LOG_DEBUG, "job", "opening stage %s", job->stage.name);
    sw_recipe_announce_fallback(job->recipe, &job->report.fallback);
    if (!o->previous.job)
        log_warnings(job);

    const char *name = o->name                        ? o->name
                       : o->resume && o->resume->name ? o->resume->name
                                                      : job->conf->name;
    rc = copy_text(&job->options.name, name, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_job_choose_device(job, o, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_job_place_roles(job, o, err);
    if (rc != SW_OK)
        return rc;
    if (o->only_placement) {
        sw_job_describe_roles(job);
        return SW_OK;
    }

    rc = sw_job_open_devices(job, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_reduce_choose(&job->exchange, o->no_probes || o->predict, err);
    if (rc != SW_OK || o->predict)
        return rc;
    rc = sw_exchange_modes_prepare(&job->exchange, job->options.resume_checkpoint, err);
    if (rc != SW_OK)
        return rc;
    rc = prepare_tune(job, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_job_open_data(job, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_tokens_fit(job->recipe,
                       job->data.source[job->options.evaluates ? SW_SPLIT_EVAL : SW_SPLIT_TRAIN],
                       err);
    if (rc != SW_OK)
        return rc;
    rc = build_workers(job, err);
    if (rc != SW_OK)
        return rc;

    return !o->one_worker ? sw_job_fit(job, err) : SW_OK;
}

int sw_job_build(const struct sw_job_options *o, struct sw_log *log, struct sw_job **out,
                 struct sw_err *err)
{
    struct sw_job *job = *out = sw_calloc(1, sizeof *job);
    if (!job)
        return sw_err_nomem(err, "a job", sizeof *job);

    job->events.log = log;
    job->span.times_only = o->times_only;
    job->events.steps = &job->span.run_steps;
    sw_retention_init(&job->retention, &job->events);
    job->requests.events = &job->events;
    job->requests.can_release = o->reserve;
    sw_fault_init(&job->fault);

    int rc = build(job, o, err);
    const bool built = job->workers && job->workers[0].stream;
    if (rc != SW_OK && !built && !o->only_placement && !o->predict)
        sw_job_find_errors(job);

    return rc;
}

/* Finds where the job begins: at the end of the previous stage, at a checkpoint, or at step 0,
 * perhaps with parameters from other files. */
static int find_begin(struct sw_job *job, const struct sw_job_options *o, struct sw_err *err)
{
    const struct sw_checkpoint_job c = sw_job_checkpoint(job);

    if (job->stage.begins)
        job->span.first_step = job->span.stage_from;
    else if (c.resumed)
        return sw_checkpoint_check(&c, c.resumed, &job->span.first_step, err);

    /* With one_worker the weights of another file are evaluated, so the start of a run is not
     * checked. */
    return o->one_worker || o->model.of_memory
               ? SW_OK
               : sw_init_from_check(&c, o->init_from, o->previous.names, err);
}

/* Reports an unknown best_by, with the names that it can have. */
static int unknown_metric(struct sw_job *job, const struct sw_series *s, struct sw_err *err)
{
    const struct sw_section *section = sw_recipe_find(job->recipe, "job", NULL);
    const char *names[SW_JOB_METRICS];

    for (int i = 0; i < s->count; i++)
        names[i] = s->name[i];
    sw_recipe_error(job->recipe, section, "best_by", "evaluation has no such metric");
    sw_recipe_hint_near(job->recipe, job->conf->best_by, names, s->count, "it has");

    return sw_recipe_status(job->recipe, err);
}

/* Chooses the evaluation metric by which checkpoints are compared. */
static int choose_metric(struct sw_job *job, struct sw_err *err)
{
    struct sw_retention *r = &job->retention;
    const struct sw_worker *leader = &job->workers[0];
    const struct sw_series *s = &leader->record.series[SW_SPLIT_EVAL];
    const char *name = job->conf->best_by;
    int metric = leader->eval ? sw_series_find(s, name ? name : "accuracy") : -1;

    if (metric < 0 && name)
        return unknown_metric(job, s, err);
    if (!leader->eval)
        return SW_OK;

    if (metric < 0)
        metric = 0; /* the loss */
    r->metric = &job->metrics.last[SW_SPLIT_EVAL][metric];
    r->metric_name = s->name[metric];
    r->less_is_better = sw_series_less_is_better(leader->eval, s, metric);

    return SW_OK;
}

static int prepare_retention(struct sw_job *job, const struct sw_job_options *o, struct sw_err *err)
{
    struct sw_retention *r = &job->retention;

    r->most = job->conf->keep_checkpoints;
    r->resumed = job->options.resume_checkpoint;

    int rc = choose_metric(job, err);
    if (o->resume && !job->stage.begins) /* a stage replaces that file by a checkpoint of its own */
        r->from = job->span.first_step;
    if (rc != SW_OK)
        return rc;

    for (int i = 0; o->resume && i < o->kept_count; i++) {
        /* Later checkpoints are damaged; otherwise the newest of them would have been resumed. */
        if (o->kept[i].step <= job->span.first_step)
            rc = sw_retention_add(r, o->kept[i].step, o->kept[i].path, o->kept[i].checksum, err);
        if (rc != SW_OK)
            return rc;
    }

    return SW_OK;
}

int sw_job_complete(struct sw_job *job, const struct sw_job_options *o, struct sw_err *err)
{
    if (o->only_placement || o->predict)
        return SW_OK;

    int rc = sw_stage_find_end(job, o, err);
    if (rc != SW_OK)
        return rc;
    rc = find_begin(job, o, err);
    if (rc != SW_OK)
        return rc;
    rc = prepare_retention(job, o, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_stop_init(&job->stops, job->recipe, job->workers, err);
    if (rc != SW_OK)
        return rc;

    rc = sw_job_describe(job, err);
    if (rc != SW_OK)
        return rc;

    return o->reserve ? sw_limits_check(job, err) : SW_OK;
}

/* Waits until no queued work uses memory of the all-reduce, of factors, or of sums of layers any
 * more. */
static void drain_streams(struct sw_job *job)
{
    bool used =
        job->exchange.sums.all_reduce || job->exchange.comm.factors || job->groups.layer_sums;
    struct sw_err ignored; /* a failed stream does not use memory any more either */

    for (int i = 0; used && i < job->topology->workers; i++) {
        sw_microbatches_wait(job->workers[i].microbatches[SW_SPLIT_TRAIN]);
        int rc = sw_stream_wait(job->workers[i].stream, &ignored);
        (void)rc;
    }
}

static void free_transfers(struct sw_job *job)
{
    for (int s = 0; s < SW_SPLITS; s++) {
        for (int g = 0; job->groups.transfers[s] && g < job->topology->worker_groups; g++)
            sw_transfer_free(job->groups.transfers[s][g]);
        sw_free(job->groups.transfers[s]);
    }
}

static void free_layer_sums(struct sw_job *job)
{
    for (int g = 0; job->groups.layer_sums && g < job->topology->worker_groups; g++)
        sw_layer_sums_free(job->groups.layer_sums[g]);
    sw_free(job->groups.layer_sums);
}

void sw_job_drop(struct sw_job *job)
{
    if (job->reserve.dropped)
        return;

    job->reserve.dropped = true;
    drain_streams(job);
    sw_exchange_plan_fini(&job->exchange);
    free_transfers(job);
    free_layer_sums(job);
    for (int i = 0; job->workers && i < job->topology->workers; i++)
        sw_worker_fini(&job->workers[i]);
    sw_free(job->workers);
    sw_free(job->servers);
    job->workers = NULL;
    job->servers = NULL;
    for (int g = 0; job->groups.each && g < job->topology->worker_groups; g++)
        sw_group_fini(&job->groups.each[g]);
    sw_free(job->groups.each);
    for (int i = 0; job->groups.peers && i < job->topology->group_size; i++)
        sw_group_fini(&job->groups.peers[i]);
    sw_free(job->groups.peers);
    sw_group_fini(&job->groups.all);
    sw_group_fini(&job->groups.leaders);
    sw_buffers_fini(&job->state.buffers);
    sw_buffers_fini(&job->state.recurrent);
    sw_outputs_fini(&job->outputs);
    sw_job_hosts_free(job);
    sw_sync_free(job->params.sync);
    for (int i = 0; job->params.copies && i < job->topology->server_groups; i++)
        sw_table_free(job->params.copies[i].table);
    sw_free(job->params.copies);
    for (int s = 0; s < SW_SPLITS; s++)
        sw_source_close(job->data.source[s]);
    sw_job_free_spec(job);
    sw_device_close(job->place.host);
    sw_job_tune_close(job->speed.tune);
}

void sw_job_close(struct sw_job *job)
{
    if (!job)
        return;

    sw_job_end_resumable(job);
    sw_job_drop(job);
    sw_hosts_history_free(job);
    sw_retention_fini(&job->retention);
    sw_init_from_fini(&job->initial.takes);
    sw_carried_over_fini(&job->initial.carried_over);
    sw_job_close(job->stage.failed);
    sw_bytes_fini(&job->stage.text);
    sw_free(job->stage.steps);
    sw_reserve_fini(job);
    sw_following_fini(&job->following);
    sw_placement_free(job->place.placement);
    sw_machine_free(job->place.machine);
    sw_recipe_free(job->recipe);
    sw_trace_free(job->monitor.trace);
    sw_fault_fini(&job->fault);
    sw_bytes_fini(&job->report.fallback);
    sw_bytes_fini(&job->report.limits);
    sw_bytes_fini(&job->report.warnings);
    sw_bytes_fini(&job->report.comm_notes);

    char *const owned[] = {job->options.name,       job->options.out_dir,
                           job->options.db,         job->options.command,
                           job->options.eval_split, job->options.resume_checkpoint,
                           job->report.choices,     job->report.partition_notes};
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++)
        sw_free(owned[i]);
    sw_free(job->report.layers);
    sw_free(job->report.rows);
    sw_free(job->report.shards);
    sw_row_split_fini(&job->rows);
    sw_topology_free(job->topology);
    sw_free(job);
}

bool sw_job_resumable(const struct sw_job *job)
{
    return job->options.resume_checkpoint ||
           __atomic_load_n(&job->retention.saved_step, __ATOMIC_RELAXED) >= 0;
}
