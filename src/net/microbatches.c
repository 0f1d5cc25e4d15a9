/* A worker's nets, one per microbatch. Several microbatches in host memory run in lanes: each lane
 * has a stream of one math thread and some consecutive nets; else there is one lane, on the
 * worker's own stream. A layer's pass runs all lanes side by side, phase by phase; between phases
 * its sums go to the group. After backward, gradients of microbatches are reduced along the tree
 * plan, inside the lanes first, then by the whole team (finish_partials).
 *
 * Reading order: building, reducing gradients, passes. microbatches_memory.c lays out the memory.
 * By the worker's thread; run_lane by each math thread for its own lane. */
#include "device/op.h"
#include "net/microbatches_private.h"

#include "base/os.h"
#include "kernels/ops/fold.h"
#include "kernels/ops/pixels.h"
#include <string.h>

int sw_microbatches_count(const struct sw_microbatches *p)
{
    return p->count;
}

struct sw_net *sw_microbatches_net(const struct sw_microbatches *p, int microbatch)
{
    return p->microbatch[microbatch].net;
}

int64_t sw_microbatches_row(const struct sw_microbatches *p, int microbatch)
{
    return p->microbatch[microbatch].row;
}

int sw_microbatches_partials(const struct sw_microbatches *p)
{
    return p->plan.partials;
}

size_t sw_microbatches_arena_bytes(const struct sw_microbatches *p)
{
    return p->arena_bytes;
}

/* ---- Building ---- */

static int make_lanes(struct sw_microbatches *p, const struct sw_microbatches_args *a,
                      struct sw_err *err)
{
    bool together = a->alone && p->stream->dev->host_memory;
    int rc = SW_OK, lanes = together && a->threads < p->count ? a->threads : p->count;

    p->lanes = together ? lanes : 1;
    p->lane = sw_calloc((size_t)p->lanes, sizeof *p->lane);
    if (!p->lane)
        return sw_err_nomem(err, "parts of a batch", (size_t)p->lanes * sizeof *p->lane);

    for (int i = 0; i < p->lanes && rc == SW_OK; i++) {
        int64_t first, count;
        struct sw_lane *l = &p->lane[i];

        sw_part(p->count, p->lanes, i, &first, &count);
        l->first = (int)first;
        l->count = (int)count;

        if (together)
            rc = sw_stream_new(p->stream->dev, 1, &l->stream, err);
        else
            l->stream = p->stream;
    }

    return rc;
}

static int make_net(struct sw_microbatches *p, const struct sw_microbatches_args *a,
                    const struct sw_lane *l, int i, struct sw_err *err)
{
    struct sw_net_args args = *a->net;
    struct sw_net_field fields[SW_LAYER_SRCS];

    if (args.field_count > SW_LAYER_SRCS)
        return sw_err_set(err, SW_ERR_INVALID, "%d data fields: at most %d", args.field_count,
                          SW_LAYER_SRCS);

    for (int f = 0; f < args.field_count; f++) {
        const struct sw_desc *d = &args.fields[f].desc;
        int64_t dim[SW_MAX_DIMS];

        memcpy(dim, d->dim, sizeof dim);
        dim[0] = a->rows[i];
        fields[f] = args.fields[f];
        fields[f].desc = sw_desc_plain(d->dtype, d->ndim, dim);
    }

    args.fields = fields;
    args.rows = a->rows[i];
    args.stream = l->stream;
    args.separate_scratch = p->count > 1;
    if (i > 0 && !args.sharing)
        args.sharing = sw_microbatches_first(p);
    sw_stream_attach(l->stream); /* primitives are created for its threads */

    return sw_net_new(&args, &p->microbatch[i].net, err);
}

static int make_nets(struct sw_microbatches *p, const struct sw_microbatches_args *a,
                     struct sw_err *err)
{
    int64_t row = 0;
    int rc = SW_OK;

    for (int j = 0; j < p->lanes && rc == SW_OK; j++)
        for (int i = p->lane[j].first; i < p->lane[j].first + p->lane[j].count && rc == SW_OK;
             i++) {
            p->microbatch[i].row = row;
            row += a->rows[i];
            rc = make_net(p, a, &p->lane[j], i, err);
        }

    sw_stream_attach(p->stream);
    return rc;
}

static int make_sums(struct sw_microbatches *p, struct sw_err *err)
{
    size_t sums = (size_t)sw_net_sum_count(sw_microbatches_first(p)) * (size_t)p->count;
    if (sums == 0 || (p->count == 1 && p->stream->dev->host_memory))
        return SW_OK;

    p->sums = sw_calloc(sums, sizeof *p->sums);
    return p->sums ? SW_OK : sw_err_nomem(err, "a layer's sums", sums * sizeof *p->sums);
}

static int make(struct sw_microbatches *p, const struct sw_microbatches_args *a, struct sw_err *err)
{
    p->microbatch = sw_calloc((size_t)p->count, sizeof *p->microbatch);
    if (!p->microbatch)
        return sw_err_nomem(err, "parts of a batch", (size_t)p->count * sizeof *p->microbatch);

    int rc = make_lanes(p, a, err);
    if (rc == SW_OK)
        rc = sw_tree_plan_init(&p->plan, a->leaves, a->first, a->count, p->lanes, err);
    if (rc == SW_OK)
        rc = make_nets(p, a, err);

    for (int i = 0; i < p->count && rc == SW_OK; i++) {
        size_t params = (size_t)sw_net_param_count(sw_microbatches_first(p)) + 1;
        p->microbatch[i].gradient = sw_calloc(params, sizeof *p->microbatch[i].gradient);
        if (!p->microbatch[i].gradient)
            rc = sw_err_nomem(err, "parts of a batch", params * sizeof(float *));
    }

    if (rc == SW_OK)
        rc = sw_microbatches_lay_out_gradients(p, err);
    if (rc == SW_OK)
        rc = make_sums(p, err);
    if (rc == SW_OK)
        sw_microbatches_lay_out(p);

    return rc;
}

int sw_microbatches_new(const struct sw_microbatches_args *args, struct sw_microbatches **out,
                        struct sw_err *err)
{
    struct sw_microbatches *p = sw_calloc(1, sizeof *p);
    if (!p)
        return sw_err_nomem(err, "parts of a batch", sizeof *p);

    p->stream = args->net->stream;
    p->alone = args->alone;
    p->training = args->net->training;
    p->count = args->count;

    int rc = make(p, args, err);
    if (rc != SW_OK) {
        sw_microbatches_free(p);
        return rc;
    }

    *out = p;
    return SW_OK;
}

void sw_microbatches_free(struct sw_microbatches *p)
{
    if (!p)
        return;

    for (int i = p->count - 1; i >= 0 && p->microbatch; i--) {
        sw_net_free(p->microbatch[i].net);
        sw_free(p->microbatch[i].gradient);
    }

    for (int j = 0; j < p->lanes && p->lane; j++)
        if (p->lane[j].stream != p->stream)
            sw_stream_free(p->lane[j].stream);

    sw_tree_plan_fini(&p->plan);
    sw_free(p->microbatch);
    sw_free(p->lane);
    sw_free(p->pooled_at);
    sw_free(p->kept_at);
    sw_free(p->sums);
    sw_free(p);
}

int sw_microbatches_set_field(struct sw_microbatches *p, const char *field, void *data,
                              struct sw_err *err)
{
    int rc = SW_OK, input = -1;

    for (int i = 0; i < sw_net_layer_count(sw_microbatches_first(p)) && input < 0; i++) {
        const struct sw_layer *l = sw_net_layer(sw_microbatches_first(p), i);
        if (l->type->role == SW_ROLE_INPUT && strcmp(sw_layer_input_field(l), field) == 0)
            input = i;
    }

    char *at = data;
    for (int i = 0; i < p->count && rc == SW_OK && input >= 0; i++) {
        rc = sw_net_set_field(p->microbatch[i].net, field, at, err);
        at += sw_aligned(sw_desc_bytes(&sw_net_layer(p->microbatch[i].net, input)->dst.desc),
                         SW_MICROBATCHES_ALIGN);
    }

    return rc;
}

int sw_microbatches_set_pixels(struct sw_microbatches *p, const char *field,
                               const struct sw_pixels_args *how, struct sw_err *err)
{
    struct sw_pixels_args own = *how;
    int rc = SW_OK;

    for (int i = 0; i < p->count && rc == SW_OK; i++) {
        const int64_t bytes = sw_net_rows(p->microbatch[i].net) * how->row_bytes;
        rc = sw_net_set_pixels(p->microbatch[i].net, field, &own, err);
        own.x += sw_aligned((size_t)bytes, SW_MICROBATCHES_ALIGN);
    }

    return rc;
}

int sw_microbatches_set_step(struct sw_microbatches *p, const struct sw_step *step,
                             struct sw_err *err)
{
    int rc = SW_OK;

    for (int i = 0; i < p->count && rc == SW_OK; i++) {
        const struct sw_microbatch_net *microbatch = &p->microbatch[i];
        struct sw_step own = *step;
        int64_t rows = sw_net_rows(microbatch->net), valid = step->valid_rows - microbatch->row;

        own.first_row += microbatch->row;
        own.valid_rows = valid < 0 ? 0 : valid < rows ? valid : rows;
        rc = sw_net_set_step(microbatch->net, &own, err);
    }

    return rc;
}

void sw_microbatches_set_sum(struct sw_microbatches *p, sw_microbatches_sum *sum, void *user)
{
    p->sum = sum;
    p->sum_user = user;
}

void sw_microbatches_set_queue_sum(struct sw_microbatches *p, sw_microbatches_queue_sum *queue)
{
    p->queue_sum = queue;
}

void sw_microbatches_set_heartbeat(struct sw_microbatches *p, void (*beat)(void *user), void *user)
{
    p->beat = beat;
    p->beat_user = user;
}

/* ---- Reducing gradients ---- */

static float *place_of(const struct sw_microbatches *p, const struct sw_tree_node *node, int param)
{
    return p->microbatch[node->from - p->plan.first].gradient[param];
}

/* Reduces adjacent nodes of the tree into the first one's buffer. */
static int fold_nodes(const struct sw_microbatches *p, struct sw_stream *s, int param,
                      const struct sw_tree_node *nodes, int count, struct sw_err *err)
{
    int first = nodes[0].from, leaves = nodes[count - 1].to - first, rc = SW_OK;
    struct sw_fold_args a = {.count = count, .y = place_of(p, &nodes[0], param)};
    const struct sw_net_param *np = sw_net_param(sw_microbatches_first(p), param);

    if (count > SW_FOLD_INPUTS) {
        /* Reduce the two halves of the tree, then the results. */
        int left = 1, n = 0;

        while (2 * left < leaves)
            left *= 2;
        while (nodes[n].to <= first + left)
            n++;

        const struct sw_tree_node halves[2] = {{first, first + left},
                                               {first + left, first + leaves}};
        rc = fold_nodes(p, s, param, nodes, n, err);
        if (rc == SW_OK)
            rc = fold_nodes(p, s, param, nodes + n, count - n, err);
        return rc == SW_OK ? fold_nodes(p, s, param, halves, 2, err) : rc;
    }

    if (count < 2)
        return SW_OK;

    a.n = sw_desc_storage(
        &sw_net_layer(sw_microbatches_first(p), np->layer)->param[np->index].layout);
    for (int i = 0; i < count; i++) {
        a.x[i] = place_of(p, &nodes[i], param);
        a.ends[i] = nodes[i].to - first;
    }

    return sw_op_run(s, &sw_op_fold, &a, err);
}

/* Does this layer's backward complete the gradient? */
static bool completes(const struct sw_microbatches *p, int param)
{
    const struct sw_net_param *np = sw_net_param(sw_microbatches_first(p), param);
    return !np->frozen && np->root < 0 && p->microbatch[0].gradient[param];
}

/* Runs the merges of pooled gradients that the plan puts before a microbatch. */
static int merge_before(const struct sw_microbatches *p, struct sw_stream *s, int layer, int before,
                        struct sw_err *err)
{
    int first, count = sw_net_layer_params(sw_microbatches_first(p), layer, &first), rc = SW_OK;

    for (int m = 0; m < p->plan.merges; m++) {
        const struct sw_tree_merge *merge = &p->plan.merge[m];
        for (int q = first; q < first + count && merge->before == before && rc == SW_OK; q++)
            if (completes(p, q) && !sw_microbatches_keeps_gradient(sw_microbatches_first(p), q))
                rc = fold_nodes(p, s, q, &p->plan.node[merge->first], merge->count, err);
    }

    return rc;
}

/* Every microbatch has a separate buffer, so all leaves of a partial sum are reduced at once. */
static int fold_partials(const struct sw_microbatches *p, int param, struct sw_err *err)
{
    struct sw_tree_node nodes[SW_TREE_LEAVES];
    int rc = SW_OK;

    for (int i = 0, n; i < p->count && rc == SW_OK; i += n) {
        for (n = 0; i + n < p->count && p->plan.partial[i + n] == p->plan.partial[i]; n++) {
            nodes[n].from = p->plan.first + i + n;
            nodes[n].to = nodes[n].from + 1;
        }

        rc = fold_nodes(p, p->stream, param, nodes, n, err);
    }

    return rc;
}

/* Completes the partial sums after all microbatches have run, with all math threads. */
static int finish_partials(struct sw_microbatches *p, int layer, struct sw_err *err)
{
    int first, count = sw_net_layer_params(sw_microbatches_first(p), layer, &first);
    int rc = p->count > 1 ? merge_before(p, p->stream, layer, p->count, err) : SW_OK;

    for (int q = first; q < first + count && rc == SW_OK && p->count > 1; q++)
        if (completes(p, q) && sw_microbatches_keeps_gradient(sw_microbatches_first(p), q))
            rc = fold_partials(p, q, err);

    return rc;
}

/* ---- Passes ---- */

/* Runs the lane's microbatches one after another. */
static int run_lane(void *microbatches, int lane, struct sw_err *err)
{
    const struct sw_microbatches *p = microbatches;
    const struct sw_lane *l = &p->lane[lane];
    int rc = SW_OK;

    for (int i = l->first; i < l->first + l->count && rc == SW_OK; i++) {
        if (p->backward && p->turn == 0 && p->count > 1)
            rc = merge_before(p, l->stream, p->layer, i, err);
        if (rc == SW_OK)
            rc = sw_net_run_phase(p->microbatch[i].net, p->layer, p->backward, p->phase, err);
    }

    return rc;
}

static int run_lanes(struct sw_microbatches *p, struct sw_err *err)
{
    return p->alone ? sw_stream_run_lanes(p->stream, p->lanes, run_lane, p, err)
                    : run_lane(p, 0, err);
}

/* Copies the layer's sums of every microbatch to the host or back. */
static int move_sums(struct sw_microbatches *p, bool back, struct sw_err *err)
{
    int count, rc = SW_OK;

    for (int i = 0; i < p->count && rc == SW_OK; i++) {
        double *there = sw_net_sums(p->microbatch[i].net, p->layer, &count);
        size_t bytes = (size_t)count * sizeof *there;
        double *here = p->sums + (back ? 0 : i * count);
        rc = back ? sw_copy(p->stream, there, here, bytes, err)
                  : sw_copy(p->stream, here, there, bytes, err);
    }

    return rc == SW_OK && !back ? sw_stream_wait(p->stream, err) : rc;
}

/* Reduces the layer's sums over the group. */
static int add_sums(struct sw_microbatches *p, struct sw_err *err)
{
    int count;
    double *own = sw_net_sums(sw_microbatches_first(p), p->layer, &count);
    const struct sw_net_info info = sw_net_info(sw_microbatches_first(p), p->layer);
    if (!p->sum || !own || info.whole_batch)
        return SW_OK;
    if (p->queue_sum)
        return p->queue_sum(p->sum_user, own, count, err);
    if (!p->sums)
        return p->sum(p->sum_user, own, count, info.in_rows, err);

    int rc = move_sums(p, false, err);
    if (rc == SW_OK)
        rc = p->sum(p->sum_user, p->sums, count, info.in_rows, err);

    /* The host's copy is not written again before the next wait on this stream. */
    return rc == SW_OK ? move_sums(p, true, err) : rc;
}

bool sw_microbatches_only_queues(const struct sw_microbatches *p, int layer, bool backward)
{
    bool sums = p->sum && sw_net_phases(sw_microbatches_first(p), layer, backward) > 1;
    return !p->stream->dev->host_memory && !sums &&
           !sw_net_info(sw_microbatches_first(p), layer).moves;
}

static int run_layer(struct sw_microbatches *p, int layer, bool backward, struct sw_err *err)
{
    int phases = sw_net_phases(sw_microbatches_first(p), layer, backward), rc = SW_OK;

    p->layer = layer;

    p->backward = backward;
    for (p->phase = 0; p->phase < phases && rc == SW_OK; p->phase++) {
        if (p->phase > 0 && p->beat)
            p->beat(p->beat_user);
        if (p->phase > 0)
            rc = add_sums(p, err);
        if (rc != SW_OK)
            return sw_err_prefix(err, rc, "layer %s",
                                 sw_net_layer(sw_microbatches_first(p), layer)->name);

        rc = run_lanes(p, err);
    }

    return rc;
}

int sw_microbatches_forward(struct sw_microbatches *p, int layer, struct sw_err *err)
{
    return run_layer(p, layer, false, err);
}

int sw_microbatches_backward(struct sw_microbatches *p, int layer, struct sw_err *err)
{
    int rc = run_layer(p, layer, true, err);
    return rc == SW_OK ? finish_partials(p, layer, err) : rc;
}

static void set_turn(struct sw_microbatches *p, int turn)
{
    p->turn = turn;
    for (int i = 0; i < p->count; i++)
        sw_net_set_chain(p->microbatch[i].net, turn);
}

int sw_microbatches_gibbs_step(struct sw_microbatches *p, int layer, bool backward, int turn,
                               struct sw_err *err)
{
    set_turn(p, turn);
    int rc = run_layer(p, layer, backward, err);
    set_turn(p, 0);
    return rc;
}

int sw_microbatches_join_streams(struct sw_microbatches *p, struct sw_err *err)
{
    int rc = SW_OK;
    for (int i = 0; i < p->count && rc == SW_OK; i++)
        rc = sw_net_join_streams(p->microbatch[i].net, err);
    return rc;
}

void sw_microbatches_wait(struct sw_microbatches *p)
{
    for (int i = 0; p && i < p->count; i++)
        sw_net_settle(p->microbatch[i].net);
}

int sw_microbatches_fetch(struct sw_microbatches *p, struct sw_err *err)
{
    int rc = SW_OK;
    for (int i = 0; i < p->count && rc == SW_OK; i++)
        rc = sw_net_fetch(p->microbatch[i].net, err);
    return rc;
}
