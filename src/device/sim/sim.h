/* The sim device: an accelerator made of threads, so that what is wrong on a GPU because a wait is
 * missing or a pointer is the wrong one is wrong everywhere. It wraps a queue and an address shift
 * around `cpu`; it says nothing about speed.
 *
 * Memory. Addresses that sim hands out are inaccessible for ever: host code that touches one dies.
 * The data lie a constant further on, where only the device's own threads reach. Every operation
 * checks that each of its pointers, with as many bytes as it will touch, lies in one live
 * allocation of the device.
 *
 * Streams. Each has a thread and a ring of operations that run later and in order, on one math
 * thread: results have the bits of a `cpu` stream of one thread. Calls wait only while the ring is
 * full. A copy first fills its destination with signalling NaN and then moves the bytes, when its
 * turn has come. The first error of a stream stays and drops what is queued behind it; freeing
 * plans and streams works at any time and never hangs.
 *
 * Thread rule: as device/device.h; sw_sim_inject and sw_sim_operations may be called by any thread.
 * Plans are freed before their stream, streams before the device is closed (a stream that is left
 * is cancelled, and the device's memory stays until it is freed). */
#ifndef SW_DEVICE_SIM_SIM_H
#define SW_DEVICE_SIM_SIM_H

#include "device/device.h"

enum { SW_SIM_MAX_GPUS = 64 };

struct sw_sim_conf {
    int gpus;              /* how many there are; for the caller, an open opens one of them */
    int64_t memory_bytes;  /* of each */
    int64_t copy_delay_us; /* between fill and bytes of a copy; not an option, for tests */
    bool reference;        /* the cpu's plain plans, as in sw_cpu_open */
};

/* One GPU with 4 GiB. */
struct sw_sim_conf sw_sim_defaults(void);
/* Reads what stands behind "sim:", as in "gpus=4,mem=2GiB", over the defaults; "" is fine. Errors:
 * SW_ERR_INVALID naming the key (the nearest known one), the value and its limits. */
int sw_sim_parse(const char *text, struct sw_sim_conf *conf, struct sw_err *err) SW_MUST_CHECK;

/* Opens simulated GPU `index` (0 to gpus-1), named "sim:INDEX". Close with sw_device_close. Errors:
 * SW_ERR_INVALID, SW_ERR_NOMEM (address space too), SW_ERR_IO. */
int sw_sim_open(const struct sw_sim_conf *conf, int index, struct sw_device **out,
                struct sw_err *err) SW_MUST_CHECK;

/* ---- What tests make go wrong ---- */

enum sw_sim_fault {
    SW_SIM_NO_FAULT,
    SW_SIM_HANG,  /* an operation never ends, until its stream is freed or the device cancelled */
    SW_SIM_LOST,  /* the operation and all later ones of the device fail: SW_ERR_LIBRARY */
    SW_SIM_NOMEM, /* one allocation fails: SW_ERR_NOMEM */
};

/* The fault happens to the first operation (copies, computations, plans; for NOMEM: to the first
 * allocation) that begins after `after` more have begun. Replaces an earlier one. dev is a sim. */
void sw_sim_inject(struct sw_device *dev, enum sw_sim_fault fault, int64_t after);
/* Operations that have begun so far. */
int64_t sw_sim_operations(struct sw_device *dev);

#endif
