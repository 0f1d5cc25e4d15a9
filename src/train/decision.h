/* One decision about all updates of a step, where the worker's device makes it (train/replica.h).
 */
#ifndef SW_TRAIN_DECISION_H
#define SW_TRAIN_DECISION_H

#include "base/err.h"
#include <stdbool.h>
#include <stdint.h>

struct sw_worker;

/* Does it do so within the operations of the step, behind its last backward? These: */
bool sw_decision_is_inside(const struct sw_worker *w);
int sw_decision_queue(struct sw_worker *w, int64_t t, struct sw_err *err) SW_MUST_CHECK;
/* Else, when all gradients of step t are handed over. */
int sw_decision_make(struct sw_worker *w, int64_t t, struct sw_err *err) SW_MUST_CHECK;
/* When the device has been waited for: what was decided becomes known. Errors: SW_ERR_DIVERGED
 * where a gradient that is not finite stops. */
int sw_decision_learn(struct sw_worker *w, int64_t t, struct sw_err *err) SW_MUST_CHECK;

#endif
