/* A worker's batches: which samples it reads, and the threads that prefetch them. */
#include "worker/worker_data.h"
#include "base/os.h"
#include "machine/bind.h"
#include "thread/tasks.h"
#include "worker/events.h"
#include "worker/worker.h"
#include "worker/worker_place.h"
#include <stdio.h>

/* Shows in the live snapshot what a prefetch thread does; called by that thread. */
static void show_reading(void *reading, int thread, int64_t batch)
{
    const struct sw_reading *r = reading;
    bool reads = batch >= 0;

    if (thread >= r->count)
        return; /* an evaluation outside of a run has no slots for them */

    struct sw_slot *slot = sw_snapshot_slot(r->worker->shared.events->snapshot, r->first + thread);
    sw_slot_set_thread(slot, sw_task_self());
    sw_slot_phase(slot, reads ? SW_PHASE_READ : SW_PHASE_IDLE, reads ? batch + 1 : -1, -1, NULL,
                  sw_os()->monotonic_ns());
}

int64_t sw_worker_eval_batches(const struct sw_worker *w)
{
    const int groups = w->topology->worker_groups;
    int64_t all =
        sw_source_batches(w->shared.data->source[SW_SPLIT_EVAL], w->shared.conf->eval_batch);
    return (all + groups - 1 - w->rank->group) / groups;
}

bool sw_worker_reads_pixels(const struct sw_worker *w)
{
    const struct sw_source *source = w->shared.data->source[SW_SPLIT_TRAIN];
    return !w->device->host_memory && source && source->pixels_bytes > 0;
}

void sw_worker_prefetch_args(const struct sw_worker *w, int split, struct sw_prefetch_args *args)
{
    const struct sw_topology *t = w->topology;
    const struct sw_source *source = w->shared.data->source[split];
    bool training = split == SW_SPLIT_TRAIN;
    int64_t rows = training ? w->shared.conf->batch : w->shared.conf->eval_batch;
    int64_t first = w->shared.span->first_step, lead = 0;
    const int turn = sw_topology_turn(t, w->rank->group, split);

    if (training && first < t->warmup_steps) {
        lead = turn == 0 ? t->warmup_steps - first : 0;
        first = turn == 0 ? first : t->warmup_steps;
    }

    *args = (struct sw_prefetch_args){
        .source = source,
        .batch_rows = rows,
        .first_row = sw_worker_first_row(w, split),
        .row_count = sw_worker_rows(w, split),
        .part_rows = sw_row_split_microbatches(w->rows, w->rank, split),
        .parts = w->rank->microbatches,
        /* Groups take turns in one order: the n-th batch of group g is batch n * groups + g. */
        .first_batch = (training ? sw_topology_batches(t, first) : 0) + turn,
        .batch_stride = sw_topology_turns(t, split),
        .lead = lead,
        .batch_limit = training ? -1 : sw_worker_eval_batches(w),
        /* One more for the batch in use. A device with its own memory may have batches of all
         * steps in flight, and of one that is being uploaded. */
        .slots =
            (int)source->prefetch + (training && !w->device->host_memory ? SW_FLIGHT_DEPTH + 1 : 1),
        .threads = (int)source->workers,
        .fields = (1u << source->field_count) - 1,
        .pixels = training && sw_worker_reads_pixels(w),
    };
}

/* Binds a prefetch thread near the memory that it fills, and off the computing cores if a core is
 * spare. */
static void bind_reader(void *worker)
{
    const struct sw_worker *w = worker;
    const struct sw_job_place *place = w->shared.place;
    struct sw_err ignored; /* if the system refuses, they run anywhere */
    struct sw_core_set cores =
        sw_placement_helper_cores(place->placement, place->machine, sw_worker_placement(w));

    int rc = sw_bind_thread(place->machine, &cores, &ignored);
    (void)rc;
}

int sw_worker_start_prefetch(struct sw_worker *w, int split, struct sw_err *err)
{
    struct sw_prefetch_args args;

    sw_worker_prefetch_args(w, split, &args);
    args.begin = bind_reader;
    args.begin_user = w;
    args.on_batch = show_reading;
    args.on_batch_user = &w->batches.reading[split];
    args.fault = w->shared.fault;
    args.alloc = sw_worker_take_memory;
    args.free = sw_worker_free_memory;
    args.user = w;

    return sw_prefetch_start(&args, &w->batches.prefetch[split], err);
}

int sw_worker_next_batch(struct sw_worker *w, int split, struct sw_batch *batch, struct sw_err *err)
{
    char what[SW_SNAPSHOT_TEXT];

    snprintf(what, sizeof what, "a batch of [data %s]", w->shared.data->section[split]->name);
    sw_slot_wait_on(w->slot, (struct sw_wait){.kind = SW_WAIT_BATCH, .index = split}, what,
                    sw_os()->monotonic_ns());

    int rc = sw_prefetch_next(w->batches.prefetch[split], batch, err);
    sw_slot_wait(w->slot, NULL, sw_os()->monotonic_ns());
    return rc;
}
