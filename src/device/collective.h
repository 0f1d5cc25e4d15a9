/* Collective operations over several devices, by a library that knows their links (NCCL for GPUs).
 * Each kind of device has one table of functions; `sim` has one, too, so that queueing, ordering
 * and waiting are tested on every machine. A member is a device; the devices of a process are
 * ranks 0, 1, ... here. Several processes, one on each host, can share a collective: they find each
 * other by an id that one of them makes, and each has some of the members.
 *
 * Operations are queued on streams like any other; each starts when all members have reached it.
 * They must be queued in the same order on every member, and the calls of all members of a process
 * for one operation form a group between group_begin and group_end, and may not run before its end.
 * A member has at most one operation in progress, whatever the stream. The library chooses the
 * order of a sum: results are bit-identical in every run and on every member, but depend on the
 * number of members.
 *
 * A process that aborts ends the operations of its own members only; those of other processes wait
 * for it until they are aborted, too.
 *
 * Thread rule: groups and their operations by one thread at a time; check and abort by any thread,
 * even while another thread is inside a group. */
#pragma once

#include "device/device.h"

enum { SW_COLLECTIVE_RANKS = 64, SW_COLLECTIVE_ID_BYTES = 128 };

struct sw_collective;

/* By which the processes of a collective find each other; each collective needs a new one. */
struct sw_collective_id {
    unsigned char bytes[SW_COLLECTIVE_ID_BYTES];
};

struct sw_collective_args {
    struct sw_device *const *devices;  /* [ranks], all different; borrowed until close */
    int ranks;                         /* members of this process */
    int members, first;                /* of all processes together, and the number of this one's
                                          first member; members 0: there are no others */
    const struct sw_collective_id *id; /* the same in all processes; NULL: there are no others */
    int timeout_ms;                    /* in which all members must have come */
    bool (*cancelled)(void *user);     /* ends the wait for them; NULL: nothing does */
    void *user;
};

/* The functions of a kind of device; the inline functions below describe each. */
struct sw_collective_ops {
    const char *(*name)(char *out, size_t bytes); /* "NCCL 2.28.9" */
    /* Can nobody else read or change what members of several processes exchange? */
    bool secure;
    int (*make_id)(struct sw_collective_id *out, struct sw_err *err);
    int (*accepts)(const struct sw_collective_id *id, struct sw_err *err); /* NULL: every id */
    int (*open)(const struct sw_collective_args *args, struct sw_collective **out,
                struct sw_err *err);
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
    int ranks; /* of this process */
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

/* Makes the id of a collective of several processes, in one of them. Errors: SW_ERR_LIBRARY. */
SW_MUST_CHECK static inline int sw_collective_make_id(const struct sw_collective_ops *ops,
                                                      struct sw_collective_id *out,
                                                      struct sw_err *err)
{
    return ops->make_id(out, err);
}
/* Can this process join a collective of that id? Errors: SW_ERR_UNSUPPORTED says why not. */
SW_MUST_CHECK static inline int sw_collective_accepts(const struct sw_collective_ops *ops,
                                                      const struct sw_collective_id *id,
                                                      struct sw_err *err)
{
    return ops->accepts ? ops->accepts(id, err) : SW_OK;
}
/* Creates the collective of the devices, or joins that of the id; returns when all members have
 * come. Call it before large allocations, since the library allocates device memory. Errors:
 * SW_ERR_INVALID (one device twice), SW_ERR_UNSUPPORTED (the id, as above), SW_ERR_LIBRARY (not all
 * came in time), SW_ERR_CANCELLED, SW_ERR_NOMEM. */
SW_MUST_CHECK static inline int sw_collective_open(const struct sw_collective_ops *ops,
                                                   const struct sw_collective_args *args,
                                                   struct sw_collective **out, struct sw_err *err)
{
    return ops->open(args, out, err);
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
/* Sums x[0 .. n) over all members, in place on each member. rank is one of this process; s is a
 * stream of its device. */
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
/* Aborts the queued operations and all later ones of this process. Does not wait; cannot be undone.
 * A stream may go on behind an aborted operation without an error, and what that leaves in place of
 * a sum is undefined. */
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
