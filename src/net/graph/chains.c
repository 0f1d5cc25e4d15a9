/* Gibbs chains of a net with algorithm = cd: finds the two layers of each Boltzmann machine, and
 * the machines that are trained. A trained machine acts as a loss: it needs no other loss, and no
 * gradient leaves it. Also checks that the layers of a machine agree on the type of its units,
 * which is a key of each layer. */
#include "net/graph/stages.h"

static enum sw_energy energy_of(const struct sw_net_graph_node *node)
{
    return node->src_count == 1 ? node->type->energy : SW_ENERGY_NONE;
}

/* Marks the two layers of the machine whose hidden layer is node i. */
static void join(struct sw_net_graph *g, int i, bool training)
{
    struct sw_net_graph_node *hidden = &g->node[i], *visible = &g->node[hidden->src[0]];
    if (energy_of(visible) != SW_ENERGY_VISIBLE) {
        sw_recipe_error(g->recipe, hidden->section, "src",
                        "with algorithm = cd the source must be an rbm_visible layer, but %s is %s",
                        visible->name, visible->type->base.name);
        return;
    }

    if (!training || (!sw_net_may_train(g, hidden) && !sw_net_may_train(g, visible)))
        return;

    if (visible->chain)
        sw_recipe_error(g->recipe, hidden->section, "src",
                        "%s is already the visible layer of another trained machine: add a "
                        "separate rbm_visible layer for this one",
                        visible->name);

    hidden->chain = visible->chain = true;
}

/* ---- Units ---- */

/* A key of the layer's type, or NULL; and its value in the layer. */
static const struct sw_opt *key_of(const struct sw_net_graph_node *node, const char *key)
{
    const struct sw_opt *o = node->type->base.opts;
    while (o && o->key && !sw_str_eq(o->key, key))
        o++;
    return o && o->key ? o : NULL;
}

static const void *value_of(const struct sw_net_graph_node *node, const struct sw_opt *o)
{
    return (const char *)node->conf + o->offset;
}

/* Checks that `key` of a layer that reads one side of a machine names the units of that side. */
static void check_units(struct sw_net_graph *g, const struct sw_net_graph_node *reader,
                        const char *key, const struct sw_net_graph_node *side)
{
    const struct sw_opt *own = key_of(reader, key), *its = key_of(side, "units");
    if (!own || !its || energy_of(side) == SW_ENERGY_NONE)
        return;

    const int says = *(const int *)value_of(reader, own), is = *(const int *)value_of(side, its);
    if (says != is)
        sw_recipe_error(g->recipe, reader->section, key,
                        "the units of %s are %s: set %s = %s here too", side->name,
                        its->choices[is], key, its->choices[is]);
}

/* A layer without a key for the visible units supports only binary ones. */
static void check_binary(struct sw_net_graph *g, const struct sw_net_graph_node *reader,
                         const struct sw_net_graph_node *visible)
{
    const struct sw_opt *units = key_of(visible, "units");
    if (key_of(reader, "visible_units") || energy_of(visible) == SW_ENERGY_NONE)
        return;

    const char *name = units->choices[*(const int *)value_of(visible, units)];
    if (!sw_str_eq(name, "bernoulli"))
        sw_recipe_error_item(g->recipe, reader->section, "src", 0,
                             "the units of %s are %s: %s needs bernoulli units, which are 0 or 1",
                             visible->name, name, reader->type->base.name);
}

/* Counts of words have biases that count once per word, on both sides. */
static void check_counts(struct sw_net_graph *g, const struct sw_net_graph_node *hidden,
                         const struct sw_net_graph_node *visible)
{
    const struct sw_opt *replicated = key_of(hidden, "replicated"),
                        *units = key_of(visible, "units");
    if (energy_of(visible) != SW_ENERGY_VISIBLE || !replicated || !units)
        return;

    const bool counts =
        sw_str_eq(units->choices[*(const int *)value_of(visible, units)], "softmax");
    if (*(const bool *)value_of(hidden, replicated) != counts)
        sw_recipe_error(g->recipe, hidden->section, "replicated",
                        "the units of %s are %s: set replicated = %s", visible->name,
                        units->choices[*(const int *)value_of(visible, units)],
                        counts ? "yes" : "no");
}

static void check_machine(struct sw_net_graph *g, int i)
{
    const struct sw_net_graph_node *node = &g->node[i];
    const enum sw_energy side = energy_of(node);

    if (side == SW_ENERGY_HIDDEN)
        check_counts(g, node, &g->node[node->src[0]]);
    if (side != SW_ENERGY_NONE || !node->type->borrows || node->src_count != 2)
        return;

    const struct sw_net_graph_node *visible = &g->node[node->src[0]];
    check_units(g, node, node->type->energy ? "units" : "visible_units", visible);
    check_units(g, node, "hidden_units", &g->node[node->src[1]]);
    if (!node->type->energy)
        check_binary(g, node, visible);
}

int sw_net_find_chains(struct sw_net_graph *g, const struct sw_net_args *args, struct sw_err *err)
{
    for (int i = 0; i < g->count && args->algorithm == SW_ALGORITHM_CD; i++)
        if (energy_of(&g->node[i]) == SW_ENERGY_HIDDEN)
            join(g, i, args->training);

    for (int i = 0; i < g->count; i++)
        check_machine(g, i);
    return sw_recipe_status(g->recipe, err);
}
