/* Fits a net into a memory budget: chooses the residency of activations, then plans execution order
 * and memory. */
#include "net/memory/fit.h"
#include "net/net_private.h"

int sw_net_fit(struct sw_net *net, size_t budget_bytes,
               const struct sw_device_throughput *throughput, struct sw_net_fit *fit,
               struct sw_err *err)
{
    int rc = sw_net_find_residency(&net->exec, net->order, net->args.separate_scratch, budget_bytes,
                                   throughput, fit, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_net_plan_step(net, throughput, err);
    if (rc != SW_OK || !net->memory.offload_bytes)
        return rc;

    return sw_offload_new(net, &net->offload, err);
}

struct sw_net_cost sw_net_cost(const struct sw_net *net)
{
    struct sw_net_cost c = {.kept_bytes = net->kept_bytes,
                            .offload_bytes = net->memory.offload_bytes};

    for (int i = 0; i < net->graph.count; i++) {
        if (net->exec.node[i].back_at < 0)
            continue;
        if (net->exec.residency[i] != SW_RECOMPUTED) {
            c.offloaded++;
            continue;
        }

        c.recomputed++;
        c.recompute_flops += sw_net_recompute_flops(&net->aliases, i);
        c.recompute_bytes += sw_net_recompute_bytes(&net->aliases, i);
    }

    return c;
}
