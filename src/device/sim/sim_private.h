/* The sim device: its struct and locks, and which file does what. Internal to device/sim, as its
 * other headers: memory.h, event.h, stream.h (operations), capture.h, race.h.
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
    SW_SIM_NAME = 48,  /* of a place */
    SW_SIM_WHAT = 112, /* of what lies at an address: two of those */
};

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
    char *user_base; /* the inaccessible half; the writable one begins `capacity` further on */
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

/* device.c */
int sw_sim_device_new(const struct sw_sim_conf *conf, int index, struct sw_sim_device **out,
                      struct sw_err *err) SW_MUST_CHECK;
/* Counts an operation that begins and says which fault it is to meet. */
enum sw_sim_fault sw_sim_begin(struct sw_sim_device *d);
void sw_sim_release(struct sw_sim_device *d); /* one owner less */
