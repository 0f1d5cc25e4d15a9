/* The hardware and roles of a job: the machine, its devices, the number of workers and servers, and
 * their placement. */
#include "run/job_roles.h"
#include "base/os.h"
#include "base/str.h"
#include "device/driver.h"
#include "device/send_limit.h"
#include "machine/bind.h"
#include "machine/driver.h"
#include "optim/updater.h"
#include "plan/auto_device.h"
#include "run/host_loss.h"
#include "run/host_rates.h"
#include "run/job_hooks.h"
#include "run/job_private.h"
#include "run/limits.h"
#include "run/microbatches.h"
#include "run/patience.h"
#include "worker/server.h"
#include "worker/worker.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void cap_threads(struct sw_placement *p, int64_t cap)
{
    for (int i = 0; i < p->worker_count + p->server_count && cap > 0; i++)
        if (p->rows[i].threads > cap)
            p->rows[i].threads = (int)cap;
}

/* Limits the math threads: to OMP_NUM_THREADS, and to those of the resumed checkpoint, since more
 * threads would change the bits of the result. */
static void limit_threads(struct sw_job *job)
{
    const char *text = getenv("OMP_NUM_THREADS");
    int64_t cap;

    if (text && sw_parse_int(text, &cap))
        cap_threads(job->place.placement, cap);
    if (job->reserve.saved_workers == job->topology->workers)
        cap_threads(job->place.placement, job->reserve.saved_threads);
}

static bool has_devices(const struct sw_job *job)
{
    return !job->place.devices.driver->caps.host_memory;
}

/* Number of workers that can have a device of their own; -1: all share the CPU. */
static int count_devices(const struct sw_job *job)
{
    const int free = sw_usage_free_gpus(job->place.machine, &job->reserve.usage);

    if (!has_devices(job))
        return -1;
    if (job->place.devices.count)
        return job->place.devices.count;
    return free > 0 ? free : job->place.machine->gpu_count;
}

/* The settings of [cluster] while topology and placement are made from them. */
struct setup {
    struct sw_job *job;
    struct sw_cluster_conf conf;
    const struct sw_section *section;
    struct sw_cluster_shape shape;
    struct sw_cluster_sync sync;
    bool oversubscribe;
};

/* Rows of a batch that this host has. */
static int64_t rows_of(const struct sw_topology *t, int split)
{
    int64_t first, rows;
    sw_topology_host_rows(t, split, &first, &rows);
    return rows;
}

static int64_t fewest_rows(const struct sw_topology *t)
{
    int64_t train = rows_of(t, SW_SPLIT_TRAIN), evaluated = rows_of(t, SW_SPLIT_EVAL);
    return train < evaluated ? train : evaluated;
}

/* The largest number of workers that would be accepted. */
static int most_workers(const struct setup *s)
{
    const struct sw_job *job = s->job;
    int64_t most = job->topology->leaves > 0 ? job->topology->leaves : fewest_rows(job->topology);
    int threads = sw_machine_threads(job->place.machine), devices = count_devices(job);

    if (!s->oversubscribe && threads < most)
        most = threads;
    if (devices > 0 && devices < most && !job->place.devices.mixed)
        most = devices;

    return (int)most;
}

static int check_rows(const struct setup *s)
{
    const struct sw_topology *t = s->job->topology;
    int64_t rows = fewest_rows(t);

    if (t->update_group_size <= rows)
        return SW_OK;

    return sw_recipe_error(s->job->recipe, s->section, "workers_per_group",
                           "%d workers cannot share a batch of %lld rows%s: use at most %lld",
                           t->update_group_size, (long long)rows,
                           rows < rows_of(t, SW_SPLIT_TRAIN) ? " in evaluations" : "",
                           (long long)rows);
}

/* Checks the number of requested devices; whether they exist is checked by the placement. */
static int check_devices(const struct setup *s)
{
    const struct sw_device_request *r = &s->job->place.devices;
    int workers = s->job->topology->workers;
    char more[64], mixed[64];

    if (!r->driver->format || workers <= r->count || r->mixed)
        return SW_OK;

    r->driver->format(workers, more, sizeof more);
    r->driver->format(r->count, mixed, sizeof mixed);
    return sw_recipe_error(s->job->recipe, s->section, "workers_per_group",
                           "%d workers need a device each, but there are %d: use at most %d "
                           "workers, or device = %s, or device = %s+%s",
                           workers, r->count, r->count, more, mixed, sw_driver_host()->name);
}

/* Checks what a job with workers on devices and CPUs does not support. */
static int check_mixed(const struct setup *s)
{
    const struct sw_job *job = s->job;
    int devices = count_devices(job), size = job->topology->group_size;

    if (!job->place.devices.mixed)
        return SW_OK;
    if (job->exchange.copy == SW_COPY_NONE)
        return sw_recipe_error(job->recipe, s->section, "copy",
                               "with workers on devices and on CPUs the parameters are updated on "
                               "the host: use copy = async");

    if (sw_job_splits_layers(job) && devices % size != 0 && devices < job->topology->workers)
        return sw_recipe_error(job->recipe, s->section, "workers_per_group",
                               "a group with %d workers on devices and %d on CPUs cannot split "
                               "layers, because activations move either between devices or in "
                               "host memory: split by rows, or use groups of one kind",
                               devices % size, size - devices % size);

    if (job->conf->memory_bytes > 0)
        return sw_recipe_error(
            job->recipe, sw_recipe_find(job->recipe, "job", NULL), "memory",
            "a budget applies either to devices or to the host, and this job uses "
            "both: remove memory = fit");

    return SW_OK;
}

static int make_topology(struct setup *s, struct sw_err *err)
{
    struct sw_job *job = s->job;
    const struct sw_job_conf *c = job->conf;
    int workers = s->shape.worker_groups * s->shape.workers_per_group;
    const struct sw_job_hosts *hosts = job->options.hosts;

    s->shape.driver = has_devices(job) ? job->place.devices.driver : NULL;
    if (job->place.devices.mixed && count_devices(job) < workers)
        s->shape.device_workers = count_devices(job);
    s->shape.gpu_count = job->place.devices.count;
    memcpy(s->shape.gpus, job->place.devices.index, sizeof s->shape.gpus);
    s->shape.used_gpus = job->reserve.usage.used_gpus;

    return sw_topology_new(
        &(struct sw_topology_args){.shape = &s->shape,
                                   .sync = &s->sync,
                                   .hosts = hosts ? hosts->list->count : 1,
                                   .host = hosts ? hosts->list->own : 0,
                                   .batch = {c->batch, c->eval_batch},
                                   .virtual_workers = c->repeat_exact ? c->virtual_workers : 0,
                                   .splits_layers = sw_job_splits_layers(job)},
        &job->topology, err);
}

static int make_shape(struct setup *s, struct sw_err *err)
{
    struct sw_job *job = s->job;
    const char *key = NULL;
    char advice[128];

    job->exchange.copy = (enum sw_copy_mode)s->conf.copy;
    job->exchange.overlap = (enum sw_overlap)s->conf.overlap;
    job->speed.rebalances = s->conf.rebalance;

    int rc = sw_cluster_shape(&s->conf, job->place.machine, &s->shape, &job->report.framework, &key,
                              err);
    if (rc == SW_OK)
        rc = sw_cluster_sync(&s->conf, &s->sync, &key, err);
    if (rc == SW_ERR_INVALID)
        sw_recipe_error(job->recipe, s->section, key, "%s", err->text);
    if (rc != SW_OK)
        return rc;

    rc = make_topology(s, err);
    if (rc != SW_OK)
        return rc;

    rc = sw_job_hosts_check(job);
    if (rc != SW_OK)
        return rc;

    rc = check_rows(s);
    if (rc == SW_OK)
        rc = check_devices(s);

    if (rc == SW_ERR_INVALID)
        sw_recipe_hint(
            job->recipe, "%s",
            sw_cluster_advice(&s->conf, &s->shape, most_workers(s), advice, sizeof advice));

    if (rc != SW_OK)
        return rc;

    return check_mixed(s);
}

static int choose_shape(struct setup *s, struct sw_err *err)
{
    int rc = make_shape(s, err);
    if (rc != SW_OK)
        return rc == SW_ERR_INVALID ? sw_recipe_status(s->job->recipe, err) : rc;

    sw_replan_check(s->job);
    sw_patience_check(s->job);
    rc = sw_microbatches_check(s->job, s->section, err);
    return rc == SW_ERR_INVALID ? sw_recipe_status(s->job->recipe, err) : rc;
}

/* Reads [cluster]; one worker per GPU, unless it sets their number. */
static struct sw_cluster_conf read_cluster(const struct sw_job *job, bool one_worker)
{
    struct sw_cluster_conf c = {.workers_per_group = 1, .staleness = -1, .copy = SW_COPY_ASYNC};

    if (!one_worker)
        c = *(const struct sw_cluster_conf *)sw_recipe_find(job->recipe, "cluster", NULL)->common;
    if (job->options.hosts)
        c.host_count = job->options.hosts->list->count;
    if (count_devices(job) > 0)
        c.devices = count_devices(job) + job->place.devices.mixed;

    return c;
}

/* A worker that waits for the others runs the servers that it hosts, because the others may depend
 * on them. user: the first worker of the group that waits. */
static int serve_while_waiting(void *user, int worker)
{
    struct sw_worker *workers = user;
    struct sw_err ignored; /* it is already the fault of the job */
    return sw_server_poll(&workers[worker], &ignored);
}

/* Runs the servers of a worker that waits for the workers of the same rank in other groups. */
static int serve_while_peers_wait(void *user, int group)
{
    struct sw_worker *first = user;
    return serve_while_waiting(first, group * first->topology->group_size);
}

static void make_group(struct sw_group *g, struct sw_worker *workers, int count, int leaves)
{
    sw_group_init(g, count, leaves);
    g->serve = serve_while_waiting;
    g->serve_user = workers;
}

static int make_peers(struct sw_job *job, struct sw_err *err)
{
    if (!job->topology->splits_layers)
        return SW_OK;

    job->groups.peers = sw_calloc((size_t)job->topology->group_size, sizeof *job->groups.peers);
    if (!job->groups.peers)
        return sw_err_nomem(err, "worker groups",
                            (size_t)job->topology->group_size * sizeof *job->groups.peers);

    for (int i = 0; i < job->topology->group_size; i++) {
        make_group(&job->groups.peers[i], &job->workers[i], job->topology->worker_groups,
                   job->topology->worker_groups);
        job->groups.peers[i].serve = serve_while_peers_wait;
    }

    return SW_OK;
}

static int make_groups(struct sw_job *job, struct sw_err *err)
{
    const struct sw_topology *t = job->topology;

    job->groups.each = sw_calloc((size_t)t->worker_groups, sizeof *job->groups.each);
    if (!job->groups.each)
        return sw_err_nomem(err, "worker groups",
                            (size_t)t->worker_groups * sizeof *job->groups.each);

    for (int i = 0; i < t->workers; i++)
        job->workers[i].group = &job->groups.each[t->rank[i].group];

    for (int g = 0; g < t->worker_groups; g++)
        make_group(&job->groups.each[g], &job->workers[g * t->group_size], t->group_size,
                   t->microbatches);

    make_group(&job->groups.all, job->workers, t->workers, t->worker_groups * t->microbatches);
    sw_group_init(&job->groups.leaders, t->update_groups, t->update_groups);

    sw_job_hosts_connect_groups(job);

    bool warms_up = t->warmup_steps > 0;
    const int active = t->host == 0;
    sw_group_set_warmup(&job->groups.all, warms_up ? active * t->group_size : t->workers,
                        t->warmup_steps);
    sw_group_set_warmup(&job->groups.leaders, warms_up ? active : t->update_groups,
                        t->warmup_steps);

    return make_peers(job, err);
}

static struct sw_worker_shared shared_by_workers(struct sw_job *job)
{
    return (struct sw_worker_shared){.recipe = job->recipe,
                                     .conf = job->conf,
                                     .place = &job->place,
                                     .span = &job->span,
                                     .data = &job->data,
                                     .display = &job->options.display,
                                     .workers = job->workers,
                                     .servers = job->servers,
                                     .groups = &job->groups,
                                     .params = &job->params,
                                     .exchange_plan = &job->exchange,
                                     .state = &job->state,
                                     .outputs = &job->outputs,
                                     .metrics = &job->metrics,
                                     .stops = &job->stops,
                                     .nonfinite = &job->nonfinite,
                                     .requests = &job->requests,
                                     .events = &job->events,
                                     .fault = &job->fault,
                                     .hooks = &sw_job_hooks,
                                     .run = job,
                                     .one_worker = job->options.evaluates,
                                     .any_location = job->options.model.of_net,
                                     .rebalances = job->speed.rebalances,
                                     .returns = sw_job_hosts_return(job)};
}

static int make_units(struct sw_job *job, struct sw_err *err)
{
    const struct sw_topology *t = job->topology;

    job->workers = sw_calloc((size_t)t->workers, sizeof *job->workers);
    job->servers = sw_calloc((size_t)t->servers, sizeof *job->servers);

    job->params.copies = sw_calloc((size_t)t->server_groups, sizeof *job->params.copies);
    if (!job->workers || !job->servers || !job->params.copies)
        return sw_err_nomem(err, "workers and servers", (size_t)t->workers * sizeof *job->workers);

    const struct sw_worker_shared shared = shared_by_workers(job);
    for (int i = 0; i < t->workers; i++)
        job->workers[i] = (struct sw_worker){
            .shared = shared, .topology = t, .rank = &t->rank[i], .rows = &job->rows};

    job->events.step = &job->workers[0].step;
    for (int i = 0; i < t->server_groups; i++)
        job->params.copies[i] =
            (struct sw_server_group){.hardware = &job->place, .place = &t->server_group[i]};

    int rc = make_groups(job, err);
    if (rc != SW_OK)
        return rc;

    return sw_microbatches_split(job, err);
}

/* Does an option need all gradients before any update is made? */
static bool controls_updates(const struct sw_job *job)
{
    const struct sw_section *u = sw_recipe_find(job->recipe, "updater", NULL);
    const struct sw_updater *updater = (const struct sw_updater *)(const void *)u->type[0];
    return job->conf->clip.norm > 0 || job->conf->on_nan != SW_ON_NAN_STOP ||
           job->conf->loss_scale > 0 || updater->needs_norms || sw_stop_needs_norm(job->conf) ||
           sw_job_hosts_return(job);
}

static const struct sw_throughputs *throughputs_of(void *user)
{
    struct sw_job *job = user;
    return sw_throughputs_of(&job->speed.throughputs, job->workers);
}

/* Not in a job that only checks its recipe. */
static bool measures_hosts(const struct sw_job *job)
{
    return job->options.hosts && job->options.hosts->launch;
}

static int host_rates_of(void *user, struct sw_host_rates *rates, struct sw_err *err)
{
    return sw_host_rates_measure(user, rates, err);
}

static int begin_exchange_plan(struct sw_job *job, struct sw_err *err)
{
    const struct sw_exchange_plan_args args = {.recipe = job->recipe,
                                               .conf = job->conf,
                                               .topology = job->topology,
                                               .request = &job->place.devices,
                                               .machine = job->place.machine,
                                               .log = job->events.log,
                                               .fault = &job->fault,
                                               .controls_updates = controls_updates(job),
                                               .throughputs = throughputs_of,
                                               .host_rates =
                                                   measures_hosts(job) ? host_rates_of : NULL,
                                               .user = job};
    return sw_exchange_plan_init(&job->exchange, &args, err);
}

/* The driver whose devices are GPUs of the machine map, or NULL. */
static const struct sw_driver *driver_on_bus(const struct sw_job *job)
{
    return job->place.devices.driver->caps.on_bus ? job->place.devices.driver : NULL;
}

/* Reads the machine map; if GPUs are used, with those that the driver knows. */
static int map_machine(struct sw_job *job, const struct sw_job_options *o, struct sw_err *err)
{
    if (o->machine)
        return sw_machine_from(o->machine, &job->place.machine, err);
    if (o->previous.job && o->previous.job->place.machine &&
        driver_on_bus(o->previous.job) == driver_on_bus(job)) {
        job->place.machine = sw_machine_share(o->previous.job->place.machine);
        return SW_OK;
    }

    int rc = sw_bind_check_environment(err);
    if (rc != SW_OK)
        return rc;
    rc = sw_machine_here(&job->place.machine, err);
    if (rc != SW_OK)
        return rc;

    sw_log_write(job->events.log, SW_LOG_DEBUG, "job", "the machine map was read");
    if (driver_on_bus(job) && !o->only_placement)
        rc = sw_machine_ask_driver(job->place.machine, job->place.devices.driver, err);

    return rc;
}

/* Places the roles; an error advises how to request fewer. */
static int place_units(const struct setup *s, struct sw_err *err)
{
    struct sw_job *job = s->job;
    char advice[128];
    struct sw_err why;
    int most = most_workers(s);

    int rc = sw_placement_new(job->place.machine, &s->shape, s->oversubscribe,
                              &job->place.placement, &why);
    if (rc == SW_OK)
        return rc;
    if (rc != SW_ERR_INVALID || job->topology->workers <= most)
        return sw_err_set(err, rc, "%s", why.text);

    return sw_err_set(err, rc, "%s; try %s", why.text,
                      sw_cluster_advice(&s->conf, &s->shape, most, advice, sizeof advice));
}

/* Number of workers that the recipe asks for, as far as it says; 1: the default. */
static int requested_workers(const struct sw_job *job, const struct sw_job_options *o)
{
    const struct sw_cluster_conf *c = sw_recipe_find(job->recipe, "cluster", NULL)->common;
    const int groups = c->worker_groups > 1 ? (int)c->worker_groups : 1;
    const int size = c->workers_per_group > 1 ? (int)c->workers_per_group : 1;

    return o->one_worker ? 1 : groups * size;
}

/* Chooses the shape and places it; twice if cores are left to other runs. */
static int place(struct setup *s, const struct sw_job_options *o, struct sw_err *err)
{
    int rc = choose_shape(s, err);
    if (rc != SW_OK)
        return rc;
    rc = place_units(s, err);
    if (rc != SW_OK || !sw_reserve_narrow(s->job, o))
        return rc;

    sw_placement_free(s->job->place.placement);
    s->job->place.placement = NULL;
    return place_units(s, err);
}

/* Chooses cores and places the roles on them, while the registry of runs is locked. */
static int place_and_reserve(struct setup *s, const struct sw_job_options *o, struct sw_err *err)
{
    int rc = sw_reserve_begin(s->job, o, requested_workers(s->job, o), err);
    if (rc != SW_OK)
        return rc;

    s->conf = read_cluster(s->job, o->one_worker);
    rc = place(s, o, err);
    if (rc == SW_OK)
        rc = sw_reserve_end(s->job, o, err);
    sw_reserve_unlock(s->job);

    return rc;
}

int sw_job_place_roles(struct sw_job *job, const struct sw_job_options *o, struct sw_err *err)
{
    int rc = map_machine(job, o, err);
    if (rc != SW_OK)
        return rc;

    struct setup s = {.job = job,
                      .section = sw_recipe_find(job->recipe, "cluster", NULL),
                      .oversubscribe = o->oversubscribe};
    rc = place_and_reserve(&s, o, err);
    if (rc != SW_OK)
        return rc;

    if (job->place.machine->here)
        limit_threads(job);
    sw_limits_describe(job);
    rc = make_units(job, err);
    if (rc != SW_OK)
        return rc;

    return begin_exchange_plan(job, err);
}

/* ---- devices ---- */

/* What device = auto stands for; SINGA_AUTO names it without a test. A resumed run keeps the CPU,
 * whose results a GPU would change. */
static int choose_auto(struct sw_job *job, const struct sw_job_options *o, char *text, size_t bytes,
                       struct sw_err *err)
{
    const char *const fixed = getenv("SINGA_AUTO"), *const host = sw_driver_host()->name;
    snprintf(text, bytes, "%s", fixed ? fixed : host);
    if (fixed || o->machine ||
        (o->resume && o->resume->device && sw_str_eq(o->resume->device, host)))
        return SW_OK;

    const struct sw_driver *driver = sw_driver_on_bus();
    struct sw_machine *machine = NULL;
    struct sw_err ignored;
    if (!driver->is_likely())
        return SW_OK;

    int rc = sw_machine_here(&machine, err);
    if (rc != SW_OK)
        return rc;

    const struct sw_auto_device_args args = {.driver = driver,
                                             .machine = machine,
                                             .workers = requested_workers(job, o),
                                             .saved_only =
                                                 o->no_probes || o->only_placement || o->predict};
    if (sw_machine_ask_driver(machine, driver, &ignored) == SW_OK)
        rc = sw_auto_device(&args, text, bytes, job->place.device_why, sizeof job->place.device_why,
                            err);
    sw_machine_free(machine);
    return rc;
}

int sw_job_choose_device(struct sw_job *job, const struct sw_job_options *o, struct sw_err *err)
{
    char text[sizeof job->place.devices.text];
    const char *device = job->conf->device;
    int rc = SW_OK;

    if (sw_str_eq(device, "auto")) {
        rc = choose_auto(job, o, text, sizeof text, err);
        device = text;
    }

    if (rc != SW_OK)
        return rc;
    rc = sw_device_request_parse(device, &job->place.devices, err);
    if (rc == SW_ERR_INVALID) {
        sw_recipe_error(job->recipe, sw_recipe_find(job->recipe, "job", NULL), "device", "%s",
                        err->text);
        return sw_recipe_status(job->recipe, err);
    }

    if (rc != SW_OK)
        return rc;

    const struct sw_device_args host = {.precision = (enum sw_precision)job->conf->precision};
    rc = sw_driver_host()->open(&host, &job->place.host, err);
    if (rc != SW_OK)
        return rc;

    job->place.host->avoid_winograd = !job->conf->winograd;
    return SW_OK;
}

static int open_own(const struct sw_job *job, int worker, struct sw_device **out,
                    struct sw_err *err)
{
    const int gpu = job->place.placement->rows[worker].gpu;
    const struct sw_device_args args = {
        .options = job->place.devices.options,
        .index = gpu < 0 ? worker : gpu,
        .bus = gpu < 0 ? NULL : sw_machine_gpu(job->place.machine, gpu)->bus,
        .precision = (enum sw_precision)job->conf->precision,
        .sibling = worker > 0 ? job->workers[0].device : NULL};

    int rc = job->place.devices.driver->open(&args, out, err);
    if (rc != SW_OK)
        return rc;

    (*out)->avoid_winograd = !job->conf->winograd;
    return SW_OK;
}

/* cluster.bandwidth: what a device sends is limited, whichever of its workers sends it. */
static int limit_sends(struct sw_job *job, int worker, struct sw_err *err)
{
    struct sw_device *own = job->workers[worker].device;

    for (int i = 0; i < worker; i++) {
        struct sw_send_limit *other = job->workers[i].device->send_limit;
        if (other && sw_str_eq(job->workers[i].device->name, own->name)) {
            own->send_limit = sw_send_limit_share(other);
            return SW_OK;
        }
    }

    int rc = sw_send_limit_new(job->exchange.cluster->bandwidth, &own->send_limit, err);
    return rc == SW_OK ? sw_fault_attach(&job->fault, sw_send_limit_close_v, own->send_limit, err)
                       : rc;
}

/* Opens a device for every worker, according to its placement. */
int sw_job_open_devices(struct sw_job *job, struct sw_err *err)
{
    int workers = job->topology->workers, rc = SW_OK;

    for (int i = 0; i < workers; i++) {
        struct sw_worker *w = &job->workers[i];

        if (w->rank->device < 0)
            w->device = job->place.host;
        else
            rc = open_own(job, i, &w->device, err);

        job->exchange.devices[i] = w->device;
        if (rc != SW_OK)
            return rc;

        if (w->rank->device >= 0 && job->exchange.cluster->bandwidth > 0)
            rc = limit_sends(job, i, err);
        if (rc != SW_OK)
            return rc;
    }

    return SW_OK;
}
