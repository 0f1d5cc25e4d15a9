/* Resolves `[cluster] copy`: the meaning of `auto`, after placement, and settings that conflict
 * with `none`. */
#include "device/driver.h"
#include "plan/choices.h"
#include "plan/copy_terms.h"
#include <stdio.h>

/* Does any layer, or the net-wide setting, send factors to servers? */
static bool sends_to_servers(const struct sw_recipe *recipe, const struct sw_cluster_conf *cluster)
{
    bool any = cluster->comm == SW_EXCHANGE_ADAM;

    for (const struct sw_section *s = sw_recipe_first(recipe, "layer"); s && !any;
         s = sw_section_next(s))
        any = ((const struct sw_layer_conf *)s->common)->comm == SW_EXCHANGE_ADAM;

    return any;
}

struct sw_copy_terms sw_copy_terms_of(const struct sw_recipe *recipe, const struct sw_job_conf *job,
                                      const struct sw_cluster_conf *cluster,
                                      const struct sw_device_request *request)
{
    return (struct sw_copy_terms){.mixed = request->mixed,
                                  .rolls_back = job->on_nan == SW_ON_NAN_ROLLBACK,
                                  .repeat_exact = job->repeat_exact,
                                  .sends_to_servers = sends_to_servers(recipe, cluster),
                                  .bind_servers = cluster->bind_servers};
}

/* A single worker needs no reduction. */
const char *sw_copy_why_servers(const struct sw_copy_terms *terms, const struct sw_topology *t)
{
    return terms->mixed              ? "devices and CPUs update the same values on the host"
           : t->is_async             ? "asynchronous groups update values on the host"
           : terms->rolls_back       ? "on_nan = rollback restores values through the host"
           : t->workers == 1         ? NULL
           : terms->repeat_exact     ? "repeat_exact reduces in one order, on the servers"
           : terms->sends_to_servers ? "comm = adam sends factors to servers"
                                     : sw_reduce_why_servers(t);
}

void sw_copy_choose(struct sw_exchange_plan *p)
{
    const struct sw_device_caps *caps = &p->args.request->driver->caps;
    const struct sw_copy_terms terms =
        sw_copy_terms_of(p->args.recipe, p->args.conf, p->cluster, p->args.request);
    const char *against = sw_copy_why_servers(&terms, p->args.topology);

    snprintf(p->copy_why, sizeof p->copy_why, "%s",
             p->copy != SW_COPY_AUTO ? "as requested"
             : caps->host_memory     ? "nothing is copied on the CPU"
             : caps->simulated
                 ? "simulated GPUs exercise the server path, unless copy = none is set"
             : against ? against
             : p->args.topology->workers > 1
                 ? "every GPU updates its own replica, and only gradient sums are exchanged"
                 : "the GPU updates its parameters, and none is copied");

    if (p->copy == SW_COPY_AUTO)
        p->copy = caps->own_processor && !against ? SW_COPY_NONE : SW_COPY_ASYNC;
}

int sw_copy_check(const struct sw_exchange_plan *p, const char *framework, struct sw_err *err)
{
    const struct sw_section *section = sw_recipe_find(p->args.recipe, "cluster", NULL);

    if (!sw_devices_update(p))
        return SW_OK;

    if (p->args.topology->is_async)
        sw_recipe_error(p->args.recipe, section, "copy",
                        "with %s all groups update the same values on the host, so devices cannot "
                        "keep private copies: use async",
                        framework);
    else if (p->args.conf->on_nan == SW_ON_NAN_ROLLBACK)
        sw_recipe_error(p->args.recipe, section, "copy",
                        "on_nan = rollback restores the values of a checkpoint through the host, "
                        "from which these devices do not read: use async, or on_nan = skip");

    return sw_recipe_status(p->args.recipe, err);
}
