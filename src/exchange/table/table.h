/* The parameter table: every parameter of a job, cut into slices that servers own, and the rules by
 * which gradients become new values (SINGA, TOMM 5.1; tech report 5.2-5.3, Algorithms 3 and 4). It
 * is one server group: a complete copy of all parameters. With several server groups there are
 * several tables (sync.h).
 *
 * Values live once per table, in the layout that the forward plans chose; gradients and updater
 * state have the same layout. A slice is a range of this storage. Padding is zero and stays zero,
 * so updaters run over it. Files have whole parameters in plain logical order: table_file.c gathers
 * and splits. Parts of one parameter that several workers hold have one name and differ by
 * part_first; initial values are functions of the index in the whole.
 *
 * A worker writes its gradient into an array of its own (or several, its partial sums) and says
 * `update`: the gradient of step t is complete, and I read version t-1 no more. Workers whose
 * gradients make one update are an update group: all of them under BSP, those of one worker group
 * where groups are asynchronous. When the contributions of a whole update group have arrived, a
 * server sums the gradients slice by slice in the order of base/tree.h, runs the updater, and moves
 * the version. So the count of contributions is the count of readers that have left; evaluation and
 * checkpoints run on a worker's thread between two of its updates and need no count of their own. A
 * contribution that is early is kept until its turn.
 *
 * A slice is updated by itself as soon as its gradients are complete, unless a decision needs all
 * gradients (decide.c). Each element is computed by itself and gradients are summed in one order,
 * so the result depends neither on the number of slices and servers nor on threads.
 *
 * Under BSP the one update group reads the values in place. Otherwise every update group reads a
 * buffer of its own, into which a server copies a slice right after the update group's update of
 * it, as the answer: the owner of a slice is the only one to touch it, so no lock is needed. Under
 * a bound of staleness s the answer to update t waits until the slowest update group has done t-s.
 * Staleness is counted in steps: this update group's less the fewest of any other in the values
 * that it reads. Hogwild has no servers in between: the last worker of an update group applies the
 * updater itself, others read and write meanwhile (Recht et al. 2011), and the worker that reads
 * checks the bound.
 *
 * Where a layer's gradients have factors (base/comm_way.h), workers write these instead, and a
 * server makes the gradient of a slice, a range of whole outputs, when all rows of an update group
 * are there: the weight's out of its outputs' dy and all of x, and of the bias the same outputs. In
 * shared memory an update group has its factors once; for devices every server has a copy of what
 * it needs. A worker writes factors only after it has pulled the version before, so nobody reads
 * what it overwrites.
 *
 * Worker side: sw_table_update, sw_table_ready, sw_table_wait. Server side: sw_table_serve handles
 * one message and never waits; whoever runs it (a thread of its own, or a worker between two
 * layers) is the thin shell in worker/server.c.
 *
 * Thread rule: built by one thread, then frozen but for what is said at each field. */
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
    int owner; /* the only one of a group that has it and gives gradients; -1: all */
    /* Of dimension part_dim [part_first, + layout.dim[part_dim]) of the part_whole that several
     * workers hold together; part_whole 0: the whole. */
    int64_t part_first, part_whole;
    int part_dim;
    struct sw_init_conf init;
    int factors; /* the index of what its gradients are made of; -1: workers give them */
    bool frozen; /* no gradient, no updater state, no slice: every version is there at once */
    float lr_mult, decay_mult;
    float *value;                  /* written by the servers that own its slices */
    float *slot[SW_UPDATER_SLOTS]; /* likewise */
    float *sum;       /* of the update group's gradients, where workers update for themselves:
                         written by the servers that own its slices; else NULL */
    float **gradient; /* owned array [terms of all workers, in their order]; each
                         written by its worker. With factors only each update group's first,
                         written by the servers that own its slices */
    int first_slice, slice_count;
    struct sw_param_view *view; /* owned [update groups of the table] */
};

/* A parameter as one update group sees it. */
struct sw_param_view {
    float *
        value; /* where the update group reads: the parameter's own, or the update group's buffer */
    uint64_t ready; /* atomic: slice updates that are there for it; version = ready / slice_count */
    int given;      /* atomic, Hogwild: gradients of the coming update */
};

/* A range of a parameter's storage. The server that owns it is the only one to touch the counters.
 */
struct sw_slice {
    int param, server;
    int64_t from, count;
    uint64_t version;    /* updates of all update groups, and of those, */
    uint64_t dropped;    /* how many were not applied; both atomic under Hogwild */
    int64_t first_block; /* in two phases: of its sums of squares */
};

/* Who has the factors of a layer's gradients. */
enum sw_factor_home {
    SW_FACTORS_SHARED,    /* each update group once: all servers read there */
    SW_FACTORS_BY_SERVER, /* each server what it needs */
    SW_FACTORS_EXCHANGED, /* every worker all of them: they make gradients, and update, themselves
                           */
};
struct sw_table_factors {
    int64_t rows, inputs, outputs; /* of an update group's batch */
    int64_t steps;                 /* rows that a row of the batch has */
    enum sw_factor_home home;
    int weight, bias; /* parameters; -1: none */
    /* Owned [update groups][copies: 1 or servers]: [rows, inputs], [rows, outputs]; NULL where a
     * server has nothing to make. Each row is written by the worker whose it is. */
    float **x, **dy;
};

struct sw_table;

/* A consistency rule. The tech report's threshold of a slice is the size of an update group. */
struct sw_table_rule {
    const char *name;
    bool is_async; /* every worker group is an update group of its own */
    bool in_place; /* update groups read the one value array */
    /* What a server does with an update; NULL: it has none to do, workers update themselves. */
    int (*update)(struct sw_table *t, int server, const struct sw_message *m, struct sw_err *err);
};
/* Bulk synchronous: a slice changes when all workers have contributed. */
extern const struct sw_table_rule sw_table_bsp;
/* Asynchronous, or with a bound stale synchronous: it changes when one group's workers have. */
extern const struct sw_table_rule sw_table_async;
/* Lock-free: groups update shared memory themselves. Some updates of an element may be lost where
 * two groups meet in it. */
extern const struct sw_table_rule sw_table_hogwild;

/* What a gradient, or a value after its update, that is not finite does. Dropping an update takes
 * two phases, and verdicts of all workers (sw_table_verdict). */
enum sw_table_bad {
    SW_BAD_STOPS, /* it is an error */
    SW_BAD_DROPS, /* a gradient: the update of all parameters is dropped; a value: an error */
    SW_BAD_TELLS, /* a gradient: dropped, too; a value: sw_table_torn tells */
};

/* What was decided about an update group's update of all parameters. */
struct sw_table_decision {
    uint64_t version;
    double grad_norm;  /* of all its gradients together, clipped by value but not by norm */
    float scale;       /* of all gradients: what clipping by norm and the loss scale make of them */
    double loss_scale; /* by which its gradients came multiplied; 1 without scaling */
    bool dropped;
    bool overflow; /* dropped because of the loss scale, which is half of that from here on */
    uint64_t dropped_so_far; /* updates, this one included; others may have been since */
    int bad_param; /* why: the first whose gradient is not finite; -1: a worker said so, its loss */
};

/* Which updater with which settings, and how it is cut. All borrowed for the table's life. */
struct sw_table_args {
    struct sw_device *device;
    enum sw_precision precision; /* of products that make gradients out of factors */
    uint64_t seed;
    const struct sw_updater *updater;
    const void *updater_conf; /* of the type */
    const struct sw_updater_conf *common;
    const struct sw_type *schedule;
    const void *schedule_conf;
    uint64_t horizon_steps, schedule_from; /* its length, and the step behind which it begins */
    int64_t slice_elements;                /* the largest slice; rounded up to a multiple of 16 */
    int workers, servers;
    int groups; /* of the workers, equal ones, in their order; 0: one */
    int leaves; /* of the sum over an update group (base/tree.h), dealt out by sw_part; 0: one a
                   worker */
    /* Workers update copies of their own with what sw_table_update_on_device does: a parameter that
     * one worker gives is its own affair, of others servers add up the gradients into `sum`, and
     * the version is that of the sum. One update group. With two phases they decide, too, and all
     * come to the same (sw_table_settle). */
    bool updates_on_device;
    /* And the sums of what all workers give are made by others, too: no parameter has servers. */
    bool sums_on_device;
    int others; /* server groups that exchange with each other, this one included; 0: none */
    const struct sw_table_rule *rule; /* NULL: sw_table_bsp */
    /* The NUMA nodes of a server or worker, as sw_device_alloc_on takes them; NULL: memory lies
     * where it is first touched. */
    uint64_t (*server_nodes)(void *user, int server);
    uint64_t (*worker_nodes)(void *user, int worker);
    void *nodes_user;
    int64_t staleness; /* steps by which an update group's values may lack those of another; -1: no
                          limit */
    /* Limits of a gradient: of each element, of the norm over all parameters; 0: none. */
    double clip_value, clip_norm;
    enum sw_table_bad bad;
    /* Decide about all parameters before any is updated, in every case: what clips by norm, drops
     * or needs norms does anyway. Slices are cut at blocks of SW_GATHER_BLOCK then. */
    bool two_phases;
    /* Gradients come multiplied by a scale that begins with this, and doubles after so many good
     * updates (scale.h); 0: they come as they are. It takes two phases. */
    double loss_scale;
    int64_t loss_scale_every;
};

struct sw_param_spec {
    const char *name; /* copied; parts of one parameter have the same name */
    struct sw_desc layout;
    int64_t fan_in, fan_out;
    int owner; /* see struct sw_param */
    int64_t part_first, part_whole;
    int part_dim;
    struct sw_init_conf init;
    int factors; /* what sw_table_add_factors answered; 0: none */
    bool frozen;
    double lr_mult, decay_mult; /* all factors multiplied */
};

/* Called by a server after it applied an update: what a trace, a ledger or a test wants to know. */
typedef void sw_table_watch(void *user, int server, int param, uint64_t version, int64_t begin_ns,
                            int64_t end_ns);

/* A table without parameters; args are copied, what they point to is borrowed. Errors:
 * SW_ERR_NOMEM. */
int sw_table_new(const struct sw_table_args *args, struct sw_table **out,
                 struct sw_err *err) SW_MUST_CHECK;
/* Holds all of it in place for the copies of a device (sw_device_pin), from sw_table_allocate on;
 * or no longer, before that device is closed. */
void sw_table_pin(struct sw_table *t, struct sw_device *dev, bool pinned);
void sw_table_free(struct sw_table *t);
/* Adds a parameter; its index counts from 0. Errors: SW_ERR_INVALID (the name is taken),
 * SW_ERR_NOMEM. */
int sw_table_add(struct sw_table *t, const struct sw_param_spec *spec, int *index,
                 struct sw_err *err) SW_MUST_CHECK;
/* Factors of one layer's gradients, of rows, inputs, outputs, steps and home. *number, 1 at least,
 * is for the specs of its parameters: weight [outputs, inputs], plain, then bias. Errors:
 * SW_ERR_NOMEM.
 */
int sw_table_add_factors(struct sw_table *t, const struct sw_table_factors *f, int *number,
                         struct sw_err *err) SW_MUST_CHECK;
/* Cuts slices, deals them out to the servers by bytes. No parameters can be added afterwards. */
int sw_table_freeze(struct sw_table *t, struct sw_err *err) SW_MUST_CHECK;
/* What sw_table_allocate will take: values; gradients and updater state. */
void sw_table_bytes(const struct sw_table *t, size_t *value_bytes, size_t *state_bytes);
int sw_table_allocate(struct sw_table *t, struct sw_err *err) SW_MUST_CHECK;
/* Fills the values from the initialisers (version 0). */
int sw_table_init_values(struct sw_table *t, struct sw_err *err) SW_MUST_CHECK;
void sw_table_set_watch(struct sw_table *t, sw_table_watch *watch, void *user);

int sw_table_count(const struct sw_table *t);
int64_t sw_table_elements(const struct sw_table *t); /* logical, over all parameters */
const struct sw_param *sw_table_param(const struct sw_table *t, int index);
/* Where the plain elements of a parameter or of its part are in the whole: `count` runs of
 * `length`, the first at `first`, each `step` behind the one before. */
struct sw_param_runs {
    int64_t count, length, first, step;
};
struct sw_param_runs sw_param_runs(const struct sw_param *p);
/* The dimensions of the whole parameter; returns how many. */
int sw_param_whole(const struct sw_param *p, int64_t dim[SW_MAX_DIMS]);

/* The parameter, or its part that begins at `part_first`; -1 when absent. */
int sw_table_find(const struct sw_table *t, const char *name, int64_t part_first);
/* How many update groups there are, and to which one a worker belongs. */
int sw_table_update_groups(const struct sw_table *t);
int sw_table_update_group(const struct sw_table *t, int worker);
/* Where a worker reads the parameter. */
const float *sw_table_value(const struct sw_table *t, int worker, int param);
/* How many workers contribute gradients to its updates; none when it is frozen. */
int sw_table_contributors(const struct sw_table *t, int param);
/* A worker's part of the sum over its update group: its leaves, and its terms, which are the nodes
 * of the tree that lie in them. */
void sw_table_leaves(const struct sw_table *t, int worker, int *first, int *count);
int sw_table_terms(const struct sw_table *t, int worker);
/* Where a term begins and ends (one behind its last leaf), and the array that it is written to;
 * NULL when the worker gives no gradient of the parameter. */
struct sw_table_term {
    int from, to;
    float *gradient;
};
struct sw_table_term sw_table_term(const struct sw_table *t, int worker, int param, int term);
int sw_table_factor_count(const struct sw_table *t);
const struct sw_table_factors *sw_table_factors_at(const struct sw_table *t, int i);
/* The factors that a parameter's gradients are made of; NULL: they have none. */
const struct sw_table_factors *sw_table_factors_of(const struct sw_table *t, int param);
/* Where an update group's rows go: of the servers' copies that of `server`; NULL where it needs
 * none. */
float *sw_table_factor_x(const struct sw_table *t, const struct sw_table_factors *f, int group,
                         int server);
float *sw_table_factor_dy(const struct sw_table *t, const struct sw_table_factors *f, int group,
                          int server);
/* The outputs that a server owns, one range; *count 0: it owns none. */
void sw_table_factor_range(const struct sw_table *t, const struct sw_table_factors *f, int server,
                           int64_t *first, int64_t *count);
/* Who adds up the gradients of a parameter. */
enum sw_reduction {
    SW_REDUCTION_NONE,    /* it is frozen, or updated by the only worker that has gradients of it */
    SW_REDUCTION_SERVERS, /* and they update it, but for updates_on_device */
    SW_REDUCTION_DEVICES, /* sums_on_device: not in the table */
    SW_REDUCTION_FACTORS, /* every worker makes the sum out of exchanged factors, and updates */
};
enum sw_reduction sw_table_reduction(const struct sw_table *t, int param);
int sw_table_servers(const struct sw_table *t);
const struct sw_updater *sw_table_updater(const struct sw_table *t);
int sw_table_slots(const struct sw_table *t);
/* Those of one parameter. */
int sw_table_param_slots(const struct sw_table *t, int param);
/* Limits of a gradient's elements and of the norm of all; 0: none. */
float sw_table_clip_value(const struct sw_table *t);
double sw_table_clip_norm(const struct sw_table *t);
/* Does the worker have gradients of it? */
bool sw_table_contributes(const struct sw_table *t, int param, int worker);
/* The rate of update t = step + 1, which is behind schedule_from. */
double sw_table_rate(const struct sw_table *t, uint64_t step);

/* Views for checkpoints and evaluation; slot -1 is the value. Between steps only. */
struct sw_tensor sw_table_tensor(struct sw_table *t, int param, int slot);
/* Says that all update groups have done `version` updates, which together were `updates`, of which
 * `dropped` were not applied: after a checkpoint was read. */
void sw_table_put_version(struct sw_table *t, uint64_t version, uint64_t updates, uint64_t dropped);
/* Says that an update group has done `version` updates, and nothing else: one that comes later. */
void sw_table_put_group(struct sw_table *t, int group, uint64_t version);
/* The same of one parameter that no server moves, by the worker that updates it; all may look. */
void sw_table_put_param(struct sw_table *t, int param, uint64_t version);
/* What the update group reads becomes the parameters as they are now, and lacks nothing. Between
 * steps only, when all updates of all update groups are applied. */
void sw_table_refresh(struct sw_table *t, int group);
/* Updates so far, of all update groups, those that were dropped included. Between steps. */
uint64_t sw_table_updates(const struct sw_table *t);
/* Updates that were dropped so far, of any update group. Any thread. */
uint64_t sw_table_dropped(const struct sw_table *t);

/* A gradient or value of update `version` is not finite: SW_ERR_DIVERGED naming the parameter. */
int sw_table_say_bad(const struct sw_table *t, int param, uint64_t version,
                     struct sw_err *err) SW_MUST_CHECK;
/* Are updates decided upon before they are applied? And by workers that make them themselves? */
bool sw_table_has_phases(const struct sw_table *t);
bool sw_table_is_decided_on_device(const struct sw_table *t);
/* Where they do: what was decided about update `version`, by any of the workers or by all, one
 * after the other; the first counts, and the others have come to the same. All that is asked of a
 * decision knows of it afterwards. Errors: SW_ERR_DIVERGED where a bad gradient stops. */
int sw_table_settle(struct sw_table *t, const struct sw_decided *decided, uint64_t version,
                    struct sw_err *err) SW_MUST_CHECK;
/* What was decided about the update group's update `version`, if it is and is one of the last few.
 * A worker that has seen a parameter at that version sees the decision, too. */
bool sw_table_decision(const struct sw_table *t, int group, uint64_t version,
                       struct sw_table_decision *out);
/* By what the update group's gradients of the coming update are to be multiplied: 1 without
 * scaling. For a worker of the update group that has seen a parameter at the version before. */
/* Are gradients multiplied by a scale, which decisions change? */
bool sw_table_scales(const struct sw_table *t);
double sw_table_loss_scale(const struct sw_table *t, int group);
/* The same with its count, between steps; and setting them, where there is scaling. */
struct sw_loss_scale sw_table_scale(const struct sw_table *t, int group);
void sw_table_put_scale(struct sw_table *t, int group, struct sw_loss_scale scale);
/* A parameter with a value that is not finite, or -1; complete for a version when all parameters
 * have been seen at it. Only with SW_BAD_TELLS. */
int sw_table_torn(const struct sw_table *t);

/* --- worker side --- */

/* The gradient of step `version` (1, 2, ...) of this parameter is in the worker's terms; the worker
 * reads the value no more. Tells every server that owns a slice; under Hogwild the last worker of a
 * update group updates it here, with the calling thread's OpenMP team. Errors: SW_ERR_CANCELLED,
 * and under Hogwild those of sw_table_serve. */
int sw_table_update(struct sw_table *t, int worker, int param, uint64_t version,
                    struct sw_err *err) SW_MUST_CHECK;
/* Where bad gradients drop updates, every worker says once per step whether its loss is finite: its
 * update group's decision waits for it. Errors: those of sw_table_update. */
int sw_table_verdict(struct sw_table *t, int worker, bool fine, struct sw_err *err) SW_MUST_CHECK;
enum { SW_TABLE_ALL = -1 }; /* in place of an update group */

/* Are there, for the update group to read, values that contain its update `version` and, where
 * staleness is bounded, enough of the others'? SW_TABLE_ALL: is update `version` of every update
 * group applied? */
bool sw_table_ready(const struct sw_table *t, int group, int param, uint64_t version);
/* How many steps the update group at `version` is ahead of the slowest whose updates are in what it
 * reads, once that is ready and before it gives its next gradient. */
int64_t sw_table_staleness(const struct sw_table *t, int group, int param, uint64_t version);
/* Waits for it, at most timeout_ms. SW_OK, SW_ERR_BUSY (timeout), SW_ERR_CANCELLED. A worker that
 * runs servers itself names them in `served` (count of them; NULL: none): SW_ERR_BUSY then also
 * says that one of their inboxes has something. */
int sw_table_wait(struct sw_table *t, int group, int param, uint64_t version, const int *served,
                  int count, int timeout_ms) SW_MUST_CHECK;

/* --- server side --- */

/* Where the messages for a server arrive. */
struct sw_queue *sw_table_inbox(struct sw_table *t, int server);
/* Handles one message of its inbox with the calling thread's OpenMP team; never waits. An update
 * that is early is kept until its turn. Errors: SW_ERR_DIVERGED naming the parameter when a
 * gradient or value is not finite, SW_ERR_INVALID for a message that cannot be (a bug or an
 * intruder). */
int sw_table_serve(struct sw_table *t, int server, const struct sw_message *m,
                   struct sw_err *err) SW_MUST_CHECK;
/* Does the server own a slice of the parameter? */
bool sw_table_has_slices(const struct sw_table *t, int server, int param);
/* Bytes of values that a server sends a worker per step; and of gradients, or of factors of its
 * `rows` rows of the batch, that the worker hands to the server. */
int64_t sw_table_link_bytes(const struct sw_table *t, int worker, int server);
int64_t sw_table_given_bytes(const struct sw_table *t, int worker, int64_t rows, int server);
/* Nanoseconds that a server has spent in sw_table_serve. Any thread. */
int64_t sw_table_served_ns(const struct sw_table *t, int server);
/* Ends every wait on the table; for sw_fault_attach. */
void sw_table_close_v(void *table);
