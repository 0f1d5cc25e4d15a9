/* The sim device: its struct and locks, and which file does what. Internal to device/sim, as its
 * other headers: memory.h, event.h, stream.h (operations), capture.h, race.h.
 *
 * Files call only those below them:
 *
 * driver.c   the driver: properties known before a device is open
 * open.c     opening, closing, canceling, the table
 * conf.c     the option text
 * graph.c    launching captured operations
 * ops.c      operations, records, waits
 * copy.c     copies
 * plan.c     plans
 * collective.c  all-reduces
 * meeting.c     members of all-reduces, also of several hosts
 * stream.c   the ring and thread of a stream, waiting, canceling
 * capture.c  captures
 * event.c    events
 * device.c   creation and freeing, reference counts, faults
 * link.c     duration of copies
 * memory.c   address space, allocations, pointer checks
 * race.c     the race detector
 * clock.c    the order of operations
 * name.c     names of memory
 *
 * Functions without a comment are entries of the device's table, described in device/device.h.
 *
 * Order of locks: device, then stream, then event; no operation runs while one of them is held.
 * While a lock of names, accesses or links is held, no other lock is taken, except the link lock of
 * another device. */
#pragma once

#include "device/driver.h"
#include "device/plan.h"
#include "device/sim/race.h"
#include "device/sim/sim.h"
#include "thread/thread.h"

enum {
    SW_SIM_RING = 512,   /* operations queued on one stream */
    SW_SIM_STREAMS = 64, /* of one device */
    SW_SIM_GRANULE = 4096,
    SW_SIM_NAME = 48,  /* length of a name */
    SW_SIM_WHAT = 112, /* length of the description of an address: two names */
};

extern const struct sw_driver sw_driver_sim;

struct sw_sim_block {
    size_t offset, bytes; /* offset from the device's start; size as requested */
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
    int count;
    int64_t room;
    struct sw_sim_name *freed; /* owned: ring of the names of freed memory, or NULL */
    unsigned freed_count;
};

/* Accesses of copies to host memory; shared by devices that were joined. */
struct sw_sim_host {
    int owners; /* atomic */
    struct sw_sim_names names;
    struct sw_sim_uses uses;
};

struct sw_sim_link {
    int64_t free_ns; /* when all copies requested so far have passed the link */
    struct sw_sim_traffic traffic;
};

struct sw_sim_stream;
struct sw_sim_graph;
struct sw_sim_collective;

struct sw_sim_device {
    struct sw_device base; /* first member */
    struct sw_sim_conf conf;
    struct sw_device *cpu; /* owned: computes */
    char *user_base; /* start of the inaccessible half of the address space, which users see; the
                        data is `capacity` bytes higher */
    size_t capacity; /* bytes, whole granules */
    int probe_fd;    /* used to test whether an address is readable */
    struct sw_sim_names names;
    struct sw_sim_uses uses;
    struct sw_sim_host *host;  /* shared */
    struct sw_mutex link_lock; /* guards link */
    struct sw_sim_link link[SW_SIM_DIRECTIONS];
    uint64_t reached; /* bit i: peer access to GPU i is enabled; guarded by link_lock */
    double slow;      /* slowdown of computations */

    struct sw_mutex lock; /* guards all below */
    int owners;           /* the opener and every stream; the last one frees */
    bool cancelled, lost;
    struct sw_sim_block *block; /* owned, ascending */
    int blocks;
    int64_t block_room;
    size_t in_use, peak, taken;                   /* in bytes; taken: rounded up to granules */
    struct sw_sim_stream *stream[SW_SIM_STREAMS]; /* live streams; NULL: free entries */
    int64_t operations, allocations;              /* begun */
    struct sw_sim_graph *capture;                 /* borrowed: the current capture; NULL: none */
    uint64_t captures;                            /* number of captures so far */
    enum sw_sim_fault fault;
    int64_t fault_at;
};

static inline struct sw_sim_device *sw_sim_device_of(struct sw_device *dev)
{
    return (struct sw_sim_device *)(void *)dev;
}

extern const struct sw_plan_makers sw_sim_plans;
extern const struct sw_collective_ops sw_sim_collectives;

/* device.c */
int sw_sim_device_new(const struct sw_sim_conf *conf, int index, struct sw_sim_device **out,
                      struct sw_err *err) SW_MUST_CHECK;
/* Counts an operation that begins and returns the fault to inject into it. */
enum sw_sim_fault sw_sim_begin(struct sw_sim_device *d);
void sw_sim_release(struct sw_sim_device *d); /* drops one reference */
