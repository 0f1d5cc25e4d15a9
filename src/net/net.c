/* Accessors of a net. */
#include "net/net_private.h"

int sw_net_layer_count(const struct sw_net *net)
{
    return net->graph.count;
}

const struct sw_layer *sw_net_layer(const struct sw_net *net, int i)
{
    return &net->shapes.node[i].layer;
}

struct sw_layer *sw_net_output_layer(struct sw_net *net, int i)
{
    return &net->shapes.node[i].layer;
}

const struct sw_section *sw_net_section(const struct sw_net *net, int i)
{
    return net->graph.node[i].section;
}

int sw_net_find(const struct sw_net *net, const char *layer)
{
    return sw_net_shapes_find(&net->shapes, layer);
}

int sw_net_step_at(const struct sw_net *net, int i, int *steps)
{
    *steps = net->graph.node[i].steps;
    return net->graph.node[i].step;
}

struct sw_net_info sw_net_info(const struct sw_net *net, int i)
{
    const struct sw_net_shape *shape = &net->shapes.node[i];
    const bool in_rows = sw_net_shard_is_in_rows(&net->sharding, i);
    const bool away = net->aliases.node[i].root == i && net->exec.node[i].back_at >= 0;

    return (struct sw_net_info){
        .fused = shape->fused,
        .in_place = net->aliases.node[i].in_place,
        .holds = !sw_net_shard_is_elsewhere(&net->sharding, i),
        .absent = shape->absent,
        .handed = shape->handed,
        .moves = sw_net_is_bridge(&net->graph.node[i]),
        .in_rows = in_rows,
        .whole_batch = !in_rows && net->args.group_rows == net->args.batch_rows,
        .distribution = sw_dist_name(net->sharding.node[i].distribution.dist),
        .residency = !away                                     ? ""
                     : net->exec.residency[i] == SW_RECOMPUTED ? "repeated"
                                                               : "swapped"};
}

int64_t sw_net_rows(const struct sw_net *net)
{
    return net->args.rows;
}

bool sw_net_has_backward(const struct sw_net *net, int i)
{
    return net->shapes.node[i].has_backward;
}

int sw_net_source(const struct sw_net *net, int i, int k)
{
    return k < net->graph.node[i].src_count ? net->graph.node[i].src[k] : -1;
}

const char *sw_net_notes(const struct sw_net *net)
{
    return sw_bytes_text(&net->sharding.notes);
}

size_t sw_net_arena_bytes(const struct sw_net *net)
{
    return net->memory.arena_bytes;
}

size_t sw_net_scratch_bytes(const struct sw_net *net)
{
    return net->memory.scratch_bytes;
}

int sw_net_param_count(const struct sw_net *net)
{
    return net->shapes.param_count;
}

const struct sw_net_param *sw_net_param(const struct sw_net *net, int p)
{
    return &net->shapes.params[p];
}

int sw_net_layer_params(const struct sw_net *net, int i, int *first)
{
    *first = net->shapes.node[i].first_param;
    return net->shapes.node[i].layer.param_count;
}

int sw_net_buffer_count(const struct sw_net *net)
{
    return net->shapes.state_count;
}

const struct sw_net_buffer *sw_net_buffer(const struct sw_net *net, int s)
{
    return &net->shapes.states[s];
}

size_t sw_net_staging_bytes(const struct sw_net *net)
{
    return sizeof *net->staging +
           2 * (size_t)net->shapes.pair_count * sizeof *net->staging->fetched;
}

int sw_net_sum_count(const struct sw_net *net)
{
    return net->shapes.sum_count;
}

int sw_net_stream_count(const struct sw_net *net)
{
    return net->branches ? net->branches->count : 1;
}

int sw_net_join_streams(struct sw_net *net, struct sw_err *err)
{
    return sw_branch_join(net->order, err);
}

void sw_net_settle(struct sw_net *net)
{
    sw_branches_settle(net->branches);
}

int sw_net_phases(const struct sw_net *net, int i, bool backward)
{
    return sw_net_layer_phases(&net->shapes.node[i].layer, backward);
}

double *sw_net_sums(const struct sw_net *net, int i, int *count)
{
    const struct sw_layer *l = &net->shapes.node[i].layer;
    *count = l->phases.sums;
    return *count > 0 ? l->sums : NULL;
}

/* The pairs on the host: of the newest step (0 steps behind), or of the one before (1). */
static struct sw_result *fetched(const struct sw_net *net, int behind)
{
    return net->staging->fetched + (net->staging_turn ^ behind) * net->shapes.pair_count;
}

int sw_net_fetch(struct sw_net *net, struct sw_err *err)
{
    size_t bytes = (size_t)net->shapes.pair_count * sizeof *net->staging->fetched;
    return bytes ? sw_copy(net->args.stream, fetched(net, 0), sw_net_at(net, net->memory.pairs_at),
                           bytes, err)
                 : SW_OK;
}

int sw_net_result_count(const struct sw_net *net)
{
    return net->shapes.result_count;
}

struct sw_net_result sw_net_result(const struct sw_net *net, int r)
{
    return net->shapes.results[r];
}

int sw_net_pair_count(const struct sw_net *net)
{
    return net->shapes.shown_pairs;
}

/* Adds the pairs of all time steps; each time step of a loss has 1/steps of its weight. */
void sw_net_add_pairs(const struct sw_net *net, int behind, struct sw_result *to)
{
    const struct sw_result *pairs = fetched(net, behind);

    for (int i = 0; i < net->graph.count; i++) {
        const struct sw_net_shape *shape = &net->shapes.node[i];
        const int steps = net->graph.node[i].steps;
        const struct sw_net_result *r =
            shape->result < 0 ? NULL : &net->shapes.results[shape->result];

        for (int k = 0; r && k < r->count; k++) {
            to[r->first + k].sum +=
                pairs[shape->first_pair + k].sum * (r->loss && steps > 1 ? steps : 1);
            to[r->first + k].weight += pairs[shape->first_pair + k].weight;
        }
    }
}

const struct sw_result *sw_net_pairs(const struct sw_net *net)
{
    return fetched(net, 0);
}

enum sw_exchange_mode sw_net_exchange_mode(const struct sw_net *net, int i)
{
    return net->shapes.node[i].comm;
}

enum sw_exchange_mode sw_net_requested_exchange_mode(const struct sw_net *net, int i)
{
    const struct sw_net_graph_node *node = &net->graph.node[i];
    bool own;
    return node->owned_name ? SW_EXCHANGE_PS : sw_net_key_exchange_mode(node, &net->args, &own);
}

const char *sw_net_exchange_notes(const struct sw_net *net)
{
    return sw_bytes_text(&net->shapes.comm_notes);
}

int sw_net_chain_steps(const struct sw_net *net)
{
    int most = 0;

    for (int i = 0; i < net->graph.count; i++)
        if (net->shapes.node[i].layer.chain.steps > most)
            most = net->shapes.node[i].layer.chain.steps;

    return most;
}
