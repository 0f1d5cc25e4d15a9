/* Where a worker is: its cores, device, and memory. */
#pragma once

#include "device/driver.h"
#include "plan/placement.h"

struct sw_worker;

/* On what a job runs. */
struct sw_job_place {
    struct sw_machine *machine;
    struct sw_placement *placement;
    struct sw_device *host;           /* parameter table, batches */
    struct sw_device_request devices; /* of the workers, as job.device asks for */
};

/* Where it is: its row of the placement. */
const struct sw_placement_row *sw_worker_placement(const struct sw_worker *w);
/* Host memory of a worker that its device copies from and to, on the worker's NUMA nodes. `worker`
 * is a struct sw_worker; sw_worker_give_memory takes it back (NULL is accepted). Errors:
 * SW_ERR_NOMEM. */
int sw_worker_take_memory(void *worker, size_t bytes, const char *what, void **out,
                          struct sw_err *err) SW_MUST_CHECK;
void sw_worker_give_memory(void *worker, void *p, size_t bytes);
/* By the worker's own thread, before anything else: its streams are used from here. */
int sw_worker_attach(struct sw_worker *w, struct sw_err *err) SW_MUST_CHECK;
/* sw_stream_wait, and meanwhile a device that hangs is found out. */
int sw_worker_wait(struct sw_worker *w, struct sw_err *err) SW_MUST_CHECK;
