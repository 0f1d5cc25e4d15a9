/* Opening a run, before its threads start: history, snapshot and trace, and all memory. */
#include "base/os.h"
#include "base/str.h"
#include "checkpoint/checkpoint.h"
#include "plan/choices.h"
#include "run/host_loss.h"
#include "run/hosts_history.h"
#include "run/job_private.h"
#include "run/run.h"
#include "worker/layer_sums.h"
#include "worker/recurrent_state.h"
#include "worker/server.h"
#include "worker/sums.h"
#include "worker/worker.h"
#include "worker/worker_setup.h"
#include <stdio.h>
#include <string.h>

static struct sw_run_info describe(const struct sw_job *job)
{
    const struct sw_job_plan *p = &job->plan;

    return (struct sw_run_info){
        .name = job->options.name,
        .recipe = sw_recipe_file(job->recipe),
        .recipe_text = sw_recipe_text(job->recipe),
        .recipe_hash = sw_recipe_hash(job->recipe),
        .overrides = sw_recipe_overrides(job->recipe),
        .fallback = sw_recipe_fallback(job->recipe),
        .command = job->options.command,
        .framework = p->framework,
        .device = p->device,
        .version = SW_VERSION,
        .out_dir = job->options.out_dir,
        .overwrite = job->options.overwrite,
        .segments = job->options.resume_segments,
        .first_step = job->span.first_step,
        .workers = sw_hosts_history_workers(job),
        .seed = job->conf->seed,
        .batch = p->batch * job->topology->all_update_groups, /* samples of a step */
        .steps = job->span.run_steps,
        .epoch_records = job->data.source[SW_SPLIT_TRAIN]->records,
        .params = p->params,
        .flops_per_sample = p->flops_per_sample,
    };
}

static int open_history(struct sw_job *job, struct sw_err *err)
{
    const struct sw_run_info info = describe(job);
    char *path = NULL;

    if (job->events.history) { /* open since the previous job of the run */
        if (job->following.now.what)
            sw_history_changed(job->events.history, job->span.first_step, &info);
        return SW_OK;
    }

    int rc = sw_history_default_path(job->options.db, job->conf->db, &path, err);
    if (rc == SW_OK)
        rc = sw_history_open(&job->events.history, path, job->events.log, err);
    sw_free(path);
    if (rc != SW_OK)
        return rc;

    if (job->options.resume_run_id && !sw_hosts_history_is_part(job))
        rc = sw_history_resume_run(job->events.history, job->options.resume_run_id,
                                   job->span.first_step, &info, err);
    else if (!sw_hosts_history_is_part(job))
        rc = sw_history_begin_run(job->events.history, &info, err);

    return rc == SW_OK ? sw_hosts_history_begin(job, &info, err) : rc;
}

void sw_run_record_placement(struct sw_job *job)
{
    const struct sw_placement *p = job->place.placement;

    sw_history_placement_removed(job->events.history);

    for (int i = 0; i < p->row_count; i++) {
        const struct sw_placement_row *row = &p->rows[i];
        char cores[256];
        sw_history_placement(job->events.history, row->role, row->device, row->numa,
                             sw_core_set_text(&row->cores, cores, sizeof cores), row->reason);
    }

    if (*job->plan.copy)
        sw_history_tag(job->events.history, "copy", job->plan.copy);
}

/* Steps of the warm-up have one batch, those after it one per update group. */
void sw_run_record_stage(struct sw_job *job)
{
    struct sw_history_stage s = {.name = job->stage.index < 0 ? NULL : job->stage.name,
                                 .from_step = job->span.first_step,
                                 .batch = job->conf->batch,
                                 .epoch_records = job->data.source[SW_SPLIT_TRAIN]->records,
                                 .params = job->plan.params,
                                 .flops_per_sample = job->plan.flops_per_sample};

    if (job->span.first_step < job->topology->warmup_steps) {
        sw_history_stage(job->events.history, &s);
        s.from_step = job->topology->warmup_steps;
    }

    s.batch *= job->topology->all_update_groups;
    sw_history_stage(job->events.history, &s);
}

int sw_job_slots(const struct sw_job *job)
{
    const struct sw_worker *last = &job->workers[job->topology->workers - 1];
    return last->batches.reading[SW_SPLITS - 1].first + last->batches.reading[SW_SPLITS - 1].count;
}

/* Numbers the slots: workers, then servers, then prefetch threads, as far as there is room. Returns
 * the number of slots. */
static int number_slots(struct sw_job *job)
{
    int next = job->topology->workers + job->topology->servers;

    for (int i = 0; i < job->topology->workers; i++)
        for (int s = 0; s < SW_SPLITS; s++) {
            int left = SW_SNAPSHOT_MAX_SLOTS - next;
            int threads = job->data.source[s] ? (int)job->data.source[s]->workers : 0;

            job->workers[i].batches.reading[s] = (struct sw_reading){&job->workers[i], next,
                                                                     threads < left ? threads
                                                                     : left < 0     ? 0
                                                                                    : left};
            next += job->workers[i].batches.reading[s].count;
        }

    return next;
}

/* Names the slots of prefetch threads, "prefetch0.1 train 0": worker, data section, thread. */
static void name_readers(const struct sw_job *job, const struct sw_worker *w)
{
    char name[SW_SNAPSHOT_NAME];

    for (int s = 0; s < SW_SPLITS; s++)
        for (int i = 0; i < w->batches.reading[s].count; i++) {
            snprintf(name, sizeof name, "prefetch%s %s %d", w->role + strlen("worker"),
                     job->data.section[s]->name, i);
            sw_slot_set_name(
                sw_snapshot_slot(job->events.snapshot, w->batches.reading[s].first + i), name);
        }
}

/* The snapshot of host 0 has the slots of all hosts, so the others need no file. */
static int make_snapshot(struct sw_job *job, const struct sw_snapshot_run *run, struct sw_err *err)
{
    struct sw_err why;
    char *path = NULL;

    if (sw_hosts_history_is_part(job))
        return sw_snapshot_new(&job->events.snapshot, NULL, run, err);

    int rc = sw_snapshot_path(run->uid, job->events.log, &path, &why);
    if (rc == SW_OK)
        rc = sw_snapshot_new(&job->events.snapshot, path, run, &why);
    sw_free(path);
    if (rc == SW_OK)
        return rc;

    /* Training works without a snapshot file. */
    sw_log_write(job->events.log, SW_LOG_WARN, "snapshot", "%s: the run cannot be monitored live",
                 why.text);
    return sw_snapshot_new(&job->events.snapshot, NULL, run, err);
}

static int open_snapshot(struct sw_job *job, int slots, struct sw_err *err)
{
    const struct sw_snapshot_run run = {
        .id = sw_history_run_id(job->events.history),
        .uid = sw_history_run_uid(job->events.history),
        .name = job->options.name,
        .steps_total = job->span.run_steps,
        .slots = slots + sw_hosts_history_slots(job),
    };

    int rc = make_snapshot(job, &run, err);
    if (rc != SW_OK)
        return rc;

    for (int i = 0; i < job->topology->workers; i++) {
        job->workers[i].slot = sw_snapshot_slot(job->events.snapshot, i);
        sw_slot_set_name(job->workers[i].slot, job->workers[i].role);
        name_readers(job, &job->workers[i]);
    }

    for (int i = 0; i < job->topology->servers; i++) {
        job->servers[i].slot = sw_snapshot_slot(job->events.snapshot, job->topology->workers + i);
        sw_slot_set_name(job->servers[i].slot, job->servers[i].role);
    }

    sw_hosts_history_show(job, slots);
    return SW_OK;
}

static void on_update(void *user, int server, int param, uint64_t version, int64_t begin_ns,
                      int64_t end_ns)
{
    struct sw_job *job = user;
    struct sw_trace_event e = {.begin_ns = begin_ns,
                               .end_ns = end_ns,
                               .step = (int64_t)version,
                               .what = SW_TRACE_UPDATE,
                               .role = 1000 + server,
                               .index = param};
    sw_trace_add(job->monitor.trace, &e);
}

static int make_trace(struct sw_job *job, struct sw_err *err)
{
    if (job->options.trace_capacity <= 0)
        return SW_OK;

    job->monitor.trace = sw_trace_new((size_t)job->options.trace_capacity);
    if (!job->monitor.trace)
        return sw_err_nomem(err, "a trace", (size_t)job->options.trace_capacity);

    for (int i = 0; i < job->topology->workers; i++)
        job->workers[i].shared.trace = job->monitor.trace;
    for (int i = 0; i < job->topology->server_groups; i++)
        sw_table_set_on_update(job->params.copies[i].table, on_update, job);

    return SW_OK;
}

static int make_layer_sums(struct sw_job *job, struct sw_err *err)
{
    const struct sw_topology *t = job->topology;
    const int most = sw_worker_longest_sum(&job->workers[0]);
    struct sw_layer_sums **sums;

    if (most == 0)
        return SW_OK;

    sums = job->groups.layer_sums = sw_calloc((size_t)t->worker_groups, sizeof(void *));
    if (!sums)
        return sw_err_nomem(err, "sums of layers", (size_t)t->worker_groups * sizeof(void *));

    for (int g = 0; g < t->worker_groups; g++) {
        int rc = sw_layer_sums_new(t->group_size, most, &sums[g], err);
        if (rc != SW_OK)
            return rc;
    }

    for (int i = 0; i < t->workers; i++) {
        int rc = sw_layer_sums_join(sums[t->rank[i].group], t->rank[i].rank, job->workers[i].stream,
                                    err);
        if (rc != SW_OK)
            return rc;
    }

    return SW_OK;
}

/* Memory that the workers share, and what lets them exchange data. */
static int allocate_shared(struct sw_job *job, struct sw_err *err)
{
    int rc;

    for (int i = 0; i < job->topology->server_groups; i++) {
        rc = sw_table_allocate(job->params.copies[i].table, err);
        if (rc != SW_OK)
            return rc;
    }

    rc = sw_job_make_sync(job, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_job_connect(job, SW_SPLIT_TRAIN, err);
    if (rc != SW_OK)
        return rc;

    if (job->workers[0].eval)
        rc = sw_job_connect(job, SW_SPLIT_EVAL, err);
    if (rc != SW_OK)
        return rc;

    rc = sw_buffers_allocate(&job->state.buffers, job->place.host, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_recurrent_state_allocate(&job->state.recurrent, job->place.host, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_outputs_allocate(&job->outputs, job->place.host, err);
    if (rc != SW_OK)
        return rc;

    if (job->topology->is_async)
        rc = sw_group_make_asynchronous(&job->groups.all, job->span.first_step, err);
    if (rc != SW_OK)
        return rc;

    rc = sw_reduce_make(&job->exchange, err);
    if (rc != SW_OK)
        return rc;
    rc = make_layer_sums(job, err);
    if (rc != SW_OK)
        return rc;

    return sw_exchange_modes_make(&job->exchange, &job->rows, err);
}

/* Registers everything that can block a thread, so that the fault ends every wait. */
static int attach_fault(struct sw_job *job, struct sw_err *err)
{
    int rc;

    for (int i = 0; i < job->topology->server_groups; i++) {
        rc = sw_fault_attach(&job->fault, sw_table_close_v, job->params.copies[i].table, err);
        if (rc != SW_OK)
            return rc;
    }

    rc = sw_fault_attach(&job->fault, sw_group_close_v, &job->groups.all, err);
    if (rc != SW_OK)
        return rc;

    for (int g = 0; g < job->topology->worker_groups; g++) {
        rc = sw_fault_attach(&job->fault, sw_group_close_v, &job->groups.each[g], err);
        if (rc != SW_OK)
            return rc;
    }

    for (int i = 0; i < job->topology->group_size && job->topology->splits_layers; i++) {
        rc = sw_fault_attach(&job->fault, sw_group_close_v, &job->groups.peers[i], err);
        if (rc != SW_OK)
            return rc;
    }

    return job->topology->devices > 0
               ? sw_fault_attach(&job->fault, sw_host_loss_cancel_devices_v, job, err)
               : SW_OK;
}

static int allocate(struct sw_job *job, struct sw_err *err)
{
    int rc = allocate_shared(job, err);
    if (rc != SW_OK)
        return rc;

    for (int i = 0; i < job->topology->workers; i++) {
        rc = sw_worker_allocate(&job->workers[i], err);
        if (rc != SW_OK)
            return rc;
        rc = sw_worker_open_history(&job->workers[i], err);
        if (rc != SW_OK)
            return rc;
    }

    rc = sw_queue_init(&job->events.queue, sizeof(struct sw_queued_event), SW_EVENTS_QUEUED, err);
    if (rc != SW_OK)
        return rc;

    job->events.ready = true;
    return attach_fault(job, err);
}

void sw_run_report_misplaced(struct sw_job *job)
{
    size_t bytes = sw_device_bytes_of(job->place.host).misplaced;
    char text[32];

    if (bytes > 0)
        sw_events_report(
            &job->events, SW_LOG_WARN, "memory",
            "the system refuses to bind memory to NUMA nodes (mbind, %s): pages lie where "
            "they are first touched; a container needs the capability (docker: --cap-add "
            "SYS_NICE)",
            sw_human_bytes(text, (double)bytes));
}

int sw_run_open(struct sw_job *job, struct sw_err *err)
{
    int rc = sw_servers_settle(&job->workers[0].shared, job->topology, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_job_hosts_open(job, err);
    if (rc != SW_OK)
        return rc;

    const int slots = number_slots(job);
    rc = sw_hosts_history_agree(job, slots, err);
    if (rc != SW_OK)
        return rc;
    rc = open_history(job, err);
    if (rc != SW_OK)
        return rc;
    sw_job_hosts_report(job);
    sw_following_record(job);

    sw_reserve_name_run(job);
    if (!sw_hosts_history_is_part(job)) /* the folder may be that of host 0 */
        sw_checkpoint_sweep(sw_history_out_dir(job->events.history));
    rc = make_trace(job, err);
    if (rc != SW_OK)
        return rc;
    rc = open_snapshot(job, slots, err);
    if (rc != SW_OK)
        return rc;
    rc = allocate(job, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_following_open(job, err);
    if (rc != SW_OK)
        return rc;

    return sw_hosts_history_start(job, err);
}
