/* How much memory a job takes, before it does. */
#ifndef SW_TRAIN_BYTES_H
#define SW_TRAIN_BYTES_H

#include <stddef.h>

struct sw_job;
struct sw_worker;

/* What a worker's device holds of parameters, gradients and updater state, beside the host's. */
size_t sw_worker_replica_bytes(const struct sw_worker *w);
/* Fills the plan's bytes from what the nets have now. */
void sw_job_sum_memory(struct sw_job *job);
size_t sw_job_batch_bytes(const struct sw_job *job);
/* The same with its states, what it carries and batches: all but the arena. */
size_t sw_worker_fixed_bytes(const struct sw_worker *w);
/* What all workers on this one's device hold there; 0: it is the host's memory. */
size_t sw_worker_device_bytes(const struct sw_worker *w);

#endif
