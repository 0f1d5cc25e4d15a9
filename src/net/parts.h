/* A worker's rows in parts: a net per part, all of one graph, run layer by layer. In the usual case
 * there is one part, the worker's rows, and a pass is the net's own.
 *
 * With several parts (virtual workers) every one is a leaf of the tree over the batch
 * (base/tree.h), with plans for its own rows and one math thread, so that what it computes does not
 * depend on whose it is; several math threads of the worker run several parts at the same time, in
 * lanes. What layers sum up between two phases is handed to the group leaf by leaf, gradients of
 * parameters in terms (tree_plan.h). Parts that one lane runs share their scratch and the buffers
 * of gradients that are not added up yet.
 *
 * One owner: the worker. */
#pragma once

#include "net/net.h"
#include "net/tree_plan.h"

struct sw_parts;

struct sw_parts_args {
    const struct sw_net_args *net; /* of all; rows, fields' rows and separate_scratch are set here,
                                      and for parts alone the stream. A net without `sharing` takes
                                      the first one's layouts */
    const int64_t *rows;           /* [count] */
    int leaves, first, count;      /* the parts are leaves [first, first + count) of the batch */
    bool alone;                    /* each on one math thread, several at a time */
    int threads;                   /* of the worker's stream */
};

/* Builds the nets. Errors: those of sw_net_new, SW_ERR_NOMEM. */
int sw_parts_new(const struct sw_parts_args *args, struct sw_parts **out,
                 struct sw_err *err) SW_MUST_CHECK;
void sw_parts_free(struct sw_parts *p); /* NULL is accepted */

/* How many leaves of the batch these are. */
int sw_parts_count(const struct sw_parts *p);
/* Part 0 answers for the graph: all have the same layers and parameters. */
struct sw_net *sw_parts_net(const struct sw_parts *p, int part);
/* The part's first row among the worker's. */
int64_t sw_parts_row(const struct sw_parts *p, int part);
/* Terms of gradients that the worker hands over. */
int sw_parts_terms(const struct sw_parts *p);

/* As sw_net_fit, of all parts together, and what that costs them. Before sw_parts_bind. */
int sw_parts_fit(struct sw_parts *p, size_t budget_bytes, const struct sw_net_rates *rates,
                 struct sw_net_fit *fit, struct sw_err *err) SW_MUST_CHECK;
struct sw_net_cost sw_parts_cost(const struct sw_parts *p);
/* As sw_net_bind_swap, with sw_parts_cost(p).swap_bytes of host memory. */
void sw_parts_bind_swap(struct sw_parts *p, void *memory);

/* Memory of all parts, as sw_net_arena_bytes, and where it is. */
size_t sw_parts_arena_bytes(const struct sw_parts *p);
void sw_parts_bind(struct sw_parts *p, void *arena);
/* After sw_parts_bind: the value, and in training the arrays of the gradient's terms; NULL without
 * a gradient. */
void sw_parts_bind_param(struct sw_parts *p, int param, const float *value, float *const *terms);

/* A data field for the coming pass: the rows of each part, one part behind the other, every one at
 * a multiple of SW_PARTS_ALIGN bytes. */
enum { SW_PARTS_ALIGN = 64 };
int sw_parts_set_field(struct sw_parts *p, const char *field, void *data,
                       struct sw_err *err) SW_MUST_CHECK;
/* As sw_net_set_step, with the worker's first row and valid rows. */
int sw_parts_set_step(struct sw_parts *p, const struct sw_step *step,
                      struct sw_err *err) SW_MUST_CHECK;

/* Adds values [parts][count] over all leaves of the batch, host memory; the sum is left in the
 * first of them. in_rows: every worker has its own rows of the layer; else all workers of a group
 * that have anything of it have the group's rows, and what is added is over groups. */
typedef int sw_parts_sum(void *user, double *values, int count, bool in_rows, struct sw_err *err);
/* Called between two phases of a layer that sums something up; NULL (as after sw_parts_new): there
 * is one part and no other worker. */
void sw_parts_set_sum(struct sw_parts *p, sw_parts_sum *sum, void *user);
/* Called between any two phases of a layer, which may be long: a sign of life. NULL: nobody asks.
 */
void sw_parts_set_beat(struct sw_parts *p, void (*beat)(void *user), void *user);

/* One layer of a pass, by all parts. After backward the terms of the parameters that are complete
 * with it are written. Errors as sw_net_forward. */
int sw_parts_forward(struct sw_parts *p, int layer, struct sw_err *err) SW_MUST_CHECK;
int sw_parts_backward(struct sw_parts *p, int layer, struct sw_err *err) SW_MUST_CHECK;
/* The same in turn `turn` of a Gibbs chain, where nothing is complete yet. */
int sw_parts_turn(struct sw_parts *p, int layer, bool backward, int turn,
                  struct sw_err *err) SW_MUST_CHECK;
/* Is a pass of the layer nothing but operations that are queued for a device of its own, for which
 * the host waits for nobody? */
bool sw_parts_only_queues(const struct sw_parts *p, int layer, bool backward);
/* Before memory that passes use is freed: waits for all streams of the nets but the worker's. */
void sw_parts_settle(struct sw_parts *p); /* NULL is accepted */
/* As sw_net_fetch, for all. */
int sw_parts_fetch(struct sw_parts *p, struct sw_err *err) SW_MUST_CHECK;
