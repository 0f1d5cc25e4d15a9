/* The sim device: an accelerator made of threads, on which a missing wait or a wrong pointer is an
 * error on every machine and not only on a GPU. It adds a queue and an address translation to
 * `cpu`. Its compute speed is meaningless; its copy speed is configured.
 *
 * Memory. Addresses that sim returns are never accessible: host code that touches one crashes. The
 * data is at a constant offset, where only threads of the device access it. Every operation checks
 * that the bytes it will access at each pointer are inside one live allocation of the device, and
 * that the allocation is the same when it runs as when it was queued.
 *
 * Streams. Each has a thread and a ring of operations that run asynchronously and in order, on one
 * math thread: results are bit-identical to a `cpu` stream with one thread. Calls wait only while
 * the ring is full. A copy first fills its destination with signalling NaN and moves the data when
 * it runs. An operation that touches memory that an operation of another stream may still write, or
 * writes memory that one may still read, is an error when it is queued, unless an event or a wait
 * of the host orders them; so is freeing memory while an operation may still use it
 * (device/sim/race.h). Such messages use the names of memory (sw_device_name) and streams. The
 * first error of a stream persists and drops all later operations; freeing plans and streams works
 * at any time and never hangs.
 *
 * Links. A copy to or from the host or a peer takes its bytes divided by the bandwidth of the link
 * (pcie) plus the latency, in real time; copies over one link in one direction queue up. Between
 * GPUs without peer access it goes through the host. Computing takes `slow` times as long as on the
 * CPU.
 *
 * Thread rule: as in device/device.h; any thread may call sw_sim_inject and sw_sim_operations.
 * Plans are freed before their stream, and streams before the device is closed (a remaining stream
 * is cancelled, and the memory of the device stays until the stream is freed). */
#pragma once

#include "device/device.h"

enum { SW_SIM_MAX_GPUS = 64 };

enum sw_sim_fault {
    SW_SIM_NO_FAULT,
    SW_SIM_HANG,  /* an operation hangs until its stream is freed or the device cancelled */
    SW_SIM_LOST,  /* the operation and all later ones of the device fail: SW_ERR_LIBRARY */
    SW_SIM_NOMEM, /* one allocation fails: SW_ERR_NOMEM */
    SW_SIM_WRONG, /* an operation writes one value that is twice or half the correct one */
};

/* Direct copies between GPUs. */
enum sw_sim_peer {
    SW_SIM_PEER_NO, /* no peer access: copies go through the host */
    SW_SIM_PEER_YES,
    SW_SIM_PEER_CORRUPT, /* direct copies are corrupted, except very small ones */
    SW_SIM_PEER_HANG,    /* direct copies hang */
};

struct sw_sim_conf {
    int gpus;                 /* number of GPUs; sw_sim_open opens one of them */
    int64_t memory_bytes;     /* of each */
    int64_t link_bytes_per_s; /* bandwidth; 0: copies take as long as the CPU needs */
    int64_t latency_us;       /* of every copy over a link */
    enum sw_sim_peer peer;
    double slow; /* slowdown of the faulty GPU: 3 means that computing takes three times as long */
    enum sw_sim_fault fault; /* fault of the faulty GPU at its operation (for NOMEM: allocation)
                                number fault_at, from 1 */
    int64_t fault_at;
    int faulty;            /* index of the faulty GPU; -1: the last */
    int64_t copy_delay_us; /* delay between filling the destination and moving the bytes; for tests,
                              not an option */
    bool reference;        /* use the reference plans, as in sw_cpu_open */
    enum sw_precision precision; /* of products; not an option */
};

/* The defaults: one GPU with 4 GiB and unlimited links; if there are several, they have peer
 * access. */
struct sw_sim_conf sw_sim_defaults(void);
/* Parses the options after "sim:", as in "gpus=4,mem=2GiB,pcie=12GB/s"; missing keys keep their
 * defaults. Errors: SW_ERR_INVALID naming the key (the nearest known one), the value and its
 * limits. */
int sw_sim_parse(const char *text, struct sw_sim_conf *conf, struct sw_err *err) SW_MUST_CHECK;

/* Opens simulated GPU `index` (0 to gpus-1), named "sim:INDEX". Close with sw_device_close. Errors:
 * SW_ERR_INVALID, SW_ERR_NOMEM (address space too), SW_ERR_IO. */
int sw_sim_open(const struct sw_sim_conf *conf, int index, struct sw_device **out,
                struct sw_err *err) SW_MUST_CHECK;
/* Makes dev share the record of host memory accesses with another device, so that conflicting
 * copies of the two are detected, too. Call it before dev has streams. */
void sw_sim_join(struct sw_device *dev, struct sw_device *with);

/* The traffic of a link so far, and how long it was busy at its bandwidth. Any thread. */
enum sw_sim_direction { SW_SIM_IN, SW_SIM_OUT, SW_SIM_DIRECTIONS };
struct sw_sim_traffic {
    uint64_t bytes;
    int64_t busy_ns;
};
struct sw_sim_traffic sw_sim_traffic(struct sw_device *dev, enum sw_sim_direction direction);

/* ---- What tests make go wrong ---- */

/* Injects a fault into the first operation (copy, computation or plan; for NOMEM: allocation) that
 * begins after `after` more have begun. Replaces an earlier fault. dev must be a sim device. */
void sw_sim_inject(struct sw_device *dev, enum sw_sim_fault fault, int64_t after);
/* The number of operations that have begun so far. */
int64_t sw_sim_operations(struct sw_device *dev);
