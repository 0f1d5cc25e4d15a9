/* The memory of a job, which is known before any is allocated (bytes.c), and keeping it within its
 * budget, memory = fit:SIZE, and within the memory of devices (fit.c). */
#pragma once

#include "base/err.h"
#include <stddef.h>

struct sw_job;
struct sw_microbatches;
struct sw_worker;

/* Bytes of parameters, gradients and updater state on a worker's device; 0: they are on the host.
 */
size_t sw_worker_param_bytes(const struct sw_worker *w);
/* Bytes of everything that the worker has on its device except the arena: parameters, buffers and
 * batches. */
size_t sw_worker_fixed_bytes(const struct sw_worker *w);
/* Bytes that all workers on this worker's device hold there; 0: it uses host memory. */
size_t sw_worker_device_bytes(const struct sw_worker *w);
/* Fills the plan's bytes from the current nets. */
void sw_job_sum_memory(struct sw_job *job);

/* Fits the job into memory = fit:SIZE, after all nets are built and before anything is allocated,
 * and checks that devices can hold their part. Errors: SW_ERR_NOMEM, naming a budget that suffices.
 */
int sw_job_fit(struct sw_job *job, struct sw_err *err) SW_MUST_CHECK;
/* Fits new training nets of a worker, for other rows, into the limit of its arena. Errors:
 * SW_ERR_NOMEM. */
int sw_job_refit(struct sw_job *job, const struct sw_worker *w, struct sw_microbatches *fresh,
                 struct sw_err *err) SW_MUST_CHECK;
