/* Devices: where memory lives and work is queued. Each kind of device has one table of functions;
 * layers call the inline helpers below and never ask which device they are on. Light operations are
 * data (kernels/op.h); heavy ones are plans (device/plan.h), prepared once and run every step.
 *
 * Thread rule: a struct sw_device is frozen after opening. A stream belongs to one worker; its
 * functions are called by that worker's thread only. Everything queued on one stream runs in order.
 * On `cpu` a stream runs each operation immediately, with the calling thread's OpenMP team. On
 * other devices an operation runs asynchronously: memory passed by pointer must stay valid until it
 * has run, and its error is returned by a later call on the stream, sw_stream_wait at the latest,
 * and by all calls after that.
 *
 * Only events and waits order work on different streams. If caps->host_memory is false (sim, cuda),
 * only operations and copies of the device access its memory: such a worker has a second stream, of
 * the CPU, for work in host memory, and the parameters' host memory belongs to its end of the
 * exchange (exchange/port.c). */
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
struct sw_send_limit;
struct sw_tune;

/* Memory of a device: bytes allocated now, the peak, the capacity (0: the machine's memory), and
 * the bytes that the system refused to place on the requested NUMA nodes, in total. bridged: the
 * number of operations without a kernel for the device, which the CPU computed on copies. */
struct sw_device_bytes {
    size_t in_use, peak, capacity, misplaced;
    uint64_t bridged;
};

/* A lane: one of several independent branches of work, each with its own streams. */
typedef int sw_stream_lane(void *user, int lane, struct sw_err *err);

/* A strided copy of `rows` rows of `width` bytes; the pitch is the distance between the starts of
 * rows. */
struct sw_copy_2d {
    void *dst;
    size_t dst_pitch;
    const void *src;
    size_t src_pitch, width;
    int64_t rows;
};

/* The functions of a kind of device; the inline functions below describe each. `run` computes an
 * operation of kernels/op.h. place, pin, name, stream_attach and stream_name are NULL where they
 * would do nothing. */
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
    int (*copy_2d)(struct sw_stream *s, const struct sw_copy_2d *c, struct sw_err *err);
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
    bool own_processor; /* it computes on its own processor, not on the host's cores: its throughput
                           has to be measured, and the CPU time of this process does not include its
                           work */
    bool simulated;     /* it runs on threads of this process, which are named "NAME:INDEX/..." */
    bool on_bus;        /* it is a GPU in the machine map, identified by its PCI address */
};

struct sw_device {
    const struct sw_device_ops *ops;
    const struct sw_device_caps *caps; /* borrowed: its driver's */
    bool host_memory; /* a copy of caps->host_memory, the capability that is checked most */
    enum sw_precision precision; /* of products and stored activations; set when it is opened */
    char name[32];               /* cpu, sim:0, cuda:0 */
    int index;
    struct sw_tune *tune; /* borrowed: measured algorithms (device/tune.h); NULL: the default
                             algorithms. Set before streams are created */
    struct sw_send_limit *send_limit; /* owned: of what it sends (device/send_limit.h); NULL: none.
                                         Set before streams are created */
    bool avoid_winograd;              /* no Winograd convolutions. Set before streams are created */
};

struct sw_stream {
    struct sw_device *dev; /* borrowed */
};

/* Opens the CPU. reference selects the plain im2col plans (also used where oneDNN is not built in):
 * the tests' oracle. Close with sw_device_close. Errors: SW_ERR_NOMEM, SW_ERR_LIBRARY. */
int sw_cpu_open(bool reference, struct sw_device **out, struct sw_err *err) SW_MUST_CHECK;
/* As sw_cpu_open, with the operands of matrix products rounded to `precision`. */
int sw_cpu_open_as(bool reference, enum sw_precision precision, struct sw_device **out,
                   struct sw_err *err) SW_MUST_CHECK;
void sw_device_close(struct sw_device *dev); /* NULL is accepted */
/* Starts the OpenMP team of the calling thread with so many threads. Errors: SW_ERR_NOMEM if the
 * system refuses a thread; without this call libgomp would end the process. */
int sw_cpu_start_team(int threads, struct sw_err *err) SW_MUST_CHECK;
/* Makes the OpenMP threads of this process that wait for each other leave the CPU soon, for runs
 * that share its cores; alone, they spin for up to some milliseconds, which is fastest. libgomp
 * spins 100 times only while there are more OpenMP threads than CPUs (GOMP_SPINCOUNT in its manual;
 * the variable itself is read when the process starts), so this starts a team that sleeps until
 * sw_idle_team_end. The same thread calls both. Errors: SW_ERR_NOMEM; *out is then to be ended,
 * too, if it is set. */
struct sw_idle_team;
int sw_idle_team_start(struct sw_idle_team **out, struct sw_err *err) SW_MUST_CHECK;
void sw_idle_team_end(struct sw_idle_team *t); /* NULL is accepted */
/* Threads of the calling thread's OpenMP team. */
int sw_math_team(void);
/* Writes the math libraries of the CPU, "oneDNN 2.6.3, OpenBLAS 0.3.21", to out. Loads OpenBLAS; if
 * that fails, out has oneDNN only. Errors: SW_ERR_NOMEM, SW_ERR_UNSUPPORTED. */
int sw_cpu_libraries(char *out, size_t bytes, struct sw_err *err) SW_MUST_CHECK;

/* Drops everything that is queued on streams of the device; every wait and call then returns
 * SW_ERR_CANCELLED. A running operation still completes. Any thread; cannot be undone. On `cpu`
 * nothing is ever queued. */
static inline void sw_device_cancel(struct sw_device *dev)
{
    dev->ops->cancel(dev);
}
void sw_device_cancel_v(void *device); /* for sw_fault_attach */

/* Allocations of at least this size have their own pages, which can be placed on NUMA nodes. */
#define SW_DEVICE_PAGES_BYTES ((size_t)2 << 20)

/* Zeroed memory, aligned to 64 bytes, huge pages where large; what names it in errors. */
SW_MUST_CHECK static inline int sw_device_alloc(struct sw_device *dev, size_t bytes,
                                                const char *what, void **out, struct sw_err *err)
{
    return dev->ops->alloc(dev, bytes, 0, what, out, err);
}
/* As sw_device_alloc, on certain NUMA nodes of the host (bit i: the system's node i; 0: any),
 * interleaved over several. Ignored for blocks smaller than SW_DEVICE_PAGES_BYTES, which share
 * pages, and for devices with their own memory. It is no error if the system refuses the placement
 * (some containers do): the bytes are counted (sw_device_bytes_of). */
SW_MUST_CHECK static inline int sw_device_alloc_on(struct sw_device *dev, size_t bytes,
                                                   uint64_t nodes, const char *what, void **out,
                                                   struct sw_err *err)
{
    return dev->ops->alloc(dev, bytes, nodes, what, out, err);
}
/* Places the whole pages inside a part of an allocation on NUMA nodes. The allocation must have its
 * own pages. */
static inline void sw_device_place(struct sw_device *dev, void *p, size_t bytes, uint64_t nodes)
{
    if (dev->ops->place)
        dev->ops->place(dev, p, bytes, nodes);
}
static inline void sw_device_free(struct sw_device *dev, void *p, size_t bytes)
{
    if (p)
        dev->ops->free(dev, p, bytes);
}
/* Page-locks (pins) a whole host allocation that copies of this device use repeatedly, so that they
 * need no staging buffer. Small allocations, which share pages, are not pinned, and a refusal of
 * the system is ignored: copies are then slower. Unpin it before it is freed. */
static inline void sw_device_pin(struct sw_device *dev, void *p, size_t bytes)
{
    if (p && bytes >= SW_DEVICE_PAGES_BYTES && dev->ops->pin)
        dev->ops->pin(dev, p, bytes, true);
}
static inline void sw_device_unpin(struct sw_device *dev, void *p, size_t bytes)
{
    if (p && bytes >= SW_DEVICE_PAGES_BYTES && dev->ops->pin)
        dev->ops->pin(dev, p, bytes, false);
}
/* Allocates zeroed, page-locked host memory, aligned to 64 bytes, near the calling thread: for
 * small blocks that copies of this device use repeatedly. With pageable memory a copy to the device
 * is staged, and a copy to the host is synchronous. */
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
/* Names a part of an allocation ("conv1 (activation)") for messages; a part may have several names,
 * one for each blob that uses it in turn. The name is copied and dropped with the allocation. */
static inline void sw_device_name(struct sw_device *dev, const void *p, size_t bytes,
                                  const char *what)
{
    if (p && bytes && dev->ops->name)
        dev->ops->name(dev, p, bytes, what);
}
/* Bytes that sw_device_alloc has allocated on all CPU devices and that are not freed; and their
 * peak. */
size_t sw_cpu_bytes_in_use(void);
size_t sw_cpu_bytes_peak(void);

/* threads: the stream's math threads. The stream belongs to the calling thread until another one
 * attaches itself. */
SW_MUST_CHECK static inline int sw_stream_new(struct sw_device *dev, int threads,
                                              struct sw_stream **out, struct sw_err *err)
{
    return dev->ops->stream_new(dev, threads, false, out, err);
}
/* As sw_stream_new, with high priority, for work that other threads wait for, such as sending
 * gradients: a busy GPU runs operations of such streams first. Results do not change. */
SW_MUST_CHECK static inline int sw_stream_new_urgent(struct sw_device *dev, int threads,
                                                     struct sw_stream **out, struct sw_err *err)
{
    return dev->ops->stream_new(dev, threads, true, out, err);
}
/* The stream belongs to the calling thread from now on: a stream and its plans may be created by
 * one thread and used by another. */
static inline void sw_stream_attach(struct sw_stream *s)
{
    if (s->dev->ops->stream_attach)
        s->dev->ops->stream_attach(s);
}
/* Names the purpose of the stream ("compute") for messages; call it before anything is queued. The
 * name is copied. */
static inline void sw_stream_name(struct sw_stream *s, const char *name)
{
    if (s->dev->ops->stream_name)
        s->dev->ops->stream_name(s, name);
}
static inline void sw_stream_free(struct sw_stream *s)
{
    if (s)
        s->dev->ops->stream_free(s);
}
/* Waits on the host until everything queued is done. After it returns, even with an error, no
 * queued operation accesses host memory any more. */
SW_MUST_CHECK static inline int sw_stream_wait(struct sw_stream *s, struct sw_err *err)
{
    return s->dev->ops->stream_wait(s, err);
}

/* Calls lane(user, 0 .. lanes - 1) and returns when all calls are done. On `cpu` the lanes run in
 * parallel, each on one math thread of the stream, so the streams that a lane uses are created with
 * one thread. Returns the error of the first lane that failed. */
SW_MUST_CHECK static inline int sw_stream_run_lanes(struct sw_stream *s, int lanes,
                                                    sw_stream_lane *lane, void *user,
                                                    struct sw_err *err)
{
    return s->dev->ops->run_lanes(s, lanes, lane, user, err);
}
/* Runs the lanes one after the other on the calling thread: for devices that only queue. */
int sw_stream_run_lanes_in_turn(struct sw_stream *s, int lanes, sw_stream_lane *lane, void *user,
                                struct sw_err *err);

/* Events mark positions in streams of one kind of device; one stream at a time may record an event.
 * An event may be freed at any time. */
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
/* The event happens when the stream has done all that is queued so far. */
SW_MUST_CHECK static inline int sw_event_record(struct sw_stream *s, struct sw_event *e,
                                                struct sw_err *err)
{
    return s->dev->ops->event_record(s, e, err);
}
/* Operations queued on s after this call run after the latest record of e before this call. Returns
 * at once for an event that was never recorded. If the recording stream fails, so does s. */
SW_MUST_CHECK static inline int sw_event_wait(struct sw_stream *s, struct sw_event *e,
                                              struct sw_err *err)
{
    return s->dev->ops->event_wait(s, e, err);
}
/* Waits on the host, on any thread, until the latest record has happened. Errors: that of the
 * recording stream. */
SW_MUST_CHECK static inline int sw_event_host_wait(struct sw_device *dev, struct sw_event *e,
                                                   struct sw_err *err)
{
    return dev->ops->event_host_wait(e, err);
}

/* Calls fn(user) on a thread of the device when everything queued so far is done. fn must be quick
 * and must not call functions of devices. It is not called if the stream has failed before. A host
 * function orders no memory accesses of other streams: code that reacts to it must also wait for an
 * event, which costs nothing if that has already happened (device/sim/race.h). */
SW_MUST_CHECK static inline int sw_stream_call(struct sw_stream *s, void (*fn)(void *user),
                                               void *user, struct sw_err *err)
{
    return s->dev->ops->call(s, fn, user, err);
}

/* Copies between host memory and device memory, or inside either; source and destination must not
 * overlap. The copy is asynchronous: until the stream or an event was waited for, a host pointer
 * must stay valid, the source unchanged and the destination unread. */
SW_MUST_CHECK static inline int sw_copy(struct sw_stream *s, void *dst, const void *src,
                                        size_t bytes, struct sw_err *err)
{
    return s->dev->ops->copy(s, dst, src, bytes, err);
}
/* As sw_copy between two devices of one kind, or one of them and a device with host memory; s is a
 * stream of one of them, not of the device with host memory. Copies between two GPUs go through the
 * host unless peer access was enabled. */
SW_MUST_CHECK static inline int sw_copy_peer(struct sw_stream *s, struct sw_device *dst_dev,
                                             void *dst, struct sw_device *src_dev, const void *src,
                                             size_t bytes, struct sw_err *err)
{
    return s->dev->ops->copy_peer(s, dst_dev, dst, src_dev, src, bytes, err);
}
/* Whether direct copies between dev and its peer are possible for streams of dev. This does not
 * mean that they are correct: on some boards direct copies corrupt data. */
static inline bool sw_device_reaches(struct sw_device *dev, struct sw_device *peer)
{
    return dev->ops->can_access_peer(dev, peer);
}
/* Enables direct copies, permanently. Call it before anything is queued on either device. Errors:
 * SW_ERR_UNSUPPORTED, those of the device. */
SW_MUST_CHECK static inline int sw_device_reach(struct sw_device *dev, struct sw_device *peer,
                                                struct sw_err *err)
{
    return dev->ops->enable_peer_access(dev, peer, err);
}
SW_MUST_CHECK static inline int sw_copy_2d(struct sw_stream *s, const struct sw_copy_2d *c,
                                           struct sw_err *err)
{
    return s->dev->ops->copy_2d(s, c, err);
}
SW_MUST_CHECK static inline int sw_fill_zero(struct sw_stream *s, void *dst, size_t bytes,
                                             struct sw_err *err)
{
    return s->dev->ops->fill_zero(s, dst, bytes, err);
}

/* ---- Graphs: what was queued once, queued again with one call ---- */

/* Whether streams of the device can be captured. They cannot if operations run immediately. */
static inline bool sw_device_has_graphs(const struct sw_device *dev)
{
    return dev->caps->captures;
}
/* Starts a capture: operations queued on the stream are not run but recorded with all arguments.
 * Another stream of the device joins the capture by waiting for an event that was recorded in it;
 * before the end the captured stream must wait for an event of each joined stream. During a capture
 * the host must not wait for any of these streams, call host functions, create plans, or allocate
 * or free memory, and the streams must not wait for earlier events. A call that cannot be recorded
 * returns SW_ERR_UNSUPPORTED with the reason, and the capture fails. Errors: SW_ERR_UNSUPPORTED. */
SW_MUST_CHECK static inline int sw_capture_begin(struct sw_stream *s, struct sw_err *err)
{
    if (sw_device_has_graphs(s->dev))
        return s->dev->ops->capture_begin(s, err);
    return sw_err_set(err, SW_ERR_UNSUPPORTED,
                      "%s runs operations immediately, so its streams cannot be captured",
                      s->dev->name);
}
/* Ends the capture, even if it has failed, and stores the graph in *out. Errors: the reason why the
 * capture failed. Events that were recorded during the capture belong to the graph: they must be
 * recorded again before anything waits for them. */
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
/* Frees a graph. Call it when the graph does not run any more, and before its streams are freed. */
static inline void sw_graph_free(struct sw_device *dev, struct sw_graph *g)
{
    if (g)
        dev->ops->graph_free(g);
}

/* Sets *finite to whether all n elements are finite. Waits for the result. */
SW_MUST_CHECK static inline int sw_op_all_finite(struct sw_stream *s, const float *x, int64_t n,
                                                 bool *finite, struct sw_err *err)
{
    return s->dev->ops->all_finite(s, x, n, finite, err);
}
