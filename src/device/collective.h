/* Collective operations: what several devices of a process do together, by a library that knows
 * their links better than copies one by one would (NCCL for GPUs). One table of functions per kind
 * of device; `sim` has one too, so that whoever queues, orders and waits is tested everywhere.
 *
 * A member is a device, called by its number, its rank. Operations are queued on streams like any
 * other; each begins when all members have come to it. So all must be queued in one order on every
 * member, and what several members do together stands in one group, between group_begin and
 * group_end: nothing of it need run before the end of the group. One operation at a time is under
 * way for a member, whatever the stream.
 *
 * Sums are made in an order of the library's own: the same bits every time and on every member, but
 * others for another number of members.
 *
 * Thread rule: groups and what is in them by one thread at a time; check and abort by any thread,
 * also while another one is in a group. */
#pragma once

#include "device/device.h"

enum { SW_COLLECTIVE_RANKS = 64 };

struct sw_collective;

/* What every kind has; the inline functions below say what each does. */
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
};

struct sw_collective {
    const struct sw_collective_ops *ops;
    int ranks;
    /* Objects that a hanging library call may still use: borrowed, never to be freed, like the
     * devices. NULL: none. */
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

/* Brings the devices together, all of them different: before memory of a size is taken, since the
 * library takes some for itself. They are borrowed until it is closed. Errors: SW_ERR_INVALID (one
 * device twice), SW_ERR_LIBRARY (they did not come together in time), SW_ERR_NOMEM. */
SW_MUST_CHECK static inline int sw_collective_open(const struct sw_collective_ops *ops,
                                                   struct sw_device *const *devices, int ranks,
                                                   int timeout_ms, struct sw_collective **out,
                                                   struct sw_err *err)
{
    return ops->open(devices, ranks, timeout_ms, out, err);
}
/* Closes it once nothing of it runs; operations that still run are aborted. NULL is accepted. A
 * collective in which a thread hangs is leaked. */
static inline void sw_collective_close(struct sw_collective *c)
{
    if (c && !c->hanging)
        c->ops->close(c);
}
SW_MUST_CHECK static inline int sw_collective_begin(struct sw_collective *c, struct sw_err *err)
{
    return c->ops->group_begin(c, err);
}
/* Errors: SW_ERR_INVALID (members of the group differ in what they do), those of the library. */
SW_MUST_CHECK static inline int sw_collective_end(struct sw_collective *c, struct sw_err *err)
{
    return c->ops->group_end(c, err);
}
/* x[0 .. n) of all members becomes their sum, on each. s is a stream of that member's device. */
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
/* Aborts the queued operations without a result, and everything after them. Never waits; cannot be
 * undone. */
static inline void sw_collective_abort(struct sw_collective *c)
{
    c->ops->abort(c);
}
