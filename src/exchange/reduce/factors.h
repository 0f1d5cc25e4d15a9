/* Factors of gradients between devices (sufficient factor broadcasting: Xie et al. 2015; Poseidon
 * 4.3.1): of a layer with x [rows, inputs] and dy [rows, outputs] every rank, on a device of its
 * own, makes the rows that are its own, and gets all others'. The arrays belong to this. A rank
 * gives a layer when what makes its rows is queued, and takes it before it queues what reads all of
 * them; in between it computes. Every rank gives every layer once per round, and takes it before it
 * gives it again.
 *
 * The rank that is last to give a layer queues the copies of all, on a stream of each receiver;
 * nobody waits for a device. Nothing is computed, so that all ranks have the same bits.
 *
 * Thread rule: give, take and the questions by any thread, each rank by one at a time; close by
 * any; set_rows while no rank is between give and take. */
#pragma once

#include "device/device.h"

struct sw_factors;

struct sw_factors_layer {
    int64_t steps, inputs, outputs; /* rows that a row of the batch has, and their sizes */
};

struct sw_factors_args {
    struct sw_device *const *devices; /* [ranks], borrowed for its life */
    int ranks;                        /* 2 at least */
    int64_t batch_rows;
    const struct sw_factors_layer *layers; /* [count]; copied */
    int count;
};

/* Device memory of one rank. */
size_t sw_factors_bytes(const struct sw_factors_layer *layers, int count, int64_t batch_rows);
/* Errors: SW_ERR_NOMEM, those of the devices. Then set_rows is due. */
int sw_factors_new(const struct sw_factors_args *args, struct sw_factors **out,
                   struct sw_err *err) SW_MUST_CHECK;
/* Before the devices are closed, when nothing that reads the arrays runs any more. */
void sw_factors_free(struct sw_factors *f); /* NULL is accepted */
/* Which rows of a batch are whose: of rank r those from first[r] on, rows[r] of them. */
void sw_factors_set_rows(struct sw_factors *f, int rank, int64_t first, int64_t rows);

/* A rank's arrays of a layer, all rows of the batch; 64-byte aligned. */
float *sw_factors_x(const struct sw_factors *f, int rank, int layer);
float *sw_factors_dy(const struct sw_factors *f, int rank, int layer);

/* What is queued on the stream so far completes the rank's rows for round `round` (1, 2, ...), and
 * is the last that reads the rows of the round before. Errors: SW_ERR_CANCELLED, those of the
 * devices. */
int sw_factors_give(struct sw_factors *f, int rank, int layer, uint64_t round,
                    struct sw_stream *compute, struct sw_err *err) SW_MUST_CHECK;
/* Waits, at most timeout_ms, until all ranks have given it. SW_OK, SW_ERR_BUSY (the time is over),
 * SW_ERR_CANCELLED. */
int sw_factors_wait(struct sw_factors *f, int layer, uint64_t round, int timeout_ms) SW_MUST_CHECK;
/* After that: what is queued on the stream from here on finds all rows, and may write the rank's
 * own ones anew. Errors: those of the devices. */
int sw_factors_take(struct sw_factors *f, int layer, struct sw_stream *compute,
                    struct sw_err *err) SW_MUST_CHECK;

/* Bytes that go from one rank to another in a round of all layers. */
int64_t sw_factors_round_bytes(const struct sw_factors *f, int from, int to);

/* Ends every wait; for sw_fault_attach. */
void sw_factors_close_v(void *factors);
