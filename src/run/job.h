/* A job: a checked recipe, then a running training. The command line, the tests and a user's own
 * program stand on this header.
 *
 * A request to stop the process (base/stop.h) is one for every job: opening is abandoned, and a
 * running job takes the first one for SW_JOB_STOP and the second one for SW_JOB_ABORT.
 *
 * Thread rule: all functions by one thread (the job's main thread, which calls the observer), but
 * sw_job_request, which any thread or signal handler may call. */
#pragma once

#include "base/err.h"
#include "base/log.h"
#include "base/str.h"
#include "plan/comm.h"
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
struct sw_job_kept {
    int64_t step;
    const char *path, *checksum; /* checksum may be NULL: the file is then never removed */
};

struct sw_stage_names;

struct sw_job_options {
    const char *recipe_path;
    const char *const *sets; /* --set texts */
    int set_count;
    const char *device;    /* --device, or NULL */
    const char *framework; /* --framework, or NULL */
    const char *name;      /* --name, or NULL */
    const char *out_dir;   /* --out, or NULL */
    bool overwrite;        /* out_dir may hold another run's checkpoints; they are replaced */
    const char *db;        /* --db, or NULL */
    const char *init_from; /* checkpoint whose parameters are taken by name, or NULL */
    int64_t steps;         /* --steps; 0: as the recipe says. Never moves a schedule's horizon */
    bool steps_at_most;    /* it ends the run early, and never late */
    /* Of a recipe with stages: the one that is opened, alone. NULL: with `weights` the one that
     * they are of, or the last one; else the first, or that of the checkpoint to go on from, and
     * those behind it are looked at, too. */
    const char *stage;
    const char *weights;                  /* a checkpoint that will be read, or NULL */
    const struct sw_stage_names *earlier; /* for sw_job_open's own use, as the next two: */
    const struct sw_job *before;          /* of the same run: its machine, and what it has found out
                                             about the stages */
    const char *fallback;                 /* which data fall back, as the first stage found it */
    const char *command;                  /* the command line, for the history */
    struct sw_display_policy display;
    /* Goes on with a stored run from a checkpoint: recipe, overrides, fallback decision and folder
     * are the run's; recipe_path and init_from are not used. NULL: a new run. */
    const struct sw_run *resume;
    const char *resume_checkpoint;
    const struct sw_job_kept *kept; /* checkpoints of the run that are on disk */
    int kept_count;
    bool oversubscribe; /* --oversubscribe: workers may share cores */
    /* Opens neither devices nor data and builds nothing: of the plan there is afterwards what needs
     * none of them, and the job cannot run. GPUs are those of the map, whether or not there is
     * CUDA. */
    bool plan_units;
    const char *machine; /* with plan_units: another machine (sw_machine_from), or NULL */
    bool look;           /* the job will not run: ways between devices are not tried */
    bool one_worker;     /* whatever [cluster] says: for sw_job_evaluate (infer/evaluate_alone.h) */
    bool predict;        /* no data and no nets yet: for sw_job_predict (infer/predict.h) */
    int64_t trace_capacity; /* events kept by the trace; 0: none is made */
};

/* Reads and checks the recipe with the options that have a key; opens nothing else. *recipe is set
 * also with SW_ERR_INVALID when there are messages to show (sw_recipe_diags); *conf is owned by it.
 * Errors: SW_ERR_INVALID, SW_ERR_NOTFOUND, SW_ERR_IO, SW_ERR_NOMEM. */
int sw_job_read_recipe(const struct sw_job_options *options, struct sw_recipe **recipe,
                       const struct sw_job_conf **conf, struct sw_err *err) SW_MUST_CHECK;

/* Opens the recipe, checks it, opens the data, and builds the nets: shapes, plans, memory plan.
 * Nothing is written. On SW_ERR_INVALID from the recipe, `messages` holds all errors as text for
 * the user. Other errors: SW_ERR_NOTFOUND (files, checkpoint), SW_ERR_FORMAT (data), SW_ERR_NOMEM,
 * SW_ERR_UNSUPPORTED. Free with sw_job_close. */
int sw_job_open(const struct sw_job_options *options, struct sw_log *log, struct sw_job **out,
                struct sw_buf *messages, struct sw_err *err) SW_MUST_CHECK;
void sw_job_close(struct sw_job *job); /* NULL is accepted */

/* What `check` prints: known after sw_job_open, before any large memory is taken. First what one
 * worker of a group has of a layer. */
struct sw_job_share {
    char shape[64]; /* of its part of the output; "": it has none */
    int64_t params;
    size_t bytes; /* parameters, the output with its gradient, what backward needs */
    double flops; /* of one batch, both ways */
    int64_t sent_bytes;
};
/* What a connection moves in one pass, in values. */
struct sw_job_movement {
    const char *operation[2]; /* forward and backward; NULL: none */
    int64_t moved[2];         /* what leaves a worker */
    int64_t counted[2];       /* as the papers count: own shares, too */
};
struct sw_job_layer {
    const char *name, *type;
    int steps;        /* of an unrolled layer, of which this is the sum; 0: it is not unrolled */
    char range[80];   /* its name then: "gru@0..49"; shape and layout are those of a step */
    char shape[64];   /* of the output: "128x96x55x55" */
    char layout[128]; /* sw_desc_text */
    char choice[64];
    const char *algorithm; /* of the plan: choice, or NULL */
    const char *src;       /* as the recipe says, comma-separated */
    int reads[16];         /* rows of the list before it that it reads, connections too */
    int read_count;
    bool in_place, fused, handed; /* handed: read where another worker has it */
    const char *spread;           /* over the group: rows, columns, full, sums, one */
    const char *memory; /* of the output until backward: "repeated", "swapped"; "": it stays */
    bool train, eval;   /* which nets have it */
    int64_t params;
    size_t param_bytes, feature_bytes, gradient_bytes, saved_bytes, scratch_bytes;
    double flops_forward, flops_backward; /* of one batch */
    const struct sw_job_share *shares;    /* [group_size of the plan]; NULL with one worker */
    bool moves;                           /* it is a connection: */
    struct sw_job_movement movement;
    struct sw_job_comm comm;
};
/* What memory = fit:SIZE chose, over all workers, and what a step pays for it. */
struct sw_job_fit {
    int64_t budget_bytes; /* 0: no budget */
    size_t saved_bytes;   /* of arena */
    int repeated, swapped;
    double repeat_flops, repeat_bytes; /* computed again; read and written for that */
    size_t swap_bytes;                 /* copied to the host, and back; of its memory, too */
    bool may_swap;                     /* the devices have memory of their own */
};
/* Memory that a job takes. */
struct sw_job_bytes {
    size_t params;   /* values */
    size_t state;    /* gradients, updater state, running statistics */
    size_t arena;    /* features, gradients, scratch: shared by both nets */
    size_t batches;  /* prefetched ones, and rows on their way to output layers */
    size_t exchange; /* features under way between workers */
    size_t swapped;  /* features in host memory */
    size_t peak;     /* all of the above */
    size_t device;   /* of it, the most that one device with memory of its own holds; or 0 */
};

struct sw_job_plan {
    const char *name, *recipe, *device, *framework, *framework_reason;
    const char *stage; /* NULL: the recipe has none */
    int stage_index, stage_count;
    int64_t stage_from, stage_steps; /* the step behind which it begins; its length */
    const char *stages;              /* of a run: this and those to come, for people; "" none */
    char data[2][256];               /* training and evaluation source, for people; "" none */
    int group_size;                  /* workers that share the layers of a net */
    int layer_count;
    const struct sw_job_layer *layers;
    int64_t params, steps, batch, eval_batch; /* steps: where the run is to end */
    struct sw_job_bytes bytes;
    struct sw_job_fit fit;
    double flops_per_sample;
    int streams;           /* on which a worker's layers run: independent ones at the same time */
    const char *precision; /* of factors of products: fp32 */
    double loss_scale;     /* at the beginning; 0: none */
    int64_t loss_scale_every; /* good updates after which it doubles; 0: never */
    const struct sw_placement *placement;
    const struct sw_machine *machine;
    const char *fallback; /* announcement lines, or "" */
    const char *copy,
        *copy_why;          /* how gradients and values of devices travel; "": there are none */
    const char *sums;       /* who adds up gradients of several devices, or "": servers, as ever */
    bool comm_asked;        /* does the recipe say how gradients are exchanged? */
    const char *comm_notes; /* layers that do so otherwise than asked net-wide, or "" */
    const char *notes;      /* what the partitioner decided otherwise than asked net-wide, or "" */
};
const struct sw_job_plan *sw_job_plan(const struct sw_job *job);
const struct sw_recipe *sw_job_recipe(const struct sw_job *job);

/* Trains to the last step of the recipe, or of its stage (sw_job_next). Every role that was started
 * has ended when it returns. SW_OK: done. SW_ERR_CANCELLED: stopped by request; unless that came
 * before the first values were saved, a resumable checkpoint is on disk (exit 75). SW_ERR_DIVERGED:
 * a loss or gradient was not finite. Other codes: failed, the message names the role. `stuck` (may
 * be NULL) becomes true when a role did not end within 5 s of a failure: the process should leave
 * with _exit. */
int sw_job_run(struct sw_job *job, sw_job_observer *observer, void *user, bool *stuck,
               struct sw_err *err) SW_MUST_CHECK;

/* Does the run go on with another stage, after sw_job_run has returned SW_OK? */
bool sw_job_has_next(const struct sw_job *job);
/* Then this makes *job the job of that stage, of the same run, to be run like the first; the old
 * one is closed. Errors: those of sw_job_open; *job is then the old one, which has ended. */
int sw_job_next(struct sw_job **job, struct sw_buf *messages, struct sw_err *err) SW_MUST_CHECK;

void sw_job_request(struct sw_job *job, enum sw_job_request_kind what); /* async-signal-safe */
/* Is there a checkpoint from which the run can be resumed, its own or the one it began from? Asked
 * when sw_job_open, sw_job_run or sw_job_next has answered SW_ERR_CANCELLED. */
bool sw_job_resumable(const struct sw_job *job);

/* The trace of a run made with trace_capacity > 0, else NULL; read it after sw_job_run. */
const struct sw_trace *sw_job_trace(const struct sw_job *job);
