/* Assigns the layers of a net to branches, and creates a stream for each branch. */
#include "net/graph/branches.h"

#include "base/os.h"
#include "net/graph/bits.h"
#include <stdio.h>

enum { NONE = -1 };

struct sw_stream *sw_branches_stream(const struct sw_branches *b, int node, struct sw_stream *own)
{
    return b ? b->branch[b->of[node]].stream : own;
}

/* ---- Choosing branches ---- */

/* Inputs run nothing; losses, metrics and outputs are too small for a separate stream. */
static bool is_light(const struct sw_net_graph_node *node)
{
    return node->type->role != SW_ROLE_NEURON;
}

/* A branch that ends with one of the node's sources. */
static int find_continued(const struct sw_net_graph *g, const int *of, const int *tail, int i)
{
    const struct sw_net_graph_node *node = &g->node[i];

    for (int k = 0; k < node->src_count; k++)
        if (tail[of[node->src[k]]] == node->src[k])
            return of[node->src[k]];

    return NONE;
}

/* A branch that runs only layers that the node depends on. */
static int find_free(const int *tail, int most, const uint64_t *needs)
{
    for (int b = 0; b < most; b++)
        if (tail[b] == NONE || sw_bits_has(needs, tail[b]))
            return b;
    return NONE;
}

static int choose(const struct sw_net_graph *g, const int *of, const int *tail, int most, int i,
                  const uint64_t *needs)
{
    const struct sw_net_graph_node *node = &g->node[i];
    int own = node->src_count > 0 ? of[node->src[0]] : 0;
    int found = find_continued(g, of, tail, i);

    if (found == NONE && !is_light(node))
        found = find_free(tail, most, needs);
    return found == NONE ? own : found;
}

/* Returns the number of branches. needs: zeroed work memory, the set of ancestors of each node. */
static int assign(const struct sw_net_graph *g, int most, int *of, int *tail, uint64_t *needs)
{
    size_t words = sw_bits_words(g->count);
    int count = 1;

    for (int b = 0; b < most; b++)
        tail[b] = NONE;

    for (int i = 0; i < g->count; i++) {
        const struct sw_net_graph_node *node = &g->node[i];
        uint64_t *mine = &needs[(size_t)i * words];

        for (int k = 0; k < node->src_count; k++) {
            sw_bits_join(mine, &needs[(size_t)node->src[k] * words], words);
            sw_bits_put(mine, node->src[k]);
        }

        of[i] = choose(g, of, tail, most, i, mine);
        count = of[i] < count ? count : of[i] + 1;
        if (node->type->role != SW_ROLE_INPUT)
            tail[of[i]] = i;
    }

    return count;
}

/* ---- Life ---- */

static int find_branches(struct sw_branches *b, const struct sw_net_graph *g, int most,
                         struct sw_err *err)
{
    size_t n = (size_t)g->count, bytes = n * sw_bits_words(g->count) * sizeof(uint64_t);
    int *tail = sw_calloc((size_t)most, sizeof *tail);
    uint64_t *needs = sw_calloc(1, bytes);

    b->of = sw_calloc(n, sizeof *b->of);

    int rc = tail && needs && b->of ? SW_OK : sw_err_nomem(err, "branches of a net", bytes);
    if (rc == SW_OK)
        b->count = assign(g, most, b->of, tail, needs);
    sw_free(tail);
    sw_free(needs);

    return rc;
}

static int make_streams(struct sw_branches *b, int threads, struct sw_err *err)
{
    b->branch = sw_calloc((size_t)b->count, sizeof *b->branch);
    if (!b->branch)
        return sw_err_nomem(err, "branches of a net", (size_t)b->count * sizeof *b->branch);

    int rc = sw_event_new(b->dev, &b->begin, err);
    if (rc == SW_OK)
        rc = sw_event_new(b->dev, &b->control, err);

    for (int i = 0; i < b->count && rc == SW_OK; i++) {
        char name[32];

        snprintf(name, sizeof name, "branch %d", i + 1);
        rc = sw_event_new(b->dev, &b->branch[i].tail, err);
        if (rc == SW_OK)
            rc = sw_stream_new(b->dev, threads, &b->branch[i].stream, err);
        if (rc == SW_OK)
            sw_stream_name(b->branch[i].stream, name);
    }

    return rc;
}

/* Exchanges with other workers and what outputs write are ordered with the net's own stream alone,
 * and the passes of a Gibbs chain are no ops of the execution order. */
static bool must_run_in_turn(const struct sw_net_graph *g)
{
    bool found = false;

    for (int i = 0; i < g->count; i++) {
        const struct sw_net_graph_node *node = &g->node[i];
        found = found || node->chain || node->type == &sw_net_bridge_src ||
                node->type->role == SW_ROLE_OUTPUT;
    }

    return found;
}

int sw_branches_new(const struct sw_net_graph *graph, const struct sw_net_args *args,
                    struct sw_branches **out, struct sw_err *err)
{
    struct sw_device *dev = args->stream->dev;

    *out = NULL;
    if (args->streams < 2 || args->separate_scratch || dev->host_memory || must_run_in_turn(graph))
        return SW_OK;

    struct sw_branches *b = sw_calloc(1, sizeof *b);
    if (!b)
        return sw_err_nomem(err, "branches of a net", sizeof *b);

    b->dev = dev;

    int rc = find_branches(b, graph, args->streams, err);
    if (rc == SW_OK && b->count > 1)
        rc = make_streams(b, args->threads, err);
    if (rc == SW_OK && b->count > 1) {
        *out = b;
        return SW_OK;
    }

    sw_branches_free(b);
    return rc;
}

void sw_branches_free(struct sw_branches *b)
{
    if (!b)
        return;

    for (int i = 0; i < b->count && b->branch; i++) {
        sw_event_free(b->dev, b->branch[i].tail);
        sw_stream_free(b->branch[i].stream);
    }

    sw_event_free(b->dev, b->begin);
    sw_event_free(b->dev, b->control);
    sw_free(b->branch);
    sw_free(b->of);
    sw_free(b);
}

void sw_branches_settle(struct sw_branches *b)
{
    struct sw_err ignored; /* a stream that has failed has let go of memory all the same */

    for (int i = 0; b && i < b->count; i++) {
        int rc = sw_stream_wait(b->branch[i].stream, &ignored);
        (void)rc;
    }
}
