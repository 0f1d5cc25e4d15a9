/* The machine of a plan: this one, the hosts of a job, or an imagined one, once for every number of
 * workers on its cores that is considered, and which wishes it cannot fulfil. The contract is in
 * cli/plan/model_private.h. */
#include "cli/plan/model_private.h"

#include "base/str.h"
#include "base/text.h"
#include "cli/machine/peer_links.h"
#include "recipe/job.h"
#include "run/planning_machine.h"
#include <stdio.h>
#include <string.h>

bool sw_plan_is_foreign(const struct sw_plan_target *t)
{
    return t->from || t->given.gpus.value > 0 || t->given.gpus_per_host.value > 0;
}

bool sw_plan_is_imagined(const struct sw_plan_target *t)
{
    return sw_plan_is_foreign(t) || t->given.hosts.value > 0 || t->given.server_hosts.value > 0;
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

/* Refuses figures that the machine has no use for. With a given number of hosts the network may be
 * given also for one, so that numbers can be compared. */
static int check_figures(const struct sw_plan_model *m, const char *device,
                         const struct sw_plan_target *t, struct sw_err *err)
{
    const struct sw_given_figures *g = &t->given;
    const bool counts_gpus =
        g->gpus.value > 0 && g->hosts.value <= 0 && g->gpus_per_host.value <= 0;
    const struct sw_given_scope scope = {
        .network = g->hosts.value > 0 || g->server_hosts.value > 0 || (t->grows && !counts_gpus),
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

    if (sw_plan_is_foreign(t))
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
    if (sw_plan_is_foreign(t))
        return SW_OK;

    rc = sw_cli_peer_links(m->args.request->text, m->args.map, false, &m->peer_links, err);
    m->args.peer_links = m->peer_links;
    return rc;
}

static int build_machine(struct sw_plan_model *m, int workers, int threads, struct sw_err *err)
{
    struct sw_machine_args args = m->args;

    args.workers = workers;
    args.threads = threads;
    int rc = sw_machine_build(&args, &m->machine[m->machines], err);
    if (rc == SW_OK)
        m->machines++;
    return rc;
}

/* With the number of threads that the recipe asks for; else with all cores of the workers, with
 * half of them, a quarter, and one. */
static int add_machine(struct sw_plan_model *m, int workers, struct sw_err *err)
{
    const int set = m->constraints.threads;

    int rc = build_machine(m, workers, set, err);
    if (rc != SW_OK || set > 0)
        return rc;

    int last = m->machine[m->machines - 1]->device[0].threads; /* 0: of a GPU */
    const int fewer[] = {last / 2, last / 4, 1};

    for (size_t i = 0; i < sizeof fewer / sizeof *fewer && rc == SW_OK; i++)
        if (fewer[i] >= 1 && fewer[i] < last && m->machines < SW_PLAN_MACHINES) {
            last = fewer[i];
            rc = build_machine(m, workers, last, err);
        }

    return rc;
}

static int hosts_of(const struct sw_plan_model *m)
{
    const int given = (int)m->args.given->hosts.value;

    return given > 0 ? given : m->args.hosts > 0 ? m->args.hosts : 1;
}

/* The workers on each host for which the recipe asks; 0: any number. */
static int requested_workers(const struct sw_plan_model *m)
{
    const struct sw_search_limits *l = &m->constraints.limits;
    const int hosts = hosts_of(m), workers = l->group_size * (l->groups > 0 ? l->groups : 1);

    return workers > 0 ? (workers + hosts - 1) / hosts : 0;
}

/* The groups on each host for which the recipe asks; 1: any number. */
static int requested_groups(const struct sw_plan_model *m)
{
    const int hosts = hosts_of(m), groups = m->constraints.limits.groups;

    return groups > 1 ? (groups + hosts - 1) / hosts : 1;
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

/* Workers on cores can be any number up to one per core: 1, 2, 4 ... in each of the groups that the
 * recipe asks for, and all are considered, and what the recipe asks for. */
static int add_machines(struct sw_plan_model *m, int workers, struct sw_err *err)
{
    const int asked = requested_workers(m), groups = requested_groups(m);
    const int cores = m->hosts.least_cores;
    int most = sw_machine_threads(m->args.map);

    if (cores > 0 && cores < most)
        most = cores;
    if (!sw_machine_on_cores(&m->args) || workers > 0)
        return build_machine(m, workers, m->constraints.threads, err);
    if (m->constraints.threads > 1 && most >= m->constraints.threads)
        most /= m->constraints.threads;
    if (asked > most || groups > most)
        return refuse_workers(m, asked > most ? asked : groups, most, err);

    int rc = add_machine(m, 1, err);
    for (int n = groups > 1 ? groups : 2;
         rc == SW_OK && n <= most && !asked && m->machines < SW_PLAN_MACHINES - 2; n *= 2)
        rc = add_machine(m, n, err);
    if (rc == SW_OK && !asked && most > 1 &&
        m->machine[m->machines - 1]->device_count < most * hosts_of(m))
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

int sw_plan_open_machines(struct sw_plan_model *m, const char *device,
                          const struct sw_plan_target *t, struct sw_err *err)
{
    int rc = open_hosts(m, t, err);
    if (rc != SW_OK)
        return rc;
    count_hosts(m);

    rc = open_machine(m, device, t, err);
    if (rc != SW_OK)
        return rc;
    rc = add_machines(m, t->workers, err);
    if (rc != SW_OK)
        return rc;

    limit_workers(m);
    limit_exchange(m);
    return check_locations(m, err);
}
