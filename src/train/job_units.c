/* On what a job runs: the machine, its devices, how many workers and servers, and where they are.
 */
#include "base/os.h"
#include "base/str.h"
#include "cluster/driver.h"
#include "device/driver.h"
#include "train/choices.h"
#include "train/job_private.h"
#include "train/worker.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* OMP_NUM_THREADS caps the math threads, as everywhere. */
static void cap_threads(struct sw_placement *p)
{
    const char *text = getenv("OMP_NUM_THREADS");
    int64_t cap;
    if (!text || !sw_parse_int(text, &cap) || cap < 1)
        return;
    for (int i = 0; i < p->worker_count + p->server_count; i++)
        if (p->rows[i].threads > cap)
            p->rows[i].threads = (int)cap;
}

/* How many workers can have a device of their own; -1: all share the CPU. */
static int count_devices(const struct sw_job *job)
{
    if (!sw_job_has_devices(job))
        return -1;
    return job->devices.count ? job->devices.count : job->machine->gpu_count;
}

/* The most workers that would be accepted. */
static int most_workers(const struct sw_job *job, bool oversubscribe)
{
    int64_t most = sw_leaves_of(job, (int)sw_leaves_most(job));
    int threads = sw_machine_threads(job->machine), devices = count_devices(job);
    if (!oversubscribe && threads < most)
        most = threads;
    if (devices > 0 && devices < most && !job->devices.mixed)
        most = devices;
    return (int)most;
}

static int check_rows(struct sw_job *job, const struct sw_section *section)
{
    int64_t rows = sw_leaves_most(job);
    int sharing = job->shape.workers_per_group;
    if (job->terms.consistency == SW_CONSISTENCY_BSP)
        sharing *= job->shape.worker_groups;
    if (sharing <= rows)
        return SW_OK;
    return sw_recipe_error(job->recipe, section, "workers_per_group",
                           "%d workers cannot share a batch of %lld rows%s: at most %lld", sharing,
                           (long long)rows, rows < job->conf->batch ? " in evaluations" : "",
                           (long long)rows);
}

/* Devices that exist are checked by the placement. */
static int check_devices(struct sw_job *job, const struct sw_section *section)
{
    const struct sw_device_request *r = &job->devices;
    int workers = job->shape.worker_groups * job->shape.workers_per_group;
    char more[64], mixed[64];
    if (!r->driver->format || workers <= r->count || r->mixed)
        return SW_OK;

    r->driver->format(workers, more, sizeof more);
    r->driver->format(r->count, mixed, sizeof mixed);
    return sw_recipe_error(job->recipe, section, "workers_per_group",
                           "%d workers need a device each, but there are %d: at most %d, or say "
                           "device %s, or %s+%s",
                           workers, r->count, r->count, more, mixed, sw_driver_host()->name);
}

/* What all workers of a mixed job have to share. */
static int check_mixed(struct sw_job *job, const struct sw_section *section)
{
    if (!job->devices.mixed)
        return SW_OK;
    if (job->copy == SW_COPY_NONE)
        return sw_recipe_error(job->recipe, section, "copy",
                               "devices and CPUs update the same values, which are therefore on "
                               "the host: say async");
    int devices = count_devices(job), size = job->shape.workers_per_group;
    if (sw_job_splits_layers(job) && devices % size != 0 &&
        devices < size * job->shape.worker_groups)
        return sw_recipe_error(job->recipe, section, "workers_per_group",
                               "a group with %d workers on devices and %d on CPUs cannot split "
                               "layers: pieces of them move between devices, or in the host's "
                               "memory; split by rows, or have groups of one kind",
                               devices % size, size - devices % size);
    if (job->conf->memory_bytes > 0)
        return sw_recipe_error(job->recipe, sw_recipe_find(job->recipe, "job", NULL), "memory",
                               "a budget is one of devices or of the host, and this job has both: "
                               "leave out fit");
    return SW_OK;
}

static int make_shape(struct sw_job *job, const struct sw_cluster_conf *c,
                      const struct sw_section *section, bool oversubscribe, struct sw_err *err)
{
    const char *key = NULL;
    char advice[128];
    job->copy = (enum sw_copy_mode)c->copy;
    job->overlap = (enum sw_overlap)c->overlap;
    job->rebalances = c->rebalance;
    int rc = sw_cluster_shape(c, job->machine, &job->shape, &job->framework, job->framework_reason,
                              sizeof job->framework_reason, &key, err);
    if (rc == SW_OK)
        rc = sw_cluster_terms(c, &job->terms, &key, err);
    if (rc == SW_ERR_INVALID)
        sw_recipe_error(job->recipe, section, key, "%s", err->text);
    if (rc != SW_OK)
        return rc;
    rc = check_rows(job, section);
    if (rc == SW_OK)
        rc = check_devices(job, section);
    if (rc == SW_ERR_INVALID)
        sw_recipe_hint(job->recipe, "%s",
                       sw_cluster_advice(c, &job->shape, most_workers(job, oversubscribe), advice,
                                         sizeof advice));
    return rc == SW_OK ? check_mixed(job, section) : rc;
}

static int choose_shape(struct sw_job *job, const struct sw_cluster_conf *c, bool oversubscribe,
                        struct sw_err *err)
{
    const struct sw_section *section = sw_recipe_find(job->recipe, "cluster", NULL);
    int rc = make_shape(job, c, section, oversubscribe, err);
    if (rc == SW_OK)
        rc = sw_leaves_check(job, section, err);
    if (rc != SW_OK)
        return rc == SW_ERR_INVALID ? sw_recipe_verdict(job->recipe, err) : rc;
    job->shape.driver = sw_job_has_devices(job) ? job->devices.driver : NULL;
    if (job->devices.mixed &&
        count_devices(job) < job->shape.worker_groups * job->shape.workers_per_group)
        job->shape.device_workers = count_devices(job);
    job->shape.gpu_count = job->devices.count;
    memcpy(job->shape.gpus, job->devices.index, sizeof job->shape.gpus);
    return SW_OK;
}

/* What [cluster] says; one worker per GPU, unless it says how many. */
static struct sw_cluster_conf read_cluster(const struct sw_job *job, bool one_worker)
{
    struct sw_cluster_conf c = {.workers_per_group = 1, .staleness = -1, .copy = SW_COPY_ASYNC};
    if (!one_worker)
        c = *(const struct sw_cluster_conf *)sw_recipe_find(job->recipe, "cluster", NULL)->common;
    if (count_devices(job) > 0)
        c.devices = count_devices(job) + job->devices.mixed;
    return c;
}

/* A worker that waits for the others runs the servers it hosts: the others may depend on them.
 * user: the first worker of those that wait together. */
static int serve_while_waiting(void *user, int worker)
{
    struct sw_worker *workers = user;
    struct sw_err ignored; /* it is the fault of the job already */
    return sw_server_poll(&workers[worker], &ignored);
}

/* The same of those who have one place in their groups. */
static int serve_while_peers_wait(void *user, int group)
{
    struct sw_worker *first = user;
    return serve_while_waiting(first, group * first->job->group_size);
}

static void make_group(struct sw_group *g, struct sw_worker *workers, int count, int leaves)
{
    sw_group_init(g, count, leaves);
    g->serve = serve_while_waiting;
    g->serve_user = workers;
}

static int make_peers(struct sw_job *job, struct sw_err *err)
{
    if (!job->hybrid)
        return SW_OK;
    job->peers = sw_calloc((size_t)job->group_size, sizeof *job->peers);
    if (!job->peers)
        return sw_err_nomem(err, "worker groups", (size_t)job->group_size * sizeof *job->peers);
    for (int i = 0; i < job->group_size; i++) {
        make_group(&job->peers[i], &job->workers[i], job->group_count, job->group_count);
        job->peers[i].serve = serve_while_peers_wait;
    }
    return SW_OK;
}

/* Groups that are synchronous over all are one that shares every batch, unless each is to split
 * the net for itself. */
static int make_groups(struct sw_job *job, struct sw_err *err)
{
    int workers = job->placement->worker_count;
    job->apart = job->terms.consistency != SW_CONSISTENCY_BSP;
    job->hybrid = !job->apart && job->shape.worker_groups > 1 && sw_job_splits_layers(job);
    job->group_count = job->apart || job->hybrid ? job->shape.worker_groups : 1;
    job->group_size = workers / job->group_count;
    job->leaves = sw_leaves_of(job, job->group_size);
    job->groups = sw_calloc((size_t)job->group_count, sizeof *job->groups);
    if (!job->groups)
        return sw_err_nomem(err, "worker groups", (size_t)job->group_count * sizeof *job->groups);
    for (int g = 0; g < job->group_count; g++)
        make_group(&job->groups[g], &job->workers[g * job->group_size], job->group_size,
                   job->leaves);
    job->copies = sw_calloc((size_t)job->shape.server_groups, sizeof *job->copies);
    if (!job->copies)
        return sw_err_nomem(err, "server groups", sizeof *job->copies);
    for (int i = 0; i < workers; i++) {
        struct sw_worker *w = &job->workers[i];
        int own = sw_cluster_server_group(&job->shape, i / job->shape.workers_per_group);
        struct sw_server_group *copy = &job->copies[own];
        if (copy->workers++ == 0)
            *copy = (struct sw_server_group){.job = job,
                                             .first_worker = i,
                                             .workers = 1,
                                             .first_server = own * job->shape.servers_per_group};
        w->copy = copy;
        w->group_index = i / job->group_size;
        w->place = i % job->group_size;
        w->seat = i - copy->first_worker;
        w->group = &job->groups[w->group_index];
    }
    make_group(&job->all, job->workers, workers, job->group_count * job->leaves);
    sw_group_init(&job->norms, job->apart ? job->group_count : 1,
                  job->apart ? job->group_count : 1);
    if (job->apart && job->group_count > 1)
        job->alone_steps = job->terms.warmup_steps;
    sw_group_let_rest(&job->all, job->alone_steps > 0 ? job->group_size : workers,
                      job->alone_steps);
    sw_group_let_rest(&job->norms, job->alone_steps > 0 ? 1 : job->norms.workers, job->alone_steps);
    return make_peers(job, err);
}

int64_t sw_job_batches(const struct sw_job *job, int64_t step)
{
    int64_t alone = step < job->alone_steps ? step : job->alone_steps;
    return alone + (step - alone) * (job->apart ? job->group_count : 1);
}

int64_t sw_job_steps_of(const struct sw_job *job, int64_t batches)
{
    int64_t alone = batches < job->alone_steps ? batches : job->alone_steps;
    int64_t each = job->apart ? job->group_count : 1, shared = batches - alone;
    return alone + shared / each + (shared % each != 0);
}

bool sw_job_rests(const struct sw_job *job, int group, int64_t step)
{
    return group > 0 && step <= job->alone_steps;
}

int64_t sw_job_own_steps(const struct sw_job *job, int group, int64_t step)
{
    int64_t rested = group == 0 ? 0 : step < job->alone_steps ? step : job->alone_steps;
    return step - rested;
}

int64_t sw_job_samples(const struct sw_job *job, int64_t step)
{
    return sw_job_batches(job, step) * job->conf->batch;
}

static int make_units(struct sw_job *job, struct sw_err *err)
{
    int workers = job->placement->worker_count, servers = job->placement->server_count;
    job->workers = sw_calloc((size_t)workers, sizeof *job->workers);
    job->servers = sw_calloc((size_t)servers, sizeof *job->servers);
    if (!job->workers || !job->servers)
        return sw_err_nomem(err, "workers and servers", (size_t)workers * sizeof *job->workers);
    for (int i = 0; i < workers; i++)
        job->workers[i] = (struct sw_worker){.job = job, .index = i};
    int rc = make_groups(job, err);
    return rc == SW_OK ? sw_leaves_cut(job, err) : rc;
}

/* The driver whose devices are GPUs of the machine map, or NULL. */
static const struct sw_driver *driver_on_bus(const struct sw_job *job)
{
    return job->devices.driver->caps.on_bus ? job->devices.driver : NULL;
}

/* Where GPUs are to be used, the map has those that the driver knows. */
static int map_machine(struct sw_job *job, const struct sw_job_options *o, struct sw_err *err)
{
    if (o->machine)
        return sw_machine_from(o->machine, &job->machine, err);
    if (o->before && o->before->machine && driver_on_bus(o->before) == driver_on_bus(job)) {
        job->machine = sw_machine_share(o->before->machine);
        return SW_OK;
    }
    int rc = sw_bind_check_environment(err);
    if (rc == SW_OK)
        rc = sw_machine_here(&job->machine, err);
    if (rc == SW_OK)
        sw_log_write(job->log, SW_LOG_DEBUG, "job", "the machine map was read");
    if (rc == SW_OK && driver_on_bus(job) && !o->plan_units)
        rc = sw_machine_ask_driver(job->machine, job->devices.driver, err);
    return rc;
}

/* Says how to ask for fewer. */
static int place_units(struct sw_job *job, const struct sw_cluster_conf *c, bool oversubscribe,
                       struct sw_err *err)
{
    char advice[128];
    struct sw_err why;
    int rc = sw_placement_new(job->machine, &job->shape, oversubscribe, &job->placement, &why);
    if (rc == SW_OK)
        return rc;
    int most = most_workers(job, oversubscribe);
    if (rc != SW_ERR_INVALID || job->shape.worker_groups * job->shape.workers_per_group <= most)
        return sw_err_set(err, rc, "%s", why.text);
    return sw_err_set(err, rc, "%s; try %s", why.text,
                      sw_cluster_advice(c, &job->shape, most, advice, sizeof advice));
}

int sw_job_place(struct sw_job *job, const struct sw_job_options *o, struct sw_err *err)
{
    int rc = map_machine(job, o, err);
    if (rc != SW_OK)
        return rc;
    struct sw_cluster_conf c = read_cluster(job, o->one_worker);
    rc = choose_shape(job, &c, o->oversubscribe, err);
    if (rc == SW_OK)
        rc = place_units(job, &c, o->oversubscribe, err);
    if (rc != SW_OK)
        return rc;
    if (job->machine->here)
        cap_threads(job->placement);
    rc = make_units(job, err);
    if (rc == SW_OK)
        sw_job_choose_copy(job, &c);
    return rc;
}

/* ---- devices ---- */

int sw_job_choose_device(struct sw_job *job, struct sw_err *err)
{
    int rc = sw_device_request_parse(job->conf->device, &job->devices, err);
    if (rc == SW_ERR_INVALID) {
        sw_recipe_error(job->recipe, sw_recipe_find(job->recipe, "job", NULL), "device", "%s",
                        err->text);
        return sw_recipe_verdict(job->recipe, err);
    }
    if (rc != SW_OK)
        return rc;

    const struct sw_device_args host = {.precision = (enum sw_precision)job->conf->precision};
    rc = sw_driver_host()->open(&host, &job->device, err);
    if (rc != SW_OK)
        return rc;

    job->device->avoid_winograd = !job->conf->winograd;
    return SW_OK;
}

bool sw_job_has_devices(const struct sw_job *job)
{
    return !job->devices.driver->caps.host_memory;
}

static int open_own(const struct sw_job *job, int worker, struct sw_device **out,
                    struct sw_err *err)
{
    const int gpu = job->placement->rows[worker].gpu;
    const struct sw_device_args args = {.options = job->devices.options,
                                        .index = gpu < 0 ? worker : gpu,
                                        .bus =
                                            gpu < 0 ? NULL : sw_machine_gpu(job->machine, gpu)->bus,
                                        .precision = (enum sw_precision)job->conf->precision,
                                        .beside = worker > 0 ? job->workers[0].device : NULL};
    return job->devices.driver->open(&args, out, err);
}

/* Every worker on a device of its own, as its placement says. */
int sw_job_open_devices(struct sw_job *job, struct sw_err *err)
{
    int workers = job->placement->worker_count, rc = SW_OK;
    for (int i = 0; i < workers && rc == SW_OK; i++) {
        struct sw_worker *w = &job->workers[i];
        if (!sw_job_has_devices(job) ||
            (job->shape.device_workers > 0 && i >= job->shape.device_workers)) {
            w->device = job->device;
            continue;
        }
        struct sw_device *own = NULL;
        rc = open_own(job, i, &own, err);
        if (rc == SW_OK)
            own->avoid_winograd = !job->conf->winograd;
        w->device = own;
    }
    return rc;
}
