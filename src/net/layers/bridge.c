/* Bridges: the two ends of a connection between layers whose outputs are distributed over the group
 * differently; slice, concat, split and gather are special cases (net/partition.h has the table). A
 * bridge_src is placed right after the layer that is read, and a bridge_dst right before the first
 * reader: data is sent as early as possible and waited for as late as possible. Activations go from
 * src to dst, gradients from dst to src.
 *
 * In shared host memory nothing is packed: the sender publishes the address of its shard, and the
 * receiver copies from there, or adds partial sums, or reads the data in place if all of it is
 * contiguous there. The sender overwrites that memory only after all receivers have released it.
 * Between devices pieces go through staging memory (net/transfer.h), packed on a separate stream
 * and ordered by events; the sender does not wait. A receiver whose data has not arrived first
 * waits for its own device, so a worker whose device hangs is found waiting for the device and not
 * for another worker.
 *
 * Bridges work on plain layouts, and add floats: another source is reordered first, its gradient
 * last. Terms of a
 * sum are added in worker order, so the result does not depend on the order of arrival. Training
 * and evaluation nets use the same arena, so all workers pass a barrier between a training step and
 * an evaluation (worker/worker.c). */
#include "net/layers/bridge.h"

#include "base/os.h"
#include <string.h>

/* ---- Setup ---- */

/* The first half of stamps is for pieces that this end sends, the second for pieces that it
 * receives.
 */
static int make_stamps(struct sw_bridge *st, bool sends_backward, struct sw_err *err)
{
    size_t stamps = 2 * (size_t)st->workers;

    st->stamps = sw_calloc(stamps, sizeof *st->stamps);
    if (!st->stamps)
        return sw_err_nomem(err, "a connection", stamps * sizeof *st->stamps);

    for (int k = 0; k < st->workers; k++) {
        st->stamps[k] = (struct sw_bridge_stamp){st, {st->c.index, st->worker, k, sends_backward}};
        st->stamps[st->workers + k] =
            (struct sw_bridge_stamp){st, {st->c.index, k, st->worker, !sends_backward}};
    }

    return SW_OK;
}

/* Values that are added on the way are sent as floats. */
static enum sw_dtype sent_type(const struct sw_layer *l, const struct sw_bridge_args *a)
{
    enum sw_dtype type = l->src[0]->desc.dtype;
    bool adds = sw_movement_adds(a->from, a->to, false) || sw_movement_adds(a->from, a->to, true);
    return sw_dtype_is_half(type) && adds ? SW_F32 : type;
}

static struct sw_net_connection make_connection(const struct sw_layer *l,
                                                const struct sw_bridge_args *a,
                                                const struct sw_layer_setup *s)
{
    const struct sw_desc *in = &l->src[0]->desc;
    int64_t inner = 1, columns = in->ndim > 1 ? in->dim[1] : 1;

    for (int i = 2; i < in->ndim; i++)
        inner *= in->dim[i];
    return (struct sw_net_connection){
        .index = a->index,
        .move.from = a->from,
        .move.to = a->to,
        .move.rows = a->from.dist == SW_DIST_ROWS ? a->group_rows : in->dim[0],
        .move.columns = a->from.dist == SW_DIST_COLUMNS ? s->channels : columns,
        .type = sent_type(l, a),
        .column_bytes = (size_t)inner * sw_dtype_bytes(sent_type(l, a))};
}

static int make_reorders(struct sw_layer *l, const struct sw_layer_setup *s, struct sw_err *err)
{
    struct sw_bridge *st = l->state;
    const struct sw_desc *in = &l->src[0]->desc;
    if (sw_desc_is_plain(in) && in->dtype == st->plain.dtype)
        return SW_OK;

    int rc = sw_layer_reorder(l, s->stream, in, &st->plain, &st->to_plain, err);
    return rc == SW_OK && (s->wants_grad & 1)
               ? sw_layer_reorder(l, s->stream, &st->plain, in, &st->from_plain, err)
               : rc;
}

/* Finds the owner (struct sw_bridge); there is none if partial sums are added. */
static int find_owner(const struct sw_bridge *st, bool backward)
{
    const struct sw_rect *whole = backward ? &st->mine : &st->theirs;

    if (!st->host || sw_movement_adds(st->c.move.from, st->c.move.to, backward))
        return -1;

    for (int j = 0; j < st->workers; j++) {
        struct sw_rect p = sw_bridge_shard(st, backward, j),
                       r = sw_bridge_piece(st, backward, j, st->worker);
        if (!sw_rect_is_empty(&r) && r.rows == whole->rows && r.columns == whole->columns &&
            r.columns == p.columns && sw_bridge_offset(st, &p, &r) % SW_BRIDGE_LINE == 0)
            return j;
    }

    return -1;
}

/* Do some elements of the shard receive no gradient? A slice reads some of its source's columns and
 * sends back the gradient of these only. */
static bool misses_some(const struct sw_bridge *st)
{
    int64_t missing = st->mine.rows * st->mine.columns;

    for (int j = 0; j < st->workers; j++) {
        struct sw_rect r = sw_bridge_piece(st, true, j, st->worker);
        missing -= sw_rect_is_empty(&r) ? 0 : r.rows * r.columns;
    }

    return missing > 0 && !sw_movement_adds(st->c.move.from, st->c.move.to, true);
}

static int setup_src(struct sw_layer *l, const struct sw_bridge_args *a,
                     const struct sw_layer_setup *s, struct sw_err *err)
{
    struct sw_bridge *st = l->state;
    const struct sw_desc *in = &l->src[0]->desc;

    *st = (struct sw_bridge){
        .stream = a->stream,
        .c = make_connection(l, a, s),
        .workers = a->workers,
        .worker = a->worker,
        .host = a->stream->dev->host_memory,
        .plain = sw_desc_plain(sent_type(l, a), in->ndim, in->dim),
    };

    const struct sw_net_connection *c = &st->c;
    if (!sw_distribution_suits(c->move.to, c->move.columns, st->workers))
        return sw_err_set(err, SW_ERR_INVALID,
                          "the %lld columns of its source cannot be split over %d workers: use "
                          "partition = 0",
                          (long long)c->move.columns, st->workers);

    if (c->move.to.groups > 0 && c->move.columns % c->move.to.groups)
        return sw_err_set(err, SW_ERR_INVALID,
                          "the %lld columns of its source cannot be divided into %lld equal groups",
                          (long long)c->move.columns, (long long)c->move.to.groups);

    st->mine =
        sw_distribution_rect(c->move.from, c->move.rows, c->move.columns, st->workers, st->worker);
    st->theirs =
        sw_distribution_rect(c->move.to, c->move.rows, c->move.columns, st->workers, st->worker);
    st->plain_bytes = sw_desc_bytes(&st->plain);
    st->misses = misses_some(st);
    l->dst.desc = st->plain;

    int rc = make_reorders(l, s, err);
    if (rc != SW_OK)
        return rc;

    st->owner = st->to_plain ? -1 : find_owner(st, true);
    if (!st->to_plain && !(st->host && a->borrowed))
        l->in_place = l->view = true;

    /* Scratch for the plain gradient, and for one partial sum. */
    bool adds = (s->wants_grad & 1) && sw_movement_adds(c->move.from, c->move.to, true);
    l->scratch_bytes =
        (size_t)((st->from_plain != NULL) + adds) * (st->plain_bytes + SW_BRIDGE_LINE);

    return make_stamps(st, false, err);
}

static int setup_dst(struct sw_layer *l, const struct sw_layer *lower, struct sw_err *err)
{
    struct sw_bridge *st = l->state;
    const struct sw_desc *in = &l->src[0]->desc;
    int64_t dim[SW_MAX_DIMS];

    *st = *(const struct sw_bridge *)lower->state;
    st->to_plain = st->from_plain = NULL;
    st->owner = find_owner(st, false);
    l->algorithm = sw_movement_cell(st->c.move.from, st->c.move.to)->forward;
    memcpy(dim, in->dim, sizeof dim);

    /* A worker without a shard uses the full shape, and no memory is allocated for it. */
    dim[0] = st->c.move.to.dist == SW_DIST_ROWS ? st->theirs.rows : st->c.move.rows;
    if (in->ndim > 1)
        dim[1] = st->c.move.to.dist == SW_DIST_COLUMNS ? st->theirs.columns : st->c.move.columns;
    l->dst.desc = sw_desc_plain(in->dtype, in->ndim, dim);
    if (sw_movement_adds(st->c.move.from, st->c.move.to, false))
        l->scratch_bytes = sw_desc_bytes(&l->dst.desc) + SW_BRIDGE_LINE;

    return make_stamps(st, true, err);
}

int sw_bridge_setup(struct sw_layer *l, const struct sw_bridge_args *args,
                    const struct sw_layer_setup *setup, struct sw_err *err)
{
    return l->type == &sw_net_bridge_src ? setup_src(l, args, setup, err)
                                         : setup_dst(l, args->lower, err);
}

static void teardown(struct sw_layer *l)
{
    struct sw_bridge *st = l->state;
    sw_free(st->stamps);
}

/* ---- Passes ---- */

static char *room_of(const struct sw_bridge *st, struct sw_layer *l)
{
    size_t plain = st->from_plain ? sw_aligned(st->plain_bytes, SW_BRIDGE_LINE) : 0;
    return (char *)l->scratch + plain;
}

static int forward_src(struct sw_layer *l, const struct sw_pass *r, struct sw_err *err)
{
    struct sw_bridge *st = l->state;
    struct sw_plan_args a = {.src = l->src[0]->data, .dst = l->dst.data};
    int rc = SW_OK;

    if (sw_rect_is_empty(&st->mine))
        rc = SW_OK;
    else if (st->to_plain)
        rc = sw_plan_forward(st->to_plain, &a, err);
    else if (l->dst.data != l->src[0]->data)
        rc = sw_copy(r->stream, l->dst.data, l->src[0]->data, st->plain_bytes, err);

    return rc == SW_OK ? sw_bridge_send(st, l->dst.data, err) : rc;
}

static int forward_dst(struct sw_layer *l, const struct sw_pass *r, struct sw_err *err)
{
    struct sw_bridge *st = l->state;
    const struct sw_bridge_receive_args t = {
        .place = &st->theirs, .to = l->dst.data, .own = l->src[0]->data, .room = room_of(st, l)};
    void *at;

    if (st->owner < 0)
        return sw_bridge_receive(st, &t, err);

    int rc = sw_bridge_wait_in_place(st, t.own, &at, err);
    if (rc == SW_OK)
        l->dst.data = at;

    return rc;
}

static int backward_dst(struct sw_layer *l, const struct sw_pass *r, struct sw_err *err)
{
    return sw_bridge_send(l->state, (char *)l->dst.grad, err);
}

static int backward_src(struct sw_layer *l, const struct sw_pass *r, struct sw_err *err)
{
    struct sw_bridge *st = l->state;
    const struct sw_bridge_receive_args t = {.place = &st->mine,
                                             .to = st->from_plain ? l->scratch
                                                                  : (char *)l->src_grad[0],
                                             .own = sw_bridge_published(st, st->worker, true),
                                             .room = room_of(st, l)};
    void *at = NULL;
    int rc = st->misses ? sw_fill_zero(r->stream, t.to, st->plain_bytes, err) : SW_OK;

    if (rc == SW_OK)
        rc = st->reads_gradient_in_place ? sw_bridge_wait_in_place(st, t.own, &at, err)
                                         : sw_bridge_receive(st, &t, err);

    if (rc == SW_OK && st->reads_gradient_in_place)
        l->src[0]->grad = at;
    if (rc != SW_OK || !st->from_plain || sw_rect_is_empty(&st->mine))
        return rc;

    struct sw_plan_args a = {.src = (const float *)(const void *)t.to, .dst = l->src_grad[0]};
    return sw_plan_forward(st->from_plain, &a, err);
}

/* Bridges are not in the registry: only the partitioner creates them. */
const struct sw_layer_type sw_net_bridge_src = {
    .base = {.name = "bridge_src",
             .help = "sends an output to the workers that need it distributed differently"},
    .halves = SW_HALVES_AS_SOURCE,
    SW_LAYER_SOURCES(1, 1),
    .state_bytes = sizeof(struct sw_bridge),
    .forward = forward_src,
    .backward = backward_src,
    .teardown = teardown,
};

const struct sw_layer_type sw_net_bridge_dst = {
    .base = {.name = "bridge_dst", .help = "an output distributed as its readers need it"},
    .halves = SW_HALVES_AS_SOURCE,
    SW_LAYER_SOURCES(1, 1),
    .state_bytes = sizeof(struct sw_bridge),
    .forward = forward_dst,
    .backward = backward_dst,
    .teardown = teardown,
};
