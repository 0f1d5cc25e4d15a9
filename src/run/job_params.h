/* The parameters of a job. */
#pragma once

#include "base/err.h"
#include "worker/server.h"

struct sw_job;
struct sw_worker;

/* Maps each parameter of a net to its index in the table; those of the training net are added to
 * it. */
int sw_job_map_params(struct sw_job *job, struct sw_worker *w, int split,
                      struct sw_err *err) SW_MUST_CHECK;
/* Makes the parameter table from the training nets of all workers. */
int sw_job_make_table(struct sw_job *job, struct sw_err *err) SW_MUST_CHECK;
/* Sets the state of a copy to `step` steps of the job and `updates` updates: between steps, by one
 * thread. */
void sw_job_put_step(struct sw_job *job, int copy, int64_t step, uint64_t updates,
                     uint64_t dropped);
/* After the warm-up: the other groups already have the first group's values; copies its updater
 * state to them. */
void sw_job_join(struct sw_job *job);
/* Sets up the exchange between the copies, after they are allocated. */
int sw_job_make_sync(struct sw_job *job, struct sw_err *err) SW_MUST_CHECK;
