/* What the files of the sim device share. Internal to device/sim.
 *
 * Files call only those below them:
 *
 * driver.c   what is known of it before one is open
 * open.c     opening, closing, cancelling, the table
 * conf.c     the option text
 * graph.c    what was captured queued again
 * ops.c      operations, records, waits
 * copy.c     copies
 * plan.c     plans
 * collective.c  sums over devices
 * stream.c   a stream's ring, its thread, waiting, cancelling
 * capture.c  captures
 * event.c    events
 * device.c   a device from its first owner to its last, faults
 * link.c     how long copies take
 * memory.c   the two halves of the address space, allocations, what a pointer is
 * race.c     uses of memory that nothing orders
 * clock.c    the order of operations
 * name.c     what places are called
 *
 * Functions without a word are the rows of the device's table: device/device.h says what they do.
 *
 * Order of locks: device, then stream, then event; no operation runs under any of them. Under those
 * of names, uses and links no other is taken, but for the link of another device. */
#ifndef SW_DEVICE_SIM_SIM_PRIVATE_H
#define SW_DEVICE_SIM_SIM_PRIVATE_H

#include "device/driver.h"
#include "device/op.h"
#include "device/plan.h"
#include "device/sim/race.h"
#include "device/sim/sim.h"
#include "sync/atomic.h"
#include "sync/thread.h"

enum {
    SW_SIM_POINTERS = SW_OP_ARRAYS, /* of one operation */
    SW_SIM_RING = 512,                /* operations queued on one stream */
    SW_SIM_STREAMS = 64,              /* of one device */
    SW_SIM_GRANULE = 4096,
    SW_SIM_NAME = 48,  /* of a place */
    SW_SIM_WHAT = 112, /* of what lies at an address: two of those */
};

/* ---- Device and memory ---- */

extern const struct sw_driver sw_driver_sim;

struct sw_sim_block {
    size_t offset, bytes; /* from the device's start; as asked for */
    uint64_t number;      /* of the allocation, from 1 */
    char what[SW_SIM_NAME];
};

struct sw_sim_name {
    size_t from, to; /* from the device's start */
    char text[SW_SIM_NAME];
};
struct sw_sim_names {
    struct sw_mutex lock;
    struct sw_sim_name *list; /* owned */
    int count, room;
    struct sw_sim_name *freed; /* owned: a ring of those that were, or NULL */
    unsigned freed_count;
};

/* What copies do with host memory; shared by devices that were joined. */
struct sw_sim_host {
    int owners; /* atomic */
    struct sw_sim_names names;
    struct sw_sim_uses uses;
};

struct sw_sim_link {
    int64_t free_ns; /* when the copies are through that were asked for so far */
    struct sw_sim_traffic traffic;
};

struct sw_sim_stream;
struct sw_sim_graph;
struct sw_sim_collective;

struct sw_sim_device {
    struct sw_device base; /* first member */
    struct sw_sim_conf conf;
    struct sw_device *cpu; /* owned: does the arithmetic */
    char *handed;    /* the inaccessible half; the writable one begins `capacity` further on */
    size_t capacity; /* bytes, whole granules */
    int probe_fd;    /* tells whether an address can be read */
    struct sw_sim_names names;
    struct sw_sim_uses uses;
    struct sw_sim_host *host;  /* shared */
    struct sw_mutex link_lock; /* guards link */
    struct sw_sim_link link[SW_SIM_DIRECTIONS];
    uint64_t reached; /* a bit per GPU that copies reach directly; guarded by link_lock */
    double slow;      /* how many times as long its computing takes */

    struct sw_mutex lock; /* guards all below */
    int owners;           /* the opener and every stream; the last one frees */
    bool cancelled, lost;
    struct sw_sim_block *block; /* owned, ascending */
    int blocks, block_room;
    size_t in_use, peak, taken;                   /* bytes; taken: in whole granules */
    struct sw_sim_stream *stream[SW_SIM_STREAMS]; /* those that live; NULL elsewhere */
    int64_t operations, allocations;              /* begun */
    struct sw_sim_graph *capture;                 /* borrowed: the one under way; NULL: none */
    uint64_t captures;                            /* so far */
    enum sw_sim_fault fault;
    int64_t fault_at;
};

static inline struct sw_sim_device *sw_sim_device_of(struct sw_device *dev)
{
    return (struct sw_sim_device *)(void *)dev;
}

extern const struct sw_plan_makers sw_sim_plans;
extern const struct sw_collective_ops sw_sim_collectives;

/* memory.c */
int sw_sim_memory_init(struct sw_sim_device *d, struct sw_err *err) SW_MUST_CHECK;
void sw_sim_memory_fini(struct sw_sim_device *d);
int sw_sim_alloc(struct sw_device *dev, size_t bytes, uint64_t nodes, const char *what, void **out,
                 struct sw_err *err);
void sw_sim_place(struct sw_device *dev, void *p, size_t bytes, uint64_t nodes);
/* d->lock is held. Gives an allocation back, SW_ERR_INVALID when somebody may still use it: *lane
 * is that one's. */
int sw_sim_give_back(struct sw_sim_device *d, const void *p, const struct sw_sim_lane **lane,
                     struct sw_err *err) SW_MUST_CHECK;
void sw_sim_pin(struct sw_device *dev, void *p, size_t bytes, bool pinned);
int sw_sim_host_alloc(struct sw_device *dev, size_t bytes, const char *what, void **out,
                      struct sw_err *err);
void sw_sim_host_free(struct sw_device *dev, void *p, size_t bytes);
struct sw_device_bytes sw_sim_bytes(struct sw_device *dev);
void sw_sim_memory_name(struct sw_device *dev, const void *p, size_t bytes, const char *what);
/* Is it an address that this device might have handed out? */
bool sw_sim_is_mine(const struct sw_sim_device *d, const void *p);
/* Where `bytes` bytes at a device address really are; argument names it in the error. NULL with no
 * bytes stays NULL. *block is the number of their allocation: 0 is filled in, another one must be
 * the same. Errors: SW_ERR_INVALID when they do not lie in one live allocation, or in another one
 * than before. */
int sw_sim_reach(struct sw_sim_device *d, const char *argument, void *p, size_t bytes,
                 uint64_t *block, void **out, struct sw_err *err) SW_MUST_CHECK;
/* The same for host memory, which is at its address. Errors: SW_ERR_INVALID when it cannot be read.
 */
int sw_sim_reach_host(struct sw_sim_device *d, const char *argument, void *p, size_t bytes,
                      struct sw_err *err) SW_MUST_CHECK;

/* name.c. Places are offsets from the device's start, or addresses of the host; `out` has
 * SW_SIM_WHAT bytes and becomes "" where nothing has a name. */
void sw_sim_names_init(struct sw_sim_names *n);
void sw_sim_names_fini(struct sw_sim_names *n);
void sw_sim_name_add(struct sw_sim_names *n, size_t from, size_t bytes, const char *what);
void sw_sim_name_free(struct sw_sim_names *n, size_t from, size_t to);
void sw_sim_name_of(struct sw_sim_names *n, size_t from, size_t bytes, char *out);
void sw_sim_name_of_freed(struct sw_sim_names *n, size_t from, size_t bytes, char *out);

/* link.c. Does a copy by one of the two go directly? NULL: that side is the host. */
bool sw_sim_link_direct(struct sw_sim_device *by, const struct sw_sim_device *dst,
                        const struct sw_sim_device *src);
/* When a copy of a stream of `by` ends that is asked for at now_ns. The links are taken by it;
 * sw_sim_link_pass is the arithmetic, without locks. */
int64_t sw_sim_link_take(struct sw_sim_device *by, struct sw_sim_device *dst,
                         struct sw_sim_device *src, size_t bytes, int64_t now_ns);
int64_t sw_sim_link_pass(struct sw_sim_link *out, struct sw_sim_link *in, int64_t now_ns,
                         size_t bytes, bool direct, const struct sw_sim_conf *conf);
bool sw_sim_peer_reaches(struct sw_device *dev, struct sw_device *peer);
int sw_sim_peer_reach(struct sw_device *dev, struct sw_device *peer, struct sw_err *err);

/* device.c */
int sw_sim_device_new(const struct sw_sim_conf *conf, int index, struct sw_sim_device **out,
                      struct sw_err *err) SW_MUST_CHECK;
/* Counts an operation that begins and says which fault it is to meet. */
enum sw_sim_fault sw_sim_begin(struct sw_sim_device *d);
void sw_sim_release(struct sw_sim_device *d); /* one owner less */

/* ---- Events ---- */

/* What sw_event is on sim; on the heap until the owner and all queued operations have let go. */
struct sw_sim_event {
    struct sw_mutex lock; /* guards all below */
    struct sw_cond changed;
    int owners;
    uint64_t asked, done;      /* records queued so far; the latest that happened */
    struct sw_sim_clock clock; /* what the latest record stands behind */
    uint64_t captured;         /* the number of the capture that it was in; 0: of none, and */
    int mark;                  /* which of its marks it is */
    struct sw_err err;         /* of that one: why it could not happen; code SW_OK else */
};

static inline struct sw_sim_event *sw_sim_event_of(struct sw_event *e)
{
    return (struct sw_sim_event *)(void *)e;
}

int sw_sim_event_new(struct sw_device *dev, struct sw_event **out, struct sw_err *err);
void sw_sim_event_free(struct sw_event *e);
int sw_sim_event_record(struct sw_stream *s, struct sw_event *e, struct sw_err *err);
int sw_sim_event_wait(struct sw_stream *s, struct sw_event *e, struct sw_err *err);
int sw_sim_event_host_wait(struct sw_event *e, struct sw_err *err);
void sw_sim_event_wake(struct sw_sim_event *e);
/* For events that no stream records: record `number`, and all before it, has happened or, with a
 * reason, never will; and on a stream's thread, waits for that, or until the stream is cancelled.
 */
void sw_sim_event_happen(struct sw_sim_event *e, uint64_t number, const struct sw_err *why);
int sw_sim_event_stand(struct sw_sim_stream *s, struct sw_sim_event *e, uint64_t number,
                       struct sw_err *err) SW_MUST_CHECK;

/* ---- Streams and operations ---- */

struct sw_sim_op;

/* A kind of operation. */
struct sw_sim_op_type {
    const char *name;            /* NULL: the subject's */
    const char *const *pointers; /* their names in messages, in the order of op->p */
    bool counted; /* may meet a fault: it computes or copies, rather than serves the queue */
    bool moves;   /* it is a copy */
    bool waits;   /* for others: a slow GPU takes no longer */
    bool always;  /* queued and run even when the stream has failed */
    /* Finds where the pointers really are: where[i] for op->p[i]; and sets or checks op->block.
     * NULL: all are memory of the stream's device. on_thread: it runs next, else it is to be
     * queued. */
    int (*reach)(struct sw_sim_stream *s, struct sw_sim_op *op, bool on_thread, void **where,
                 struct sw_err *err);
    /* On the stream's thread, with every pointer where it really is. An error is the stream's. */
    int (*run)(struct sw_sim_stream *s, struct sw_sim_op *op, struct sw_err *err);
    /* Instead of run, when the stream has failed; or NULL. */
    void (*skip)(struct sw_sim_op *op, const struct sw_err *why);
    /* When it is this operation that fails; or NULL. */
    void (*fail)(struct sw_sim_op *op, const struct sw_err *why);
};

enum { SW_SIM_DST, SW_SIM_SRC }; /* the pointers of a copy */

struct sw_sim_copy {
    struct sw_sim_device *dst, *src; /* NULL: the host */
    size_t dst_pitch, src_pitch, width;
    int64_t rows;
};

struct sw_sim_event_op {
    struct sw_sim_event *event; /* shared */
    uint64_t number;
};

/* An operation of device/op.h, whose pointers are the operation's own. */
struct sw_sim_run {
    const struct sw_op *op;
    uint64_t args[SW_OP_ARGS_BYTES / sizeof(uint64_t)]; /* aligned for any member */
};

struct sw_sim_call {
    void (*fn)(void *user);
    void *user;
};

struct sw_sim_sum {
    struct sw_sim_collective *collective; /* shared */
    int rank;
};

/* Everything by value, but for what a caller waits for. */
struct sw_sim_op {
    const struct sw_sim_op_type *type;
    const char *subject; /* what it works for: "convolution"; or NULL; static */
    void *p[SW_SIM_POINTERS];
    size_t bytes[SW_SIM_POINTERS];
    uint64_t block[SW_SIM_POINTERS]; /* which allocation; set when it is queued */
    uint32_t written;                /* a bit per pointer */
    union {
        int64_t n;
        struct sw_sim_copy copy;
        struct sw_sim_event_op event;
        struct sw_sim_call call;
        struct sw_sim_run run;
        struct sw_sim_sum sum;
        struct sw_plan *plan;     /* of the cpu stream */
        struct sw_sim_make *make; /* plan.c; the caller waits */
    } u;
};

struct sw_sim_stream {
    struct sw_stream base; /* first member */
    struct sw_sim_device *device;
    struct sw_thread thread;
    char name[32];
    struct sw_stream *cpu;        /* owned and used by the thread */
    bool finite;                  /* answer of the last all_finite; read by who waited */
    struct sw_sim_lane *lane;     /* shared */
    struct sw_sim_clock clock;    /* what all that is queued stands behind; its owner's */
    atomic_int cancelled;         /* as err below, to be read under an event's lock */
    struct sw_sim_graph *capture; /* borrowed: what it is given goes there; its owner's */

    struct sw_mutex lock; /* guards all below */
    struct sw_cond changed;
    struct sw_sim_op *ring; /* owned; [SW_SIM_RING] */
    uint64_t queued, done;  /* operations so far; those from done to queued are in the ring */
    struct sw_err err;      /* the first one; code SW_OK while there is none */
    bool started, hung, closing;
    struct sw_sim_event *waiting; /* the thread waits for it */
};

static inline struct sw_sim_stream *sw_sim_stream_of(struct sw_stream *s)
{
    return (struct sw_sim_stream *)(void *)s;
}

int sw_sim_stream_new(struct sw_device *dev, int threads, bool urgent, struct sw_stream **out,
                      struct sw_err *err);
void sw_sim_stream_attach(struct sw_stream *s);
void sw_sim_stream_name(struct sw_stream *s, const char *name);
void sw_sim_stream_free(struct sw_stream *s);
int sw_sim_stream_wait(struct sw_stream *s, struct sw_err *err);
void sw_sim_stream_cancel(struct sw_sim_stream *s);
/* On the thread: stands still until the stream is cancelled. */
int sw_sim_stream_hang(struct sw_sim_stream *s, struct sw_err *err) SW_MUST_CHECK;
/* Waits on the thread until then, or until the stream is cancelled. */
void sw_sim_stream_sleep(struct sw_sim_stream *s, int64_t until_ns);

/* Checks the operation's pointers and its order and queues a copy of it; waits while the ring is
 * full. Errors: what is wrong with a pointer or which wait is missing (nothing is queued then), or
 * the stream's. */
int sw_sim_push(struct sw_stream *s, const struct sw_sim_op *op, struct sw_err *err) SW_MUST_CHECK;

/* ---- The table's operations: see device/device.h ---- */

/* Bytes of n floats; 0 for none. */
static inline size_t sw_sim_floats(int64_t n)
{
    return n > 0 ? (size_t)n * sizeof(float) : 0;
}

int sw_sim_copy(struct sw_stream *s, void *dst, const void *src, size_t bytes, struct sw_err *err);
int sw_sim_copy_peer(struct sw_stream *s, struct sw_device *dst_dev, void *dst,
                     struct sw_device *src_dev, const void *src, size_t bytes, struct sw_err *err);
int sw_sim_copy_2d(struct sw_stream *s, void *dst, size_t dst_pitch, const void *src,
                   size_t src_pitch, size_t width, int64_t rows, struct sw_err *err);
int sw_sim_call(struct sw_stream *s, void (*fn)(void *user), void *user, struct sw_err *err);
int sw_sim_run(struct sw_stream *s, const struct sw_op *op, const void *args, struct sw_err *err);
int sw_sim_fill_zero(struct sw_stream *s, void *dst, size_t bytes, struct sw_err *err);
int sw_sim_all_finite(struct sw_stream *s, const float *x, int64_t n, bool *finite,
                      struct sw_err *err);

#endif
