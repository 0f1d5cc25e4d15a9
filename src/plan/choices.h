/* The exchange plan of a job: how gradients and values are exchanged, as it is chosen before the
 * job runs. It has the copy mode (copy_mode.c), the reducer of gradients (reduce.c), and the
 * exchange mode of each layer (exchange_modes.c).
 *
 * Functions are called by the thread that opens the job, in this order, unless their comment says
 * otherwise. */
#pragma once

#include "base/json.h"
#include "exchange/sums.h"
#include "exchange/table/table.h"
#include "net/net.h"
#include "plan/exchange_cost.h"
#include "plan/job_exchange.h"
#include "plan/row_split.h"
#include "recipe/job.h"

struct sw_device_request;
struct sw_factors;
struct sw_factors_args;
struct sw_fault;
struct sw_log;
struct sw_machine;
struct sw_peer_links;

/* Inputs of the choices, all borrowed for the plan's lifetime. */
struct sw_exchange_plan_args {
    struct sw_recipe *recipe; /* errors are added to it */
    const struct sw_job_conf *conf;
    const struct sw_topology *topology;
    const struct sw_device_request *request; /* of the workers' devices */
    const struct sw_machine *machine;
    struct sw_log *log;
    struct sw_fault *fault;
    bool controls_updates; /* update control: all gradients are needed before any update */
    const struct sw_throughputs *(*throughputs)(
        void *user); /* called if a choice depends on the throughput of the machine */
    /* Called at most once, if a choice depends on the network between hosts: sets *rates to the
     * same ones on all hosts. NULL: usual rates are assumed. */
    int (*host_rates)(void *user, struct sw_host_rates *rates, struct sw_err *err);
    void *user;
};

/* How gradients of a fully-connected layer are exchanged. */
struct sw_exchange_choice {
    struct sw_net_exchange_layer layer; /* its name is borrowed from the recipe */
    enum sw_exchange_mode mode;         /* never AUTO */
    bool taken_up;                      /* taken from the checkpoint that the run resumes */
    double ms[SW_EXCHANGE_MODES];       /* predicted time of a step; NaN: the mode cannot be used */
};

struct sw_exchange_modes {
    enum sw_exchange_mode requested;    /* by [cluster], or its default */
    bool by_default;                    /* [cluster] does not say */
    bool assumes;                       /* `auto` is nowhere written: nothing is measured for it */
    struct sw_throughputs assumed;      /* by which devices then choose */
    struct sw_exchange_choice *choices; /* owned: of layers with `auto`, lowest layer first */
    int count;
    struct sw_factors *factors; /* owned: exchange of factors between devices, set by
                                   sw_exchange_modes_make; or NULL */
    struct sw_err why;          /* of the first choice that failed; code 0: none did */
    struct sw_host_rates rates; /* by which choices between hosts are made */
    bool has_rates;             /* args.host_rates was called */
    struct sw_json *kept;       /* owned: choices saved in the checkpoint; NULL: none */
};

struct sw_exchange_plan {
    enum sw_copy_mode copy; /* set by the caller as requested, then chosen; never AUTO afterwards */
    enum sw_overlap overlap;
    char copy_why[128];
    struct sw_exchange_plan_args args;
    const struct sw_cluster_conf *cluster; /* borrowed from the recipe */
    struct sw_device **devices;       /* owned [workers], each borrowed: set once they are open */
    const struct sw_table *table;     /* borrowed: the first server group's, once it is frozen */
    struct sw_peer_links *peer_links; /* owned; between the workers' devices; NULL: none is used */
    struct sw_sums sums;
    struct sw_exchange_modes comm;
};

/* True if every device updates its own replica (copy = none, workers on devices). */
static inline bool sw_devices_update(const struct sw_exchange_plan *p)
{
    return p->copy == SW_COPY_NONE && p->args.topology->devices > 0;
}
/* True if the devices also reduce gradients without servers. */
static inline bool sw_reduces(const struct sw_exchange_plan *p)
{
    return p->sums.reducer != SW_REDUCER_SERVERS;
}

/* After placement: chooses the copy mode. Errors: SW_ERR_NOMEM. */
int sw_exchange_plan_init(struct sw_exchange_plan *p, const struct sw_exchange_plan_args *args,
                          struct sw_err *err) SW_MUST_CHECK;
/* Chooses the copy mode: GPUs update their own replicas unless a setting prevents it. */
void sw_copy_choose(struct sw_exchange_plan *p);
/* Why servers must reduce the gradients of several workers, whatever the devices can do; NULL: no
 * reason. */
const char *sw_reduce_why_servers(const struct sw_topology *t);
/* After the devices are open: finds which peer links are sound (look: from saved results only),
 * enables peer access over these, and chooses the reducer of gradients; if only servers can reduce,
 * `copy = auto` becomes async. On several hosts the library is what this host would choose. Errors:
 * SW_ERR_UNSUPPORTED, SW_ERR_NOTFOUND (a requested library is missing or not sound). */
int sw_reduce_choose(struct sw_exchange_plan *p, bool saved_only, struct sw_err *err) SW_MUST_CHECK;
/* On several hosts (reduce_hosts.c): may the library be used, as far as the recipe says? Errors:
 * SW_ERR_UNSUPPORTED says why not. */
int sw_reduce_may_cross_hosts(const struct sw_exchange_plan *p, struct sw_err *err) SW_MUST_CHECK;
/* Can what the library sends be seen by others, on a network that is to be private? Once the
 * library is found. Errors: as above. */
int sw_reduce_check_network(const struct sw_exchange_plan *p, struct sw_err *err) SW_MUST_CHECK;
/* Servers reduce, and hosts sum in their memory. `why` is the reason, for users. */
void sw_reduce_through_hosts(struct sw_exchange_plan *p, const char *why);
/* Fills out with the reason why this host does not choose the library; "": it does. Returns out. */
const char *sw_reduce_refusal(const struct sw_exchange_plan *p, char *out, size_t bytes);
/* A hash of the buckets, which are the same on all hosts of a collective. */
uint64_t sw_reduce_hash(const struct sw_sums *d);

/* Reports an error for `copy = none` if an update needs more from other workers than a sum of
 * gradients. */
int sw_copy_check(const struct sw_exchange_plan *p, const char *framework,
                  struct sw_err *err) SW_MUST_CHECK;

/* Why devices of asynchronous groups cannot keep copies that each of them updates by the factors of
 * all (sfb); NULL: they can. Of the topology, consistency, staleness, hosts, server_groups and
 * warmup_steps are read. */
const char *sw_factors_why_not_async(const struct sw_topology *t);
/* Would the factors of other groups, of all rounds that the staleness bound allows, take much more
 * memory of a device than the weight of the one layer does? `auto` then does not choose sfb. */
bool sw_factors_take_too_much(const struct sw_factors_args *args);

/* Checks the exchange mode of [cluster] or finds its default, and reads the choices saved in the
 * checkpoint that the run resumes; path NULL: none. */
int sw_exchange_modes_prepare(struct sw_exchange_plan *p, const char *path,
                              struct sw_err *err) SW_MUST_CHECK;
/* Fills the exchange arguments of training nets. */
void sw_exchange_modes_args(struct sw_exchange_plan *p, struct sw_net_exchange *out);
/* After all nets are built: reports the failure of a choice. Errors: SW_ERR_NOMEM, and those of
 * args.host_rates. */
int sw_exchange_modes_check(const struct sw_exchange_modes *p, struct sw_err *err) SW_MUST_CHECK;
/* The rates by which `auto` was resolved between hosts or devices, and where they come from; "":
 * nothing was chosen by them. Returns out. */
const char *sw_exchange_modes_rates(const struct sw_exchange_plan *p, char out[512]);
/* The factors of layer i of a net with `rows` rows of the batch. Returns false if it has none. */
bool sw_exchange_modes_factors(const struct sw_exchange_plan *p, const struct sw_net *net, int i,
                               int64_t rows, struct sw_table_factors *out);

/* Partitions the gradients into buckets, after the table is frozen. net: the first worker's
 * training net; params: the table indices of its parameters. The other workers have the same
 * layers. */
int sw_reduce_plan(struct sw_exchange_plan *p, const struct sw_net *net, const int *params,
                   struct sw_err *err) SW_MUST_CHECK;
/* Bytes of buckets and of factors on every device, and their allocation, which comes before the
 * workers' own. */
size_t sw_reduce_bytes(const struct sw_exchange_plan *p);
size_t sw_exchange_modes_bytes(const struct sw_exchange_plan *p);
int sw_reduce_make(struct sw_exchange_plan *p, struct sw_err *err) SW_MUST_CHECK;
int sw_exchange_modes_make(struct sw_exchange_plan *p, const struct sw_row_split *rows,
                           struct sw_err *err) SW_MUST_CHECK;
/* Updates the rows of every worker in the factor exchange after rows were rebalanced. */
void sw_exchange_modes_set_rows(struct sw_exchange_plan *p, const struct sw_row_split *rows);
/* After sw_reduce_make has failed: does a thread hang in the library? If so, nothing it uses can be
 * freed. */
bool sw_reduce_hangs(const struct sw_sums *d);
/* Waits until the library is aborted, if it was. False if that hangs for timeout_ms. */
bool sw_reduce_ends(const struct sw_sums *d, int timeout_ms);
/* Called periodically by the watch thread: a failed all-reduce becomes the job's fault. */
void sw_reduce_check(struct sw_exchange_plan *p);
/* Call before the workers are freed, when nothing runs on their streams. A zeroed plan is accepted.
 */
void sw_exchange_plan_fini(struct sw_exchange_plan *p);

/* Describes the exchange of layer i of the first worker's training net, for `check`; and whether
 * the recipe configures any exchange mode. */
void sw_exchange_modes_describe(const struct sw_exchange_plan *p, const struct sw_net *net,
                                const int *params, int i, struct sw_job_exchange *out);
bool sw_exchange_modes_are_requested(const struct sw_exchange_plan *p);
/* Writes the array "exchange" of the choices for a checkpoint (saved_choices.h). */
void sw_exchange_modes_write(const struct sw_exchange_plan *p, const struct sw_net *net,
                             struct sw_json_writer *w);
