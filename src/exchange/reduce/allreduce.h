/* All-reduce: replaces the arrays of several ranks, each on a device of its own, by their sum on
 * every one. The arrays are buckets (exchange/reduce/buckets.h) in memory that belongs to the
 * all-reduce. A rank calls sw_allreduce_push once the work that makes a bucket is queued, and
 * sw_allreduce_take before it queues work that reads the bucket; in between it computes. Every rank
 * does both once per bucket and round, in this order.
 *
 * There are two backends behind one table: the devices' library (device/collective.h), and copies
 * between devices with sums on them. The last rank to push a bucket, or one that is queueing then,
 * queues the reduction for all ranks, on streams of the all-reduce, in the order of the buckets; no
 * host thread waits for a device. Sums by copies follow base/tree.h over the ranks and have the
 * bits that servers compute; a library has an order of its own, which changes with the number of
 * ranks.
 *
 * Thread rule: push, wait, take and the getters by any thread, for each rank by one at a time;
 * close by any. */
#pragma once

#include "device/device.h"

struct sw_allreduce;
struct sw_collective;

enum { SW_ALLREDUCE_RANKS = 16 };

struct sw_allreduce_args {
    struct sw_device *const *devices; /* [ranks], borrowed for its life */
    int ranks;                        /* 2 (with a library 1) to SW_ALLREDUCE_RANKS */
    struct sw_collective *library;    /* of these devices, borrowed for its life; NULL: copies */
    const int64_t *elements;          /* [buckets] */
    const int *order;                 /* [buckets]: the order of reduction; copied */
    int buckets;
    int first_ms; /* with a library: limit for its first sums, after which it is aborted */
    int loss_ms;  /* with members on other hosts: how long an error of the library waits for the
                     close, since it may be the loss of a host, which others name; 0: not at all */
};

/* Device memory of one rank: its buckets and, without a library, the stage for shards of other
 * ranks. */
size_t sw_allreduce_bytes(const int64_t *elements, int buckets, int ranks, bool by_library);
/* Makes an all-reduce and, with a library, its first sum. Errors: SW_ERR_INVALID (ranks);
 * SW_ERR_NOMEM; SW_ERR_LIBRARY: no first sum in time, and the devices are cancelled; those of the
 * devices. After an error of the first sum the library is aborted, and library->hanging is set if
 * it does not return. */
int sw_allreduce_new(const struct sw_allreduce_args *args, struct sw_allreduce **out,
                     struct sw_err *err) SW_MUST_CHECK;
/* Call before the devices are closed, when no queued work reads a bucket any more. */
void sw_allreduce_free(struct sw_allreduce *a); /* NULL is accepted */

/* The rank's array of a bucket; 64-byte aligned. */
float *sw_allreduce_bucket(const struct sw_allreduce *a, int rank, int bucket);

/* The work queued on the stream so far completes the rank's bucket for round `round` (1, 2, ...).
 * Errors: SW_ERR_CANCELLED, those of the devices. */
int sw_allreduce_push(struct sw_allreduce *a, int rank, int bucket, uint64_t round,
                      struct sw_stream *compute, struct sw_err *err) SW_MUST_CHECK;
/* Waits, at most timeout_ms, until all ranks have pushed the bucket. SW_OK, SW_ERR_BUSY (timeout),
 * SW_ERR_CANCELLED. */
int sw_allreduce_wait(struct sw_allreduce *a, int bucket, uint64_t round,
                      int timeout_ms) SW_MUST_CHECK;
/* Call after the wait: work queued on the stream from here on reads the sum, and may write the
 * bucket. Errors: those of the devices. */
int sw_allreduce_take(struct sw_allreduce *a, int rank, int bucket, struct sw_stream *compute,
                      struct sw_err *err) SW_MUST_CHECK;

/* Bytes that one rank sends to another in a round of all buckets; a library moves as many, but
 * perhaps through other ranks. */
int64_t sw_allreduce_round_bytes(const struct sw_allreduce *a, int from, int to);

/* Reports failures of sums in flight that no stream shows. By one thread at a time, which may be
 * any. Errors: those of the library. */
int sw_allreduce_check(struct sw_allreduce *a, struct sw_err *err) SW_MUST_CHECK;
/* With a library, once work behind the sums of a round has been waited for: are they right? Nothing
 * of a sum that an abort has ended may be used. Errors: SW_ERR_CANCELLED (closed), those of the
 * library. */
int sw_allreduce_verify(struct sw_allreduce *a, struct sw_err *err) SW_MUST_CHECK;
/* Ends every wait and aborts the library; for sw_fault_attach. */
void sw_allreduce_close_v(void *allreduce);
