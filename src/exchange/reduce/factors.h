/* Exchange of gradient factors between devices (sufficient factor broadcasting: Xie et al. 2015;
 * Poseidon 4.3.1). For a layer with x [rows, inputs] and dy [rows, outputs], every rank, on a
 * device of its own, computes its own rows and receives those of all others. The arrays belong to
 * this object. A rank calls sw_factors_push once the work that makes its rows is queued, and
 * sw_factors_next and sw_factors_take before it queues work that reads the rows of an update; in
 * between it computes. Every rank pushes once per layer and round.
 *
 * Ranks whose rows make one update are a group. With one group every round is one update. Several
 * groups go on at their own pace, at most `staleness` rounds ahead of the slowest, and every round
 * of every group is an update of its own. The updates of a layer have one order, in which they were
 * completed, and all ranks make them in this order: their values are therefore the same, whatever
 * the updater, as soon as they have made equally many. To have round t, the ranks of a group make
 * all updates up to their own one of round t and those of round t - staleness of all other groups,
 * and no more, so that they read the same values.
 *
 * The last rank of a group to push a layer, or one that is queueing then, queues the copies to all
 * ranks, on a stream of each receiver; no host thread waits for a device. Nothing is computed, so
 * all ranks have the same bits.
 *
 * A rank has one array for the rows of its own group, and a ring of 2 * staleness + 2 arrays for
 * each other group, which is enough: a group pushes round t + 1 after all others have pushed round
 * t - staleness, for which they had to make its update of round t - 2 * staleness - 1.
 *
 * Thread rule: push, next, take and the getters by any thread, for each rank by one at a time;
 * close by any; set_rows while no rank is between push and take. */
#pragma once

#include "device/device.h"

struct sw_factors;

struct sw_factors_layer {
    int64_t steps, inputs, outputs; /* rows per row of the batch, and their widths */
};

struct sw_factors_args {
    struct sw_device *const *devices; /* [ranks], borrowed for its life */
    int ranks;                        /* at least 2 */
    int groups;         /* of equal size, in rank order; with one, rounds are synchronous */
    int64_t staleness;  /* of several groups; at least 1 */
    int64_t batch_rows; /* of a group */
    const struct sw_factors_layer *layers; /* [count]; copied */
    int count;
};

/* Device memory of one rank; devices and ranks are not read. */
size_t sw_factors_bytes(const struct sw_factors_args *args);
/* The most updates of all groups that a rank has yet to make at any time. */
int64_t sw_factors_most_updates(int groups, int64_t staleness);
/* Makes the exchange. Call sw_factors_set_rows for every rank afterwards. Errors: SW_ERR_NOMEM,
 * those of the devices. */
int sw_factors_new(const struct sw_factors_args *args, struct sw_factors **out,
                   struct sw_err *err) SW_MUST_CHECK;
/* Call before the devices are closed, when no queued work reads the arrays any more. */
void sw_factors_free(struct sw_factors *f); /* NULL is accepted */
/* Sets the rows of a rank in its group's batch: [first, first + rows). */
void sw_factors_set_rows(struct sw_factors *f, int rank, int64_t first, int64_t rows);

/* A rank's arrays of a layer, all rows of its group's batch; 64-byte aligned. */
float *sw_factors_x(const struct sw_factors *f, int rank, int layer);
float *sw_factors_dy(const struct sw_factors *f, int rank, int layer);

/* The work queued on the stream so far completes the rank's rows for round `round` (1, 2, ...), and
 * is the last that reads the group's rows of the previous round. Errors: SW_ERR_CANCELLED, those of
 * the devices. */
int sw_factors_push(struct sw_factors *f, int rank, int layer, uint64_t round,
                    struct sw_stream *compute, struct sw_err *err) SW_MUST_CHECK;
/* Waits, at most timeout_ms per group, until the updates that the rank needs to have that round are
 * complete; or those of that round of all groups. SW_OK, SW_ERR_BUSY (timeout), SW_ERR_CANCELLED.
 */
int sw_factors_wait(struct sw_factors *f, int rank, int layer, uint64_t round,
                    int timeout_ms) SW_MUST_CHECK;
int sw_factors_wait_all(struct sw_factors *f, int layer, uint64_t round,
                        int timeout_ms) SW_MUST_CHECK;

/* An update of a layer's parameters: its rows, where a rank reads them, and its place. */
struct sw_factors_update {
    int group;
    uint64_t round;
    uint64_t before; /* updates of all groups that precede it */
    const float *x, *dy;
};
/* A layer's parameters count their updates separately. */
enum sw_factors_reader { SW_FACTORS_WEIGHT, SW_FACTORS_BIAS, SW_FACTORS_READERS };

/* Call after the wait: fills *out with the next update that the rank has to make to have that
 * round; false: it has it. With `all` every update that is complete. */
bool sw_factors_next(struct sw_factors *f, int rank, int layer, enum sw_factors_reader reader,
                     uint64_t round, bool all, struct sw_factors_update *out);
/* Are there complete updates that the rank has not taken? */
bool sw_factors_is_behind(struct sw_factors *f, int rank, int layer, enum sw_factors_reader reader);
/* Work queued on the stream from here on reads the rows of the update and, if it is of the rank's
 * group, may overwrite the rank's own. Errors: those of the devices. */
int sw_factors_take(struct sw_factors *f, int rank, int layer, const struct sw_factors_update *u,
                    struct sw_stream *compute, struct sw_err *err) SW_MUST_CHECK;
/* The work queued on the stream so far is the last that reads these rows. */
int sw_factors_release(struct sw_factors *f, int rank, int layer, const struct sw_factors_update *u,
                       struct sw_stream *compute, struct sw_err *err) SW_MUST_CHECK;
/* By how many rounds the rank's group is ahead of the slowest one in the updates that were taken
 * with sw_factors_next. */
int64_t sw_factors_lag(const struct sw_factors *f, int rank, int layer,
                       enum sw_factors_reader reader);

/* Bytes that one rank sends to another in a round of all layers. */
int64_t sw_factors_round_bytes(const struct sw_factors *f, int from, int to);

/* Ends every wait; for sw_fault_attach. */
void sw_factors_close_v(void *factors);
