/* Shared by the files of the all-reduce: allreduce.c has creation, order and waits;
 * allreduce_copies.c and allreduce_library.c are the two backends that reduce a bucket.
 *
 * Events order what streams do with a bucket:
 *
 *     made[r]    on r's compute stream: its bucket is complete
 *     summed[r]  on r's all-reduce stream: its shard is the sum, and r reads no shards of others
 *                to reduce any more (copies)
 *     done[r]    on r's all-reduce stream: its bucket is the sum, and r reads no sums of others
 *                any more */
#pragma once

#include "device/collective.h"
#include "exchange/reduce/allreduce.h"
#include "exchange/reduce/rounds.h"
#include "thread/thread.h"

enum { SW_ALLREDUCE_ALIGN = 16 }; /* elements: 64 bytes */

struct sw_allreduce_backend {
    int min_ranks;
    /* Elements of the stage that a rank needs in addition to its buckets. */
    int64_t (*stage)(const int64_t *elements, int buckets, int ranks);
    /* Queues the reduction of a bucket that all ranks have pushed, for all of them. One rank at
     * a time calls it. */
    int (*queue)(struct sw_allreduce *a, int bucket, struct sw_err *err);
    /* Called before the first round, after all memory is allocated; or NULL. */
    int (*prepare)(struct sw_allreduce *a, int first_ms, struct sw_err *err);
    /* Can others still read a rank's bucket after its own `done`? */
    bool reads_others;
};
extern const struct sw_allreduce_backend sw_allreduce_copies, sw_allreduce_library;

struct sw_allreduce_passage {
    struct sw_event *made, *summed, *done; /* owned */
};

struct sw_allreduce_rank {
    struct sw_device *device;        /* borrowed */
    struct sw_stream *stream;        /* owned; used by the rank that queues */
    float *memory;                   /* owned: buckets, then the stage */
    struct sw_allreduce_passage *at; /* owned [buckets] */
};

struct sw_allreduce_bucket {
    int64_t elements, offset;
    bool is_complete; /* and not queued yet; used by the rank that queues, like `next` below */
};

struct sw_allreduce {
    const struct sw_allreduce_backend *backend;
    struct sw_collective *library;  /* borrowed; NULL: copies */
    struct sw_allreduce_rank *rank; /* owned [ranks] */
    int ranks;
    struct sw_allreduce_bucket *bucket; /* owned [buckets] */
    int *order;                         /* owned [buckets] */
    int buckets;
    int64_t stage_at;        /* elements: where the stage begins */
    int64_t shard_elements;  /* copies: elements of a rank's largest shard of a bucket */
    size_t bytes;            /* of a rank's memory */
    struct sw_rounds rounds; /* of the buckets; one rank at a time uses the streams */
    int next;                /* position in `order` of the next bucket to queue */
    int loss_ms;             /* struct sw_allreduce_args */
    int64_t failed_ns;       /* when the first error was found by a check; 0: none. By its caller */
};

/* The thread that makes the first sums of a library. */
struct sw_allreduce_first {
    struct sw_allreduce *a;
    struct sw_thread thread;
    int rc; /* result of the thread, like err */
    struct sw_err err;
};

/* The rank's array of a bucket. */
static inline float *sw_allreduce_place(const struct sw_allreduce *a, int rank, int bucket)
{
    return a->rank[rank].memory + a->bucket[bucket].offset;
}

static inline int64_t sw_allreduce_aligned(int64_t elements)
{
    return (elements + SW_ALLREDUCE_ALIGN - 1) / SW_ALLREDUCE_ALIGN * SW_ALLREDUCE_ALIGN;
}

/* allreduce_copies.c: the rank's shard of a bucket: whole lines, so that copies stay aligned. */
void sw_allreduce_shard(int64_t elements, int ranks, int r, int64_t *first, int64_t *count);
