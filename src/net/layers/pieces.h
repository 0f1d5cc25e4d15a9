/* The exchange of activations as bridges see it: the pieces of connections that workers send and
 * receive. One object for the nets of all workers (net/transfer.c makes it); marks and counters are
 * atomic. */
#pragma once

#include "net/transfer.h"

enum { SW_TRANSFER_TURNS = 4, SW_TRANSFER_MOMENTS = 3 }; /* two buffers for each direction */

struct sw_transfer {
    int workers, connections;
    struct sw_device *host; /* borrowed */
    char *memory;           /* owned; staging memory between devices */
    size_t bytes;
    size_t *at;  /* owned [connections][workers][workers][SW_TRANSFER_TURNS]: offsets */
    int64_t *ns; /* owned [workers][workers], atomic: total time of copies */
    /* Owned [connections][workers][workers][2: forward, backward], atomic: number of pieces so far.
     */
    uint64_t *sent, *taken;
    void **parts; /* owned [connections][workers][2]: published shards, written before pieces are
                     marked as sent */
    /* Between devices, owned with their elements:
     * [connections][workers][SW_TRANSFER_TURNS][SW_TRANSFER_MOMENTS], and [workers]. */
    struct sw_event **events;
    struct sw_stream **senders; /* each packs pieces concurrently with the compute stream */
    struct sw_stream **streams; /* owned [workers], each borrowed: the compute streams */
    struct sw_transfer_waits waits;
};

/* Indices into `at` (divide by SW_TRANSFER_TURNS / 2 for `sent` and `taken`) and into `events`. */
static inline size_t sw_transfer_index(const struct sw_transfer *e, int connection, int from,
                                       int to, int turn)
{
    size_t i = (size_t)connection * (size_t)e->workers + (size_t)from;
    return (i * (size_t)e->workers + (size_t)to) * SW_TRANSFER_TURNS + (size_t)turn;
}

static inline size_t sw_transfer_event_index(const struct sw_transfer *e, int connection,
                                             int worker, int turn)
{
    size_t i = (size_t)connection * (size_t)e->workers + (size_t)worker;
    return (i * SW_TRANSFER_TURNS + (size_t)turn) * SW_TRANSFER_MOMENTS;
}

/* Recorded events: a worker's shard is computed; it has packed all its pieces; it has received all
 * its pieces. */
enum sw_transfer_moment { SW_TRANSFER_MADE, SW_TRANSFER_SENT, SW_TRANSFER_TAKEN };

/* The data that one worker sends to another through a connection in the passes of one direction. */
struct sw_piece {
    int connection, from, to;
    bool backward;
};
