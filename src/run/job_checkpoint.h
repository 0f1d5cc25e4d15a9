/* A job's checkpoints: what checkpoint.h and init_from.h are given of it. */
#pragma once

#include "checkpoint/checkpoint.h"

struct sw_job;

/* As the job is now: what it points to lives as long as the job, numbers are copied. */
struct sw_checkpoint_job sw_job_checkpoint(struct sw_job *job);
