/* Rows of a batch by the speed of the workers, which is measured.
 *
 * The leader rebuilds the nets, batches and segments of all workers while they wait. So other
 * threads than the workers keep no pointers into nets, and a worker reads its own again after such
 * a barrier. The rows are among a checkpoint's choices (kept_choices.h), and a resume begins with
 * them. */
#pragma once

#include "base/err.h"
#include <stdbool.h>
#include <stdint.h>

struct sw_job;
struct sw_worker;

/* Rows by speed: ms[i] is what rows[i] took. out: `total` rows over `count` workers, one at least
 * for each. Does it make enough of a difference? */
bool sw_rebalance_split(int64_t total, int count, const int64_t *rows, const double *ms,
                        int64_t *out);
/* By all workers, after an evaluation: gives them rows by their speed. */
int sw_rebalance(struct sw_job *job, struct sw_worker *w, struct sw_err *err) SW_MUST_CHECK;
