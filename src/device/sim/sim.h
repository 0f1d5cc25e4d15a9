/* The sim device: an accelerator made of threads, on which a missing wait or a wrong pointer is an
 * error on every machine and not only on a GPU. It adds a queue and an address translation to
 * `cpu`. Its speed of computing means nothing; its speed of copying is configured.
 *
 * Memory. Addresses that sim returns are never accessible: host code that touches one crashes. The
 * data is at a constant offset, where only threads of the device access it. Every operation checks
 * that each of its pointers, with as many bytes as it will touch, lies in one live allocation of
 * the device, and that it is the same allocation when it runs as when it was queued.
 *
 * Streams. Each has a thread and a ring of operations that run later and in order, on one math
 * thread: results have the bits of a `cpu` stream of one thread. Calls wait only while the ring is
 * full. A copy first fills its destination with signalling NaN and moves the data when it runs. An
 * operation that touches memory that an operation of another stream may still write, or writes
 * memory that one may still read, is an error when it is queued, unless an event or a wait of the
 * host orders them; so is freeing memory that nobody has waited for (device/sim/race.h). Such
 * messages use the names of memory (sw_device_name) and streams. The first error of a stream
 * persists and drops the operations behind it; freeing plans and streams works at any time and
 * never hangs.
 *
 * Links. A copy to or from the host or a peer takes the time of its bytes by the rate of the link
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
