/* The data of a job. */
#pragma once

#include "plan/topology.h"
#include "recipe/recipe.h"
#include "worker/worker_data.h"

struct sw_job;

/* The section for training or evaluation; NULL: none. */
const struct sw_section *sw_job_find_split(const struct sw_job *job, int split);
int sw_job_open_split(struct sw_job *job, int split, const struct sw_section *section,
                      struct sw_err *err) SW_MUST_CHECK;
/* Reads the data spec of the weights, unless it was read before. */
int sw_job_read_spec(struct sw_job *job, const char *weights, struct sw_err *err) SW_MUST_CHECK;
void sw_job_free_spec(struct sw_job *job);
/* Checks that the recipe has a section to evaluate on. Errors: SW_ERR_NOTFOUND. */
int sw_job_need_eval(const struct sw_job *job, struct sw_err *err) SW_MUST_CHECK;
/* Opens [data train], which is required in training, and the section to evaluate on; sets the
 * horizon of the span. */
int sw_job_open_data(struct sw_job *job, struct sw_err *err) SW_MUST_CHECK;
/* Number of different records that were skipped so far. */
int64_t sw_job_skipped(const struct sw_job *job);
