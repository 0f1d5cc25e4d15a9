/* What the two files of bridges share: bridge.c has the layers and their setup, bridge_move.c hands
 * out, takes, and counts the time of it. The state is of either end of a connection; src and dst
 * of one have the same geometry. One owner: the worker; laps are touched by threads of its device.
 */
#pragma once

#include "net/graph/graph.h"
#include "net/layers/pieces.h"
#include "net/partition.h"

enum { SW_BRIDGE_LINE = 64 }; /* bytes */

struct sw_net_connection {
    int index; /* among the net's */
    struct sw_spread from, to;
    int64_t rows, columns;
    size_t column_bytes;
};

/* A moment behind the copy of a piece in the stream, which tells how long the copy took. */
struct sw_bridge_lap {
    struct sw_bridge *of;
    struct sw_piece piece; /* from and to the same: from here on is measured */
};

/* Of either end. */
struct sw_bridge {
    struct sw_stream *stream;     /* borrowed: the net's */
    struct sw_transfer *exchange; /* borrowed; NULL while the net is made */
    struct sw_net_connection c;
    int workers, worker;
    bool host;                             /* workers reach each other's memory */
    struct sw_rect mine, theirs;           /* what this worker has before and after */
    struct sw_desc plain;                  /* of the source's part */
    struct sw_plan *to_plain, *from_plain; /* owned, of src; NULL: it is plain */
    size_t plain_bytes;
    /* The worker in whose part all that this end takes lies in one piece, so that it can be read
     * there: of dst the output, of src the gradient; -1: there is none. */
    int owner;
    bool takes_there;           /* of src: its source's gradient is read where the owner has it */
    bool misses;                /* of src: to some of its part no gradient comes */
    uint64_t sent, taken;       /* passes so far */
    struct sw_bridge_lap *laps; /* owned [2: sends, takes][workers] */
    int64_t lap_ns[2];          /* of the newest; each touched by one stream alone */
};

/* Bytes that worker `from` has for worker `to` of an output, or of its gradient. */
static inline size_t sw_connection_bytes(const struct sw_net_connection *c, bool backward,
                                         int workers, int from, int to)
{
    struct sw_rect r =
        sw_movement(c->from, c->to, backward, c->rows, c->columns, workers, from, to);
    return sw_rect_is_empty(&r) ? 0 : (size_t)(r.rows * r.columns) * c->column_bytes;
}

/* ---- What others ask of a layer that is an end ---- */

static inline const struct sw_net_connection *sw_bridge_connection(const struct sw_layer *l)
{
    return &((const struct sw_bridge *)l->state)->c;
}

/* May what it takes be read where it lies? */
static inline bool sw_bridge_can_look_there(const struct sw_layer *l)
{
    return ((const struct sw_bridge *)l->state)->owner >= 0;
}

/* Of a bridge_src: its source's gradient is read where the owner has it. */
static inline void sw_bridge_take_there(struct sw_layer *l)
{
    ((struct sw_bridge *)l->state)->takes_there = true;
}

/* What an end's setup takes beside that of any layer. */
struct sw_bridge_args {
    const struct sw_layer *lower; /* of a bridge_dst: its bridge_src */
    struct sw_stream *stream;     /* borrowed for the life of the layer: the net's */
    int index;                    /* of the connection, among the net's */
    int workers, worker;
    struct sw_spread from, to;
    int64_t group_rows;
    bool borrowed; /* the source's output is in memory whose time the net does not know */
};
/* Errors as of setup. */
int sw_bridge_setup(struct sw_layer *l, const struct sw_bridge_args *args,
                    const struct sw_layer_setup *setup, struct sw_err *err) SW_MUST_CHECK;
/* On the host: waits until others have done with all that it has handed out, so that the memory may
 * be written again. */
int sw_bridge_wait_free(const struct sw_layer *l, struct sw_err *err) SW_MUST_CHECK;
/* This worker has done with what it was handed. */
void sw_bridge_let_go(struct sw_layer *l);

/* ---- Between bridge.c and bridge_move.c ---- */

/* What goes from one worker to another. */
static inline struct sw_rect sw_bridge_piece(const struct sw_bridge *st, bool backward, int from,
                                             int to)
{
    const struct sw_net_connection *c = &st->c;
    return sw_movement(c->from, c->to, backward, c->rows, c->columns, st->workers, from, to);
}

/* What worker j has before it moves. */
static inline struct sw_rect sw_bridge_part(const struct sw_bridge *st, bool backward, int j)
{
    const struct sw_net_connection *c = &st->c;
    return sw_spread_rect(backward ? c->to : c->from, c->rows, c->columns, st->workers, j);
}

/* Where a rectangle begins in a part that lies at `place` in the whole. */
static inline size_t sw_bridge_offset(const struct sw_bridge *st, const struct sw_rect *place,
                                      const struct sw_rect *r)
{
    int64_t before = (r->row - place->row) * place->columns + r->column - place->column;
    return (size_t)before * st->c.column_bytes;
}

/* Hands out this worker's part: on the host as it is, else packed. */
int sw_bridge_hand_out(struct sw_bridge *st, char *part, struct sw_err *err) SW_MUST_CHECK;

/* Where this end takes to, and its own part, of which some may stay here. */
struct sw_bridge_take {
    const struct sw_rect *place; /* of `to` in the whole */
    char *to, *own;
    char *room; /* for a piece of a sum */
};
/* Terms in worker order; of other pieces those first that are there already, so that nobody waits
 * beside work. */
int sw_bridge_take_all(struct sw_bridge *st, const struct sw_bridge_take *t,
                       struct sw_err *err) SW_MUST_CHECK;
/* With an owner: where it lies, in another worker's part, or in this one's own. */
int sw_bridge_look_there(struct sw_bridge *st, char *own, void **at,
                         struct sw_err *err) SW_MUST_CHECK;
