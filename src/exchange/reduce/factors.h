/* Exchange of gradient factors between devices (sufficient factor broadcasting: Xie et al. 2015;
 * Poseidon 4.3.1). For a layer with x [rows, inputs] and dy [rows, outputs], every rank, on a
 * device of its own, computes its own rows and receives those of all others. The arrays belong to
 * this object. A rank calls sw_factors_push once the work that makes its rows is queued, and
 * sw_factors_take before it queues work that reads all rows; in between it computes. Every rank
 * does both once per layer and round, in this order.
 *
 * The last rank to push a layer, or one that is queueing then, queues the copies of all, on a
 * stream of each receiver; no host thread waits for a device. Nothing is computed, so all ranks
 * have the same bits.
 *
 * Thread rule: push, pull and the getters by any thread, for each rank by one at a time; close by
 * any; set_rows while no rank is between push and pull. */
#pragma once

#include "device/device.h"

struct sw_factors;

struct sw_factors_layer {
    int64_t steps, inputs, outputs; /* rows per row of the batch, and their widths */
};

struct sw_factors_args {
    struct sw_device *const *devices; /* [ranks], borrowed for its life */
    int ranks;                        /* at least 2 */
    int64_t batch_rows;
    const struct sw_factors_layer *layers; /* [count]; copied */
    int count;
};

/* Device memory of one rank. */
size_t sw_factors_bytes(const struct sw_factors_layer *layers, int count, int64_t batch_rows);
/* Makes the exchange. Call sw_factors_set_rows for every rank afterwards. Errors: SW_ERR_NOMEM,
 * those of the devices. */
int sw_factors_new(const struct sw_factors_args *args, struct sw_factors **out,
                   struct sw_err *err) SW_MUST_CHECK;
/* Call before the devices are closed, when no queued work reads the arrays any more. */
void sw_factors_free(struct sw_factors *f); /* NULL is accepted */
/* Sets the rows of a rank in a batch: [first, first + rows). */
void sw_factors_set_rows(struct sw_factors *f, int rank, int64_t first, int64_t rows);

/* A rank's arrays of a layer, all rows of the batch; 64-byte aligned. */
float *sw_factors_x(const struct sw_factors *f, int rank, int layer);
float *sw_factors_dy(const struct sw_factors *f, int rank, int layer);

/* The work queued on the stream so far completes the rank's rows for round `round` (1, 2, ...), and
 * is the last that reads the rows of the previous round. Errors: SW_ERR_CANCELLED, those of the
 * devices. */
int sw_factors_push(struct sw_factors *f, int rank, int layer, uint64_t round,
                    struct sw_stream *compute, struct sw_err *err) SW_MUST_CHECK;
/* Waits, at most timeout_ms, until all ranks have pushed the layer. SW_OK, SW_ERR_BUSY (timeout),
 * SW_ERR_CANCELLED. */
int sw_factors_wait(struct sw_factors *f, int layer, uint64_t round, int timeout_ms) SW_MUST_CHECK;
/* Call after the wait: work queued on the stream from here on reads all rows, and may overwrite the
 * rank's own. Errors: those of the devices. */
int sw_factors_take(struct sw_factors *f, int layer, struct sw_stream *compute,
                    struct sw_err *err) SW_MUST_CHECK;

/* Bytes that one rank sends to another in a round of all layers. */
int64_t sw_factors_round_bytes(const struct sw_factors *f, int from, int to);

/* Ends every wait; for sw_fault_attach. */
void sw_factors_close_v(void *factors);
