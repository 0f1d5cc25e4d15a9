/* The sim device: an accelerator made of threads, so that what is wrong on a GPU because a wait is
 * missing or a pointer is the wrong one is wrong everywhere. It wraps a queue and an address shift
 * around `cpu`; how fast it computes says nothing, how fast it copies is what it is told.
 *
 * Memory. Addresses that sim hands out are inaccessible for ever: host code that touches one dies.
 * The data lie a constant further on, where only the device's own threads reach. Every operation
 * checks that each of its pointers, with as many bytes as it will touch, lies in one live
 * allocation of the device, the same when it runs as when it was queued.
 *
 * Streams. Each has a thread and a ring of operations that run later and in order, on one math
 * thread: results have the bits of a `cpu` stream of one thread. Calls wait only while the ring is
 * full. A copy first fills its destination with signalling NaN and then moves the bytes, when its
 * turn has come. An operation that touches what one of another stream may still write, or writes
 * what that may still read, is an error when it is queued, if neither an event nor the host's
 * waiting is between them; and so is freeing what nobody has waited for (device/sim/race.h). Such
 * messages say what a place is called (sw_device_name) and streams, too. The first error of a
 * stream stays and drops what is queued behind it; freeing plans and streams works at any time and
 * never hangs.
 *
 * Links. A copy to or from the host or a peer takes its bytes by the rate of the link (pcie) and
 * the latency, in real time; copies over one link in one direction queue up. Between GPUs that were
 * not told to reach each other it goes by way of the host. What is computed takes `slow` times as
 * long as the CPU does.
 *
 * Thread rule: as device/device.h; sw_sim_inject and sw_sim_operations may be called by any thread.
 * Plans are freed before their stream, streams before the device is closed (a stream that is left
 * is cancelled, and the device's memory stays until it is freed). */
#pragma once

#include "device/device.h"

enum { SW_SIM_MAX_GPUS = 64 };

enum sw_sim_fault {
    SW_SIM_NO_FAULT,
    SW_SIM_HANG,  /* an operation never ends, until its stream is freed or the device cancelled */
    SW_SIM_LOST,  /* the operation and all later ones of the device fail: SW_ERR_LIBRARY */
    SW_SIM_NOMEM, /* one allocation fails: SW_ERR_NOMEM */
    SW_SIM_WRONG, /* an operation writes a number that is twice or half what it should be */
};

/* Copies from one GPU straight to another. */
enum sw_sim_peer {
    SW_SIM_PEER_NO, /* none reaches another: copies go by way of the host */
    SW_SIM_PEER_YES,
    SW_SIM_PEER_CORRUPT, /* they arrive damaged, but for very small ones */
    SW_SIM_PEER_HANG,    /* they never end */
};

struct sw_sim_conf {
    int gpus;                 /* how many there are; for the caller, an open opens one of them */
    int64_t memory_bytes;     /* of each */
    int64_t link_bytes_per_s; /* 0: copies take as long as the CPU needs */
    int64_t latency_us;       /* of every copy over a link */
    enum sw_sim_peer peer;
    double slow;             /* of the faulty GPU: 3 for three times as long */
    enum sw_sim_fault fault; /* that the faulty GPU meets at its operation (for NOMEM: allocation)
                                number fault_at, from 1 */
    int64_t fault_at;
    int faulty;                  /* which GPU is; -1: the last */
    int64_t copy_delay_us;       /* between fill and bytes of a copy; not an option, for tests */
    bool reference;              /* the cpu's plain plans, as in sw_cpu_open */
    enum sw_precision precision; /* of products; not an option */
};

/* One GPU with 4 GiB, without limits to its links; several are peers. */
struct sw_sim_conf sw_sim_defaults(void);
/* Reads what stands behind "sim:", as in "gpus=4,mem=2GiB,pcie=12GB/s", over the defaults; "" is
 * fine. Errors: SW_ERR_INVALID naming the key (the nearest known one), the value and its limits. */
int sw_sim_parse(const char *text, struct sw_sim_conf *conf, struct sw_err *err) SW_MUST_CHECK;

/* Opens simulated GPU `index` (0 to gpus-1), named "sim:INDEX". Close with sw_device_close. Errors:
 * SW_ERR_INVALID, SW_ERR_NOMEM (address space too), SW_ERR_IO. */
int sw_sim_open(const struct sw_sim_conf *conf, int index, struct sw_device **out,
                struct sw_err *err) SW_MUST_CHECK;
/* Two devices whose copies use the same host memory: a copy of the one that reads what one of the
 * other may still write is found, too. Before dev has streams. */
void sw_sim_join(struct sw_device *dev, struct sw_device *with);

/* What a link has carried so far, and how long it was busy by its rate. Any thread. */
enum sw_sim_direction { SW_SIM_IN, SW_SIM_OUT, SW_SIM_DIRECTIONS };
struct sw_sim_traffic {
    uint64_t bytes;
    int64_t busy_ns;
};
struct sw_sim_traffic sw_sim_traffic(struct sw_device *dev, enum sw_sim_direction direction);

/* ---- What tests make go wrong ---- */

/* The fault happens to the first operation (copies, computations, plans; for NOMEM: to the first
 * allocation) that begins after `after` more have begun. Replaces an earlier one. dev is a sim. */
void sw_sim_inject(struct sw_device *dev, enum sw_sim_fault fault, int64_t after);
/* Operations that have begun so far. */
int64_t sw_sim_operations(struct sw_device *dev);
