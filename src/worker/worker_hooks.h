/* What a worker asks of the run that it works for: checkpoints, and what only the whole job can do.
 * The run sets the table before its workers are made. `run` is the first argument of all functions.
 * The leader (the first worker) calls them between two steps, while the others wait, but for what
 * says otherwise. */
#pragma once

#include "base/err.h"
#include <stdbool.h>
#include <stdint.h>

struct sw_parts;
struct sw_worker;

struct sw_worker_hooks {
    /* Parameters and states get the values that the job begins with, before the first step. */
    int (*load_first_values)(void *run, struct sw_err *err);

    /* Writes a checkpoint of the step that the leader has made. */
    int (*write_checkpoint)(void *run, struct sw_err *err);
    /* Has that step a checkpoint already? */
    bool (*has_checkpoint)(void *run, int64_t step);
    /* The step of the newest checkpoint; and back to its values. */
    int64_t (*newest_checkpoint)(void *run);
    int (*roll_back)(void *run, struct sw_err *err);

    /* The evaluation after that step is over. */
    void (*note_evaluation)(void *run, int64_t step);
    /* Was it better than that of the best checkpoint? */
    bool (*is_best)(void *run, int64_t step);

    /* The warm-up is over: what the updater of the first server group keeps becomes that of the
     * others, whose workers begin now. */
    void (*end_warmup)(void *run);
    /* That step is the last one of the job. */
    void (*end_job)(void *run, int64_t step);

    /* By all workers: gives them rows of the batch by their speed. */
    int (*rebalance)(void *run, struct sw_worker *w, struct sw_err *err);
    /* Makes nets that are to replace the worker's training nets fit into what its arena may take.
     * Errors: SW_ERR_NOMEM. */
    int (*fit)(void *run, const struct sw_worker *w, struct sw_parts *fresh, struct sw_err *err);
};
