/* The data of a job. */
#pragma once

#include "plan/topology.h"
#include "recipe/recipe.h"
#include "worker/worker_data.h"

struct sw_job;

/* The section that is trained or evaluated on; NULL: there is none. */
const struct sw_section *sw_job_find_split(const struct sw_job *job, int split);
int sw_job_open_split(struct sw_job *job, int split, const struct sw_section *section,
                      struct sw_err *err) SW_MUST_CHECK;
/* [data train], which has to be there, and [data val] or [data test]; and job->horizon. */
int sw_job_open_data(struct sw_job *job, struct sw_err *err) SW_MUST_CHECK;
/* How many different records were passed over so far. */
int64_t sw_job_skipped(const struct sw_job *job);
