/* memory = fit:SIZE: computes which part of the budget is left for the arena of each worker's nets,
 * and makes the nets fit. On a device with its own memory the budget is that device's: the
 * parameters on the device and the buffers of layers are subtracted. On the CPU it is the job's:
 * parameters, updater state, batches and data exchanged between workers are subtracted, and the
 * workers share the rest, each up to what it can use. */
#include "base/str.h"
#include "plan/usual_rates.h"
#include "run/job_private.h"
#include "run/memory.h"
#include "worker/worker.h"
#include <stdio.h>

/* For choosing between recomputing and offloading: those of the machine for which is planned; of
 * devices with processors of their own measured ones (throughput.c); else usual ones, so that
 * choices are the same on every machine. On the CPU offloading would save nothing, because it uses
 * host memory already: it has no link. */
static struct sw_device_throughput throughputs_of(struct sw_job *job, const struct sw_worker *w)
{
    const struct sw_device_request *devices = &job->place.devices;
    const struct sw_device_caps *caps =
        w->device->host_memory ? &sw_driver_host()->caps : &devices->driver->caps;
    struct sw_throughputs t = sw_usual_throughputs(
        caps, sw_placement_worker(job->place.placement, w->rank->global_rank)->threads,
        (double)devices->link_bytes_per_s);

    if (job->options.model.rates)
        return *job->options.model.rates;
    if (devices->driver->caps.own_processor &&
        sw_throughputs_of(&job->speed.throughputs, job->workers)->device_memory_bytes_per_s > 0)
        t = job->speed.throughputs;

    return (struct sw_device_throughput){t.worker_flops_per_s, t.device_memory_bytes_per_s,
                                         t.link_bytes_per_s};
}

static size_t eval_bytes(const struct sw_worker *w)
{
    return w->eval ? sw_microbatches_arena_bytes(w->microbatches[SW_SPLIT_EVAL]) : 0;
}

/* Bytes of a worker's arena if every activation stays in memory. */
static size_t kept_bytes(const struct sw_worker *w)
{
    size_t train = sw_microbatches_cost(w->microbatches[SW_SPLIT_TRAIN]).kept_bytes,
           eval = eval_bytes(w);
    return train > eval ? train : eval;
}

/* The limit for each worker when together they have `bytes` and some need less. */
static size_t limit_of(const struct sw_job *job, size_t bytes)
{
    int workers = job->topology->workers;
    size_t level = bytes / (size_t)workers;

    for (int round = 0; round < workers; round++) {
        size_t rest = bytes, open = 0;

        for (int i = 0; i < workers; i++) {
            size_t kept = kept_bytes(&job->workers[i]);
            if (kept > level)
                open++;
            else
                rest -= kept;
        }

        if (open == 0)
            break;

        level = rest / open;
    }

    return level;
}

/* Where a budget is exceeded. */
struct shortage {
    size_t least; /* bytes of arena that suffice */
    const char *layer, *pass;
    bool evaluation;
};

static int fit_worker(struct sw_job *job, struct sw_worker *w, size_t budget, struct shortage *b,
                      struct sw_err *err)
{
    struct sw_device_throughput throughputs = throughputs_of(job, w);
    struct sw_microbatches *microbatches = w->microbatches[SW_SPLIT_TRAIN];
    struct sw_net_fit fit = {.fits = true};
    int rc = SW_OK;

    w->arena.budget = budget;
    if (sw_microbatches_arena_bytes(microbatches) > budget)
        rc = sw_microbatches_fit(microbatches, budget, &throughputs, &fit, err);
    if (rc != SW_OK)
        return rc;

    size_t eval = eval_bytes(w), train = sw_microbatches_arena_bytes(microbatches);
    w->arena.bytes = train > eval ? train : eval;
    if (!fit.fits && fit.least_bytes > b->least)
        *b = (struct shortage){fit.least_bytes, fit.layer, fit.pass, false};
    if (eval > budget && eval > b->least)
        *b = (struct shortage){.least = eval, .evaluation = true};

    return SW_OK;
}

static int refuse(const struct sw_job *job, const struct shortage *b, size_t fixed, size_t least,
                  struct sw_err *err)
{
    char fixed_text[32], needs[32], where[256];

    sw_human_bytes(fixed_text, (double)fixed);
    sw_human_bytes(needs, (double)b->least);

    if (b->evaluation)
        snprintf(where, sizeof where, "an evaluation needs %s", needs);
    else
        snprintf(where, sizeof where, "layer %s needs %s in its %s pass", b->layer, needs, b->pass);

    return sw_err_set(
        err, SW_ERR_NOMEM,
        "memory = %s is too small: %s, in addition to %s for %s; the smallest possible budget is "
        "memory = fit:%zu; use that, or a smaller %s",
        job->conf->memory, where, fixed_text,
        job->topology->devices > 0 ? "parameters on the device"
                                   : "parameters, updater state and batches",
        least, b->evaluation ? "eval_batch" : "batch");
}

static size_t left_of(size_t budget, size_t fixed)
{
    return budget > fixed ? budget - fixed : 0;
}

/* Number of workers on this device. */
static size_t workers_on(const struct sw_job *job, const struct sw_device *device)
{
    size_t count = 0;
    for (int i = 0; i < job->topology->workers; i++)
        count += sw_str_eq(job->workers[i].device->name, device->name);
    return count;
}

/* Fits the workers on devices, one after the other. Of a job that is refused, workers whose
 * activations need as much as those of the worst one so far say nothing new: finding out what they
 * need at least takes long. */
static int fit_devices(struct sw_job *job, size_t budget, struct sw_err *err)
{
    struct shortage worst = {0};
    size_t worst_fixed = 0, worst_kept = 0, least = 0;

    for (int i = 0; i < job->topology->workers; i++) {
        struct sw_worker *w = &job->workers[i];
        struct shortage b = {0};
        size_t fixed = sw_worker_fixed_bytes(w), sharing = workers_on(job, w->device);
        if (least > 0 && kept_bytes(w) == worst_kept && fixed == worst_fixed)
            continue;

        int rc = fit_worker(job, w, left_of(budget / sharing, fixed), &b, err);
        if (rc != SW_OK)
            return rc;

        if (b.least > 0 && (b.least + fixed) * sharing > least) {
            worst = b;
            worst_fixed = fixed;
            worst_kept = kept_bytes(w);
            least = (b.least + fixed) * sharing;
        }
    }

    return least == 0 ? SW_OK : refuse(job, &worst, worst_fixed, least, err);
}

/* Bytes of all arenas with a limit of `level` for each. */
static size_t bytes_at(const struct sw_job *job, size_t level)
{
    size_t bytes = 0;

    for (int i = 0; i < job->topology->workers; i++) {
        size_t kept = kept_bytes(&job->workers[i]);
        bytes += kept < level ? kept : level;
    }

    return bytes;
}

static int fit_host(struct sw_job *job, size_t budget, struct sw_err *err)
{
    size_t fixed = job->plan.bytes.peak - job->plan.bytes.arena;
    size_t share = limit_of(job, left_of(budget, fixed));
    struct shortage b = {0};
    int rc = SW_OK;

    for (int i = 0; i < job->topology->workers; i++) {
        rc = fit_worker(job, &job->workers[i], share, &b, err);
        if (rc != SW_OK)
            return rc;
    }

    if (rc != SW_OK || b.least == 0)
        return rc;

    return refuse(job, &b, fixed, fixed + bytes_at(job, b.least), err);
}

/* Names the largest parameter or activation of the worker, for a message. */
static void name_largest(const struct sw_worker *w, char *out, size_t room)
{
    size_t most = 0;

    for (int p = 0; p < sw_net_param_count(w->train); p++) {
        const struct sw_param *param = sw_table_param(w->table, w->param_of[SW_SPLIT_TRAIN][p]);
        if (sw_desc_bytes(&param->layout) > most) {
            most = sw_desc_bytes(&param->layout);
            snprintf(out, room, "%s, %zu bytes", param->name, most);
        }
    }

    for (int i = 0; i < sw_net_layer_count(w->train); i++) {
        const struct sw_layer *l = sw_net_layer(w->train, i);
        if (sw_net_info(w->train, i).holds && sw_desc_bytes(&l->dst.desc) > most) {
            most = sw_desc_bytes(&l->dst.desc);
            snprintf(out, room, "%s (activation), %zu bytes", l->name, most);
        }
    }
}

/* Checks that a device can hold what is planned for it; otherwise some allocation would fail later
 * during setup. */
static int check_room(const struct sw_worker *w, struct sw_err *err)
{
    char needs[32], has[32], arena[32], largest[160] = "";
    size_t bytes = sw_worker_device_bytes(w), room = sw_device_bytes_of(w->device).capacity;
    if (bytes <= room || room == 0)
        return SW_OK;

    name_largest(w, largest, sizeof largest);
    return sw_err_set(
        err, SW_ERR_NOMEM,
        "out of memory: training needs %s on %s, which has %s: %s for activations, their "
        "gradients and scratch, the rest for parameters and batches; the largest array is %s; try "
        "job.memory = fit:%zu, or a smaller batch",
        sw_human_bytes(needs, (double)bytes), w->device->name, sw_human_bytes(has, (double)room),
        sw_human_bytes(arena, (double)w->arena.bytes), largest, room);
}

static void sum_costs(struct sw_job *job, struct sw_job_fit *f)
{
    for (int i = 0; i < job->topology->workers; i++) {
        const struct sw_worker *w = &job->workers[i];
        const struct sw_net_cost c = sw_microbatches_cost(w->microbatches[SW_SPLIT_TRAIN]);

        f->saved_bytes += kept_bytes(w) - w->arena.bytes;
        f->recomputed += c.recomputed;
        f->offloaded += c.offloaded;
        f->recompute_flops += c.recompute_flops;
        f->recompute_bytes += c.recompute_bytes;
        f->offload_bytes += c.offload_bytes;
        f->may_offload = f->may_offload || !w->device->host_memory;
    }
}

int sw_job_fit(struct sw_job *job, struct sw_err *err)
{
    struct sw_job_fit *f = &job->plan.fit;
    int64_t budget = job->conf->memory_bytes;
    int rc = SW_OK;

    if (budget > 0) {
        sw_job_sum_memory(job);
        rc = job->place.host == job->workers[0].device ? fit_host(job, (size_t)budget, err)
                                                       : fit_devices(job, (size_t)budget, err);
        f->budget_bytes = budget;
    }

    if (rc != SW_OK)
        return rc;

    if (budget > 0)
        sum_costs(job, f);

    for (int i = 0; i < job->topology->workers; i++) {
        rc = check_room(&job->workers[i], err);
        if (rc != SW_OK)
            return rc;
    }

    return SW_OK;
}

int sw_job_refit(struct sw_job *job, const struct sw_worker *w, struct sw_microbatches *fresh,
                 struct sw_err *err)
{
    struct sw_device_throughput throughputs = throughputs_of(job, w);
    struct sw_net_fit fit = {.fits = true};

    if (w->arena.budget == 0 || sw_microbatches_arena_bytes(fresh) <= w->arena.budget)
        return SW_OK;

    int rc = sw_microbatches_fit(fresh, w->arena.budget, &throughputs, &fit, err);
    if (rc != SW_OK || fit.fits)
        return rc;

    return sw_err_set(err, SW_ERR_NOMEM,
                      "with more rows layer %s needs %zu bytes in its %s pass, but memory = %s "
                      "leaves %zu",
                      fit.layer, fit.least_bytes, fit.pass, job->conf->memory, w->arena.budget);
}
