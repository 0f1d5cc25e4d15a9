/* Recurrent state: what the rows of a training batch pass on to the same rows of the next one (h of
 * recurrent layers with stateful = yes, the states of persistent Gibbs chains). Every net has its
 * own, in its worker's memory, so an evaluation does not disturb training; that of an evaluation is
 * reset before every pass. Checkpoints have that of the training nets as state.LAYER.NAME, [batch,
 * width], whoever computes the rows: it is gathered when all workers are at one step, and scattered
 * again over the current workers. A run that is resumed with another batch size resets it.
 *
 * Asynchronous groups have batches of their own: each has as many chains as a batch has rows, and a
 * checkpoint stores them group by group, [groups x batch, width]. */
#include "worker/recurrent_state.h"
#include "base/os.h"
#include "base/str.h"
#include "worker/events.h"
#include "worker/sums.h"
#include "worker/worker.h"
#include "worker/worker_place.h"
#include <math.h>
#include <string.h>

static struct sw_buffer *find(const struct sw_buffers *s, const char *layer, const char *name)
{
    for (int i = 0; i < s->count; i++) {
        const char *rest = s->items[i].name + strlen("state.");
        size_t n = strlen(layer);
        if (strncmp(rest, layer, n) == 0 && rest[n] == '.' && sw_str_eq(rest + n + 1, name))
            return &s->items[i];
    }

    return NULL;
}

static struct sw_buffers *recurrent_of(const struct sw_worker *w)
{
    return &w->shared.state->recurrent;
}

static int add(const struct sw_worker *w, const struct sw_layer *l,
               const struct sw_layer_recurrent_state *c, struct sw_err *err)
{
    struct sw_buffers *s = recurrent_of(w);

    if (find(s, l->home, c->name))
        return SW_OK;

    const int64_t dim[] = {w->topology->update_groups * w->shared.conf->batch, c->whole};
    struct sw_buffer *more = sw_realloc_array(s->items, (size_t)s->count + 1, sizeof *s->items);
    if (!more)
        return sw_err_nomem(err, "recurrent state", sizeof *more);

    s->items = more;
    more[s->count] = (struct sw_buffer){.name = sw_format("state.%s.%s", l->home, c->name),
                                        .layout = sw_desc_plain(SW_F32, 2, dim),
                                        .offset = s->bytes,
                                        .chain = c->chain};
    if (!more[s->count].name)
        return sw_err_nomem(err, "the name of a recurrent state", 0);

    s->bytes += sw_desc_bytes(&more[s->count++].layout);
    return SW_OK;
}

/* The rows of a batch continue in the next one of the same group only if the data is read as
 * streams, and the groups take turns from the beginning; chains need neither. */
static int check(const struct sw_worker *w, const struct sw_layer *l,
                 const struct sw_layer_recurrent_state *c, struct sw_err *err)
{
    struct sw_source *const *source = w->shared.data->source;
    const char *why = !c->chain && !source[SW_SPLIT_TRAIN]->streams
                          ? "[data train] must have streams = BATCH, so that a row's next record "
                            "follows the one before"
                      : !c->chain && w->topology->warmup_steps > 0
                          ? "while the first worker group trains alone it would read the streams "
                            "of the others: remove cluster.warmup_steps"
                          : NULL;

    return why ? sw_err_set(err, SW_ERR_INVALID, "layer %s: %s: %s", l->home,
                            c->chain             ? "persistent = yes"
                            : l->name == l->home ? "stateful = yes"
                                                 : "connections = stateful",
                            why)
               : SW_OK;
}

/* Adds the recurrent state of one worker's net. */
static int add_all(const struct sw_worker *w, struct sw_err *err)
{

    for (int i = 0; i < sw_net_layer_count(w->train); i++) {
        const struct sw_layer *l = sw_net_layer(w->train, i);

        for (int k = 0; k < l->recurrent_count; k++) {
            int rc = check(w, l, &l->recurrent[k], err);
            if (rc != SW_OK)
                return rc;
            rc = add(w, l, &l->recurrent[k], err);
            if (rc != SW_OK)
                return rc;
        }
    }

    return SW_OK;
}

int sw_recurrent_state_build(struct sw_job_state *state, const struct sw_worker *workers,
                             struct sw_err *err)
{
    state->reset_after = -1;

    for (int w = 0; w < workers->topology->workers; w++) {
        int rc = add_all(&workers[w], err);
        if (rc != SW_OK)
            return rc;
    }

    return SW_OK;
}

static size_t worker_bytes(const struct sw_worker *w, int split)
{
    size_t bytes = 0;
    for (int p = 0; w->microbatches[split] && p < sw_microbatches_count(w->microbatches[split]);
         p++)
        bytes += sw_net_recurrent_state_bytes(sw_microbatches_net(w->microbatches[split], p));
    return bytes;
}

size_t sw_recurrent_state_worker_bytes(const struct sw_worker *w)
{
    size_t bytes = 0;
    for (int split = 0; split < SW_SPLITS; split++)
        bytes += worker_bytes(w, split);
    return bytes;
}

size_t sw_recurrent_state_bytes(const struct sw_buffers *s, const struct sw_worker *workers)
{
    size_t bytes = s->bytes;
    for (int w = 0; w < workers->topology->workers; w++)
        bytes += sw_recurrent_state_worker_bytes(&workers[w]);
    return bytes;
}

int sw_recurrent_state_allocate(struct sw_buffers *s, struct sw_device *host, struct sw_err *err)
{
    return sw_buffers_take(s, host, "recurrent state", err);
}

int sw_recurrent_state_bind(struct sw_worker *w, struct sw_err *err)
{
    int rc = SW_OK;

    for (int split = 0; split < SW_SPLITS; split++) {
        size_t bytes = w->state.recurrent_bytes[split] = worker_bytes(w, split), at = 0;

        if (bytes > 0)
            rc = sw_device_alloc(w->device, bytes, "recurrent state", &w->state.recurrent[split],
                                 err);

        if (rc != SW_OK)
            return rc;

        for (int p = 0; bytes > 0 && p < sw_microbatches_count(w->microbatches[split]); p++) {
            struct sw_net *net = sw_microbatches_net(w->microbatches[split], p);
            sw_net_bind_recurrent_state(net, (char *)w->state.recurrent[split] + at);
            at += sw_net_recurrent_state_bytes(net);
        }
    }

    return SW_OK;
}

void sw_recurrent_state_unbind(struct sw_worker *w)
{
    for (int split = 0; split < SW_SPLITS; split++) {
        if (w->state.recurrent[split])
            sw_device_free(w->device, w->state.recurrent[split], w->state.recurrent_bytes[split]);
        w->state.recurrent[split] = NULL;
    }
}

/* Copies the rows of one training net from or to the job's memory. */
static int move_net(struct sw_worker *w, const struct sw_net *net, int64_t row, bool fetch,
                    struct sw_err *err)
{
    const int64_t chains = w->rank->update_group * w->shared.conf->batch;
    int64_t group_row, group_rows;

    sw_topology_group_rows(w->topology, w->rank->group, SW_SPLIT_TRAIN, &group_row, &group_rows);

    for (int i = 0; i < sw_net_layer_count(net); i++) {
        const struct sw_layer *l = sw_net_layer(net, i);
        const int64_t rows = l->dst.desc.dim[0];

        /* A layer that only one worker of the group computes has all rows of the group. */
        const int64_t first = chains + (rows == group_rows ? group_row : row);

        for (int k = 0; k < l->recurrent_count; k++) {
            const struct sw_buffer *s = find(recurrent_of(w), l->home, l->recurrent[k].name);
            const struct sw_layer_recurrent_state *c = &l->recurrent[k];
            float *host = s->value + first * c->whole + c->first;
            const size_t width = (size_t)c->width * sizeof(float),
                         pitch = (size_t)c->whole * sizeof(float);
            const struct sw_copy_2d out = {host, pitch, c->value, width, width, rows},
                                    in = {c->value, width, host, pitch, width, rows};

            int rc = sw_copy_2d(w->stream, fetch ? &out : &in, err);
            if (rc != SW_OK)
                return rc;
        }
    }

    return SW_OK;
}

static int move(struct sw_worker *w, bool fetch, struct sw_err *err)
{
    const struct sw_microbatches *microbatches = w->microbatches[SW_SPLIT_TRAIN];

    if (recurrent_of(w)->count == 0)
        return SW_OK;

    for (int p = 0; p < sw_microbatches_count(microbatches); p++) {
        int rc =
            move_net(w, sw_microbatches_net(microbatches, p),
                     sw_worker_first_row(w, SW_SPLIT_TRAIN) + sw_microbatches_row(microbatches, p),
                     fetch, err);
        if (rc != SW_OK)
            return rc;
    }

    return sw_worker_wait(w, err);
}

int sw_recurrent_state_gather(struct sw_worker *w, struct sw_err *err)
{
    int rc = move(w, true, err);
    if (rc != SW_OK)
        return rc;

    return recurrent_of(w)->count > 0
               ? sw_worker_barrier(w, "the recurrent state of the other workers", err)
               : SW_OK;
}

int sw_recurrent_state_scatter(struct sw_worker *w, struct sw_err *err)
{
    return move(w, false, err);
}

bool sw_recurrent_state_starts(const struct sw_worker *w, int split, int64_t batch, int64_t t)
{
    const struct sw_job_conf *c = w->shared.conf;
    const struct sw_source *s = w->shared.data->source[split];
    const int64_t rows = split == SW_SPLIT_TRAIN ? c->batch : c->eval_batch;

    /* The first turn of all groups in an epoch begins their streams. */
    if (!s->streams || batch * rows % s->records < s->streams)
        return true;

    return split == SW_SPLIT_TRAIN && w->state.reset_after == t - 1;
}

bool sw_chains_start(const struct sw_worker *w, int64_t t)
{
    /* A group that starts after the warm-up has no chains yet. */
    const bool rested = sw_topology_sleeps(w->topology, w->rank->group, t - 1);
    return t == 1 || rested || w->state.reset_after == t - 1;
}

/* ---- in files ---- */

int sw_recurrent_state_write(struct sw_buffers *recurrent, struct sw_st_writer *w,
                             struct sw_err *err)
{

    for (int i = 0; i < recurrent->count; i++) {
        struct sw_buffer *s = &recurrent->items[i];

        s->view = sw_tensor_view(NULL, &s->layout, s->value);

        int rc = sw_st_writer_add_tensor(w, s->name, &s->view, NULL, err);
        if (rc != SW_OK)
            return rc;
    }

    return SW_OK;
}

/* With another number of groups, group K continues the chains of group K modulo the stored number.
 */
static int read_groups(struct sw_buffer *s, const struct sw_st_file *f, const struct sw_st_entry *e,
                       struct sw_err *err)
{
    const struct sw_desc there =
        sw_desc_plain(SW_F32, 2, (const int64_t[]){e->shape[0], e->shape[1]});
    const int64_t n = sw_desc_count(&there), want = sw_desc_count(&s->layout);
    float *all = sw_calloc((size_t)n, sizeof *all);
    struct sw_tensor view = sw_tensor_view(NULL, &there, all);

    int rc = all ? sw_st_read_tensor(f, s->name, &view, NULL, err)
                 : sw_err_nomem(err, "recurrent state", (size_t)n * sizeof *all);
    if (rc != SW_OK)
        goto out;

    for (int64_t i = 0; i < n; i++) {
        if (!isfinite(all[i]))
            rc =
                sw_err_set(err, SW_ERR_FORMAT,
                           "checkpoint: %s holds values that are not finite (NaN or Inf)", s->name);

        if (rc != SW_OK)
            goto out;
    }

    for (int64_t at = 0; at < want; at += n) {
        memcpy(s->value + at, all, (size_t)(want - at < n ? want - at : n) * sizeof *all);
    }

out:
    sw_free(all);
    return rc;
}

/* Does the stored shape match? Of chains any number of groups is accepted. */
static bool fits(const struct sw_buffer *s, const struct sw_st_entry *e, int64_t batch)
{
    if (!e || e->dtype != SW_ST_F32 || e->ndim != 2 || e->shape[1] != s->layout.dim[1])
        return false;
    return s->chain ? e->shape[0] > 0 && e->shape[0] % batch == 0 : e->shape[0] == s->layout.dim[0];
}

int sw_recurrent_state_read(struct sw_worker *leader, const struct sw_st_file *f,
                            struct sw_err *err)
{
    const struct sw_buffers *recurrent = recurrent_of(leader);
    const int64_t batch = leader->shared.conf->batch;

    for (int i = 0; i < recurrent->count; i++) {
        struct sw_buffer *s = &recurrent->items[i];
        const struct sw_st_entry *e = sw_st_find(f, s->name);
        if (fits(s, e, batch)) {
            int rc = read_groups(s, f, e, err);
            if (rc != SW_OK)
                return rc;
            continue;
        }

        sw_events_report(leader->shared.events, SW_LOG_WARN, "job",
                         "the checkpoint has no %s for a batch of %lld: it is reset", s->name,
                         (long long)batch);
        leader->shared.state->reset_after = leader->shared.span->first_step;
    }

    return SW_OK;
}
