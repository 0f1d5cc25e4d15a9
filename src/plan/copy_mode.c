/* What `[cluster] copy` comes to for a job: what `auto` means, which is known once the units are
 * placed, and what cannot be had with `none`. */
#include "device/driver.h"
#include "plan/choices.h"
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

/* What speaks against GPUs that update by themselves; NULL: nothing. One worker has no sums. */
static const char *why_not_none(const struct sw_exchange_plan *p)
{
    const struct sw_topology *t = p->args.topology;
    return p->args.request->mixed ? "devices and CPUs update the same values, which are on the host"
           : t->is_async          ? "groups that update on their own change values on the host"
           : p->args.conf->on_nan == SW_ON_NAN_ROLLBACK
               ? "on_nan = rollback brings back values by way of the host"
           : t->workers == 1            ? NULL
           : p->args.conf->repeat_exact ? "repeat_exact adds up in one order, that of servers"
           : sends_to_servers(p)        ? "comm = adam sends factors to servers"
                                        : sw_reduce_why_servers(t);
}

void sw_copy_choose(struct sw_exchange_plan *p)
{
    const struct sw_device_caps *caps = &p->args.request->driver->caps;
    const char *against = why_not_none(p);
    snprintf(p->copy_why, sizeof p->copy_why, "%s",
             p->copy != SW_COPY_AUTO ? "as asked for"
             : caps->host_memory     ? "nothing is copied on the CPU"
             : caps->simulated       ? "simulated GPUs rehearse servers, unless copy = none is said"
             : against               ? against
             : p->args.topology->workers > 1
                 ? "every GPU updates its own copy, and only sums of gradients travel"
                 : "the GPU updates by itself, and no parameter travels");

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
                        "with %s every group changes the one value on the host, which no device "
                        "can keep to itself: say async",
                        framework);
    else if (p->args.conf->on_nan == SW_ON_NAN_ROLLBACK)
        sw_recipe_error(p->args.recipe, section, "copy",
                        "on_nan = rollback brings back the values of a checkpoint by way of the "
                        "host, which these devices do not ask: say async, or on_nan = skip");
    return sw_recipe_verdict(p->args.recipe, err);
}
