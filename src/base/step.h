/* What kernels of every device read about the current step, and what a loss returns: plain data in
 * device memory. Plans are compiled for a fixed number of rows: `batch` in training, `eval_batch`
 * in evaluation. Training batches are always full and may continue over the end of an epoch. The
 * last evaluation batch is padded; valid_rows is the number of rows that count. A layer that is not
 * split by rows gets a struct in which all rows of the worker group are its own. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Input of the kernels of a step, in device memory: one struct per worker, written before the step
 * begins. Host code never reads it through the pointer that operations get. */
struct sw_step {
    uint64_t step; /* t-1 while the t-th update is computed: Philox counter and schedule index */
    int64_t first_row;  /* global index of the worker's row 0 in the batch */
    int64_t group_row;  /* global index in the batch of row 0 of the worker's group, over which
                           layers are partitioned */
    int64_t valid_rows; /* rows of the worker that count; the rest is padding */
    int64_t batch_valid_rows; /* rows of the whole batch that count, for layers that get all of its
                                 rows */
    bool sequences_begin;     /* every row resets its recurrent state */
    bool chains_begin;        /* persistent Gibbs chains are reset */
    bool pass_begins;         /* the first batch of an evaluation */
    float backward_scale;     /* 1 / global weight of the batch, times the loss scale */
};

/* Output of a loss or metric, in device memory: the sum over valid rows and its weight (number of
 * rows). */
struct sw_result {
    double sum, weight;
};
