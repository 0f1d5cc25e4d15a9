/* Where the members of a collective of simulated GPUs meet (collective.c): those of one host, or of
 * several hosts that are threads of this process and know the same id. A host that aborts is gone:
 * whoever needs it waits until it is itself aborted, as with NCCL. Internal to device/sim. */
#pragma once

#include "device/collective.h"
#include "device/sim/stream.h"

struct sw_sim_meeting;

/* A host, which has some of the members. */
struct sw_sim_meeting_host {
    struct sw_sim_meeting *meeting;   /* shared */
    struct sw_sim_event *gate;        /* owned: happens when all members have arrived */
    int first, ranks;                 /* numbers of its members */
    struct sw_sim_meeting_host *next; /* of the meeting; guarded by its lock */
};

/* What a member brings to an operation: constant between two barriers. */
struct sw_sim_meeting_member {
    struct sw_sim_device *device; /* constant */
    const struct sw_sim_meeting_host *host;
    float *x; /* the real address of the array that is being reduced */
    int64_t n;
};

int sw_sim_meeting_make_id(struct sw_collective_id *out, struct sw_err *err) SW_MUST_CHECK;
/* Errors: SW_ERR_UNSUPPORTED (another process made it). */
int sw_sim_meeting_accepts(const struct sw_collective_id *id, struct sw_err *err) SW_MUST_CHECK;
/* Waits until all members have come. Errors: as sw_collective_open. Call sw_sim_meeting_leave after
 * errors, too. */
int sw_sim_meeting_join(struct sw_sim_meeting_host *h, const struct sw_collective_args *args,
                        struct sw_err *err) SW_MUST_CHECK;
/* When no operation of the host runs any more. */
void sw_sim_meeting_leave(struct sw_sim_meeting_host *h);

int sw_sim_meeting_members(const struct sw_sim_meeting_host *h);
/* Member i of all, in the order of their numbers. */
const struct sw_sim_meeting_member *sw_sim_meeting_member(const struct sw_sim_meeting_host *h,
                                                          int i);

/* On the stream's thread of a member: brings its array, and waits until all members have done so.
 * Errors: SW_ERR_INVALID (different sizes), SW_ERR_CANCELLED (aborted, or the stream is
 * cancelled). */
int sw_sim_meeting_bring(struct sw_sim_meeting_host *h, int rank, struct sw_sim_stream *s, float *x,
                         int64_t n, struct sw_err *err) SW_MUST_CHECK;
/* Waits until all members have arrived here. Errors: SW_ERR_CANCELLED. */
int sw_sim_meeting_barrier(struct sw_sim_meeting_host *h, struct sw_sim_stream *s,
                           struct sw_err *err) SW_MUST_CHECK;
/* Between these two the arrays of all members stay readable. Errors: SW_ERR_CANCELLED. */
int sw_sim_meeting_begin_reading(struct sw_sim_meeting_host *h, struct sw_sim_stream *s,
                                 struct sw_err *err) SW_MUST_CHECK;
void sw_sim_meeting_end_reading(struct sw_sim_meeting_host *h);
/* The host takes part in nothing any more: returns when nobody reads its arrays. Any thread that
 * is not between begin and end of reading. */
void sw_sim_meeting_quit(struct sw_sim_meeting_host *h);
