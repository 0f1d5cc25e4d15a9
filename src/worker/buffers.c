/* Buffers (running statistics of batch_norm): one array per buffer for the whole job, in host
 * memory. Workers that can reach it bind their nets to it; a worker on a device with its own memory
 * has a copy there. Only one training net updates a buffer, in its forward pass: that of the first
 * worker that has the layer, usually worker 0. Of a layer that is split by columns every worker of
 * the first group updates, and reads, its own part. All others read it only in evaluations, when
 * all parameters are at the step's version: a worker that has seen the writer's last update of the
 * step also sees what the writer stored before. So copies never disagree when they are read. */
#include "worker/buffers.h"
#include "base/os.h"
#include "base/str.h"
#include "worker/sums.h"
#include "worker/worker.h"
#include "worker/worker_place.h"
#include <math.h>
#include <string.h>

enum { ALIGN = 64 };

static const char prefix[] = "state.", what_is_shared[] = "the state of the layers";

static struct sw_buffer *find(const struct sw_buffers *s, const char *name)
{
    for (int i = 0; i < s->count; i++)
        if (sw_str_eq(s->items[i].name + strlen(prefix), name))
            return &s->items[i];
    return NULL;
}

static struct sw_buffers *buffers_of(const struct sw_worker *w)
{
    return &w->shared.state->buffers;
}

static const struct sw_layer_buffer *layer_state(const struct sw_net *net, int i)
{
    const struct sw_net_buffer *ns = sw_net_buffer(net, i);
    return &sw_net_layer(net, ns->layer)->keeps[ns->index];
}

static struct sw_desc whole_layout(const struct sw_layer_buffer *ls)
{
    int64_t dim[SW_MAX_DIMS];
    memcpy(dim, ls->layout.dim, sizeof dim);
    dim[0] = ls->part_whole ? ls->part_whole : dim[0];
    return sw_desc_plain(ls->layout.dtype, ls->layout.ndim, dim);
}

static size_t bytes_before(const struct sw_layer_buffer *ls)
{
    return ls->part_whole
               ? sw_desc_bytes(&ls->layout) / (size_t)ls->layout.dim[0] * (size_t)ls->part_first
               : 0;
}

/* Adds buffer i of the worker's training net, unless a worker before has it. */
static int add(struct sw_buffers *s, const struct sw_worker *w, int i, struct sw_err *err)
{
    const struct sw_layer_buffer *ls = layer_state(w->train, i);
    struct sw_buffer *state = &s->items[s->count];

    if (find(s, sw_net_buffer(w->train, i)->name))
        return SW_OK;

    state->layout = whole_layout(ls);
    state->split = ls->part_whole > 0;
    state->initial = (float)ls->natural;
    state->offset = s->bytes;
    state->writer = w->rank->global_rank;

    state->name = sw_format("%s%s", prefix, sw_net_buffer(w->train, i)->name);
    if (!state->name)
        return sw_err_nomem(err, "the name of a buffer", 0);

    s->bytes += (sw_desc_bytes(&state->layout) + ALIGN - 1) / ALIGN * ALIGN;
    s->on_other_workers = s->on_other_workers || w->rank->global_rank > 0 || state->split;
    s->count++;

    return SW_OK;
}

/* Groups are alike: the workers of the first one have all buffers. */
int sw_buffers_build(struct sw_buffers *s, const struct sw_worker *workers, struct sw_err *err)
{
    const int group_size = workers->topology->group_size;
    int count = 0;

    for (int w = 0; w < group_size; w++)
        count += sw_net_buffer_count(workers[w].train);
    s->items = sw_calloc((size_t)count + 1, sizeof *s->items);
    if (!s->items)
        return sw_err_nomem(err, "the layers' state", (size_t)count * sizeof *s->items);

    for (int w = 0; w < group_size; w++) {
        for (int i = 0; i < sw_net_buffer_count(workers[w].train); i++) {
            int rc = add(s, &workers[w], i, err);
            if (rc != SW_OK)
                return rc;
        }
    }

    return SW_OK;
}

static int match(const struct sw_buffers *s, const struct sw_net *net, struct sw_err *err)
{
    for (int i = 0; i < sw_net_buffer_count(net); i++) {
        const char *name = sw_net_buffer(net, i)->name;
        const struct sw_buffer *state = find(s, name);
        struct sw_desc whole = whole_layout(layer_state(net, i));
        if (!state || !sw_desc_equal(&state->layout, &whole))
            return sw_err_set(
                err, SW_ERR_INVALID,
                "%s exists only in the evaluation net, or has another shape there: no training "
                "net would update it",
                name);
    }

    return SW_OK;
}

int sw_buffers_match(const struct sw_buffers *s, const struct sw_worker *workers,
                     struct sw_err *err)
{
    for (int w = 0; w < workers->topology->group_size; w++) {
        int rc = match(s, workers[w].eval, err);
        if (rc != SW_OK)
            return rc;
    }

    return SW_OK;
}

void sw_buffers_fini(struct sw_buffers *s)
{
    for (int i = 0; i < s->count; i++)
        sw_free(s->items[i].name);
    sw_free(s->items);
    if (s->memory)
        sw_device_free(s->device, s->memory, s->bytes);
}

/* The part of a buffer that the worker updates, in bytes; bytes 0: nothing. */
struct part {
    size_t first, bytes;
};

static struct part all_of(const struct sw_buffer *s)
{
    return (struct part){0, sw_desc_bytes(&s->layout)};
}

static struct part part_of(const struct sw_worker *w, const struct sw_buffer *s)
{
    if (!s->split)
        return s->writer == w->rank->global_rank ? all_of(s) : (struct part){0, 0};

    for (int i = 0;
         i < sw_net_buffer_count(w->train) && w->rank->global_rank < w->topology->group_size; i++) {
        const struct sw_layer_buffer *ls = layer_state(w->train, i);
        if (find(buffers_of(w), sw_net_buffer(w->train, i)->name) == s)
            return (struct part){bytes_before(ls), sw_desc_bytes(&ls->layout)};
    }

    return (struct part){0, 0};
}

/* Does the worker update any buffer? */
static bool updates_any(const struct sw_worker *w)
{
    bool any = false;
    for (int i = 0; i < buffers_of(w)->count; i++)
        any = any || part_of(w, &buffers_of(w)->items[i]).bytes > 0;
    return any;
}

/* Does the worker save its buffers before a step? */
static bool saves(const struct sw_worker *w)
{
    return (w->shared.conf->on_nan == SW_ON_NAN_SKIP || w->shared.returns) && updates_any(w);
}

size_t sw_buffers_bytes(const struct sw_buffers *s, const struct sw_worker *workers)
{
    size_t copies = 1;
    for (int i = 0; i < workers->topology->workers; i++)
        copies += (size_t)!workers[i].device->host_memory + saves(&workers[i]);
    return s->bytes * copies;
}

size_t sw_buffers_device_bytes(const struct sw_worker *w)
{
    return w->device->host_memory ? 0 : buffers_of(w)->bytes * (saves(w) ? 2 : 1);
}

static void fill(struct sw_buffer *s)
{
    for (int64_t i = 0; i < sw_desc_storage(&s->layout); i++)
        s->value[i] = s->initial;
}

int sw_buffers_take(struct sw_buffers *s, struct sw_device *host, const char *what,
                    struct sw_err *err)
{
    if (s->count == 0)
        return SW_OK;

    int rc = sw_device_alloc(host, s->bytes, what, &s->memory, err);
    if (rc != SW_OK)
        return rc;

    s->device = host;
    memset(s->memory, 0, s->bytes);
    for (int i = 0; i < s->count; i++)
        s->items[i].value = (float *)(void *)((char *)s->memory + s->items[i].offset);

    return SW_OK;
}

int sw_buffers_allocate(struct sw_buffers *s, struct sw_device *host, struct sw_err *err)
{
    int rc = sw_buffers_take(s, host, "the layers' state", err);
    if (rc != SW_OK)
        return rc;

    for (int i = 0; i < s->count; i++) {
        fill(&s->items[i]);
    }

    return SW_OK;
}

/* The buffers that the nets of this worker use. */
static void *own_buffers(const struct sw_worker *w)
{
    return w->state.copy ? w->state.copy : buffers_of(w)->memory;
}

static void bind(struct sw_worker *w, int split, int part)
{
    char *memory = own_buffers(w);
    struct sw_net *net = sw_microbatches_net(w->microbatches[split], part);

    for (int i = 0; i < sw_net_buffer_count(net); i++) {
        const struct sw_buffer *s = find(buffers_of(w), sw_net_buffer(net, i)->name);
        bool updates = part_of(w, s).bytes > 0 && part == 0 && split == SW_SPLIT_TRAIN;
        size_t at = s->offset + bytes_before(layer_state(net, i));
        float *value = (float *)(void *)(memory + at);
        sw_net_bind_buffer(net, i, value, updates ? value : NULL);
    }
}

void sw_buffers_rebind(struct sw_worker *w)
{
    for (int split = 0; split < SW_SPLITS; split++)
        for (int i = 0; i < w->rank->microbatches && w->microbatches[split]; i++)
            bind(w, split, i);
}

int sw_buffers_bind(struct sw_worker *w, struct sw_err *err)
{
    struct sw_device *dev = w->stream->dev;
    size_t bytes = buffers_of(w)->bytes;

    if (bytes > 0 && !dev->host_memory) {
        int rc = sw_device_alloc(dev, bytes, "the layers' state", &w->state.copy, err);
        if (rc != SW_OK)
            return rc;
    }

    sw_buffers_rebind(w);
    if (!saves(w))
        return SW_OK;

    int rc = sw_device_alloc(dev, bytes, "the layers' state", &w->state.before, err);
    return rc == SW_OK && !dev->host_memory ? sw_event_new(dev, &w->state.saved, err) : rc;
}

void sw_buffers_unbind(struct sw_worker *w)
{
    if (w->state.copy)
        sw_device_free(w->stream->dev, w->state.copy, buffers_of(w)->bytes);
    if (w->state.before)
        sw_device_free(w->stream->dev, w->state.before, buffers_of(w)->bytes);
    if (w->state.saved)
        sw_event_free(w->stream->dev, w->state.saved);
    w->state.copy = w->state.before = NULL;
    w->state.saved = NULL;
}

/* Copies what the worker updates from one copy of the buffers to another. */
static int copy_updated(struct sw_worker *w, void *to, const void *from, struct sw_err *err)
{
    int rc = SW_OK;

    for (int i = 0; i < buffers_of(w)->count; i++) {
        const struct sw_buffer *s = &buffers_of(w)->items[i];
        struct part p = part_of(w, s);
        size_t at = s->offset + p.first;

        if (p.bytes > 0)
            rc = sw_copy(w->stream, (char *)to + at, (const char *)from + at, p.bytes, err);
        if (rc != SW_OK)
            return rc;
    }

    return SW_OK;
}

int sw_buffers_save(struct sw_worker *w, struct sw_err *err)
{
    if (!w->state.before)
        return SW_OK;

    w->state.saved_step = sw_flight_next(w);

    int rc = copy_updated(w, w->state.before, own_buffers(w), err);
    return rc == SW_OK && w->state.saved ? sw_event_record(w->stream, w->state.saved, err) : rc;
}

int sw_buffers_restore(struct sw_worker *w, struct sw_err *err)
{
    return w->state.before ? copy_updated(w, own_buffers(w), w->state.before, err) : SW_OK;
}

static int fetch(struct sw_worker *w, struct sw_err *err)
{
    if (!w->state.copy || !updates_any(w))
        return SW_OK;

    int rc = copy_updated(w, buffers_of(w)->memory, w->state.copy, err);
    if (rc != SW_OK)
        return rc;

    return sw_worker_wait(w, err);
}

int sw_buffers_rescue(struct sw_worker *w, int64_t step, struct sw_err *err)
{
    int rc = SW_OK;

    if (w->state.before && w->state.saved_step == step + 1) {
        rc = w->state.saved ? sw_event_host_wait(w->device, w->state.saved, err) : SW_OK;
        if (rc == SW_OK)
            rc = sw_buffers_restore(w, err);
    }

    return rc == SW_OK ? fetch(w, err) : rc;
}

int sw_buffers_gather(struct sw_worker *w, struct sw_err *err)
{
    int rc = fetch(w, err);
    if (rc != SW_OK)
        return rc;
    return buffers_of(w)->on_other_workers ? sw_worker_barrier(w, what_is_shared, err) : SW_OK;
}

int sw_buffers_upload(struct sw_worker *w, struct sw_err *err)
{
    struct sw_buffers *s = buffers_of(w);

    if (!w->state.copy)
        return SW_OK;

    int rc = sw_copy(w->stream, w->state.copy, s->memory, s->bytes, err);
    if (rc != SW_OK)
        return rc;

    return sw_worker_wait(w, err);
}

/* The barrier is needed because in the next step a writer may overwrite a buffer that others still
 * read. */
int sw_buffers_scatter(struct sw_worker *w, struct sw_err *err)
{
    int rc = sw_buffers_upload(w, err);
    if (rc != SW_OK)
        return rc;
    return buffers_of(w)->count > 0 ? sw_worker_barrier(w, what_is_shared, err) : SW_OK;
}

static bool all_finite(const struct sw_buffer *s, struct part p)
{
    bool finite = true;
    for (size_t i = p.first / sizeof *s->value; i < (p.first + p.bytes) / sizeof *s->value; i++)
        finite = finite && isfinite(s->value[i]);
    return finite;
}

int sw_buffers_finite(struct sw_worker *w, bool *finite, struct sw_err *err)
{
    const struct sw_buffers *s = buffers_of(w);

    int rc = fetch(w, err);

    *finite = true;
    if (rc != SW_OK)
        return rc;

    for (int i = 0; i < s->count; i++) {
        *finite = *finite && all_finite(&s->items[i], part_of(w, &s->items[i]));
    }

    return SW_OK;
}

static bool has_copies(const struct sw_worker *w)
{
    bool any = false;
    for (int i = 0; i < w->topology->workers && buffers_of(w)->count > 0; i++)
        any = any || !w->shared.workers[i].device->host_memory;
    return any;
}

/* Workers without a copy read the job's memory, so they also wait for those that write into it. */
int sw_buffers_distribute(struct sw_worker *w, struct sw_err *err)
{
    if (!has_copies(w))
        return SW_OK;

    int rc = fetch(w, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_worker_barrier(w, what_is_shared, err);
    if (rc != SW_OK)
        return rc;

    return sw_buffers_upload(w, err);
}

/* ---- in files ---- */

int sw_buffers_write(struct sw_buffers *states, struct sw_st_writer *w, struct sw_err *err)
{

    for (int i = 0; i < states->count; i++) {
        struct sw_buffer *s = &states->items[i];

        s->view = sw_tensor_view(NULL, &s->layout, s->value);
        if (!all_finite(s, all_of(s)))
            return sw_err_set(err, SW_ERR_DIVERGED,
                              "%s is not finite (NaN or Inf): training has diverged", s->name);

        int rc = sw_st_writer_add_tensor(w, s->name, &s->view, NULL, err);
        if (rc != SW_OK)
            return rc;
    }

    return SW_OK;
}

int sw_buffer_check(const struct sw_buffer *s, const char *tensor, const struct sw_st_entry *e,
                    const char *path, struct sw_err *err)
{
    char has[128], needs[128];

    if (!e)
        return sw_err_set(err, SW_ERR_FORMAT, "%s: has no tensor %s", path, tensor);

    bool fits = e->dtype == SW_ST_F32 && e->ndim == s->layout.ndim;
    for (int i = 0; fits && i < e->ndim; i++)
        fits = e->shape[i] == s->layout.dim[i];
    if (fits)
        return SW_OK;

    sw_shape_text(e->ndim, e->shape, has, sizeof has);
    sw_shape_text(s->layout.ndim, s->layout.dim, needs, sizeof needs);
    return sw_err_set(err, SW_ERR_INVALID, "%s: %s is %s %s in the file, but F32 %s in this net",
                      path, tensor, sw_st_dtype_name(e->dtype), has, needs);
}

int sw_buffers_check(const struct sw_buffers *states, const struct sw_st_file *f,
                     struct sw_err *err)
{
    for (int i = 0; i < states->count; i++) {
        const struct sw_buffer *s = &states->items[i];
        int rc = sw_buffer_check(s, s->name, sw_st_find(f, s->name), sw_st_path(f), err);
        if (rc != SW_OK)
            return rc;
    }

    return SW_OK;
}

int sw_buffer_read(struct sw_buffer *s, const char *tensor, const struct sw_st_file *f,
                   const char *path, struct sw_err *err)
{
    int rc = sw_buffer_check(s, tensor, sw_st_find(f, tensor), path, err);
    if (rc != SW_OK)
        return rc;

    s->view = sw_tensor_view(NULL, &s->layout, s->value);
    rc = sw_st_read_tensor(f, tensor, &s->view, NULL, err);
    if (rc != SW_OK)
        return rc;

    if (!all_finite(s, all_of(s)))
        rc = sw_err_set(err, SW_ERR_FORMAT, "%s: %s holds values that are not finite (NaN or Inf)",
                        path, tensor);

    return rc;
}

int sw_buffers_read(struct sw_buffers *states, const struct sw_st_file *f, struct sw_err *err)
{
    for (int i = 0; i < states->count; i++) {
        struct sw_buffer *s = &states->items[i];
        int rc = sw_buffer_read(s, s->name, f, sw_st_path(f), err);
        if (rc != SW_OK)
            return rc;
    }

    return SW_OK;
}
