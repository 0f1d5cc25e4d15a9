/* Finds missing waits: two operations of different streams that touch the same memory of a device,
 * one of them writing, without an order between them. It checks what is queued and not what happens
 * to run first, so an error is found every time and not only when a copy is late.
 *
 * Every stream is a lane, whose operations are numbered as they are queued. The operations of a
 * stream are ordered after the clock of the stream: for each other lane, the last operation that
 * comes before an event that the stream waits for. What the host has waited for comes before
 * everything (struct sw_sim_lane, known). Host functions (sw_stream_call) order nothing: code that
 * acts on one must also wait for an event, which costs nothing once that has happened.
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

/* One per stream; lives as long as anybody remembers its operations. */
struct sw_sim_lane {
    int owners;      /* atomic */
    uint64_t known;  /* atomic: the host has waited for its operations up to this one */
    char device[16]; /* in messages, as the name of the stream; set before the first operation */
    char name[24];
};

/* NULL when memory is exhausted. */
struct sw_sim_lane *sw_sim_lane_new(const char *device);
void sw_sim_lane_drop(struct sw_sim_lane *lane); /* NULL is accepted */
void sw_sim_lane_name(struct sw_sim_lane *lane, const char *name);
/* The host has waited for its operations up to this one; and the latest of those. */
void sw_sim_lane_know(struct sw_sim_lane *lane, uint64_t upto);
uint64_t sw_sim_lane_known(const struct sw_sim_lane *lane);

/* A place in the order: everything up to an operation of each lane. A zeroed one is the start. */
struct sw_sim_tick {
    struct sw_sim_lane *lane; /* counted */
    uint64_t upto;
};
struct sw_sim_clock {
    struct sw_sim_tick *ticks; /* owned */
    int count, room;
};

/* What is behind `upto` operations of the lane is behind the clock, too. Errors: SW_ERR_NOMEM. */
int sw_sim_clock_add(struct sw_sim_clock *c, struct sw_sim_lane *lane, uint64_t upto,
                     struct sw_err *err) SW_MUST_CHECK;
int sw_sim_clock_merge(struct sw_sim_clock *c, const struct sw_sim_clock *other,
                       struct sw_err *err) SW_MUST_CHECK;
void sw_sim_clock_clear(struct sw_sim_clock *c); /* to the start, with its room */
void sw_sim_clock_fini(struct sw_sim_clock *c);
/* The lane's latest operation that is behind the clock, or that the host has waited for. */
uint64_t sw_sim_clock_of(const struct sw_sim_clock *c, const struct sw_sim_lane *lane);
/* The host has waited for all that is behind it. */
void sw_sim_clock_know(const struct sw_sim_clock *c);

/* ---- Uses ---- */

enum { SW_SIM_READERS = 6 }; /* of a range that are remembered; the newest stay */

/* What an operation does with some memory. */
struct sw_sim_use {
    struct sw_sim_lane *lane; /* counted; NULL: none */
    uint64_t number;          /* the operation's */
    size_t from, to;          /* bytes of the device's memory; addresses of the host's */
    size_t pitch, width;      /* only these bytes of every pitch; 0: all */
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

/* Checks that the next operation of the stream is ordered after all that it conflicts with, and
 * records its accesses. Errors: SW_ERR_INVALID naming both operations, the memory and the streams;
 * SW_ERR_NOMEM. */
int sw_sim_race_check(struct sw_sim_stream *s, const struct sw_sim_op *op,
                      struct sw_err *err) SW_MUST_CHECK;

/* An allocation [from, to) is given back: SW_ERR_INVALID when an operation that the host has not
 * waited for touches it; *lane, borrowed, is that one's. Forgets it. */
int sw_sim_race_free(struct sw_sim_uses *u, size_t from, size_t to, const char *what,
                     const struct sw_sim_lane **lane, struct sw_err *err) SW_MUST_CHECK;
