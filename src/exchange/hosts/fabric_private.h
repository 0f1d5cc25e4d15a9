/* Shared by the files of the fabric. Each calls only those before it: loss.c (a host is gone),
 * pace.c (how much is sent), outbox.c (what is to be sent), beats.c (beats, silence, clocks),
 * inbox.c (what arrives), fabric.c (life, and the functions of fabric.h).
 *
 * One lock guards everything but what a field says otherwise. It is never held while the engine, a
 * sink or a `done` is called. */
#pragma once

#include "base/os.h"
#include "base/token_bucket.h"
#include "exchange/hosts/fabric.h"
#include "thread/thread.h"
#include <string.h>

/* Messages of the fabric itself. Each fits into one chunk and goes before all others. */
enum sw_control_kind {
    SW_CONTROL_HELLO, /* fields that both hosts must agree on; item: the sender's number */
    SW_CONTROL_READY, /* the sender has heard all hosts and agrees with them */
    SW_CONTROL_ABORT, /* a text; version: the error code, negated */
    SW_CONTROL_ECHO,  /* answer to a beat: version: the beat's; 8 bytes: the sender's wall clock */
    SW_CONTROL_BEAT,  /* version: the sender's monotonic clock */
    SW_CONTROL_LEAVE, /* the sender leaves; version: messages that it has sent to this host */
    SW_CONTROLS,
    SW_CONTROL_FIRST = 0xff00, /* of the kinds on the wire */
};

enum {
    SW_FABRIC_WINDOW = 4, /* chunks that the engine has of one host at a time, at most */
    SW_FABRIC_BEGUN = 32, /* messages to one host of which some chunks, but not all, are sent */
    SW_FABRIC_SAMPLES = 16,
};

/* A message that is under way. */
struct sw_outgoing {
    struct sw_fabric_tag tag;
    const unsigned char *data; /* borrowed until done */
    uint64_t bytes, offset;    /* offset: of the next chunk */
    uint64_t number;           /* in the order of sending */
    bool picked;               /* its first chunk was picked once */
    void (*done)(void *user, int rc);
    void *user;
    bool used;
};

/* Control messages to one host, of one kind: a newer one replaces one that still waits. */
struct sw_control_slot {
    bool wanted, pushed; /* pushed: the engine has it */
    uint64_t version;
};

/* A chunk that the engine has. */
struct sw_pushed {
    int message; /* index of the outgoing message; -1 - kind: a control message */
    bool last;   /* of the message */
};

/* A message of which some chunks have arrived. Only the thread that reads touches it. */
struct sw_incoming {
    struct sw_fabric_tag tag;
    unsigned char *to; /* borrowed from the sink */
    uint64_t total, next;
    bool used;
};

/* Round trips of beats; the shortest of the last ones gives the offset of the clock. */
struct sw_clock_sample {
    bool known;
    int64_t trip_ns, offset_ns;
};

struct sw_peer {
    /* What is known of the host. */
    bool agreed; /* its hello was read and is equal */
    bool ready, leaving, left;
    bool lost, dropped, settled; /* in this order (loss.c) */
    struct sw_err why;
    int64_t heard_ns;
    uint64_t leaves_after; /* messages that it will have sent when it has left */
    uint64_t received;     /* messages from it so far */

    /* To it. */
    struct sw_outgoing *out; /* owned [room]: the messages */
    int *free_list;          /* owned [room]: unused messages */
    int *heap;               /* owned [room]: messages with chunks to push, the next one first */
    int free_count, heap_count, begun;
    uint64_t numbers; /* messages so far */
    struct sw_control_slot control[SW_CONTROLS];
    unsigned char echo[8];
    struct sw_pushed pushed[SW_FABRIC_WINDOW]; /* ring, the oldest at `oldest` */
    int oldest, pushed_count;
    bool pumping, again; /* a thread pushes chunks; it must look again before it stops */

    /* From it: only the thread that reads touches these, without the lock. */
    struct sw_incoming in[SW_FABRIC_BEGUN + SW_FABRIC_WINDOW];
    struct sw_fabric_frame frame; /* of the chunk that is being read */
    struct sw_incoming *reading;  /* its message; NULL: a control message */
    unsigned char *control_in;    /* owned [SW_FABRIC_HELLO_BYTES] */

    struct sw_clock_sample sample[SW_FABRIC_SAMPLES];
    int samples;
    struct sw_traffic traffic[SW_FABRIC_KINDS];
};

struct sw_fabric {
    const struct sw_fabric_engine *engine;
    struct sw_fabric_wire wire;
    struct sw_fabric_args args;
    struct sw_mutex lock;
    struct sw_cond changed; /* something that a wait is for */
    void *link;             /* the engine's; NULL before its open has returned */
    int own, count;
    struct sw_peer *peers; /* owned [count]; the own one is not used */
    char *hello;           /* owned; frozen before the engine is opened */
    size_t hello_bytes;
    struct sw_err abort;   /* why this host ends; written before it is sent */
    struct sw_err failure; /* the first that went wrong before all were ready */
    bool opened, leaving, aborting, closed;
    int64_t ticked_ns;             /* time of the last tick */
    int awaited;                   /* atomic */
    struct sw_token_bucket bucket; /* of what this host sends (pace.c) */
    int64_t paced_ns; /* atomic: when chunks that wait for that can go; INT64_MAX: none wait */
    int turn;         /* the host whose chunks go first then */
    struct sw_thread beats;
    struct sw_cond stop; /* ends the sleep of `beats` */
};

static inline int64_t sw_fabric_now(const struct sw_fabric *f)
{
    const struct sw_fabric_clock *c = f->args.clock;

    return c ? c->monotonic_ns(c->user) : sw_os()->monotonic_ns();
}
static inline int64_t sw_fabric_wall(const struct sw_fabric *f)
{
    const struct sw_fabric_clock *c = f->args.clock;

    return c ? c->wall_ns(c->user) : (int64_t)(sw_os()->unix_time() * 1e9);
}
static inline const char *sw_fabric_name(const struct sw_fabric *f, int host)
{
    return f->args.hosts->host[host].name;
}
static inline int64_t sw_fabric_paced_ns(const struct sw_fabric *f)
{
    return __atomic_load_n(&f->paced_ns, __ATOMIC_RELAXED);
}
/* The lock of a fabric that is only read. */
static inline struct sw_mutex *sw_fabric_lock(const struct sw_fabric *f)
{
    return (struct sw_mutex *)&f->lock;
}

/* loss.c: the host is gone, because of `why`, whose text need not name it. Without the lock. */
void sw_fabric_lose(struct sw_fabric *f, int host, const struct sw_err *why);
/* With the lock, which it releases meanwhile: cancels what is under way to a host that is gone, as
 * soon as neither the engine nor a thread that pushes uses it. */
void sw_fabric_settle(struct sw_fabric *f, int host);
/* With the lock: notes why the hosts cannot begin; the first reason counts. */
void sw_fabric_fail(struct sw_fabric *f, const struct sw_err *why);
/* With the lock, which it releases meanwhile: calls done(SW_ERR_CANCELLED) for all messages to a
 * host. The engine does not use them any more. */
void sw_fabric_cancel(struct sw_fabric *f, int host);

/* pace.c, with the lock. May a chunk be sent now? If not, sw_fabric_pace is called when it may. */
bool sw_fabric_may_send(struct sw_fabric *f);
void sw_fabric_charge(struct sw_fabric *f, size_t bytes);
void sw_fabric_refund(struct sw_fabric *f, size_t bytes); /* that were not sent */

/* outbox.c, all with the lock, which they release while the engine or a `done` is called. */
void sw_fabric_pump(struct sw_fabric *f, int to);
void sw_fabric_want(struct sw_fabric *f, int to, enum sw_control_kind kind, uint64_t version);
/* Adds a message; SW_ERR_BUSY: no room. */
int sw_fabric_queue(struct sw_fabric *f, int to, const struct sw_outgoing *m) SW_MUST_CHECK;
/* Wire: the oldest chunk is out. Without the lock. */
void sw_fabric_sent(void *fabric, int to);
/* Wire, and the thread of the beats: chunks that waited for their time can go. Without the lock. */
void sw_fabric_pace(void *fabric);

/* beats.c. Wire, and the thread of the beats: sends beats, and loses hosts that are silent. */
void sw_fabric_tick(void *fabric);
/* With the lock: takes the answer to a beat into account. */
void sw_fabric_sample(struct sw_fabric *f, int host, int64_t sent_ns, int64_t wall_ns);

/* inbox.c: wire. */
int sw_fabric_begin(void *fabric, int from, const unsigned char head[SW_FRAME_HEAD], void **to,
                    size_t *bytes) SW_MUST_CHECK;
int sw_fabric_end(void *fabric, int from) SW_MUST_CHECK;
