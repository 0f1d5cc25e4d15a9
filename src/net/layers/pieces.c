/* State of the exchange of activations (net/transfer.h): addresses, events and counters of sent and
 * received pieces, and waiting for them. */
#include "net/layers/pieces.h"

char *sw_transfer_stage(const struct sw_transfer *e, const struct sw_piece *p, int turn)
{
    return e->memory +
           e->at[sw_transfer_index(e, p->connection, p->from, p->to, (p->backward ? 2 : 0) + turn)];
}

struct sw_event *sw_transfer_event(const struct sw_transfer *e, int connection, int worker,
                                   bool backward, int turn, enum sw_transfer_moment moment)
{
    return e->events[sw_transfer_event_index(e, connection, worker, (backward ? 2 : 0) + turn) +
                     moment];
}

static void **part_of(const struct sw_transfer *e, int connection, int worker, bool backward)
{
    return &e->parts[((size_t)connection * (size_t)e->workers + (size_t)worker) * 2 + backward];
}

void sw_transfer_publish(const struct sw_transfer *e, int connection, int worker, bool backward,
                         void *part)
{
    __atomic_store_n(part_of(e, connection, worker, backward), part, __ATOMIC_RELAXED);
}

char *sw_transfer_part(const struct sw_transfer *e, int connection, int worker, bool backward)
{
    return __atomic_load_n(part_of(e, connection, worker, backward), __ATOMIC_RELAXED);
}

void sw_transfer_add_ns(const struct sw_transfer *e, int from, int to, int64_t ns)
{
    __atomic_add_fetch(&e->ns[from * e->workers + to], ns, __ATOMIC_RELAXED);
}

int64_t sw_transfer_ns(const struct sw_transfer *e, int from, int to)
{
    return __atomic_load_n(&e->ns[from * e->workers + to], __ATOMIC_RELAXED);
}

static size_t count_of(const struct sw_transfer *e, const struct sw_piece *p)
{
    size_t i = (size_t)p->connection * (size_t)e->workers + (size_t)p->from;
    return (i * (size_t)e->workers + (size_t)p->to) * 2 + (size_t)p->backward;
}

struct least {
    const uint64_t *count;
    uint64_t least;
};

static bool is_reached(const void *what)
{
    const struct least *l = what;
    return __atomic_load_n(l->count, __ATOMIC_ACQUIRE) >= l->least;
}

static int wait_for(const struct sw_transfer *e, int worker, const uint64_t *count, uint64_t least)
{
    struct least what = {count, least};
    return is_reached(&what) ? SW_OK : e->waits.wait(e->waits.user, worker, is_reached, &what);
}

bool sw_transfer_is_sent(const struct sw_transfer *e, const struct sw_piece *p, uint64_t times)
{
    return is_reached(&(struct least){&e->sent[count_of(e, p)], times});
}

bool sw_transfer_is_taken(const struct sw_transfer *e, const struct sw_piece *p, uint64_t times)
{
    return is_reached(&(struct least){&e->taken[count_of(e, p)], times});
}

int sw_transfer_wait_sent(const struct sw_transfer *e, const struct sw_piece *p, uint64_t times)
{
    return wait_for(e, p->to, &e->sent[count_of(e, p)], times);
}

int sw_transfer_wait_taken(const struct sw_transfer *e, const struct sw_piece *p, uint64_t times)
{
    return wait_for(e, p->from, &e->taken[count_of(e, p)], times);
}

void sw_transfer_mark(const struct sw_transfer *e, const struct sw_piece *p, bool taken)
{
    __atomic_add_fetch(&(taken ? e->taken : e->sent)[count_of(e, p)], 1, __ATOMIC_RELEASE);
}
