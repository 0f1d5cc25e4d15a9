/* The nets of a worker's microbatches: one net per microbatch, all of one graph, run layer by
 * layer. Usually there is one microbatch, all rows of the worker, and a pass is the net's own.
 *
 * With several microbatches (virtual_workers) each one is a leaf of the reduction tree over the
 * batch (base/tree.h), with primitives for its own rows and one math thread, so that its results do
 * not depend on which worker computes it. Several math threads of a worker run several microbatches
 * at the same time, in lanes. The sums of layers between two phases go to the group leaf by leaf,
 * gradients of parameters as partial sums (tree_plan.h). The microbatches of one lane share scratch
 * memory and the pool of gradients that are not reduced yet.
 *
 * One owner: the worker. */
#pragma once

#include "net/net.h"
#include "net/tree_plan.h"

struct sw_microbatches;

struct sw_microbatches_args {
    const struct sw_net_args *net; /* of all nets; sw_microbatches_new sets rows, the fields' rows
                                      and separate_scratch, and with `alone` the stream. A net
                                      without `sharing` takes the first one's layouts */
    const int64_t *rows;           /* [count] */
    int leaves, first, count; /* the microbatches are leaves [first, first + count) of the batch */
    bool alone;               /* each on one math thread, several at the same time */
    int threads;              /* of the worker's stream */
};

/* Builds the nets. Errors: those of sw_net_new, SW_ERR_NOMEM. */
int sw_microbatches_new(const struct sw_microbatches_args *args, struct sw_microbatches **out,
                        struct sw_err *err) SW_MUST_CHECK;
void sw_microbatches_free(struct sw_microbatches *p); /* NULL is accepted */

/* Number of microbatches. */
int sw_microbatches_count(const struct sw_microbatches *p);
/* The net of a microbatch. All have the same layers and parameters; use 0 for questions about the
 * graph. */
struct sw_net *sw_microbatches_net(const struct sw_microbatches *p, int microbatch);
/* The microbatch's first row among the worker's. */
int64_t sw_microbatches_row(const struct sw_microbatches *p, int microbatch);
/* Number of partial gradient sums that the worker contributes per parameter. */
int sw_microbatches_partials(const struct sw_microbatches *p);

/* sw_net_fit and sw_net_cost for all microbatches together. Call before sw_microbatches_bind. */
int sw_microbatches_fit(struct sw_microbatches *p, size_t budget_bytes,
                        const struct sw_device_throughput *throughput, struct sw_net_fit *fit,
                        struct sw_err *err) SW_MUST_CHECK;
struct sw_net_cost sw_microbatches_cost(const struct sw_microbatches *p);
/* Sets the host memory for offloaded activations of all microbatches,
 * sw_microbatches_cost(p).offload_bytes bytes, borrowed. */
void sw_microbatches_bind_offload(struct sw_microbatches *p, void *memory);

/* The memory that all microbatches need together, and binding it (see sw_net_arena_bytes and
 * sw_net_bind). */
size_t sw_microbatches_arena_bytes(const struct sw_microbatches *p);
void sw_microbatches_bind(struct sw_microbatches *p, void *arena);
/* After sw_microbatches_bind: binds the value and, in training, the arrays of the partial gradient
 * sums; partials is NULL without a gradient. */
void sw_microbatches_bind_param(struct sw_microbatches *p, int param, const float *value,
                                float *const *partials);
/* After sw_microbatches_bind_param with gradients: as sw_net_bind_row_list, for the only partial
 * sum. Several microbatches write all rows and no list. */
void sw_microbatches_bind_row_list(struct sw_microbatches *p, int param,
                                   struct sw_row_list *listed);

/* Binds a data field for the next pass: the rows of each microbatch in order, each at a multiple of
 * SW_MICROBATCHES_ALIGN bytes. */
enum { SW_MICROBATCHES_ALIGN = 64 };
int sw_microbatches_set_field(struct sw_microbatches *p, const char *field, void *data,
                              struct sw_err *err) SW_MUST_CHECK;
/* As sw_net_set_pixels, for rows laid out like those of sw_microbatches_set_field. */
int sw_microbatches_set_pixels(struct sw_microbatches *p, const char *field,
                               const struct sw_pixels_args *how, struct sw_err *err) SW_MUST_CHECK;
/* Sets the scalars of the next pass. step has the worker's first row and valid rows; every
 * microbatch gets its own. Errors: those of sw_net_set_step. */
int sw_microbatches_set_step(struct sw_microbatches *p, const struct sw_step *step,
                             struct sw_err *err) SW_MUST_CHECK;

/* Callback: sums values [microbatches][count] in host memory over all leaves of the batch and
 * writes the sum to the first one. in_rows: every worker has its own rows of the layer; otherwise
 * every worker of a group that has a shard of the layer has all rows of the group, and the sum is
 * over groups. */
typedef int sw_microbatches_sum(void *user, double *values, int count, bool in_rows,
                                struct sw_err *err);
/* The callback runs between two phases of a layer that has sums. NULL (the default): there is one
 * microbatch and no other worker. */
void sw_microbatches_set_sum(struct sw_microbatches *p, sw_microbatches_sum *sum, void *user);
/* Callback for a worker with one microbatch: queues the sum over all workers of values [count] in
 * device memory. With it, which is called with the `user` of the other one and in its place, the
 * host waits for no device. */
typedef int sw_microbatches_queue_sum(void *user, double *values, int count, struct sw_err *err);
void sw_microbatches_set_queue_sum(struct sw_microbatches *p, sw_microbatches_queue_sum *queue);
/* beat is called between any two phases of a layer, which may take long, as a heartbeat. NULL: no
 * heartbeat. */
void sw_microbatches_set_heartbeat(struct sw_microbatches *p, void (*beat)(void *user), void *user);

/* Runs one layer of a pass for all microbatches. After backward the partial gradient sums of the
 * parameters that this layer completes are written. Errors as sw_net_forward. */
int sw_microbatches_forward(struct sw_microbatches *p, int layer, struct sw_err *err) SW_MUST_CHECK;
int sw_microbatches_backward(struct sw_microbatches *p, int layer,
                             struct sw_err *err) SW_MUST_CHECK;
/* Runs one layer in Gibbs step `turn` of a chain (algorithm = cd), in which no gradient is complete
 * yet. Errors as sw_net_forward. */
int sw_microbatches_gibbs_step(struct sw_microbatches *p, int layer, bool backward, int turn,
                               struct sw_err *err) SW_MUST_CHECK;
/* True if a pass of the layer only queues operations on a device, so that the host does not wait.
 */
bool sw_microbatches_only_queues(const struct sw_microbatches *p, int layer, bool backward);
/* sw_net_join_streams for all microbatches. */
int sw_microbatches_join_streams(struct sw_microbatches *p, struct sw_err *err) SW_MUST_CHECK;
/* Waits for all streams of the nets except the worker's. Call before freeing memory that passes
 * use. */
void sw_microbatches_wait(struct sw_microbatches *p); /* NULL is accepted */
/* Queues the copy of the losses and metrics of all microbatches to the host (sw_net_fetch). */
int sw_microbatches_fetch(struct sw_microbatches *p, struct sw_err *err) SW_MUST_CHECK;
