/* Partitioning a step into segments, and submitting them. Where the host has something to do
 * between two passes is determined when the nets are bound (partition); what is captured follows
 * from the device and the passes; a graph is made in the step after the warm-up runs. */
#include "worker/segments.h"
#include "worker/events.h"
#include "worker/worker.h"

#include "base/os.h"

enum { WARM_RUNS = 2 }; /* before a segment is captured */

struct sw_segments {
    struct sw_worker *w;     /* borrowed */
    struct sw_segment *list; /* owned */
    int count;
    bool push_late;
    int *pushes;     /* owned [parameters of the net]: parameters to push */
    int *push_first; /* owned [layers + 1]: where those of a layer begin */
    bool logged;     /* a failed capture was logged */
    uint64_t launches;
    int64_t launch_ns; /* total */
};

/* ---- Where the host has something to do ---- */

static int layer_of(const struct sw_net *net, int pass)
{
    int layers = sw_net_layer_count(net);
    return pass < layers ? pass : 2 * layers - 1 - pass;
}

static bool is_alone(const struct sw_worker *w, int pass)
{
    bool backward = pass >= sw_net_layer_count(w->train);
    return !w->shared.conf->graphs || !sw_device_has_graphs(w->device) ||
           !sw_microbatches_only_queues(w->microbatches[SW_SPLIT_TRAIN], layer_of(w->train, pass),
                                        backward);
}

static bool has_bucket(const struct sw_worker *w, struct sw_param_list list, int bucket)
{
    for (int i = 0; i < list.count; i++)
        if (sw_exchange_bucket(w->exchange, list.param[i]) == bucket)
            return true;

    return false;
}

/* Does a layer below push gradients into the bucket, or pull parameters from it? */
static bool is_in_lower_layer(const struct sw_segments *s, int layer, int bucket, bool pushes)
{
    for (int i = 0; i < layer; i++)
        if (has_bucket(s->w, pushes ? sw_segments_pushes(s, i) : sw_segments_pulls(s, i), bucket))
            return true;

    return false;
}

/* Does the layer have parameters that need the host: before forward to wait for the value, after
 * backward to push the gradient? A bucket needs it once: before its lowest layer, and after it. */
static bool needs_host(const struct sw_segments *s, int layer, bool pushes)
{
    const struct sw_exchange *x = s->w->exchange;
    const struct sw_param_list list =
        pushes ? sw_segments_pushes(s, layer) : sw_segments_pulls(s, layer);

    for (int i = 0; i < list.count; i++) {
        int bucket = sw_exchange_bucket(x, list.param[i]);

        if (sw_exchange_needs_host(x, list.param[i]) &&
            (bucket < 0 || !is_in_lower_layer(s, layer, bucket, pushes)))
            return true;
    }

    return false;
}

static bool breaks_before(const struct sw_segments *s, enum sw_overlap overlap, int pass)
{
    const struct sw_worker *w = s->w;
    int layers = sw_net_layer_count(w->train);

    if (pass == 0 || is_alone(w, pass) || is_alone(w, pass - 1))
        return true;
    if (pass < layers)
        return needs_host(s, pass, false) && !sw_exchange_updates_at_end(w->exchange);
    if (pass == layers && sw_net_chain_steps(w->train) > 0)
        return true; /* chains are queued in between */

    return pass > layers && overlap == SW_OVERLAP_YES &&
           needs_host(s, layer_of(w->train, pass - 1), true);
}

/* Does the pass queue anything? */
static bool works(const struct sw_net *net, int pass)
{
    int i = layer_of(net, pass);
    return pass < sw_net_layer_count(net) ? sw_net_layer(net, i)->type->role != SW_ROLE_INPUT
                                          : sw_net_has_backward(net, i);
}

/* Are activations recomputed or offloaded? Copies that are started in one segment are then waited
 * for in another, which graphs cannot do, and their addresses change while layers are queued. */
static bool has_moved_activations(const struct sw_worker *w)
{
    const struct sw_net_cost cost = sw_microbatches_cost(w->microbatches[SW_SPLIT_TRAIN]);
    return cost.recomputed + cost.offloaded > 0;
}

static void partition(struct sw_segments *s, enum sw_overlap overlap)
{
    const struct sw_worker *w = s->w;
    int passes = 2 * sw_net_layer_count(w->train);

    for (int pass = 0; pass < passes; pass++) {
        if (breaks_before(s, overlap, pass))
            s->list[s->count++] = (struct sw_segment){.from = pass};

        struct sw_segment *last = &s->list[s->count - 1];
        last->to = pass + 1;
        last->captured = last->captured || (!is_alone(w, pass) && works(w->train, pass));
    }

    for (int k = 0; k < s->count && s->count > 1 && has_moved_activations(w); k++)
        s->list[k].captured = false;
}

/* ---- What is pulled and pushed ---- */

static int list_pushes(struct sw_segments *s, struct sw_err *err)
{
    const struct sw_net *net = s->w->train;
    int layers = sw_net_layer_count(net), n = 0;
    size_t params = (size_t)sw_net_param_count(net);

    s->pushes = sw_calloc(params + 1, sizeof *s->pushes);
    s->push_first = sw_calloc((size_t)layers + 1, sizeof *s->push_first);
    if (!s->pushes || !s->push_first)
        return sw_err_nomem(err, "segments of a step", params * sizeof *s->pushes);

    for (int i = 0; i < layers; i++) {
        int first, count = sw_net_layer_params(net, i, &first);

        for (int p = first; p < first + count; p++)
            if (!sw_net_param(net, p)->frozen && sw_net_param(net, p)->root < 0)
                s->pushes[n++] = s->w->param_of[SW_SPLIT_TRAIN][p];

        s->push_first[i + 1] = n;
    }

    return SW_OK;
}

struct sw_param_list sw_segments_pulls(const struct sw_segments *s, int layer)
{
    int first, count = sw_net_layer_params(s->w->train, layer, &first);

    return (struct sw_param_list){s->w->param_of[SW_SPLIT_TRAIN] + first, count};
}

struct sw_param_list sw_segments_pushes(const struct sw_segments *s, int layer)
{
    return (struct sw_param_list){s->pushes + s->push_first[layer],
                                  s->push_first[layer + 1] - s->push_first[layer]};
}

bool sw_segments_push_late(const struct sw_segments *s)
{
    return s->push_late;
}

/* ---- Life ---- */

int sw_segments_new(struct sw_worker *w, enum sw_overlap overlap, struct sw_segments **out,
                    struct sw_err *err)
{
    size_t passes = 2 * (size_t)sw_net_layer_count(w->train);
    struct sw_segments *s = sw_calloc(1, sizeof *s);

    if (s)
        s->list = sw_calloc(passes, sizeof *s->list);
    if (!s || !s->list) {
        sw_free(s);
        return sw_err_nomem(err, "segments of a step", passes * sizeof *s->list);
    }

    s->w = w;
    s->push_late = overlap == SW_OVERLAP_NO;

    int rc = list_pushes(s, err);
    if (rc != SW_OK) {
        sw_segments_free(s);
        return rc;
    }

    partition(s, overlap);
    *out = s;
    return SW_OK;
}

void sw_segments_free(struct sw_segments *s)
{
    if (!s)
        return;

    for (int k = 0; k < s->count; k++)
        sw_graph_free(s->w->device, s->list[k].graph);
    sw_free(s->pushes);
    sw_free(s->push_first);
    sw_free(s->list);
    sw_free(s);
}

int sw_segments_count(const struct sw_segments *s)
{
    return s->count;
}

const struct sw_segment *sw_segments_at(const struct sw_segments *s, int k)
{
    return &s->list[k];
}

bool sw_segments_are_queued(const struct sw_segments *s)
{
    bool queued = true;

    for (int k = 0; k < s->count; k++)
        queued =
            queued && !s->list[k].graph && !(s->list[k].captured && s->list[k].runs >= WARM_RUNS);

    return queued;
}

struct sw_segment_stats sw_segments_stats(const struct sw_segments *s)
{
    struct sw_segment_stats stats = {.launches = s->launches};

    for (int k = 0; k < s->count; k++)
        stats.graphs += s->list[k].graph != NULL;
    if (s->launches > 0)
        stats.launch_us = (double)s->launch_ns * 1e-3 / (double)s->launches;

    return stats;
}

/* ---- Submitting ---- */

static int launch(struct sw_segments *s, const struct sw_segment *seg, struct sw_err *err)
{
    int64_t began_ns = sw_os()->monotonic_ns();
    int rc = sw_graph_launch(s->w->stream, seg->graph, err);

    s->launch_ns += sw_os()->monotonic_ns() - began_ns;
    s->launches++;
    return rc;
}

static int join_streams(struct sw_segments *s, struct sw_err *err)
{
    return sw_microbatches_join_streams(s->w->microbatches[SW_SPLIT_TRAIN], err);
}

/* Logs once why the run is slower than it could be. */
static void report_not_captured(struct sw_segments *s, const struct sw_segment *seg,
                                const struct sw_err *why)
{
    const struct sw_net *net = s->w->train;

    if (!s->logged)
        sw_events_report(
            s->w->shared.events, SW_LOG_WARN, s->w->role,
            "layers %s to %s of a step are queued operation by operation, not as a graph: %s",
            sw_net_layer(net, layer_of(net, seg->from))->name,
            sw_net_layer(net, layer_of(net, seg->to - 1))->name, why->text);

    s->logged = true;
}

/* Captures a segment. An error only ends the capture; the segment fails if the same error occurs
 * without capture. */
static void capture(struct sw_segments *s, struct sw_segment *seg,
                    int (*queue)(void *user, struct sw_err *err), void *user)
{
    struct sw_stream *stream = s->w->stream;
    struct sw_err why, end;

    int rc = sw_capture_begin(stream, &why);

    if (rc == SW_OK) {
        rc = queue(user, &why);
        if (rc == SW_OK)
            rc = join_streams(s, &why);

        int ended = sw_capture_end(stream, &seg->graph, &end);
        if (ended == SW_OK && rc != SW_OK) {
            sw_graph_free(stream->dev, seg->graph);
            seg->graph = NULL;
        }

        if (ended != SW_OK) {
            rc = ended;
            why = end;
        }
    }

    if (rc == SW_OK)
        return;

    seg->captured = false;
    report_not_captured(s, seg, &why);
}

int sw_segments_submit(struct sw_segments *s, int k, int (*queue)(void *user, struct sw_err *err),
                       void *user, bool *launched, struct sw_err *err)
{
    struct sw_segment *seg = &s->list[k];

    *launched = seg->graph != NULL;
    int rc = seg->captured ? join_streams(s, err) : SW_OK;
    if (rc != SW_OK)
        return rc;

    if (seg->captured && !seg->graph && seg->runs >= WARM_RUNS)
        capture(s, seg, queue, user);
    if (!seg->graph) {
        seg->runs++;
        return queue(user, err);
    }

    return launch(s, seg, err);
}
