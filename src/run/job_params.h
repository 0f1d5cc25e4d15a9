/* The parameters that a job trains. */
#pragma once

#include "base/err.h"
#include "worker/server.h"

struct sw_job;
struct sw_worker;

/* Finds each parameter of a net in the table; those of the training net are added. */
int sw_job_map_params(struct sw_job *job, struct sw_worker *w, int split,
                      struct sw_err *err) SW_MUST_CHECK;
/* The parameter table, from the training nets of all workers. */
int sw_job_make_table(struct sw_job *job, struct sw_err *err) SW_MUST_CHECK;
/* A copy is as it is after so many steps of the job, with so many updates behind it: between steps,
 * by one thread. */
void sw_job_put_step(struct sw_job *job, int copy, int64_t step, uint64_t updates,
                     uint64_t dropped);
/* After the last step that the first group made alone: the others have its values already, and
 * what its updater keeps becomes theirs. */
void sw_job_join(struct sw_job *job);
/* Makes the copies exchange, once they are allocated. */
int sw_job_make_sync(struct sw_job *job, struct sw_err *err) SW_MUST_CHECK;
