/* How a worker gets its rows of the data. */
#pragma once

#include "data/prefetch.h"
#include "plan/topology.h"

struct sw_data_spec;
struct sw_input;
struct sw_section;
struct sw_source;
struct sw_worker;

/* The data sections, and their sources. */
struct sw_job_data {
    const struct sw_section *section[SW_SPLITS]; /* NULL: no such section */
    struct sw_source *source[SW_SPLITS];
    struct sw_data_spec *spec; /* owned: of the weights that the job reads; NULL: none */
};

/* The batches of a worker. */
struct sw_worker_batches {
    struct sw_prefetch *prefetch[SW_SPLITS];
    struct sw_reading {
        struct sw_worker *worker;
        int first, count; /* slots of its threads in the live snapshot */
    } reading[SW_SPLITS];
    struct sw_input *input; /* owned; NULL where the device uses host memory */
    struct sw_batch ahead;  /* the next step's batch, which is being uploaded */
    bool is_ahead;          /* `ahead` is valid */
};

/* Number of evaluation batches of the worker's group. */
int64_t sw_worker_eval_batches(const struct sw_worker *w);
int sw_worker_start_prefetch(struct sw_worker *w, int split, struct sw_err *err) SW_MUST_CHECK;
/* sw_prefetch_next; meanwhile the live snapshot shows the wait. */
int sw_worker_next_batch(struct sw_worker *w, int split, struct sw_batch *batch,
                         struct sw_err *err) SW_MUST_CHECK;
/* Whether the worker's device finishes the training images itself (kernels/ops/pixels.h). */
bool sw_worker_reads_pixels(const struct sw_worker *w);
void sw_worker_prefetch_args(const struct sw_worker *w, int split, struct sw_prefetch_args *args);
