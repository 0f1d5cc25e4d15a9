/* What kernels of every device read of the step they work for, and what a loss answers: plain data
 * that lies in device memory.
 *
 * Plans are compiled for a fixed number of rows: `batch` in training, `eval_batch` in evaluation.
 * Training batches are always full and run over the end of an epoch. The last evaluation batch is
 * padded; valid_rows says how many rows count. A layer that is not split by rows gets a struct in
 * which all rows of the worker group are its own. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* What a step's kernels read, in device memory: one struct per worker, written before the step
 * begins. Host code never reads it through the pointer that operations get. */
struct sw_step {
    uint64_t step; /* t-1 while the t-th update is computed: Philox counter and schedule index */
    int64_t first_row;        /* global index of the worker's row 0 in the batch */
    int64_t group_row;        /* the same of the group of workers that share its layers */
    int64_t valid_rows;       /* rows of the worker that count; the rest is padding */
    int64_t batch_valid_rows; /* the same of the whole batch, for layers that see all of it */
    bool sequences_begin;     /* no row goes on from where the step before left it */
    bool chains_begin;        /* the same of persistent Gibbs chains */
    bool pass_begins;         /* the first batch of an evaluation */
    float backward_scale;     /* 1 / global weight of the batch, times the loss scale */
};

/* What a loss or metric answers, in device memory: the sum over valid rows and how much weight
 * (rows) it stands for. */
struct sw_result {
    double sum, weight;
};
