/* A worker's end of the exchange: everything between "the gradient of a layer is complete" and "the
 * next value may be read". Each parameter takes one route (route.h), chosen when the end is made:
 * the table in host memory, a copy of it on a device, or an update on the device from a gradient
 * that servers or devices have summed. The update control (struct sw_control, exchange_private.h)
 * says whether updates are made one by one or together, and where that is decided. Callers never
 * ask which route or control is in use.
 *
 * A version counts updates: version 0 is the initial value, gradient t makes version t.
 *
 * Thread rule: one owner, the worker; but for sw_exchange_under_way and sw_exchange_set_rows, which
 * say otherwise. */
#pragma once

#include "base/tree.h"
#include "device/copy_queue.h"
#include "exchange/copy_mode.h"
#include "exchange/reduce/factors.h"
#include "exchange/sums.h"
#include "exchange/table/table.h"
#include "thread/fault.h"

struct sw_exchange;

/* Where the time of a worker goes that pulls or pushes. */
enum sw_exchange_time {
    SW_EXCHANGE_IDLE,    /* until it began to wait */
    SW_EXCHANGE_UPDATE,  /* in servers that it runs itself */
    SW_EXCHANGE_EXPOSED, /* waiting for others */
};

/* What the rooms above lend. */
struct sw_exchange_hooks {
    void *user;
    /* Runs the servers that share the worker's cores, as far as they have messages. */
    int (*serve)(void *user, struct sw_err *err);
    /* The time since the last call goes there. */
    void (*charge)(void *user, enum sw_exchange_time part);
    /* The worker waits for a version of a parameter (param >= 0) or for the gradients of the other
     * workers (-1); or no longer (NULL text). */
    void (*waiting)(void *user, int param, uint64_t version, const char *text);
    /* Waits for the compute stream, and charges the time to the parts of the step. With `loss` it
     * first queues the copy of the step's loss to the host. */
    int (*finish)(void *user, bool loss, struct sw_err *err);
    /* Are the loss of the step and the running statistics of the worker's rows finite? */
    int (*finite)(void *user, bool *finite, struct sw_err *err);
    /* Sums values [leaves of the worker][count] over all workers in the order of base/tree.h. */
    int (*sum)(void *user, double *values, int count, struct sw_err *err);
    const int *served; /* servers of its table that the worker runs, [served_count] */
    int served_count;
};

struct sw_exchange_args {
    struct sw_table *table;   /* borrowed; allocated before sw_exchange_new */
    struct sw_device *device; /* borrowed */
    struct sw_stream *stream; /* borrowed: the compute stream */
    struct sw_fault *fault;   /* borrowed: told when a gradient cannot reach the host */
    enum sw_copy_mode copy;
    bool own_memory;   /* the host cannot reach the device's memory */
    bool overlap;      /* gradients are pushed while lower layers compute */
    int worker;        /* its number in the table */
    const char *unit;  /* borrowed: the worker's name */
    const int *params; /* the table's indices of the worker's parameters, in layer order */
    int count;
    const struct sw_sums *sums; /* borrowed; without buckets servers add up */
    int rank;                   /* global rank: in `sums` and `factors` */
    struct sw_factors *factors; /* borrowed: of all devices; NULL: none are exchanged */
    int64_t most_rows;          /* of a batch that the worker may have */
    bool votes; /* update control on the device needs a sum over all workers each step (hooks.sum):
                 * of norms of split parameters, or of vetoes. The same on all workers */
    struct sw_exchange_hooks hooks;
};

/* Takes device memory for values and gradients, and for updater state where the device updates.
 * Errors: SW_ERR_NOMEM, those of the device. */
int sw_exchange_new(const struct sw_exchange_args *args, struct sw_exchange **out,
                    struct sw_err *err) SW_MUST_CHECK;
void sw_exchange_free(struct sw_exchange *x); /* NULL is accepted */
/* Memory that sw_exchange_new takes: the device's, and the host's beside the table. Of args it
 * reads table, copy, own_memory, worker, params, count and most_rows. */
struct sw_exchange_bytes {
    size_t device, host;
};
struct sw_exchange_bytes sw_exchange_bytes(const struct sw_exchange_args *args);

/* Sets which rows of the batch the worker has: [first, first + rows). Bindings change: bind again.
 * By any thread while no step runs. */
void sw_exchange_set_rows(struct sw_exchange *x, int64_t first, int64_t rows);
/* Where the net reads a value, and writes what its gradient is made of. */
struct sw_exchange_binding {
    const float *value;
    int partials;                   /* arrays of partial sums: the worker's nodes of the tree */
    float *partial[SW_TREE_LEAVES]; /* [0] NULL: it is frozen, or made of factors */
    float *x, *dy;                  /* factors of the worker's rows; NULL: it has none */
};
/* Valid until the rows change. */
void sw_exchange_bind(const struct sw_exchange *x, int param, struct sw_exchange_binding *out);

/* Parameters of a layer; or of a net. */
struct sw_param_list {
    const int *param; /* the table's indices */
    int count;
};

/* ---- The step, in the order of its calls ---- */

/* Step `version` begins. *scale: by what its gradients are to be multiplied. Waits for the decision
 * about the step before, where the scale follows from it. */
int sw_exchange_begin(struct sw_exchange *x, uint64_t version, double *scale,
                      struct sw_err *err) SW_MUST_CHECK;
/* What is queued on the compute stream from here on reads the parameters at `version`; waits until
 * they are there, and runs hosted servers meanwhile. */
int sw_exchange_pull(struct sw_exchange *x, struct sw_param_list list, uint64_t version,
                     struct sw_err *err) SW_MUST_CHECK;
/* The device's own part of a push: operations on the compute stream, which may be captured. */
int sw_exchange_queue_push(struct sw_exchange *x, struct sw_param_list list,
                           struct sw_err *err) SW_MUST_CHECK;
/* The gradients of step `version` are complete when what is queued is done, and the values are read
 * no more. With `copy = sync` it waits for the updates. */
int sw_exchange_push(struct sw_exchange *x, struct sw_param_list list, uint64_t version,
                     struct sw_err *err) SW_MUST_CHECK;
/* Does the push of the parameter need the host, or its pull? Else both are the device's own. */
bool sw_exchange_needs_host(const struct sw_exchange *x, int param);
/* True under update control on the device: all updates are queued after the last backward pass, so
 * no pull in the next step waits, and segments need no break before a forward pass. */
bool sw_exchange_updates_at_end(const struct sw_exchange *x);
/* Is the decision about the update part of the step's own operations, behind the last backward?
 * Then sw_exchange_queue_decision queues it, and sw_exchange_end counts on that. */
bool sw_exchange_queues_decision(const struct sw_exchange *x);
int sw_exchange_queue_decision(struct sw_exchange *x, struct sw_err *err) SW_MUST_CHECK;
/* All gradients of step `version` are pushed. */
int sw_exchange_end(struct sw_exchange *x, uint64_t version, struct sw_err *err) SW_MUST_CHECK;
/* The loss of the step is known, and the stream was waited for behind sw_exchange_ask: the worker
 * says whether it was finite, and what was decided becomes known. Errors: SW_ERR_DIVERGED where a
 * gradient that is not finite stops. */
int sw_exchange_learn(struct sw_exchange *x, uint64_t version, struct sw_err *err) SW_MUST_CHECK;
/* By how many steps the values that were pulled since sw_exchange_begin lack updates of others. */
int64_t sw_exchange_lag(const struct sw_exchange *x);

/* ---- Between steps ---- */

/* wait_all: until every update group's update `version` of every parameter is in the table.
 * wait_own: the same for the worker's update group; returns at once under update control on the
 * device, where sw_exchange_learn has reported the decision. Neither copies to a device. */
int sw_exchange_wait_all(struct sw_exchange *x, uint64_t version, struct sw_err *err) SW_MUST_CHECK;
int sw_exchange_wait_own(struct sw_exchange *x, uint64_t version, struct sw_err *err) SW_MUST_CHECK;
/* The values in the table are others at the same version, because groups were merged: the next pull
 * copies them again. Between steps. */
void sw_exchange_refresh(struct sw_exchange *x);
/* Does any device hold newer values than the table? Then every worker calls sync_to_host between
 * two barriers. It copies values and updater state of the parameters that this worker owns, and
 * with `all` (one worker passes true) of the replicated ones. sw_exchange_pull was called for all.
 * Waits for the compute stream. Errors: SW_ERR_DIVERGED, as below. */
bool sw_exchange_keeps_values(const struct sw_exchange *x);
int sw_exchange_sync_to_host(struct sw_exchange *x, uint64_t version, bool all,
                             struct sw_err *err) SW_MUST_CHECK;

/* ---- Watching ---- */

/* Ends of a step's parts, as the device comes to them. */
enum sw_mark { SW_MARK_BEGIN, SW_MARK_INPUT, SW_MARK_FORWARD, SW_MARK_BACKWARD, SW_MARKS };

/* Queues a mark: when the device came there. */
int sw_exchange_mark(struct sw_exchange *x, enum sw_mark mark, struct sw_err *err) SW_MUST_CHECK;
/* Queues the copy of the marks and, where the device updates, of what it found not finite. When the
 * compute stream has been waited for: the marks [SW_MARKS] in nanoseconds of the device's clock;
 * and SW_ERR_DIVERGED naming the update and the parameter where something was not finite. */
int sw_exchange_ask(struct sw_exchange *x, struct sw_err *err) SW_MUST_CHECK;
const int64_t *sw_exchange_marks(const struct sw_exchange *x); /* NULL: no device of its own */
int sw_exchange_check_finite(const struct sw_exchange *x, struct sw_err *err) SW_MUST_CHECK;
/* How long copies of values to the device, of gradients to the host, have taken so far. */
int64_t sw_exchange_copied_ns(const struct sw_exchange *x, enum sw_copy_direction d);
/* Gradients that are on their way to the host; of NULL none are. Any thread. */
int sw_exchange_under_way(const struct sw_exchange *x);
/* Values [count] of a worker that are summed over all workers before a decision; 0: none are. */
int sw_exchange_vote_count(const struct sw_table *t);
