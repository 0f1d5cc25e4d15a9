/* Detects missing waits (data races): two operations of different streams that access the same
 * memory, at least one of them writing, without an order between them. It checks what is queued,
 * not what happens to run first, so an error is found every time and not only when a copy is late.
 *
 * Every stream is a lane, whose operations are numbered as they are queued. The clock of a stream
 * has, for each other lane, the last operation that comes before an event that the stream has
 * waited for; new operations of the stream are ordered after its clock. Operations that the host
 * has waited for come before everything (struct sw_sim_lane, known). Host functions
 * (sw_stream_call) order nothing: code that reacts to one must also wait for an event, which costs
 * nothing if that has already happened.
 *
 * Each device has a list of ranges with their last writer and the readers since then. There is one
 * more for the host memory that copies touch, shared by the devices of a job (sw_sim_join);
 * accesses of host code there are not seen.
 *
 * These are the vector clocks of race detectors (Lamport, "Time, clocks, and the ordering of events
 * in a distributed system", 1978; Fidge 1988). Thread rule: a clock belongs to the owner of a
 * stream or is guarded by the lock of an event; lanes are shared and reference-counted; uses have a
 * lock of their own, under which no other lock is taken. */
#pragma once

#include "base/err.h"
#include "thread/atomic.h"
#include "thread/thread.h"

struct sw_sim_stream;
struct sw_sim_op;

/* ---- Order ---- */

/* One per stream; reference-counted, since it is needed as long as a clock or an access refers to
 * its operations. */
struct sw_sim_lane {
    int owners;     /* atomic */
    uint64_t known; /* atomic: the host has waited for its operations up to this one */
    char
        device[16]; /* for messages, as is the name of the stream; set before the first operation */
    char name[24];
};

/* NULL: out of memory. */
struct sw_sim_lane *sw_sim_lane_new(const char *device);
void sw_sim_lane_drop(struct sw_sim_lane *lane); /* NULL is accepted */
void sw_sim_lane_name(struct sw_sim_lane *lane, const char *name);
/* sw_sim_lane_know: the host has waited for the operations of the lane up to `upto`;
 * sw_sim_lane_known returns the latest such operation. */
void sw_sim_lane_know(struct sw_sim_lane *lane, uint64_t upto);
uint64_t sw_sim_lane_known(const struct sw_sim_lane *lane);

/* A position in the order: for each lane, all operations up to one. A zeroed clock is the start. */
struct sw_sim_tick {
    struct sw_sim_lane *lane; /* counted */
    uint64_t upto;
};
struct sw_sim_clock {
    struct sw_sim_tick *ticks; /* owned */
    int count;
    int64_t room;
};

/* Adds the operations of the lane up to `upto` to the clock. Errors: SW_ERR_NOMEM. */
int sw_sim_clock_add(struct sw_sim_clock *c, struct sw_sim_lane *lane, uint64_t upto,
                     struct sw_err *err) SW_MUST_CHECK;
int sw_sim_clock_merge(struct sw_sim_clock *c, const struct sw_sim_clock *other,
                       struct sw_err *err) SW_MUST_CHECK;
void sw_sim_clock_clear(struct sw_sim_clock *c); /* resets to the start, keeps the memory */
void sw_sim_clock_fini(struct sw_sim_clock *c);
/* The lane's latest operation that comes before the clock, or that the host has waited for. */
uint64_t sw_sim_clock_of(const struct sw_sim_clock *c, const struct sw_sim_lane *lane);
/* Records that the host has waited for all operations in the clock. */
void sw_sim_clock_know(const struct sw_sim_clock *c);

/* ---- Uses ---- */

enum { SW_SIM_READERS = 6 }; /* readers stored per range; the newest replace the oldest */

/* An access of an operation to memory. */
struct sw_sim_use {
    struct sw_sim_lane *lane; /* counted; NULL: none */
    uint64_t number;          /* number of the operation */
    size_t from, to;          /* offsets in device memory, or addresses of host memory */
    size_t pitch, width;      /* strided: only `width` bytes of every pitch; 0: all bytes */
    const char *name, *of;    /* "copy", NULL; "forward", "convolution": static */
};

/* Copies the use with a reference to its lane; the old value is released. */
void sw_sim_use_set(struct sw_sim_use *u, const struct sw_sim_use *from);

struct sw_sim_range {
    size_t from, to;
    struct sw_sim_use write, read[SW_SIM_READERS];
};

struct sw_sim_uses {
    struct sw_mutex lock;
    struct sw_sim_range *range; /* owned, ascending, disjoint */
    int count, room;
};

void sw_sim_uses_init(struct sw_sim_uses *u);
void sw_sim_uses_fini(struct sw_sim_uses *u);

/* Checks that the next operation of the stream is ordered after all conflicting accesses, and
 * records its accesses. Errors: SW_ERR_INVALID naming both operations, the memory and the streams;
 * SW_ERR_NOMEM. */
int sw_sim_race_check(struct sw_sim_stream *s, const struct sw_sim_op *op,
                      struct sw_err *err) SW_MUST_CHECK;

/* Drops the accesses to an allocation [from, to) that is freed. Errors: SW_ERR_INVALID if an
 * operation that the host has not waited for accesses it; *lane, borrowed, is the lane of that
 * operation. */
int sw_sim_race_free(struct sw_sim_uses *u, size_t from, size_t to, const char *what,
                     const struct sw_sim_lane **lane, struct sw_err *err) SW_MUST_CHECK;
