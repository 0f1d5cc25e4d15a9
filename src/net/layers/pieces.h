/* The exchange of features as bridges see it: pieces of connections that workers send and take. One
 * for the nets of all workers (net/exchange.c makes it); what is marked and counted is atomic. */
#pragma once

#include "net/exchange.h"

enum { SW_EXCHANGE_TURNS = 4, SW_EXCHANGE_MOMENTS = 3 }; /* two turns of each direction */

struct sw_exchange {
    int workers, connections;
    struct sw_device *host; /* borrowed */
    char *memory;           /* owned; between devices */
    size_t bytes;
    size_t *at;  /* owned [connections][workers][workers][SW_EXCHANGE_TURNS]: offsets */
    int64_t *ns; /* owned [workers][workers], atomic: of copies */
    /* Owned [connections][workers][workers][2: forward, backward], atomic: pieces so far. */
    uint64_t *sent, *taken;
    void **parts; /* owned [connections][workers][2]: written before pieces are marked as sent */
    /* Between devices, owned as what is in them:
     * [connections][workers][SW_EXCHANGE_TURNS][SW_EXCHANGE_MOMENTS], and [workers]. */
    struct sw_event **events;
    struct sw_stream **senders; /* each packs pieces beside the stream that computes */
    struct sw_stream **streams; /* owned [workers], each borrowed: those that compute */
    struct sw_exchange_waits waits;
};

/* Places in `at`, whose half are those in `sent` and `taken`, and in `events`. */
static inline size_t sw_exchange_index(const struct sw_exchange *e, int connection, int from,
                                       int to, int turn)
{
    size_t i = (size_t)connection * (size_t)e->workers + (size_t)from;
    return (i * (size_t)e->workers + (size_t)to) * SW_EXCHANGE_TURNS + (size_t)turn;
}

static inline size_t sw_exchange_event_index(const struct sw_exchange *e, int connection,
                                             int worker, int turn)
{
    size_t i = (size_t)connection * (size_t)e->workers + (size_t)worker;
    return (i * SW_EXCHANGE_TURNS + (size_t)turn) * SW_EXCHANGE_MOMENTS;
}

/* What one worker sends to another through a connection in the passes of one direction. */
struct sw_piece {
    int connection, from, to;
    bool backward;
};
/* Between devices: staging memory of the piece, for every other pass. */
char *sw_exchange_stage(const struct sw_exchange *e, const struct sw_piece *p, int turn);
/* What is recorded: a worker's part is made, it has packed all pieces, it has taken all. */
enum sw_exchange_moment { SW_EXCHANGE_MADE, SW_EXCHANGE_SENT, SW_EXCHANGE_TAKEN };
struct sw_event *sw_exchange_event(const struct sw_exchange *e, int connection, int worker,
                                   bool backward, int turn, enum sw_exchange_moment moment);
/* Where a worker's part lies, from which others take their pieces on the host. */
void sw_exchange_publish(const struct sw_exchange *e, int connection, int worker, bool backward,
                         void *part);
char *sw_exchange_part(const struct sw_exchange *e, int connection, int worker, bool backward);
/* Wait until the piece has been sent, or taken, so many times. SW_OK, SW_ERR_CANCELLED. */
int sw_exchange_wait_sent(const struct sw_exchange *e, const struct sw_piece *p,
                          uint64_t times) SW_MUST_CHECK;
int sw_exchange_wait_taken(const struct sw_exchange *e, const struct sw_piece *p,
                           uint64_t times) SW_MUST_CHECK;
bool sw_exchange_is_sent(const struct sw_exchange *e, const struct sw_piece *p, uint64_t times);
bool sw_exchange_is_taken(const struct sw_exchange *e, const struct sw_piece *p, uint64_t times);
/* The piece has been sent once more, or taken. Whoever waits hears of it by waits.tell. Any
 * thread. */
void sw_exchange_mark(const struct sw_exchange *e, const struct sw_piece *p, bool taken);
void sw_exchange_add_ns(const struct sw_exchange *e, int from, int to, int64_t ns);
