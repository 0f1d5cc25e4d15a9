/* On what a job runs: machine, placement, devices, workers and servers. */
#pragma once

#include "run/job.h"
#include "worker/worker_place.h"

/* Reads job.device, and opens the host. */
int sw_job_choose_device(struct sw_job *job, struct sw_err *err) SW_MUST_CHECK;
/* Maps the machine, decides the shape, places and makes workers and servers. */
int sw_job_place_units(struct sw_job *job, const struct sw_job_options *o,
                       struct sw_err *err) SW_MUST_CHECK;
/* Every worker's own device. */
int sw_job_open_devices(struct sw_job *job, struct sw_err *err) SW_MUST_CHECK;
