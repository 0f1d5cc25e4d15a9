/* One training step of one worker, by its thread. */
#pragma once

#include "base/err.h"
#include <stdint.h>

struct sw_batch;
struct sw_worker;

/* Makes update `t` from the batch: forward, then backward with wait-free updates. A device with its
 * own memory may still be at it. */
int sw_train_step(struct sw_worker *w, int64_t t, const struct sw_batch *batch,
                  struct sw_err *err) SW_MUST_CHECK;
/* Waits for the device, and reads and checks the results of step t. behind: 1 if the next step is
 * already queued, else 0. Errors: SW_ERR_DIVERGED, naming step t. */
int sw_train_finish(struct sw_worker *w, int64_t t, int behind, struct sw_err *err) SW_MUST_CHECK;
