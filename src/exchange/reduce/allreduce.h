/* All-reduce: arrays of several ranks, each on a device of its own, become their sum on every one.
 * The arrays are buckets (exchange/reduce/buckets.h) in memory that belongs to the all-reduce. A
 * rank gives a bucket when what makes it is queued, and takes it before it queues what reads it; in
 * between it computes. Every rank gives every bucket once per round, and takes it before it gives
 * it again.
 *
 * Whoever does the adding stands behind one table: the devices' library (device/collective.h), or
 * copies between devices and sums on them. The rank that is last to give a bucket queues all of it,
 * for all ranks, on streams of the all-reduce, in the order of the buckets; nobody waits for a
 * device. Sums by copies are those of base/tree.h over the ranks and have the bits that servers
 * compute; a library's order is its own, and another one for another number of ranks.
 *
 * Thread rule: give, take and the questions by any thread, each rank by one at a time; close by
 * any. */
#pragma once

#include "device/device.h"

struct sw_allreduce;
struct sw_collective;

enum { SW_ALLREDUCE_RANKS = 16 };

struct sw_allreduce_args {
    struct sw_device *const *devices; /* [ranks], borrowed for its life */
    int ranks;                        /* 2, with a library 1, to SW_ALLREDUCE_RANKS */
    struct sw_collective *library;    /* of these devices, borrowed for its life; NULL: copies */
    const int64_t *elements;          /* [buckets] */
    const int *order;                 /* [buckets]: in which they are added up; copied */
    int buckets;
    int first_ms; /* with a library: how long its first sums may take; then it is aborted */
};

/* Device memory of one rank: its buckets, and with copies parts of others' while they are added. */
size_t sw_allreduce_bytes(const int64_t *elements, int buckets, int ranks, bool by_library);
/* Errors: SW_ERR_INVALID (ranks), SW_ERR_NOMEM, SW_ERR_LIBRARY (no first sum in time: the devices
 * are cancelled, and where a thread still hangs in the library, that says so), those of the
 * devices. */
int sw_allreduce_new(const struct sw_allreduce_args *args, struct sw_allreduce **out,
                     struct sw_err *err) SW_MUST_CHECK;
/* Before the devices are closed, when nothing that reads a bucket runs any more. */
void sw_allreduce_free(struct sw_allreduce *a); /* NULL is accepted */

/* The rank's array of a bucket; 64-byte aligned. */
float *sw_allreduce_bucket(const struct sw_allreduce *a, int rank, int bucket);

/* What is queued on the stream so far completes the rank's bucket for round `round` (1, 2, ...).
 * Errors: SW_ERR_CANCELLED, those of the devices. */
int sw_allreduce_give(struct sw_allreduce *a, int rank, int bucket, uint64_t round,
                      struct sw_stream *compute, struct sw_err *err) SW_MUST_CHECK;
/* Waits, at most timeout_ms, until all ranks have given it. SW_OK, SW_ERR_BUSY (the time is over),
 * SW_ERR_CANCELLED. */
int sw_allreduce_wait(struct sw_allreduce *a, int bucket, uint64_t round,
                      int timeout_ms) SW_MUST_CHECK;
/* After that: what is queued on the stream from here on finds the sum, and may write the bucket.
 * Errors: those of the devices. */
int sw_allreduce_take(struct sw_allreduce *a, int rank, int bucket, struct sw_stream *compute,
                      struct sw_err *err) SW_MUST_CHECK;

/* Bytes that go from one rank to another in a round of all buckets; a library moves as many, but
 * perhaps by way of others. */
int64_t sw_allreduce_round_bytes(const struct sw_allreduce *a, int from, int to);

/* What went wrong with sums that are under way, and need not show in any stream. Any thread.
 * Errors: those of the library. */
int sw_allreduce_check(struct sw_allreduce *a, struct sw_err *err) SW_MUST_CHECK;
/* Ends every wait, and what the library does; for sw_fault_attach. */
void sw_allreduce_close_v(void *allreduce);
