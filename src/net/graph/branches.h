/* Branches: independent layers of one net run on separate streams.
 *
 * The branches of an inception block, two modalities before they meet, or an auxiliary classifier
 * beside the rest of the net leave a device idle when they run one after the other, each too small
 * to fill it. On devices that queue work, every layer is assigned one of a few streams: that of a
 * source whose stream no other layer continues, else one that runs only layers it depends on
 * anyway.
 *
 * Dependencies follow from the sets that each pass reads and writes: activations, their gradients,
 * and gradients of shared parameters. Where two passes of one direction on different streams touch
 * the same thing, and one of them writes it, the later one (in the order of the execution order)
 * waits for an event of the earlier one, unless another wait implies it. Sums are therefore added
 * in the same order as on one stream, and results are bit-identical. The memory plan must account
 * for concurrency: a block lives as long as any pass that may run concurrently with one of its
 * users (struct sw_branch_order).
 *
 * Some nets run on one stream: all nets on the CPU, nets with connections between workers, Gibbs
 * chains or output layers, several nets of one worker (net/microbatches.h), and nets with a memory
 * budget.
 *
 * The net's own stream is the control stream: what others queue there (values that arrive, batches,
 * gradients that leave, updates) stays ordered with the passes, because
 * - a branch's stream waits for it when a direction begins, and before a layer with parameters;
 * - it waits for a layer with parameters after its backward, between two phases of a layer, and for
 *   all branches at the end of a direction.
 * Only one direction runs at a time. This file assigns the streams, which depends on the
 * graph alone; branch_order.h has the rest. One owner: the net. */
#pragma once

#include "net/graph/graph.h"

struct sw_branch {
    struct sw_stream *stream; /* owned */
    struct sw_event *tail;    /* owned: recorded where the control stream must wait */
};

struct sw_branches {
    struct sw_device *dev;    /* borrowed: the net's */
    struct sw_branch *branch; /* owned [count] */
    int count;
    int *of; /* owned [nodes]: branch of each node */
    /* Owned: recorded on the control stream when a direction begins, and wherever a branch must
     * wait for all work queued there. */
    struct sw_event *begin, *control;
};

/* Gives the graph's nodes at most args->streams streams with args->threads math threads each. *out
 * stays NULL if one stream is enough: no two layers are independent, or the device runs operations
 * synchronously. Errors: SW_ERR_NOMEM, those of the device. */
int sw_branches_new(const struct sw_net_graph *graph, const struct sw_net_args *args,
                    struct sw_branches **out, struct sw_err *err) SW_MUST_CHECK;
void sw_branches_free(struct sw_branches *b); /* NULL is accepted */

/* The stream of the node's operations; `own`, the net's stream, when b is NULL. */
struct sw_stream *sw_branches_stream(const struct sw_branches *b, int node, struct sw_stream *own);
/* Waits on the host for all branches and ignores errors; afterwards their memory may be freed. */
void sw_branches_settle(struct sw_branches *b);
