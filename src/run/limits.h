/* What limits a job on this machine, beside the recipe: cores, memory and GPUs that the user, a
 * batch system, cgroups or other runs leave to it. By the thread that opens the job. */
#pragma once

#include "run/job.h"

/* Writes the text for the start report, sw_job_plan.limits: once the roles are placed. */
void sw_limits_describe(struct sw_job *job);
/* Refuses a job that needs more host memory than its cgroup has. Errors: SW_ERR_NOMEM. */
int sw_limits_check(const struct sw_job *job, struct sw_err *err) SW_MUST_CHECK;
