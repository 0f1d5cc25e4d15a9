/* A worker's step as segments: consecutive passes of layers, between which the host has something
 * to do. On a device with its own memory, whose streams can be captured, a segment is queued
 * operation by operation in the first steps (libraries are initialized then), captured in the next,
 * and from then on launched as one graph. Where the device makes the updates the whole step is one
 * segment; where values are waited for or gradients are pushed, each of these starts a new one:
 * gradients that devices reduce in buckets when a bucket is complete, and values when the first of
 * a bucket is read. A pass in which the host waits (sums and activations of other workers) is a
 * segment of its own that is never captured; nothing is captured on the CPU or with `graphs = no`.
 * Independent layers that run on streams of their own (net/graph/branches.h) are joined where a
 * captured segment begins and where it ends. Where activations are recomputed or offloaded
 * (net/memory/fit.c), only a whole step is captured.
 *
 * The operations of a step do not depend on the step: what does is in device memory, written ahead
 * of the first segment (struct sw_step, struct sw_update_numbers). When nets are rebuilt, so are
 * the segments. A segment that cannot be captured is logged once and keeps running operation by
 * operation. One owner: the worker. */
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
    bool captured;          /* it can be captured */
    int runs;               /* runs so far, operation by operation */
    struct sw_graph *graph; /* owned; NULL: not captured */
};

/* Makes the segments of a worker's training nets, whose memory is bound. With SW_OVERLAP_YES
 * gradients are pushed between segments. Errors: SW_ERR_NOMEM. */
int sw_segments_new(struct sw_worker *w, enum sw_overlap overlap, struct sw_segments **out,
                    struct sw_err *err);
void sw_segments_free(struct sw_segments *s); /* NULL is accepted */
int sw_segments_count(const struct sw_segments *s);
const struct sw_segment *sw_segments_at(const struct sw_segments *s, int k);
/* Is the whole next step queued operation by operation, outside of graphs? */
bool sw_segments_are_queued(const struct sw_segments *s);
/* The parameters that the forward pass of a layer reads; and those whose gradients are complete
 * after its backward pass, so that they are pushed there: neither frozen ones nor those that a
 * lower layer shares. */
struct sw_param_list sw_segments_pulls(const struct sw_segments *s, int layer);
struct sw_param_list sw_segments_pushes(const struct sw_segments *s, int layer);
/* Are pushes delayed until the last backward pass (overlap = no)? */
bool sw_segments_push_late(const struct sw_segments *s);
/* Number of graphs, and the mean time of the host for a launch. */
struct sw_segment_stats {
    int graphs;
    uint64_t launches;
    double launch_us;
};
struct sw_segment_stats sw_segments_stats(const struct sw_segments *s);

/* Submits segment k to the device. queue(user) queues it operation by operation; it is called once,
 * twice if the capture fails, or not at all if a graph is launched (*launched). Errors: those of
 * queue, and of the device. */
int sw_segments_submit(struct sw_segments *s, int k, int (*queue)(void *user, struct sw_err *err),
                       void *user, bool *launched, struct sw_err *err);
