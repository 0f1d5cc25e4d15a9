/* What a job's workers ask of it (worker_hooks.h). */
#pragma once

#include "worker/worker_hooks.h"

/* The run is the struct sw_job. */
extern const struct sw_worker_hooks sw_job_hooks;
