/* Streams of the sim device, and the operations that they queue. Functions without a word are rows
 * of the device's table: device/device.h. */
#pragma once

#include "device/op.h"
#include "device/sim/event.h"
#include "thread/atomic.h"

enum { SW_SIM_POINTERS = SW_OP_ARRAYS }; /* of one operation */

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
    int (*resolve)(struct sw_sim_stream *s, struct sw_sim_op *op, bool on_thread, void **where,
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

/* An operation of kernels/op.h, whose pointers are the operation's own. */
struct sw_sim_run {
    const struct sw_op *op;
    uint64_t args[SW_OP_ARGS_BYTES / sizeof(uint64_t)]; /* aligned for any member */
};

struct sw_sim_call {
    void (*fn)(void *user);
    void *user;
};

struct sw_sim_all_reduce {
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
        struct sw_sim_all_reduce all_reduce;
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
    bool finite;                  /* result of the last all_finite; read after a wait */
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
/* Runs on the thread of the stream: blocks until the stream is cancelled. */
int sw_sim_stream_hang(struct sw_sim_stream *s, struct sw_err *err) SW_MUST_CHECK;
/* Waits on the thread until then, or until the stream is cancelled. */
void sw_sim_stream_sleep(struct sw_sim_stream *s, int64_t until_ns);

/* Checks the operation's pointers and its order and queues a copy of it; waits while the ring is
 * full. Errors: what is wrong with a pointer or which wait is missing (nothing is queued then), or
 * the stream's. */
int sw_sim_push(struct sw_stream *s, const struct sw_sim_op *op, struct sw_err *err) SW_MUST_CHECK;

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
