/* Callbacks from workers to the run: checkpoints, and what only the whole job can do. The run sets
 * the table before its workers are made. `run` is the first argument of all functions. The leader
 * (the first worker) calls them between two steps, while the others wait, except for what says
 * otherwise. */
#pragma once

#include "base/err.h"
#include <stdbool.h>
#include <stdint.h>

struct sw_microbatches;
struct sw_worker;

struct sw_worker_hooks {
    /* Sets parameters and buffers to the values that the job begins with, before the first step. */
    int (*load_first_values)(void *run, struct sw_err *err);

    /* Writes a checkpoint of the step that the leader has made. */
    int (*write_checkpoint)(void *run, struct sw_err *err);
    /* Does that step have a checkpoint already? */
    bool (*has_checkpoint)(void *run, int64_t step);
    /* The step of the newest checkpoint; and restoring its values. */
    int64_t (*newest_checkpoint)(void *run);
    int (*roll_back)(void *run, struct sw_err *err);

    /* Called after the evaluation of that step. */
    void (*note_evaluation)(void *run, int64_t step);
    /* Was the evaluation of that step better than that of the best checkpoint? */
    bool (*is_best)(void *run, int64_t step);
    /* Called by all workers between that and the next evaluation: does the job end here by
     * job.patience? report: record it as an event. */
    bool (*is_out_of_patience)(void *run, int64_t step, bool report);

    /* Asynchronous groups have ended a step. Are all replicas of the parameters ready to be merged,
     * with no change of a value on its way? By any worker, repeatedly; never waits. */
    bool (*is_quiet)(void *run);
    /* Then: all replicas become equal. Errors: those of a lost host. */
    int (*merge)(void *run, int64_t step, struct sw_err *err);
    /* All have the first values, or everything that needed equal values is done: waits for the
     * other hosts, and the replicas go on. Errors: those of a lost host. */
    int (*resume)(void *run, struct sw_err *err);
    /* All hosts get the running statistics of the first; a job on one host does nothing. */
    int (*share_state)(void *run, struct sw_err *err);

    /* The warm-up is over: copies the updater state of the first server group to the others, whose
     * workers begin now. */
    void (*end_warmup)(void *run);
    /* Called for the last step of the job. */
    void (*end_job)(void *run, int64_t step);
    /* Then, before its checkpoint is written, when all updates are applied: with job.patience, the
     * parameters of the best evaluation replace those of this step. */
    int (*restore_best)(void *run, int64_t step, struct sw_err *err);

    /* Called by all workers: distributes the rows of the batch by their speed. */
    int (*rebalance)(void *run, struct sw_worker *w, struct sw_err *err);
    /* Makes new training nets for the worker fit into the limit of its arena. Errors: SW_ERR_NOMEM.
     */
    int (*fit)(void *run, const struct sw_worker *w, struct sw_microbatches *fresh,
               struct sw_err *err);
};
