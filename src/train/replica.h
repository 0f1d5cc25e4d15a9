/* A worker's copy of the parameters on a device whose memory the host cannot reach. Values and
 * gradients travel by the worker's copy queue, lowest layers first, while the device computes: a
 * layer's forward waits for its copy by an event, and the gradient of a layer goes to the host as
 * soon as the kernels that make it are done; when it is there the servers are told, from a thread
 * of the device. That is `copy = async`.
 *
 * With `sync` the worker waits for each of these copies. With `none` the replica is not a copy but
 * where the parameters live, with the updater's state: updates are operations of the compute
 * stream. A parameter of which only this worker has a gradient is updated as soon as that is
 * complete, and nothing of it moves. Of others the gradient goes to the host, where the servers add
 * up those of all workers, and the sum comes back in its place: every device makes the same update,
 * and no value moves. Where factors are exchanged between devices that is so in every mode: each
 * makes the gradient out of those of all workers. The table gets the values when somebody is to
 * read them (sw_replica_bring_home). One owner: the worker. */
#ifndef SW_TRAIN_REPLICA_H
#define SW_TRAIN_REPLICA_H

#include "cluster/conf.h"
#include "comm/factors.h"
#include "device/copy_queue.h"
#include "param/table.h"
#include "sync/fault.h"
#include "train/reduce.h"

struct sw_replica;

/* Ends of a step's parts, as the device comes to them. */
enum sw_mark { SW_MARK_BEGIN, SW_MARK_INPUT, SW_MARK_FORWARD, SW_MARK_BACKWARD, SW_MARKS };

struct sw_replica_args {
    struct sw_table *table;   /* borrowed; allocated before sw_replica_new */
    struct sw_device *device; /* borrowed */
    struct sw_stream *stream; /* borrowed: the compute stream */
    struct sw_fault *fault;   /* borrowed: told when a gradient cannot reach the host */
    enum sw_copy_mode mode;
    int worker;        /* its number in the table */
    const char *unit;  /* borrowed: the worker's name */
    const int *params; /* the table's indices of the worker's parameters, in layer order */
    int count;
    const struct sw_reduction *reduction; /* borrowed; without buckets servers add up */
    int rank;                             /* in its sums, and among those who exchange factors */
    struct sw_factors *factors;           /* borrowed: of all devices; NULL: none are exchanged */
    int64_t most_rows;                    /* of a batch that the worker may have */
    bool exchanges; /* decisions need what other workers know: sums of their parts, or their word */
};

/* Takes device memory for values and gradients, and for updater state where it updates. Errors:
 * SW_ERR_NOMEM, those of the device. */
int sw_replica_new(const struct sw_replica_args *args, struct sw_replica **out,
                   struct sw_err *err) SW_MUST_CHECK;
void sw_replica_free(struct sw_replica *r); /* NULL is accepted */
/* Bytes of device memory that one of a parameter takes, for a worker of the table. */
size_t sw_replica_item_bytes(const struct sw_table *t, int worker, int param,
                             enum sw_copy_mode mode);
/* And what is there beside: marks of time, and what updates need, of all together. */
size_t sw_replica_flag_bytes(const struct sw_table *t, int count, enum sw_copy_mode mode);
/* Does the device update? */
bool sw_replica_updates(const struct sw_replica *r);
/* Is there a version of the table to wait for, before sw_replica_need? */
bool sw_replica_waits(const struct sw_replica *r, int param);
/* Before it, too: waits, at most timeout_ms, until all workers have given their gradients of step
 * `version` where devices add these up. SW_OK (also where they do not), SW_ERR_BUSY,
 * SW_ERR_CANCELLED. */
int sw_replica_wait_sum(const struct sw_replica *r, int param, uint64_t version,
                        int timeout_ms) SW_MUST_CHECK;

/* Where parameter `param` (the table's index) lives on the device; NULL when the worker has not got
 * it. */
float *sw_replica_value(const struct sw_replica *r, int param);
float *sw_replica_gradient(const struct sw_replica *r, int param, int term); /* of the worker's */

/* Where gradients are made out of factors: the worker has these rows of the batch from here on, and
 * writes the factors of its rows there, for the layer of a parameter. */
void sw_replica_set_rows(struct sw_replica *r, int64_t first, int64_t rows);
float *sw_replica_factor_x(const struct sw_replica *r, int param);
float *sw_replica_factor_dy(const struct sw_replica *r, int param);
/* Device memory for factors on their way to servers. */
size_t sw_replica_factor_bytes(const struct sw_table *t, int64_t most_rows);

/* Step `version` begins: what the device's updates in it are goes there, ahead of them. The stream
 * was waited for since the last step. */
int sw_replica_begin(struct sw_replica *r, uint64_t version, struct sw_err *err) SW_MUST_CHECK;
/* The table has version `version` of the parameter (or of what it is updated with): what is queued
 * on the compute stream from here on sees it. Also starts the copies of all other parameters that
 * are there already. */
int sw_replica_need(struct sw_replica *r, int param, uint64_t version,
                    struct sw_err *err) SW_MUST_CHECK;
/* Who waits for versions looks here now and then: the error of a copy that never arrived. */
int sw_replica_check(struct sw_replica *r, struct sw_err *err) SW_MUST_CHECK;
/* How long copies of values to the device, of gradients to the host, have taken so far. */
int64_t sw_replica_copied_ns(const struct sw_replica *r, enum sw_copy_direction d);
/* Gradients that are on their way to the host. Any thread. */
int sw_replica_under_way(const struct sw_replica *r);
/* What is queued so far makes the gradient of step `version`: copies it to the host, then tells the
 * servers; or updates. */
int sw_replica_give(struct sw_replica *r, int param, uint64_t version,
                    struct sw_err *err) SW_MUST_CHECK;
/* With `sync`: waits until all copies that were started are done. */
int sw_replica_settle(struct sw_replica *r, struct sw_err *err) SW_MUST_CHECK;

/* Device memory for norms of gradients, where the device decides about updates. */
size_t sw_replica_norm_bytes(const struct sw_table *t, int worker, enum sw_copy_mode mode);
size_t sw_replica_norm_mail_bytes(const struct sw_table *t,
                                  enum sw_copy_mode mode); /* the host's */
/* Does the device decide about the updates of a step, when all their gradients are there, before it
 * makes any of them (param/decide.c)? */
bool sw_replica_decides(const struct sw_replica *r);
/* With what is said on the host meanwhile; or with nothing but gradients of its own? */
bool sw_replica_exchanges(const struct sw_replica *r);
bool sw_replica_decides_alone(const struct sw_replica *r);
/* Then, after sw_replica_give and sw_replica_need of all parameters: queues sums of squares; the
 * decision and all updates of the version. */
int sw_replica_measure(struct sw_replica *r, struct sw_err *err) SW_MUST_CHECK;
int sw_replica_decide(struct sw_replica *r, uint64_t version, struct sw_err *err) SW_MUST_CHECK;
/* These were queued otherwise (train/segments.h). */
void sw_replica_went_on(struct sw_replica *r, uint64_t version);
/* Between the two, where they are exchanged: sums are copied to the host; when the stream was
 * waited for, those for which the worker speaks are values [its leaves][*count] to be added over
 * all workers, the last of them its veto; the totals, in the same place, are sent back. */
int sw_replica_sum_count(const struct sw_table *t); /* that *count; 0: no device decides */
int sw_replica_fetch_totals(struct sw_replica *r, struct sw_err *err) SW_MUST_CHECK;
double *sw_replica_totals(struct sw_replica *r, bool veto, int *count);
int sw_replica_send_totals(struct sw_replica *r, struct sw_err *err) SW_MUST_CHECK;
/* What was decided, when the stream has been waited for behind sw_replica_ask. */
const struct sw_decided *sw_replica_decided(const struct sw_replica *r);

/* Is the parameter updated as soon as the worker gives its gradient, since no other has one? Where
 * the device decides, it only needs nobody else. */
bool sw_replica_is_own(const struct sw_replica *r, int param);
/* The update that sw_replica_give would queue has been queued otherwise (train/segments.h). */
void sw_replica_gave(struct sw_replica *r, int param, uint64_t version);

/* Queues a mark: when the device came there. */
int sw_replica_mark(struct sw_replica *r, enum sw_mark mark, struct sw_err *err) SW_MUST_CHECK;
/* Asks the device, on the compute stream, for its marks and, where it updates, whether everything
 * was finite. When that stream has been waited for: the marks [SW_MARKS] by the device's clock; and
 * SW_ERR_DIVERGED naming the update and the parameter where something was not finite. */
int sw_replica_ask(struct sw_replica *r, struct sw_err *err) SW_MUST_CHECK;
const int64_t *sw_replica_marks(const struct sw_replica *r);
int sw_replica_check_finite(const struct sw_replica *r, struct sw_err *err) SW_MUST_CHECK;
/* Where the device updates: brings values and state to the table, of the parameters that it has to
 * itself and with `all` of those that all workers have; sw_replica_need was called for all of them.
 * Waits for the compute stream. Errors: SW_ERR_DIVERGED, as above. */
int sw_replica_bring_home(struct sw_replica *r, uint64_t version, bool all,
                          struct sw_err *err) SW_MUST_CHECK;

#endif
