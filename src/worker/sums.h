/* Barriers, waits and sums of workers; meanwhile a worker runs its servers and shows in the live
 * snapshot what it waits for. */
#pragma once

#include "base/err.h"
#include <stdbool.h>
#include <stdint.h>

struct sw_result;
struct sw_worker;

/* Sums values over the workers: of a training pass over all that share the batch, of an evaluation
 * over the group. */
int sw_worker_sum(void *worker, double *values, int count, bool in_rows,
                  struct sw_err *err) SW_MUST_CHECK;
int sw_worker_sum_in_group(void *worker, double *values, int count, bool in_rows,
                           struct sw_err *err) SW_MUST_CHECK;
/* sw_group_total of all workers, which waits for those of other hosts. */
int sw_worker_total(struct sw_worker *w, int64_t t, struct sw_result *totals, int count,
                    struct sw_err *err) SW_MUST_CHECK;
/* sw_requests_take, which may wait for other hosts. */
int sw_worker_requests(const struct sw_worker *w, int64_t step);
/* Do the devices of the worker's group sum layers themselves (layer_sums.h)? They do where they
 * also reduce gradients, so that the links between them are tested. */
bool sw_worker_sums_on_device(const struct sw_worker *w);
/* Values of the longest sum that they make; 0: none. Once all training nets are built. */
int sw_worker_longest_sum(const struct sw_worker *w);
/* As sw_worker_sum, for values in device memory. Waits until the other workers have queued theirs,
 * not for devices. */
int sw_worker_queue_sum(void *worker, double *values, int count, struct sw_err *err) SW_MUST_CHECK;
/* The following functions wait, and meanwhile the live snapshot shows that the worker waits for
 * `what`. Errors: SW_ERR_CANCELLED when the job is ending. */
/* Barrier of all workers; or of those that made step w->step. */
int sw_worker_barrier(struct sw_worker *w, const char *what, struct sw_err *err) SW_MUST_CHECK;
int sw_worker_barrier_active(struct sw_worker *w, const char *what,
                             struct sw_err *err) SW_MUST_CHECK;
/* Sleeps until the warm-up of the first group is over; sets w->step to the step after which all
 * continue. */
int sw_worker_sleep_in_warmup(struct sw_worker *w, struct sw_err *err) SW_MUST_CHECK;
/* Waits until no worker is more than `most` steps behind this one. */
int sw_worker_keep_pace(struct sw_worker *w, int64_t most, struct sw_err *err) SW_MUST_CHECK;
/* Waits until over(state), which another worker of the group makes true, followed by
 * sw_group_notify. Returns as sw_group_wait. */
int sw_worker_wait_in_group(struct sw_worker *w, const char *what, bool (*over)(const void *state),
                            const void *state) SW_MUST_CHECK;
