/* Collective operations over several devices of a process, by a library that knows their links
 * (NCCL for GPUs). Each kind of device has one table of functions; `sim` has one, too, so that
 * queueing, ordering and waiting are tested on every machine. A member is a device, identified by
 * its rank.
 *
 * Operations are queued on streams like any other; each starts when all members have reached it.
 * They must be queued in the same order on every member, and the calls of all members for one
 * operation form a group between group_begin and group_end, and may not run before its end. A
 * member has at most one operation in progress, whatever the stream. The library chooses the order
 * of a sum: results are bit-identical in every run and on every member, but depend on the number of
 * members.
 *
 * Thread rule: groups and their operations by one thread at a time; check and abort by any thread,
 * even while another thread is inside a group. */
#pragma once

#include "device/device.h"

enum { SW_COLLECTIVE_RANKS = 64 };

struct sw_collective;

/* The functions of a kind of device; the inline functions below describe each. */
struct sw_collective_ops {
    const char *(*name)(char *out, size_t bytes); /* "NCCL 2.28.9" */
    int (*open)(struct sw_device *const *devices, int ranks, int timeout_ms,
                struct sw_collective **out, struct sw_err *err);
    void (*close)(struct sw_collective *c);
    int (*group_begin)(struct sw_collective *c, struct sw_err *err);
    int (*all_reduce)(struct sw_collective *c, int rank, struct sw_stream *s, float *x, int64_t n,
                      struct sw_err *err);
    int (*group_end)(struct sw_collective *c, struct sw_err *err);
    int (*check)(struct sw_collective *c, struct sw_err *err);
    void (*abort)(struct sw_collective *c);
    bool (*abort_ends)(struct sw_collective *c, int timeout_ms);
};

struct sw_collective {
    const struct sw_collective_ops *ops;
    int ranks;
    /* Not NULL: a library call hangs and may still use this object and the devices, so none of them
     * is freed. Borrowed. */
    void *hanging;
};

/* The library of the device's kind. Errors: SW_ERR_UNSUPPORTED, SW_ERR_NOTFOUND say what is
 * missing. */
SW_MUST_CHECK static inline int sw_device_collectives(struct sw_device *dev,
                                                      const struct sw_collective_ops **out,
                                                      struct sw_err *err)
{
    return dev->ops->collectives(dev, out, err);
}

/* Creates the collective of the devices, which must be different. Call it before large allocations,
 * since the library allocates device memory. The devices are borrowed until close. Errors:
 * SW_ERR_INVALID (one device twice), SW_ERR_LIBRARY (they did not connect in time), SW_ERR_NOMEM.
 */
SW_MUST_CHECK static inline int sw_collective_open(const struct sw_collective_ops *ops,
                                                   struct sw_device *const *devices, int ranks,
                                                   int timeout_ms, struct sw_collective **out,
                                                   struct sw_err *err)
{
    return ops->open(devices, ranks, timeout_ms, out, err);
}
/* Closes the collective when all operations are done; operations that still run are aborted. NULL
 * is accepted. A collective in which a call hangs is leaked. */
static inline void sw_collective_close(struct sw_collective *c)
{
    if (c && !c->hanging)
        c->ops->close(c);
}
SW_MUST_CHECK static inline int sw_collective_begin(struct sw_collective *c, struct sw_err *err)
{
    return c->ops->group_begin(c, err);
}
/* Ends a group of operations, which are then queued on all members. Errors: SW_ERR_INVALID (members
 * of the group differ in number or size of operations), those of the library. */
SW_MUST_CHECK static inline int sw_collective_end(struct sw_collective *c, struct sw_err *err)
{
    return c->ops->group_end(c, err);
}
/* Sums x[0 .. n) over all members, in place on each member. s is a stream of that member's device.
 */
SW_MUST_CHECK static inline int sw_collective_sum(struct sw_collective *c, int rank,
                                                  struct sw_stream *s, float *x, int64_t n,
                                                  struct sw_err *err)
{
    return c->ops->all_reduce(c, rank, s, x, n, err);
}
/* Reports errors after operations were queued; the streams themselves may show no error and only
 * stall. */
SW_MUST_CHECK static inline int sw_collective_check(struct sw_collective *c, struct sw_err *err)
{
    return c->ops->check(c, err);
}
/* Aborts the queued operations and all later ones, without a result. Does not wait; cannot be
 * undone. */
static inline void sw_collective_abort(struct sw_collective *c)
{
    c->ops->abort(c);
}
/* Waits until the abort, if there was one, is over. False if it is not after timeout_ms: then it
 * hangs in the library (`hanging`), until a later call returns true. By one thread at a time. */
SW_MUST_CHECK static inline bool sw_collective_abort_ends(struct sw_collective *c, int timeout_ms)
{
    return c->ops->abort_ends(c, timeout_ms);
}
