/* Branches: layers of one net that do not depend on each other, on streams of their own.
 *
 * The branches of an inception block, two modalities before they meet, or an auxiliary classifier
 * beside the rest of the net leave a device idle when they run one after the other, each too small
 * to fill it. On devices that queue work, every layer is given one of a few streams: the one of a
 * source that nobody has continued yet, else one on which only layers run that it needs anyway.
 *
 * What must not overlap follows from the sets of what each pass reads and writes: features,
 * gradients of features, gradients of shared parameters. Where two passes of one direction on
 * different streams touch the same thing, and one of them writes it, the later one (in the order of
 * the execution order) waits for an event of the earlier one, unless another wait says so already.
 * Sums are therefore added in the order of one stream, and results have the same bits. Memory is
 * another matter: blocks that one stream after the other would use must not share a place, so a
 * block lives as long as any pass that may run beside one of its users (struct sw_branch_order).
 *
 * Not every net has branches: in turn, as on the CPU, run nets with connections between workers,
 * Gibbs chains or output layers, several nets of one worker (net/parts.h), and nets with a memory
 * budget.
 *
 * The net's own stream is the control stream: what others queue there (values that arrive, batches,
 * gradients that leave, updates) stays ordered with the passes, because
 * - a branch's stream waits for it when a direction begins, and before a layer with parameters;
 * - it waits for a layer with parameters after its backward, between two phases of a layer, and for
 *   all branches at the end of a direction.
 * Only one direction is under way at a time. Here is who has which stream, which depends on the
 * graph alone; branch_order.h has the rest. One owner: the net. */
#pragma once

#include "net/graph/graph.h"

struct sw_branch {
    struct sw_stream *stream; /* owned */
    struct sw_event *tail;    /* owned: recorded where the control stream is to wait */
};

struct sw_branches {
    struct sw_device *dev;    /* borrowed: the net's */
    struct sw_branch *branch; /* owned [count] */
    int count;
    int *of; /* owned [nodes]: which branch */
    /* Owned: recorded on the control stream when a direction begins, and wherever a branch is to
     * wait for all that stands there. */
    struct sw_event *begin, *control;
};

/* Gives the graph's nodes at most args->streams streams with args->threads math threads each. *out
 * stays NULL where one is enough: no layer could run beside another, or the device runs operations
 * at once. Errors: SW_ERR_NOMEM, those of the device. */
int sw_branches_new(const struct sw_net_graph *graph, const struct sw_net_args *args,
                    struct sw_branches **out, struct sw_err *err) SW_MUST_CHECK;
void sw_branches_free(struct sw_branches *b); /* NULL is accepted */

/* Where the node's operations are queued; without branches (NULL), on the net's own stream. */
struct sw_stream *sw_branches_stream(const struct sw_branches *b, int node, struct sw_stream *own);
/* Waits on the host for all branches, for good or ill: what they use may be freed then. */
void sw_branches_settle(struct sw_branches *b);
