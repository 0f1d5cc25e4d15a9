/* Graphs of the sim device: the operations queued on its streams during a capture, to be queued
 * again. One thread at a time uses a graph. Internal to device/sim. */
#pragma once

#include "device/sim/stream.h"

enum { SW_SIM_GRAPH_STREAMS = 8, SW_SIM_NO_MARK = -1 };

enum sw_sim_node_kind { SW_SIM_OPERATION, SW_SIM_RECORD, SW_SIM_WAIT };

struct sw_sim_node {
    enum sw_sim_node_kind kind;
    int mark;                     /* of records and waits */
    struct sw_sim_stream *stream; /* borrowed */
    struct sw_sim_op op;
};

/* A position in a graph: how many operations of each stream come before it. */
struct sw_sim_graph_position {
    int of[SW_SIM_GRAPH_STREAMS];
};

struct sw_sim_mark {
    struct sw_event *event; /* owned */
    struct sw_sim_graph_position position;
};

struct sw_sim_graph {
    struct sw_sim_device *device; /* borrowed */
    uint64_t number;              /* of the capture */
    struct sw_sim_node *nodes;    /* owned */
    struct sw_sim_mark *marks;    /* owned */
    int count, mark_count;
    int64_t room, mark_room;
    struct sw_sim_member {
        struct sw_sim_stream *stream;
        struct sw_sim_graph_position position; /* of the next operation */
    } member[SW_SIM_GRAPH_STREAMS];            /* the first is the captured stream */
    int members;
    struct sw_err error; /* why the capture has failed; code SW_OK: it has not failed */
};

static inline struct sw_sim_graph *sw_sim_graph_of(struct sw_graph *g)
{
    return (struct sw_sim_graph *)(void *)g;
}

int sw_sim_capture_begin(struct sw_stream *s, struct sw_err *err);
int sw_sim_capture_end(struct sw_stream *s, struct sw_graph **out, struct sw_err *err);
int sw_sim_graph_launch(struct sw_stream *s, struct sw_graph *g, struct sw_err *err);
void sw_sim_graph_free(struct sw_graph *g);
/* Add an operation with checked pointers, a record or a wait to the capture of a stream. */
int sw_sim_capture_op(struct sw_sim_stream *s, const struct sw_sim_op *op,
                      struct sw_err *err) SW_MUST_CHECK;
int sw_sim_capture_record(struct sw_sim_stream *s, struct sw_sim_event *e,
                          struct sw_err *err) SW_MUST_CHECK;
int sw_sim_capture_wait(struct sw_sim_stream *s, struct sw_sim_event *e,
                        struct sw_err *err) SW_MUST_CHECK;
/* Returns SW_ERR_UNSUPPORTED if the stream is being captured, which then fails because of `what`;
 * else SW_OK. */
int sw_sim_capture_refuse(struct sw_sim_stream *s, const char *what,
                          struct sw_err *err) SW_MUST_CHECK;
