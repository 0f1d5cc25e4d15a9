/* Trials: does what devices do for one another come out right? Bytes are sent and compared, numbers
 * added up and compared. A trial may stand for ever where hardware or driver are at fault: it is
 * for threads and processes that somebody can do without. */
#pragma once

#include "device/collective.h"

struct sw_trial {
    double gb_per_s, latency_us; /* the best of some; 0 when it went wrong */
};

/* Copies from one device to the other (NULL: the host, on one side), in blocks of several sizes, of
 * which some begin between lines, queued on streams of both: the way that they go now, direct or
 * by way of the host. Errors: SW_ERR_FORMAT (bytes arrived otherwise than they were sent), those of
 * the devices. */
int sw_trial_copies(struct sw_device *from, struct sw_device *to, struct sw_trial *out,
                    struct sw_err *err) SW_MUST_CHECK;

/* Sums of whole numbers over all of them by their library, which come out the same in every order.
 * Errors: SW_ERR_FORMAT (a sum is wrong), SW_ERR_UNSUPPORTED (there is no library), those of the
 * devices. */
int sw_trial_sums(struct sw_device *const *devices, int count, int timeout_ms, struct sw_trial *out,
                  struct sw_err *err) SW_MUST_CHECK;
