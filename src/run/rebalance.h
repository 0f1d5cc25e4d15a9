/* Distributing the rows of a batch by the measured speed of the workers.
 *
 * The leader rebuilds the nets, batches and segments of all workers while they wait. So other
 * threads than the workers keep no pointers into nets, and a worker reads its own again after such
 * a barrier. The rows are among a checkpoint's choices (saved_choices.h), and a resumed run begins
 * with them. */
#pragma once

#include "base/err.h"
#include <stdbool.h>
#include <stdint.h>

struct sw_job;
struct sw_worker;

/* Distributes rows by speed: ms[i] is the time of rows[i]. out: `total` rows over `count` workers,
 * at least one for each. Returns whether the gain is large enough. */
bool sw_rebalance_split(int64_t total, int count, const int64_t *rows, const double *ms,
                        int64_t *out);
/* Called by all workers after an evaluation: redistributes the rows by their speed. */
int sw_rebalance(struct sw_job *job, struct sw_worker *w, struct sw_err *err) SW_MUST_CHECK;
