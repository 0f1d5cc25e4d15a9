/* Opening the job that a planner's model is made of, and jobs that follow a plan. */
#include "base/os.h"
#include "run/job_private.h"
#include "run/memory.h"
#include "run/planning_private.h"
#include "worker/worker.h"

int sw_planning_open(const struct sw_job_options *options, struct sw_log *log, struct sw_job **out,
                     struct sw_bytes *messages, struct sw_err *err)
{
    struct sw_job_options o = *options;

    o.one_worker = o.model.of_net = o.no_probes = true;
    o.reserve = false;
    o.hosts = NULL;
    return sw_job_open(&o, log, out, messages, err);
}

int sw_planning_open_job(const struct sw_job_options *o, struct sw_log *log, struct sw_job **out,
                         struct sw_err *err)
{
    struct sw_bytes messages = {0};

    int rc = sw_job_open(o, log, out, &messages, err);
    if (rc != SW_OK && messages.length > 0) {
        const char *text = sw_bytes_text(&messages);
        const bool ends = text[messages.length - 1] == '\n';

        rc = sw_err_set(err, rc, "%.*s", (int)(messages.length - ends), text);
    }
    sw_bytes_fini(&messages);

    return rc;
}

/* ---- Memory ---- */

static int fill(const struct sw_job *job, struct sw_planning_memory *out, struct sw_err *err)
{
    const int workers = job->topology->workers;

    out->device_bytes = sw_calloc((size_t)workers, sizeof *out->device_bytes);
    if (!out->device_bytes)
        return sw_err_nomem(err, "bytes of devices", (size_t)workers * sizeof *out->device_bytes);

    const struct sw_job_fit *f = &job->plan.fit;

    out->workers = workers;
    out->fit = (struct sw_plan_fit){.budget_bytes = f->budget_bytes,
                                    .is_exact = true,
                                    .recomputed = f->recomputed,
                                    .offloaded = f->offloaded,
                                    .flops = f->recompute_flops,
                                    .bytes = f->recompute_bytes,
                                    .copied_bytes = (double)f->offload_bytes};
    out->host_bytes = (int64_t)job->plan.bytes.peak;
    for (int i = 0; i < workers; i++) {
        out->device_bytes[i] = (int64_t)sw_worker_device_bytes(&job->workers[i]);
        out->host_bytes -=
            job->workers[i].device->host_memory
                ? 0
                : (int64_t)(sw_worker_fixed_bytes(&job->workers[i]) + job->workers[i].arena.bytes);
    }

    return SW_OK;
}

int sw_planning_memory(const struct sw_job_options *options, const struct sw_planning_texts *plan,
                       const char *device, const struct sw_device_throughput *rates,
                       struct sw_planning_memory *out, struct sw_err *err)
{
    struct sw_job_options o = *options;
    struct sw_job *job = NULL;
    int count = o.set_count + plan->count;

    *out = (struct sw_planning_memory){0};
    const char **sets = sw_calloc((size_t)count + 1, sizeof *sets);
    if (!sets)
        return sw_err_nomem(err, "the settings of a plan", ((size_t)count + 1) * sizeof *sets);

    for (int i = 0; i < count; i++)
        sets[i] = i < o.set_count ? o.sets[i] : plan->sets[i - o.set_count];
    o.sets = sets;
    o.set_count = count;
    o.device = device ? device : o.device;
    o.model.rates = rates;
    o.no_probes = o.model.of_memory = o.oversubscribe = true;
    o.reserve = false;

    int rc = sw_planning_open_job(&o, NULL, &job, err);
    if (rc == SW_OK)
        rc = fill(job, out, err);

    sw_job_close(job);
    sw_free(sets);

    return rc;
}

void sw_planning_memory_fini(struct sw_planning_memory *m)
{
    sw_free(m->device_bytes);
    *m = (struct sw_planning_memory){0};
}
