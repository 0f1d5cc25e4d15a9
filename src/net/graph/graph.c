/* Makes the graph of a net: layers of the recipe, their steps, shared parameters, machines. */
#include "net/graph/graph.h"

#include "base/os.h"
#include "net/graph/stages.h"

int sw_net_graph_init(struct sw_net_graph *g, const struct sw_net_args *args, struct sw_err *err)
{
    struct sw_net_graph_layer *layers = NULL;
    int count = 0;

    *g = (struct sw_net_graph){.recipe = args->recipe, .freeze = args->freeze};

    int rc = sw_net_read_layers(args, &layers, &count, err);
    if (rc == SW_OK)
        rc = sw_net_unroll(g, layers, count, args, err);
    sw_free(layers);
    if (rc == SW_OK)
        rc = sw_net_find_ties(g, err);

    return rc == SW_OK ? sw_net_find_chains(g, args, err) : rc;
}
