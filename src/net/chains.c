/* Gibbs chains of a net that is trained by algorithm = cd: which layers are the two sides of a
 * Boltzmann machine, and which of these machines are trained. Such a machine is a loss of its own:
 * it needs no other, and no gradient leaves it. */
#include "net/net_private.h"

/* The two sides of the machine whose hidden layer node i is. */
static void join(struct sw_net *net, int i)
{
    struct sw_net_node *hidden = &net->nodes[i], *visible = &net->nodes[hidden->src[0]];
    if (sw_layer_energy(&visible->layer) != SW_ENERGY_VISIBLE) {
        sw_recipe_error(net->recipe, hidden->section, "src",
                        "with algorithm = cd it reads an rbm_visible layer, but %s is %s",
                        visible->layer.name, visible->layer.type->base.name);
        return;
    }
    if (!net->training || (!sw_net_may_train(net, hidden) && !sw_net_may_train(net, visible)))
        return;
    if (visible->chain)
        sw_recipe_error(net->recipe, hidden->section, "src",
                        "%s is the visible side of another machine that is trained: give this one "
                        "an rbm_visible layer of its own",
                        visible->layer.name);
    hidden->chain = visible->chain = true;
}

int sw_net_find_chains(struct sw_net *net, struct sw_err *err)
{
    for (int i = 0; i < net->count && net->algorithm == SW_ALGORITHM_CD; i++)
        if (sw_layer_energy(&net->nodes[i].layer) == SW_ENERGY_HIDDEN)
            join(net, i);
    return sw_recipe_verdict(net->recipe, err);
}

int sw_net_chain_steps(const struct sw_net *net)
{
    int most = 0;
    for (int i = 0; i < net->count; i++)
        if (net->nodes[i].layer.chain_steps > most)
            most = net->nodes[i].layer.chain_steps;
    return most;
}

void sw_net_set_chain(struct sw_net *net, int turn)
{
    net->chain_turn = turn;
}

int sw_net_run_chains(struct sw_net *net, struct sw_err *err)
{
    int rc = SW_OK;
    for (net->chain_turn = 1; net->chain_turn <= sw_net_chain_steps(net) && rc == SW_OK;
         net->chain_turn++) {
        for (int i = net->count - 1; i >= 0 && rc == SW_OK; i--)
            if (net->nodes[i].chain)
                rc = sw_net_backward(net, i, err);
        for (int i = 0; i < net->count && rc == SW_OK; i++)
            if (net->nodes[i].chain)
                rc = sw_net_forward(net, i, err);
    }
    net->chain_turn = 0;
    return rc;
}
