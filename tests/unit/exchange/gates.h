/* An engine around an engine, for tests: between each fabric and its real engine there is a gate
 * that can hold what passes, break connections in the middle of a chunk, and counts what is under
 * way. The fabrics get a virtual clock, which moves when a test says so and waits at each step
 * until all that was sent has arrived: so no case depends on the speed of the machine. */
#pragma once

#include "exchange/hosts/fabric.h"
#include "thread/thread.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GATES = 4 };

struct gates;

/* Between the fabric and the engine of one host; the fabric's engine conf and link. */
struct gate {
    struct gates *net;
    int host;
    struct sw_fabric_clock clock;
    struct sw_fabric_wire wire;      /* the engine's */
    const struct sw_fabric_wire *up; /* the fabric's; NULL: not open */
    void *link;                      /* the engine's; NULL: not open yet */
    bool came, held, stopped, killed, closing;
    int users; /* threads that use `up` or `link` and are no threads of the engine */
    int64_t tick_ns, chunks;
    /* By the other host: */
    bool dropped[GATES], ended_reading[GATES], cut[GATES];
    int64_t pushed[GATES], told[GATES], arrived[GATES]; /* chunks; told: as sent */
};

struct gates_conf {
    const struct sw_fabric_engine *engine;
    const void *conf; /* the engine's */
    int hosts, connect_ms;
    int64_t kill_chunk; /* of the last host: from and to it, from 1; 0: never */
    const int64_t *skew_ns;
};

struct gates {
    struct gates_conf conf;
    struct sw_mutex lock; /* guards all below, and all gates */
    struct sw_cond changed;
    int64_t now_ns;
    struct gate gate[GATES];
};

/* ---- Clocks ---- */

static inline int64_t gate_monotonic_ns(void *gate)
{
    struct gates *n = ((struct gate *)gate)->net;
    sw_mutex_lock(&n->lock);
    int64_t now_ns = n->now_ns;
    sw_mutex_unlock(&n->lock);
    return now_ns;
}

static inline int64_t gate_wall_ns(void *gate)
{
    const struct gate *g = gate;
    const int64_t *skew_ns = g->net->conf.skew_ns;
    return 1700000000000000000 + gate_monotonic_ns(gate) + (skew_ns ? skew_ns[g->host] : 0);
}

/* ---- Between fabric and engine ---- */

static inline bool gate_is_held(const struct gate *g, int other)
{
    const struct gate *o = &g->net->gate[other];
    return g->held || g->stopped || o->held || o->stopped;
}

static inline bool gate_is_over(const struct gate *g, int other)
{
    return g->closing || g->dropped[other];
}

/* With the lock: waits until the gate is open; false: the connection is over. */
static inline bool gate_pass(struct gate *g, int other)
{
    while (gate_is_held(g, other) && !gate_is_over(g, other))
        sw_cond_wait(&g->net->changed, &g->net->lock);
    return !gate_is_over(g, other);
}

/* With the lock, which it releases: a process that ends. Its connections break, and so that the
 * test can see that all is told it hears of it, too. */
static inline void gate_kill(struct gates *n, struct gate *g)
{
    g->killed = true;
    if (!g->link || g->closing)
        return; /* gate_open goes on, or the host ends anyway */
    g->users++;
    for (int i = 0; i < n->conf.hosts; i++) {
        struct sw_err why;
        if (i == g->host || g->dropped[i])
            continue;
        g->dropped[i] = true;
        sw_cond_broadcast(&n->changed);
        sw_mutex_unlock(&n->lock);
        n->conf.engine->drop(g->link, i);
        sw_err_set(&why, SW_ERR_IO, "the process is killed");
        g->up->failed(g->up->user, i, &why);
        sw_mutex_lock(&n->lock);
    }
    g->users--;
    sw_cond_broadcast(&n->changed);
}

static inline int gate_begin(void *gate, int from, const unsigned char head[SW_FRAME_HEAD],
                             void **to, size_t *bytes)
{
    struct gate *g = gate;
    struct gates *n = g->net;
    struct gate *last = &n->gate[n->conf.hosts - 1];
    sw_mutex_lock(&n->lock);
    bool passes = gate_pass(g, from) && !g->killed, dies = false;
    if (passes) {
        n->now_ns += 1000;
        g->chunks++;
        n->gate[from].chunks++;
        dies = n->conf.kill_chunk && (g == last || from == last->host) &&
               last->chunks == n->conf.kill_chunk;
    }
    sw_mutex_unlock(&n->lock);
    int rc = passes ? g->up->begin(g->up->user, from, head, to, bytes) : SW_ERR_CANCELLED;
    sw_mutex_lock(&n->lock);
    if (dies) {
        gate_kill(n, last);
        g->cut[from] = true;
        rc = g == last ? SW_ERR_CANCELLED : rc;
    }
    g->ended_reading[from] = rc != SW_OK;
    sw_cond_broadcast(&n->changed);
    sw_mutex_unlock(&n->lock);
    return rc;
}

static inline int gate_end(void *gate, int from)
{
    struct gate *g = gate;
    struct sw_err why;
    int rc = SW_ERR_CANCELLED;
    if (g->cut[from]) {
        sw_err_set(&why, SW_ERR_IO, "the connection is closed");
        g->up->failed(g->up->user, from, &why);
    } else {
        rc = g->up->end(g->up->user, from);
    }
    sw_mutex_lock(&g->net->lock);
    g->arrived[from]++;
    g->ended_reading[from] = rc != SW_OK;
    sw_cond_broadcast(&g->net->changed);
    sw_mutex_unlock(&g->net->lock);
    return rc;
}

static inline void gate_sent(void *gate, int to)
{
    struct gate *g = gate;
    sw_mutex_lock(&g->net->lock);
    bool passes = gate_pass(g, to);
    sw_mutex_unlock(&g->net->lock);
    if (passes)
        g->up->sent(g->up->user, to);
    sw_mutex_lock(&g->net->lock);
    g->told[to]++;
    sw_cond_broadcast(&g->net->changed);
    sw_mutex_unlock(&g->net->lock);
}

static inline void gate_failed(void *gate, int host, const struct sw_err *why)
{
    struct gate *g = gate;
    sw_mutex_lock(&g->net->lock);
    bool passes = gate_pass(g, host);
    sw_mutex_unlock(&g->net->lock);
    if (passes)
        g->up->failed(g->up->user, host, why);
}

static inline bool gate_awaited(void *gate)
{
    const struct gate *g = gate;
    return g->up->awaited(g->up->user);
}

/* With the lock: from now on nobody uses what the fabric is about to free. */
static inline void gate_end_use(struct gate *g)
{
    g->closing = true;
    sw_cond_broadcast(&g->net->changed);
    while (g->users > 0)
        sw_cond_wait(&g->net->changed, &g->net->lock);
}

static inline int gate_open(const struct sw_fabric_wire *up, void **link, struct sw_err *err)
{
    struct gate *g = (struct gate *)up->conf;
    struct gates *n = g->net;
    sw_mutex_lock(&n->lock);
    g->wire = *up;
    g->wire.conf = n->conf.conf;
    g->wire.connect_ms = n->conf.connect_ms;
    g->wire.silence_ms = 600000; /* of real time */
    g->wire.user = g;
    g->wire.begin = gate_begin;
    g->wire.end = gate_end;
    g->wire.sent = gate_sent;
    g->wire.failed = gate_failed;
    g->wire.awaited = gate_awaited;
    g->up = up;
    g->came = true;
    g->tick_ns = n->now_ns + (int64_t)up->beat_ms * 1000000;
    sw_mutex_unlock(&n->lock);
    void *inner;
    int rc = n->conf.engine->open(&g->wire, &inner, err);
    sw_mutex_lock(&n->lock);
    if (rc == SW_OK) {
        g->link = inner;
        *link = g;
        if (g->killed)
            gate_kill(n, g);
    } else {
        gate_end_use(g);
    }
    sw_mutex_unlock(&n->lock);
    return rc;
}

static inline int gate_push(void *link, int to, const struct sw_fabric_frame *head,
                            const void *data)
{
    struct gate *g = link;
    sw_mutex_lock(&g->net->lock);
    g->pushed[to]++;
    sw_mutex_unlock(&g->net->lock);
    int rc = g->net->conf.engine->push(g->link, to, head, data);
    if (rc == SW_OK)
        return rc;
    sw_mutex_lock(&g->net->lock);
    g->pushed[to]--;
    sw_cond_broadcast(&g->net->changed);
    sw_mutex_unlock(&g->net->lock);
    return rc;
}

static inline void gate_drop(void *link, int host)
{
    struct gate *g = link;
    sw_mutex_lock(&g->net->lock);
    g->dropped[host] = true;
    sw_cond_broadcast(&g->net->changed);
    sw_mutex_unlock(&g->net->lock);
    g->net->conf.engine->drop(g->link, host);
}

static inline void gate_close(void *link)
{
    struct gate *g = link;
    sw_mutex_lock(&g->net->lock);
    gate_end_use(g);
    sw_mutex_unlock(&g->net->lock);
    g->net->conf.engine->close(g->link);
}

static inline const char *gate_name(char *out, size_t bytes)
{
    snprintf(out, bytes, "gates");
    return out;
}

static const struct sw_fabric_engine gates_engine = {.abi = SW_FABRIC_ABI,
                                                     .name = gate_name,
                                                     .open = gate_open,
                                                     .push = gate_push,
                                                     .drop = gate_drop,
                                                     .close = gate_close};

/* ---- For tests ---- */

static inline struct gates *gates_new(const struct gates_conf *conf)
{
    struct gates *n = calloc(1, sizeof *n);
    if (!n)
        abort();
    n->conf = *conf;
    n->now_ns = 1000;
    sw_mutex_init(&n->lock);
    sw_cond_init(&n->changed);
    for (int i = 0; i < conf->hosts; i++) {
        struct gate *g = &n->gate[i];
        g->net = n;
        g->host = i;
        g->clock = (struct sw_fabric_clock){gate_monotonic_ns, gate_wall_ns, g};
    }
    return n;
}

static inline void gates_free(struct gates *n)
{
    sw_cond_fini(&n->changed);
    sw_mutex_fini(&n->lock);
    free(n);
}

static inline void gates_set(struct gates *n, bool *flag, bool value)
{
    sw_mutex_lock(&n->lock);
    *flag = value;
    sw_cond_broadcast(&n->changed);
    sw_mutex_unlock(&n->lock);
}

static inline bool gates_get(struct gates *n, const bool *flag)
{
    sw_mutex_lock(&n->lock);
    bool value = *flag;
    sw_mutex_unlock(&n->lock);
    return value;
}

static inline void gates_kill(struct gates *n, int host)
{
    sw_mutex_lock(&n->lock);
    gate_kill(n, &n->gate[host]);
    sw_mutex_unlock(&n->lock);
}

/* With the lock: has everything arrived that was sent, where it can? */
static inline bool gates_are_quiet(const struct gates *n)
{
    for (int i = 0; i < n->conf.hosts; i++)
        for (int k = 0; k < n->conf.hosts; k++) {
            const struct gate *from = &n->gate[i], *to = &n->gate[k];
            if (i == k || !from->up || !to->up || !from->link || !to->link || gate_is_held(to, i) ||
                gate_is_over(from, k) || gate_is_over(to, i) || to->ended_reading[i])
                continue;
            if (from->pushed[k] != to->arrived[i] || from->pushed[k] != from->told[k])
                return false;
        }
    return true;
}

/* With the lock: a host whose tick is due, or NULL; *next_ns: when the first one will be. */
static inline struct gate *gates_due(struct gates *n, int64_t *next_ns)
{
    for (int i = 0; i < n->conf.hosts; i++) {
        struct gate *g = &n->gate[i];
        if (!g->up || g->stopped || g->closing)
            continue;
        if (g->tick_ns <= n->now_ns)
            return g;
        *next_ns = g->tick_ns < *next_ns ? g->tick_ns : *next_ns;
    }
    return NULL;
}

/* What was sent before has arrived and is told; from then on nothing moves from and to the host. */
static inline void gates_hold(struct gates *n, int host, bool held)
{
    sw_mutex_lock(&n->lock);
    while (held && !gates_are_quiet(n))
        sw_cond_wait(&n->changed, &n->lock);
    n->gate[host].held = held;
    sw_cond_broadcast(&n->changed);
    sw_mutex_unlock(&n->lock);
}

static inline void gates_advance(struct gates *n, int64_t ns)
{
    struct gate *g;
    sw_mutex_lock(&n->lock);
    for (int64_t target_ns = n->now_ns + ns; n->now_ns < target_ns;) {
        int64_t next_ns = target_ns;
        if (!(g = gates_due(n, &next_ns))) {
            n->now_ns = next_ns > n->now_ns ? next_ns : n->now_ns;
            continue;
        }
        g->tick_ns = n->now_ns + (int64_t)g->up->beat_ms * 1000000;
        g->users++;
        sw_mutex_unlock(&n->lock);
        g->up->tick(g->up->user);
        sw_mutex_lock(&n->lock);
        g->users--;
        sw_cond_broadcast(&n->changed);
        while (!gates_are_quiet(n))
            sw_cond_wait(&n->changed, &n->lock);
    }
    sw_mutex_unlock(&n->lock);
}
