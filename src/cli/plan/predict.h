/* The predicted time of a step of a job as its recipe has it, from the models of `plan`. Main
 * thread. */
#pragma once

#include "cli/plan/model.h"

/* options: those of the open job, which stays open. Returns seconds; 0: no prediction is possible,
 * because no figures of this machine are stored, or the net cannot be modelled. */
double sw_plan_predict(const struct sw_cli_common *common, const struct sw_job_options *options,
                       const struct sw_job *job);
