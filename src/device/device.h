/* Devices: where memory lives and work is queued. One table of functions per kind; layers call the
 * inline helpers below and never ask which device they are on. Light operations are data
 * (kernels/op.h); heavy ones are plans (device/plan.h), prepared once and run every step.
 *
 * Thread rule: a struct sw_device is frozen after opening. A stream belongs to one worker; its
 * functions are called by that worker's thread only. Everything queued on one stream runs in order.
 * On `cpu` a stream runs each operation at once, with the calling thread's OpenMP team. Elsewhere
 * an operation runs some time later: what it gets by pointer stays valid until it has run, and an
 * error that it meets is returned by a later call on the stream, sw_stream_wait at the latest, and
 * by all after it.
 *
 * Only events and waits order what different streams do. Where caps->host_memory is false (sim,
 * cuda) nothing but operations and copies of the device touches its memory: a worker there has a
 * second stream for work in host memory, and its end of the exchange (exchange/port.c) has the
 * parameters' memory. */
#pragma once

#include "base/err.h"
#include "base/philox.h"
#include "base/step.h"
#include "kernels/desc.h"
#include "kernels/precision.h"

struct sw_device;
struct sw_stream;
struct sw_event;
struct sw_graph;
struct sw_op;
struct sw_collective_ops;
struct sw_tune;

/* Memory of a device: handed out and not given back, the most so far, what there is (0: as much as
 * the machine has), and how much of what was to lie on certain NUMA nodes the system refused to put
 * there, ever. And how many operations it had no kernel for, so that the CPU computed them on
 * copies.
 */
struct sw_device_bytes {
    size_t in_use, peak, capacity, misplaced;
    uint64_t bridged;
};

/* A lane: one of several parallel parts of work, each with streams of its own. */
typedef int sw_stream_lane(void *user, int lane, struct sw_err *err);

/* The functions of a kind of device; the inline functions below describe each. `run` computes an
 * operation of kernels/op.h. */
struct sw_device_ops {
    void (*close)(struct sw_device *dev);
    void (*cancel)(struct sw_device *dev);

    int (*alloc)(struct sw_device *dev, size_t bytes, uint64_t nodes, const char *what, void **out,
                 struct sw_err *err);
    void (*place)(struct sw_device *dev, void *p, size_t bytes, uint64_t nodes);
    void (*free)(struct sw_device *dev, void *p, size_t bytes);
    void (*pin)(struct sw_device *dev, void *p, size_t bytes, bool pinned);
    int (*host_alloc)(struct sw_device *dev, size_t bytes, const char *what, void **out,
                      struct sw_err *err);
    void (*host_free)(struct sw_device *dev, void *p, size_t bytes);
    struct sw_device_bytes (*bytes)(struct sw_device *dev);
    void (*name)(struct sw_device *dev, const void *p, size_t bytes, const char *what);

    int (*stream_new)(struct sw_device *dev, int threads, bool urgent, struct sw_stream **out,
                      struct sw_err *err);
    void (*stream_attach)(struct sw_stream *s);
    void (*stream_name)(struct sw_stream *s, const char *name);
    void (*stream_free)(struct sw_stream *s);
    int (*stream_wait)(struct sw_stream *s, struct sw_err *err);
    int (*run_lanes)(struct sw_stream *s, int lanes, sw_stream_lane *lane, void *user,
                     struct sw_err *err);
    int (*event_new)(struct sw_device *dev, struct sw_event **out, struct sw_err *err);
    void (*event_free)(struct sw_event *e);
    int (*event_record)(struct sw_stream *s, struct sw_event *e, struct sw_err *err);
    int (*event_wait)(struct sw_stream *s, struct sw_event *e, struct sw_err *err);
    int (*event_host_wait)(struct sw_event *e, struct sw_err *err);
    int (*call)(struct sw_stream *s, void (*fn)(void *user), void *user, struct sw_err *err);
    int (*copy)(struct sw_stream *s, void *dst, const void *src, size_t bytes, struct sw_err *err);
    int (*copy_peer)(struct sw_stream *s, struct sw_device *dst_dev, void *dst,
                     struct sw_device *src_dev, const void *src, size_t bytes, struct sw_err *err);
    int (*copy_2d)(struct sw_stream *s, void *dst, size_t dst_pitch, const void *src,
                   size_t src_pitch, size_t width, int64_t rows, struct sw_err *err);
    int (*fill_zero)(struct sw_stream *s, void *dst, size_t bytes, struct sw_err *err);

    int (*run)(struct sw_stream *s, const struct sw_op *op, const void *args, struct sw_err *err);

    int (*all_finite)(struct sw_stream *s, const float *x, int64_t n, bool *finite,
                      struct sw_err *err);

    /* NULL where streams cannot be captured (sw_device_caps). */
    int (*capture_begin)(struct sw_stream *s, struct sw_err *err);
    int (*capture_end)(struct sw_stream *s, struct sw_graph **out, struct sw_err *err);
    int (*graph_launch)(struct sw_stream *s, struct sw_graph *g, struct sw_err *err);
    void (*graph_free)(struct sw_graph *g);
    bool (*can_access_peer)(struct sw_device *dev, struct sw_device *peer);
    int (*enable_peer_access)(struct sw_device *dev, struct sw_device *peer, struct sw_err *err);
    int (*collectives)(struct sw_device *dev, const struct sw_collective_ops **out,
                       struct sw_err *err);

    const struct sw_plan_makers *plans; /* device/plan.h */
};

/* Capabilities, which callers check instead of the name of a device. Frozen; the same for all
 * devices of a driver (device/driver.h). */
struct sw_device_caps {
    bool host_memory;   /* host code may read and write its memory, and operations run at once */
    bool captures;      /* its streams can be captured into graphs: the ops table has all four */
    bool own_processor; /* it computes beside the host's cores: its throughput is worth measuring,
                           and the CPU time of this process says nothing of its work */
    bool simulated;     /* it is made of threads of this process, called "NAME:INDEX/..." */
    bool on_bus;        /* it is a GPU of the machine map, found by its PCI address */
};

struct sw_device {
    const struct sw_device_ops *ops;
    const struct sw_device_caps *caps; /* borrowed: its driver's */
    bool host_memory; /* caps->host_memory, the capability that is asked for most */
    char name[32];    /* cpu, sim:0, cuda:0 */
    int index;
    struct sw_tune *tune; /* borrowed: choices by measuring (device/tune.h); NULL: by rules. Set
                             before there are streams */
    bool avoid_winograd;  /* convolutions use no Winograd algorithm. Set before there are streams */
};

struct sw_stream {
    struct sw_device *dev; /* borrowed */
};

/* Opens the CPU. reference selects the plain im2col plans (also used where oneDNN is not built in):
 * the tests' oracle. Close with sw_device_close. Errors: SW_ERR_NOMEM, SW_ERR_LIBRARY. */
int sw_cpu_open(bool reference, struct sw_device **out, struct sw_err *err) SW_MUST_CHECK;
/* The same with factors of products rounded. */
int sw_cpu_open_as(bool reference, enum sw_precision precision, struct sw_device **out,
                   struct sw_err *err) SW_MUST_CHECK;
void sw_device_close(struct sw_device *dev); /* NULL is accepted */
/* Makes the OpenMP team of the calling thread, which is about to compute with so many threads.
 * Errors: SW_ERR_NOMEM where the system refuses one of them; without this call that ends the
 * process. */
int sw_cpu_start_team(int threads, struct sw_err *err) SW_MUST_CHECK;
/* The math libraries of the CPU, "oneDNN 2.6.3, OpenBLAS 0.3.21", into out. OpenBLAS is loaded for
 * it and left out when that fails. Errors: SW_ERR_NOMEM, SW_ERR_UNSUPPORTED. */
int sw_cpu_libraries(char *out, size_t bytes, struct sw_err *err) SW_MUST_CHECK;

/* Drops everything that is queued on streams of the device; every wait and call then returns
 * SW_ERR_CANCELLED. A running operation still completes. Any thread; cannot be undone. On `cpu`
 * nothing is ever queued. */
static inline void sw_device_cancel(struct sw_device *dev)
{
    dev->ops->cancel(dev);
}
void sw_device_cancel_v(void *device); /* for sw_fault_attach */

/* Blocks of that size have pages of their own, which can be placed on NUMA nodes. */
#define SW_DEVICE_PAGES_BYTES ((size_t)2 << 20)

/* Zeroed memory, aligned to 64 bytes, huge pages where large; what names it in errors. */
SW_MUST_CHECK static inline int sw_device_alloc(struct sw_device *dev, size_t bytes,
                                                const char *what, void **out, struct sw_err *err)
{
    return dev->ops->alloc(dev, bytes, 0, what, out, err);
}
/* The same on certain NUMA nodes of the host (bit i: the system's node i; 0: any), on several in
 * turn, from the first touch on. Smaller blocks than SW_DEVICE_PAGES_BYTES, which share pages, and
 * memory of devices that have their own are where they are. A system that refuses (some containers
 * do) is no error: it is counted (sw_device_bytes_of). */
SW_MUST_CHECK static inline int sw_device_alloc_on(struct sw_device *dev, size_t bytes,
                                                   uint64_t nodes, const char *what, void **out,
                                                   struct sw_err *err)
{
    return dev->ops->alloc(dev, bytes, nodes, what, out, err);
}
/* Places a part of a block that has pages of its own: the pages that lie wholly in it. */
static inline void sw_device_place(struct sw_device *dev, void *p, size_t bytes, uint64_t nodes)
{
    dev->ops->place(dev, p, bytes, nodes);
}
static inline void sw_device_free(struct sw_device *dev, void *p, size_t bytes)
{
    if (p)
        dev->ops->free(dev, p, bytes);
}
/* Host memory, a whole block of a device with host memory, that copies of this device use again and
 * again: it is held in place, so that they need not be staged. Small blocks, which share pages, and
 * what the system refuses stay as they are, and only copies are slower. Unpin it before it is
 * freed. */
static inline void sw_device_pin(struct sw_device *dev, void *p, size_t bytes)
{
    if (p && bytes >= SW_DEVICE_PAGES_BYTES)
        dev->ops->pin(dev, p, bytes, true);
}
static inline void sw_device_unpin(struct sw_device *dev, void *p, size_t bytes)
{
    if (p && bytes >= SW_DEVICE_PAGES_BYTES)
        dev->ops->pin(dev, p, bytes, false);
}
/* Zeroed host memory, aligned to 64 bytes, in pages of its own that are held in place: for small
 * blocks that copies of this device use again and again. Without, a copy from it is staged, and one
 * to it waited for. It lies near the calling thread. */
SW_MUST_CHECK static inline int sw_device_host_alloc(struct sw_device *dev, size_t bytes,
                                                     const char *what, void **out,
                                                     struct sw_err *err)
{
    return dev->ops->host_alloc(dev, bytes, what, out, err);
}
static inline void sw_device_host_free(struct sw_device *dev, void *p, size_t bytes)
{
    if (p)
        dev->ops->host_free(dev, p, bytes);
}
/* Any thread. On `cpu` the sum over all CPU devices of the process. */
static inline struct sw_device_bytes sw_device_bytes_of(struct sw_device *dev)
{
    return dev->ops->bytes(dev);
}
/* Names a part of an allocation ("conv1 (feature)") for messages; a part may have several names,
 * one for each blob that uses it in turn. Copied; forgotten with the allocation. */
static inline void sw_device_name(struct sw_device *dev, const void *p, size_t bytes,
                                  const char *what)
{
    if (p && bytes)
        dev->ops->name(dev, p, bytes, what);
}
/* Bytes handed out by sw_device_alloc and not given back, over all CPU devices; and the peak. */
size_t sw_cpu_bytes_in_use(void);
size_t sw_cpu_bytes_peak(void);

/* threads: the stream's math threads. The calling thread is the one that uses it, until another
 * attaches itself. */
SW_MUST_CHECK static inline int sw_stream_new(struct sw_device *dev, int threads,
                                              struct sw_stream **out, struct sw_err *err)
{
    return dev->ops->stream_new(dev, threads, false, out, err);
}
/* The same for work that others wait for, such as gradients to send: a busy device runs operations
 * of such streams first (GPUs; only the order of work changes). */
SW_MUST_CHECK static inline int sw_stream_new_urgent(struct sw_device *dev, int threads,
                                                     struct sw_stream **out, struct sw_err *err)
{
    return dev->ops->stream_new(dev, threads, true, out, err);
}
/* The calling thread is the one that uses the stream from now on: a stream and its plans may be
 * made by one thread and run by another. */
static inline void sw_stream_attach(struct sw_stream *s)
{
    s->dev->ops->stream_attach(s);
}
/* Names the purpose of the stream ("compute") for messages; before anything is queued. Copied. */
static inline void sw_stream_name(struct sw_stream *s, const char *name)
{
    s->dev->ops->stream_name(s, name);
}
static inline void sw_stream_free(struct sw_stream *s)
{
    if (s)
        s->dev->ops->stream_free(s);
}
/* Waits on the host until everything queued is done. Also after an error nothing that was queued
 * touches host memory any more. */
SW_MUST_CHECK static inline int sw_stream_wait(struct sw_stream *s, struct sw_err *err)
{
    return s->dev->ops->stream_wait(s, err);
}

/* Calls lane(user, 0 .. lanes - 1) and returns when all are done: where operations run at once, at
 * the same time on the stream's math threads, each on one of them, so that the streams that a lane
 * uses are made with one thread. The error is that of the first lane that had one. */
SW_MUST_CHECK static inline int sw_stream_share(struct sw_stream *s, int lanes,
                                                sw_stream_lane *lane, void *user,
                                                struct sw_err *err)
{
    return s->dev->ops->run_lanes(s, lanes, lane, user, err);
}
/* Runs the lanes one after the other on the calling thread: for devices that only queue. */
int sw_stream_share_in_turn(struct sw_stream *s, int lanes, sw_stream_lane *lane, void *user,
                            struct sw_err *err);

/* Events mark places in streams of one kind of device; one stream at a time records an event. Free
 * one at any time. */
SW_MUST_CHECK static inline int sw_event_new(struct sw_device *dev, struct sw_event **out,
                                             struct sw_err *err)
{
    return dev->ops->event_new(dev, out, err);
}
static inline void sw_event_free(struct sw_device *dev, struct sw_event *e)
{
    if (e)
        dev->ops->event_free(e);
}
/* The event happens when the stream has done what is queued so far. */
SW_MUST_CHECK static inline int sw_event_record(struct sw_stream *s, struct sw_event *e,
                                                struct sw_err *err)
{
    return s->dev->ops->event_record(s, e, err);
}
/* What is queued from here on runs after the latest record that was asked for before this call; an
 * event that nobody recorded is passed. When the recording stream fails, so does this one. */
SW_MUST_CHECK static inline int sw_event_wait(struct sw_stream *s, struct sw_event *e,
                                              struct sw_err *err)
{
    return s->dev->ops->event_wait(s, e, err);
}
/* The same on the host, for any thread: returns when the record has happened, or the error of the
 * stream that was to record. */
SW_MUST_CHECK static inline int sw_event_host_wait(struct sw_device *dev, struct sw_event *e,
                                                   struct sw_err *err)
{
    return dev->ops->event_host_wait(e, err);
}

/* Calls fn(user) when everything queued so far is done, on a thread of the device's: it must be
 * quick, and must not call functions of devices. Not called when the stream has failed before. A
 * host function orders nothing: what acts on it queues a wait for an event, too, which costs
 * nothing once that has happened (device/sim/race.h). */
SW_MUST_CHECK static inline int sw_stream_call(struct sw_stream *s, void (*fn)(void *user),
                                               void *user, struct sw_err *err)
{
    return s->dev->ops->call(s, fn, user, err);
}

/* Between the host's memory and the device's, or inside either; no overlap. Both sides are touched
 * when the copy's turn has come, so that a host pointer must stay valid, its source unchanged and
 * its destination unread, until the stream or an event was waited for. */
SW_MUST_CHECK static inline int sw_copy(struct sw_stream *s, void *dst, const void *src,
                                        size_t bytes, struct sw_err *err)
{
    return s->dev->ops->copy(s, dst, src, bytes, err);
}
/* As sw_copy between two devices of one kind, or one of them and a device with host memory; s is a
 * stream of either, not of the one with host memory. Between two it goes by way of the host, unless
 * they were told to reach each other. */
SW_MUST_CHECK static inline int sw_copy_peer(struct sw_stream *s, struct sw_device *dst_dev,
                                             void *dst, struct sw_device *src_dev, const void *src,
                                             size_t bytes, struct sw_err *err)
{
    return s->dev->ops->copy_peer(s, dst_dev, dst, src_dev, src, bytes, err);
}
/* Whether copies of streams of dev can go directly to and from its peer. It does not show that they
 * are correct: on some boards direct copies corrupt data. */
static inline bool sw_device_reaches(struct sw_device *dev, struct sw_device *peer)
{
    return dev->ops->can_access_peer(dev, peer);
}
/* Enables direct copies, permanently. Before anything is queued for either. Errors:
 * SW_ERR_UNSUPPORTED, those of the device. */
SW_MUST_CHECK static inline int sw_device_reach(struct sw_device *dev, struct sw_device *peer,
                                                struct sw_err *err)
{
    return dev->ops->enable_peer_access(dev, peer, err);
}
/* Copies rows of `width` bytes that begin a pitch from one another on either side. */
SW_MUST_CHECK static inline int sw_copy_2d(struct sw_stream *s, void *dst, size_t dst_pitch,
                                           const void *src, size_t src_pitch, size_t width,
                                           int64_t rows, struct sw_err *err)
{
    return s->dev->ops->copy_2d(s, dst, dst_pitch, src, src_pitch, width, rows, err);
}
SW_MUST_CHECK static inline int sw_fill_zero(struct sw_stream *s, void *dst, size_t bytes,
                                             struct sw_err *err)
{
    return s->dev->ops->fill_zero(s, dst, bytes, err);
}

/* ---- Graphs: what was queued once, queued again with one call ---- */

/* Whether streams of the device can be captured; not if operations run at once. */
static inline bool sw_device_has_graphs(const struct sw_device *dev)
{
    return dev->caps->captures;
}
/* From here on what is queued on the stream is not run but kept, with all its arguments, as is what
 * other streams of the device are given behind an event that was recorded meanwhile; these come
 * back by an event that the stream waits for before the end. Until then nothing waits on the host
 * for any of them, calls host functions or makes plans, and they wait for no event of before: what
 * cannot be kept answers SW_ERR_UNSUPPORTED, saying so, and the capture comes to nothing. Memory is
 * neither taken nor freed. Errors: SW_ERR_UNSUPPORTED. */
SW_MUST_CHECK static inline int sw_capture_begin(struct sw_stream *s, struct sw_err *err)
{
    if (sw_device_has_graphs(s->dev))
        return s->dev->ops->capture_begin(s, err);
    return sw_err_set(err, SW_ERR_UNSUPPORTED,
                      "%s runs operations immediately, so its streams cannot be captured",
                      s->dev->name);
}
/* Ends the capture, whatever has failed since; *out becomes the graph. Errors: why there is none.
 * Events that were recorded during the capture belong to the graph: nobody may wait for them before
 * they are recorded again. */
SW_MUST_CHECK static inline int sw_capture_end(struct sw_stream *s, struct sw_graph **out,
                                               struct sw_err *err)
{
    return s->dev->ops->capture_end(s, out, err);
}
/* Queues the whole graph on the captured stream. Pointers among the arguments must still be valid;
 * the memory is read when the graph runs. */
SW_MUST_CHECK static inline int sw_graph_launch(struct sw_stream *s, struct sw_graph *g,
                                                struct sw_err *err)
{
    return s->dev->ops->graph_launch(s, g, err);
}
/* Frees a graph when nothing of it runs any more, and before its streams are freed. */
static inline void sw_graph_free(struct sw_device *dev, struct sw_graph *g)
{
    if (g)
        dev->ops->graph_free(g);
}

/* *finite becomes whether all n elements are finite. Waits for the answer. */
SW_MUST_CHECK static inline int sw_op_all_finite(struct sw_stream *s, const float *x, int64_t n,
                                                 bool *finite, struct sw_err *err)
{
    return s->dev->ops->all_finite(s, x, n, finite, err);
}
