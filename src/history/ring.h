/* A lock-free ring of fixed-size records from a training thread (the only producer) to the writer
 * thread (the only consumer). Nothing is allocated. The producer owns head, the consumer owns tail;
 * each publishes its own with release and reads the other's with acquire, so a record is complete
 * before it is seen and read before it is overwritten. Both have a copy of the other's index and
 * read the shared one only if the copy says full or empty. Internal to this folder.
 */
#pragma once

#include "history/history.h"
#include <stdatomic.h>

enum { SW_RING_RECORDS = 8192, SW_CACHE_LINE = 64 };

enum sw_record_kind { SW_RECORD_POINT, SW_RECORD_STEP_TIME, SW_RECORD_TRAFFIC };

struct sw_record {
    int32_t kind;
    int32_t handle; /* series, link, or worker */
    int64_t step;
    union {
        struct {
            double time, value;
        } point;
        struct {
            int64_t bytes;
            double ms;
        } traffic;
        struct {
            int32_t staleness;
            float ms[10]; /* in the order of struct sw_step_time */
        } step_time;
    };
};
_Static_assert(sizeof(struct sw_record) <= SW_CACHE_LINE, "a record is one cache line");

/* Head and tail are in separate cache lines, so that stores of one side do not invalidate the line
 * of the other. */
struct sw_history_producer {
    struct sw_history *history; /* borrowed; owns this ring */
    struct sw_history_producer *next;
    char pad0[SW_CACHE_LINE];
    atomic_size_t head;
    size_t known_tail; /* the producer's copy of tail */
    size_t gave_up_at; /* the tail at the last wait that timed out; SIZE_MAX: none */
    char pad1[SW_CACHE_LINE];
    atomic_size_t tail;
    char pad2[SW_CACHE_LINE];
    struct sw_record records[SW_RING_RECORDS];
};

/* Takes at most `room` records out of the ring; returns their number. Called by the consumer. */
size_t sw_ring_take(struct sw_history_producer *p, struct sw_record *out, size_t room);
