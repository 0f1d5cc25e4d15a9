/* A worker before it runs: its stream, nets and memory; and its end. */
#include "train/worker_setup.h"
#include "base/os.h"
#include "base/stop.h"
#include "cluster/bind.h"
#include "train/carries.h"
#include "train/choices.h"
#include "train/input.h"
#include "train/job_private.h"
#include "train/layer_clock.h"
#include "train/memory.h"
#include "train/segments.h"
#include "train/sums.h"
#include "train/worker.h"
#include "train/worker_exchange.h"
#include "train/worker_place.h"
#include <stdio.h>

int sw_worker_fields(const struct sw_source *source, int64_t rows, struct sw_net_field *out)
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

/* A phase of a layer is over, and the next begins. */
static void sign_of_life(void *worker)
{
    struct sw_worker *w = worker;
    if (w->slot)
        sw_slot_heartbeat(w->slot, sw_os()->monotonic_ns());
}

/* Of a net at most. With repeat_exact a worker's parts run beside each other already; a budget says
 * what lies where when layers run in turn. */
static int streams_of(const struct sw_job *job)
{
    return job->conf->repeat_exact || job->conf->memory_bytes > 0 ? 1 : (int)job->conf->streams;
}

/* sharing: a net with the layouts of all parameters; NULL: this one decides. */
static int make_parts(struct sw_worker *w, int split, const struct sw_net *sharing,
                      struct sw_parts **out, struct sw_err *err)
{
    struct sw_job *job = w->job;
    struct sw_net_field fields[SW_MAX_FIELDS];
    bool training = split == SW_SPLIT_TRAIN;
    int64_t from, group_rows;
    sw_topology_group_rows(job->topology, w->rank->group, split, &from, &group_rows);
    struct sw_net_args net = {
        .recipe = job->recipe,
        .stream = w->stream,
        .seed = (uint64_t)job->conf->seed,
        .algorithm = (enum sw_algorithm)job->conf->algorithm,
        .training = training,
        .batch_rows = training ? job->conf->batch : job->conf->eval_batch,
        .group_rows = group_rows,
        .workers = job->conf->repeat_exact ? 1
                   : w->shared.one_worker  ? 0 /* locations are of others */
                                           : job->topology->group_size,
        .worker = job->conf->repeat_exact ? 0 : w->rank->rank,
        .partition = (enum sw_partition)job->conf->partition,
        .freeze = &job->conf->freeze,
        .fields = fields,
        .field_count = sw_worker_fields(job->data.source[split], sw_worker_rows(w, split), fields),
        .source = job->data.section[split]->name,
        .streams = streams_of(job),
        .threads = sw_worker_placement(w)->threads,
        .sharing = sharing};
    if (training)
        sw_comm_args(&job->exchange, &net.comm);
    const struct sw_parts_args args = {.net = &net,
                                       .rows = sw_row_split_microbatches(w->rows, w->rank, split),
                                       .leaves = job->topology->microbatches,
                                       .first = w->rank->first_microbatch,
                                       .count = w->rank->microbatches,
                                       .alone = job->conf->repeat_exact,
                                       .threads = sw_worker_placement(w)->threads};
    int rc = sw_parts_new(&args, out, err);
    if (rc == SW_OK && (job->topology->microbatches > 1 || job->topology->splits_layers))
        sw_parts_set_sum(*out, training ? sw_worker_sum : sw_worker_sum_in_group, w);
    if (rc == SW_OK)
        sw_parts_set_beat(*out, sign_of_life, w);
    return rc;
}

static void use_parts(struct sw_worker *w, int split, struct sw_parts *parts)
{
    w->parts[split] = parts;
    *(split == SW_SPLIT_TRAIN ? &w->train : &w->eval) = sw_parts_net(parts, 0);
}

/* What both nets of a worker need: nothing of one is alive when the other runs. */
static size_t arena_need(const struct sw_worker *w)
{
    size_t most = 0;
    for (int split = 0; split < SW_SPLITS; split++)
        if (w->parts[split] && sw_parts_arena_bytes(w->parts[split]) > most)
            most = sw_parts_arena_bytes(w->parts[split]);
    return most;
}

static int build_nets(struct sw_worker *w, int split, struct sw_err *err)
{
    struct sw_job *job = w->job;
    struct sw_parts *parts = NULL;
    const struct sw_net *first = w->rank->global_rank > 0 ? job->workers[0].train : NULL;
    int rc = make_parts(w, split, split == SW_SPLIT_TRAIN ? first : w->train, &parts, err);
    if (rc != SW_OK)
        return rc;
    use_parts(w, split, parts);
    w->arena.bytes = arena_need(w);
    sw_series_fini(&w->record.series[split]); /* of another split's net */
    return sw_series_init(&w->record.series[split], job->recipe, sw_parts_net(parts, 0),
                          w->rank->microbatches, err);
}

/* Threads of a device of its own are made by this one, and run where the worker does. What is
 * returned goes to sw_bind_restore. */
static void *bind_for_device(const struct sw_worker *w)
{
    struct sw_err ignored; /* where the system refuses, they run anywhere */
    void *kept = NULL;
    const struct sw_machine *m = w->shared.place->machine;
    int rc = w->device->host_memory ? SW_ERR_UNSUPPORTED : sw_bind_keep(m, &kept, &ignored);
    if (rc == SW_OK)
        rc = sw_bind_thread(m, &sw_worker_placement(w)->cores, &ignored);
    return kept;
}

int sw_worker_build(struct sw_worker *w, struct sw_err *err)
{
    const struct sw_placement_row *row = sw_worker_placement(w);
    snprintf(w->unit, sizeof w->unit, "%s", row->unit);
    void *kept = bind_for_device(w);
    int rc = sw_stream_new(w->device, row->threads, &w->stream, err);
    sw_bind_restore(w->shared.place->machine, kept);
    if (rc == SW_OK) {
        sw_stream_name(w->stream, "compute");
        rc = build_nets(w, SW_SPLIT_TRAIN, err);
    }
    if (rc != SW_OK)
        return rc;
    size_t layers = (size_t)sw_net_layer_count(w->train);
    w->timer.forward_ms = sw_calloc(layers, sizeof *w->timer.forward_ms);
    w->timer.backward_ms = sw_calloc(layers, sizeof *w->timer.backward_ms);
    return w->timer.forward_ms && w->timer.backward_ms
               ? SW_OK
               : sw_err_nomem(err, "a worker", layers * sizeof *w->timer.forward_ms);
}

int sw_worker_build_eval(struct sw_worker *w, struct sw_err *err)
{
    return build_nets(w, SW_SPLIT_EVAL, err);
}

/* Within one node the arena is bound to it. Over several its pages are best where the threads are
 * that touch them first: each comes back to its rows. */
static uint64_t arena_nodes(const struct sw_worker *w)
{
    uint64_t nodes =
        sw_machine_os_nodes(w->shared.place->machine, sw_worker_placement(w)->node_mask);
    return __builtin_popcountll(nodes) == 1 ? nodes : 0;
}

static void bind_parts(struct sw_worker *w)
{
    for (int split = 0; split < SW_SPLITS; split++)
        if (w->parts[split] && !(w->shared.one_worker && split == SW_SPLIT_TRAIN)) {
            sw_parts_bind(w->parts[split], w->arena.memory);
            sw_parts_bind_swap(w->parts[split], w->arena.offloaded);
        }
    sw_worker_bind_params(w);
}

static int take_arena(struct sw_worker *w, struct sw_err *err)
{
    return sw_device_alloc_on(w->device, w->arena.bytes, arena_nodes(w), "features and gradients",
                              &w->arena.memory, err);
}

/* For features that are swapped, as many as there are now. */
static int take_swap(struct sw_worker *w, struct sw_err *err)
{
    size_t bytes = sw_parts_cost(w->parts[SW_SPLIT_TRAIN]).swap_bytes;
    sw_worker_give_memory(w, w->arena.offloaded, w->arena.offloaded_bytes);
    w->arena.offloaded = NULL;
    w->arena.offloaded_bytes = bytes;
    return bytes ? sw_worker_take_memory(w, bytes, "features in host memory", &w->arena.offloaded,
                                         err)
                 : SW_OK;
}

/* What training steps need of nets that are bound. */
static int make_steps(struct sw_worker *w, struct sw_err *err)
{
    int rc = sw_segments_new(w, w->job->exchange.overlap, &w->segments, err);
    return rc == SW_OK && sw_input_bytes(w) > 0 ? sw_input_new(w, &w->batches.input, err) : rc;
}

static int allocate(struct sw_worker *w, struct sw_err *err)
{
    if (w->shared.one_worker) /* what training would need beside may not be there */
        w->arena.bytes = sw_parts_arena_bytes(w->parts[SW_SPLIT_EVAL]);
    int rc = take_arena(w, err);
    if (rc == SW_OK)
        rc = sw_worker_make_exchange(w, err);
    if (rc == SW_OK)
        rc = sw_layer_clock_new(w, err);
    if (rc == SW_OK)
        rc = take_swap(w, err);
    if (rc != SW_OK)
        return rc;
    bind_parts(w);
    if (!w->shared.one_worker)
        rc = make_steps(w, err);
    if (rc == SW_OK)
        rc = sw_states_bind(w, err);
    return rc == SW_OK ? sw_carries_bind(w, err) : rc;
}

/* Nets with other rows, whose memory is that of the old ones or, where it is too small, new. */
static int replace_nets(struct sw_worker *w, struct sw_err *err)
{
    struct sw_parts *fresh[SW_SPLITS] = {NULL};
    int rc = SW_OK;
    for (int split = 0; split < SW_SPLITS && rc == SW_OK; split++)
        if (w->parts[split])
            rc = make_parts(w, split, w->train, &fresh[split], err);
    if (rc == SW_OK)
        rc = sw_job_refit(w, fresh[SW_SPLIT_TRAIN], err);
    for (int split = SW_SPLITS - 1; split >= 0; split--) {
        if (rc != SW_OK)
            sw_parts_free(fresh[split]);
        else if (fresh[split]) {
            sw_parts_free(w->parts[split]);
            use_parts(w, split, fresh[split]);
        }
    }
    size_t need = arena_need(w);
    if (rc == SW_OK && (!w->arena.memory || need > w->arena.bytes)) {
        sw_device_free(w->device, w->arena.memory, w->arena.bytes);
        w->arena.memory = NULL;
        w->arena.bytes = need;
        rc = take_arena(w, err);
    }
    return rc == SW_OK ? take_swap(w, err) : rc;
}

int sw_worker_rebuild(struct sw_worker *w, struct sw_err *err)
{
    const struct sw_job *job = w->job;
    struct sw_prefetch_args args;
    int64_t first[SW_SPLITS] = {[SW_SPLIT_TRAIN] = sw_topology_batches(job->topology, w->step)};
    sw_segments_free(w->segments); /* while what they name is there */
    w->segments = NULL;
    sw_input_free(w->batches.input); /* and before batches are others */
    w->batches.input = NULL;
    w->batches.is_ahead = false;
    int rc = replace_nets(w, err);
    if (rc != SW_OK)
        return rc;
    bind_parts(w);
    rc = make_steps(w, err);
    if (rc != SW_OK)
        return rc;
    sw_states_rebind(w);
    sw_carries_unbind(w);
    rc = sw_carries_bind(w, err);
    for (int split = 0; split < SW_SPLITS && rc == SW_OK; split++)
        if (w->batches.prefetch[split]) {
            sw_worker_prefetch_args(w, split, &args);
            rc = sw_prefetch_reshape(w->batches.prefetch[split], &args, first[split], err);
        }
    return rc;
}

int sw_worker_allocate(struct sw_worker *w, struct sw_err *err)
{
    void *kept = bind_for_device(w); /* those that copy */
    int rc = sw_stop_check(err);
    if (rc == SW_OK)
        rc = allocate(w, err);
    sw_bind_restore(w->shared.place->machine, kept);
    return rc == SW_OK ? rc : sw_err_prefix(err, rc, "%s on %s", w->unit, w->device->name);
}

static void free_links(struct sw_worker_links *l)
{
    sw_free(l->to_server);
    sw_free(l->from_server);
    sw_free(l->sums);
    sw_free(l->factors);
    sw_free(l->sync);
    sw_free(l->sync_told);
    sw_free(l->activations);
    sw_free(l->activations_told);
}

void sw_worker_fini(struct sw_worker *w)
{
    sw_input_free(w->batches.input); /* it copies from prefetched batches */
    for (int s = 0; s < SW_SPLITS; s++) {
        sw_prefetch_free(w->batches.prefetch[s]);
        sw_free(w->param_of[s]);
        sw_series_fini(&w->record.series[s]);
    }
    sw_free(w->served.ranks);
    sw_free(w->completed_by);
    free_links(&w->record.links);
    sw_free(w->timer.forward_ms);
    sw_free(w->timer.backward_ms);
    if (!w->device)
        return;
    for (int s = 0; s < SW_SPLITS; s++)
        sw_parts_settle(w->parts[s]);
    sw_segments_free(w->segments);
    sw_exchange_free(w->exchange);
    sw_layer_clock_free(w);
    sw_carries_unbind(w);
    sw_parts_free(w->parts[SW_SPLIT_EVAL]);
    sw_parts_free(w->parts[SW_SPLIT_TRAIN]);
    sw_worker_give_memory(w, w->arena.offloaded, w->arena.offloaded_bytes);
    sw_states_unbind(w);
    sw_device_free(w->device, w->arena.memory, w->arena.bytes);
    sw_stream_free(w->host_stream);
    sw_stream_free(w->stream);
    if (w->device != w->shared.place->host)
        sw_device_close(w->device);
}
