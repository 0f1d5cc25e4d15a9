/* Shared by the two files of bridges: bridge.c has the layers and their setup, bridge_move.c sends,
 * receives and measures. struct sw_bridge is the state of either end of a connection; both ends of
 * one have the same geometry. One owner: the worker; threads of its device update the stamps. */
#pragma once

#include "net/graph/graph.h"
#include "net/layers/pieces.h"
#include "net/partition.h"

enum { SW_BRIDGE_LINE = 64 }; /* bytes */

struct sw_net_connection {
    int index; /* among the net's connections */
    struct sw_move move;
    enum sw_dtype type; /* of what is sent */
    size_t column_bytes;
};

/* A time stamp after the copy of a piece in the stream, used to measure the copy. */
struct sw_bridge_stamp {
    struct sw_bridge *of;
    struct sw_piece piece; /* from equals to: start of a measurement */
};

/* State of either end of a connection. */
struct sw_bridge {
    struct sw_stream *stream;     /* borrowed: the net's */
    struct sw_transfer *exchange; /* borrowed; NULL while the net is built */
    struct sw_net_connection c;
    int workers, worker;
    bool host;                   /* workers reach each other's memory */
    struct sw_rect mine, theirs; /* this worker's shard at the source and at the destination */
    struct sw_desc plain;        /* plain layout of the source's shard */
    struct sw_plan *to_plain, *from_plain; /* owned, of src; NULL: the source is plain */
    size_t plain_bytes;
    /* The worker whose shard contains everything that this end receives in one contiguous block, so
     * that it can be read in place: the output for dst, the gradient for src; -1: none. */
    int owner;
    bool reads_gradient_in_place; /* of src: its source's gradient is read in the owner's memory */
    bool misses;                  /* of src: some elements of its shard receive no gradient */
    uint64_t sent, taken;         /* passes so far */
    struct sw_bridge_stamp *stamps; /* owned [2: sent, received][workers] */
    int64_t stamp_ns[2]; /* time of the newest stamp; each is written by one stream only */
};

/* Bytes that worker `from` sends to worker `to` of an output, or of its gradient. */
static inline size_t sw_connection_bytes(const struct sw_net_connection *c, bool backward,
                                         int workers, int from, int to)
{
    struct sw_rect r = sw_movement(&c->move, backward, workers, from, to);
    return sw_rect_is_empty(&r) ? 0 : (size_t)(r.rows * r.columns) * c->column_bytes;
}

/* ---- For other files: queries about a bridge layer ---- */

static inline const struct sw_net_connection *sw_bridge_connection(const struct sw_layer *l)
{
    return &((const struct sw_bridge *)l->state)->c;
}

/* Can the data that it receives be read in place? */
static inline bool sw_bridge_can_read_in_place(const struct sw_layer *l)
{
    return ((const struct sw_bridge *)l->state)->owner >= 0;
}

/* Makes a bridge_src read its source's gradient in the owner's memory. */
static inline void sw_bridge_read_gradient_in_place(struct sw_layer *l)
{
    ((struct sw_bridge *)l->state)->reads_gradient_in_place = true;
}

/* Arguments of a bridge's setup besides those of any layer. */
struct sw_bridge_args {
    const struct sw_layer *lower; /* of a bridge_dst: its bridge_src */
    struct sw_stream *stream;     /* borrowed for the life of the layer: the net's */
    int index;                    /* of the connection connections */
    int workers, worker;
    struct sw_distribution from, to;
    int64_t group_rows;
    bool borrowed; /* the source's output is in memory whose lifetime the net does not control */
};
/* The setup of either end of a connection. Errors: those of a layer's setup. */
int sw_bridge_setup(struct sw_layer *l, const struct sw_bridge_args *args,
                    const struct sw_layer_setup *setup, struct sw_err *err) SW_MUST_CHECK;
/* In host memory: waits until other workers no longer use what this bridge has sent, so that the
 * memory may be overwritten. */
int sw_bridge_wait_free(const struct sw_layer *l, struct sw_err *err) SW_MUST_CHECK;
/* Marks everything that this bridge has received as no longer used. */
void sw_bridge_release(struct sw_layer *l);

/* ---- Between bridge.c and bridge_move.c ---- */

/* The rectangle that goes from one worker to another. */
static inline struct sw_rect sw_bridge_piece(const struct sw_bridge *st, bool backward, int from,
                                             int to)
{
    const struct sw_net_connection *c = &st->c;
    return sw_movement(&c->move, backward, st->workers, from, to);
}

/* Worker j's shard before the exchange. */
static inline struct sw_rect sw_bridge_shard(const struct sw_bridge *st, bool backward, int j)
{
    const struct sw_net_connection *c = &st->c;
    return sw_distribution_rect(backward ? c->move.to : c->move.from, c->move.rows, c->move.columns,
                                st->workers, j);
}

/* Byte offset of a rectangle in a shard that covers `place` of the whole output. */
static inline size_t sw_bridge_offset(const struct sw_bridge *st, const struct sw_rect *place,
                                      const struct sw_rect *r)
{
    int64_t before = (r->row - place->row) * place->columns + r->column - place->column;
    return (size_t)before * st->c.column_bytes;
}

/* The address that a worker published for its shard. */
char *sw_bridge_published(const struct sw_bridge *st, int worker, bool backward);
/* Sends this worker's shard: in host memory by publishing its address, otherwise packed into
 * staging memory. */
int sw_bridge_send(struct sw_bridge *st, char *part, struct sw_err *err) SW_MUST_CHECK;

/* Destination of received pieces, and this worker's own shard, part of which may stay here. */
struct sw_bridge_receive_args {
    const struct sw_rect *place; /* of `to` in the whole output */
    char *to, *own;
    char *room; /* temporary memory for one partial sum */
};
/* Receives all pieces. Partial sums are added in worker order; other pieces are taken as they
 * arrive. */
int sw_bridge_receive(struct sw_bridge *st, const struct sw_bridge_receive_args *t,
                      struct sw_err *err) SW_MUST_CHECK;
/* If there is an owner: waits for its data and returns the address in *at, which may be in this
 * worker's own shard. */
int sw_bridge_wait_in_place(struct sw_bridge *st, char *own, void **at,
                            struct sw_err *err) SW_MUST_CHECK;
