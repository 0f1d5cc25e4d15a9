/* The callbacks of a job's workers (worker_hooks.h). */
#pragma once

#include "worker/worker_hooks.h"

/* Their `run` argument is the struct sw_job. */
extern const struct sw_worker_hooks sw_job_hooks;
