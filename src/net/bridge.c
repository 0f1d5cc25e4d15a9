/* Bridges: the two ends of a connection between layers whose outputs are spread over the group in
 * different ways; slice, concat, split and gather are its cases (net/partition.h has the table). A
 * bridge_src stands right behind the layer that is read, a bridge_dst before the first layer that
 * reads what it wants: so what others need is sent at once, and nobody waits for anything before he
 * needs it himself. Forward goes from src to dst, the gradient from dst to src.
 *
 * Where workers reach each other's memory nothing is packed: who sends says where his part lies,
 * and who takes copies from there, or adds terms of a sum, or, if all that he is to have lies there
 * in one piece, reads it where it is. That memory is not written again before everybody has done
 * with it. Between devices pieces go through staging memory (net/exchange.h), packed on a stream of
 * its own and ordered by events; who sends waits for nothing. Who takes what is not there yet waits
 * for his own device first: so of workers that wait for one another the one whose device does not
 * come to an end is none.
 *
 * Bridges work on plain layouts: a blocked source is reordered first, its gradient last. Terms of a
 * sum are added in worker order, so the result does not depend on who comes first. */
#include "net/net_private.h"

#include "base/os.h"
#include "device/ops/elementwise.h"
#include <string.h>

enum { LINE_BYTES = 64 };

/* A moment behind the copy of a piece in the stream, which tells how long the copy took. */
struct lap {
    struct state *of;
    struct sw_piece piece; /* from and to the same: from here on is measured */
};

/* Of either end. */
struct state {
    struct sw_net *net; /* borrowed: its exchange */
    struct sw_net_connection c;
    int workers, worker;
    bool host;                             /* workers reach each other's memory */
    struct sw_rect mine, theirs;           /* what this worker has before and after */
    struct sw_desc plain;                  /* of the source's part */
    struct sw_plan *to_plain, *from_plain; /* owned, of src; NULL: it is plain */
    size_t plain_bytes;
    /* The worker in whose part all that this end takes lies in one piece, so that it can be read
     * there: of dst the output, of src the gradient; -1: there is none. */
    int giver;
    uint64_t sent, taken; /* passes so far */
    struct lap *laps;     /* owned [2: sends, takes][workers] */
    int64_t lap_ns[2];    /* of the newest; each touched by one stream alone */
};

bool sw_net_is_bridge(const struct sw_net_node *node)
{
    return node->layer.type == &sw_net_bridge_src || node->layer.type == &sw_net_bridge_dst;
}

struct sw_net_connection sw_net_connection(const struct sw_layer *l)
{
    const struct state *st = l->state;
    return st->c;
}

/* ---- Making ---- */

/* laps[0]: what this end sends; laps[1]: what it takes. */
static int make_laps(struct state *st, bool sends_backward, struct sw_err *err)
{
    size_t laps = 2 * (size_t)st->workers;
    st->laps = sw_calloc(laps, sizeof *st->laps);
    if (!st->laps)
        return sw_err_nomem(err, "a connection", laps * sizeof *st->laps);
    for (int k = 0; k < st->workers; k++) {
        st->laps[k] = (struct lap){st, {st->c.index, st->worker, k, sends_backward}};
        st->laps[st->workers + k] = (struct lap){st, {st->c.index, k, st->worker, !sends_backward}};
    }
    return SW_OK;
}

/* Is the feature in memory whose time this net does not know: in the batch's, which is filled again
 * by and by, or in another worker's? */
static bool is_borrowed(const struct sw_net *net, const struct sw_net_node *node)
{
    while (node->layer.in_place && node->layer.view)
        node = &net->nodes[node->src[0]];
    return node->layer.type->role == SW_ROLE_INPUT || node->handed;
}

static struct sw_net_connection make_connection(struct sw_net *net, const struct sw_net_node *node,
                                                const struct sw_layer_setup *s)
{
    const struct sw_desc *in = &node->layer.src[0]->desc;
    int64_t inner = 1, columns = in->ndim > 1 ? in->dim[1] : 1;
    for (int i = 2; i < in->ndim; i++)
        inner *= in->dim[i];
    return (struct sw_net_connection){
        .index = net->connections++,
        .from = node->from,
        .to = node->to,
        .rows = node->from.dist == SW_DIST_ROWS ? net->group_rows : in->dim[0],
        .columns = node->from.dist == SW_DIST_COLUMNS ? s->channels : columns,
        .column_bytes = (size_t)inner * sw_dtype_bytes(in->dtype)};
}

static int make_reorders(struct state *st, const struct sw_desc *in, const struct sw_layer_setup *s,
                         struct sw_err *err)
{
    const struct sw_plan_makers *make = s->stream->dev->ops->plans;
    if (sw_desc_is_plain(in))
        return SW_OK;
    int rc = make->reorder(s->stream, in, &st->plain, &st->to_plain, err);
    return rc == SW_OK && (s->wants_grad & 1)
               ? make->reorder(s->stream, &st->plain, in, &st->from_plain, err)
               : rc;
}

static struct sw_rect piece(const struct state *st, bool backward, int from, int to)
{
    const struct sw_net_connection *c = &st->c;
    return sw_movement(c->from, c->to, backward, c->rows, c->columns, st->workers, from, to);
}

/* What worker j has before it moves. */
static struct sw_rect part_of(const struct state *st, bool backward, int j)
{
    const struct sw_net_connection *c = &st->c;
    return sw_spread_rect(backward ? c->to : c->from, c->rows, c->columns, st->workers, j);
}

/* Where a rectangle begins in a part that lies at `place` in the whole. */
static size_t offset_of(const struct state *st, const struct sw_rect *place,
                        const struct sw_rect *r)
{
    int64_t before = (r->row - place->row) * place->columns + r->column - place->column;
    return (size_t)before * st->c.column_bytes;
}

/* See struct state; not where terms are added up. */
static int find_giver(const struct state *st, bool backward)
{
    const struct sw_rect *whole = backward ? &st->mine : &st->theirs;
    if (!st->host || sw_movement_adds(st->c.from, st->c.to, backward))
        return -1;
    for (int j = 0; j < st->workers; j++) {
        struct sw_rect p = part_of(st, backward, j), r = piece(st, backward, j, st->worker);
        if (!sw_rect_is_empty(&r) && r.rows == whole->rows && r.columns == whole->columns &&
            r.columns == p.columns && offset_of(st, &p, &r) % LINE_BYTES == 0)
            return j;
    }
    return -1;
}

static int setup_src(struct sw_net *net, struct sw_net_node *node, const struct sw_layer_setup *s,
                     struct sw_err *err)
{
    struct sw_layer *l = &node->layer;
    struct state *st = l->state;
    const struct sw_desc *in = &l->src[0]->desc;
    *st = (struct state){
        .net = net,
        .c = make_connection(net, node, s),
        .workers = net->workers,
        .worker = net->worker,
        .host = net->stream->dev->host_memory,
        .plain = sw_desc_plain(in->dtype, in->ndim, in->dim),
    };
    const struct sw_net_connection *c = &st->c;
    if (c->to.dist == SW_DIST_COLUMNS && c->columns < st->workers)
        return sw_err_set(err, SW_ERR_INVALID,
                          "the %lld columns of its source cannot be split over %d workers: use "
                          "partition = 0",
                          (long long)c->columns, st->workers);
    if (c->to.groups > 0 && c->columns % c->to.groups)
        return sw_err_set(err, SW_ERR_INVALID,
                          "the %lld columns of its source are not %lld equal groups",
                          (long long)c->columns, (long long)c->to.groups);
    st->mine = sw_spread_rect(c->from, c->rows, c->columns, st->workers, st->worker);
    st->theirs = sw_spread_rect(c->to, c->rows, c->columns, st->workers, st->worker);
    st->plain_bytes = sw_desc_bytes(&st->plain);
    l->dst.desc = st->plain;
    int rc = make_reorders(st, in, s, err);
    if (rc != SW_OK)
        return rc;
    st->giver = st->to_plain ? -1 : find_giver(st, true);
    if (!st->to_plain && !(st->host && is_borrowed(net, &net->nodes[node->src[0]])))
        l->in_place = l->view = true;
    /* Room for the plain gradient, and for one piece of a sum. */
    bool adds = (s->wants_grad & 1) && sw_movement_adds(c->from, c->to, true);
    l->scratch_bytes = (size_t)((st->from_plain != NULL) + adds) * (st->plain_bytes + LINE_BYTES);
    return make_laps(st, false, err);
}

static int setup_dst(struct sw_net *net, struct sw_net_node *node, struct sw_err *err)
{
    struct sw_layer *l = &node->layer;
    struct state *st = l->state;
    const struct state *src = net->nodes[node->src[0]].layer.state;
    const struct sw_desc *in = &l->src[0]->desc;
    int64_t dim[SW_MAX_DIMS];
    *st = *src;
    st->to_plain = st->from_plain = NULL;
    st->giver = find_giver(st, false);
    node->handed = st->giver >= 0;
    net->is_handed = net->is_handed || node->handed;
    l->algorithm = sw_movement_cell(st->c.from, st->c.to)->forward;
    memcpy(dim, in->dim, sizeof dim);
    /* A worker that has nothing sees the shape of everything, and takes no memory for it. */
    dim[0] = st->c.to.dist == SW_DIST_ROWS ? st->theirs.rows : st->c.rows;
    if (in->ndim > 1)
        dim[1] = st->c.to.dist == SW_DIST_COLUMNS ? st->theirs.columns : st->c.columns;
    l->dst.desc = sw_desc_plain(in->dtype, in->ndim, dim);
    if (sw_movement_adds(st->c.from, st->c.to, false))
        l->scratch_bytes = sw_desc_bytes(&l->dst.desc) + LINE_BYTES;
    return make_laps(st, true, err);
}

int sw_net_bridge_setup(struct sw_net *net, struct sw_net_node *node,
                        const struct sw_layer_setup *s, struct sw_err *err)
{
    return node->layer.type == &sw_net_bridge_src ? setup_src(net, node, s, err)
                                                  : setup_dst(net, node, err);
}

static void teardown(struct sw_layer *l)
{
    struct state *st = l->state;
    sw_plan_free(st->to_plain);
    sw_plan_free(st->from_plain);
    sw_free(st->laps);
}

/* ---- Measuring ---- */

/* On a thread of the device. */
static void stamp(void *user)
{
    const struct lap *lap = user;
    struct state *st = lap->of;
    bool takes = lap - st->laps >= st->workers;
    int64_t now_ns = sw_os()->monotonic_ns(), *last_ns = &st->lap_ns[takes];
    const struct sw_piece *p = &lap->piece;
    if (p->from != p->to)
        sw_exchange_add_ns(st->net->exchange, p->from, p->to, now_ns - *last_ns);
    *last_ns = now_ns;
}

/* The time since the lap before goes to piece k of those that are sent or taken; k is this worker:
 * to nobody. */
static int take_lap(const struct state *st, bool takes, int k, struct sw_err *err)
{
    struct sw_stream *s =
        takes ? st->net->stream : sw_exchange_sender(st->net->exchange, st->worker);
    return sw_stream_call(s, stamp, &st->laps[takes * st->workers + k], err);
}

/* ---- Sending ---- */

static int cancelled(int rc, struct sw_err *err)
{
    return rc == SW_OK ? rc : sw_err_set(err, SW_ERR_CANCELLED, "the job is ending");
}

static const struct sw_piece *piece_to(const struct state *st, int k)
{
    return &st->laps[k].piece;
}

static const struct sw_piece *piece_from(const struct state *st, int j)
{
    return &st->laps[st->workers + j].piece;
}

/* Does anything of this connection go from j to k? */
static bool moves(const struct state *st, const struct sw_piece *p)
{
    struct sw_rect r = piece(st, p->backward, p->from, p->to);
    return p->from != p->to && !sw_rect_is_empty(&r);
}

/* All that was sent, or all that was taken. */
static void mark(const struct state *st, bool taken)
{
    bool any = false;
    for (int k = 0; k < st->workers; k++) {
        const struct sw_piece *p = taken ? piece_from(st, k) : piece_to(st, k);
        if (!moves(st, p))
            continue;
        sw_exchange_mark(st->net->exchange, p, taken);
        any = true;
    }
    if (any)
        sw_exchange_tell(st->net->exchange);
}

/* The same on a thread of the device, when it has come there. */
static void mark_sent(void *state)
{
    mark(state, false);
}

static void mark_taken(void *state)
{
    mark(state, true);
}

static struct sw_event *event_of(const struct state *st, int worker, bool backward, uint64_t pass,
                                 enum sw_exchange_moment moment)
{
    return sw_exchange_event(st->net->exchange, st->c.index, worker, backward, (int)(pass & 1),
                             moment);
}

static char *stage_of(const struct state *st, const struct sw_piece *p, uint64_t pass)
{
    return sw_exchange_stage(st->net->exchange, p, (int)(pass & 1));
}

/* One piece of a device's part into staging memory, when it is free. */
static int pack(const struct state *st, struct sw_stream *s, const struct sw_piece *p,
                const char *part, struct sw_err *err)
{
    struct sw_rect place = part_of(st, p->backward, p->from),
                   r = piece(st, p->backward, p->from, p->to);
    size_t width = (size_t)r.columns * st->c.column_bytes;
    uint64_t done = st->sent < 2 ? 0 : st->sent - 1;
    int rc = SW_OK;
    if (!sw_exchange_is_taken(st->net->exchange, p, done))
        rc = sw_stream_wait(st->net->stream, err);
    if (rc == SW_OK)
        rc = cancelled(sw_exchange_wait_taken(st->net->exchange, p, done), err);
    if (rc == SW_OK)
        rc = sw_event_wait(s, event_of(st, p->to, p->backward, st->sent, SW_EXCHANGE_TAKEN), err);
    if (rc == SW_OK)
        rc = sw_copy_2d(s, stage_of(st, p, st->sent), width, part + offset_of(st, &place, &r),
                        (size_t)place.columns * st->c.column_bytes, width, r.rows, err);
    return rc == SW_OK ? take_lap(st, false, p->to, err) : rc;
}

/* Beside what is computed, when the part is made. */
static int pack_all(struct state *st, const char *part, struct sw_err *err)
{
    struct sw_stream *s = sw_exchange_sender(st->net->exchange, st->worker);
    bool backward = piece_to(st, 0)->backward;
    struct sw_event *made = event_of(st, st->worker, backward, st->sent, SW_EXCHANGE_MADE),
                    *sent = event_of(st, st->worker, backward, st->sent, SW_EXCHANGE_SENT);
    int rc = sw_event_record(st->net->stream, made, err);
    if (rc == SW_OK)
        rc = sw_event_wait(s, made, err);
    if (rc == SW_OK)
        rc = take_lap(st, false, st->worker, err);
    for (int k = 0; k < st->workers && rc == SW_OK; k++)
        if (moves(st, piece_to(st, k)))
            rc = pack(st, s, piece_to(st, k), part, err);
    if (rc == SW_OK)
        rc = sw_event_record(s, sent, err);
    return rc == SW_OK ? sw_stream_call(s, mark_sent, st, err) : rc;
}

/* Hands out this worker's part: on the host as it is, else packed. */
static int hand_out(struct state *st, char *part, struct sw_err *err)
{
    int rc = SW_OK;
    sw_exchange_publish(st->net->exchange, st->c.index, st->worker, piece_to(st, 0)->backward,
                        part);
    if (st->host)
        mark(st, false);
    else
        rc = pack_all(st, part, err);
    st->sent++;
    return rc;
}

int sw_net_wait_free(const struct sw_net_node *node, struct sw_err *err)
{
    const struct state *st = node->layer.state;
    int rc = SW_OK;
    for (int k = 0; k < st->workers && rc == SW_OK; k++)
        if (moves(st, piece_to(st, k)))
            rc = cancelled(sw_exchange_wait_taken(st->net->exchange, piece_to(st, k), st->sent),
                           err);
    return rc;
}

/* ---- Taking ---- */

/* Where this end takes to, and its own part, of which some may stay here. */
struct take {
    const struct sw_rect *place; /* of `to` in the whole */
    char *to, *own;
    char *room; /* for a piece of a sum */
};

/* Where piece r of worker j's part lies now, and how far apart its rows. */
static const char *find_piece(const struct state *st, const struct take *t, int j,
                              const struct sw_rect *r, size_t *pitch)
{
    const struct sw_piece *p = piece_from(st, j);
    struct sw_rect place = part_of(st, p->backward, j);
    const char *part = j == st->worker ? t->own
                       : st->host ? sw_exchange_part(st->net->exchange, st->c.index, j, p->backward)
                                  : NULL;
    *pitch = (size_t)(part ? place.columns : r->columns) * st->c.column_bytes;
    return part ? part + offset_of(st, &place, r) : stage_of(st, p, st->taken);
}

static int wait_piece(const struct state *st, int j, struct sw_err *err)
{
    const struct sw_piece *p = piece_from(st, j);
    int rc = SW_OK;
    if (!st->host && !sw_exchange_is_sent(st->net->exchange, p, st->taken + 1))
        rc = sw_stream_wait(st->net->stream, err);
    if (rc == SW_OK)
        rc = cancelled(sw_exchange_wait_sent(st->net->exchange, p, st->taken + 1), err);
    return rc == SW_OK && !st->host
               ? sw_event_wait(st->net->stream,
                               event_of(st, j, p->backward, st->taken, SW_EXCHANGE_SENT), err)
               : rc;
}

/* A term of a sum covers all of what this worker is to have. On a device it has to be there first;
 * elsewhere it is added from where it lies, if that is in one run. */
static int add_term(const struct state *st, const struct take *t, int j, const struct sw_rect *r,
                    struct sw_err *err)
{
    struct sw_stream *s = st->net->stream;
    size_t pitch, width = (size_t)r->columns * st->c.column_bytes;
    const char *at = find_piece(st, t, j, r, &pitch);
    if (pitch != width || !(st->host || j == st->worker)) {
        int rc = sw_copy_2d(s, t->room, width, at, pitch, width, r->rows, err);
        if (rc != SW_OK)
            return rc;
        at = t->room;
    }
    return sw_op_add(s, (float *)(void *)t->to, (const float *)(const void *)at,
                     r->rows * r->columns * (int64_t)(st->c.column_bytes / sizeof(float)), err);
}

static int copy_piece(const struct state *st, const struct take *t, int j, const struct sw_rect *r,
                      struct sw_err *err)
{
    size_t pitch, width = (size_t)r->columns * st->c.column_bytes;
    const char *at = find_piece(st, t, j, r, &pitch);
    return sw_copy_2d(st->net->stream, t->to + offset_of(st, t->place, r),
                      (size_t)t->place->columns * st->c.column_bytes, at, pitch, width, r->rows,
                      err);
}

/* Takes worker j's piece: as it is, or added to what came before. */
static int take_piece(const struct state *st, const struct take *t, int j, struct sw_err *err)
{
    bool backward = piece_from(st, j)->backward, other = j != st->worker;
    struct sw_rect r = piece(st, backward, j, st->worker);
    if (sw_rect_is_empty(&r))
        return SW_OK;
    int rc = other ? wait_piece(st, j, err) : SW_OK;
    /* What was waited is not the copy's time. */
    if (rc == SW_OK && other)
        rc = take_lap(st, true, st->worker, err);
    if (rc == SW_OK && j > 0 && sw_movement_adds(st->c.from, st->c.to, backward))
        rc = add_term(st, t, j, &r, err);
    else if (rc == SW_OK)
        rc = copy_piece(st, t, j, &r, err);
    return rc == SW_OK && other ? take_lap(st, true, j, err) : rc;
}

/* Terms in worker order; of other pieces those first that are there already, so that nobody waits
 * beside work. */
static int take(struct state *st, const struct take *t, struct sw_err *err)
{
    bool backward = piece_from(st, 0)->backward, done[SW_TREE_LEAVES] = {false};
    bool adds = sw_movement_adds(st->c.from, st->c.to, backward);
    struct sw_stream *s = st->net->stream;
    int rc = SW_OK;
    for (int j = 0; j < st->workers && rc == SW_OK && !adds; j++) {
        done[j] = j == st->worker ||
                  sw_exchange_is_sent(st->net->exchange, piece_from(st, j), st->taken + 1);
        if (done[j])
            rc = take_piece(st, t, j, err);
    }
    for (int j = 0; j < st->workers && rc == SW_OK; j++)
        if (!done[j])
            rc = take_piece(st, t, j, err);
    /* Whoever packs next packs behind this, and whoever computes next computes behind what this
     * worker sends itself, from memory that may be others' then. */
    if (rc == SW_OK && !st->host)
        rc = sw_event_record(s, event_of(st, st->worker, backward, st->taken, SW_EXCHANGE_TAKEN),
                             err);
    if (rc == SW_OK && !st->host)
        rc = sw_event_wait(s, event_of(st, st->worker, backward, st->taken, SW_EXCHANGE_SENT), err);
    if (rc == SW_OK && !st->host)
        rc = sw_stream_call(s, mark_taken, st, err);
    else if (rc == SW_OK)
        mark(st, true);
    st->taken++;
    return rc;
}

void sw_net_let_go(struct sw_net_node *node)
{
    mark(node->layer.state, true);
}

bool sw_net_can_look_there(const struct sw_net_node *node)
{
    const struct state *st = node->layer.state;
    return st->giver >= 0;
}

/* Where it lies: in another worker's part, or in this one's own. */
static int look_there(struct state *st, char *own, void **at, struct sw_err *err)
{
    int j = st->giver;
    bool backward = piece_from(st, j)->backward;
    struct sw_rect place = part_of(st, backward, j), r = piece(st, backward, j, st->worker);
    int rc = j == st->worker ? SW_OK : wait_piece(st, j, err);
    if (rc != SW_OK)
        return rc;
    char *part =
        j == st->worker ? own : sw_exchange_part(st->net->exchange, st->c.index, j, backward);
    *at = part + offset_of(st, &place, &r);
    st->taken++;
    return SW_OK;
}

/* ---- Passes ---- */

static char *room_of(const struct state *st, struct sw_layer *l)
{
    size_t plain =
        st->from_plain ? (st->plain_bytes + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES : 0;
    return (char *)l->scratch + plain;
}

static int forward_src(struct sw_layer *l, const struct sw_pass *r, struct sw_err *err)
{
    struct state *st = l->state;
    struct sw_plan_args a = {.src = l->src[0]->data, .dst = l->dst.data};
    int rc = SW_OK;
    if (sw_rect_is_empty(&st->mine))
        rc = SW_OK;
    else if (st->to_plain)
        rc = sw_plan_forward(st->to_plain, &a, err);
    else if (l->dst.data != l->src[0]->data)
        rc = sw_copy(r->stream, l->dst.data, l->src[0]->data, st->plain_bytes, err);
    return rc == SW_OK ? hand_out(st, l->dst.data, err) : rc;
}

static int forward_dst(struct sw_layer *l, const struct sw_pass *r, struct sw_err *err)
{
    struct state *st = l->state;
    const struct take t = {
        .place = &st->theirs, .to = l->dst.data, .own = l->src[0]->data, .room = room_of(st, l)};
    void *at;
    (void)r;
    if (st->giver < 0)
        return take(st, &t, err);
    int rc = look_there(st, t.own, &at, err);
    if (rc == SW_OK)
        sw_net_use_memory(st->net, l->index, at);
    return rc;
}

static int backward_dst(struct sw_layer *l, const struct sw_pass *r, struct sw_err *err)
{
    (void)r;
    return hand_out(l->state, (char *)l->dst.grad, err);
}

static int backward_src(struct sw_layer *l, const struct sw_pass *r, struct sw_err *err)
{
    struct state *st = l->state;
    (void)r;
    const struct take t = {.place = &st->mine,
                           .to = st->from_plain ? l->scratch : (char *)l->src_grad[0],
                           .own =
                               sw_exchange_part(st->net->exchange, st->c.index, st->worker, true),
                           .room = room_of(st, l)};
    struct sw_net_node *node = &st->net->nodes[l->index];
    void *at = NULL;
    int rc = node->grad_handed ? look_there(st, t.own, &at, err) : take(st, &t, err);
    if (rc == SW_OK && node->grad_handed)
        l->src[0]->grad = at;
    if (rc != SW_OK || !st->from_plain || sw_rect_is_empty(&st->mine))
        return rc;
    struct sw_plan_args a = {.src = (const float *)(const void *)t.to, .dst = l->src_grad[0]};
    return sw_plan_forward(st->from_plain, &a, err);
}

/* Not in the registry: only the partitioner makes them. */
const struct sw_layer_type sw_net_bridge_src = {
    .base = {.name = "bridge_src", .help = "sends an output to those who want it otherwise"},
    .role = SW_ROLE_NEURON,
    .min_src = 1,
    .max_src = 1,
    .state_bytes = sizeof(struct state),
    .forward = forward_src,
    .backward = backward_src,
    .teardown = teardown,
};

const struct sw_layer_type sw_net_bridge_dst = {
    .base = {.name = "bridge_dst", .help = "an output as those want it who read it"},
    .role = SW_ROLE_NEURON,
    .min_src = 1,
    .max_src = 1,
    .state_bytes = sizeof(struct state),
    .forward = forward_dst,
    .backward = backward_dst,
    .teardown = teardown,
};
