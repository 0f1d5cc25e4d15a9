/* Opens the job of a recipe as a model, and models the machine for which it is planned. The
 * contract is in cli/plan/model.h. */
#include "cli/plan/model.h"

#include "base/os.h"
#include "base/str.h"
#include "base/text.h"
#include "cli/machine/peer_links.h"
#include "recipe/job.h"
#include "run/planning_machine.h"
#include <string.h>

/* Beyond so many workers the memory of a plan is estimated: the job is not opened with all of
 * them. */
enum { MEASURED_WORKERS = 16 };

/* ---- The machine ---- */

/* Are the hosts not like this machine? */
static bool is_foreign(const struct sw_plan_target *t)
{
    return t->from || t->given.gpus.value > 0 || t->given.gpus_per_host.value > 0;
}

static bool is_imagined(const struct sw_plan_target *t)
{
    return is_foreign(t) || t->given.hosts.value > 0;
}

/* A machine that --from describes has the GPUs that it describes; only where it has none they can
 * be imagined. */
static int check_described_gpus(const struct sw_plan_model *m, const struct sw_plan_target *t,
                                struct sw_err *err)
{
    const int described = m->map->gpu_count;
    int hosts, gpus;

    int rc = sw_given_counts(&t->given, &hosts, &gpus, err);
    if (rc == SW_OK && described > 0 && gpus > described)
        return sw_err_set(err, SW_ERR_INVALID,
                          "%d GPUs per host are given, and the machine of --from has %d; without "
                          "--from all GPUs are imagined",
                          gpus, described);
    return rc;
}

/* Starts the hosts of the job, asks what they are, and measures the links between them. */
static int open_hosts(struct sw_plan_model *m, const struct sw_plan_target *t, struct sw_err *err)
{
    struct sw_preflight *p = NULL;

    if (!t->hosts)
        return SW_OK;

    int rc = sw_preflight_run(t->hosts, &m->job, m->trainer.job, &m->trainer.report, &p, err);
    if (rc != SW_OK || !p)
        return rc;

    if (sw_preflight_differs(p))
        rc = sw_err_set(err, SW_ERR_INVALID,
                        "the hosts differ in what must be the same: `singa-ws check --hosts` says "
                        "in what");
    sw_preflight_figures(p, &m->hosts);
    sw_preflight_free(p);

    if (rc == SW_OK && m->hosts.unlike[0])
        sw_cli_message("warning: %s; the plan is for hosts like this one", m->hosts.unlike);
    m->host_rates.link_bytes_per_s = m->hosts.bytes_per_s;
    snprintf(m->host_rates.source, sizeof m->host_rates.source, "%s", m->hosts.source);
    return rc;
}

/* The counts of a recipe are those of each host, and a plan has those of all. */
static void count_hosts(struct sw_plan_model *m)
{
    struct sw_search_limits *l = &m->constraints.limits;
    const bool is_async = l->framework == SW_FRAMEWORK_DOWNPOUR ||
                          l->framework == SW_FRAMEWORK_HOGWILD ||
                          l->consistency > SW_CONSISTENCY_BSP;

    if (m->hosts.hosts < 2)
        return;
    if (l->groups > 1 || is_async)
        l->groups *= m->hosts.hosts;
    else
        l->group_size *= m->hosts.hosts;
}

/* Another machine, or GPUs that this one does not have. The devices of the recipe may be missing
 * here, so that its job is opened on the CPU, and only --device asks for some. Cores and memory of
 * the host are those of this machine, where they have been measured. */
static int imagine_machine(struct sw_plan_model *m, const char *device,
                           const struct sw_plan_target *t, struct sw_err *err)
{
    struct sw_machine_args here = {.map = NULL};

    int rc = t->from ? sw_machine_from(t->from, &m->map, err) : SW_OK;
    if (rc == SW_OK && t->from)
        rc = check_described_gpus(m, t, err);
    if (rc == SW_OK && device)
        rc = sw_device_request_parse(device, &m->request, err);
    if (rc != SW_OK)
        return rc;

    m->args.map = m->map ? m->map : sw_job_plan(m->trainer.job)->machine;
    m->args.request = device ? &m->request : NULL;
    if (t->from || !sw_planning_machine(m->trainer.job, true, m->measured, &here))
        return SW_OK;

    m->args.measured = here.measured;
    m->args.measured_source = here.measured_source;
    m->args.worker_threads = here.worker_threads;
    m->args.server_threads = here.server_threads;
    return SW_OK;
}

/* Refuses figures that the machine has no use for. */
static int check_figures(const struct sw_plan_model *m, const char *device,
                         const struct sw_plan_target *t, struct sw_err *err)
{
    const struct sw_given_figures *g = &t->given;
    const bool counts_gpus =
        g->gpus.value > 0 && g->hosts.value <= 0 && g->gpus_per_host.value <= 0;
    const struct sw_given_scope scope = {
        .network = g->hosts.value > 1 || (t->grows && !counts_gpus),
        .gpus = !sw_machine_on_cores(&m->args),
        .cores_only = device && m->args.request && m->args.request->driver->caps.host_memory,
    };
    int hosts, gpus;

    int rc = sw_given_counts(g, &hosts, &gpus, err);
    return rc == SW_OK ? sw_given_check(g, &scope, err) : rc;
}

static int open_machine(struct sw_plan_model *m, const char *device, const struct sw_plan_target *t,
                        struct sw_err *err)
{
    int rc = SW_OK;

    m->args = (struct sw_machine_args){.given = &t->given, .copy = m->constraints.copy};
    if (m->hosts.hosts > 1) {
        m->args.hosts = m->hosts.hosts;
        m->args.host_rates = &m->host_rates;
        m->args.host_latency_s = m->hosts.latency_s;
    }

    if (is_foreign(t))
        rc = imagine_machine(m, device, t, err);
    else if (!sw_planning_machine(m->trainer.job, t->stored_only, m->measured, &m->args))
        rc = sw_err_set(err, SW_ERR_NOTFOUND, "no figures of this machine are stored");
    if (rc == SW_OK)
        rc = check_figures(m, device, t, err);
    if (rc != SW_OK)
        return rc;

    if (m->is_imagined && m->args.measured) /* of each host */
        sw_utf8_copy(m->measured + strlen(m->measured), sizeof m->measured - strlen(m->measured),
                     ", this machine");
    if (is_foreign(t))
        return SW_OK;

    rc = sw_cli_peer_links(m->args.request->text, m->args.map, false, &m->peer_links, err);
    m->args.peer_links = m->peer_links;
    return rc;
}

static int add_machine(struct sw_plan_model *m, int workers, struct sw_err *err)
{
    struct sw_machine_args args = m->args;

    args.workers = workers;
    int rc = sw_machine_build(&args, &m->machine[m->machines], err);
    if (rc == SW_OK)
        m->machines++;
    return rc;
}

/* The workers on each host for which the recipe asks; 0: any number. */
static int requested_workers(const struct sw_plan_model *m)
{
    const struct sw_search_limits *l = &m->constraints.limits;
    const int hosts = m->args.given->hosts.value > 0 ? (int)m->args.given->hosts.value
                      : m->args.hosts > 0            ? m->args.hosts
                                                     : 1;
    const int workers = l->group_size * (l->groups > 0 ? l->groups : 1);

    return workers > 0 ? (workers + hosts - 1) / hosts : 0;
}

/* With the nearest plan: the fastest one of as many workers as there are cores. */
static int refuse_workers(struct sw_plan_model *m, int asked, int most, struct sw_err *err)
{
    struct sw_search_limits limits = m->constraints.limits;
    struct sw_planned planned = {0};
    char nearest[160] = "";

    limits.groups = limits.group_size = 0;
    const struct sw_planned_args args = {
        .net = m->net, .machine = m->machine, .machines = 1, .limits = &limits};

    if (add_machine(m, most, err) == SW_OK && sw_planned_find(&args, &planned, err) == SW_OK) {
        char shape[96], step[32];

        snprintf(nearest, sizeof nearest, "; the nearest plan is %s, %s ms per step",
                 sw_planned_shape_text(&planned.best.shape, shape),
                 sw_human_real(step, planned.best.time.step_s * 1000));
    }

    sw_planned_fini(&planned);
    return sw_err_set(err, SW_ERR_INVALID,
                      "%d workers on each host need a core each, but a host has %d for workers%s",
                      asked, most, nearest);
}

/* Workers on cores can be any number up to one per core: 1, 2, 4 ... and all are considered, and
 * what the recipe asks for. */
static int add_machines(struct sw_plan_model *m, int workers, struct sw_err *err)
{
    const int asked = requested_workers(m), cores = m->hosts.least_cores;
    int most = sw_machine_threads(m->args.map);

    if (cores > 0 && cores < most)
        most = cores;
    if (!sw_machine_on_cores(&m->args) || workers > 0)
        return add_machine(m, workers, err);
    if (asked > most)
        return refuse_workers(m, asked, most, err);

    int rc = add_machine(m, 1, err);
    for (int n = 2; rc == SW_OK && n <= most && !asked && m->machines < SW_PLAN_MACHINES - 2;
         n *= 2)
        rc = add_machine(m, n, err);
    if (rc == SW_OK && !asked && most > 1 && (most & (most - 1)))
        rc = add_machine(m, most, err);
    if (rc == SW_OK && asked > 1)
        rc = add_machine(m, asked, err);

    return rc;
}

/* A layer lives on a worker of a group, which has workers of one host. */
static int check_locations(const struct sw_plan_model *m, struct sw_err *err)
{
    const struct sw_machine_model *machine = m->machine[m->machines - 1];
    const int set = m->constraints.limits.group_size;
    const int most = set > 0 ? set : machine->device_count / machine->hosts;

    for (int i = 0; i < m->net->count; i++) {
        const int location = m->constraints.keys.location[i];

        if (location >= most)
            return sw_err_set(err, SW_ERR_INVALID,
                              "layer %s: location = %d needs %d workers in a group, and there %s "
                              "%d%s; use a location below %d%s",
                              m->net->layer[i].name, location, location + 1,
                              most == 1 ? "is" : "are", most, set > 0 ? "" : " on a host", most,
                              set > 0 ? ", or a larger workers_per_group" : "");
    }

    return SW_OK;
}

/* GPUs of several hosts exchange whole gradients only. */
static void limit_exchange(struct sw_plan_model *m)
{
    struct sw_search_limits *l = &m->constraints.limits;

    if (m->hosts.hosts > 1 && !sw_machine_on_cores(&m->args) && l->net_comm == SW_EXCHANGE_AUTO)
        l->net_comm = SW_EXCHANGE_PS;
}

/* A worker needs a core, also where a device computes: with more devices than cores a job is
 * refused, unless it is asked to share them. */
static void limit_workers(struct sw_plan_model *m)
{
    struct sw_search_limits *l = &m->constraints.limits;

    if (!m->is_imagined && !m->job.oversubscribe && l->groups == 0 && l->group_size == 0)
        l->most_workers = sw_machine_threads(m->args.map) * m->machine[0]->hosts;
}

/* ---- Times of layers ---- */

/* Can samples of the net say anything about the devices, which are all alike? */
static bool has_use_of_samples(const struct sw_plan_model *m)
{
    const struct sw_device_model *d = &m->machine[0]->device[0];

    for (int i = 0; i < m->net->count; i++)
        for (int k = 0; k < m->net->layer[i].sample_count; k++)
            if (d->host_memory == (m->net->layer[i].samples[k].threads > 0))
                return true;
    return false;
}

static void warn_of_times(struct sw_plan_model *m, const char *why)
{
    sw_cli_message("warning: %s; they are predicted from the work of each layer", why);
    m->times[0] = '\0';
}

/* Those of a run; without them plans are still predicted. */
static int add_times_of_run(struct sw_plan_model *m, const struct sw_plan_target *t,
                            struct sw_err *err)
{
    char why[128];

    int rc = sw_planning_times_of_run(m->net, t->reader, t->run, m->times, err);
    if (rc == SW_ERR_UNSUPPORTED) {
        warn_of_times(m, err->text);
        return SW_OK;
    }

    if (rc == SW_OK && !has_use_of_samples(m)) {
        const bool cores = m->machine[0]->device[0].host_memory;

        snprintf(why, sizeof why, "run %lld measured its layers on %s, and the plan is for %s",
                 (long long)t->run->id, cores ? "a device" : "cores", cores ? "cores" : "devices");
        warn_of_times(m, why);
    }
    return rc;
}

/* What a measured step of `workers` workers on this machine took beyond its simulation. */
static int add_rest(struct sw_plan_model *m, int workers, double step_s, struct sw_err *err)
{
    const struct sw_planned_args args = {.net = m->net,
                                         .no_overlap = m->constraints.no_overlap,
                                         .bandwidth = m->constraints.bandwidth};
    struct sw_given_figures given = *m->args.given;
    struct sw_machine_args here = m->args;
    struct sw_machine_model *machine = NULL;
    double simulated_s;

    given.hosts.value = 0;
    here.given = &given;
    here.workers = workers;
    here.hosts = 0;

    int rc = sw_machine_build(&here, &machine, err);
    if (rc == SW_OK)
        rc = sw_planned_rows(&args, machine, workers, &simulated_s, err);
    if (rc == SW_OK && step_s > simulated_s)
        sw_planning_add_rest(m->net, step_s - simulated_s);
    sw_machine_model_free(machine);
    return rc;
}

/* On this machine, with as many workers as will be considered. */
static int add_times(struct sw_plan_model *m, const struct sw_plan_target *t, struct sw_err *err)
{
    struct sw_planning_measurement how = {.options = &m->job,
                                          .log = m->trainer.log,
                                          .workers = 1,
                                          .again = t->measure,
                                          .stored_only = !t->measure};
    const int most = m->constraints.limits.most_workers;
    int rc = SW_OK;

    const int hosts = m->machine[0]->hosts;

    if (t->given.flops_per_s.value > 0 || t->given.memory_bytes_per_s.value > 0)
        return SW_OK; /* which measured times would replace */
    if (t->run)
        return add_times_of_run(m, t, err);
    if (is_foreign(t))
        return SW_OK;

    for (int i = 0; i < m->machines && rc == SW_OK; i++) {
        char source[64];
        double step_s;

        how.workers = m->machine[i]->device_count / hosts;
        if (most > 0 && how.workers > most)
            how.workers = most;
        if (how.workers > m->net->batch) /* they cannot share it */
            continue;

        rc = sw_planning_measure(m->net, &how, source, &step_s, err);
        if (rc != SW_OK || !source[0])
            continue;

        memcpy(m->times, source, sizeof source);
        rc = add_rest(m, how.workers, step_s, err);
    }

    return rc;
}

/* ---- The whole ---- */

int sw_plan_model_open(struct sw_plan_model *m, const struct sw_cli_common *common,
                       const struct sw_job_options *job, const struct sw_plan_target *target,
                       struct sw_err *err)
{
    struct sw_trainer *t = &m->trainer;

    m->job = *job;
    m->is_imagined = is_imagined(target);

    int rc = sw_trainer_init(t, common, err);
    m->ready = true;
    if (rc != SW_OK)
        return rc;

    if (is_foreign(target))
        m->job.device = sw_driver_host()->name;
    rc = sw_planning_open(&m->job, t->log, &t->job, &t->messages, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_planning_net(t->job, &m->net, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_plan_constraints_read(sw_job_recipe(t->job), m->net, &m->constraints, err);
    if (rc != SW_OK)
        return rc;
    rc = open_hosts(m, target, err);
    if (rc != SW_OK)
        return rc;
    count_hosts(m);
    rc = open_machine(m, job->device, target, err);
    if (rc != SW_OK)
        return rc;
    rc = add_machines(m, target->workers, err);
    if (rc != SW_OK)
        return rc;
    limit_workers(m);
    limit_exchange(m);
    rc = check_locations(m, err);
    return rc == SW_OK ? add_times(m, target, err) : rc;
}

void sw_plan_model_fini(struct sw_plan_model *m)
{
    for (int i = 0; i < m->machines; i++)
        sw_machine_model_free(m->machine[i]);
    sw_plan_constraints_fini(&m->constraints);
    sw_planning_net_free(m->net);
    sw_peer_links_free(m->peer_links);
    sw_machine_free(m->map);
    if (m->ready)
        sw_trainer_fini(&m->trainer);
    *m = (struct sw_plan_model){0};
}

/* ---- The plan ---- */

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

/* Would GPUs keep the updater's state, which simulated ones leave to servers unless told? */
static bool devices_update(const struct sw_plan_model *m, const struct sw_parallel_plan *p)
{
    const struct sw_recipe *recipe = sw_job_recipe(m->trainer.job);
    const struct sw_job_conf *conf = sw_recipe_find(recipe, "job", NULL)->common;

    return p->shape.framework == SW_FRAMEWORK_ALLREDUCE &&
           !sw_section_is_set(sw_recipe_find(recipe, "cluster", NULL), "copy") &&
           conf->on_nan != SW_ON_NAN_ROLLBACK && (p->workers == 1 || !conf->repeat_exact);
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
    char device[64];

    if (p->workers > MEASURED_WORKERS ||
        (machine->hosts > 1 && (machine->device[0].host_memory || !m->is_imagined)))
        return SW_OK; /* the estimate of the search */

    imagined_device(machine, p->workers, device, sizeof device);
    int rc = sw_planning_texts(m->net, p, 1, &texts, err);
    if (rc == SW_OK && m->is_imagined && !machine->device[0].host_memory && devices_update(m, p))
        rc = add_set(&texts, "cluster.copy=none", err);
    if (rc == SW_OK)
        rc = sw_planning_memory(&m->job, &texts, m->is_imagined ? device : NULL, &memory, err);

    for (int w = 0; rc == SW_OK && w < p->workers; w++)
        p->device_bytes[w] = machine->device[w].host_memory ? memory.host_bytes / p->workers
                                                            : memory.device_bytes[w];

    /* More than a device has; the search has an estimate of how much. */
    if (rc == SW_ERR_NOMEM && machine->device[0].memory_bytes > 0 &&
        p->device_bytes[0] <= machine->device[0].memory_bytes) {
        p->device_bytes[0] = machine->device[0].memory_bytes + 1;
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
