/* Tells the planner which machine a job has found. The contract is in run/planning_machine.h. */
#include "run/planning_machine.h"

#include "run/job_private.h"
#include "run/planning_private.h"
#include "worker/worker.h"
#include <stdio.h>

bool sw_planning_machine(struct sw_job *job, bool stored_only, char source[64],
                         struct sw_machine_args *out)
{
    const struct sw_placement *p = job->place.placement;
    char date[16];
    const bool known = sw_throughputs_are_stored(job->workers);

    if (!known && stored_only)
        return false;

    out->map = job->place.machine;
    out->request = &job->place.devices;
    out->measured = sw_throughputs_of(&job->speed.throughputs, job->workers);
    out->measured_source = source;
    if (out->measured->measured_at > 0)
        snprintf(source, 64, "measured %s", sw_planning_date(out->measured->measured_at, date));
    else
        snprintf(source, 64, "measured");
    out->worker_threads = job->topology->devices > 0 ? 0 : sw_placement_worker(p, 0)->threads;
    out->server_threads = sw_placement_server(p, 0)->threads;
    if (out->request->driver->caps.on_bus)
        out->gpu_memory_bytes = (int64_t)sw_device_bytes_of(job->workers[0].device).capacity;
    if (out->measured->measured) /* also where only some figures were missing */
        sw_throughputs_save(out->measured, job->workers);
    return true;
}
