/* What `[cluster] copy` comes to for a job: `auto` is decided as soon as the units are placed, and
 * once more when the ways between devices are known. The rule itself is sw_cluster_copy's. */
#include "optim/updater.h"
#include "train/choices.h"
#include "train/job_private.h"
#include <stdio.h>

bool sw_job_decides_about_all(const struct sw_job *job)
{
    const struct sw_section *u = sw_recipe_find(job->recipe, "updater", NULL);
    const struct sw_updater *updater = (const struct sw_updater *)(const void *)u->type[0];
    return job->conf->clip_norm > 0 || job->conf->on_nan != SW_ON_NAN_STOP ||
           job->conf->loss_scale > 0 || updater->needs_norms || sw_stop_wants_norm(job->conf);
}

/* Does a layer, or the recipe for all of them, send factors to servers? */
static bool sends_to_servers(const struct sw_job *job, const struct sw_cluster_conf *c)
{
    bool any = c->comm == SW_COMM_ADAM;
    for (const struct sw_section *s = sw_recipe_first(job->recipe, "layer"); s && !any;
         s = sw_section_next(s))
        any = ((const struct sw_layer_conf *)s->common)->comm == SW_COMM_ADAM;
    return any;
}

static const char *why_servers(const struct sw_job *job, const struct sw_cluster_conf *c)
{
    return job->conf->repeat_exact    ? "repeat_exact adds up in one order, that of servers"
           : sends_to_servers(job, c) ? "comm = adam sends factors to servers"
                                      : sw_reduce_why_servers(job);
}

static const char *why_host(const struct sw_job *job)
{
    return job->conf->on_nan == SW_ON_NAN_ROLLBACK
               ? "on_nan = rollback brings back values by way of the host"
               : NULL;
}

void sw_job_choose_copy(struct sw_job *job, const struct sw_cluster_conf *c)
{
    struct sw_copy_case all = {.caps = &job->place.devices.driver->caps,
                               .mixed = job->place.devices.mixed,
                               .apart = job->topology->is_async,
                               .workers = job->topology->workers,
                               .servers = why_servers(job, c),
                               .host = why_host(job)};
    job->exchange.copy = (enum sw_copy_mode)c->copy;
    snprintf(job->report.copy_why, sizeof job->report.copy_why, "as asked for");
    if (job->exchange.copy == SW_COPY_AUTO)
        job->exchange.copy =
            sw_cluster_copy(&all, job->report.copy_why, sizeof job->report.copy_why);
}

void sw_job_settle_copy(struct sw_job *job)
{
    const struct sw_cluster_conf *c = sw_recipe_find(job->recipe, "cluster", NULL)->common;
    if (c->copy != SW_COPY_AUTO || job->exchange.copy != SW_COPY_NONE ||
        job->topology->workers == 1 || sw_job_reduces(job))
        return;
    job->exchange.copy = SW_COPY_ASYNC;
    snprintf(job->report.copy_why, sizeof job->report.copy_why,
             "copies between devices are not sound");
}
