/* A job: a checked recipe, then a running training. The command line, the tests and users' own
 * programs are built on this header.
 *
 * A request to stop the process (base/stop.h) applies to every job: opening is abandoned, and a
 * running job treats the first one as SW_JOB_STOP and the second one as SW_JOB_ABORT.
 *
 * Thread rule: all functions by one thread (the job's main thread, which calls the observer),
 * except sw_job_request, which any thread or signal handler may call. */
#pragma once

#include "base/err.h"
#include "base/log.h"
#include "base/str.h"
#include "plan/job_exchange.h"
#include "run/plan_watch.h"
#include "worker/observer.h"
#include "worker/trace.h"
#include <stdbool.h>
#include <stdint.h>

struct sw_job;
struct sw_job_conf;
struct sw_machine;
struct sw_placement;
struct sw_recipe;

/* A checkpoint of a run that is resumed. */
struct sw_job_retained_checkpoint {
    int64_t step;
    const char *path, *checksum; /* checksum may be NULL: the file is then never removed */
};

struct sw_stage_names;
struct sw_fabric_clock;
struct sw_fabric_engine;
struct sw_hosts;
struct sw_launch;

/* A file of the job that this host has under another path than host 0. */
struct sw_job_copy {
    const char *of, *path;
};

/* The hosts that train a job together, one process on each (exchange/hosts/), and how this process
 * reaches the others. All borrowed for the life of the job. */
struct sw_job_hosts {
    const struct sw_hosts *list;
    const struct sw_fabric_engine *engine;
    const void *conf;                 /* of the engine */
    const unsigned char *key;         /* struct sw_fabric_args */
    bool share_machine;               /* several of them may be the same machine */
    const struct sw_job_copy *copies; /* [copy_count]: in place of files of init_from */
    int copy_count;
    const struct sw_fabric_clock *clock; /* of tests; NULL: the system's */
    struct sw_launch *launch;            /* the rest is of; NULL: the network is not measured */
};

/* A recipe that was read before: as sw_recipe_file, sw_recipe_text, sw_recipe_overrides and
 * sw_recipe_fallback give it. The last two may be NULL, as in struct sw_recipe_source. */
struct sw_job_told {
    const char *path, *text, *overrides, *fallback;
};

/* What the job of a later stage takes from those before it; internal to sw_job_open. */
struct sw_job_previous {
    const struct sw_stage_names *names;
    const struct sw_job *job; /* of the same run: its machine map, and the lengths of its stages */
    const char
        *fallback; /* data sections that use their fallback, as decided for the first stage */
};

/* A job that is opened for a planner (run/planning.h), and not run. */
struct sw_job_model {
    bool of_net;    /* with one_worker: of the net that is trained */
    bool of_memory; /* of what a plan needs: files of init_from may be missing */
    /* What memory = fit takes for the throughput of every worker's device, for a job with a plan
     * for another machine. Borrowed until the job is closed; NULL: that of the device. */
    const struct sw_device_throughput *rates;
};

struct sw_job_options {
    const char *recipe_path;
    const struct sw_job_told *told; /* in place of recipe_path; or NULL */
    const char *trained; /* a checkpoint whose recipe is used, in place of recipe_path; or NULL */
    const char *const *sets; /* --set texts */
    int set_count;
    const char *device;    /* --device, or NULL */
    const char *framework; /* --framework, or NULL */
    const char *name;      /* --name, or NULL */
    const char *out_dir;   /* --out, or NULL */
    bool overwrite;        /* out_dir may contain another run's checkpoints, which are replaced */
    const char *db;        /* --db, or NULL */
    const char *init_from; /* checkpoint whose parameters are loaded by name, or NULL */
    const char *reset;     /* --reset, layers separated by commas, or NULL */
    int64_t steps;         /* --steps; 0: as in the recipe. Never changes a schedule's horizon */
    bool steps_at_most;    /* `steps` can only shorten the run */
    /* For a recipe with stages: the only one to open. NULL: with `weights` the stage of that file,
     * or the last one; otherwise the first one or that of the checkpoint to resume, and later
     * stages are checked, too. */
    const char *stage;
    const char *eval_split; /* name of the data section to evaluate on; NULL: val if it exists, else
                               test */
    const char *eval_data;  /* a file or folder in place of those of the evaluation's data section,
                               all of whose records are used; or NULL */
    const char *weights;    /* a checkpoint that will be read, or NULL: its names of classes and
                               tokens replace those of the data */
    struct sw_job_previous previous;
    const char *command; /* the command line, for the history */
    struct sw_display_policy display;
    /* Resumes a stored run from a checkpoint: recipe, overrides, fallback decision and folder are
     * the run's; recipe_path and init_from are not used. NULL: a new run. */
    const struct sw_run *resume;
    const char *resume_checkpoint;
    const struct sw_job_retained_checkpoint *kept; /* checkpoints of the run that are on disk */
    int kept_count;
    const char *cores;  /* --cores, or NULL */
    bool oversubscribe; /* --oversubscribe: workers may share cores */
    /* Enters the job in the registry of this machine (machine/registry.h) until it is closed, and
     * takes cores and GPUs that no other run uses; it shares some only if too few are free. The
     * caller also calls sw_job_next while sw_job_has_next, since a request can release them. */
    bool reserve;
    /* With reserve: waits until the cores and GPUs of the job are free, the first run to arrive
     * first, and calls this whenever what it waits for changes. NULL: does not wait. */
    void (*on_wait)(void *user, const char *text);
    void *wait_user;
    /* Only places the roles: opens neither devices nor data and builds nothing; the job has the
     * part of the plan that needs none of them, and cannot run. GPUs are those of the machine map,
     * with or without CUDA. */
    bool only_placement;
    const char *machine; /* with only_placement: another machine (sw_machine_from), or NULL */
    bool no_probes;      /* the job will not run: links between devices are not tested */
    /* Ignores [cluster]: for sw_job_evaluate (infer/evaluate_alone.h). With weights that say all
     * about the training data only the data to evaluate on are opened. */
    bool one_worker;
    struct sw_job_model model;
    bool predict; /* no data and no nets yet: for sw_job_predict (infer/predict.h) */
    const struct sw_job_hosts *hosts; /* NULL: this is the only one */
    bool times_only;                  /* the run is to be timed: no evaluations, no checkpoints */
    int64_t trace_capacity;           /* events in the trace; 0: no trace */
};

/* Reads and checks the recipe with the options that have a key; opens nothing else. *recipe is set
 * also with SW_ERR_INVALID when there are messages to show (sw_recipe_diags); *conf is owned by it.
 * Errors: SW_ERR_INVALID, SW_ERR_NOTFOUND, SW_ERR_IO, SW_ERR_NOMEM. */
int sw_job_read_recipe(const struct sw_job_options *options, struct sw_recipe **recipe,
                       const struct sw_job_conf **conf, struct sw_err *err) SW_MUST_CHECK;
/* Checks that the recipe has the data section that --split names; NULL is accepted. Errors:
 * SW_ERR_INVALID. */
int sw_job_check_split(const struct sw_recipe *recipe, const char *split,
                       struct sw_err *err) SW_MUST_CHECK;

/* Opens the recipe, checks it, opens the data, and builds the nets: shapes, plans, memory plan.
 * Nothing is written. On SW_ERR_INVALID from the recipe, `messages` holds all errors as text for
 * the user. Other errors: SW_ERR_NOTFOUND (files, checkpoint), SW_ERR_FORMAT (data), SW_ERR_NOMEM,
 * SW_ERR_UNSUPPORTED. Free with sw_job_close. */
int sw_job_open(const struct sw_job_options *options, struct sw_log *log, struct sw_job **out,
                struct sw_bytes *messages, struct sw_err *err) SW_MUST_CHECK;
void sw_job_close(struct sw_job *job); /* NULL is accepted */

/* The plan that `check` prints: known after sw_job_open, before any large memory is allocated.
 * First the shard of a layer on one worker of a group. */
struct sw_job_shard {
    char shape[64]; /* of its part of the output; "": none */
    int64_t params;
    size_t bytes; /* parameters, the output with its gradient, what backward needs */
    double flops; /* of one batch, forward and backward */
    int64_t sent_bytes;
};
/* What a connection moves in one pass, in elements. */
struct sw_job_movement {
    const char *operation[2]; /* forward and backward; NULL: none */
    int64_t moved[2];         /* elements that leave a worker */
    int64_t counted[2];       /* as the papers count: including a worker's own shard */
};
struct sw_job_layer {
    const char *name, *type;
    int steps;      /* steps of an unrolled layer, whose sum this row is; 0: not unrolled */
    char range[80]; /* name of an unrolled layer: "gru@0..49"; shape and layout are those of a step
                     */
    char shape[64]; /* of the output: "128x96x55x55" */
    char layout[128]; /* sw_desc_text */
    char choice[64];
    const char *algorithm; /* of the plan: choice, or NULL */
    const char *src;       /* as in the recipe, comma-separated */
    int reads[16];         /* earlier rows that it reads, including connections */
    int read_count;
    bool in_place, fused, handed; /* handed: read in another worker's memory */
    const char *spread;           /* over the group: rows, columns, full, sums, one */
    const char *memory; /* residency of the output until backward: "repeated" (recomputed),
                           "swapped" (offloaded); "": it stays */
    bool train, eval;   /* the nets that have it */
    int64_t params;
    size_t param_bytes, feature_bytes, gradient_bytes, saved_bytes, scratch_bytes;
    double flops_forward, flops_backward; /* of one batch */
    const struct sw_job_shard *shards;    /* [group_size of the plan]; NULL with one worker */
    bool moves;                           /* it is a connection: */
    struct sw_job_movement movement;
    struct sw_job_exchange comm;
};
/* The choices of memory = fit:SIZE over all workers, and their cost per step. */
struct sw_job_fit {
    int64_t budget_bytes; /* 0: no budget */
    size_t saved_bytes;   /* of arena */
    int recomputed, offloaded;
    double recompute_flops,
        recompute_bytes; /* recomputation: operations, and bytes read and written */
    size_t
        offload_bytes; /* offloading: bytes copied to the host and back, and bytes of host memory */
    bool may_offload;  /* the devices have memory of their own */
};
/* Memory that a job takes. */
struct sw_job_bytes {
    size_t params;    /* values */
    size_t state;     /* gradients, updater state, running statistics */
    size_t arena;     /* activations, gradients, scratch: shared by both nets */
    size_t batches;   /* prefetched batches, and rows buffered for output layers */
    size_t exchange;  /* staging buffers of activations between workers */
    size_t offloaded; /* activations in host memory */
    size_t peak;      /* all of the above */
    size_t buffers;   /* of checkpoints, events, history and threads; not in peak */
    size_t device;    /* the largest part of it on one device with its own memory; or 0 */
};

struct sw_job_plan {
    const char *name, *recipe, *device, *framework, *framework_reason;
    const char *device_why; /* why auto is not every GPU; "": it is, or the device was requested */
    const char *limits;     /* what leaves the job less than the machine has; "": nothing */
    const char *stage;      /* NULL: the recipe has none */
    int stage_index, stage_count;
    int64_t stage_from, stage_steps; /* the step after which it begins; its length */
    const char *stages;              /* of a run: this stage and later ones, as text; "": none */
    char data[2][256];               /* training and evaluation source, as text; "": none */
    int group_size;                  /* workers that share the layers of a net */
    int layer_count;
    const struct sw_job_layer *layers;
    int64_t params, steps, batch, eval_batch; /* steps: where the run is to end */
    struct sw_job_bytes bytes;
    struct sw_job_fit fit;
    double flops_per_sample;
    int streams;              /* streams of a worker: independent layers run concurrently */
    const char *precision;    /* of the inputs of matrix products: fp32 */
    double loss_scale;        /* at the beginning; 0: none */
    int64_t loss_scale_every; /* good updates after which it doubles; 0: never */
    const struct sw_placement *placement;
    const struct sw_machine *machine;
    const char *fallback; /* announcement lines, or "" */
    bool synthetic[2];    /* the training and evaluation data replace missing files */
    const char *copy,
        *copy_why;          /* how gradients and values of devices are copied; "": no devices */
    const char *sums;       /* how gradients of several devices are reduced; "": by servers */
    bool comm_requested;    /* the recipe sets how gradients are exchanged */
    const char *comm_notes; /* lines: rates between hosts by which exchange modes were chosen, and
                               layers that deviate from the net-wide mode; or "" */
    const char *warnings;   /* lines: what the user should know before the training, or "" */
    const char *extension;  /* how `resume` trains further than the recipe: "--steps N" */
    const char *notes;      /* where the partitioner deviates from the net-wide setting, or "" */
};
const struct sw_job_plan *sw_job_plan(const struct sw_job *job);
/* A parallel plan that the settings of a job follow. */
struct sw_job_followed_plan {
    const char *json; /* for the history (recipes/planning.md); NULL: it has the plan already */
    struct sw_plan_times predicted; /* step_ms 0: unknown, and not compared with the run */
    /* Called by sw_job_run when the steps deviate from the prediction (run/plan_watch.h). Adds to
     * `text` what follows from it: "; the planner would ...". Returns whether another plan is ready
     * with which the run should go on after its next evaluation. NULL: nothing follows. */
    bool (*deviates)(void *user, const struct sw_job *job, const struct sw_plan_gap *gap,
                     struct sw_bytes *text);
    void *user; /* borrowed until the job is closed */
};
/* Before sw_job_run. The text is copied. Errors: SW_ERR_NOMEM. */
int sw_job_follow_plan(struct sw_job *job, const struct sw_job_followed_plan *plan,
                       struct sw_err *err) SW_MUST_CHECK;
double sw_job_predicted_ms(const struct sw_job *job); /* of a step; 0: it follows no plan */

/* After sw_job_run has returned SW_OK: has the job ended to go on under another plan? Then
 * sw_job_replan gives sw_job_next the plan, with all overrides of the recipe, one to a line, and
 * what an event says of it; the texts are copied. If no job can be opened with these, sw_job_next
 * reports why, and opens one with the old settings. Errors: SW_ERR_NOMEM. */
bool sw_job_replans(const struct sw_job *job);
int sw_job_replan(struct sw_job *job, const char *overrides, const char *what,
                  const struct sw_job_followed_plan *plan, struct sw_err *err) SW_MUST_CHECK;
int64_t sw_job_step(const struct sw_job *job); /* after sw_job_run: the last step */
const struct sw_recipe *sw_job_recipe(const struct sw_job *job);

/* Trains to the last step of the recipe, or of its stage (sw_job_next). All roles have ended when
 * it returns. SW_OK: done. SW_ERR_CANCELLED: stopped by request; unless the request came before the
 * first values were saved, a resumable checkpoint is on disk (exit 75). SW_ERR_DIVERGED: a loss or
 * gradient was not finite. Other codes: failed, the message names the role. `stuck` (may be NULL)
 * becomes true when a role did not end within 5 s of a failure: the process should then leave with
 * _exit. */
int sw_job_run(struct sw_job *job, sw_job_observer *observer, void *user, bool *stuck,
               struct sw_err *err) SW_MUST_CHECK;

/* Does the run continue, after sw_job_run has returned SW_OK: with another stage, after a request
 * to release its memory, or under another plan? */
bool sw_job_has_next(const struct sw_job *job);
/* Replaces *job by the job of the next stage of the same run, to be run like the first; the old job
 * is closed. If its memory is to be released, frees it, waits for the request to continue
 * (SW_ERR_CANCELLED: to stop), and opens the rest of the stage. Errors: those of sw_job_open; *job
 * is then still the old one, which has ended. */
int sw_job_next(struct sw_job **job, struct sw_bytes *messages, struct sw_err *err) SW_MUST_CHECK;

void sw_job_request(struct sw_job *job, enum sw_job_request_kind what); /* async-signal-safe */
/* Is there a checkpoint from which the run can be resumed, its own or the one that it started from?
 * Meaningful after sw_job_open, sw_job_run or sw_job_next has returned SW_ERR_CANCELLED. */
bool sw_job_resumable(const struct sw_job *job);

/* Bits of the hosts whose loss ended the job: sw_job_run has then returned SW_ERR_CANCELLED if a
 * checkpoint of the last complete step was written, else SW_ERR_LOST. */
uint64_t sw_job_lost_hosts(const struct sw_job *job);

/* The trace of a run made with trace_capacity > 0, else NULL; read it after sw_job_run. */
const struct sw_trace *sw_job_trace(const struct sw_job *job);
