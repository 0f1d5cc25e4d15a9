/* The memory of a job by use: computed from the current nets and tables, before any of it is
 * allocated. */
#include "base/str.h"
#include "exchange/table/sync.h"
#include "exchange/table/table_file.h"
#include "net/transfer.h"
#include "plan/choices.h"
#include "run/job_private.h"
#include "run/memory.h"
#include "worker/input.h"
#include "worker/layer_clock.h"
#include "worker/layer_sums.h"
#include "worker/recurrent_state.h"
#include "worker/sums.h"
#include "worker/worker.h"
#include "worker/worker_exchange.h"

static size_t batch_bytes(const struct sw_job *job)
{
    size_t bytes = 0;

    for (int w = 0; w < job->topology->workers; w++)
        for (int s = 0; s < SW_SPLITS; s++)
            if (job->data.source[s]) {
                struct sw_prefetch_args args;
                sw_worker_prefetch_args(&job->workers[w], s, &args);
                bytes += sw_prefetch_bytes(&args);
                bytes += s == SW_SPLIT_TRAIN ? sw_input_bytes(&job->workers[w]) : 0;
            }

    return bytes + job->outputs.bytes;
}

static size_t arena_bytes(const struct sw_job *job)
{
    size_t bytes = 0;
    for (int w = 0; w < job->topology->workers; w++)
        bytes += job->workers[w].arena.bytes;
    return bytes;
}

size_t sw_worker_param_bytes(const struct sw_worker *w)
{
    if (w->device->host_memory)
        return 0;
    return sw_worker_exchange_bytes(w).device + sw_layer_clock_bytes(w) +
           sw_reduce_bytes(w->shared.exchange_plan) +
           sw_exchange_modes_bytes(w->shared.exchange_plan) +
           sw_layer_sums_bytes(w->topology->group_size, sw_worker_longest_sum(w));
}

/* Bytes of host memory that a device reads and writes: reports and constants of the exchange, and
 * the staging buffers of nets. */
static size_t staging_bytes(const struct sw_worker *w)
{
    size_t bytes = sw_worker_exchange_bytes(w).host + sw_layer_clock_bytes(w);

    for (int s = 0; s < SW_SPLITS; s++)
        for (int k = 0; w->microbatches[s] && k < sw_microbatches_count(w->microbatches[s]); k++)
            bytes += sw_net_staging_bytes(sw_microbatches_net(w->microbatches[s], k));

    return bytes;
}

/* Bytes of values and gradients on devices with their own memory, in addition to the host's. */
static size_t device_param_bytes(const struct sw_job *job)
{
    size_t bytes = 0;

    for (int i = 0; i < job->topology->workers; i++)
        if (!job->workers[i].device->host_memory)
            bytes += sw_worker_param_bytes(&job->workers[i]) + staging_bytes(&job->workers[i]);

    return bytes;
}

/* Sums the tables of all server groups; what they exchange counts as state. */
static void sum_tables(const struct sw_job *job, size_t *param_bytes, size_t *state_bytes)
{
    size_t values = 0, state;

    *param_bytes = *state_bytes = 0;
    for (int i = 0; i < job->topology->server_groups; i++) {
        sw_table_bytes(job->params.copies[i].table, &values, &state);
        *param_bytes += values;
        *state_bytes += state;
    }

    *state_bytes += sw_sync_bytes(job->topology->server_groups, values) + sw_hosts_async_bytes(job);
}

size_t sw_worker_fixed_bytes(const struct sw_worker *w)
{
    return sw_worker_param_bytes(w) + sw_buffers_device_bytes(w) +
           sw_recurrent_state_worker_bytes(w) + sw_input_bytes(w);
}

size_t sw_worker_device_bytes(const struct sw_worker *w)
{
    size_t bytes = 0;

    for (int i = 0; i < w->topology->workers && !w->device->host_memory; i++) {
        const struct sw_worker *other = &w->shared.workers[i];
        if (sw_str_eq(other->device->name, w->device->name))
            bytes += sw_worker_fixed_bytes(other) + other->arena.bytes;
    }

    return bytes;
}

/* What a run touches that `check` does not: pages of the libraries' code (SQLite, the kernels that
 * oneDNN generates), SQLite's cache and the writer's malloc arena; and of each math thread the
 * stack and an arena. */
enum { STARTED_BYTES = 5 << 19, THREAD_BYTES = 128 << 10 };

static size_t thread_bytes(const struct sw_job *job)
{
    size_t bytes = STARTED_BYTES;

    for (int i = 0; i < job->topology->workers; i++)
        bytes += (size_t)job->place.placement->rows[i].threads * THREAD_BYTES;
    return bytes;
}

/* Buffers that are not part of a budget. A checkpoint converts one parameter after the other. */
static size_t buffer_bytes(const struct sw_job *job)
{
    size_t most = 0;

    for (int i = 0; i < sw_table_count(job->params.table); i++) {
        const size_t bytes = sw_table_write_bytes(sw_table_param(job->params.table, i));
        most = bytes > most ? bytes : most;
    }

    return most + thread_bytes(job) + SW_EVENTS_QUEUED * sizeof(struct sw_queued_event) +
           (size_t)job->topology->workers * sw_history_producer_bytes();
}

void sw_job_sum_memory(struct sw_job *job)
{
    struct sw_job_plan *p = &job->plan;

    sum_tables(job, &p->bytes.params, &p->bytes.state);
    p->bytes.state += sw_buffers_bytes(&job->state.buffers, job->workers);
    p->bytes.state += sw_recurrent_state_bytes(&job->state.recurrent, job->workers);
    p->bytes.state += device_param_bytes(job);
    p->bytes.arena = arena_bytes(job);
    p->bytes.batches = batch_bytes(job);
    p->bytes.exchange = sw_transfer_plan(job->workers[0].train);
    if (job->workers[0].eval)
        p->bytes.exchange += sw_transfer_plan(job->workers[0].eval);
    p->bytes.exchange *= (size_t)job->topology->worker_groups;
    p->bytes.offloaded = p->fit.offload_bytes;

    p->bytes.device = 0;
    for (int i = 0; i < job->topology->workers; i++) {
        size_t bytes = sw_worker_device_bytes(&job->workers[i]);
        p->bytes.device = bytes > p->bytes.device ? bytes : p->bytes.device;
    }

    p->bytes.peak = p->bytes.params + p->bytes.state + p->bytes.arena + p->bytes.batches +
                    p->bytes.exchange + p->bytes.offloaded;
    p->bytes.buffers = buffer_bytes(job);
}
