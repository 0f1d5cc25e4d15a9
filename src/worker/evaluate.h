/* One pass over the evaluation data. */
#pragma once

#include "base/err.h"
#include <stdbool.h>

struct sw_requests;
struct sw_worker;

/* One pass over the evaluation source with the values as they are. stop: *left becomes true, and
 * nothing comes of it, when a stop is requested and all workers have left the pass; NULL: the pass
 * is finished. */
int sw_evaluate_pass(struct sw_worker *w, struct sw_requests *stop, bool *left,
                     struct sw_err *err) SW_MUST_CHECK;
