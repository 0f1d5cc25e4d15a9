/* One training step of one worker, by its thread. */
#pragma once

#include "base/err.h"
#include <stdint.h>

struct sw_batch;
struct sw_worker;

/* Makes update `t` from the batch: forward, then backward with wait-free updates. */
int sw_train_step(struct sw_worker *w, int64_t t, const struct sw_batch *batch,
                  struct sw_err *err) SW_MUST_CHECK;
