/* A worker's step as segments: passes of layers, one behind the other, between which the host has
 * something to do. On a device of its own, whose streams can be captured, a segment is queued
 * operation by operation in the first steps (libraries make what they need then), captured in the
 * next, and from there on queued by one launch. Where the device updates by itself the whole step
 * is one segment; where values are waited for or gradients handed over there is one between each
 * two of these. A pass in which the host waits (sums and features of other workers) is a segment of
 * its own that is never captured, as all are on the CPU and with `graphs = no`. Where independent
 * layers run on streams of their own (net/graph/branches.h), or features are away for a while
 * (net/memory/fit.c), only a whole step is.
 *
 * What a step's operations are does not depend on the step: what does is in device memory, written
 * ahead of the first segment (struct sw_step, struct sw_update_numbers). When nets are rebuilt the
 * segments are, too. What cannot be captured is said once, and goes on as before. One owner: the
 * worker. */
#pragma once

#include "base/err.h"
#include "exchange/exchange.h"
#include "plan/conf.h"
#include <stdbool.h>
#include <stdint.h>

struct sw_worker;
struct sw_graph;
struct sw_segments;

/* Passes are numbered: forward of layer i is i, its backward 2 * layers - 1 - i. */
struct sw_segment {
    int from, to;           /* passes [from, to) */
    bool captured;          /* it may be */
    int runs;               /* so far, operation by operation */
    struct sw_graph *graph; /* owned; NULL: there is none */
};

/* Of the training nets of a worker whose memory is bound. With SW_OVERLAP_YES gradients are handed
 * over between segments. Errors: SW_ERR_NOMEM. */
int sw_segments_new(struct sw_worker *w, enum sw_overlap overlap, struct sw_segments **out,
                    struct sw_err *err);
void sw_segments_free(struct sw_segments *s); /* NULL is accepted */
int sw_segments_count(const struct sw_segments *s);
const struct sw_segment *sw_segments_at(const struct sw_segments *s, int k);
/* Is everything in the coming step queued operation by operation, outside of graphs? */
bool sw_segments_are_queued(const struct sw_segments *s);
/* The parameters that the forward pass of a layer reads; and those whose gradients are complete
 * when its backward is done, so that they are pushed there: not the frozen ones, nor those that a
 * layer below shares. */
struct sw_param_list sw_segments_pulls(const struct sw_segments *s, int layer);
struct sw_param_list sw_segments_pushes(const struct sw_segments *s, int layer);
/* Are pushes held back until the last backward (overlap = no)? */
bool sw_segments_push_late(const struct sw_segments *s);
/* How many of them are graphs, and how long the host took for a launch, on average. */
struct sw_segment_stats {
    int graphs;
    uint64_t launches;
    double launch_us;
};
struct sw_segment_stats sw_segments_stats(const struct sw_segments *s);

/* Has the device do segment k: queue(user) queues it operation by operation, and is called once,
 * or twice when it turns out that it cannot be captured, or, with *launched, not at all. Errors:
 * those of queue, and of the device. */
int sw_segments_submit(struct sw_segments *s, int k, int (*queue)(void *user, struct sw_err *err),
                       void *user, bool *launched, struct sw_err *err);
