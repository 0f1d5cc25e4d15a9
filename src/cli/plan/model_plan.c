/* The plan of a model, with the memory that its job would need, and its texts. The contract is in
 * cli/plan/model.h. */
#include "cli/plan/model.h"

#include "base/os.h"
#include "base/str.h"
#include "net/net.h"
#include "recipe/job.h"
#include <stdio.h>
#include <string.h>

/* Beyond so many workers the memory of a plan is estimated: the job is not opened with all of
 * them. */
enum { MEASURED_WORKERS = 16 };

/* The driver of simulated devices, on which a job needs the memory that it needs on GPUs. */
static const struct sw_driver *simulated_driver(void)
{
    int i = 0;

    while (sw_drivers[i] && (sw_drivers[i]->caps.host_memory || sw_drivers[i]->caps.on_bus))
        i++;
    return sw_drivers[i];
}

/* The devices of a job that has the memory of an imagined machine; a simulated GPU has at most
 * 1 TiB. */
static void imagined_device(const struct sw_machine_model *machine, int workers, char *out,
                            size_t bytes)
{
    const struct sw_device_model *d = &machine->device[0];
    const struct sw_driver *driver = d->host_memory ? NULL : simulated_driver();
    const long long most = 1LL << 40;

    if (!driver) {
        snprintf(out, bytes, "%s", sw_driver_host()->name);
        return;
    }

    driver->format(workers, out, bytes);
    const size_t n = strlen(out);
    snprintf(out + n, bytes - n, ",mem=%lld",
             d->memory_bytes > 0 && d->memory_bytes < most ? (long long)d->memory_bytes : most);
}

/* Do GPUs keep the updater's state, which simulated ones leave to servers unless told? */
static bool devices_update(const struct sw_plan_model *m, const struct sw_cost_model *cost)
{
    return m->constraints.copy == SW_COPY_AUTO && sw_cost_devices_update(cost);
}

static int add_set(struct sw_planning_texts *t, const char *text, struct sw_err *err)
{
    char **set = sw_array_add(&t->sets, &t->count, sizeof *t->sets);

    if (set)
        *set = sw_strdup(text);
    return set && *set ? SW_OK : sw_err_nomem(err, "the settings of a plan", strlen(text));
}

/* Opens the job with the plan and asks for the memory that `check` would print. */
static int measure_memory(void *user, const struct sw_machine_model *machine,
                          struct sw_parallel_plan *p, struct sw_err *err)
{
    struct sw_plan_model *m = user;
    struct sw_planning_texts texts = {0};
    struct sw_planning_memory memory = {0};
    struct sw_cost_model cost;
    char device[64];

    if (p->workers > MEASURED_WORKERS ||
        (machine->hosts > 1 && (machine->device[0].host_memory || !m->is_imagined)))
        return SW_OK; /* the estimate of the search */

    sw_cost_model_init(&cost, m->net, machine, &p->shape);
    const struct sw_device_throughput rates = {cost.flops_per_s, cost.bytes_per_s,
                                               cost.host.bytes_per_s};
    const bool imagined = m->is_imagined && !machine->device[0].host_memory;

    imagined_device(machine, p->workers, device, sizeof device);
    int rc = sw_planning_texts(m->net, p, 1, &texts, err);
    if (rc == SW_OK && m->is_imagined && devices_update(m, &cost))
        rc = add_set(&texts, "cluster.copy=none", err);
    if (rc == SW_OK)
        rc = sw_planning_memory(&m->job, &texts, m->is_imagined ? device : NULL,
                                imagined ? &rates : NULL, &memory, err);

    for (int w = 0; rc == SW_OK && w < p->workers; w++)
        p->device_bytes[w] = machine->device[w].host_memory ? memory.host_bytes / p->workers
                                                            : memory.device_bytes[w];
    if (rc == SW_OK) {
        memory.fit.seconds = p->fit.seconds;
        p->fit = memory.fit;
    }

    /* More than a device has; the search has an estimate of how much. */
    const int64_t has = machine->device[0].memory_bytes;
    if (rc == SW_ERR_NOMEM && has > 0) {
        p->device_bytes[0] = p->device_bytes[0] > has ? p->device_bytes[0] : has + 1;
        rc = SW_OK;
    }

    sw_planning_memory_fini(&memory);
    sw_planning_texts_fini(&texts);
    return rc;
}

int sw_plan_model_plan(struct sw_plan_model *m, struct sw_planned *out, struct sw_err *err)
{
    const struct sw_planned_args args = {.net = m->net,
                                         .machine = m->machine,
                                         .machines = m->machines,
                                         .limits = &m->constraints.limits,
                                         .hosts = m->hosts.hosts,
                                         .no_overlap = m->constraints.no_overlap,
                                         .bandwidth = m->constraints.bandwidth,
                                         .measure = measure_memory,
                                         .user = m};

    return sw_planned_make(&args, out, err);
}

int sw_plan_model_texts(const struct sw_plan_model *m, const struct sw_planned *p,
                        struct sw_planning_texts *out, struct sw_err *err)
{
    struct sw_parallel_plan own = p->best;
    struct sw_plan_shape *s = &own.shape;
    const int hosts = sw_planned_hosts(p);

    if (p->machine->server_hosts > 0)
        return SW_OK; /* no run can follow the plan */

    /* Each host has a part of the groups, or of the workers of the only one. */
    if (s->groups > 1 && s->groups % hosts == 0)
        s->groups /= hosts;
    else if (s->group_size % hosts == 0)
        s->group_size /= hosts;
    if (s->servers % hosts == 0)
        s->servers /= hosts;

    return sw_planning_texts(m->net, &own, hosts, out, err);
}

struct sw_planned_about sw_plan_model_about(const struct sw_plan_model *m,
                                            const struct sw_planning_texts *texts, bool verbose)
{
    const struct sw_job_plan *plan = sw_job_plan(m->trainer.job);

    return (struct sw_planned_about){.name = plan->name,
                                     .recipe = plan->recipe,
                                     .params = plan->params,
                                     .times = m->times,
                                     .sets = (const char *const *)texts->sets,
                                     .set_count = texts->count,
                                     .ini = texts->ini,
                                     .verbose = verbose};
}
