/* What checkpoint.h and init_from.h need of a job. */
#pragma once

#include "checkpoint/checkpoint.h"

struct sw_job;

/* The current state of the job: pointers are borrowed from it, numbers are copied. */
struct sw_checkpoint_job sw_job_checkpoint(struct sw_job *job);
