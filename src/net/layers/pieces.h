/* The exchange of features as bridges see it: pieces of connections that workers send and take. One
 * for the nets of all workers (net/transfer.c makes it); what is marked and counted is atomic. */
#pragma once

#include "net/transfer.h"

enum { SW_TRANSFER_TURNS = 4, SW_TRANSFER_MOMENTS = 3 }; /* two turns of each direction */

struct sw_transfer {
    int workers, connections;
    struct sw_device *host; /* borrowed */
    char *memory;           /* owned; between devices */
    size_t bytes;
    size_t *at;  /* owned [connections][workers][workers][SW_TRANSFER_TURNS]: offsets */
    int64_t *ns; /* owned [workers][workers], atomic: of copies */
    /* Owned [connections][workers][workers][2: forward, backward], atomic: pieces so far. */
    uint64_t *sent, *taken;
    void **parts; /* owned [connections][workers][2]: written before pieces are marked as sent */
    /* Between devices, owned as what is in them:
     * [connections][workers][SW_TRANSFER_TURNS][SW_TRANSFER_MOMENTS], and [workers]. */
    struct sw_event **events;
    struct sw_stream **senders; /* each packs pieces beside the stream that computes */
    struct sw_stream **streams; /* owned [workers], each borrowed: those that compute */
    struct sw_transfer_waits waits;
};

/* Places in `at`, whose half are those in `sent` and `taken`, and in `events`. */
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

/* What one worker sends to another through a connection in the passes of one direction. */
struct sw_piece {
    int connection, from, to;
    bool backward;
};
/* Between devices: staging memory of the piece, for every other pass. */
char *sw_transfer_stage(const struct sw_transfer *e, const struct sw_piece *p, int turn);
/* What is recorded: a worker's part is made, it has packed all pieces, it has taken all. */
enum sw_transfer_moment { SW_TRANSFER_MADE, SW_TRANSFER_SENT, SW_TRANSFER_TAKEN };
struct sw_event *sw_transfer_event(const struct sw_transfer *e, int connection, int worker,
                                   bool backward, int turn, enum sw_transfer_moment moment);
/* Where a worker's part lies, from which others take their pieces on the host. */
void sw_transfer_publish(const struct sw_transfer *e, int connection, int worker, bool backward,
                         void *part);
char *sw_transfer_part(const struct sw_transfer *e, int connection, int worker, bool backward);
/* Wait until the piece has been sent, or taken, so many times. SW_OK, SW_ERR_CANCELLED. */
int sw_transfer_wait_sent(const struct sw_transfer *e, const struct sw_piece *p,
                          uint64_t times) SW_MUST_CHECK;
int sw_transfer_wait_taken(const struct sw_transfer *e, const struct sw_piece *p,
                           uint64_t times) SW_MUST_CHECK;
bool sw_transfer_is_sent(const struct sw_transfer *e, const struct sw_piece *p, uint64_t times);
bool sw_transfer_is_taken(const struct sw_transfer *e, const struct sw_piece *p, uint64_t times);
/* The piece has been sent once more, or taken. Whoever waits hears of it by waits.tell. Any
 * thread. */
void sw_transfer_mark(const struct sw_transfer *e, const struct sw_piece *p, bool taken);
void sw_transfer_add_ns(const struct sw_transfer *e, int from, int to, int64_t ns);
