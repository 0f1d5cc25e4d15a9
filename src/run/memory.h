/* How much memory a job takes, which is known before it takes any (bytes.c), and what keeps it
 * within its budget, memory = fit:SIZE, and within what devices have (fit.c). */
#pragma once

#include "base/err.h"
#include <stddef.h>

struct sw_job;
struct sw_parts;
struct sw_worker;

/* Parameters, gradients and updater state on a worker's device; 0: they are on the host. */
size_t sw_worker_param_bytes(const struct sw_worker *w);
/* All that the worker has on its device but for the arena: parameters, states and batches. */
size_t sw_worker_fixed_bytes(const struct sw_worker *w);
/* What all workers on this one's device hold there; 0: it is the host's memory. */
size_t sw_worker_device_bytes(const struct sw_worker *w);
/* Fills the plan's bytes from what the nets have now. */
void sw_job_sum_memory(struct sw_job *job);

/* Meets memory = fit:SIZE, once all nets are built and nothing is allocated, and sees that devices
 * have what they are to hold. Errors: SW_ERR_NOMEM saying what would do. */
int sw_job_fit(struct sw_job *job, struct sw_err *err) SW_MUST_CHECK;
/* Nets of other rows, which are to replace the worker's training nets: within what its arena may
 * take. Errors: SW_ERR_NOMEM. */
int sw_job_refit(struct sw_job *job, const struct sw_worker *w, struct sw_parts *fresh,
                 struct sw_err *err) SW_MUST_CHECK;
