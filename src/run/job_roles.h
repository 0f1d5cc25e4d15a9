/* The hardware and roles of a job: machine, placement, devices, workers and servers. */
#pragma once

#include "run/job.h"
#include "worker/worker_place.h"

/* Reads job.device, decides what auto is, and opens the host. */
int sw_job_choose_device(struct sw_job *job, const struct sw_job_options *o,
                         struct sw_err *err) SW_MUST_CHECK;
/* Reads the machine map, makes the topology, places and creates workers and servers. */
int sw_job_place_roles(struct sw_job *job, const struct sw_job_options *o,
                       struct sw_err *err) SW_MUST_CHECK;
/* Opens every worker's device. */
int sw_job_open_devices(struct sw_job *job, struct sw_err *err) SW_MUST_CHECK;
