/* Describes the limits of a job, and checks the memory. The contract is in run/limits.h. */
#include "run/limits.h"

#include "run/job_private.h"

static const char *plural(int count)
{
    return count == 1 ? "" : "s";
}

static void add_cores(const struct sw_job *job, struct sw_bytes *out)
{
    const struct sw_job_reserve *r = &job->reserve;
    const struct sw_machine *m = job->place.machine;
    const struct sw_placement_row *first = sw_placement_worker(job->place.placement, 0);
    const char *by = job->conf->cores  ? "job.cores"
                     : r->slurm_cores  ? "SLURM_CPUS_PER_TASK"
                     : r->registration ? "other runs use the rest"
                                       : NULL;

    if (by && m->core_count < r->map_cores)
        sw_bytes_printf(out, "; %d of %d cores (%s)", m->core_count, r->map_cores, by);
    if (r->saved_workers == job->topology->workers && r->saved_threads == first->threads &&
        r->saved_threads < sw_core_set_count(&first->cores))
        sw_bytes_printf(out, "; %d thread%s per worker, as in the checkpoint", r->saved_threads,
                        plural(r->saved_threads));
}

void sw_limits_describe(struct sw_job *job)
{
    const struct sw_machine *m = job->place.machine;
    struct sw_bytes all = {0};
    char text[32];

    add_cores(job, &all);
    if (m->hidden_pus > 0)
        sw_bytes_printf(&all, "; a cpuset or taskset hides %d hardware thread%s", m->hidden_pus,
                        plural(m->hidden_pus));
    if (m->cpu_quota > 0)
        sw_bytes_printf(&all, "; cgroup: %.3g CPUs", m->cpu_quota);
    if (m->memory_quota > 0)
        sw_bytes_printf(&all, "; cgroup: %s of memory",
                        sw_human_bytes(text, (double)m->memory_quota));
    if (m->hidden_gpus > 0)
        sw_bytes_printf(&all, "; CUDA_VISIBLE_DEVICES hides %d GPU%s", m->hidden_gpus,
                        plural(m->hidden_gpus));

    sw_bytes_clear(&job->report.limits);
    sw_bytes_add(&job->report.limits, all.length ? all.text + 2 : "");
    sw_bytes_fini(&all);
}

int sw_limits_check(const struct sw_job *job, struct sw_err *err)
{
    const struct sw_job_bytes *needs = &job->plan.bytes;
    const int64_t limit = job->place.machine->memory_quota;
    char needed[32], granted[32], advice[32];

    if (limit <= 0 || needs->device > 0 || needs->peak <= (size_t)limit)
        return SW_OK;

    return sw_err_set(err, SW_ERR_NOMEM,
                      "the job needs %s of memory, but its cgroup allows %s: ask for more memory "
                      "(Slurm: --mem), use a smaller batch, or --set job.memory=fit:%s",
                      sw_human_bytes(needed, (double)needs->peak),
                      sw_human_bytes(granted, (double)limit),
                      sw_human_bytes(advice, 0.9 * (double)limit));
}
