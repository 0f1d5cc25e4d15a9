/* Streams of the sim device, and the operations that they queue. Functions without a comment are
 * entries of the device's table, described in device/device.h. */
#pragma once

#include "device/op.h"
#include "device/sim/event.h"
#include "thread/atomic.h"

enum { SW_SIM_POINTERS = SW_OP_ARRAYS }; /* of one operation */

struct sw_sim_op;

/* A kind of operation. */
struct sw_sim_op_type {
    const char *name;            /* NULL: use the subject's name */
    const char *const *pointers; /* their names in messages, in the order of op->p */
    bool counted; /* faults may be injected: it computes or copies rather than serves the queue */
    bool moves;   /* is a copy */
    bool waits;   /* waits for other devices: not slowed down on a slow GPU */
    bool always;  /* queued and run even when the stream has failed */
    /* Translates the pointers to real addresses: where[i] for op->p[i]; and sets or checks
     * op->block. NULL: all pointers are memory of the stream's device. on_thread: the operation
     * runs next, else it is being queued. */
    int (*resolve)(struct sw_sim_stream *s, struct sw_sim_op *op, bool on_thread, void **where,
                   struct sw_err *err);
    /* Runs the operation on the stream's thread, with real addresses. An error becomes the stream's
     * error. */
    int (*run)(struct sw_sim_stream *s, struct sw_sim_op *op, struct sw_err *err);
    /* Called instead of run when the stream has failed; or NULL. */
    void (*skip)(struct sw_sim_op *op, const struct sw_err *why);
    /* Called when this operation fails; or NULL. */
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

/* A queued operation. All arguments are copied, except memory for which the caller waits. */
struct sw_sim_op {
    const struct sw_sim_op_type *type;
    const char *subject; /* on behalf of what it runs: "convolution"; or NULL; static */
    void *p[SW_SIM_POINTERS];
    size_t bytes[SW_SIM_POINTERS];
    uint64_t block[SW_SIM_POINTERS]; /* number of the allocation; set when it is queued */
    uint32_t written;                /* bit i: pointer i is written */
    union {
        int64_t n;
        struct sw_sim_copy copy;
        struct sw_sim_event_op event;
        struct sw_sim_call call;
        struct sw_sim_run run;
        struct sw_sim_all_reduce all_reduce;
        struct sw_plan *plan;     /* of the cpu stream */
        struct sw_sim_make *make; /* in plan.c; the caller waits */
    } u;
};

struct sw_sim_stream {
    struct sw_stream base; /* first member */
    struct sw_sim_device *device;
    struct sw_thread thread;
    char name[32];
    struct sw_stream *cpu;     /* owned and used by the thread */
    bool finite;               /* result of the last all_finite; read after a wait */
    struct sw_sim_lane *lane;  /* shared */
    struct sw_sim_clock clock; /* operations that come before the next queued one; accessed by the
                                  owner of the stream */
    atomic_int
        cancelled; /* a copy of the state of err below that can be read under an event's lock */
    struct sw_sim_graph *capture; /* borrowed: the capture that records queued operations; accessed
                                     by the owner of the stream */

    struct sw_mutex lock; /* guards all below */
    struct sw_cond changed;
    struct sw_sim_op *ring; /* owned; [SW_SIM_RING] */
    uint64_t queued,
        done;          /* number of operations so far; those from done to queued are in the ring */
    struct sw_err err; /* the first error; code SW_OK: none */
    bool started, hung, closing;
    struct sw_sim_event *waiting; /* the event that the thread waits for, or NULL */
};

static inline struct sw_sim_stream *sw_sim_stream_of(struct sw_stream *s)
{
    return (struct sw_sim_stream *)(void *)s;
}

int sw_sim_stream_new(struct sw_device *dev, int threads, bool urgent, struct sw_stream **out,
                      struct sw_err *err);
void sw_sim_stream_name(struct sw_stream *s, const char *name);
void sw_sim_stream_free(struct sw_stream *s);
int sw_sim_stream_wait(struct sw_stream *s, struct sw_err *err);
void sw_sim_stream_cancel(struct sw_sim_stream *s);
/* Runs on the thread of the stream: blocks until the stream is cancelled. */
int sw_sim_stream_hang(struct sw_sim_stream *s, struct sw_err *err) SW_MUST_CHECK;
/* Sleeps on the thread of the stream until a time, or until the stream is cancelled. */
void sw_sim_stream_sleep(struct sw_sim_stream *s, int64_t until_ns);

/* Checks the operation's pointers and order, and queues a copy of it; waits while the ring is full.
 * Errors: an invalid pointer or a missing wait (the operation is not queued then), or the error of
 * the stream. */
int sw_sim_push(struct sw_stream *s, const struct sw_sim_op *op, struct sw_err *err) SW_MUST_CHECK;

/* Bytes of n floats; 0 for none. */
static inline size_t sw_sim_floats(int64_t n)
{
    return n > 0 ? (size_t)n * sizeof(float) : 0;
}

int sw_sim_copy(struct sw_stream *s, void *dst, const void *src, size_t bytes, struct sw_err *err);
int sw_sim_copy_peer(struct sw_stream *s, struct sw_device *dst_dev, void *dst,
                     struct sw_device *src_dev, const void *src, size_t bytes, struct sw_err *err);
int sw_sim_copy_2d(struct sw_stream *s, const struct sw_copy_2d *c, struct sw_err *err);
int sw_sim_call(struct sw_stream *s, void (*fn)(void *user), void *user, struct sw_err *err);
int sw_sim_run(struct sw_stream *s, const struct sw_op *op, const void *args, struct sw_err *err);
int sw_sim_fill_zero(struct sw_stream *s, void *dst, size_t bytes, struct sw_err *err);
int sw_sim_all_finite(struct sw_stream *s, const float *x, int64_t n, bool *finite,
                      struct sw_err *err);
