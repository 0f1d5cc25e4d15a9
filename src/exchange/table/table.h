/* The parameter table: every parameter of a job, partitioned into slices that servers own, and the
 * rules by which gradients become new values (SINGA, TOMM 5.1; tech report 5.2-5.3, Algorithms 3
 * and 4). A table is one server group: a complete copy of all parameters. With several server
 * groups there are several tables (sync.h).
 *
 * Values exist once per table, in the layout that the forward plans chose; gradients and updater
 * state have the same layout. A slice is a range of this storage. Padding is zero and stays zero,
 * so updaters run over it. Files have whole parameters in plain logical order: table_file.c gathers
 * and splits. Parts of one parameter that several workers hold have one name and differ by
 * part_first; initial values are functions of the index in the whole.
 *
 * A worker writes its gradient into an array of its own (or several, its partial sums) and sends
 * `update`: the gradient of step t is complete, and the worker does not read version t-1 any more.
 * Workers whose gradients make one update are an update group: all of them under BSP, those of one
 * worker group where groups are asynchronous. When the contributions of a whole update group have
 * arrived, a server sums the gradients slice by slice in the order of base/tree.h, runs the
 * updater, and advances the version. The count of contributions is therefore also the count of
 * readers that have finished; evaluation and checkpoints run on a worker's thread between two of
 * its updates and need no count of their own. An early contribution is kept until its turn.
 *
 * A slice is updated alone as soon as its gradients are complete, unless update control needs all
 * gradients (update_control.c). Each element is computed independently and gradients are summed in
 * one order, so the result depends neither on the number of slices and servers nor on threads.
 *
 * Under BSP the one update group reads the values in place. Otherwise every update group reads a
 * buffer of its own, into which a server copies a slice right after the update group's update of
 * it, as the answer: only the owner of a slice touches it, so no lock is needed. With a staleness
 * bound s the answer to update t waits until the slowest update group has done t-s. Staleness is
 * counted in steps: this update group's minus the fewest of any other that the values it reads
 * contain. Hogwild has no servers in between: the last worker of an update group applies the
 * updater itself while others read and write (Recht et al. 2011), and the worker that reads checks
 * the bound.
 *
 * Update groups may be remote: their gradients and buffers are at the other end of a connection
 * that the table does not know (struct sw_table_outer). In the table that has the values, a remote
 * update group is one more, with one contribution per update. In the table of its workers, servers
 * sum gradients and publish values, but make no updates.
 *
 * Where a layer's gradients have factors (base/exchange_mode.h), workers write these instead. A
 * server makes the gradient of a slice, a range of whole outputs, when all rows of an update group
 * have arrived: for the weight from its outputs' dy and all of x, for the bias from the same
 * outputs. In shared memory an update group has its factors once; for devices every server has a
 * copy of what it needs. A worker writes factors only after it has pulled the previous version, so
 * nobody reads what it overwrites.
 *
 * Worker side: sw_table_update, sw_table_ready, sw_table_wait. Server side: sw_table_serve handles
 * one message and never waits; the waiting loop around it, in a thread of its own or in a worker
 * between two layers, is in worker/server.c.
 *
 * Thread rule: built by one thread, then frozen except for what is said at each field. */
#pragma once

#include "device/device.h"
#include "exchange/table/message.h"
#include "optim/init.h"
#include "optim/loss_scale.h"
#include "optim/updater.h"
#include "tensor/tensor.h"
#include "thread/atomic.h"

struct sw_param {
    char *name; /* owned: "conv1.weight" */
    struct sw_desc
        layout; /* storage of value, gradients and slots; logical dims as in checkpoints */
    int64_t fan_in, fan_out;
    int owner; /* the only worker of a group that has it and contributes gradients; -1: all */
    /* The part is [part_first, + layout.dim[part_dim]) of the part_whole elements of dimension
     * part_dim that several workers hold together; part_whole 0: this is the whole. */
    int64_t part_first, part_whole;
    int part_dim;
    struct sw_init_conf init;
    int contributors; /* workers of an update group that contribute gradients; 0: it is frozen */
    int factors;     /* index of the factors that make its gradients; -1: workers write gradients */
    bool frozen;     /* no gradient, updater state or slice; every version is available at once */
    bool lists_rows; /* the layer can write only the rows of its gradient that are not zero */
    struct sw_row_list *listed; /* owned [update groups]: these rows, each list written with the
                                   gradient by its worker; NULL: gradients have all rows */
    float lr_mult, decay_mult;
    float *value;                  /* written by the servers that own its slices */
    float *slot[SW_UPDATER_SLOTS]; /* updater state, written by the same servers */
    float *sum; /* sum of the update group's gradients, where workers make the updates: written by
                   the servers that own its slices; else NULL */
    float **gradient; /* owned array [partial sums of all workers, in their order]; each written by
                         its worker. With factors only each update group's first, written by the
                         servers that own its slices */
    int first_slice, slice_count;
    struct sw_param_view *view; /* owned [update groups of the table] */
};

/* A parameter as one update group sees it. */
struct sw_param_view {
    float *value;    /* where the update group reads: the parameter's value, or the update group's
                        buffer */
    float *gradient; /* the first of the group's arrays in sw_param.gradient, which receives sums;
                        NULL: none */
    uint64_t ready;  /* atomic: slice updates that it can read; version = ready / slice_count */
    int given;       /* atomic, Hogwild: gradients contributed to the next update */
};

/* A range of a parameter's storage. Only the server that owns it touches the counters. */
struct sw_slice {
    int param, server;
    int64_t from, count;
    uint64_t version;    /* updates of all update groups; atomic under Hogwild */
    uint64_t dropped;    /* how many of these updates were not applied; atomic under Hogwild */
    int64_t first_block; /* in two phases: of its sums of squares */
};

/* Where the factors of a layer's gradients are stored. */
enum sw_factor_home {
    SW_FACTORS_SHARED,    /* once per update group: all servers read them */
    SW_FACTORS_BY_SERVER, /* every server has what it needs */
    SW_FACTORS_EXCHANGED, /* every worker has all of them, and makes gradients and updates itself */
};
struct sw_table_factors {
    int64_t rows, inputs, outputs; /* of an update group's batch */
    int64_t steps;                 /* rows per row of the batch */
    enum sw_factor_home home;
    int weight, bias; /* parameters; -1: none */
    /* Owned [update groups][copies: 1 or servers]: [rows, inputs], [rows, outputs]; NULL where a
     * server has nothing to make. Each worker writes its own rows. */
    float **x, **dy;
};

struct sw_table;
struct sw_table_control;

/* A consistency rule. The tech report's threshold of a slice is the size of an update group. */
struct sw_table_rule {
    const char *name;
    bool is_async; /* every worker group is an update group */
    bool in_place; /* update groups read the one value array */
    bool races;    /* workers make the updates; false: servers */
    /* A worker's gradient of step `version` is complete (sw_table_update). */
    int (*push)(struct sw_table *t, int worker, int param, uint64_t version, struct sw_err *err);
    /* Carries out what update control has decided for an update group. */
    int (*apply)(struct sw_table *t, int group, const struct sw_table_control *d,
                 struct sw_err *err);
};
/* Bulk synchronous: a slice changes when all workers have contributed. */
extern const struct sw_table_rule sw_table_bsp;
/* Asynchronous or, with a bound, stale synchronous: a slice changes when the workers of one group
 * have contributed. */
extern const struct sw_table_rule sw_table_async;
/* Lock-free: groups update shared memory themselves. Some updates of an element may be lost when
 * two groups write it at the same time. */
extern const struct sw_table_rule sw_table_hogwild;

/* What happens to a gradient, or a value after its update, that is not finite. Dropping an update
 * takes two phases, and verdicts of all workers (sw_table_report_loss). */
enum sw_table_bad {
    SW_BAD_STOPS, /* both are errors */
    SW_BAD_DROPS, /* a gradient drops the update of all parameters; a value is an error */
    SW_BAD_TELLS, /* a gradient drops the update; sw_table_nonfinite_param reports a value */
};

/* The result of update control for an update group's update of all parameters. */
struct sw_table_control {
    uint64_t version;
    double grad_norm;  /* of all its gradients together, clipped by value but not by norm */
    float scale;       /* factor of all gradients, from clipping by norm and the loss scale */
    double loss_scale; /* the gradients were multiplied by it; 1 without scaling */
    bool dropped;
    bool overflow; /* dropped because of the loss scale, which is halved for the next update */
    uint64_t dropped_so_far; /* updates, this one included, at that time */
    int bad_param; /* the first parameter whose gradient is not finite; -1: none, a worker vetoed
                      the update because of its loss */
};

/* What lies beyond this table: other tables, with the same slices. All functions are called by
 * servers and never wait.
 *
 * Sums over tables that have gradients of the same updates: after the servers have summed an update
 * group's gradients of a slice, `give` gets the sum x [elements of the slice], and makes it the sum
 * over all tables; then it calls sw_table_put_sum. Where gradients are made of factors (of which
 * this table's workers write their rows only), `give_rows` gets the number of the factors when
 * these rows are complete, fills in those of all other tables, and calls sw_table_put_rows. Every
 * table then makes the same gradients.
 *
 * Remote update groups, at the end of the workers (updates_outside): `give` gets the sum x to send
 * to the table that makes the updates; x is borrowed until sw_table_put_values, which is called
 * when the new values of all slices of the parameter are where the update group reads. At the end
 * of the values (remote_groups): when the gradient of a whole parameter is in the update group's
 * array, sw_table_put_gradient is called; after the update `answer` is called for each slice, of
 * which a copy is in the update group's buffer until the next sw_table_put_gradient. `staleness` is
 * that of sw_table_staleness. */
struct sw_table_outer {
    int (*give)(void *user, int group, int slice, uint64_t version, float *x, struct sw_err *err);
    int (*give_rows)(void *user, int factors, uint64_t version, struct sw_err *err);
    int (*answer)(void *user, int group, int slice, uint64_t version, int staleness,
                  struct sw_err *err);
    void *user;
};

/* Settings of a table. All pointers are borrowed for its life. */
struct sw_table_args {
    struct sw_device *device;
    enum sw_precision precision; /* of the products that make gradients from factors */
    uint64_t seed;
    const struct sw_updater *updater;
    const void *updater_conf; /* of the type */
    const struct sw_updater_conf *common;
    const struct sw_type *schedule;
    const void *schedule_conf;
    uint64_t horizon_steps,
        schedule_from;      /* the schedule's length, and the step after which it begins */
    int64_t slice_elements; /* the largest slice; rounded up to a multiple of 16 */
    int workers, servers;
    int groups; /* worker groups of equal size, in rank order; 0: one */
    int leaves; /* leaves of the reduction tree over an update group (base/tree.h), distributed by
                   sw_part; 0: one per worker */
    /* Workers update copies of their own with sw_table_update_on_device. A parameter with one
     * contributor is updated by that worker alone; of the others servers sum the gradients into
     * `sum`, and the version is that of the sum. One update group. With two phases the workers also
     * run update control, and all compute the same result (sw_table_settle). */
    bool updates_on_device;
    /* Additionally the sums over workers are made outside of the table: no parameter has servers.
     */
    bool sums_on_device;
    int others; /* server groups that exchange with each other, including this one; 0: none */
    const struct sw_table_rule *rule; /* NULL: sw_table_bsp */
    /* The NUMA nodes of a server or worker, as sw_device_alloc_on takes them; NULL: pages lie where
     * they are first touched. */
    uint64_t (*server_nodes)(void *user, int server);
    uint64_t (*worker_nodes)(void *user, int worker);
    void *nodes_user;
    int64_t staleness; /* staleness bound, in steps, between update groups; -1: none */
    /* Limits for clipping: of each gradient element, and of the norm over all parameters; 0: none.
     */
    double clip_value, clip_norm;
    enum sw_table_bad bad;
    /* Run update control over all parameters before any is updated, even if neither clipping by
     * norm, dropping, nor an updater needs it. Slices are then multiples of SW_GATHER_BLOCK. */
    bool two_phases;
    /* Initial loss scale, which doubles after loss_scale_every good updates (optim/loss_scale.h);
     * 0: gradients are not scaled. Takes two phases. */
    double loss_scale;
    int64_t loss_scale_every;
    /* Update groups of other tables, numbered after those of this table's workers. Needs
     * outer.answer, sw_table_async and SW_BAD_STOPS, and gradients that are not scaled. */
    int remote_groups;
    /* The update groups of this table are remote groups of another one, which makes the updates.
     * This one has no updater state, and with one update group no buffer. Needs outer.give, and the
     * same as remote_groups. */
    bool updates_outside;
    /* give NULL: this table has all gradients. Without updates_outside it needs one update group,
     * and SW_BAD_STOPS: verdicts about losses are this table's alone. Gradients that devices sum
     * are not given. */
    struct sw_table_outer outer;
};

struct sw_param_spec {
    const char *name; /* copied; parts of one parameter have the same name */
    struct sw_desc layout;
    int64_t fan_in, fan_out;
    int owner; /* see struct sw_param */
    int64_t part_first, part_whole;
    int part_dim;
    struct sw_init_conf init;
    int factors; /* *number of sw_table_add_factors; 0: none */
    bool frozen;
    bool lists_rows;
    double lr_mult, decay_mult; /* products of all multipliers */
};

/* Called by a server after it applied an update, for a trace or a test. */
typedef void sw_table_on_update(void *user, int server, int param, uint64_t version,
                                int64_t begin_ns, int64_t end_ns);

/* Makes a table without parameters; args are copied, what they point to is borrowed. Errors:
 * SW_ERR_INVALID, SW_ERR_NOMEM, SW_ERR_UNSUPPORTED (args.outer, args.remote_groups). */
int sw_table_new(const struct sw_table_args *args, struct sw_table **out,
                 struct sw_err *err) SW_MUST_CHECK;
/* Pins the table's memory for copies of a device (sw_device_pin), from sw_table_allocate on; or
 * unpins it, before that device is closed. */
void sw_table_pin(struct sw_table *t, struct sw_device *dev, bool pinned);
void sw_table_free(struct sw_table *t);
/* Adds a parameter; its index counts from 0. Errors: SW_ERR_INVALID (the name is taken),
 * SW_ERR_NOMEM. */
int sw_table_add(struct sw_table *t, const struct sw_param_spec *spec, int *index,
                 struct sw_err *err) SW_MUST_CHECK;
/* Adds the factors of one layer's gradients: rows, inputs, outputs, steps and home of *f. *number,
 * at least 1, is for the specs of its parameters: weight [outputs, inputs], plain, then bias.
 * Errors: SW_ERR_NOMEM, SW_ERR_UNSUPPORTED (exchanged factors with other tables, or asynchronous
 * without a staleness bound). */
int sw_table_add_factors(struct sw_table *t, const struct sw_table_factors *f, int *number,
                         struct sw_err *err) SW_MUST_CHECK;
/* Partitions the parameters into slices and distributes them over the servers by bytes. No
 * parameters can be added afterwards. */
int sw_table_freeze(struct sw_table *t, struct sw_err *err) SW_MUST_CHECK;
/* Before sw_table_allocate: servers reduce after all, in spite of args.sums_on_device. */
void sw_table_reduce_on_servers(struct sw_table *t);
/* Bytes that sw_table_allocate allocates: values; gradients and updater state. */
void sw_table_bytes(const struct sw_table *t, size_t *value_bytes, size_t *state_bytes);
int sw_table_allocate(struct sw_table *t, struct sw_err *err) SW_MUST_CHECK;
/* Fills the values from the initializers (version 0). */
int sw_table_init_values(struct sw_table *t, struct sw_err *err) SW_MUST_CHECK;
void sw_table_set_on_update(struct sw_table *t, sw_table_on_update *on_update, void *user);

int sw_table_count(const struct sw_table *t);
int64_t sw_table_elements(const struct sw_table *t); /* logical, over all parameters */
const struct sw_param *sw_table_param(const struct sw_table *t, int index);
/* Where the plain elements of a parameter or of its part are in the whole: `count` runs of `length`
 * elements, the first at `first`, each `step` elements after the previous one. */
struct sw_param_runs {
    int64_t count, length, first, step;
};
struct sw_param_runs sw_param_runs(const struct sw_param *p);
/* Fills the dimensions of the whole parameter; returns their number. */
int sw_param_whole(const struct sw_param *p, int64_t dim[SW_MAX_DIMS]);

/* Index of the parameter, or of its part that begins at `part_first`; -1 when absent. */
int sw_table_find(const struct sw_table *t, const char *name, int64_t part_first);
/* The number of update groups, remote ones included, and the one that a worker belongs to. */
int sw_table_update_groups(const struct sw_table *t);
int sw_table_update_group(const struct sw_table *t, int worker);
/* The staleness bound between them; -1: none. */
int64_t sw_table_staleness_bound(const struct sw_table *t);
/* Where a worker reads the parameter. */
const float *sw_table_value(const struct sw_table *t, int worker, int param);
/* Number of this table's workers that contribute gradients to its updates; 0 when it is frozen. */
int sw_table_contributors(const struct sw_table *t, int param);
/* A worker's part of the sum over its update group: its reduction leaves, and the number of its
 * partial sums, which are the nodes of the tree that cover these leaves. */
void sw_table_leaves(const struct sw_table *t, int worker, int *first, int *count);
int sw_table_partials(const struct sw_table *t, int worker);
/* A partial sum: its leaves [from, to), and the array that it is written to; NULL when the worker
 * contributes no gradient of the parameter. */
struct sw_table_partial {
    int from, to;
    float *gradient;
};
struct sw_table_partial sw_table_partial(const struct sw_table *t, int worker, int param,
                                         int partial);
/* The list for the rows of the worker's gradient, if it may write only those that are not zero;
 * else NULL. */
struct sw_row_list *sw_table_row_list(const struct sw_table *t, int worker, int param);
int sw_table_factor_count(const struct sw_table *t);
const struct sw_table_factors *sw_table_factors_at(const struct sw_table *t, int i);
/* The factors that make a parameter's gradients; NULL: none. */
const struct sw_table_factors *sw_table_factors_of(const struct sw_table *t, int param);
/* Where the rows of an update group are written, in the copy of `server` if servers have copies;
 * NULL where that server needs none. */
float *sw_table_factor_x(const struct sw_table *t, const struct sw_table_factors *f, int group,
                         int server);
float *sw_table_factor_dy(const struct sw_table *t, const struct sw_table_factors *f, int group,
                          int server);
/* The range of outputs that a server owns; *count 0: none. */
void sw_table_factor_range(const struct sw_table *t, const struct sw_table_factors *f, int server,
                           int64_t *first, int64_t *count);
/* Who reduces the gradients of a parameter. */
enum sw_reduction {
    SW_REDUCTION_NONE,    /* nobody: it is frozen, or its only contributor updates it */
    SW_REDUCTION_SERVERS, /* servers, which also update it unless updates_on_device */
    SW_REDUCTION_DEVICES, /* sums_on_device: devices, outside of the table */
    SW_REDUCTION_FACTORS, /* every worker, from exchanged factors; it also updates */
};
enum sw_reduction sw_table_reduction(const struct sw_table *t, int param);
int sw_table_servers(const struct sw_table *t);
/* The slices of a frozen table, lowest parameters first. */
int sw_table_slices(const struct sw_table *t);
const struct sw_slice *sw_table_slice(const struct sw_table *t, int i);
const struct sw_updater *sw_table_updater(const struct sw_table *t);
int sw_table_slots(const struct sw_table *t);
/* Updater slots of one parameter. */
int sw_table_param_slots(const struct sw_table *t, int param);
/* Limits of a gradient's elements and of the norm of all; 0: none. */
float sw_table_clip_value(const struct sw_table *t);
double sw_table_clip_norm(const struct sw_table *t);
/* Does the worker contribute gradients of the parameter? */
bool sw_table_contributes(const struct sw_table *t, int param, int worker);
/* The learning rate of update t = step + 1, which is after schedule_from. */
double sw_table_rate(const struct sw_table *t, uint64_t step);

/* A view of a parameter for checkpoints and evaluation; slot -1 is the value. Between steps only.
 */
struct sw_tensor sw_table_tensor(struct sw_table *t, int param, int slot);
/* After a checkpoint was read: all update groups have done `version` updates, which together were
 * `updates`, of which `dropped` were not applied. */
void sw_table_put_version(struct sw_table *t, uint64_t version, uint64_t updates, uint64_t dropped);
/* Sets the version of one update group, and nothing else: for a group that starts later. */
void sw_table_put_group(struct sw_table *t, int group, uint64_t version);
/* Sets the version of one parameter that no server advances, of all update groups, by the worker
 * that updates it; others may read it meanwhile. */
void sw_table_put_param(struct sw_table *t, int param, uint64_t version);
/* Copies the current parameters to the buffer that the update group reads, and resets its
 * staleness. Between steps only, when all updates of all update groups are applied. */
void sw_table_refresh(struct sw_table *t, int group);
/* Updates so far, of all update groups, those that were dropped included. Between steps. */
uint64_t sw_table_updates(const struct sw_table *t);
/* Those of one parameter that were applied. */
uint64_t sw_table_applied(const struct sw_table *t, int param);
/* Updates that were dropped so far, of any update group. Any thread. */
uint64_t sw_table_dropped(const struct sw_table *t);

/* Sets the error that a gradient or value of update `version` is not finite: SW_ERR_DIVERGED,
 * naming the parameter. */
int sw_table_report_nonfinite(const struct sw_table *t, int param, uint64_t version,
                              struct sw_err *err) SW_MUST_CHECK;
/* Does update control run before updates are applied? And does it run on the workers' devices? */
bool sw_table_has_phases(const struct sw_table *t);
bool sw_table_is_controlled_on_device(const struct sw_table *t);
/* With update control on devices: stores its result for update `version`. Called by any or all of
 * the workers, one after the other; the first call for a version counts, and the others have the
 * same result, also when they come after the first call for the next version. All getters of
 * results return it afterwards. Errors: SW_ERR_DIVERGED where a non-finite gradient ends the run.
 */
int sw_table_settle(struct sw_table *t, const struct sw_update_control_result *control,
                    uint64_t version, struct sw_err *err) SW_MUST_CHECK;
/* Fills *out with the result of update control for the update group's update `version`; false if it
 * is not decided yet, or not one of the last few. A worker that has seen a parameter at that
 * version also sees the result. */
bool sw_table_control(const struct sw_table *t, int group, uint64_t version,
                      struct sw_table_control *out);
/* Are gradients multiplied by a loss scale that update control adjusts? */
bool sw_table_scales(const struct sw_table *t);
/* The factor of the update group's gradients of the next update: 1 without scaling. For a worker of
 * the update group that has seen a parameter at the previous version. */
double sw_table_loss_scale(const struct sw_table *t, int group);
/* The state of the loss scale, and setting it where there is one. Between steps. */
struct sw_loss_scale sw_table_scale(const struct sw_table *t, int group);
void sw_table_put_scale(struct sw_table *t, int group, struct sw_loss_scale scale);
/* A parameter with a value that is not finite, or -1. Covers a version once all parameters have
 * been seen at it. Only with SW_BAD_TELLS. */
int sw_table_nonfinite_param(const struct sw_table *t);

/* --- worker side --- */

/* The gradient of step `version` (1, 2, ...) of this parameter is complete in the worker's partial
 * sums, and the worker does not read the value any more. Notifies every server that owns a slice;
 * under Hogwild the last worker of an update group updates the parameter here, with the calling
 * thread's OpenMP team. Errors: SW_ERR_CANCELLED, and under Hogwild those of sw_table_serve. */
int sw_table_update(struct sw_table *t, int worker, int param, uint64_t version,
                    struct sw_err *err) SW_MUST_CHECK;
/* Where non-finite gradients drop updates, every worker reports once per step whether its loss is
 * finite: update control of its update group waits for it. Errors: those of sw_table_update. */
int sw_table_report_loss(struct sw_table *t, int worker, bool fine,
                         struct sw_err *err) SW_MUST_CHECK;
enum { SW_TABLE_ALL = -1 }; /* in place of an update group */

/* Can the update group read values that contain its update `version` and, where staleness is
 * bounded, enough of the others'? SW_TABLE_ALL: is update `version` of every update group that is
 * not lost applied? */
bool sw_table_ready(const struct sw_table *t, int group, int param, uint64_t version);
/* How many steps the update group at `version` is ahead of the slowest whose updates are in what it
 * reads, once that version is ready and before it pushes its next gradient. */
int64_t sw_table_staleness(const struct sw_table *t, int group, int param, uint64_t version);
/* Waits until sw_table_ready, at most timeout_ms. SW_OK, SW_ERR_BUSY (timeout), SW_ERR_CANCELLED. A
 * worker that runs servers itself names them in `served` (count of them; NULL: none): SW_ERR_BUSY
 * then also means that one of their inboxes has a message. */
int sw_table_wait(struct sw_table *t, int group, int param, uint64_t version, const int *served,
                  int count, int timeout_ms) SW_MUST_CHECK;

/* --- server side --- */

/* The inbox of a server. */
struct sw_queue *sw_table_inbox(struct sw_table *t, int server);
/* Handles one message of the server's inbox with the calling thread's OpenMP team; never waits. An
 * early update is kept until its turn. Errors: SW_ERR_DIVERGED naming the parameter when a gradient
 * or value is not finite, SW_ERR_INVALID for an impossible message (a bug or an intruder). */
int sw_table_serve(struct sw_table *t, int server, const struct sw_message *m,
                   struct sw_err *err) SW_MUST_CHECK;
/* The sum of a slice over all tables, of update `version`, is in place of its gradient: tells the
 * server that owns it. Never waits. Any thread. */
void sw_table_put_sum(struct sw_table *t, int slice, uint64_t version);
/* The rows of all tables of these factors, of update `version`, are in place: tells the servers. As
 * sw_table_put_sum. */
void sw_table_put_rows(struct sw_table *t, int factors, uint64_t version);
/* The gradient of a remote update group's update `version` is in its array (sw_param.view) for all
 * slices of the parameter: tells the servers. Never waits. Any thread, but one at a time for a
 * group. */
void sw_table_put_gradient(struct sw_table *t, int group, int param, uint64_t version);
/* With updates_outside: the values that contain update `version` of the group are where it reads:
 * tells the servers. As sw_table_put_gradient. */
void sw_table_put_values(struct sw_table *t, int group, int param, uint64_t version, int staleness);
/* A remote update group is gone: the staleness bound does not count it any more, and it gets no
 * answers. Gradients that were put are applied; in two phases, if those of all parameters were.
 * Then nobody waits for it. Never waits. Any thread, once, after its last sw_table_put_gradient. */
void sw_table_lose_group(struct sw_table *t, int group);
bool sw_table_is_lost(const struct sw_table *t, int group);
/* Does the server own a slice of the parameter? */
bool sw_table_has_slices(const struct sw_table *t, int server, int param);
/* Bytes per step of values that a server sends to a worker; and of gradients, or of factors of its
 * `rows` rows of the batch, that the worker pushes to the server. */
int64_t sw_table_link_bytes(const struct sw_table *t, int worker, int server);
int64_t sw_table_pushed_bytes(const struct sw_table *t, int worker, int64_t rows, int server);
/* Nanoseconds that a server has spent in sw_table_serve. Any thread. */
int64_t sw_table_served_ns(const struct sw_table *t, int server);
/* Ends every wait on the table; for sw_fault_attach. */
void sw_table_close_v(void *table);
/* When all roles have ended, perhaps in the middle of an update: applies the last update that
 * update control has decided wherever that was not done, so that all parameters have one version,
 * *version. For one update group with two phases on the host. Errors: those of sw_table_serve. */
int sw_table_finish(struct sw_table *t, uint64_t *version, struct sw_err *err) SW_MUST_CHECK;
