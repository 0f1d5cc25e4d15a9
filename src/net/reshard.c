/* reshard: the one connection between layers. Its source is spread over the group in one way, its
 * output in another; slice, concat, split, gather and bridges are its cases (net/partition.h has
 * the table). A pass packs what others need into staging memory, meets the group, and unpacks what
 * it needs itself. It works on plain layouts: a blocked source is reordered first, its gradient
 * last. A part of a sum is added up in worker order, so the result does not depend on who comes
 * first. */
#include "net/net_private.h"

#include "base/os.h"
#include "device/ops/elementwise.h"
#include <string.h>

/* A moment behind a copy in the stream, which tells how long the copy took. */
struct lap {
    struct state *of;
    int from, to; /* workers; the same: from here on is measured */
};

struct state {
    struct sw_net *net; /* borrowed: its exchange */
    int index;          /* among the net's connections */
    int workers, worker;
    enum sw_dist from, to;
    int64_t rows, columns;                 /* of the whole */
    size_t column_bytes;                   /* of one column of one row */
    struct sw_rect mine, theirs;           /* what this worker has before and after */
    struct sw_desc plain;                  /* of the source's part */
    struct sw_plan *to_plain, *from_plain; /* owned; NULL: it is plain */
    size_t plain_bytes;
    unsigned turn[2];          /* passes so far, forward and backward */
    struct lap *sends, *takes; /* owned [workers]: to and from each */
    int64_t lap_ns;            /* of the newest; touched by the stream alone */
};

struct sw_net_connection sw_net_connection(const struct sw_layer *l)
{
    const struct state *st = l->state;
    return (struct sw_net_connection){.from = st->from,
                                      .to = st->to,
                                      .rows = st->rows,
                                      .columns = st->columns,
                                      .column_bytes = st->column_bytes};
}

/* Bytes of the piece that j sends to k. */
static size_t piece_bytes(const struct state *st, const struct sw_rect *r)
{
    return sw_rect_is_empty(r) ? 0 : (size_t)(r->rows * r->columns) * st->column_bytes;
}

/* Copies a rectangle between a part (which lies at `place` in the whole) and contiguous memory. */
static int move(const struct state *st, struct sw_stream *s, const struct sw_rect *place,
                char *part, const struct sw_rect *r, char *piece, bool pack, struct sw_err *err)
{
    if (sw_rect_is_empty(r))
        return SW_OK;
    size_t pitch = (size_t)place->columns * st->column_bytes;
    size_t width = (size_t)r->columns * st->column_bytes;
    char *at = part + (size_t)(r->row - place->row) * pitch +
               (size_t)(r->column - place->column) * st->column_bytes;
    return pack ? sw_copy_2d(s, piece, width, at, pitch, width, r->rows, err)
                : sw_copy_2d(s, at, pitch, piece, width, width, r->rows, err);
}

/* On a thread of the device. */
static void stamp(void *user)
{
    const struct lap *lap = user;
    struct state *st = lap->of;
    int64_t now_ns = sw_os()->monotonic_ns();
    if (lap->from != lap->to)
        sw_exchange_add_ns(st->net->exchange, lap->from, lap->to, now_ns - st->lap_ns);
    st->lap_ns = now_ns;
}

static int make_laps(struct state *st, struct sw_err *err)
{
    st->sends = sw_calloc((size_t)st->workers, sizeof *st->sends);
    st->takes = sw_calloc((size_t)st->workers, sizeof *st->takes);
    if (!st->sends || !st->takes)
        return sw_err_nomem(err, "a connection", (size_t)st->workers * sizeof *st->sends);
    for (int k = 0; k < st->workers; k++) {
        st->sends[k] = (struct lap){st, st->worker, k};
        st->takes[k] = (struct lap){st, k, st->worker};
    }
    return SW_OK;
}

static int take_lap(const struct state *st, struct lap *lap, struct sw_err *err)
{
    return sw_stream_call(st->net->stream, stamp, lap, err);
}

int sw_net_reshard_setup(struct sw_net *net, struct sw_net_node *node,
                         const struct sw_layer_setup *s, struct sw_err *err)
{
    struct sw_layer *l = &node->layer;
    struct state *st = l->state;
    enum sw_dist from = node->from, to = node->dist;
    int workers = net->workers, worker = net->worker;
    const struct sw_desc *in = &l->src[0]->desc;
    int64_t inner = 1, columns = in->ndim > 1 ? in->dim[1] : 1;
    for (int i = 2; i < in->ndim; i++)
        inner *= in->dim[i];
    if (from == SW_DIST_COLUMNS)
        columns = s->channels;
    l->algorithm = sw_movement_cell(from, to)->forward;
    *st = (struct state){.net = net,
                         .index = net->connections++,
                         .workers = workers,
                         .worker = worker,
                         .from = from,
                         .to = to,
                         .rows = from == SW_DIST_ROWS ? net->group_rows : in->dim[0],
                         .columns = columns,
                         .column_bytes = (size_t)inner * sw_dtype_bytes(in->dtype)};
    if (to == SW_DIST_COLUMNS && columns < workers)
        return sw_err_set(err, SW_ERR_INVALID,
                          "the %lld columns of its source cannot be split over %d workers: use "
                          "partition = 0",
                          (long long)columns, workers);
    st->mine = sw_dist_rect(from, st->rows, st->columns, workers, worker);
    st->theirs = sw_dist_rect(to, st->rows, st->columns, workers, worker);
    st->plain = sw_desc_plain(in->dtype, in->ndim, in->dim);
    st->plain_bytes = sw_desc_bytes(&st->plain);
    struct sw_desc out = st->plain;
    int64_t dim[SW_MAX_DIMS];
    memcpy(dim, in->dim, sizeof dim);
    /* A worker that has nothing sees the shape of everything, and takes no memory for it. */
    dim[0] = to == SW_DIST_ROWS ? st->theirs.rows : st->rows;
    if (in->ndim > 1)
        dim[1] = to == SW_DIST_COLUMNS ? st->theirs.columns : st->columns;
    out = sw_desc_plain(in->dtype, in->ndim, dim);
    l->dst.desc = out;
    const struct sw_plan_makers *make = s->stream->dev->ops->plans;
    int rc = make_laps(st, err);
    if (rc == SW_OK && !sw_desc_is_plain(in)) {
        rc = make->reorder(s->stream, in, &st->plain, &st->to_plain, err);
        if (rc == SW_OK && (s->wants_grad & 1))
            rc = make->reorder(s->stream, &st->plain, in, &st->from_plain, err);
    }
    /* Room for the plain source or its gradient, and for one piece of a sum. */
    l->scratch_bytes = 2 * (st->plain_bytes + 64);
    return rc;
}

/* turn: 0 and 1 for forward passes, 2 and 3 for backward ones. */
static char *stage(const struct sw_layer *l, const struct sw_net *net, int from, int to, int turn)
{
    const struct state *st = l->state;
    return sw_exchange_stage(net->exchange, st->index, from, to, turn);
}

/* The source's part in plain order. */
static int plain_source(struct sw_layer *l, char **x, struct sw_err *err)
{
    struct state *st = l->state;
    *x = l->src[0]->data;
    if (!st->to_plain || sw_rect_is_empty(&st->mine))
        return SW_OK;
    struct sw_plan_args a = {.src = l->src[0]->data, .dst = l->scratch};
    *x = l->scratch;
    return sw_plan_forward(st->to_plain, &a, err);
}

static int meet(struct sw_net *net, struct sw_err *err)
{
    int rc = sw_stream_wait(net->stream, err);
    if (rc == SW_OK && sw_exchange_meet(net->exchange, net->worker) != SW_OK)
        rc = sw_err_set(err, SW_ERR_CANCELLED, "the job is ending");
    return rc;
}

/* Packs what every other worker needs of `part`, which lies at `place`. */
static int pack_all(struct sw_net *net, const struct sw_layer *l, const struct sw_rect *place,
                    char *part, bool backward, int turn, struct sw_err *err)
{
    const struct state *st = l->state;
    int rc = take_lap(st, &st->sends[st->worker], err);
    for (int k = 0; k < st->workers && rc == SW_OK; k++) {
        if (k == st->worker)
            continue;
        struct sw_rect r = sw_movement(st->from, st->to, backward, st->rows, st->columns,
                                       st->workers, st->worker, k);
        if (sw_rect_is_empty(&r))
            continue;
        rc = move(st, net->stream, place, part, &r, stage(l, net, st->worker, k, turn), true, err);
        if (rc == SW_OK)
            rc = take_lap(st, &st->sends[k], err);
    }
    return rc;
}

/* Unpacks worker j's piece of the output. */
static int take_output(struct sw_net *net, const struct sw_layer *l, int j, int turn, char *x,
                       struct sw_err *err)
{
    const struct state *st = l->state;
    char *y = l->dst.data;
    struct sw_rect rect =
        sw_movement(st->from, st->to, false, st->rows, st->columns, st->workers, j, st->worker);
    if (j != st->worker)
        return move(st, net->stream, &st->theirs, y, &rect, stage(l, net, j, st->worker, turn),
                    false, err);
    if (sw_rect_is_empty(&rect))
        return SW_OK;
    size_t pitch = (size_t)st->mine.columns * st->column_bytes;
    size_t out_pitch = (size_t)st->theirs.columns * st->column_bytes;
    char *at = x + (size_t)(rect.row - st->mine.row) * pitch +
               (size_t)(rect.column - st->mine.column) * st->column_bytes;
    char *to = y + (size_t)(rect.row - st->theirs.row) * out_pitch +
               (size_t)(rect.column - st->theirs.column) * st->column_bytes;
    return sw_copy_2d(net->stream, to, out_pitch, at, pitch,
                      (size_t)rect.columns * st->column_bytes, rect.rows, err);
}

static int forward(struct sw_layer *l, const struct sw_pass *r, struct sw_err *err)
{
    struct state *st = l->state;
    struct sw_net *net = st->net;
    (void)r;
    int turn = (int)(st->turn[0]++ & 1);
    char *x;
    int rc = plain_source(l, &x, err);
    if (rc == SW_OK)
        rc = pack_all(net, l, &st->mine, x, false, turn, err);
    if (rc == SW_OK)
        rc = meet(net, err);
    if (rc == SW_OK)
        rc = take_lap(st, &st->takes[st->worker], err);
    for (int j = 0; j < st->workers && rc == SW_OK; j++) {
        rc = take_output(net, l, j, turn, x, err);
        if (rc == SW_OK)
            rc = take_lap(st, &st->takes[j], err);
    }
    return rc;
}

/* Takes worker j's piece of the gradient: as it is, or added to what came before. */
static int take_piece(struct sw_net *net, struct sw_layer *l, int j, int turn, bool add, char *dx,
                      struct sw_err *err)
{
    const struct state *st = l->state;
    struct sw_rect r =
        sw_movement(st->from, st->to, true, st->rows, st->columns, st->workers, j, st->worker);
    if (sw_rect_is_empty(&r))
        return SW_OK;
    char *room = (char *)l->scratch + (st->plain_bytes + 63) / 64 * 64;
    bool own = j == st->worker;
    char *piece = own ? room : stage(l, net, j, st->worker, turn);
    int rc = SW_OK;
    if (own)
        rc = move(st, net->stream, &st->theirs, (char *)l->dst.grad, &r, room, true, err);
    else if (add) {
        piece = room;
        rc = sw_copy(net->stream, room, stage(l, net, j, st->worker, turn), piece_bytes(st, &r),
                     err);
    }
    if (rc != SW_OK)
        return rc;
    /* A part of a sum covers all of what this worker has. */
    if (add)
        return sw_op_add(net->stream, (float *)(void *)dx, (const float *)(const void *)piece,
                         r.rows * r.columns * (int64_t)(st->column_bytes / sizeof(float)), err);
    return move(st, net->stream, &st->mine, dx, &r, piece, false, err);
}

static int backward(struct sw_layer *l, const struct sw_pass *r, struct sw_err *err)
{
    struct state *st = l->state;
    struct sw_net *net = st->net;
    (void)r;
    int turn = 2 + (int)(st->turn[1]++ & 1);
    bool sum = st->to == SW_DIST_FULL;
    char *dx = st->from_plain ? l->scratch : (char *)l->src_grad[0];
    int rc = pack_all(net, l, &st->theirs, (char *)l->dst.grad, true, turn, err);
    if (rc == SW_OK)
        rc = meet(net, err);
    if (rc == SW_OK)
        rc = take_lap(st, &st->takes[st->worker], err);
    for (int j = 0; j < st->workers && rc == SW_OK; j++) {
        rc = take_piece(net, l, j, turn, sum && j > 0, dx, err);
        if (rc == SW_OK)
            rc = take_lap(st, &st->takes[j], err);
    }
    if (rc != SW_OK || !st->from_plain || sw_rect_is_empty(&st->mine))
        return rc;
    struct sw_plan_args a = {.src = (const float *)(const void *)dx, .dst = l->src_grad[0]};
    return sw_plan_forward(st->from_plain, &a, err);
}

static void teardown(struct sw_layer *l)
{
    struct state *st = l->state;
    sw_plan_free(st->to_plain);
    sw_plan_free(st->from_plain);
    sw_free(st->sends);
    sw_free(st->takes);
}

/* Not in the registry: only the partitioner makes it. */
const struct sw_layer_type sw_net_reshard = {
    .base = {.name = "reshard", .help = "moves an output between ways of spreading it"},
    .role = SW_ROLE_NEURON,
    .min_src = 1,
    .max_src = 1,
    .state_bytes = sizeof(struct state),
    .forward = forward,
    .backward = backward,
    .teardown = teardown,
};
