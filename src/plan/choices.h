/* The exchange plan of a job: how gradients and values are exchanged, as it is chosen before the
 * job runs. It says whether they are copied (copy_mode.c), who adds gradients up (reduce.c), and
 * what a worker hands on of them (comm.c).
 *
 * By the thread that opens the job, in the order of the functions, but for what says otherwise. */
#pragma once

#include "base/json.h"
#include "exchange/sums.h"
#include "exchange/table/table.h"
#include "net/net.h"
#include "plan/comm.h"
#include "plan/comm_cost.h"
#include "plan/row_split.h"
#include "recipe/job.h"

struct sw_device_request;
struct sw_factors;
struct sw_fault;
struct sw_log;
struct sw_machine;
struct sw_ways;

/* What the choices depend on. All borrowed for the plan's life. */
struct sw_exchange_plan_args {
    struct sw_recipe *recipe; /* errors are added to it */
    const struct sw_job_conf *conf;
    const struct sw_topology *topology;
    const struct sw_device_request *request; /* of the workers' devices */
    const struct sw_machine *machine;
    struct sw_log *log;
    struct sw_fault *fault;
    bool decides_about_all; /* something looks at all gradients before any update is made */
    const struct sw_rates *(*rates)(void *user); /* called when a choice depends on them */
    void *user;
};

/* How gradients of a fully-connected layer are exchanged. */
struct sw_comm_choice {
    struct sw_net_comm_layer layer; /* its name is borrowed from the recipe */
    enum sw_comm_way way;           /* never AUTO */
    bool taken_up;                  /* from the checkpoint that the run goes on from */
    double ms[SW_COMM_WAYS];        /* predicted, of a step; NaN: that way cannot be */
};

struct sw_comm_plan {
    struct sw_comm_choice *choices; /* owned: of `auto`, from the bottom up */
    int count;
    struct sw_factors *factors; /* owned: between devices, once there is memory; or NULL */
    bool failed;                /* there was no memory for a choice */
    struct sw_json *kept;       /* owned: choices of the checkpoint; NULL: there are none */
};

struct sw_exchange_plan {
    enum sw_copy_mode copy; /* as asked for, by the caller, until it is chosen; never AUTO then */
    enum sw_overlap overlap;
    char copy_why[128];
    struct sw_exchange_plan_args args;
    const struct sw_cluster_conf *cluster; /* borrowed from the recipe */
    struct sw_device **devices;   /* owned [workers], each borrowed: set once they are open */
    const struct sw_table *table; /* borrowed: the first server group's, once it is frozen */
    struct sw_ways *ways;         /* owned; between the workers' devices; NULL: none is used */
    struct sw_sums sums;
    struct sw_comm_plan comm;
};

/* With `copy = none`, on devices of their own, workers update for themselves. */
static inline bool sw_devices_update(const struct sw_exchange_plan *p)
{
    return p->copy == SW_COPY_NONE && p->args.topology->devices > 0;
}
/* Do they add up gradients by themselves, too? */
static inline bool sw_reduces(const struct sw_exchange_plan *p)
{
    return p->sums.reducer != SW_REDUCER_SERVERS;
}

/* Once the units are placed: chooses `copy`. Errors: SW_ERR_NOMEM. */
int sw_exchange_plan_init(struct sw_exchange_plan *p, const struct sw_exchange_plan_args *args,
                          struct sw_err *err) SW_MUST_CHECK;
/* Its part of that: GPUs update by themselves where nothing speaks against it. */
void sw_copy_choose(struct sw_exchange_plan *p);
/* Why servers add up what several workers give, whatever the devices can do; NULL: nothing says so.
 */
const char *sw_reduce_why_servers(const struct sw_topology *t);
/* Once the devices are open: finds which ways between them are sound (look: as far as that is
 * known), lets those reach each other that do so soundly, and says who adds up gradients; where
 * nobody but servers can, `copy = auto` becomes async. Errors: SW_ERR_UNSUPPORTED, SW_ERR_NOTFOUND
 * (a library that was asked for is not there, or not sound). */
int sw_reduce_choose(struct sw_exchange_plan *p, bool look, struct sw_err *err) SW_MUST_CHECK;
/* Refuses `copy = none` where an update needs more from others than a sum of gradients. */
int sw_copy_check(const struct sw_exchange_plan *p, const char *framework,
                  struct sw_err *err) SW_MUST_CHECK;

/* Refuses what [cluster] cannot have, and reads the choices of the checkpoint that the run goes on
 * from; path NULL: there is none. */
int sw_comm_prepare(struct sw_exchange_plan *p, const char *path, struct sw_err *err) SW_MUST_CHECK;
/* What training nets are told. */
void sw_comm_args(struct sw_exchange_plan *p, struct sw_net_comm *out);
/* Once all nets are made: could all choices be made? Errors: SW_ERR_NOMEM. */
int sw_comm_verdict(const struct sw_comm_plan *p, struct sw_err *err) SW_MUST_CHECK;
/* The factors of layer i, of a net that has so many rows of the batch; false: it has none. */
bool sw_comm_factors(const struct sw_exchange_plan *p, const struct sw_net *net, int i,
                     int64_t rows, struct sw_table_factors *out);

/* Cuts the buckets, once the table is frozen. net: the first worker's training net, of whose
 * parameters params are the table's indices; others have the same layers. */
int sw_reduce_plan(struct sw_exchange_plan *p, const struct sw_net *net, const int *params,
                   struct sw_err *err) SW_MUST_CHECK;
/* Memory of sums and of factors on every device; takes it, before the workers' own. */
size_t sw_reduce_bytes(const struct sw_exchange_plan *p);
size_t sw_comm_bytes(const struct sw_exchange_plan *p);
int sw_reduce_make(struct sw_exchange_plan *p, struct sw_err *err) SW_MUST_CHECK;
int sw_comm_make(struct sw_exchange_plan *p, const struct sw_row_split *rows,
                 struct sw_err *err) SW_MUST_CHECK;
/* Tells those who exchange factors which rows are whose, after they were cut anew. */
void sw_comm_set_rows(struct sw_exchange_plan *p, const struct sw_row_split *rows);
/* After sw_reduce_make has failed: does a thread hang in the library? Then nothing it uses can be
 * freed. */
bool sw_reduce_hangs(const struct sw_sums *d);
/* By the watch thread, now and then: what went wrong with sums under way becomes the fault. */
void sw_reduce_look(struct sw_exchange_plan *p);
/* Before the workers go, while nothing runs any more on their streams. A zeroed plan is accepted.
 */
void sw_exchange_plan_fini(struct sw_exchange_plan *p);

/* Layer i of the first worker's training net, for `check`; and whether the recipe says anything of
 * it. */
void sw_comm_describe(const struct sw_exchange_plan *p, const struct sw_net *net, const int *params,
                      int i, struct sw_job_comm *out);
bool sw_comm_is_asked(const struct sw_exchange_plan *p);
/* Of the choices for a checkpoint (kept_choices.h): the array "exchange". */
void sw_comm_write(const struct sw_exchange_plan *p, const struct sw_net *net,
                   struct sw_json_writer *w);
