/* Builds machine models from a machine map (this machine, or another one), the devices of a
 * request, measured figures, and figures that the user gives, which come before measured ones. What
 * is neither given nor measured is assumed, and every figure says which of these it is. Any
 * thread. */
#pragma once

#include "device/driver.h"
#include "machine/machine.h"
#include "plan/exchange_cost.h"
#include "plan/peer_links.h"
#include "planner/figures.h"

struct sw_machine_args {
    const struct sw_machine *map;
    /* NULL: the GPUs of the map, or cores if it has none. Given numbers of GPUs mean devices of
     * this request, unless it asks for cores. */
    const struct sw_device_request *request;
    int hosts;   /* of the job; 0: one. All are like the map. */
    int workers; /* on cores of each host; 0: one per NUMA node */
    int threads; /* math threads of each of them; 0: as many as there are cores */

    /* Figures measured on this machine, NULL or 0: none. */
    const struct sw_throughputs *measured;
    const char *measured_source; /* of their source texts; NULL: "measured" */
    int worker_threads;          /* math threads of their worker; 0: it computed on a device */
    int server_threads;          /* of their server */
    int64_t gpu_memory_bytes;    /* of a GPU */
    const struct sw_peer_links *peer_links; /* of these devices, by their names */
    const struct sw_host_rates *host_rates; /* between the hosts of the job */
    double host_latency_s;                  /* of a message between them */
    int copy;                               /* enum sw_copy_mode, [cluster] copy; 0: auto */

    const struct sw_given_figures *given; /* NULL: none */
};

/* All pointers are borrowed for the call. Free *out with sw_machine_model_free. Errors:
 * SW_ERR_INVALID (more workers or threads of them than computing threads, GPUs that the map does
 * not have, more than SW_MODEL_DEVICES devices), SW_ERR_NOMEM. */
int sw_machine_build(const struct sw_machine_args *args, struct sw_machine_model **out,
                     struct sw_err *err) SW_MUST_CHECK;

/* Does the model have workers on cores? Then its number of workers may be changed, from 1 to
 * sw_machine_threads(args->map) on each host: a search builds a model for each number. */
bool sw_machine_on_cores(const struct sw_machine_args *args);
