/* A worker's end of the exchange: everything between "the gradient of a layer is complete" and "the
 * next value may be read". Each parameter takes one route (route.h), chosen when the worker's end
 * is made: the table in host memory, a copy of the table's value on a device, or an update on the
 * device from a gradient that servers or devices have summed. Update control (struct
 * sw_update_controller, exchange_private.h) decides whether parameters are updated one by one or
 * all together, and where that decision is made. Callers never ask which route or controller is in
 * use.
 *
 * A version counts updates: version 0 is the initial value, gradient t makes version t.
 *
 * Thread rule: one owner, the worker, except for sw_exchange_copies_in_flight and
 * sw_exchange_set_rows, which say otherwise. */
#pragma once

#include "base/tree.h"
#include "device/copy_queue.h"
#include "exchange/copy_mode.h"
#include "exchange/reduce/factors.h"
#include "exchange/sums.h"
#include "exchange/table/table.h"
#include "thread/fault.h"

struct sw_exchange;

/* Parts of the time that a worker spends in pull and push. */
enum sw_exchange_time {
    SW_EXCHANGE_IDLE,    /* work before the wait began */
    SW_EXCHANGE_UPDATE,  /* running the servers that the worker hosts */
    SW_EXCHANGE_EXPOSED, /* waiting for others */
};

/* Callbacks that the worker provides. */
struct sw_exchange_hooks {
    void *user;
    /* Runs the servers that share the worker's cores, as far as they have messages. */
    int (*serve)(void *user, struct sw_err *err);
    /* Charges the time since the last call to `part`. */
    void (*charge)(void *user, enum sw_exchange_time part);
    /* The worker waits for a version of a parameter (param >= 0) or for the gradients of the other
     * workers (-1); NULL text: the wait is over. */
    void (*waiting)(void *user, int param, uint64_t version, const char *text);
    /* Waits for the compute stream, and charges the time to the parts of the step. With `loss` it
     * first queues the copy of the step's loss to the host. */
    int (*finish)(void *user, bool loss, struct sw_err *err);
    /* Sets *finite: are the loss of the step and the running statistics of the worker's rows
     * finite? */
    int (*finite)(void *user, bool *finite, struct sw_err *err);
    /* Sums values [reduction leaves of the worker][count] over all workers in the order of
     * base/tree.h. */
    int (*sum)(void *user, double *values, int count, struct sw_err *err);
    const int *served; /* servers of its table that the worker runs, [served_count] */
    int served_count;
};

struct sw_exchange_args {
    struct sw_table *table;   /* borrowed; allocated before sw_exchange_new */
    struct sw_device *device; /* borrowed */
    struct sw_stream *stream; /* borrowed: the compute stream */
    struct sw_fault *fault;   /* borrowed: set when a gradient cannot reach the host */
    enum sw_copy_mode copy;
    bool own_memory;   /* the host cannot reach the device's memory */
    bool overlap;      /* gradients are pushed while lower layers compute */
    int worker;        /* its rank in the table */
    const char *role;  /* borrowed: the worker's name */
    const int *params; /* the table's indices of the worker's parameters, in layer order */
    int count;
    const struct sw_sums *sums; /* borrowed; no buckets: servers reduce */
    int rank;                   /* global rank: in `sums` and `factors` */
    struct sw_factors *factors; /* borrowed: of all devices; NULL: none are exchanged */
    int64_t max_rows;           /* of the batch that the worker can get */
    bool votes; /* update control on the device needs a sum over all workers in each step
                   (hooks.sum): of the norms of split parameters, or of vetoes. The same on all
                   workers */
    /* Updates of a step are queued when all its sums have been waited for without an error, so that
     * the device holds the last complete step whenever the job ends. Where devices sum */
    bool whole_steps;
    struct sw_exchange_hooks hooks;
};

/* Allocates device memory for values and gradients, and for updater state where the device updates.
 * Errors: SW_ERR_NOMEM, those of the device. */
int sw_exchange_new(const struct sw_exchange_args *args, struct sw_exchange **out,
                    struct sw_err *err) SW_MUST_CHECK;
void sw_exchange_free(struct sw_exchange *x); /* NULL is accepted */
/* Memory that sw_exchange_new allocates: on the device, and on the host in addition to the table.
 * Reads table, copy, own_memory, worker, params, count and max_rows of args. */
struct sw_exchange_bytes {
    size_t device, host;
};
struct sw_exchange_bytes sw_exchange_bytes(const struct sw_exchange_args *args);

/* Sets which rows of the batch the worker has: [first, first + rows). Invalidates all bindings:
 * call sw_exchange_bind again. Any thread, while no step runs. */
void sw_exchange_set_rows(struct sw_exchange *x, int64_t first, int64_t rows);
/* Where the net reads a value and writes its partial gradients or factors. */
struct sw_exchange_binding {
    const float *value;
    int partials; /* partial sums of the worker: its nodes of the reduction tree */
    float *partial[SW_TREE_LEAVES]; /* [0] NULL: the parameter is frozen, or its gradient is made of
                                       factors */
    struct sw_row_list *listed;     /* unless NULL, a layer that can may write only the rows of
                                       partial[0] that are not zero, and this list of them */
    float *x, *dy;                  /* factors of the worker's rows; NULL: none */
};
/* Fills *out, which is valid until the rows change. */
void sw_exchange_bind(const struct sw_exchange *x, int param, struct sw_exchange_binding *out);

/* The parameters of a layer, or of a net. */
struct sw_param_list {
    const int *param; /* the table's indices */
    int count;
};

/* ---- The step, in the order of its calls ---- */

/* Begins step `version`. *scale: the factor by which its gradients are to be multiplied. Waits for
 * update control of the previous step where the scale depends on it. */
int sw_exchange_begin(struct sw_exchange *x, uint64_t version, double *scale,
                      struct sw_err *err) SW_MUST_CHECK;
/* Work that is queued on the compute stream after this call reads the parameters at `version`.
 * Blocks until they are available, and runs hosted servers meanwhile. */
int sw_exchange_pull(struct sw_exchange *x, struct sw_param_list list, uint64_t version,
                     struct sw_err *err) SW_MUST_CHECK;
/* Hands over the gradients of step `version`, which are complete when the queued work is done; the
 * values are not read any more. With `copy = sync` it waits for the updates. */
int sw_exchange_push(struct sw_exchange *x, struct sw_param_list list, uint64_t version,
                     struct sw_err *err) SW_MUST_CHECK;
/* Does the push or the pull of the parameter need the host? If not, the device does both alone. */
bool sw_exchange_needs_host(const struct sw_exchange *x, int param);
/* The bucket of the parameter's gradient, which moves with the last push of that bucket; -1: it
 * moves alone. */
int sw_exchange_bucket(const struct sw_exchange *x, int param);
/* True under update control on the device: all updates are queued after the last backward pass, so
 * no pull in the next step waits, and segments need no break before a forward pass. */
bool sw_exchange_updates_at_end(const struct sw_exchange *x);
/* Are updates part of the step's own operations, after the last backward pass? If so, the caller
 * queues them, and update control, with sw_exchange_queue_updates before sw_exchange_end:
 * operations on the compute stream, which may be captured. */
bool sw_exchange_queues_updates(const struct sw_exchange *x);
int sw_exchange_queue_updates(struct sw_exchange *x, struct sw_err *err) SW_MUST_CHECK;
/* Ends the pushes: all gradients of step `version` have been pushed. */
int sw_exchange_end(struct sw_exchange *x, uint64_t version, struct sw_err *err) SW_MUST_CHECK;
/* Call once the loss of the step is known, after sw_exchange_queue_report and a wait for that copy.
 * Reports whether the loss is finite, and makes the result of update control known. behind: 1 if
 * the next step is already queued, else 0. Errors: SW_ERR_DIVERGED where a non-finite gradient ends
 * the run. */
int sw_exchange_finish(struct sw_exchange *x, uint64_t version, int behind,
                       struct sw_err *err) SW_MUST_CHECK;
/* How many steps may be queued before the first of them is finished: 2 where devices update, alone
 * or with sums that they make themselves, so that a step needs nothing that the host learns from
 * the one before; else 1. */
int sw_exchange_depth(const struct sw_exchange *x);
/* The staleness, in steps, of the values that were pulled since sw_exchange_begin. */
int64_t sw_exchange_lag(const struct sw_exchange *x);

/* ---- Between steps ---- */

/* wait_all: until every update group's update `version` of every parameter is in the table, or can
 * be pulled after sw_exchange_refresh.
 * wait_own: the same for the worker's update group; returns at once under update control on the
 * device, where sw_exchange_finish has reported the decision. Neither copies to a device. */
int sw_exchange_wait_all(struct sw_exchange *x, uint64_t version, struct sw_err *err) SW_MUST_CHECK;
int sw_exchange_wait_own(struct sw_exchange *x, uint64_t version, struct sw_err *err) SW_MUST_CHECK;
/* Forgets which versions the device has, because merging groups changed values in the table without
 * a new version: the next pull copies them again. Where devices make the updates of all groups, it
 * makes all that are complete. Between steps, after sw_exchange_wait_all of all workers. */
void sw_exchange_refresh(struct sw_exchange *x);
/* Does any device hold newer values than the table? Then every worker calls sync_to_host between
 * two barriers. It copies values and updater state of the parameters that this worker owns, and
 * with `all` (one worker passes true) of the replicated ones. sw_exchange_pull was called for all.
 * Waits for the compute stream. Errors: SW_ERR_DIVERGED, as below. */
bool sw_exchange_keeps_values(const struct sw_exchange *x);
int sw_exchange_sync_to_host(struct sw_exchange *x, uint64_t version, bool all,
                             struct sw_err *err) SW_MUST_CHECK;

/* ---- After the loss of another host ---- */

/* With whole_steps, when no work of the compute stream is in progress any more: the last step whose
 * updates were queued, or that the values began with; -1: none. */
int64_t sw_exchange_last_step(const struct sw_exchange *x);
/* Copies the parameters of that step to the table, by a stream that has not failed; waits for it.
 * Errors: SW_ERR_LIBRARY (some updates were not made), those of the device, and those of
 * sw_exchange_sync_to_host. */
int sw_exchange_rescue(struct sw_exchange *x, struct sw_stream *stream,
                       struct sw_err *err) SW_MUST_CHECK;

/* ---- Monitoring ---- */

/* Points of a step that the device reports when it reaches them. */
enum sw_mark { SW_MARK_BEGIN, SW_MARK_INPUT, SW_MARK_FORWARD, SW_MARK_BACKWARD, SW_MARKS };

/* Queues a mark, which records the time at which the device reaches it. */
int sw_exchange_mark(struct sw_exchange *x, enum sw_mark mark, struct sw_err *err) SW_MUST_CHECK;
/* Queues the copy of the marks and, where the device updates, of its non-finite flags. After a wait
 * for that copy, sw_exchange_marks returns the marks [SW_MARKS] in nanoseconds of the device's
 * clock, and sw_exchange_check_finite fails with SW_ERR_DIVERGED, naming the update and the
 * parameter, if something was not finite. behind: 0 for the newest step, 1 for the one before it.
 */
int sw_exchange_queue_report(struct sw_exchange *x, struct sw_err *err) SW_MUST_CHECK;
/* NULL: the worker computes in host memory. */
const int64_t *sw_exchange_marks(const struct sw_exchange *x, int behind);
int sw_exchange_check_finite(const struct sw_exchange *x, int behind,
                             struct sw_err *err) SW_MUST_CHECK;
/* Time that copies have taken so far: of values to the device, or of gradients to the host. */
int64_t sw_exchange_copied_ns(const struct sw_exchange *x, enum sw_copy_direction d);
/* Number of gradients that are being copied to the host; 0 for NULL. Any thread. */
int sw_exchange_copies_in_flight(const struct sw_exchange *x);
/* How many values of a worker update control sums over all workers; 0: none. */
int sw_exchange_vote_count(const struct sw_table *t);
