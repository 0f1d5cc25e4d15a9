/* One pass over the evaluation data. */
#pragma once

#include "base/err.h"
#include <stdbool.h>

struct sw_requests;
struct sw_worker;

/* Makes one pass over the evaluation source with the current values. stop: when a stop is
 * requested, all workers leave the pass, which then has no result, and *left becomes true; NULL:
 * the pass is always finished. */
int sw_evaluate_pass(struct sw_worker *w, struct sw_requests *stop, bool *left,
                     struct sw_err *err) SW_MUST_CHECK;
