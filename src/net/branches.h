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
 * the schedule) waits for an event of the earlier one, unless another wait says so already. Sums
 * are therefore added in the order of one stream, and results have the same bits. Memory is another
 * matter: blocks that one stream after the other would use must not share a place, so a block lives
 * as long as any pass that may run beside one of its users (sw_branches_from, sw_branches_until).
 *
 * The net's own stream is the control stream: what others queue there (values that arrive, batches,
 * gradients that leave, updates) stays ordered with the passes, because
 * - a branch's stream waits for it when a direction begins, and before a layer with parameters;
 * - it waits for a layer with parameters after its backward, between two phases of a layer, and for
 *   all branches at the end of a direction.
 * Only one direction is under way at a time. One owner: the net. */
#ifndef SW_NET_BRANCHES_H
#define SW_NET_BRANCHES_H

#include "net/net_private.h"

struct sw_branches;

/* Gives the net's nodes, before their setup, at most `most` streams with that many math threads
 * each. *out stays NULL where one is enough: no layer could run beside another, or the device runs
 * operations at once. Errors: SW_ERR_NOMEM, those of the device. */
int sw_branches_new(const struct sw_net *net, int most, int threads, struct sw_branches **out,
                    struct sw_err *err) SW_MUST_CHECK;
void sw_branches_free(struct sw_branches *b); /* NULL is accepted */
int sw_branches_count(const struct sw_branches *b);

/* Finds who waits for whom, once the net's schedule is made; it may be asked again. Errors:
 * SW_ERR_NOMEM, those of the device. */
int sw_branches_order(struct sw_branches *b, struct sw_err *err) SW_MUST_CHECK;
/* The first and the last act that may run at the same time as act a. */
int sw_branches_from(const struct sw_branches *b, int act);
int sw_branches_until(const struct sw_branches *b, int act);

/* Where the node's operations are queued; without branches, the net's stream. */
struct sw_stream *sw_net_stream_of(const struct sw_net *net, int node);

/* Before and behind a phase of the node's pass. Nothing happens where b is NULL. Errors: those of
 * the device. */
int sw_branches_enter(struct sw_branches *b, int node, bool back, int phase,
                      struct sw_err *err) SW_MUST_CHECK;
int sw_branches_leave(struct sw_branches *b, int node, bool back, int phase,
                      struct sw_err *err) SW_MUST_CHECK;
/* Waits on the host for all branches, for good or ill: what they use may be freed then. */
void sw_branches_settle(struct sw_branches *b);

/* For tests: the k-th wait of the pass, as the node whose pass is waited for; -1 behind the last.
 * And forgets it, so that a device that watches who uses what can show that it does. */
int sw_branches_wait_of(const struct sw_branches *b, int node, bool back, int k);
void sw_branches_drop_wait(struct sw_branches *b, int node, bool back, int k);

#endif
