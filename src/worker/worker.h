/* A worker: its type, which the files that make and use its parts share, and its loop. Parts that a
 * single file maintains are in that file's header. One owner: the worker's thread once it runs,
 * except for what says otherwise.
 *
 * With --device cuda+cpu the first workers have devices and the others compute on cores; all use
 * the parameter layouts of worker 0's plans. So whether a worker has a second stream, device memory
 * for parameters, or batches in flight follows from its own device's host_memory, never from the
 * job. */
#pragma once

#include "net/microbatches.h"
#include "plan/choices.h"
#include "plan/row_split.h"
#include "recipe/job.h"
#include "thread/fault.h"
#include "thread/thread.h"
#include "worker/buffers.h"
#include "worker/events.h"
#include "worker/flight.h"
#include "worker/gate.h"
#include "worker/group.h"
#include "worker/ledger.h"
#include "worker/nonfinite.h"
#include "worker/outputs.h"
#include "worker/record.h"
#include "worker/server.h"
#include "worker/span.h"
#include "worker/stop_at.h"
#include "worker/trace.h"
#include "worker/worker_data.h"
#include "worker/worker_hooks.h"
#include "worker/worker_place.h"

struct sw_segments;
struct sw_slot;

/* The servers that a worker runs itself. */
struct sw_worker_served {
    int *ranks; /* owned: server ranks in its table */
    int count;
};

/* Failures that did not end the run. */
struct sw_worker_failures {
    int skips; /* skipped updates in a row, of its update group; only of the group's first worker */
    int checkpoints; /* that could not be written */
};

/* How a worker has ended, if it has. */
struct sw_worker_end {
    bool over;    /* at the last step, or by stop_at or patience */
    bool stopped; /* by request, with a checkpoint, before the last step */
};

/* Memory of a worker's nets. */
struct sw_worker_arena {
    void *memory; /* owned device memory */
    size_t bytes;
    size_t budget;   /* limit from memory = fit; 0: none */
    void *offloaded; /* owned host memory: activations that are not on the device */
    size_t offloaded_bytes;
};

/* What the workers of a job share. All borrowed. */
struct sw_worker_shared {
    struct sw_recipe *recipe; /* errors are added to it before the run */
    const struct sw_job_conf *conf;
    const struct sw_job_place *place;
    const struct sw_job_span *span;
    const struct sw_job_data *data;
    const struct sw_display_policy *display;
    struct sw_worker *workers; /* the first one leads */
    struct sw_server *servers;
    struct sw_job_groups *groups;
    const struct sw_job_params *params;
    struct sw_exchange_plan *exchange_plan;
    struct sw_job_state *state;
    struct sw_outputs *outputs;
    struct sw_job_metrics *metrics;
    const struct sw_stop_rules *stops;
    struct sw_nonfinite *nonfinite;
    struct sw_requests *requests;
    struct sw_events *events;
    struct sw_trace *trace;      /* NULL: not requested */
    struct sw_queue *breakdowns; /* of struct sw_step_breakdown, each of which is dropped when it is
                                    full; NULL: nobody reads them */
    struct sw_fault *fault;
    const struct sw_worker_hooks *hooks;
    void *run;         /* their first argument */
    bool one_worker;   /* the job only evaluates, without a training net */
    bool any_location; /* layers may have locations on workers that the job does not have */
    bool rebalances;   /* rows of the batch are rebalanced by speed */
    bool returns;      /* the job can return to the end of its last complete step, in host memory */
};

struct sw_worker {
    struct sw_worker_shared shared;
    const struct sw_topology *topology; /* borrowed: the job's */
    const struct sw_rank *rank;         /* borrowed */
    const struct sw_row_split *rows;    /* borrowed: the job's */
    struct sw_group *group;             /* borrowed: its worker group */
    struct sw_table *table;             /* borrowed: its server group's */
    char role[32];
    struct sw_thread thread;
    struct sw_device *device;      /* owned unless it is the host */
    struct sw_stream *stream;      /* owned */
    struct sw_stream *host_stream; /* owned; for work on host memory; NULL: use `stream` */
    struct sw_exchange *exchange;  /* owned */
    struct sw_microbatches
        *microbatches[SW_SPLITS]; /* owned; its nets. NULL without evaluation data */
    struct sw_segments *segments; /* owned: of a training step */
    struct sw_net *train, *eval;  /* borrowed: the first net of each, for everything that does not
                                     depend on the microbatch */
    int *param_of[SW_SPLITS];     /* owned: table index of each parameter of a net */
    int *completed_by; /* owned [parameters of the table]: the layer whose backward completes the
                          gradient; -1: not a parameter of this worker */
    struct sw_worker_arena arena;
    struct sw_worker_state state;
    struct sw_worker_batches batches;
    struct sw_flight flight;
    struct sw_worker_served served;
    struct sw_pace pace;
    struct sw_slot *slot;
    struct sw_worker_record record;
    struct sw_step_timer timer;
    int64_t step; /* updates done: the last step that is finished (flight.h) */
    struct sw_worker_failures failures;
    struct sw_worker_end end;
};

/* Number of rows of a training or an evaluation batch that the worker has now. */
static inline int64_t sw_worker_rows(const struct sw_worker *w, int split)
{
    return sw_row_split_count(w->rows, w->rank, split);
}

static inline int64_t sw_worker_first_row(const struct sw_worker *w, int split)
{
    return sw_row_split_first(w->rows, w->rank, split);
}

/* The stream for work on host memory, such as the parameter table. */
static inline struct sw_stream *sw_worker_host_stream(const struct sw_worker *w)
{
    return w->host_stream ? w->host_stream : w->stream;
}

/* Is the worker the first one of its update group? */
static inline bool sw_worker_leads(const struct sw_worker *w)
{
    return w->rank->global_rank % w->topology->update_group_size == 0;
}

void sw_worker_main(void *worker);
