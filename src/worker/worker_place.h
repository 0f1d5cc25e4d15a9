/* The placement of a worker: its cores, device, and memory. */
#pragma once

#include "device/driver.h"
#include "plan/placement.h"

struct sw_worker;

/* The hardware that a job runs on. */
struct sw_job_place {
    struct sw_machine *machine;
    struct sw_placement *placement;
    struct sw_device *host;           /* has the parameter table and batches */
    struct sw_device_request devices; /* of the workers, as job.device requests */
    char device_why[512];             /* why job.device = auto is not all GPUs; "": it is */
};

/* The worker's row of the placement. */
const struct sw_placement_row *sw_worker_placement(const struct sw_worker *w);
/* Allocates host memory of a worker that its device copies from and to, on the worker's NUMA nodes.
 * `worker` is a struct sw_worker; sw_worker_free_memory frees it (NULL is accepted). Errors:
 * SW_ERR_NOMEM. */
int sw_worker_take_memory(void *worker, size_t bytes, const char *what, void **out,
                          struct sw_err *err) SW_MUST_CHECK;
void sw_worker_free_memory(void *worker, void *p, size_t bytes);
/* Binds the calling thread, the worker's own, and attaches the worker's streams to it. Called
 * before anything else. */
int sw_worker_attach(struct sw_worker *w, struct sw_err *err) SW_MUST_CHECK;
/* sw_stream_wait; meanwhile the live snapshot shows the wait, so that a hanging device is detected.
 */
int sw_worker_wait(struct sw_worker *w, struct sw_err *err) SW_MUST_CHECK;
