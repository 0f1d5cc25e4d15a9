/* Shared by the files of the exchange of factors: factors_new.c makes it, factors.c queues copies
 * and counts updates. */
#pragma once

#include "exchange/reduce/factors.h"
#include "exchange/reduce/rounds.h"

struct sw_factors_events {
    struct sw_event *arrived, *used; /* owned */
};

/* What a rank has read of a layer's updates. */
struct sw_factors_progress {
    uint64_t updates; /* of all groups */
    uint64_t *rounds; /* owned [groups] */
};

struct sw_factors_rank {
    struct sw_device *device;           /* borrowed */
    struct sw_stream *stream;           /* owned; used by the rank that queues */
    float *memory;                      /* owned */
    struct sw_event **made;             /* owned [layers] */
    struct sw_factors_events *at;       /* owned [layers][arrays] */
    struct sw_factors_progress *reader; /* owned [layers][readers] */
    int64_t first, rows;                /* of its group's batch */
};

struct sw_factors_entry {
    int group;
    uint64_t round;
};

struct sw_factors_layer_state {
    struct sw_factors_layer shape;
    int64_t at, elements, dy_at; /* the first array of a rank, their size, and dy in each */
    uint64_t *rounds; /* owned [groups]: of the copies that are queued; by the rank that queues */
    struct sw_factors_entry *log; /* owned ring [log_entries]: updates in their order */
    uint64_t updates;             /* complete; under the lock, as the log */
};

struct sw_factors {
    struct sw_factors_rank *rank; /* owned [ranks] */
    int ranks, groups, group_size;
    int64_t staleness;
    int depth;  /* arrays of a rank for each other group */
    int arrays; /* of a layer at a rank */
    int64_t log_entries;
    struct sw_factors_layer_state *layer; /* owned [count] */
    int count;
    size_t bytes;            /* of a rank's memory */
    struct sw_rounds rounds; /* of [layers][groups]; one rank at a time uses the streams */
    struct sw_mutex lock;    /* guards the logs */
};
