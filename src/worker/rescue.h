/* Brings the last complete step of devices to the host after the loss of another host, when the
 * collective of the devices was aborted and the worker's stream may have failed. */
#pragma once

#include "base/err.h"
#include <stdint.h>

struct sw_worker;

/* Once all roles have ended, by one thread: copies the parameters, the state of their updater and
 * the running statistics of the last step that any of the job's devices has completed to the job's
 * memory; *step: that step, or `first` if none was. Errors: those of sw_exchange_rescue. */
int sw_workers_rescue(struct sw_worker *workers, int64_t first, int64_t *step,
                      struct sw_err *err) SW_MUST_CHECK;
