/* Launches a graph: queues the captured operations again, on the calling thread. */
#include "device/sim/capture.h"

int sw_sim_graph_launch(struct sw_stream *stream, struct sw_graph *graph, struct sw_err *err)
{
    struct sw_sim_graph *g = sw_sim_graph_of(graph);
    struct sw_sim_stream *s = sw_sim_stream_of(stream);

    int rc = sw_sim_capture_refuse(s, "a graph", err);
    if (rc != SW_OK)
        return rc;
    if (g->member[0].stream != s)
        return sw_err_set(err, SW_ERR_INVALID, "%s: the graph is another stream's",
                          stream->dev->name);

    for (int i = 0; i < g->count; i++) {
        const struct sw_sim_node *n = &g->nodes[i];

        if (n->kind == SW_SIM_OPERATION)
            rc = sw_sim_push(&n->stream->base, &n->op, err);
        else if (n->kind == SW_SIM_RECORD)
            rc = sw_sim_event_record(&n->stream->base, g->marks[n->mark].event, err);
        else
            rc = sw_sim_event_wait(&n->stream->base, g->marks[n->mark].event, err);

        if (rc != SW_OK)
            return rc;
    }

    return SW_OK;
}
