/* Makes a net meet a budget: lives of features, then schedule and memory for them. */
#include "net/memory/fit.h"
#include "net/net_private.h"

int sw_net_fit(struct sw_net *net, size_t budget_bytes, const struct sw_net_rates *rates,
               struct sw_net_fit *fit, struct sw_err *err)
{
    int rc = sw_net_find_lives(&net->schedule, net->order, net->args.scratch_apart, budget_bytes,
                               rates, fit, err);
    if (rc == SW_OK)
        rc = sw_net_plan_step(net, rates, err);
    if (rc == SW_OK && net->memory.swap_bytes)
        rc = sw_swap_new(net, &net->swap, err);
    return rc;
}

struct sw_net_cost sw_net_cost(const struct sw_net *net)
{
    struct sw_net_cost c = {.kept_bytes = net->kept_bytes, .swap_bytes = net->memory.swap_bytes};
    for (int i = 0; i < net->graph.count; i++) {
        if (net->schedule.back_at[i] < 0)
            continue;
        if (net->schedule.life[i] != SW_LIFE_REPEATED) {
            c.swapped++;
            continue;
        }
        c.repeated++;
        c.repeat_flops += sw_net_repeat_flops(&net->aliases, i);
        c.repeat_bytes += sw_net_repeat_bytes(&net->aliases, i);
    }
    return c;
}

const char *sw_net_life_name(const struct sw_net *net, int i)
{
    bool away = net->aliases.node[i].root == i && net->schedule.back_at[i] >= 0;
    return !away ? "" : net->schedule.life[i] == SW_LIFE_REPEATED ? "repeated" : "swapped";
}
