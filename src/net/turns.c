/* Runs the turns of a Gibbs chain (algorithm = cd; train/cd.c does it for several nets). */
#include "net/net_private.h"

void sw_net_set_chain(struct sw_net *net, int turn)
{
    net->chain_turn = turn;
}

int sw_net_run_chains(struct sw_net *net, struct sw_err *err)
{
    int rc = SW_OK;
    for (net->chain_turn = 1; net->chain_turn <= sw_net_chain_steps(net) && rc == SW_OK;
         net->chain_turn++) {
        for (int i = net->graph.count - 1; i >= 0 && rc == SW_OK; i--)
            if (sw_net_takes_turns(&net->shapes, i))
                rc = sw_net_backward(net, i, err);
        for (int i = 0; i < net->graph.count && rc == SW_OK; i++)
            if (sw_net_takes_turns(&net->shapes, i))
                rc = sw_net_forward(net, i, err);
    }
    net->chain_turn = 0;
    return rc;
}
