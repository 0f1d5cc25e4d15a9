/* Output layers in an evaluation. Every worker copies its rows of their inputs into one gathering
 * buffer per source as soon as the layer's turn in forward has come, because the arena's memory may
 * be reused for another activation after it. After a barrier the leader passes the batch's rows to
 * the layer, which writes them. Two buffers take turns: a worker that is ahead writes into the one
 * that the leader does not read, and cannot pass the next barrier before the leader. Where several
 * groups evaluate, their batches follow each other in a buffer: a round of batches is written as
 * one. */
#include "worker/outputs.h"
#include "base/os.h"
#include "worker/events.h"
#include "worker/sums.h"
#include "worker/worker.h"
#include <string.h>

enum { ALIGN = 64 };

static size_t aligned(size_t bytes)
{
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

static const struct sw_layer *layer_of(const struct sw_worker *w, const struct sw_output *o,
                                       int microbatch)
{
    return sw_net_layer(sw_microbatches_net(w->microbatches[SW_SPLIT_EVAL], microbatch), o->layer);
}

static size_t row_bytes(const struct sw_desc *d)
{
    return (size_t)sw_desc_features(d) * sw_dtype_bytes(d->dtype);
}

/* Rows of a round: the batches of all groups. */
static int64_t round_rows(const struct sw_worker *w)
{
    return w->shared.conf->eval_batch * w->topology->worker_groups;
}

/* Assigns the offsets of the gathering buffers: two for each source. */
static void lay_out(struct sw_outputs *out, const struct sw_worker *first, struct sw_output *o)
{
    const struct sw_layer *l = layer_of(first, o, 0);

    for (int turn = 0; turn < 2; turn++)
        for (int k = 0; k < l->src_count; k++) {
            o->at[turn][k] = out->bytes;
            out->bytes += aligned((size_t)round_rows(first) * row_bytes(&l->src[k]->desc));
        }
}

/* Offset of the staging buffer of a microbatch's source. */
static size_t *stage_at(const struct sw_worker *w, const struct sw_output *o, int microbatch, int k)
{
    return &o->stage_at[w->rank->group * w->topology->microbatches + w->rank->first_microbatch +
                        microbatch][k];
}

/* Assigns staging buffers for the rows of a worker whose device memory the host cannot reach. */
static void lay_out_stage(struct sw_outputs *out, const struct sw_worker *w, struct sw_output *o)
{
    for (int i = 0; i < w->rank->microbatches && !w->device->host_memory; i++) {
        const struct sw_layer *l = layer_of(w, o, i);
        for (int k = 0; k < l->src_count; k++) {
            *stage_at(w, o, i, k) = out->bytes;
            out->bytes += aligned(sw_desc_bytes(&l->src[k]->desc));
        }
    }
}

void sw_outputs_fini(struct sw_outputs *out)
{
    if (out->memory)
        sw_device_free(out->host, out->memory, out->bytes);
    for (int i = 0; i < out->count; i++)
        sw_free(out->items[i].stage_at);
    sw_free(out->items);
    *out = (struct sw_outputs){.reader = out->reader};
}

int sw_outputs_plan(struct sw_outputs *out, const struct sw_worker *workers, struct sw_err *err)
{
    const struct sw_topology *t = workers->topology;
    const struct sw_net *net = workers->eval;
    size_t microbatches = (size_t)(t->worker_groups * t->microbatches);

    sw_outputs_fini(out);
    out->items = sw_calloc((size_t)sw_net_layer_count(net) + 1, sizeof *out->items);
    if (!out->items)
        return sw_err_nomem(err, "the outputs", 0);

    for (int i = 0; i < sw_net_layer_count(net); i++) {
        if (sw_net_layer(net, i)->type->role != SW_ROLE_OUTPUT &&
            !(out->reader && out->reader->layer == i))
            continue;

        struct sw_output *o = &out->items[out->count++];
        o->layer = i;
        o->stage_at = sw_calloc(microbatches, sizeof *o->stage_at);
        if (!o->stage_at)
            return sw_err_nomem(err, "the outputs", microbatches * sizeof *o->stage_at);

        lay_out(out, workers, o);
        for (int w = 0; w < t->workers; w++)
            lay_out_stage(out, &workers[w], o);
    }

    return SW_OK;
}

int sw_outputs_allocate(struct sw_outputs *out, struct sw_device *host, struct sw_err *err)
{
    if (!out->bytes || out->memory)
        return SW_OK;
    out->host = host;
    return sw_device_alloc(host, out->bytes, "rows of outputs", &out->memory, err);
}

static char *place(const struct sw_worker *w, size_t at)
{
    return (char *)w->shared.outputs->memory + at;
}

/* Copies a microbatch's rows of a source, stored at `stored`, to their place in the batch. */
static void gather(struct sw_worker *w, const struct sw_output *o, int microbatch, int k, int turn,
                   const void *stored)
{
    const struct sw_desc *d = &layer_of(w, o, microbatch)->src[k]->desc;
    char *to = place(w, o->at[turn][k]);
    int64_t row = w->rank->group * w->shared.conf->eval_batch +
                  sw_worker_first_row(w, SW_SPLIT_EVAL) +
                  sw_microbatches_row(w->microbatches[SW_SPLIT_EVAL], microbatch);

    sw_desc_to_plain(d, stored, to + (size_t)row * row_bytes(d));
}

static const struct sw_output *find(const struct sw_outputs *out, int layer)
{
    for (int i = 0; i < out->count; i++)
        if (out->items[i].layer == layer)
            return &out->items[i];
    return NULL;
}

static int collect_microbatch(struct sw_worker *w, const struct sw_output *o, int microbatch,
                              int64_t batch, struct sw_err *err)
{
    const struct sw_layer *l = layer_of(w, o, microbatch);
    int rc = SW_OK;

    for (int k = 0; k < l->src_count; k++) {
        const struct sw_layer_tensor *f = l->src[k];

        if (w->device->host_memory)
            gather(w, o, microbatch, k, (int)(batch % 2), f->data);
        else
            rc = sw_copy(w->stream, place(w, *stage_at(w, o, microbatch, k)), f->data,
                         sw_desc_bytes(&f->desc), err);

        if (rc != SW_OK)
            return rc;
    }

    return SW_OK;
}

int sw_outputs_collect(struct sw_worker *w, int layer, int64_t batch, struct sw_err *err)
{
    const struct sw_output *o = find(w->shared.outputs, layer);

    for (int i = 0; o && i < w->rank->microbatches; i++) {
        int rc = collect_microbatch(w, o, i, batch, err);
        if (rc != SW_OK)
            return rc;
    }

    return SW_OK;
}

static void unstage(struct sw_worker *w, int64_t batch)
{
    for (int i = 0; i < w->shared.outputs->count && !w->device->host_memory; i++) {
        const struct sw_output *o = &w->shared.outputs->items[i];
        for (int microbatch = 0; microbatch < w->rank->microbatches; microbatch++)
            for (int k = 0; k < layer_of(w, o, microbatch)->src_count; k++)
                gather(w, o, microbatch, k, (int)(batch % 2),
                       place(w, *stage_at(w, o, microbatch, k)));
    }
}

/* The layer, writable: the layers of a net are const to others. */
static struct sw_layer *own_layer(struct sw_worker *w, const struct sw_output *o)
{
    return sw_net_output_layer(w->eval, o->layer);
}

static int write_rows(struct sw_worker *w, const struct sw_output *o, int64_t batch,
                      struct sw_err *err)
{
    struct sw_layer *l = own_layer(w, o);
    const void *src[SW_LAYER_SRCS] = {NULL};
    int64_t most = round_rows(w);
    int64_t left = w->shared.data->source[SW_SPLIT_EVAL]->records - batch * most;

    for (int k = 0; k < l->src_count; k++)
        src[k] = place(w, o->at[batch % 2][k]);

    const struct sw_row_reader *reader = w->shared.outputs->reader;
    left = left < most ? left : most;

    int rc = l->type->output ? l->type->output->rows(l, src, left, err)
                             : reader->rows(reader->user, src, left, err);
    if (rc != SW_OK)
        return sw_err_prefix(err, rc, "layer %s", l->name);

    return SW_OK;
}

int sw_outputs_hand_over(struct sw_worker *w, int64_t batch, struct sw_err *err)
{
    const struct sw_outputs *out = w->shared.outputs;

    if (out->count == 0)
        return SW_OK;

    unstage(w, batch);

    int rc = sw_worker_barrier(w, "the rows of the other workers", err);
    if (rc != SW_OK)
        return rc;

    for (int i = 0; i < out->count && w->rank->global_rank == 0; i++) {
        rc = write_rows(w, &out->items[i], batch, err);
        if (rc != SW_OK)
            return rc;
    }

    return SW_OK;
}

int sw_outputs_begin(struct sw_worker *w, struct sw_err *err)
{
    const struct sw_outputs *out = w->shared.outputs;
    const struct sw_history *history = w->shared.events->history;
    const char *folder = history ? sw_history_out_dir(history) : NULL;

    for (int i = 0; i < out->count && w->rank->global_rank == 0; i++) {
        struct sw_layer *l = own_layer(w, &out->items[i]);
        int rc = l->type->output ? l->type->output->begin(l, folder, err) : SW_OK;
        if (rc != SW_OK)
            return sw_err_prefix(err, rc, "layer %s", l->name);
    }

    return SW_OK;
}

int sw_outputs_end(struct sw_worker *w, int rc, struct sw_err *err)
{
    const struct sw_outputs *out = w->shared.outputs;

    for (int i = 0; i < out->count && w->rank->global_rank == 0; i++) {
        struct sw_layer *l = own_layer(w, &out->items[i]);

        if (!l->type->output)
            continue;

        if (rc != SW_OK) {
            l->type->output->abandon(l);
            continue;
        }

        rc = l->type->output->commit(l, err);
        if (rc != SW_OK)
            rc = sw_err_prefix(err, rc, "layer %s", l->name);
    }

    return rc;
}
