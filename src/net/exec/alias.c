/* Finds which outputs and gradients of a net share their memory (net/exec/alias.h has the
 * rules). */
#include "net/exec/alias.h"

#include "base/os.h"
#include "net/layers/bridge.h"

static bool is_input(const struct sw_net_aliases *a, int i)
{
    return a->shapes->node[i].layer.type->role == SW_ROLE_INPUT;
}

static bool is_type(const struct sw_net_aliases *a, int i, const struct sw_layer_type *type)
{
    return a->shapes->node[i].layer.type == type;
}

/* ---- Gradients ---- */

static void find_first_writers(struct sw_net_aliases *a)
{
    const struct sw_net_graph *g = a->graph;

    for (int i = 0; i < g->count; i++)
        a->node[i].first_writer = -1;

    for (int j = 0; j < g->count; j++)
        for (int k = 0; k < g->node[j].src_count && a->shapes->node[j].has_backward; k++)
            if (a->shapes->node[g->node[j].src[k]].needs_grad)
                a->node[g->node[j].src[k]].first_writer = j;
}

/* Can the source's gradient reuse the memory of the node's own gradient? The node must write it
 * first and have a gradient itself. Not for connections: the gradient of a bridge_src has no
 * memory, and other workers read that of a bridge_dst in place on the host, so it needs separate
 * memory. */
static bool begins_gradient(const struct sw_net_aliases *a, int i)
{
    const struct sw_net_graph_node *node = &a->graph->node[i];
    bool twice = false;

    if (is_type(a, i, &sw_net_bridge_src) || sw_net_publishes_grad(a, node->src[0]))
        return false;

    for (int k = 1; k < node->src_count; k++)
        twice = twice || node->src[k] == node->src[0];
    return a->node[i].first_writer >= 0 && !twice && a->node[node->src[0]].first_writer == i;
}

static bool is_only_writer(const struct sw_net_aliases *a, int i)
{
    const struct sw_net_graph *g = a->graph;
    int writers = 0;

    for (int j = 0; j < g->count; j++)
        for (int k = 0; k < g->node[j].src_count && a->shapes->node[j].has_backward; k++)
            writers += g->node[j].src[k] == g->node[i].src[0];

    return writers == 1;
}

/* A gradient is read in place on another worker if that worker has all of it contiguously, no other
 * reader adds to it, and it is not overwritten in place. */
static void find_remote_gradients(struct sw_net_aliases *a)
{
    for (int i = 0; i < a->graph->count; i++) {
        const struct sw_net_shape *shape = &a->shapes->node[i];

        a->is_handed = a->is_handed || shape->handed;
        if (shape->layer.type != &sw_net_bridge_src || !shape->has_backward)
            continue;

        const struct sw_net_alias *source = &a->node[a->graph->node[i].src[0]];
        a->node[i].grad_handed = sw_bridge_can_read_in_place(&shape->layer) &&
                                 source->first_writer == i && is_only_writer(a, i) &&
                                 !source->grad_in_place;
        a->is_handed = a->is_handed || a->node[i].grad_handed;
    }
}

/* A layer that is not the first writer of a gradient and cannot add to it writes to temporary
 * memory. */
static void find_temporary_gradients(struct sw_net_aliases *a)
{
    const struct sw_net_graph *g = a->graph;

    for (int i = 0; i < g->count; i++) {
        bool first = a->node[i].first_writer >= 0;

        for (int j = g->count - 1; j > i && a->node[i].first_writer >= 0; j--) {
            const struct sw_net_shape *writer = &a->shapes->node[j];

            for (int k = 0; k < g->node[j].src_count && writer->has_backward; k++) {
                if (g->node[j].src[k] != i)
                    continue;

                if (!first && writer->layer.can_add.src)
                    a->node[j].src_adds |= 1u << k;
                a->node[j].adds_grad[k] = !first && !writer->layer.can_add.src;
                first = false;
            }
        }
    }
}

/* ---- Outputs ---- */

/* May node i overwrite its source? Other outputs may alias the same memory: those of which the
 * source is a view, or that a fused relu writes. */
static bool may_overwrite(const struct sw_net_aliases *a, int i)
{
    const struct sw_net_shape *node = &a->shapes->node[i], *source;
    int at = i;

    if (!node->layer.in_place || (node->has_backward && (node->layer.backward_reads_src & 1)))
        return false;

    do {
        at = a->graph->node[at].src[0];
        source = &a->shapes->node[at];

        bool read = source->has_backward && source->layer.backward_reads_dst;
        if (a->graph->node[at].readers != 1 || is_input(a, at) || source->handed || read)
            return false;
    } while (a->node[at].in_place && (source->layer.view || source->fused));

    return true;
}

static void find_in_place(struct sw_net_aliases *a)
{
    for (int i = 0; i < a->graph->count; i++) {
        const struct sw_net_shape *shape = &a->shapes->node[i];
        const struct sw_layer *l = &shape->layer;
        /* A fused relu writes no output: its source wrote it. */
        a->node[i].in_place = shape->fused || (l->in_place && l->view) || may_overwrite(a, i);
        a->node[i].grad_in_place = l->in_place && begins_gradient(a, i);
    }
}

/* Finds the node that owns each output's memory, and the nodes that share it in the order of
 * writing. */
static void find_roots(struct sw_net_aliases *a)
{
    const struct sw_net_graph *g = a->graph;

    for (int i = 0; i < g->count; i++) {
        struct sw_net_alias *node = &a->node[i];

        node->root = node->in_place ? a->node[g->node[i].src[0]].root : i;

        node->next_in_place = node->last_reader = -1;
        for (int j = i - 1; j >= 0 && node->in_place; j--)
            if (a->node[j].root == node->root) {
                a->node[j].next_in_place = i;
                break;
            }
    }

    for (int i = 0; i < g->count && a->host_memory; i++)
        if (is_type(a, i, &sw_net_bridge_src))
            a->node[a->node[i].root].published = true;

    for (int j = 0; j < g->count; j++)
        for (int k = 0; k < g->node[j].src_count; k++) {
            int root = a->node[g->node[j].src[k]].root;
            if (root != a->node[j].root)
                a->node[root].last_reader = j;
        }
}

int sw_net_aliases_init(struct sw_net_aliases *a, const struct sw_net_graph *graph,
                        const struct sw_net_shapes *shapes, bool host_memory, struct sw_err *err)
{
    size_t n = (size_t)graph->count + 1;

    *a = (struct sw_net_aliases){.graph = graph,
                                 .shapes = shapes,
                                 .host_memory = host_memory,
                                 .node = sw_calloc(n, sizeof *a->node)};
    if (!a->node)
        return sw_err_nomem(err, "the memory plan", n * sizeof *a->node);

    find_first_writers(a);
    find_in_place(a);
    find_remote_gradients(a);
    find_roots(a);
    find_temporary_gradients(a);

    return SW_OK;
}

void sw_net_aliases_fini(struct sw_net_aliases *a)
{
    sw_free(a->node);
    *a = (struct sw_net_aliases){0};
}
