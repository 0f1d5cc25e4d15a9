/* Setting up a worker, and freeing it. Its stream and nets are made first, while nothing large is
 * allocated; then its memory, once the whole job is planned. When its rows change between two
 * steps, nets, memory and batches are made again for the new rows. */
#include "worker/worker_setup.h"
#include "base/os.h"
#include "base/stop.h"
#include "data/vocabulary.h"
#include "machine/bind.h"
#include "plan/choices.h"
#include "worker/input.h"
#include "worker/layer_clock.h"
#include "worker/recurrent_state.h"
#include "worker/segments.h"
#include "worker/sums.h"
#include "worker/worker.h"
#include "worker/worker_exchange.h"
#include "worker/worker_place.h"
#include <stdio.h>

int sw_worker_fields(const struct sw_source *source, int64_t rows, struct sw_net_field *out)
{
    for (int f = 0; f < source->field_count; f++) {
        const struct sw_field *field = &source->field[f];
        int64_t dim[SW_MAX_DIMS] = {rows};
        const bool has_units =
            source->scaling[f].count > 0 && sw_scaling_has_units(&source->scaling[f]);

        for (int i = 0; i < field->ndim; i++)
            dim[i + 1] = field->dim[i];
        out[f] = (struct sw_net_field){.name = field->name,
                                       .desc = sw_desc_plain(field->dtype, field->ndim + 1, dim),
                                       .scaling = has_units ? &source->scaling[f] : NULL,
                                       .tokens =
                                           source->vocabulary ? &source->vocabulary->tokens : NULL};
    }

    return source->field_count;
}

/* The fields of a split. What depends on the counts of tokens is that of the training text in both
 * nets. */
static int fields_of(const struct sw_worker *w, int split, struct sw_net_field *out)
{
    const struct sw_source *train = w->shared.data->source[SW_SPLIT_TRAIN];
    const int count =
        sw_worker_fields(w->shared.data->source[split], sw_worker_rows(w, split), out);

    for (int f = 0; f < count && train && train->vocabulary; f++)
        out[f].tokens = out[f].tokens ? &train->vocabulary->tokens : NULL;
    return count;
}

/* Heartbeat: called between two phases of a layer. */
static void heartbeat(void *worker)
{
    struct sw_worker *w = worker;
    if (w->slot)
        sw_slot_heartbeat(w->slot, sw_os()->monotonic_ns());
}

/* The most streams of a net. With repeat_exact the microbatches of a worker already run
 * concurrently, and a memory budget assumes that layers run in turn. */
static int streams_of(const struct sw_job_conf *conf)
{
    return conf->repeat_exact || conf->memory_bytes > 0 ? 1 : (int)conf->streams;
}

/* sharing: a net that determines the layouts of all parameters; NULL: this one does. A job that
 * only evaluates has the evaluation net in place of the training net, too, for the parameters in
 * its table. */
static int make_microbatches(struct sw_worker *w, int split, const struct sw_net *sharing,
                             struct sw_microbatches **out, struct sw_err *err)
{
    const struct sw_job_conf *conf = w->shared.conf;
    struct sw_net_field fields[SW_MAX_FIELDS];
    bool training = split == SW_SPLIT_TRAIN && !w->shared.one_worker;
    int64_t from, group_rows;

    split = training ? SW_SPLIT_TRAIN : SW_SPLIT_EVAL;
    sw_topology_group_rows(w->topology, w->rank->group, split, &from, &group_rows);

    struct sw_net_args net = {.recipe = w->shared.recipe,
                              .stream = w->stream,
                              .seed = (uint64_t)conf->seed,
                              .algorithm = (enum sw_algorithm)conf->algorithm,
                              .training = training,
                              .batch_rows = training ? conf->batch : conf->eval_batch,
                              .group_rows = group_rows,
                              .workers = conf->repeat_exact ? 1
                                         : w->shared.one_worker || w->shared.any_location
                                             ? 0 /* locations name other workers */
                                             : w->topology->group_size,
                              .worker = conf->repeat_exact ? 0 : w->rank->rank,
                              .partition = (enum sw_partition)conf->partition,
                              .freeze = &conf->freeze,
                              .fields = fields,
                              .field_count = fields_of(w, split, fields),
                              .source = w->shared.data->section[split]->name,
                              .streams = streams_of(conf),
                              .threads = sw_worker_placement(w)->threads,
                              .sharing = sharing};
    if (training)
        sw_exchange_modes_args(w->shared.exchange_plan, &net.comm);

    const struct sw_microbatches_args args = {
        .net = &net,
        .rows = sw_row_split_microbatches(w->rows, w->rank, split),
        .leaves = w->topology->microbatches,
        .first = w->rank->first_microbatch,
        .count = w->rank->microbatches,
        .alone = conf->repeat_exact,
        .threads = sw_worker_placement(w)->threads};

    int rc = sw_microbatches_new(&args, out, err);
    if (rc != SW_OK)
        return rc;

    if (w->topology->microbatches > 1 || w->topology->splits_layers || w->topology->hosts > 1)
        sw_microbatches_set_sum(*out, training ? sw_worker_sum : sw_worker_sum_in_group, w);
    if (training && sw_worker_sums_on_device(w))
        sw_microbatches_set_queue_sum(*out, sw_worker_queue_sum);
    sw_microbatches_set_heartbeat(*out, heartbeat, w);

    return SW_OK;
}

static void use_microbatches(struct sw_worker *w, int split, struct sw_microbatches *microbatches)
{
    w->microbatches[split] = microbatches;
    *(split == SW_SPLIT_TRAIN ? &w->train : &w->eval) = sw_microbatches_net(microbatches, 0);
}

/* Bytes for both nets of a worker, which never run at the same time. */
static size_t arena_need(const struct sw_worker *w)
{
    size_t most = 0;

    for (int split = 0; split < SW_SPLITS; split++)
        if (w->microbatches[split] && sw_microbatches_arena_bytes(w->microbatches[split]) > most)
            most = sw_microbatches_arena_bytes(w->microbatches[split]);

    return most;
}

static int build_nets(struct sw_worker *w, int split, struct sw_err *err)
{
    struct sw_microbatches *microbatches = NULL;
    const struct sw_net *first = w->rank->global_rank > 0 ? w->shared.workers[0].train : NULL;

    int rc =
        make_microbatches(w, split, split == SW_SPLIT_TRAIN ? first : w->train, &microbatches, err);
    if (rc != SW_OK)
        return rc;

    use_microbatches(w, split, microbatches);
    w->arena.bytes = arena_need(w);
    sw_series_fini(&w->record.series[split]); /* of the previous net */

    return sw_series_init(&w->record.series[split], w->shared.recipe,
                          sw_microbatches_net(microbatches, 0), w->rank->microbatches, err);
}

/* The threads of a device with its own memory are started by this thread and inherit its binding,
 * so that they run where the worker does. The result goes to sw_bind_restore. */
static void *bind_for_device(const struct sw_worker *w)
{
    struct sw_err ignored; /* if the system refuses, they run anywhere */
    void *kept = NULL;
    const struct sw_machine *m = w->shared.place->machine;

    int rc = w->device->host_memory ? SW_ERR_UNSUPPORTED : sw_bind_save(m, &kept, &ignored);

    if (rc == SW_OK)
        rc = sw_bind_thread(m, &sw_worker_placement(w)->cores, &ignored);
    return kept;
}

int sw_worker_build(struct sw_worker *w, struct sw_err *err)
{
    const struct sw_placement_row *row = sw_worker_placement(w);

    snprintf(w->role, sizeof w->role, "%s", row->role);

    void *kept = bind_for_device(w);
    int rc = sw_stream_new(w->device, row->threads, &w->stream, err);
    sw_bind_restore(w->shared.place->machine, kept);
    if (rc != SW_OK)
        return rc;

    sw_stream_name(w->stream, "compute");
    rc = build_nets(w, SW_SPLIT_TRAIN, err);

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

/* The NUMA node of the arena. If the worker spans several nodes, pages are best placed by first
 * touch, because each thread works on the same rows in every step: 0. */
static uint64_t arena_nodes(const struct sw_worker *w)
{
    uint64_t nodes =
        sw_machine_os_nodes(w->shared.place->machine, sw_worker_placement(w)->node_mask);
    return __builtin_popcountll(nodes) == 1 ? nodes : 0;
}

static void bind_microbatches(struct sw_worker *w)
{
    for (int split = 0; split < SW_SPLITS; split++)
        if (w->microbatches[split] && !(w->shared.one_worker && split == SW_SPLIT_TRAIN)) {
            sw_microbatches_bind(w->microbatches[split], w->arena.memory);
            sw_microbatches_bind_offload(w->microbatches[split], w->arena.offloaded);
        }

    sw_worker_bind_params(w);
}

static int take_arena(struct sw_worker *w, struct sw_err *err)
{
    return sw_device_alloc_on(w->device, w->arena.bytes, arena_nodes(w),
                              "activations and gradients", &w->arena.memory, err);
}

/* Allocates host memory for the activations that are offloaded now. */
static int bind_offload(struct sw_worker *w, struct sw_err *err)
{
    size_t bytes = sw_microbatches_cost(w->microbatches[SW_SPLIT_TRAIN]).offload_bytes;

    sw_worker_free_memory(w, w->arena.offloaded, w->arena.offloaded_bytes);
    w->arena.offloaded = NULL;
    w->arena.offloaded_bytes = bytes;

    return bytes
               ? sw_worker_take_memory(w, bytes, "offloaded activations", &w->arena.offloaded, err)
               : SW_OK;
}

/* Makes what training steps need, for nets that are bound. */
static int make_steps(struct sw_worker *w, struct sw_err *err)
{
    int rc = sw_segments_new(w, w->shared.exchange_plan->overlap, &w->segments, err);
    if (rc != SW_OK)
        return rc;
    return sw_input_bytes(w) > 0 ? sw_input_new(w, &w->batches.input, err) : SW_OK;
}

static int allocate(struct sw_worker *w, struct sw_err *err)
{
    if (w->shared.one_worker) /* an evaluation must not need the memory of training */
        w->arena.bytes = sw_microbatches_arena_bytes(w->microbatches[SW_SPLIT_EVAL]);

    int rc = take_arena(w, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_worker_make_exchange(w, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_layer_clock_new(w, err);
    if (rc != SW_OK)
        return rc;
    rc = bind_offload(w, err);
    if (rc != SW_OK)
        return rc;

    bind_microbatches(w);
    if (!w->shared.one_worker)
        rc = make_steps(w, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_flight_init(w, err);
    if (rc != SW_OK)
        return rc;

    rc = sw_buffers_bind(w, err);
    if (rc != SW_OK)
        return rc;

    return sw_recurrent_state_bind(w, err);
}

/* Makes nets for the worker's current rows; all of them or none. */
static int make_fresh(struct sw_worker *w, struct sw_microbatches *fresh[SW_SPLITS],
                      struct sw_err *err)
{
    int rc = SW_OK;

    for (int split = 0; split < SW_SPLITS; split++) {
        if (w->microbatches[split])
            rc = make_microbatches(w, split, w->train, &fresh[split], err);
        if (rc != SW_OK)
            goto out;
    }

    rc = w->shared.hooks->fit(w->shared.run, w, fresh[SW_SPLIT_TRAIN], err);
    if (rc != SW_OK)
        goto out;
    return SW_OK;

out:
    for (int split = SW_SPLITS - 1; split >= 0; split--)
        sw_microbatches_free(fresh[split]);
    return rc;
}

/* Reuses the arena of the old nets or, if it is too small, allocates a new one. */
static int fit_arena(struct sw_worker *w, struct sw_err *err)
{
    size_t need = arena_need(w);

    if (w->arena.memory && need <= w->arena.bytes)
        return SW_OK;

    sw_device_free(w->device, w->arena.memory, w->arena.bytes);
    w->arena.memory = NULL;
    w->arena.bytes = need;

    return take_arena(w, err);
}

/* Replaces the nets. The training net is freed last, because the others share its layouts. */
static int replace_nets(struct sw_worker *w, struct sw_err *err)
{
    struct sw_microbatches *fresh[SW_SPLITS] = {NULL};

    int rc = make_fresh(w, fresh, err);
    if (rc != SW_OK)
        return rc;

    for (int split = SW_SPLITS - 1; split >= 0; split--)
        if (fresh[split]) {
            sw_microbatches_free(w->microbatches[split]);
            use_microbatches(w, split, fresh[split]);
        }

    rc = fit_arena(w, err);
    if (rc != SW_OK)
        return rc;

    return bind_offload(w, err);
}

/* Frees the segments and inputs before the nets and batches that they refer to are replaced. */
static void drop_steps(struct sw_worker *w)
{
    sw_segments_free(w->segments);
    w->segments = NULL;
    sw_input_free(w->batches.input);
    w->batches.input = NULL;
    w->batches.is_ahead = false;
}

/* Makes the prefetch threads read the worker's current rows, from the next step on. */
static int reshape_batches(struct sw_worker *w, struct sw_err *err)
{
    const int64_t first[SW_SPLITS] = {[SW_SPLIT_TRAIN] = sw_topology_batches(w->topology, w->step)};
    struct sw_prefetch_args args;
    int rc = SW_OK;

    for (int split = 0; split < SW_SPLITS; split++) {
        if (w->batches.prefetch[split]) {
            sw_worker_prefetch_args(w, split, &args);
            rc = sw_prefetch_reshape(w->batches.prefetch[split], &args, first[split], err);
        }

        if (rc != SW_OK)
            return rc;
    }

    return SW_OK;
}

int sw_worker_rebuild(struct sw_worker *w, struct sw_err *err)
{
    drop_steps(w);

    int rc = replace_nets(w, err);
    if (rc != SW_OK)
        return rc;

    bind_microbatches(w);
    rc = make_steps(w, err);
    if (rc != SW_OK)
        return rc;

    sw_buffers_rebind(w);
    sw_recurrent_state_unbind(w);

    rc = sw_recurrent_state_bind(w, err);
    if (rc != SW_OK)
        return rc;

    return reshape_batches(w, err);
}

int sw_worker_allocate(struct sw_worker *w, struct sw_err *err)
{
    void *kept = bind_for_device(w); /* also binds the device's copy threads */

    int rc = sw_stop_check(err);

    if (rc == SW_OK)
        rc = allocate(w, err);
    sw_bind_restore(w->shared.place->machine, kept);

    return rc == SW_OK ? rc : sw_err_prefix(err, rc, "%s on %s", w->role, w->device->name);
}

static void free_links(struct sw_worker_links *l)
{
    sw_free(l->to_server);
    sw_free(l->from_server);
    sw_free(l->sums);
    sw_free(l->factors);
    sw_free(l->sync);
    sw_free(l->sync_recorded_bytes);
    sw_free(l->activations);
    sw_free(l->activations_recorded_ns);
}

void sw_worker_fini(struct sw_worker *w)
{
    sw_flight_fini(w);
    sw_input_free(w->batches.input); /* before the prefetched batches that it copies from */

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
        sw_microbatches_wait(w->microbatches[s]);
    sw_segments_free(w->segments);
    sw_exchange_free(w->exchange);
    sw_layer_clock_free(w);
    sw_recurrent_state_unbind(w);
    sw_microbatches_free(w->microbatches[SW_SPLIT_EVAL]);
    sw_microbatches_free(w->microbatches[SW_SPLIT_TRAIN]);
    sw_worker_free_memory(w, w->arena.offloaded, w->arena.offloaded_bytes);
    sw_buffers_unbind(w);
    sw_device_free(w->device, w->arena.memory, w->arena.bytes);
    sw_stream_free(w->host_stream);
    sw_stream_free(w->stream);
    if (w->device != w->shared.place->host)
        sw_device_close(w->device);
}
