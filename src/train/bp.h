/* One update of a worker: forward and backward. */
#ifndef SW_TRAIN_BP_H
#define SW_TRAIN_BP_H

#include "data/prefetch.h"

struct sw_worker;

/* Update `t`: forward, backward with wait-free updates; *loss is the weighted sum of all losses. */
int sw_bp_step(struct sw_worker *w, int64_t t, const struct sw_batch *batch,
               struct sw_err *err) SW_MUST_CHECK;

#endif
