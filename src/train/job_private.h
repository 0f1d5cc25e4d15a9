/* A job from the inside: its types, and the functions of the files that make a job and set it in
 * motion. job.c opens and closes it, job_units.c says on what it runs, job_params.c what it trains,
 * fit.c keeps it within a budget of memory, plan.c describes it, events.c tells the main thread.
 * What the other files offer is in choices.h (what is decided beforehand), worker.h (who does the
 * work), states.h (what layers keep), results.h (what comes of a step), saved.h (checkpoints and
 * their like), watch.h (who looks on) and run.h (how a run begins and ends).
 *
 * Threads of a running job: the main thread (run.c) starts the others, tells the observer, and
 * joins them in fixed order; the watch thread; one thread per worker; one per server that has cores
 * of its own (a server that shares its worker's cores is run by the worker between two layers); the
 * prefetch threads; the history writer. Everything in struct sw_job is frozen while they run but
 * for what says otherwise. */
#ifndef SW_TRAIN_JOB_PRIVATE_H
#define SW_TRAIN_JOB_PRIVATE_H

#include "cluster/bind.h"
#include "cluster/conf.h"
#include "cluster/placement.h"
#include "cluster/row_split.h"
#include "cluster/topology.h"
#include "data/prefetch.h"
#include "device/driver.h"
#include "history/history.h"
#include "history/snapshot.h"
#include "net/net.h"
#include "net/partition.h"
#include "net/parts.h"
#include "net/transfer.h"
#include "param/sync.h"
#include "param/table.h"
#include "recipe/job.h"
#include "sync/queue.h"
#include "tensor/safetensors.h"
#include "train/comm_cost.h"
#include "train/events.h"
#include "train/gate.h"
#include "train/group.h"
#include "train/input.h"
#include "train/job.h"
#include "train/reduce.h"
#include "train/replica.h"
#include "train/retention.h"
#include "train/segments.h"
#include "train/series.h"
#include "train/ways.h"

/* A complete copy of the parameters, and where those who change it are in the job's lists. */
struct sw_server_group {
    struct sw_job *job;                        /* borrowed */
    struct sw_table *table;                    /* owned */
    const struct sw_server_group_place *place; /* borrowed */
};

struct sw_server {
    struct sw_job *job;                  /* borrowed */
    struct sw_table *table;              /* borrowed: its server group */
    const struct sw_server_place *place; /* borrowed */
    int runner; /* atomic: the worker that runs it just now, counted from 1 */
    char unit[32];
    bool hosted; /* workers run it; else it has a thread of its own */
    struct sw_thread thread;
    struct sw_slot *slot;
};

/* State without gradient, kept once per job: states.c. */
struct sw_state {
    char *name;            /* owned: "state.bn1.mean", as in checkpoints */
    struct sw_desc layout; /* of the whole */
    float natural;         /* initial value */
    size_t offset;         /* bytes, in the states' memory */
    int keeper;            /* the worker whose training net keeps it up; */
    bool split;            /* each of its group a part, its own, of dimension 0 */
    bool chain;            /* row state of persistent chains */
    float *value;
    struct sw_tensor view; /* of value, while a file is written or read */
};
struct sw_states {
    struct sw_state *items; /* owned */
    int count;
    bool elsewhere; /* another worker than the first keeps some of them up */
    void *memory;   /* owned host memory, of `device` */
    size_t bytes;
    struct sw_device *device; /* borrowed: the job's */
};

/* Which part of a run this is: stages.c. */
struct sw_job_stage {
    int index, count;   /* of the recipe's; -1, 0: it has none */
    const char *name;   /* borrowed from the recipe */
    int64_t from;       /* the step behind which it begins */
    bool begins;        /* the checkpoint to go on from is of the stage before */
    bool over;          /* it has come to its end; the leader's */
    int64_t later;      /* steps of the stages behind it */
    int64_t *steps;     /* owned [count]: of it and those behind it, when all were looked at */
    struct sw_buf text; /* all that are to come: "pre (30 steps), fine (50 steps)" */
    int64_t run_began_ns;
    struct sw_job *failed; /* owned: another stage that could not be opened, with its messages */
};
/* What earlier stages trained and this net has not: legacy.c. */
struct sw_legacy_tensor {
    struct sw_st_entry entry; /* name owned */
    void *values;             /* owned */
};
struct sw_legacy {
    struct sw_legacy_tensor *items; /* owned */
    int count;
};

/* What init_from says: init_from.c. */
struct sw_take_rule {
    char from[256], to[256];
    bool transposed;
    int item; /* of the list */
};
struct sw_take_file {
    char *path;    /* owned */
    bool previous; /* no file: what the stage before has left */
    int item, first_rule, rule_count;
};
struct sw_take_list {
    struct sw_take_file *files; /* owned */
    struct sw_take_rule *rules; /* owned */
    int file_count, rule_count;
};

/* An output layer of the evaluation net: outputs.c. */
struct sw_output {
    int layer;                         /* in every evaluation net */
    size_t at[2][SW_LAYER_SRCS];       /* bytes: where rows of a batch are gathered, by turns */
    size_t (*stage_at)[SW_LAYER_SRCS]; /* owned [groups][leaves]: where they leave the device */
};
struct sw_outputs {
    struct sw_output *items; /* owned */
    int count;
    void *memory; /* owned host memory; its parts are written by their workers */
    size_t bytes;
};

/* Updates that were not finite. */
struct sw_mishaps {
    int rollbacks; /* the leader's: to the checkpoint of step rolled_to */
    int64_t rolled_to;
    /* Of groups that are apart, atomic: the last step after which one asked for a rollback, and
     * the last one after which there was one. */
    int64_t asked_at, rolled_at;
};

enum { SW_DECISION_PAIRS = 3 }; /* numbers of a decision of which the group makes means */

/* The norm of the gradients of a step, the mean of groups that are apart. */
struct sw_norm {
    int64_t step;
    double value, of_made; /* the latter of updates that were made: NaN when none was */
};

/* How fast this machine is, roughly, for what `auto` weighs: rates.c. */
struct sw_rates {
    bool known, measured;                          /* measured: just now, and not kept yet */
    double worker_flops_per_s, server_flops_per_s; /* of matrix products */
    double memory_bytes_per_s;                     /* of the host's memory, for one of those */
    double device_memory_bytes_per_s;              /* of a GPU's own; 0: not known */
    double link_bytes_per_s;                       /* of a device, in each direction; 0: none */
};

/* How gradients of fully-connected layers come together: comm.c. */
struct sw_comm_choice {
    const char *layer;       /* borrowed from the recipe */
    enum sw_comm_way way;    /* never AUTO */
    bool taken_up;           /* from the checkpoint that the run goes on from */
    double ms[SW_COMM_WAYS]; /* predicted, of a step; NaN: that way cannot be */
};
struct sw_comm_plan {
    struct sw_comm_choice *choices; /* owned: of `auto` */
    int count;
    struct sw_comm_link link;   /* with the choices so far */
    struct sw_factors *factors; /* owned: between devices, once there is memory; or NULL */
    bool failed;                /* there was no memory for a choice */
    struct sw_json *kept;       /* owned: choices of the checkpoint; NULL: there are none */
};

/* A condition of stop_at: stop_at.c. */
enum { SW_STOPS = 16 };
struct sw_stop {
    char name[SW_JOB_METRIC_NAME]; /* as written, perhaps with its split */
    bool less, equal;              /* < or >, and = behind it */
    double limit;
    int metric[SW_SPLITS]; /* index in that split's series; -1: not there */
    bool norm;             /* it is grad_norm */
};

/* How long computing takes in a step: rebalance.c. */
enum { SW_PACE_STEPS = 64 };
struct sw_pace {
    float ms[SW_PACE_STEPS]; /* of the last ones */
    int64_t steps;           /* since the rows were given */
    double typical_ms;       /* by which the others judge; 0: unknown */
};

/* Where the time of a worker's step goes: ledger.c, layer_clock.c. */
struct sw_step_timer {
    struct sw_step_time ledger;       /* of the step under way */
    int64_t lap_ns;                   /* when the ledger was last written */
    int64_t served_ns, copied_ns[2];  /* when it was last recorded: of servers that are threads; of
                                         the replica, to and from the device */
    double *forward_ms, *backward_ms; /* owned [layers of the net]: since the last flush, */
    int64_t steps;                    /* in so many steps */
    float *pass_ms;        /* where the time of the pass under way goes: in the ledger (NULL: no
                              pass), */
    double *pass_total_ms; /* and of its layer */
    struct sw_layer_clock *layers; /* owned; NULL: operations run at once, or there is none */
    int64_t trained_ns;            /* time spent in steps */
};

/* Handles of links in the history, of a worker: worker_links.c. */
struct sw_worker_links {
    int *to_server;            /* owned [servers of the table]: gradients to each */
    int *from_server;          /* owned, likewise: values from it, where they have to move */
    int *sync;                 /* owned [servers]: to those of other groups; of the group's first */
    int64_t *sync_told;        /* owned, likewise: bytes that are recorded */
    int *sums;                 /* owned [workers]: gradients to each; NULL: no worker sums */
    int *factors;              /* owned [workers]: factors to each; NULL: they are not exchanged */
    int *activations;          /* owned [group size]: to each; -1: nothing goes there */
    int64_t *activations_told; /* owned, likewise: nanoseconds that are recorded */
};

/* Its curves in the history. */
struct sw_worker_curves {
    struct sw_history_producer *producer;
    int rate, speed;
    int norm;           /* -1: norms are not known */
    int scale;          /* -1: there is no loss scale */
    int64_t norms_step; /* the last one whose norm is recorded */
};

/* What it tells the history. */
struct sw_worker_record {
    struct sw_series series[SW_SPLITS];
    struct sw_worker_curves curves;
    struct sw_worker_links links;
};

/* The servers that it runs itself. */
struct sw_worker_served {
    int *ranks; /* owned: in its table */
    int count;
};

/* What went wrong without an end to the run. */
struct sw_worker_failures {
    int skips; /* in a row, of its group, whose first worker it is */
    int checkpoints;
};

/* How it has ended, if it has. */
struct sw_worker_end {
    bool over;    /* at the last step or by stop_at */
    bool stopped; /* by request, with a checkpoint, before the last step */
};

/* Memory of its nets. */
struct sw_worker_arena {
    void *memory; /* owned device memory */
    size_t bytes;
    size_t budget;   /* that memory = fit leaves for it; 0: no limit */
    void *offloaded; /* owned host memory: activations that are not on the device */
    size_t offloaded_bytes;
};

/* What its layers keep between batches: states.c, carries.c. All owned device memory. */
struct sw_worker_state {
    void *before; /* with on_nan = skip, the leader's states as they were before the step */
    void *copy;   /* of the job's states, where the device does not reach them */
    void *recurrent[SW_SPLITS]; /* of its nets, or NULL */
    size_t recurrent_bytes[SW_SPLITS];
    int64_t reset_after; /* recurrent state begins anew behind this step; -1: it does not */
};

/* Its batches: worker_data.c, input.c. */
struct sw_worker_batches {
    struct sw_prefetch *prefetch[SW_SPLITS];
    struct sw_reading {
        struct sw_worker *worker;
        int first, count; /* slots of its threads in the live snapshot */
    } reading[SW_SPLITS];
    struct sw_input *input; /* owned; NULL where the device's memory is the host's */
    struct sw_batch ahead;  /* of the next step, which is on its way already, */
    bool is_ahead;          /* if there is one */
};

struct sw_worker {
    struct sw_job *job;                 /* borrowed */
    const struct sw_topology *topology; /* borrowed: the job's */
    const struct sw_rank *rank;         /* borrowed: its own */
    const struct sw_row_split *rows;    /* borrowed: the job's */
    struct sw_group *group;             /* borrowed: its worker group */
    struct sw_table *table;             /* borrowed: its server group's */
    char unit[32];
    struct sw_thread thread;
    struct sw_device *device;          /* owned when it is not the host's */
    struct sw_stream *stream;          /* owned */
    struct sw_stream *host_stream;     /* owned; for work on host memory; NULL: `stream` does it */
    struct sw_replica *replica;        /* owned; NULL where the device's memory is the host's */
    struct sw_parts *parts[SW_SPLITS]; /* owned; its nets. NULL without evaluation data */
    struct sw_segments *segments;      /* owned: of a training step */
    struct sw_net *train,
        *eval;                /* borrowed: the first of each, which speaks for all of the graph */
    int *param_of[SW_SPLITS]; /* owned: table index of each parameter of a net */
    int *completed_by; /* owned [parameters of the table]: the layer whose backward completes the
                          gradient, -1: it has not got it */
    struct sw_worker_arena arena;
    struct sw_worker_state state;
    struct sw_worker_batches batches;
    struct sw_worker_served served;
    struct sw_pace pace;
    struct sw_slot *slot;
    struct sw_worker_record record;
    struct sw_step_timer timer;
    int64_t step;       /* updates done */
    int64_t first_step; /* updates done at the start of this segment, or when it came to work */
    struct sw_worker_failures failures;
    struct sw_worker_end end;
};

/* The rows of a training or an evaluation batch that the worker has now. */
static inline int64_t sw_worker_rows(const struct sw_worker *w, int split)
{
    return sw_row_split_count(w->rows, w->rank, split);
}
static inline int64_t sw_worker_first_row(const struct sw_worker *w, int split)
{
    return sw_row_split_first(w->rows, w->rank, split);
}

/* What the caller of sw_job_open asked for, as far as a run or its next stage needs it again. */
struct sw_run_options {
    char *out_dir, *db, *command, *resume_checkpoint; /* owned or NULL */
    int64_t resume_run_id;                            /* 0: a new run */
    int64_t resume_segments; /* how many the run had when its checkpoint was chosen */
    int64_t steps;           /* 0: as the recipe says */
    bool steps_at_most, oversubscribe, overwrite;
    int64_t trace_capacity;
    struct sw_display_policy display;
};

/* Where a job begins and ends, in steps. */
struct sw_job_span {
    int64_t horizon;        /* of the recipe, or of its stage */
    int64_t first_step;     /* of the checkpoint it goes on from */
    int64_t steps;          /* where this job ends */
    int64_t run_steps;      /* and where the run does, with all its stages */
    int64_t evaluated_step; /* of the weights that sw_job_evaluate loaded */
};

/* The sections of data, and what reads them. */
struct sw_job_data {
    const struct sw_section *section[SW_SPLITS]; /* NULL: no such section */
    struct sw_source *source[SW_SPLITS];
};

/* Texts and rows that the plan shows, plan.c. All owned but for the framework's name. */
struct sw_job_report {
    struct sw_job_layer *layers;
    struct sw_job_share *shares; /* [layers of the plan][group size]; NULL: one worker */
    struct sw_buf fallback;
    const char *framework; /* borrowed */
    char framework_reason[256], copy_why[128];
    char *partition_notes;
    char *choices; /* what the plans chose (kept_choices.h) */
};

/* Who waits for whom, and sums with whom. */
struct sw_job_groups {
    struct sw_group all;     /* all workers */
    struct sw_group leaders; /* the first workers of the update groups: norms of gradients */
    struct sw_group *each;   /* owned [worker groups] */
    struct sw_group *peers;  /* owned [group size], where groups split layers: who has the same rank
                                in its group */
};

/* job.stop_at: stop_at.c. */
struct sw_stop_rules {
    struct sw_stop rule[SW_STOPS];
    bool looks_at_steps, looks_at_evals; /* is a metric of training, of evaluation among them? */
};

/* The newest values; written by one worker at a time, between steps. */
struct sw_job_metrics {
    struct sw_norm norm;
    struct sw_job_metric last[SW_SPLITS][SW_JOB_METRICS];
    int count[SW_SPLITS];
};

/* On what it runs. */
struct sw_job_place {
    struct sw_machine *machine;
    struct sw_placement *placement;
    struct sw_device *host;           /* parameter table, batches */
    struct sw_device_request devices; /* of the workers, as job.device asks for */
};

/* The parameters, one copy for each server group. */
struct sw_job_params {
    struct sw_server_group *copies; /* owned [server groups] */
    struct sw_table *table;         /* of the first copy: what is saved and evaluated */
    struct sw_sync *sync;           /* owned; NULL: there is one copy */
};

/* How gradients, values and features move between devices and the host, and between workers. */
struct sw_job_exchange {
    enum sw_copy_mode copy; /* never AUTO once the units are placed */
    enum sw_overlap overlap;
    struct sw_transfer **features[SW_SPLITS]; /* owned [worker groups], each owned; NULL: nothing
                                                 moves between workers */
    struct sw_ways *ways; /* owned; between the devices of workers; NULL: none is used */
    struct sw_reduction reduction;
    struct sw_comm_plan comm;
};

/* How fast the machine and its workers are, and what is chosen by it. */
struct sw_job_speed {
    struct sw_rates rates;
    struct sw_tune *tune; /* owned; NULL: plans are chosen by rules */
    bool rebalances;      /* rows go to the workers that are fast */
    double (*row_ms)(
        int worker); /* how long a row takes a worker, in tests; NULL: it is measured */
};

/* What layers keep between batches. */
struct sw_job_state {
    struct sw_states shared;  /* by all workers: states.c */
    struct sw_states carries; /* row state, gathered: carries.c */
    int64_t anew_after;       /* what the workers' is at first: written before they meet */
};

/* Values that come from neither an initializer nor the checkpoint it goes on from. */
struct sw_job_initial {
    struct sw_take_list takes;
    struct sw_legacy legacy;
};

/* Who looks on. All owned. */
struct sw_job_monitor {
    struct sw_watch *watch;
    struct sw_sense *sense; /* NULL: it does not run */
    struct sw_trace *trace; /* NULL: nobody asked for one */
};

struct sw_job {
    char *name; /* owned */
    struct sw_recipe *recipe;
    const struct sw_job_conf *conf; /* of the recipe */
    struct sw_run_options options;
    struct sw_job_span span;
    struct sw_job_stage stage;

    struct sw_job_place place;
    struct sw_topology *topology; /* owned; frozen */
    struct sw_row_split rows;     /* changes when all meet */
    bool one_worker;              /* only evaluates: its training net has no memory */
    struct sw_worker *workers;    /* owned [workers]; the first one leads */
    struct sw_server *servers;    /* owned [servers] */
    struct sw_job_groups groups;

    struct sw_job_data data;
    struct sw_job_params params;
    struct sw_job_exchange exchange;
    struct sw_job_speed speed;
    struct sw_job_state state;
    struct sw_job_initial initial;
    struct sw_outputs outputs;
    struct sw_mishaps mishaps;
    struct sw_stop_rules stops;
    struct sw_job_metrics metrics;
    struct sw_retention retention; /* of the leader */
    struct sw_job_plan plan;
    struct sw_job_report report;

    struct sw_events events;
    struct sw_requests requests;
    struct sw_fault fault;
    struct sw_job_monitor monitor;
};

/* job_units.c */
/* Reads job.device, and opens the host. */
int sw_job_choose_device(struct sw_job *job, struct sw_err *err) SW_MUST_CHECK;
/* Maps the machine, decides the shape, places and makes workers and servers. */
int sw_job_place(struct sw_job *job, const struct sw_job_options *o,
                 struct sw_err *err) SW_MUST_CHECK;
/* Every worker's own device. */
int sw_job_open_devices(struct sw_job *job, struct sw_err *err) SW_MUST_CHECK;

/* job_params.c */
/* The parameter table, from the training nets of all workers. */
int sw_job_make_table(struct sw_job *job, struct sw_err *err) SW_MUST_CHECK;

/* A copy is as it is after so many steps of the job, with so many updates behind it: between steps,
 * by one thread. */
void sw_job_put_step(struct sw_job *job, int copy, int64_t step, uint64_t updates,
                     uint64_t dropped);
/* After the last step that the first group made alone: the others have its values already, and
 * what its updater keeps becomes theirs. */
void sw_job_join(struct sw_job *job);
/* Makes the copies exchange, once they are allocated. */
int sw_job_make_sync(struct sw_job *job, struct sw_err *err) SW_MUST_CHECK;

/* job.c */
/* All but where it begins and ends: *out is set after errors, too, for its recipe's. */
int sw_job_build(const struct sw_job_options *o, struct sw_log *log, struct sw_job **out,
                 struct sw_err *err) SW_MUST_CHECK;
/* And the rest, once it is known what comes behind its stage. */
int sw_job_complete(struct sw_job *job, const struct sw_job_options *o,
                    struct sw_err *err) SW_MUST_CHECK;
/* The evaluation nets of all workers. */
int sw_job_build_eval(struct sw_job *job, struct sw_err *err) SW_MUST_CHECK;
/* Finds each parameter of a net in the table; those of the training net are added. */
int sw_job_map_params(struct sw_worker *w, int split, struct sw_err *err) SW_MUST_CHECK;
/* Lets the nets of all workers exchange features. */
int sw_job_connect(struct sw_job *job, int split, struct sw_err *err) SW_MUST_CHECK;

/* job_data.c */
/* The section that is trained or evaluated on; NULL: there is none. */
const struct sw_section *sw_job_find_split(const struct sw_job *job, int split);
int sw_job_open_split(struct sw_job *job, int split, const struct sw_section *section,
                      struct sw_err *err) SW_MUST_CHECK;
/* [data train], which has to be there, and [data val] or [data test]; and job->horizon. */
int sw_job_open_data(struct sw_job *job, struct sw_err *err) SW_MUST_CHECK;
/* How many different records were passed over so far. */
int64_t sw_job_skipped(const struct sw_job *job);

/* plan.c */
/* The part of the plan that is known once the units are placed; sw_job_describe has it too. */
void sw_job_describe_units(struct sw_job *job);
int sw_job_describe(struct sw_job *job, struct sw_err *err) SW_MUST_CHECK;
/* job->report.choices anew. */
int sw_job_write_choices(struct sw_job *job, struct sw_err *err) SW_MUST_CHECK;

/* bytes.c */
/* What a worker's device holds of parameters, gradients and updater state, beside the host's. */
size_t sw_worker_replica_bytes(const struct sw_worker *w);
/* Fills the plan's bytes from what the nets have now. */
void sw_job_sum_memory(struct sw_job *job);
size_t sw_job_batch_bytes(const struct sw_job *job);
/* The same with its states, what it carries and batches: all but the arena. */
size_t sw_worker_fixed_bytes(const struct sw_worker *w);
/* What all workers on this one's device hold there; 0: it is the host's memory. */
size_t sw_worker_device_bytes(const struct sw_worker *w);

/* fit.c */
/* Meets memory = fit:SIZE, once all nets are built and nothing is allocated, and sees that devices
 * have what they are to hold. Errors: SW_ERR_NOMEM saying what would do. */
int sw_job_fit(struct sw_job *job, struct sw_err *err) SW_MUST_CHECK;
/* Nets of other rows, which are to replace the worker's training nets: within what its arena may
 * take. Errors: SW_ERR_NOMEM. */
int sw_job_refit(const struct sw_worker *w, struct sw_parts *fresh,
                 struct sw_err *err) SW_MUST_CHECK;

#endif
