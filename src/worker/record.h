/* Records steps and evaluations in the history. Called by the workers' threads. */
#pragma once

#include "history/history.h"
#include "plan/topology.h"
#include "worker/series.h"
#include "worker/worker_links.h"

struct sw_worker;

enum { SW_DECISION_PAIRS = 3 }; /* values of update control that are averaged over groups */

/* The norm of the gradients of a step, the mean over asynchronous groups. */
struct sw_norm {
    int64_t step;
    double value, of_made; /* of_made: mean over updates that were not dropped; NaN: none */
};

/* The newest values; written by one worker at a time, between steps. */
struct sw_job_metrics {
    struct sw_norm norm;
    struct sw_job_metric last[SW_SPLITS][SW_JOB_METRICS];
    int count[SW_SPLITS];
};

/* The curves of a worker in the history. */
struct sw_worker_curves {
    struct sw_history_producer *producer;
    int rate, speed;
    int norm;           /* -1: norms are not computed */
    int scale;          /* -1: no loss scale */
    int64_t norms_step; /* the last step whose norm is recorded */
};

/* A worker's handles in the history. */
struct sw_worker_record {
    int64_t first_step; /* updates done at the start of this run, or at the end of the warm-up */
    struct sw_series series[SW_SPLITS];
    struct sw_worker_curves curves;
    struct sw_worker_links links;
};

/* Records step w->step, which began at began_ns and ended at w->timer.charged_ns. Errors: those of
 * sums over hosts. */
int sw_record_step(struct sw_worker *w, int64_t began_ns, struct sw_err *err) SW_MUST_CHECK;
/* Records what the worker's server group sent to others since the last call; by its first worker.
 */
void sw_record_sync(struct sw_worker *w);
/* Records the norms of gradients that are known by now; by the first worker of an update group. */
void sw_record_norms(struct sw_worker *w);
void sw_record_layers(struct sw_worker *w);     /* mean times since the last call */
void sw_record_evaluation(struct sw_worker *w); /* by the leader */
/* Fills the fields that all events share. */
void sw_record_event(const struct sw_worker *w, int split, struct sw_job_event *e);
