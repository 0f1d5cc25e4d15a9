/* The parameter table: every parameter of a job, cut into slices that servers own, and the rules by
 * which gradients become new values (SINGA, TOMM 5.1; tech report 5.2-5.3, Algorithms 3 and 4).
 *
 * Values live once per process, in the layout the forward plans chose; workers read them in place.
 * A worker writes its gradient into an array of its own and says `update`: the gradient of step t
 * is complete, and I read version t-1 no more. Under BSP a server therefore may change a slice when
 * the updates of all workers have come: the contributions it counts are the readers that have left.
 * Evaluation and checkpoints run on a worker's thread between two of its updates, so they count
 * too. A server sums the gradients slice by slice in worker order, runs the updater, and moves the
 * version.
 *
 * Worker side: sw_table_update, sw_table_ready, sw_table_wait. Server side: sw_table_serve handles
 * one message and never waits; whoever runs it (a thread of its own, or a worker between two
 * layers) is the thin shell in train/server.c.
 *
 * Thread rule: built by one thread, then frozen but for what is said at each field. */
#ifndef SW_PARAM_TABLE_H
#define SW_PARAM_TABLE_H

#include "comm/channel.h"
#include "device/device.h"
#include "param/init.h"
#include "param/updater.h"
#include "sync/atomic.h"
#include "tensor/tensor.h"

struct sw_param {
    char *name; /* owned: "conv1.weight" */
    struct sw_desc
        layout; /* storage of value, gradients and slots; logical dims as in checkpoints */
    int64_t fan_in, fan_out;
    int owner; /* the only worker that has it and gives gradients; -1: all */
    int64_t part_first,
        part_whole; /* rows [part_first, + layout.dim[0]) of a parameter of part_whole
                       rows that several workers hold; part_whole 0: the whole */
    struct sw_init_conf init;
    bool frozen; /* no gradient, no updater state, no slice: every version is there at once */
    float lr_mult, decay_mult;
    float *value;                  /* written by the servers that own its slices */
    float *slot[SW_UPDATER_SLOTS]; /* likewise */
    float **gradient;              /* owned array [workers]; each written by its worker */
    int first_slice, slice_count;
    double value_norm, gradient_norm; /* where the updater needs them: written by a decision */
    uint64_t applied; /* atomic: slice updates so far; version = applied / slice_count */
};

/* A range of a parameter's storage. The server that owns it is the only one to touch the counters.
 */
struct sw_slice {
    int param, server;
    int64_t from, count;
    uint64_t version;    /* updates applied */
    int contributions;   /* to version + 1 */
    int64_t first_block; /* in two phases: of its sums of squares */
};

struct sw_table;

/* A consistency rule: what a server does with an update. */
struct sw_table_rule {
    const char *name; /* bsp */
    int (*update)(struct sw_table *t, int server, const struct sw_message *m, struct sw_err *err);
};
/* Bulk synchronous: a slice changes when all workers have contributed. */
extern const struct sw_table_rule sw_table_bsp;

/* What a gradient, or a value after its update, that is not finite does. Dropping an update takes
 * two phases, and verdicts of all workers (sw_table_verdict). */
enum sw_table_bad {
    SW_BAD_STOPS, /* it is an error */
    SW_BAD_DROPS, /* a gradient: the update of all parameters is dropped; a value: an error */
    SW_BAD_TELLS, /* a gradient: dropped, too; a value: sw_table_torn tells */
};

/* What was decided about an update of all parameters. */
struct sw_table_decision {
    uint64_t version;
    double grad_norm; /* of all gradients together, clipped by value but not by norm */
    float scale;      /* of all gradients: what clipping by norm makes of them */
    bool dropped;
    int bad_param; /* why: the first whose gradient is not finite; -1: a worker said so, its loss */
};

/* Which updater with which settings, and how it is cut. All borrowed for the table's life. */
enum { SW_TABLE_WORKERS = 1024 }; /* most workers of a table */

struct sw_table_args {
    struct sw_device *device;
    uint64_t seed;
    const struct sw_updater *updater;
    const void *updater_conf; /* of the type */
    const struct sw_updater_conf *common;
    const struct sw_type *schedule;
    const void *schedule_conf;
    uint64_t horizon_steps;
    int64_t slice_elements; /* the largest slice; rounded up to a multiple of 16 */
    int workers, servers;
    const struct sw_table_rule *rule; /* NULL: sw_table_bsp */
    /* The NUMA nodes of a server or worker, as sw_device_alloc_on takes them; NULL: memory lies
     * where it is first touched. */
    uint64_t (*server_nodes)(void *user, int server);
    uint64_t (*worker_nodes)(void *user, int worker);
    void *nodes_user;
    /* Limits of a gradient: of each element, of the norm over all parameters; 0: none. */
    double clip_value, clip_norm;
    enum sw_table_bad bad;
    /* Decide about all parameters before any is updated, in every case: what clips by norm, drops
     * or needs norms does anyway. Slices are cut at blocks of SW_GATHER_BLOCK then. */
    bool two_phases;
};

struct sw_param_spec {
    const char *name; /* copied; parts of one parameter have the same name */
    struct sw_desc layout;
    int64_t fan_in, fan_out;
    int owner; /* see struct sw_param */
    int64_t part_first, part_whole;
    struct sw_init_conf init;
    bool frozen;
    double lr_mult, decay_mult; /* all factors multiplied */
};

/* Called by a server after it applied an update: what a trace, a ledger or a test wants to know. */
typedef void sw_table_watch(void *user, int server, int param, uint64_t version, int64_t begin_ns,
                            int64_t end_ns);

int sw_table_new(const struct sw_table_args *args, struct sw_table **out,
                 struct sw_err *err) SW_MUST_CHECK;
void sw_table_free(struct sw_table *t);
/* Adds a parameter; its index counts from 0. Errors: SW_ERR_INVALID (the name is taken),
 * SW_ERR_NOMEM. */
int sw_table_add(struct sw_table *t, const struct sw_param_spec *spec, int *index,
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
/* The parameter, or its part that begins at row `part_first`; -1 when absent. */
int sw_table_find(const struct sw_table *t, const char *name, int64_t part_first);
/* How many workers give gradients of it; none when it is frozen. */
int sw_table_givers(const struct sw_table *t, int param);
const struct sw_updater *sw_table_updater(const struct sw_table *t);
int sw_table_slots(const struct sw_table *t);
/* Those of one parameter. */
int sw_table_param_slots(const struct sw_table *t, int param);
/* The rate of update t = step + 1. */
double sw_table_rate(const struct sw_table *t, uint64_t step);

/* Views for checkpoints and evaluation; slot -1 is the value. Between steps only. */
struct sw_tensor sw_table_tensor(struct sw_table *t, int param, int slot);
/* Says that all values are those of version `version`, of whose updates `dropped` were not applied:
 * after a checkpoint was read. */
void sw_table_put_version(struct sw_table *t, uint64_t version, uint64_t dropped);
/* Updates that were dropped so far. */
uint64_t sw_table_dropped(const struct sw_table *t);

/* A gradient or value of update `version` is not finite: SW_ERR_DIVERGED naming the parameter. */
int sw_table_say_bad(const struct sw_table *t, int param, uint64_t version,
                     struct sw_err *err) SW_MUST_CHECK;
/* Are updates decided upon before they are applied? */
bool sw_table_has_phases(const struct sw_table *t);
/* What was decided about update `version`, if it is and is one of the last few. A worker that has
 * seen a parameter at that version sees the decision, too. */
bool sw_table_decision(const struct sw_table *t, uint64_t version, struct sw_table_decision *out);
/* A parameter with a value that is not finite, or -1; complete for a version when all parameters
 * have been seen at it. Only with SW_BAD_TELLS. */
int sw_table_torn(const struct sw_table *t);

/* --- worker side --- */

/* The gradient of step `version` (1, 2, ...) of this parameter is in gradient[worker]; the worker
 * reads the value no more. Tells every server that owns a slice. Errors: SW_ERR_CANCELLED. */
int sw_table_update(struct sw_table *t, int worker, int param, uint64_t version) SW_MUST_CHECK;
/* Where bad gradients drop updates, every worker says once per step whether its loss is finite: the
 * decision waits for it. SW_OK, SW_ERR_CANCELLED. */
int sw_table_verdict(struct sw_table *t, bool fine) SW_MUST_CHECK;
/* Is version `version` of the parameter complete? */
bool sw_table_ready(const struct sw_table *t, int param, uint64_t version);
/* Waits for it, at most timeout_ms. SW_OK, SW_ERR_BUSY (timeout), SW_ERR_CANCELLED. A worker that
 * runs servers itself names them in `served` (count of them; NULL: none): SW_ERR_BUSY then also
 * says that one of their inboxes has something. */
int sw_table_wait(struct sw_table *t, int param, uint64_t version, const int *served, int count,
                  int timeout_ms) SW_MUST_CHECK;

/* --- server side --- */

/* Where the messages for a server arrive. */
struct sw_channel *sw_table_inbox(struct sw_table *t, int server);
/* Handles one message of its inbox with the calling thread's OpenMP team; never waits. An update
 * that is early is kept until its turn. Errors: SW_ERR_DIVERGED naming the parameter when a
 * gradient or value is not finite, SW_ERR_INVALID for a message that cannot be (a bug or an
 * intruder). */
int sw_table_serve(struct sw_table *t, int server, const struct sw_message *m,
                   struct sw_err *err) SW_MUST_CHECK;
/* Does the server own a slice of the parameter? */
bool sw_table_has_slices(const struct sw_table *t, int server, int param);
/* Gradient bytes that a worker hands to a server per step. */
int64_t sw_table_link_bytes(const struct sw_table *t, int worker, int server);
/* Nanoseconds that a server has spent in sw_table_serve. Any thread. */
int64_t sw_table_served_ns(const struct sw_table *t, int server);
/* Ends every wait on the table; for sw_fault_attach. */
void sw_table_close_v(void *table);

#endif
