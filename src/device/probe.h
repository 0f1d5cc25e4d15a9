/* Probes of devices and of the links between them: are results, copies and all-reduces correct, and
 * how fast are the links? Values are computed, copied or all-reduced, and compared. A probe may
 * hang if hardware or driver are broken, so run it only in threads and processes that can be
 * abandoned. */
#pragma once

#include "device/collective.h"

struct sw_probe_result {
    double gb_per_s, latency_us; /* the best of several runs; 0 if the probe failed */
};

/* Probes copies from one device to another (one side may be NULL: the host) in blocks of several
 * sizes, some unaligned, on streams of both, over the current path: direct or through the host.
 * Errors: SW_ERR_FORMAT (data was corrupted), those of the devices. */
int sw_probe_copies(struct sw_device *from, struct sw_device *to, struct sw_probe_result *out,
                    struct sw_err *err) SW_MUST_CHECK;

/* Probes whether the device computes what the host does, with operations, a plan with its gradients
 * and a graph. Errors: SW_ERR_FORMAT (a result is wrong), those of the devices. */
int sw_probe_compute(struct sw_device *dev, struct sw_err *err) SW_MUST_CHECK;

/* Probes all-reduces of integers over all devices with their collective library; the result is
 * exact in any order. Errors: SW_ERR_FORMAT (a result is wrong), SW_ERR_UNSUPPORTED (no library),
 * those of the devices. */
int sw_probe_allreduce(struct sw_device *const *devices, int count, int timeout_ms,
                       struct sw_probe_result *out, struct sw_err *err) SW_MUST_CHECK;
