/* A job from the inside. job.c opens and closes it, job_units.c says on what it runs, job_params.c
 * what it trains, copy_mode.c how gradients travel, leaves.c how workers share a batch, fit.c keeps
 * it within a budget of memory, plan.c describes it, run.c sets it in motion and ends it, watch.c
 * sees that it stays in motion (watchdog.c judges, waits.c tells who waits for whom),
 * worker_setup.c and worker.c, server.c are the roles, replica.c a worker's parameters on a device
 * of its own, bp.c is one step, ledger.c where its time went, sums.c what its layers add over the
 * group, evaluate.c a pass without training, outputs.c what it writes, checkpoint.c what survives,
 * states.c what layers keep, scale.c the loss scale in checkpoints, record.c what a step leaves
 * behind, group.c what workers do together, notes.c what the main thread is told.
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
#include "data/prefetch.h"
#include "device/sim/sim.h"
#include "history/history.h"
#include "history/snapshot.h"
#include "net/exchange.h"
#include "net/net.h"
#include "net/partition.h"
#include "net/parts.h"
#include "param/sync.h"
#include "param/table.h"
#include "recipe/job.h"
#include "sync/queue.h"
#include "tensor/safetensors.h"
#include "train/group.h"
#include "train/input.h"
#include "train/job.h"
#include "train/reduce.h"
#include "train/replica.h"
#include "train/segments.h"
#include "train/ways.h"

enum { SW_SPLIT_TRAIN, SW_SPLIT_EVAL, SW_SPLITS };

/* What a thread tells the main thread: an event with its texts. */
struct sw_note {
    struct sw_job_event event;
    bool wake;                  /* only wakes the main thread: the worker has ended */
    char source[32], text[512]; /* whoever said it may be gone when it is told */
};

/* A complete copy of the parameters, and where those who change it are in the job's lists. */
struct sw_server_group {
    struct sw_job *job;     /* borrowed */
    struct sw_table *table; /* owned */
    int first_worker, workers, first_server;
};

struct sw_server {
    struct sw_job *job;     /* borrowed */
    struct sw_table *table; /* borrowed: its server group */
    int index;              /* global number */
    int seat;               /* in the table */
    int runner;             /* atomic: the worker that runs it just now, counted from 1 */
    char unit[32];
    bool hosted; /* workers run it; else it has a thread of its own */
    struct sw_thread thread;
    struct sw_slot *slot;
};

/* What users see of one net's losses and metrics, loss first: names, history handles, and where
 * each value comes from; with the pairs of all its results that the values are read from. */
struct sw_series {
    int count;
    char name[SW_JOB_METRICS][SW_JOB_METRIC_NAME];
    int result[SW_JOB_METRICS]; /* index in the net's results; -1: the sum of all losses */
    int which[SW_JOB_METRICS];  /* of the result's values */
    int handle[SW_JOB_METRICS];
    int parts, pairs;
    struct sw_result *sums;   /* owned [parts][pairs]: own rows of the step or evaluation under way,
                                 by their parts */
    struct sw_result *totals; /* owned [pairs]: over the group, where this worker reads them */
};

/* State without gradient, kept once per job: states.c. */
struct sw_state {
    char *name; /* owned: "state.bn1.mean", as in checkpoints */
    struct sw_desc layout;
    float natural; /* initial value */
    size_t offset; /* bytes, in the states' memory */
    int keeper;    /* the worker whose training net keeps it up */
    float *value;
    struct sw_tensor view; /* of value, while a file is written or read */
};
struct sw_states {
    struct sw_state *items; /* owned */
    int count;
    bool elsewhere; /* another worker than the first keeps some of them up */
    void *memory;   /* owned host memory */
    size_t bytes;
};

/* Which part of a run this is: stages.c. */
struct sw_job_stage {
    int index, count;   /* of the recipe's; -1, 0: it has none */
    const char *name;   /* borrowed from the recipe */
    int64_t from;       /* the step behind which it begins */
    bool begins;        /* the checkpoint to go on from is of the stage before */
    bool over;          /* it has come to its end; the leader's */
    int64_t later;      /* steps of the stages behind it */
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

/* Checkpoints of the run that are on disk, and the best one: keep.c. */
struct sw_kept {
    int64_t step;
    char *path;        /* owned */
    char checksum[33]; /* "" unknown */
};
struct sw_best {
    int64_t step; /* -1: none yet */
    double value;
};
struct sw_keeper {
    struct sw_kept *items; /* owned */
    int count;
    int metric; /* of the evaluation's series; -1: nothing is evaluated */
    bool less_is_better;
    int64_t evaluated; /* step of the newest evaluation, or -1 */
    int64_t from;      /* step that a resume went on from, or -1 */
    struct sw_best best;
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
    struct sw_factors *factors; /* owned: between devices, once there is memory; or NULL */
    bool failed;                /* there was no memory for a choice */
    char *kept;                 /* owned: choices of the checkpoint; NULL: there are none */
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

struct sw_worker {
    struct sw_job *job;           /* borrowed */
    int index;                    /* global number */
    struct sw_group *group;       /* borrowed: those with whom it shares a batch */
    int group_index, place;       /* which group that is, and its number there */
    struct sw_server_group *copy; /* borrowed: its group's parameters */
    struct sw_table *table;       /* that copy's */
    int seat;                     /* its number there */
    char unit[32];
    struct sw_thread thread;
    struct sw_device *device;          /* owned when it is not the host's */
    struct sw_stream *stream;          /* owned */
    struct sw_stream *host_stream;     /* owned; for work on host memory; NULL: `stream` does it */
    struct sw_replica *replica;        /* owned; NULL where the device's memory is the host's */
    struct sw_parts *parts[SW_SPLITS]; /* owned; its nets. NULL without evaluation data */
    struct sw_segments *segments;      /* owned: of a training step */
    struct sw_input *input;            /* owned; NULL where the device's memory is the host's */
    struct sw_batch ahead;             /* of the next step, which is on its way already, */
    bool is_ahead;                     /* if there is one */
    struct sw_net *train,
        *eval;                /* borrowed: the first of each, which speaks for all of the graph */
    int *param_of[SW_SPLITS]; /* owned: table index of each parameter of a net */
    int *completed_by; /* owned [parameters of the table]: the layer whose backward completes the
                          gradient, -1: it has not got it */
    void *arena;       /* owned device memory */
    size_t arena_bytes;
    size_t arena_budget; /* that memory = fit leaves for it; 0: no limit */
    void *swapped;       /* owned host memory: features that are away */
    size_t swap_bytes;
    void *states_before; /* owned device memory: with on_nan = skip, the leader's states as they
                            were before the step */
    void *states; /* owned device memory: its copy of the job's states, where the device does not
                     reach them */
    void *carries[SW_SPLITS]; /* owned device memory: row state of its nets, or NULL */
    size_t carry_bytes[SW_SPLITS];
    struct sw_prefetch *prefetch[SW_SPLITS];
    struct sw_reading {
        struct sw_worker *worker;
        int first, count; /* slots of its threads in the live snapshot */
    } reading[SW_SPLITS];
    int *served; /* owned: the servers this worker runs itself, by their seats in its table */
    int served_count;
    int first_leaf, leaves; /* its parts of a batch, among those of its group */
    int64_t first_row[SW_SPLITS], rows[SW_SPLITS]; /* which are these rows, */
    int64_t *part_rows[SW_SPLITS];                 /* owned [leaves] */
    struct sw_pace pace;
    struct sw_slot *slot;
    struct sw_history_producer *producer;
    struct sw_series series[SW_SPLITS];
    int rate_series, speed_series;
    int norm_series;    /* -1: norms are not known */
    int scale_series;   /* -1: there is no loss scale */
    int64_t norms_step; /* the last one whose norm is recorded */
    int skips;          /* in a row, of its group, whose first worker it is */
    int *links;         /* owned [servers of the table]: gradients to each */
    int *value_links;   /* owned [servers]: values from it, where they have to move */
    int *sync_links;    /* owned [server groups][servers]: to others, of the first worker of one */
    int64_t *sync_told; /* owned, likewise: bytes that are recorded */
    int *sum_links;     /* owned [workers]: gradients to each that adds up; NULL: none does */
    int *factor_links;  /* owned [workers]: factors to each; NULL: they are not exchanged */
    int *feature_links; /* owned [workers of the group]: to each; -1: nothing goes there */
    int64_t *feature_told;            /* owned, likewise: nanoseconds that are recorded */
    struct sw_step_time ledger;       /* of the step under way */
    int64_t lap_ns;                   /* when the ledger was last written */
    int64_t served_ns, copied_ns[2];  /* when the ledger was last recorded: of servers that are
                                         threads; of its replica, to and from the device */
    double *forward_ms, *backward_ms; /* owned [layers of train]: since the last flush */
    float *pass_ms;        /* where the time of the pass under way goes: in the ledger (NULL: no
                              pass), */
    double *pass_total_ms; /* and of its layer */
    int64_t timed_steps;
    int64_t step;       /* updates done */
    int64_t trained_ns; /* time spent in steps */
    int64_t first_step; /* updates done at the start of this segment, or when it came to work */
    int checkpoint_failures;
    bool over;    /* ended at the last step or by stop_at */
    bool stopped; /* ended by request, with a checkpoint, before the last step */
};

struct sw_job {
    struct sw_log *log; /* borrowed */
    struct sw_recipe *recipe;
    const struct sw_job_conf *conf;                                    /* of the recipe */
    char *name, *out_option, *db_option, *command, *resume_checkpoint; /* owned or NULL */
    int64_t resume_run_id;                                             /* 0: a new run */
    int64_t horizon;                                                   /* steps of the recipe, or of
                                                                          its stage */
    int64_t steps;                                                     /* where this job ends */
    int64_t run_steps; /* and where the run does, with all its stages */
    int64_t steps_option;
    bool steps_at_most, oversubscribes;
    int64_t first_step;     /* of the checkpoint it goes on from */
    int64_t evaluated_step; /* of the weights that sw_job_evaluate loaded */
    int64_t trace_capacity;
    struct sw_display_policy display;

    struct sw_machine *machine;
    struct sw_cluster_shape shape;
    enum sw_copy_mode copy; /* never AUTO once the units are placed */
    char copy_why[128];
    enum sw_overlap overlap;
    struct sw_cluster_terms terms;
    struct sw_placement *placement;
    struct sw_device *device; /* the host: parameter table, batches */
    char device_text[160];    /* as asked for: cpu, sim:gpus=4 */
    struct sw_sim_conf sim;
    bool on_sim, on_cuda;
    bool mixed;              /* workers that get no such device compute on the CPU */
    int gpus[SW_SHAPE_GPUS]; /* those that device names; gpu_count 0: any */
    int gpu_count;
    const struct sw_section *data[SW_SPLITS]; /* NULL: no such section */
    struct sw_source *source[SW_SPLITS];
    struct sw_server_group *copies; /* owned [shape.server_groups] */
    struct sw_table *table;         /* of the first copy: what is saved and evaluated */
    struct sw_sync *sync;           /* owned; NULL: there is one copy */
    struct sw_worker *workers;      /* owned [placement->worker_count]; the first one leads */
    struct sw_server *servers;      /* owned [placement->server_count] */
    struct sw_group all;            /* all workers */
    /* Those that share the rows of a net and are at the same step: all workers in a synchronous job
     * that is no hybrid, else the worker groups. */
    struct sw_group *groups; /* owned [group_count] */
    int group_count, group_size;
    bool hybrid;            /* the groups share a batch by rows, and each has its rows as its net is
                               split */
    struct sw_group *peers; /* owned [group_size], where it is: who has the same place in a group */
    int leaves; /* parts of a group's batch: as many as workers, or with repeat_exact the virtual
                   ones */
    int64_t *leaf_ends[SW_SPLITS]; /* owned [leaves]: the row behind each. Change when all meet */
    bool rebalances;
    bool apart;          /* groups are at steps of their own */
    int64_t alone_steps; /* the first so many steps are those of the first group alone */
    struct sw_exchange **exchange[SW_SPLITS]; /* owned [group_count], each owned; NULL: nothing
                                                 moves between workers */
    struct sw_states states;
    struct sw_states carries; /* row state, gathered: carries.c */
    int64_t anew_after;       /* atomic: sequences begin anew behind this step; -1: none */
    struct sw_job_stage stage;
    struct sw_legacy legacy;
    struct sw_take_list takes;
    struct sw_outputs outputs;
    struct sw_ways *ways; /* owned; between the devices of workers; NULL: none is used */
    struct sw_reduction reduction;
    struct sw_comm_plan comm;
    struct sw_rates rates;
    struct sw_tune *tune; /* owned; NULL: plans are chosen by rules */
    struct sw_mishaps mishaps;
    struct sw_group norms; /* the first workers of those who make updates together */
    struct sw_norm norm;   /* the newest that is known, by one worker at a time */
    struct sw_stop stops[SW_STOPS];
    bool stops_steps, stops_evals; /* do conditions look at training, at evaluation? */
    struct sw_keeper keeper;       /* of the leader */
    struct sw_job_metric last[SW_SPLITS][SW_JOB_METRICS]; /* newest values; written by one worker at
                                                             a time, between steps */
    int last_count[SW_SPLITS];
    char *choices;         /* owned: what the plans chose, a line per layer */
    char *partition_notes; /* owned */

    struct sw_job_plan plan;
    struct sw_job_layer *layer_rows; /* owned */
    struct sw_job_share *share_rows; /* owned [layers of the plan][group_size]; NULL: one worker */
    struct sw_buf fallback_text;
    const char *framework;
    char framework_reason[256];

    struct sw_fault fault;
    bool fault_ready;
    struct sw_history *history;
    struct sw_snapshot *snapshot;
    struct sw_trace *trace;
    struct sw_queue notes; /* struct sw_note */
    bool notes_ready;
    int bad_records_told; /* atomic */
    int ended;            /* atomic: workers that have ended */
    int64_t saved_step;   /* atomic: of the newest checkpoint of this segment; -1: none yet */
    struct sw_watch *watch;
    struct sw_sense *sense; /* NULL: it does not run */
    struct sw_gate {
        struct sw_mutex lock; /* guards the others */
        struct sw_cond changed;
        bool closed;
        int64_t through; /* the last step whose pause has ended */
        bool stop;       /* it ended by a stop */
    } gate;
    int requests;      /* atomic: enum sw_job_request_kind bits */
    int wants_display; /* atomic: the main thread asks the worker for a display */
};

/* job_units.c */
/* Reads job.device: "cpu", "cuda:0,2", "sim:gpus=4". */
int sw_job_choose_device(struct sw_job *job, struct sw_err *err) SW_MUST_CHECK;
/* Do workers have devices of their own, whose memory the host cannot reach? All of them, or in a
 * mixed job the first ones. */
bool sw_job_has_devices(const struct sw_job *job);
/* Maps the machine, decides the shape, places and makes workers and servers. */
int sw_job_place(struct sw_job *job, const struct sw_job_options *o,
                 struct sw_err *err) SW_MUST_CHECK;
/* Batches that all groups together have trained on after so many steps: where they are apart, a
 * step is one batch, and one update, of each that does not rest. And the fewest steps that make so
 * many batches. */
int64_t sw_job_batches(const struct sw_job *job, int64_t step);
int64_t sw_job_samples(const struct sw_job *job, int64_t step);
int64_t sw_job_steps_of(const struct sw_job *job, int64_t batches);
/* The rows of a batch that a group has: all of them, or in a hybrid its part in training. */
void sw_job_group_rows(const struct sw_job *job, int group, int split, int64_t *first,
                       int64_t *rows);
/* Does the group rest in that step, because it is one of those that the first makes alone? */
bool sw_job_rests(const struct sw_job *job, int group, int64_t step);
/* Steps that a group has made after so many steps of the job. */
int64_t sw_job_own_steps(const struct sw_job *job, int group, int64_t step);
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
/* sw_job_open without messages: *out is set after errors, too, for its recipe's. */
int sw_job_open_part(const struct sw_job_options *o, struct sw_log *log, struct sw_job **out,
                     struct sw_err *err) SW_MUST_CHECK;
/* The section that is trained or evaluated on; NULL: there is none. */
const struct sw_section *sw_job_find_split(const struct sw_job *job, int split);
int sw_job_open_split(struct sw_job *job, int split, const struct sw_section *section,
                      struct sw_err *err) SW_MUST_CHECK;
/* The evaluation nets of all workers. */
int sw_job_build_eval(struct sw_job *job, struct sw_err *err) SW_MUST_CHECK;
/* Finds each parameter of a net in the table; those of the training net are added. */
int sw_job_map_params(struct sw_worker *w, int split, struct sw_err *err) SW_MUST_CHECK;
/* Lets the nets of all workers exchange features. */
int sw_job_connect(struct sw_job *job, int split, struct sw_err *err) SW_MUST_CHECK;

/* The servers of a table; as many as shape.servers_per_group. */
const struct sw_server *sw_job_servers(const struct sw_job *job, const struct sw_table *table);

/* run.c */
/* Ends a run whose next stage nobody has begun: it can be resumed. */
void sw_job_leave(struct sw_job *job);
/* Decides which servers are threads and which are run by a worker. */
int sw_job_settle_servers(struct sw_job *job, struct sw_err *err) SW_MUST_CHECK;

/* plan.c */
/* The part of the plan that is known once the units are placed; sw_job_describe has it too. */
void sw_job_describe_units(struct sw_job *job);
int sw_job_describe(struct sw_job *job, struct sw_err *err) SW_MUST_CHECK;
/* job->choices anew. */
int sw_job_write_choices(struct sw_job *job, struct sw_err *err) SW_MUST_CHECK;
/* What a worker's device holds of parameters, gradients and updater state, beside the host's. */
size_t sw_worker_replica_bytes(const struct sw_worker *w);
/* Fills the plan's bytes from what the nets have now. */
void sw_job_sum_memory(struct sw_job *job);
size_t sw_job_batch_bytes(const struct sw_job *job);
/* "128x96x55x55", cut at `bytes`. */
void sw_job_shape_text(int ndim, const int64_t *dim, char *out, size_t bytes);

/* fit.c */
/* Meets memory = fit:SIZE, once all nets are built and nothing is allocated. Errors: SW_ERR_NOMEM
 * saying what would do. */
int sw_job_fit(struct sw_job *job, struct sw_err *err) SW_MUST_CHECK;
/* Nets of other rows, which are to replace the worker's training nets: within what its arena may
 * take. Errors: SW_ERR_NOMEM. */
int sw_job_refit(const struct sw_worker *w, struct sw_parts *fresh,
                 struct sw_err *err) SW_MUST_CHECK;

/* copy_mode.c */
/* Does something look at all gradients before any update is made? */
bool sw_job_decides_about_all(const struct sw_job *job);
/* job->copy, once the units are placed; and what becomes of it when sw_reduce_choose has said who
 * adds up. */
void sw_job_choose_copy(struct sw_job *job, const struct sw_cluster_conf *c);
void sw_job_settle_copy(struct sw_job *job);

/* reduce.c */
/* Why servers add up what several workers give, whatever the devices can do; NULL: nothing says so.
 */
const char *sw_reduce_why_servers(const struct sw_job *job);
/* Once the devices are open: finds which ways between them are sound (look: as far as that is
 * known), lets those reach each other that do so soundly, and says who adds up gradients. Errors:
 * SW_ERR_UNSUPPORTED, SW_ERR_NOTFOUND (a library that was asked for is not there, or not sound). */
int sw_reduce_choose(struct sw_job *job, bool look, struct sw_err *err) SW_MUST_CHECK;
/* Do devices add up gradients by themselves? */
bool sw_job_reduces(const struct sw_job *job);
/* Cuts the buckets, once the table is frozen; their memory on every device; and takes it. */
int sw_reduce_plan(struct sw_job *job, struct sw_err *err) SW_MUST_CHECK;
size_t sw_reduce_bytes(const struct sw_job *job);
int sw_reduce_make(struct sw_job *job, struct sw_err *err) SW_MUST_CHECK;
/* By the watch thread, now and then: what went wrong with sums under way becomes the fault. */
void sw_reduce_look(struct sw_job *job);
/* Before the workers go, while nothing runs any more. */
void sw_reduce_fini(struct sw_job *job);

/* rates.c */
/* Once the first worker has its stream: from what was kept, else measured. */
const struct sw_rates *sw_rates_of(struct sw_job *job);
/* Keeps what was measured for the next job. A state directory that cannot be written is no error.
 */
void sw_rates_keep(struct sw_job *job);
/* A file of the machine's state directory; NULL when it is not there, or of another machine. Freed
 * by the caller. */
struct sw_json *sw_rates_read_kept(const struct sw_job *job, const char *name);
/* Writes one. Where that does not work the job says so. */
void sw_rates_keep_file(struct sw_job *job, const char *name, struct sw_buf *text);

/* tune.c */
/* What devices are lent for choices by measuring, if they are asked for or part of the checkpoint.
 * After sw_comm_prepare, which reads that, and before there are streams. Errors: SW_ERR_NOMEM. */
int sw_job_tune_prepare(struct sw_job *job, struct sw_err *err) SW_MUST_CHECK;
/* Keeps what was measured since the last time for the next job. */
void sw_job_tune_keep(struct sw_job *job);
/* Says what was measured. */
void sw_job_tune_tell(struct sw_job *job);
void sw_job_tune_close(struct sw_job *job); /* after the devices */

/* comm.c */
/* What nets are told; and refuses what [cluster] cannot have. Once units are placed. */
int sw_comm_prepare(struct sw_job *job, struct sw_err *err) SW_MUST_CHECK;
void sw_comm_args(struct sw_job *job, struct sw_net_comm *out);
/* Once all nets are made: could all choices be made? Errors: SW_ERR_NOMEM. */
int sw_comm_verdict(const struct sw_job *job, struct sw_err *err) SW_MUST_CHECK;
/* Adds the factors of layer i to the worker's table, if it has any: *number is for the specs of its
 * parameters, 0 for none. */
int sw_comm_add(const struct sw_worker *w, int i, int *number, struct sw_err *err) SW_MUST_CHECK;
/* Where backward of the worker's training net writes factors, for the rows that it has now. */
void sw_comm_bind(struct sw_worker *w);
/* Tells those who exchange factors which rows are whose, after they were cut anew. */
void sw_comm_set_rows(struct sw_job *job);
/* The most rows of a batch that the worker may come to have. */
int64_t sw_comm_most_rows(const struct sw_worker *w);
/* Memory of factors on a worker's device; takes it, before the workers' own; and gives it back. */
size_t sw_comm_bytes(const struct sw_job *job);
int sw_comm_make(struct sw_job *job, struct sw_err *err) SW_MUST_CHECK;
void sw_comm_fini(struct sw_job *job);
/* Layer i of the training nets, for `check`; and whether the recipe says anything of it. */
void sw_comm_describe(const struct sw_job *job, int i, struct sw_job_comm *out);
bool sw_comm_is_asked(const struct sw_job *job);
/* The lines of choices for a checkpoint: "comm fc6 sfb". */
void sw_comm_write(const struct sw_job *job, struct sw_buf *out);

/* checkpoint.c */
/* Writes OUT/checkpoint-STEP.safetensors and records it. Between steps only. */
int sw_checkpoint_write(struct sw_worker *w, struct sw_err *err) SW_MUST_CHECK;
/* Removes what killed writes left in a run's folder. */
void sw_checkpoint_sweep(const char *dir);
/* Checks the file and that it fits the job's parameters; *step is where it stands. */
int sw_checkpoint_check(struct sw_job *job, const char *path, int64_t *step,
                        struct sw_err *err) SW_MUST_CHECK;
/* Values, updater state and running statistics become those of the file; the step stays. Between
 * steps, by the leader, while the others wait. */
int sw_checkpoint_roll_back(struct sw_worker *w, const char *path,
                            struct sw_err *err) SW_MUST_CHECK;
/* Loads values and updater state. */
int sw_checkpoint_load(struct sw_worker *w, const char *path, struct sw_err *err) SW_MUST_CHECK;
/* Loads all parameters and states, whatever wrote the file; *step is where a checkpoint of ours
 * stands, else 0. */
int sw_checkpoint_take(struct sw_job *job, struct sw_stream *stream, const char *path,
                       int64_t *step, struct sw_err *err) SW_MUST_CHECK;
/* Opens a file of ours, which must have its checksum, or of others. */
int sw_checkpoint_open(const char *path, struct sw_st_file **f, struct sw_err *err) SW_MUST_CHECK;
/* tokens.c: the vocabulary of a model of text, kept in its checkpoints, and asked for where one is
 * read. Errors: SW_ERR_INVALID where a text that is open has another. */
int sw_tokens_write(const struct sw_job *job, struct sw_st_writer *w,
                    struct sw_err *err) SW_MUST_CHECK;
int sw_tokens_check(const struct sw_job *job, const struct sw_st_file *f, const char *path,
                    struct sw_err *err) SW_MUST_CHECK;
int sw_checkpoint_check_finite(struct sw_job *job, struct sw_stream *stream, int param,
                               const char *path, struct sw_err *err) SW_MUST_CHECK;

/* legacy.c */
/* From the checkpoint that the job begins with, once; and into those that it writes. */
int sw_legacy_read(struct sw_job *job, const struct sw_st_file *f,
                   struct sw_err *err) SW_MUST_CHECK;
int sw_legacy_write(struct sw_job *job, struct sw_st_writer *w, struct sw_err *err) SW_MUST_CHECK;
void sw_legacy_fini(struct sw_legacy *l);

/* stages.c */
/* Tensors that earlier stages leave, by name and shape. */
struct sw_stage_names {
    struct sw_st_entry *items; /* owned, their names too */
    int count;
};
void sw_stage_names_fini(struct sw_stage_names *n);
const struct sw_st_entry *sw_stage_names_find(const struct sw_stage_names *n, const char *name);
/* Reads the recipe for the stage that the options ask for. */
int sw_stage_choose(struct sw_job *job, const struct sw_job_options *o,
                    struct sw_err *err) SW_MUST_CHECK;
/* Opens the stages behind this one, each for itself, to see that they can be. */
int sw_stages_look(struct sw_job *job, const struct sw_job_options *o,
                   struct sw_err *err) SW_MUST_CHECK;
/* Where the job and the run end. */
void sw_stage_find_end(struct sw_job *job, const struct sw_job_options *o);
/* Step t is the job's last one: by the leader. */
void sw_stage_note_end(struct sw_job *job, int64_t t);
int sw_stage_write(const struct sw_job *job, struct sw_st_writer *w,
                   struct sw_err *err) SW_MUST_CHECK;
void sw_stage_tell(struct sw_job *job);

/* init_from.c */
/* Reads the list, or --init-from instead of it, and checks all files and rules. */
/* earlier: where it is not the job that begins its stage, what those before leave; NULL: unknown.
 */
int sw_take_look(struct sw_job *job, const char *option, const struct sw_stage_names *earlier,
                 struct sw_err *err) SW_MUST_CHECK;
/* Takes the values, and says what was taken and what was not. By the leader. */
int sw_take_values(struct sw_worker *w, struct sw_err *err) SW_MUST_CHECK;
void sw_take_fini(struct sw_take_list *init); /* a zeroed one is accepted */

/* keep.c */
int sw_keep_init(struct sw_job *job, const struct sw_job_options *o,
                 struct sw_err *err) SW_MUST_CHECK;
void sw_keep_fini(struct sw_keeper *k);
/* The newest checkpoint of this segment, or the one it went on from. */
const char *sw_keep_newest(const struct sw_job *job, int64_t *step);
/* A checkpoint that is on disk; checksum may be NULL. Errors: SW_ERR_NOMEM. */
int sw_keep_add(struct sw_job *job, int64_t step, const char *path, const char *checksum,
                struct sw_err *err) SW_MUST_CHECK;
/* Is the evaluation of this step better than the best checkpoint's? False when there was none. */
bool sw_keep_beats(const struct sw_job *job, int64_t step);
/* The best, once there is a checkpoint of this step. */
struct sw_best sw_keep_best_with(const struct sw_job *job, int64_t step);
/* The best in a checkpoint's metadata. */
int sw_keep_write(const struct sw_job *job, struct sw_best best, struct sw_st_writer *w,
                  struct sw_err *err) SW_MUST_CHECK;
void sw_keep_read(struct sw_job *job, const struct sw_st_file *f);
/* The checkpoint of w->step is durable: records it and removes what need not stay. */
void sw_keep_record(struct sw_worker *w, const char *path, uint64_t bytes, const char *checksum);

/* carries.c */
/* Those of the training nets. Errors: SW_ERR_INVALID where the data or the groups do not go with
 * them. */
int sw_carries_build(struct sw_job *job, struct sw_err *err) SW_MUST_CHECK;
size_t sw_carries_bytes(const struct sw_job *job); /* what all of it takes, on all devices */
size_t sw_carries_worker_bytes(const struct sw_worker *w); /* and on a worker's */
int sw_carries_allocate(struct sw_job *job, struct sw_err *err) SW_MUST_CHECK;
int sw_carries_bind(struct sw_worker *w, struct sw_err *err) SW_MUST_CHECK;
void sw_carries_unbind(struct sw_worker *w);
/* By all workers at one step: to the job's memory, all of it when this returns; and from there. */
int sw_carries_gather(struct sw_worker *w, struct sw_err *err) SW_MUST_CHECK;
int sw_carries_deal(struct sw_worker *w, struct sw_err *err) SW_MUST_CHECK;
/* Do no rows go on from the batch before? t: the update that the batch is for. */
bool sw_carries_begin(const struct sw_worker *w, int split, int64_t batch, int64_t t);
/* The same of persistent chains, which go on whatever the data are. */
bool sw_chains_begin(const struct sw_worker *w, int64_t t);
int sw_carries_write(struct sw_job *job, struct sw_st_writer *w, struct sw_err *err) SW_MUST_CHECK;
/* Where the file has none for this batch, sequences begin anew, which is told. */
int sw_carries_read(struct sw_job *job, const struct sw_st_file *f,
                    struct sw_err *err) SW_MUST_CHECK;

/* states.c */
/* Those of the training net; then every evaluation net must have the same ones or fewer. */
int sw_states_build(struct sw_job *job, struct sw_err *err) SW_MUST_CHECK;
int sw_states_match(const struct sw_job *job, struct sw_err *err) SW_MUST_CHECK;
size_t sw_states_bytes(const struct sw_job *job); /* what all of it takes, on all devices */
/* And what it takes on this worker's own device. */
size_t sw_states_device_bytes(const struct sw_worker *w);
/* Memory, with the initial values; then every worker's nets are bound to it. */
int sw_states_allocate(struct sw_job *job, struct sw_err *err) SW_MUST_CHECK;
int sw_states_bind(struct sw_worker *w, struct sw_err *err) SW_MUST_CHECK;
void sw_states_rebind(struct sw_worker *w); /* its nets are new */
void sw_states_unbind(struct sw_worker *w);
void sw_states_fini(struct sw_states *s); /* a zeroed one is accepted */
/* By all workers at one step, between the job's memory and their own devices: everything that they
 * keep up is in the job's memory when this returns; and what was read from a file goes to them, and
 * has come to all when this returns. Nothing to do where they are the same. */
int sw_states_gather(struct sw_worker *w, struct sw_err *err) SW_MUST_CHECK;
int sw_states_deal(struct sw_worker *w, struct sw_err *err) SW_MUST_CHECK;
/* The second of these for one worker: until all have read, nobody may gather. */
int sw_states_send(struct sw_worker *w, struct sw_err *err) SW_MUST_CHECK;
/* Remembers what the worker's training net keeps up, before a step, and puts it back. */
int sw_states_keep(struct sw_worker *w, struct sw_err *err) SW_MUST_CHECK;
int sw_states_put_back(struct sw_worker *w, struct sw_err *err) SW_MUST_CHECK;
/* Is all that the worker's training net keeps up finite? */
int sw_states_finite(struct sw_worker *w, bool *finite, struct sw_err *err) SW_MUST_CHECK;
/* By all workers, before an evaluation: everybody gets what the keepers have. */
int sw_states_share(struct sw_worker *w, struct sw_err *err) SW_MUST_CHECK;
/* Adds them to a checkpoint; checks or reads them from one that has them all. */
int sw_states_write(struct sw_job *job, struct sw_st_writer *w, struct sw_err *err) SW_MUST_CHECK;
int sw_states_check(const struct sw_job *job, const struct sw_st_file *f, const char *path,
                    struct sw_err *err) SW_MUST_CHECK;
int sw_states_read(struct sw_job *job, const struct sw_st_file *f, const char *path,
                   struct sw_err *err) SW_MUST_CHECK;
/* One of them, from a tensor of any name. */
int sw_state_check(const struct sw_state *s, const char *tensor, const struct sw_st_entry *e,
                   const char *path, struct sw_err *err) SW_MUST_CHECK;
int sw_state_read(struct sw_state *s, const char *tensor, const struct sw_st_file *f,
                  const char *path, struct sw_err *err) SW_MUST_CHECK;

/* sums.c */
/* Of a pass of training, over all who share the batch; of an evaluation, over the group. */
int sw_worker_sum(void *worker, double *values, int count, bool in_rows,
                  struct sw_err *err) SW_MUST_CHECK;
int sw_worker_sum_in_group(void *worker, double *values, int count, bool in_rows,
                           struct sw_err *err) SW_MUST_CHECK;
/* sw_group_meet of all workers, and meanwhile the live snapshot says that it waits for `what`. */
int sw_worker_meet(struct sw_worker *w, const char *what) SW_MUST_CHECK;
/* The same of those that made step w->step. */
int sw_worker_meet_active(struct sw_worker *w, const char *what) SW_MUST_CHECK;
/* On devices of their own, while they compute step t: starts the copy of the next batch if that is
 * ready. */
int sw_worker_look_ahead(struct sw_worker *w, int64_t t, struct sw_err *err) SW_MUST_CHECK;
/* sw_group_rest: w->step becomes that after which all come together. */
int sw_worker_rest(struct sw_worker *w) SW_MUST_CHECK;
/* The same in its own group. */
int sw_worker_meet_group(struct sw_worker *w, const char *what) SW_MUST_CHECK;
/* Until over(state), which another worker of the group makes true and tells. */
int sw_worker_wait_in_group(struct sw_worker *w, const char *what, bool (*over)(const void *state),
                            const void *state) SW_MUST_CHECK;
/* The same, until no worker is more than `most` steps behind this one. */
int sw_worker_keep_pace(struct sw_worker *w, int64_t most) SW_MUST_CHECK;

/* ledger.c */
/* Adds the time since the last lap to a part of the ledger and to *total_ms when that is not NULL.
 */
void sw_worker_lap(struct sw_worker *w, float *part_ms, double *total_ms);
/* What was queued for the worker's own device so far ends a part of the step. */
int sw_ledger_mark(struct sw_worker *w, enum sw_mark mark, struct sw_err *err) SW_MUST_CHECK;
/* sw_worker_wait; its time goes to what the device did meanwhile. */
int sw_ledger_wait(struct sw_worker *w, struct sw_err *err) SW_MUST_CHECK;
/* Fills what runs beside the worker, before the ledger is recorded; copied_ms: of values to the
 * device, of gradients from it. */
void sw_ledger_add_hidden(struct sw_worker *w, double copied_ms[2]);

/* record.c */
/* After step w->step, which began at began_ns and ended at w->lap_ns. */
void sw_record_step(struct sw_worker *w, int64_t began_ns);
/* What its server group sent to others since the last time; by its first worker. */
void sw_record_sync(struct sw_worker *w);
/* Norms of gradients that are known by now; by the first worker of those who make updates together.
 */
void sw_record_norms(struct sw_worker *w);
void sw_record_layers(struct sw_worker *w);     /* mean times since the last call */
void sw_record_evaluation(struct sw_worker *w); /* by the leader */
/* Fills what all events share. */
void sw_record_event(const struct sw_worker *w, int split, struct sw_job_event *e);

/* leaves.c */
/* The smaller of a training and an evaluation batch. */
int64_t sw_leaves_most(const struct sw_job *job);
/* Parts of a batch that so many workers share. */
int sw_leaves_of(const struct sw_job *job, int workers);
/* What goes together with repeat_exact. Errors: SW_ERR_INVALID with messages in the recipe. */
/* Does the recipe ask for layers that are split otherwise than by rows? */
bool sw_job_splits_layers(const struct sw_job *job);
int sw_leaves_check(struct sw_job *job, const struct sw_section *cluster,
                    struct sw_err *err) SW_MUST_CHECK;
/* Cuts the batches into parts, as the checkpoint to go on from had them where that says so. */
int sw_leaves_cut(struct sw_job *job, struct sw_err *err) SW_MUST_CHECK;
/* Cuts them anew by these rows of a training batch, [leaves]; evaluation batches alike. */
void sw_leaves_recut(struct sw_job *job, const int64_t *rows);
/* The worker's parts of the batches. */
int sw_leaves_take(struct sw_worker *w, struct sw_err *err) SW_MUST_CHECK;
/* The rows of each, as in "48 16". */
void sw_leaves_write(const struct sw_job *job, struct sw_buf *out);

/* rebalance.c */
/* After a step in which computing took so long. */
void sw_pace_note(struct sw_pace *p, double ms);
/* As many rows as shares say, one at least each; ties to the first. */
void sw_rebalance_share(int64_t total, int count, const double *shares, int64_t *out);
/* Rows by speed: ms[i] is what rows[i] took. out: `total` rows over `count` workers, one at least
 * for each. Does it make enough of a difference? */
bool sw_rebalance_split(int64_t total, int count, const int64_t *rows, const double *ms,
                        int64_t *out);
/* By all workers, after an evaluation: gives them rows by their speed. */
int sw_rebalance(struct sw_worker *w, struct sw_err *err) SW_MUST_CHECK;

/* worker_setup.c */
/* Stream and training net; then, once the table knows the parameters, the evaluation net. */
int sw_worker_build(struct sw_worker *w, struct sw_err *err) SW_MUST_CHECK;
int sw_worker_build_eval(struct sw_worker *w, struct sw_err *err) SW_MUST_CHECK;
/* Between two steps, by the leader while the worker waits: nets, memory and batches for the rows
 * that it has now. After an error the worker cannot go on before another call succeeds. */
int sw_worker_rebuild(struct sw_worker *w, struct sw_err *err) SW_MUST_CHECK;
/* The source's fields as a net of so many rows sees them; how many. */
int sw_worker_fields(const struct sw_source *source, int64_t rows, struct sw_net_field *out);
/* By the worker's own thread, before anything else: its streams are used from here. */
int sw_worker_attach(struct sw_worker *w, struct sw_err *err) SW_MUST_CHECK;
/* sw_stream_wait, and meanwhile a device that hangs is found out. */
int sw_worker_wait(struct sw_worker *w, struct sw_err *err) SW_MUST_CHECK;
/* The stream for work on host memory, such as the parameter table. */
static inline struct sw_stream *sw_worker_host_stream(const struct sw_worker *w)
{
    return w->host_stream ? w->host_stream : w->stream;
}
int sw_worker_allocate(struct sw_worker *w, struct sw_err *err) SW_MUST_CHECK;
int sw_worker_open_history(struct sw_worker *w, struct sw_err *err) SW_MUST_CHECK;
/* How many batches of the evaluation are its group's. */
int64_t sw_worker_eval_batches(const struct sw_worker *w);
int sw_worker_start_prefetch(struct sw_worker *w, int split, struct sw_err *err) SW_MUST_CHECK;
/* sw_prefetch_next, and meanwhile the live snapshot says so. */
int sw_worker_next_batch(struct sw_worker *w, int split, struct sw_batch *batch,
                         struct sw_err *err) SW_MUST_CHECK;
void sw_worker_prefetch_args(const struct sw_worker *w, int split, struct sw_prefetch_args *args);
void sw_worker_fini(struct sw_worker *w);

/* scale.c */
/* The loss scales of a copy's parties, in a checkpoint's metadata; and those of copy `from` in the
 * file for this one. Errors: SW_ERR_FORMAT. */
int sw_scale_write(const struct sw_job *job, int copy, struct sw_st_writer *w,
                   struct sw_err *err) SW_MUST_CHECK;
int sw_scale_read(struct sw_job *job, const struct sw_st_file *f, const char *path, int copy,
                  int from, struct sw_err *err) SW_MUST_CHECK;

/* mishap.c */
/* After a forward pass: says whether its loss, and what it kept up, is finite. */
int sw_mishap_verdict(struct sw_worker *w, double loss, struct sw_err *err) SW_MUST_CHECK;
int sw_mishap_before_step(struct sw_worker *w, struct sw_err *err) SW_MUST_CHECK;
/* After update w->step was handed over: what to do if it is not finite (job.on_nan). All workers
 * call it. Errors: SW_ERR_DIVERGED when nothing helps. */
int sw_mishap_after_step(struct sw_worker *w, struct sw_err *err) SW_MUST_CHECK;
/* Has a group that is apart asked for a rollback since the last one? */
bool sw_mishap_wants_rollback(const struct sw_job *job);
/* Then this is the next one. By all workers when they have met behind the same step. */
int sw_mishap_roll_back(struct sw_worker *w, struct sw_err *err) SW_MUST_CHECK;
/* Does the worker speak for those with whom it makes updates? */
bool sw_worker_leads(const struct sw_worker *w);

/* stop_at.c */
/* Reads job.stop_at; after the nets are made. Errors go to the recipe's diags. */
int sw_stop_init(struct sw_job *job, struct sw_err *err) SW_MUST_CHECK;
/* Does a condition look at grad_norm? Before sw_stop_init, too. */
bool sw_stop_wants_norm(const struct sw_job *job);
/* By all workers, after each step: what conditions look at is known when it returns. */
int sw_stop_gather(struct sw_worker *w, struct sw_err *err) SW_MUST_CHECK;
/* Does a condition hold for what the split said last, at step t? tell: make it an event. */
bool sw_stop_reached(struct sw_job *job, int split, int64_t t, bool tell);
/* By all workers, after an evaluation; the same answer for all. */
int sw_stop_after_evaluation(struct sw_worker *w, bool *reached, struct sw_err *err) SW_MUST_CHECK;

/* worker.c */
void sw_worker_main(void *worker);

/* bp.c */
/* Update `t`: forward, backward with wait-free updates; *loss is the weighted sum of all losses. */
int sw_bp_step(struct sw_worker *w, int64_t t, const struct sw_batch *batch,
               struct sw_err *err) SW_MUST_CHECK;
/* cd.c: the Gibbs chains of step t, between its passes forward and backward; without machines
 * nothing. */
int sw_cd_chains(struct sw_worker *w, int64_t t, struct sw_err *err) SW_MUST_CHECK;
/* Waits until all updates `version` of all parameters are applied, whoever gives them; nothing is
 * copied to a device. */
int sw_bp_see_all(struct sw_worker *w, uint64_t version, struct sw_err *err) SW_MUST_CHECK;
/* The same of the updates of those with whom the worker makes them. */
int sw_bp_see_own(struct sw_worker *w, uint64_t version, struct sw_err *err) SW_MUST_CHECK;
/* Waits until all parameters of a net are at `version`. */
int sw_bp_collect_all(struct sw_worker *w, int split, uint64_t version,
                      struct sw_err *err) SW_MUST_CHECK;

/* results.c */
/* Names for a net's results (loss, accuracy, accuracy.top5 ...) and room for the pairs of so many
 * nets. Errors: SW_ERR_INVALID with a message in the recipe (too many, or two of one name),
 * SW_ERR_NOMEM. */
int sw_series_init(struct sw_series *s, struct sw_recipe *recipe, const struct sw_net *net,
                   int parts, struct sw_err *err) SW_MUST_CHECK;
void sw_series_fini(struct sw_series *s); /* a zeroed one is accepted */
/* Losses and some metrics get better by getting smaller. */
bool sw_series_less_is_better(const struct sw_net *net, const struct sw_series *s, int i);
void sw_series_clear(struct sw_series *s); /* sums become zero */
/* The pairs of the part's last forward pass are added to its s->sums. */
void sw_results_add(const struct sw_net *net, struct sw_series *s, int part);
/* s->totals becomes the sum over the worker's own parts. */
void sw_results_sum_own(struct sw_series *s);
/* The weighted sum of all losses that these pairs say, NaN where they say nothing. */
double sw_results_loss(const struct sw_net *net, const struct sw_result *pairs);
/* All values that these pairs say; *count of them. */
void sw_results_read(const struct sw_net *net, const struct sw_series *s,
                     const struct sw_result *pairs, struct sw_job_metric *out, int *count);

/* evaluate.c */
/* One pass over the evaluation source with the values as they are. */
int sw_evaluate_pass(struct sw_worker *w, struct sw_err *err) SW_MUST_CHECK;

/* outputs.c. plan after the evaluation nets are built, allocate before workers run; then every
 * worker calls, in an evaluation: begin; per batch collect after each layer's forward and hand_over
 * when the batch is computed; end, with what became of the evaluation. */
int sw_outputs_plan(struct sw_job *job, struct sw_err *err) SW_MUST_CHECK;
int sw_outputs_allocate(struct sw_job *job, struct sw_err *err) SW_MUST_CHECK;
void sw_outputs_fini(struct sw_job *job);
int sw_outputs_begin(struct sw_worker *w, struct sw_err *err) SW_MUST_CHECK;
int sw_outputs_collect(struct sw_worker *w, int layer, int64_t batch,
                       struct sw_err *err) SW_MUST_CHECK;
int sw_outputs_hand_over(struct sw_worker *w, int64_t batch, struct sw_err *err) SW_MUST_CHECK;
int sw_outputs_end(struct sw_worker *w, int rc, struct sw_err *err) SW_MUST_CHECK;

/* waits.c */
/* On whom a unit waits that cannot go on before that one does; -1: on nobody, or there is nobody to
 * blame. slots: those of all units. why (may be NULL) is what that one has not done. */
int sw_waits_on(const struct sw_job *job, const struct sw_slot_state *slots, int unit, char *why,
                size_t bytes);
/* "backward of conv2, step 7, on sim:0". */
void sw_waits_place(const struct sw_job *job, const struct sw_slot_state *slots, int unit,
                    char *out, size_t bytes);

/* run.c: units that have a slot in the live snapshot. */
int sw_job_slots(const struct sw_job *job);

/* watch.c */
/* Starts the thread; the snapshot is there. sw_watch_end is due afterwards in any case. */
int sw_watch_start(struct sw_job *job, struct sw_err *err) SW_MUST_CHECK;
void sw_watch_end(struct sw_job *job); /* after all other roles; none started is fine */

/* Starts the thread that writes into the history how processor and GPUs do. */
int sw_sense_start(struct sw_job *job, struct sw_err *err) SW_MUST_CHECK;
void sw_sense_end(struct sw_job *job); /* before the history's end; not started is fine */

/* requests.c */
/* Answers a line of the control socket (history/control.h). */
void sw_request_answer(void *job, const char *line, char *answer, size_t bytes);
int sw_gate_init(struct sw_job *job, struct sw_err *err) SW_MUST_CHECK;
void sw_gate_fini(struct sw_job *job);
/* One part of a pause after step t, by a worker whose updates are all applied; again until *over.
 * *checkpoint: the leader is to write one now. *stop: the run is to end here; the same answer for
 * all. Errors: SW_ERR_CANCELLED. */
int sw_gate_wait(struct sw_worker *w, bool *over, bool *checkpoint, bool *stop,
                 struct sw_err *err) SW_MUST_CHECK;

/* server.c */
/* Handles what is in the inboxes of the servers that a worker runs itself; never waits. */
int sw_server_poll(struct sw_worker *host, struct sw_err *err) SW_MUST_CHECK;
void sw_server_main(void *server);

/* notes.c */
/* Hands an event to the main thread; a display is dropped when it is slow. text may be NULL. */
void sw_job_note(struct sw_job *job, const struct sw_job_event *e, const char *text);
void sw_job_note_ended(struct sw_job *job);
/* An event for the history, the log and the observer. */
void sw_job_say(struct sw_job *job, enum sw_log_level level, const char *source, const char *fmt,
                ...) SW_PRINTF(4, 5);
/* The same from a thread that knows the step only from the live snapshot. */
void sw_job_say_at(struct sw_job *job, int64_t step, enum sw_log_level level, const char *source,
                   const char *fmt, ...) SW_PRINTF(5, 6);
/* The same for a record that is passed over (a source's report_bad; user is the job), from any
 * thread. Without history it goes to the log. */
void sw_job_say_bad_record(void *user, const char *text);
/* How many different records were passed over so far. */
int64_t sw_job_skipped(const struct sw_job *job);

#endif
