/* On what a job runs: machine, placement, devices, workers and servers. */
#pragma once

#include "device/driver.h"
#include "train/job.h"

/* On what it runs. */
struct sw_job_place {
    struct sw_machine *machine;
    struct sw_placement *placement;
    struct sw_device *host;           /* parameter table, batches */
    struct sw_device_request devices; /* of the workers, as job.device asks for */
};

/* Reads job.device, and opens the host. */
int sw_job_choose_device(struct sw_job *job, struct sw_err *err) SW_MUST_CHECK;
/* Maps the machine, decides the shape, places and makes workers and servers. */
int sw_job_place_units(struct sw_job *job, const struct sw_job_options *o,
                       struct sw_err *err) SW_MUST_CHECK;
/* Every worker's own device. */
int sw_job_open_devices(struct sw_job *job, struct sw_err *err) SW_MUST_CHECK;
