/* Probes of the links between devices: are copies and all-reduces correct, and how fast are they?
 * Data is sent and compared, numbers are summed and compared. A probe may hang if hardware or
 * driver are broken, so only threads and processes that can be abandoned may run it. */
#pragma once

#include "device/collective.h"

struct sw_trial {
    double gb_per_s, latency_us; /* best of several; 0 if it failed */
};

/* Copies from one device to another (NULL: the host, on one side) in blocks of several sizes, some
 * unaligned, queued on streams of both, over the current path: direct or through the host. Errors:
 * SW_ERR_FORMAT (data was corrupted), those of the devices. */
int sw_trial_copies(struct sw_device *from, struct sw_device *to, struct sw_trial *out,
                    struct sw_err *err) SW_MUST_CHECK;

/* All-reduces integers over all devices with their library; the result is exact in any order.
 * Errors: SW_ERR_FORMAT (a sum is wrong), SW_ERR_UNSUPPORTED (there is no library), those of the
 * devices. */
int sw_trial_sums(struct sw_device *const *devices, int count, int timeout_ms, struct sw_trial *out,
                  struct sw_err *err) SW_MUST_CHECK;
