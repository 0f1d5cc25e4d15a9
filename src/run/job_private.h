/* The internals of a job: the parts of struct sw_job, most of which are declared in the header of
 * the file that maintains them, and the functions of job.c, which opens and closes it. Files that
 * need only one part include the header of that part.
 *
 * Threads of a running job: the main thread (run.c) starts the others, calls the observer, and
 * joins them in fixed order; the watchdog thread; one thread per worker; one per server that has
 * cores of its own (a server that shares its worker's cores is run by the worker between two
 * layers); the prefetch threads; the history writer. Everything in struct sw_job is frozen while
 * they run except for what says otherwise. */
#pragma once

#include "checkpoint/carried_over.h"
#include "checkpoint/init_from.h"
#include "checkpoint/retention.h"
#include "plan/choices.h"
#include "plan/row_split.h"
#include "recipe/job.h"
#include "run/job_data.h"
#include "run/job_hosts.h"
#include "run/job_params.h"
#include "run/job_roles.h"
#include "run/plan.h"
#include "run/replan.h"
#include "run/reserve.h"
#include "run/stages.h"
#include "run/throughput.h"
#include "thread/fault.h"
#include "worker/buffers.h"
#include "worker/events.h"
#include "worker/gate.h"
#include "worker/group.h"
#include "worker/nonfinite.h"
#include "worker/outputs.h"
#include "worker/record.h"
#include "worker/stop_at.h"

struct sw_sensors;
struct sw_server;
struct sw_monitor;
struct sw_worker;

/* The options of sw_job_open that the run or its next stage needs again. */
struct sw_run_options {
    char *name, *out_dir, *db, *command, *resume_checkpoint; /* owned or NULL */
    int64_t resume_run_id;                                   /* 0: a new run */
    int64_t resume_segments; /* segments of the run when its checkpoint was chosen */
    int64_t steps;           /* 0: as in the recipe */
    bool steps_at_most, oversubscribe, overwrite, reserve;
    bool evaluates; /* the job only evaluates, without a training net */
    struct sw_job_model model;
    char *eval_split;                 /* owned; the section to evaluate on, or NULL */
    const struct sw_job_hosts *hosts; /* borrowed; NULL: this is the only one */
    int64_t trace_capacity;
    struct sw_display_policy display;
};

/* The measured speed of the machine and of the workers, and what is chosen by it. */
struct sw_job_speed {
    struct sw_throughputs throughputs;
    struct sw_tune *tune;         /* owned; NULL: plans are chosen by rules */
    bool rebalances;              /* rows of the batch are rebalanced by speed */
    double (*row_ms)(int worker); /* time of a row on a worker, in tests; NULL: measured */
};

/* Values that come neither from an initializer nor from the resumed checkpoint. */
struct sw_job_initial {
    struct sw_init_from takes;
    struct sw_carried_over carried_over;
};

/* Monitoring. All owned. */
struct sw_job_monitor {
    struct sw_monitor *monitor_thread;
    struct sw_sensors *sensors; /* NULL: it does not run */
    struct sw_trace *trace;     /* NULL: not requested */
};

struct sw_job {
    struct sw_recipe *recipe;
    const struct sw_job_conf *conf; /* owned by the recipe */
    struct sw_run_options options;
    struct sw_job_span span;
    struct sw_job_stage stage;

    struct sw_job_place place;
    struct sw_job_reserve reserve;
    struct sw_topology *topology; /* owned; frozen */
    struct sw_row_split rows;     /* changes only while all workers wait */
    struct sw_worker *workers;    /* owned [workers]; the first one is the leader */
    struct sw_server *servers;    /* owned [servers] */
    struct sw_job_groups groups;

    struct sw_job_fabric hosts;
    struct sw_job_data data;
    struct sw_job_params params;
    struct sw_exchange_plan exchange;
    struct sw_job_speed speed;
    struct sw_job_state state;
    struct sw_job_initial initial;
    struct sw_outputs outputs;
    struct sw_nonfinite nonfinite;
    struct sw_stop_rules stops;
    struct sw_job_metrics metrics;
    struct sw_retention retention; /* used by the leader */
    struct sw_job_plan plan;
    struct sw_job_report report;

    struct sw_events events;
    struct sw_requests requests;
    struct sw_fault fault;
    struct sw_job_monitor monitor;
    struct sw_job_following following;
};

/* Builds everything except where the job begins and ends. *out is set after errors, too, for the
 * recipe's diagnostics. */
int sw_job_build(const struct sw_job_options *o, struct sw_log *log, struct sw_job **out,
                 struct sw_err *err) SW_MUST_CHECK;
/* Completes the job, once the later stages are known. */
int sw_job_complete(struct sw_job *job, const struct sw_job_options *o,
                    struct sw_err *err) SW_MUST_CHECK;
/* Frees what computes and its memory, after sw_job_run; the rest of the job stays until it is
 * closed. */
void sw_job_drop(struct sw_job *job);
/* Builds the evaluation nets of all workers. */
int sw_job_build_eval(struct sw_job *job, struct sw_err *err) SW_MUST_CHECK;
/* Connects the nets of all workers for the exchange of activations. */
int sw_job_connect(struct sw_job *job, int split, struct sw_err *err) SW_MUST_CHECK;
