/* What `[cluster] copy` comes to for a job: `auto` is decided as soon as the units are placed, and
 * once more when the ways between devices are known. The rule itself is sw_cluster_copy's. */
#include "train/choices.h"
#include <stdio.h>

/* Does a layer, or the recipe for all of them, send factors to servers? */
static bool sends_to_servers(const struct sw_exchange_plan *p)
{
    bool any = p->cluster->comm == SW_COMM_ADAM;
    for (const struct sw_section *s = sw_recipe_first(p->args.recipe, "layer"); s && !any;
         s = sw_section_next(s))
        any = ((const struct sw_layer_conf *)s->common)->comm == SW_COMM_ADAM;
    return any;
}

static const char *why_servers(const struct sw_exchange_plan *p)
{
    return p->args.conf->repeat_exact ? "repeat_exact adds up in one order, that of servers"
           : sends_to_servers(p)      ? "comm = adam sends factors to servers"
                                      : sw_reduce_why_servers(p->args.topology);
}

static const char *why_host(const struct sw_exchange_plan *p)
{
    return p->args.conf->on_nan == SW_ON_NAN_ROLLBACK
               ? "on_nan = rollback brings back values by way of the host"
               : NULL;
}

void sw_copy_choose(struct sw_exchange_plan *p)
{
    const struct sw_exchange_plan_args *a = &p->args;
    const struct sw_copy_case all = {.caps = &a->request->driver->caps,
                                     .mixed = a->request->mixed,
                                     .apart = a->topology->is_async,
                                     .workers = a->topology->workers,
                                     .servers = why_servers(p),
                                     .host = why_host(p)};
    snprintf(p->copy_why, sizeof p->copy_why, "as asked for");
    if (p->copy == SW_COPY_AUTO)
        p->copy = sw_cluster_copy(&all, p->copy_why, sizeof p->copy_why);
}

void sw_copy_settle(struct sw_exchange_plan *p)
{
    if (p->cluster->copy != SW_COPY_AUTO || p->copy != SW_COPY_NONE ||
        p->args.topology->workers == 1 || sw_reduces(p))
        return;
    p->copy = SW_COPY_ASYNC;
    snprintf(p->copy_why, sizeof p->copy_why, "copies between devices are not sound");
}
