/* On what a job runs: the machine, its devices, how many workers and servers, and where they are.
 */
#include "base/os.h"
#include "base/str.h"
#include "train/job_private.h"
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

static int choose_shape(struct sw_job *job, bool one_worker, struct sw_err *err)
{
    struct sw_cluster_conf c = {.workers_per_group = 1};
    const struct sw_section *section = sw_recipe_find(job->recipe, "cluster", NULL);
    const char *key = NULL;
    if (!one_worker)
        c = *(const struct sw_cluster_conf *)section->common;
    /* One worker per GPU, unless the recipe says how many. */
    if (job->on_sim && c.workers_per_group == 0)
        c.workers_per_group = job->sim.gpus;
    int rc = sw_cluster_shape(&c, job->machine, &job->shape, &job->framework, job->framework_reason,
                              sizeof job->framework_reason, &key, err);
    if (rc == SW_ERR_INVALID)
        sw_recipe_error(job->recipe, section, key, "%s", err->text);
    int64_t rows =
        job->conf->batch < job->conf->eval_batch ? job->conf->batch : job->conf->eval_batch;
    if (rc == SW_OK && job->shape.workers_per_group > rows)
        rc = sw_recipe_error(job->recipe, section, "workers_per_group",
                             "%d workers cannot share a batch of %lld rows: at most %lld",
                             job->shape.workers_per_group, (long long)rows, (long long)rows);
    if (rc == SW_OK && job->on_sim && job->shape.workers_per_group > job->sim.gpus)
        rc = sw_recipe_error(job->recipe, section, "workers_per_group",
                             "%d workers need a device each, but there are %d: at most %d, or say "
                             "device sim:gpus=%d",
                             job->shape.workers_per_group, job->sim.gpus, job->sim.gpus,
                             job->shape.workers_per_group);
    return rc == SW_ERR_INVALID ? sw_recipe_verdict(job->recipe, err) : rc;
}

/* A worker that waits for the others runs the servers it hosts: the others may depend on them. */
static int serve_while_waiting(void *user, int worker)
{
    struct sw_job *job = user;
    struct sw_err ignored; /* it is the fault of the job already */
    return sw_server_poll(&job->workers[worker], &ignored);
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
    sw_group_init(&job->group, workers);
    job->group.serve = serve_while_waiting;
    job->group.serve_user = job;
    return SW_OK;
}

int sw_job_place(struct sw_job *job, const struct sw_job_options *o, struct sw_err *err)
{
    int rc = sw_bind_check_environment(err);
    if (rc == SW_OK)
        rc = sw_machine_here(&job->machine, err);
    if (rc == SW_OK)
        rc = choose_shape(job, o->one_worker, err);
    if (rc == SW_OK)
        rc = sw_placement_new(job->machine, &job->shape, o->oversubscribe, &job->placement, err);
    if (rc != SW_OK)
        return rc;
    cap_threads(job->placement);
    return make_units(job, err);
}

/* ---- devices ---- */

/* "cpu", "auto", or "sim" with what follows a colon. */
static int read_device(struct sw_job *job, const char *text, struct sw_err *err)
{
    snprintf(job->device_text, sizeof job->device_text, "%s", text);
    if (sw_str_eq(text, "auto") || sw_str_eq(text, "cpu")) {
        strcpy(job->device_text, "cpu");
        return SW_OK;
    }
    job->on_sim = sw_str_eq(text, "sim") || sw_str_starts(text, "sim:");
    if (job->on_sim)
        return sw_sim_parse(text[3] ? text + 4 : "", &job->sim, err);
    return sw_err_set(err, SW_ERR_INVALID, "unknown device; there are auto, cpu, sim:gpus=N");
}

int sw_job_choose_device(struct sw_job *job, struct sw_err *err)
{
    job->sim = sw_sim_defaults();
    int rc = read_device(job, job->conf->device, err);
    if (rc == SW_ERR_INVALID) {
        sw_recipe_error(job->recipe, sw_recipe_find(job->recipe, "job", NULL), "device", "%s",
                        err->text);
        return sw_recipe_verdict(job->recipe, err);
    }
    return rc == SW_OK ? sw_cpu_open(false, &job->device, err) : rc;
}

/* Every worker on a simulated GPU of its own, as its placement says. */
int sw_job_open_devices(struct sw_job *job, struct sw_err *err)
{
    int workers = job->placement->worker_count, rc = SW_OK;
    for (int i = 0; i < workers && rc == SW_OK; i++) {
        struct sw_worker *w = &job->workers[i];
        w->device = job->device;
        if (!job->on_sim)
            continue;
        rc = sw_sim_open(&job->sim, i, &w->device, err);
        if (rc != SW_OK)
            w->device = NULL;
        else
            snprintf(job->placement->rows[i].device, sizeof job->placement->rows[i].device, "%s",
                     w->device->name);
    }
    return rc;
}
