/* reshard: the one connection between layers. Its source is spread over the group in one way, its
 * output in another; slice, concat, split, gather and bridges are its cases (net/partition.h has
 * the table). A pass packs what others need into staging memory, and unpacks what it needs itself
 * as soon as it is there (net/exchange.h): whoever needs nothing computes on. It works on plain
 * layouts: a blocked source is reordered first, its gradient last. Terms of a sum are added up in
 * worker order, so the result does not depend on who comes first. */
#include "net/net_private.h"

#include "base/os.h"
#include "device/ops/elementwise.h"
#include <string.h>

/* A moment behind the copy of a piece in the stream, which tells how long the copy took. */
struct lap {
    struct state *of;
    struct sw_piece piece; /* from and to the same: from here on is measured */
};

struct state {
    struct sw_net *net; /* borrowed: its exchange */
    int index;          /* among the net's connections */
    int workers, worker;
    struct sw_spread from, to;
    int64_t rows, columns;                 /* of the whole */
    size_t column_bytes;                   /* of one column of one row */
    struct sw_rect mine, theirs;           /* what this worker has before and after */
    struct sw_desc plain;                  /* of the source's part */
    struct sw_plan *to_plain, *from_plain; /* owned; NULL: it is plain */
    size_t plain_bytes;
    uint64_t passes[2];        /* so far, forward and backward */
    struct lap *sends, *takes; /* owned [2: forward, backward][workers]: to and from each */
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
    const struct sw_piece *p = &lap->piece;
    if (p->from != p->to)
        sw_exchange_add_ns(st->net->exchange, p->from, p->to, now_ns - st->lap_ns);
    st->lap_ns = now_ns;
}

static int make_laps(struct state *st, struct sw_err *err)
{
    size_t laps = 2 * (size_t)st->workers;
    st->sends = sw_calloc(laps, sizeof *st->sends);
    st->takes = sw_calloc(laps, sizeof *st->takes);
    if (!st->sends || !st->takes)
        return sw_err_nomem(err, "a connection", laps * sizeof *st->sends);
    for (int back = 0; back < 2; back++)
        for (int k = 0; k < st->workers; k++) {
            struct sw_piece there = {st->index, st->worker, k, back},
                            here = {st->index, k, st->worker, back};
            st->sends[back * st->workers + k] = (struct lap){st, there};
            st->takes[back * st->workers + k] = (struct lap){st, here};
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
    struct sw_spread from = node->from, to = node->spread;
    int workers = net->workers, worker = net->worker;
    const struct sw_desc *in = &l->src[0]->desc;
    int64_t inner = 1, columns = in->ndim > 1 ? in->dim[1] : 1;
    for (int i = 2; i < in->ndim; i++)
        inner *= in->dim[i];
    if (from.dist == SW_DIST_COLUMNS)
        columns = s->channels;
    l->algorithm = sw_movement_cell(from, to)->forward;
    *st = (struct state){.net = net,
                         .index = net->connections++,
                         .workers = workers,
                         .worker = worker,
                         .from = from,
                         .to = to,
                         .rows = from.dist == SW_DIST_ROWS ? net->group_rows : in->dim[0],
                         .columns = columns,
                         .column_bytes = (size_t)inner * sw_dtype_bytes(in->dtype)};
    if (to.dist == SW_DIST_COLUMNS && columns < workers)
        return sw_err_set(err, SW_ERR_INVALID,
                          "the %lld columns of its source cannot be split over %d workers: use "
                          "partition = 0",
                          (long long)columns, workers);
    st->mine = sw_spread_rect(from, st->rows, st->columns, workers, worker);
    st->theirs = sw_spread_rect(to, st->rows, st->columns, workers, worker);
    st->plain = sw_desc_plain(in->dtype, in->ndim, in->dim);
    st->plain_bytes = sw_desc_bytes(&st->plain);
    struct sw_desc out = st->plain;
    int64_t dim[SW_MAX_DIMS];
    memcpy(dim, in->dim, sizeof dim);
    /* A worker that has nothing sees the shape of everything, and takes no memory for it. */
    dim[0] = to.dist == SW_DIST_ROWS ? st->theirs.rows : st->rows;
    if (in->ndim > 1)
        dim[1] = to.dist == SW_DIST_COLUMNS ? st->theirs.columns : st->columns;
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

/* One way through a connection: from the part that this worker has to the one it is to have. */
struct way {
    bool backward, adds; /* adds: pieces are terms of a sum */
    uint64_t pass;
    int turn;
    struct lap *sends, *takes; /* of this direction */
    const struct sw_rect *before, *after;
    char *from, *to;
};

static struct sw_rect piece(const struct state *st, const struct way *w, int from, int to)
{
    return sw_movement(st->from, st->to, w->backward, st->rows, st->columns, st->workers, from, to);
}

static struct way way_of(struct state *st, bool backward)
{
    uint64_t pass = st->passes[backward]++;
    int laps = backward ? st->workers : 0;
    return (struct way){.backward = backward,
                        .adds = sw_movement_adds(st->from, st->to, backward),
                        .pass = pass,
                        .turn = (backward ? 2 : 0) + (int)(pass & 1),
                        .sends = &st->sends[laps],
                        .takes = &st->takes[laps],
                        .before = backward ? &st->theirs : &st->mine,
                        .after = backward ? &st->mine : &st->theirs};
}

static int cancelled(int rc, struct sw_err *err)
{
    return rc == SW_OK ? rc : sw_err_set(err, SW_ERR_CANCELLED, "the job is ending");
}

/* Packs what every other worker needs. */
static int pack_all(struct sw_net *net, const struct sw_layer *l, const struct way *w,
                    struct sw_err *err)
{
    const struct state *st = l->state;
    int rc = take_lap(st, &w->sends[st->worker], err);
    for (int k = 0; k < st->workers && rc == SW_OK; k++) {
        struct sw_rect r = piece(st, w, st->worker, k);
        if (k == st->worker || sw_rect_is_empty(&r))
            continue;
        rc = cancelled(sw_exchange_wait_room(net->exchange, &w->sends[k].piece, w->pass), err);
        if (rc == SW_OK)
            rc = move(st, net->stream, w->before, w->from, &r,
                      stage(l, net, st->worker, k, w->turn), true, err);
        if (rc == SW_OK)
            rc = take_lap(st, &w->sends[k], err);
    }
    return rc;
}

/* What stays here goes straight from the one part to the other. */
static int keep_own(struct sw_net *net, const struct state *st, const struct way *w,
                    const struct sw_rect *r, struct sw_err *err)
{
    size_t pitch = (size_t)w->before->columns * st->column_bytes;
    const char *at = w->from + (size_t)(r->row - w->before->row) * pitch +
                     (size_t)(r->column - w->before->column) * st->column_bytes;
    size_t to_pitch = (size_t)w->after->columns * st->column_bytes;
    char *to = w->to + (size_t)(r->row - w->after->row) * to_pitch +
               (size_t)(r->column - w->after->column) * st->column_bytes;
    return sw_copy_2d(net->stream, to, to_pitch, at, pitch, (size_t)r->columns * st->column_bytes,
                      r->rows, err);
}

/* A term of a sum covers all of what this worker is to have, and so is added in one run. */
static int add_piece(struct sw_net *net, struct sw_layer *l, const struct way *w, int j,
                     const struct sw_rect *r, struct sw_err *err)
{
    const struct state *st = l->state;
    char *room = (char *)l->scratch + (st->plain_bytes + 63) / 64 * 64;
    int rc = j == st->worker ? move(st, net->stream, w->before, w->from, r, room, true, err)
                             : sw_copy(net->stream, room, stage(l, net, j, st->worker, w->turn),
                                       piece_bytes(st, r), err);
    if (rc != SW_OK)
        return rc;
    return sw_op_add(net->stream, (float *)(void *)w->to, (const float *)(const void *)room,
                     r->rows * r->columns * (int64_t)(st->column_bytes / sizeof(float)), err);
}

/* Takes worker j's piece: as it is, or added to what came before. */
static int take_piece(struct sw_net *net, struct sw_layer *l, const struct way *w, int j,
                      struct sw_err *err)
{
    const struct state *st = l->state;
    struct sw_rect r = piece(st, w, j, st->worker);
    if (sw_rect_is_empty(&r))
        return SW_OK;
    int rc =
        j == st->worker
            ? SW_OK
            : cancelled(sw_exchange_wait_piece(net->exchange, &w->takes[j].piece, w->pass), err);
    /* What was waited is not the copy's time. */
    if (rc == SW_OK && j != st->worker)
        rc = take_lap(st, &w->takes[st->worker], err);
    if (rc == SW_OK && w->adds && j > 0)
        rc = add_piece(net, l, w, j, &r, err);
    else if (rc == SW_OK && j == st->worker)
        rc = keep_own(net, st, w, &r, err);
    else if (rc == SW_OK)
        rc = move(st, net->stream, w->after, w->to, &r, stage(l, net, j, st->worker, w->turn),
                  false, err);
    return rc == SW_OK && j != st->worker ? take_lap(st, &w->takes[j], err) : rc;
}

/* Marks what has been sent in this pass, or taken in the one before. */
static void mark_all(const struct state *st, const struct way *w, bool taken)
{
    for (int k = 0; k < st->workers; k++) {
        const struct sw_piece *p = taken ? &w->takes[k].piece : &w->sends[k].piece;
        struct sw_rect r = piece(st, w, p->from, p->to);
        if (k != st->worker && !sw_rect_is_empty(&r))
            sw_exchange_mark(st->net->exchange, p, taken);
    }
}

static int go(struct sw_net *net, struct sw_layer *l, const struct way *w, struct sw_err *err)
{
    const struct state *st = l->state;
    int rc = pack_all(net, l, w, err);
    /* Now what was packed is in the staging memory, and what was taken last is out of it. */
    if (rc == SW_OK)
        rc = sw_stream_wait(net->stream, err);
    if (rc == SW_OK)
        mark_all(st, w, false);
    if (rc == SW_OK && w->pass > 0)
        mark_all(st, w, true);
    for (int j = 0; j < st->workers && rc == SW_OK; j++)
        rc = take_piece(net, l, w, j, err);
    return rc;
}

static int forward(struct sw_layer *l, const struct sw_pass *r, struct sw_err *err)
{
    struct state *st = l->state;
    (void)r;
    struct way w = way_of(st, false);
    w.to = l->dst.data;
    int rc = plain_source(l, &w.from, err);
    return rc == SW_OK ? go(st->net, l, &w, err) : rc;
}

static int backward(struct sw_layer *l, const struct sw_pass *r, struct sw_err *err)
{
    struct state *st = l->state;
    (void)r;
    struct way w = way_of(st, true);
    w.from = (char *)l->dst.grad;
    w.to = st->from_plain ? l->scratch : (char *)l->src_grad[0];
    int rc = go(st->net, l, &w, err);
    if (rc != SW_OK || !st->from_plain || sw_rect_is_empty(&st->mine))
        return rc;
    struct sw_plan_args a = {.src = (const float *)(const void *)w.to, .dst = l->src_grad[0]};
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
