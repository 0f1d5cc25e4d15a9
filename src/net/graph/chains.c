/* Gibbs chains of a net with algorithm = cd: finds the layers of each Boltzmann machine, which is
 * deep if a hidden layer reads another one, and the machines that are trained. A trained machine
 * acts as a loss: it needs no other loss, and no gradient leaves it. Also checks that the layers of
 * a machine agree on the keys that each of them has. */
#include "net/graph/stages.h"
#include <string.h>

static int own_sources(const struct sw_net_graph_node *node)
{
    return sw_layer_own_sources(node->type, node->conf, node->src_count);
}

static enum sw_energy energy_of(const struct sw_net_graph_node *node)
{
    return own_sources(node) == 1 ? node->type->energy : SW_ENERGY_NONE;
}

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

/* ---- Machines ---- */

/* Checks that a key has the same value in a hidden layer and in the one below it. */
static void check_equal(struct sw_net_graph *g, const struct sw_net_graph_node *hidden,
                        const struct sw_net_graph_node *below, const char *key, size_t bytes)
{
    const struct sw_opt *own = key_of(hidden, key), *its = key_of(below, key);

    if (own && its && memcmp(value_of(hidden, own), value_of(below, its), bytes) != 0)
        sw_recipe_error(g->recipe, hidden->section, key,
                        "%s of %s differs, but all hidden layers of a deep Boltzmann machine take "
                        "part in the same chains: set it in both",
                        key, below->name);
}

/* Makes node i, whose source is a hidden layer too, the top of a deep machine. */
static void put_on_top(struct sw_net_graph *g, int i)
{
    struct sw_net_graph_node *hidden = &g->node[i], *below = &g->node[hidden->src[0]];

    if (below->place == SW_MACHINE_BOTTOM || below->place == SW_MACHINE_MIDDLE) {
        sw_recipe_error(g->recipe, hidden->section, "src",
                        "another hidden layer already reads %s: the layers of a deep Boltzmann "
                        "machine form a chain",
                        below->name);
        return;
    }

    below->place = below->place == SW_MACHINE_TOP ? SW_MACHINE_MIDDLE : SW_MACHINE_BOTTOM;
    hidden->place = SW_MACHINE_TOP;
    check_equal(g, hidden, below, "k", sizeof(int64_t));
    check_equal(g, hidden, below, "mean_field", sizeof(int64_t));
    check_equal(g, hidden, below, "persistent", sizeof(bool));
}

/* Checks the source of hidden layer i and finds its place. Sources come before their readers. */
static void find_place(struct sw_net_graph *g, int i)
{
    const struct sw_net_graph_node *hidden = &g->node[i], *below = &g->node[hidden->src[0]];

    if (energy_of(below) == SW_ENERGY_HIDDEN)
        put_on_top(g, i);
    else if (energy_of(below) != SW_ENERGY_VISIBLE)
        sw_recipe_error(g->recipe, hidden->section, "src",
                        "with algorithm = cd the source must be an rbm_visible layer, but %s is %s "
                        "(or, in a deep Boltzmann machine, the rbm_hidden layer below)",
                        below->name, below->type->base.name);
}

/* Marks all layers of the machine whose top is node i, if one of them is trained. */
static void join(struct sw_net_graph *g, int i)
{
    bool trains = false;
    int bottom = i;

    for (; energy_of(&g->node[bottom]) == SW_ENERGY_HIDDEN; bottom = g->node[bottom].src[0])
        trains = trains || sw_net_may_train(g, &g->node[bottom]);

    struct sw_net_graph_node *visible = &g->node[bottom];
    if (energy_of(visible) != SW_ENERGY_VISIBLE || !(trains || sw_net_may_train(g, visible)))
        return;

    if (visible->chain)
        sw_recipe_error(g->recipe, g->node[i].section, "src",
                        "%s is already the visible layer of another trained machine: add a "
                        "separate rbm_visible layer for this one",
                        visible->name);

    visible->chain = true;
    for (int k = i; k != bottom; k = g->node[k].src[0])
        g->node[k].chain = true;
}

/* ---- Units ---- */

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

/* The direction in which the weights of a hidden layer count twice: its name, or NULL. */
static const char *doubled(const struct sw_net_graph_node *hidden)
{
    const struct sw_opt *o = key_of(hidden, "doubled");
    const int value = o ? *(const int *)value_of(hidden, o) : 0;
    return value > 0 ? o->choices[value] : NULL;
}

/* A layer that reads a machine with one hidden layer knows nothing of further layers and of doubled
 * weights. A reconstruction only uses the weights downwards. */
static void check_alone(struct sw_net_graph *g, const struct sw_net_graph_node *reader,
                        const struct sw_net_graph_node *hidden)
{
    const char *twice = doubled(hidden);
    const bool reconstructs = reader->type->energy != SW_ENERGY_NONE;

    if (!reconstructs && hidden->place != SW_MACHINE_ALONE)
        sw_recipe_error_item(g->recipe, reader->section, "src", 1,
                             "%s belongs to a deep Boltzmann machine: use variational_bound",
                             hidden->name);
    else if (hidden->place == SW_MACHINE_ALONE && twice &&
             !(reconstructs && sw_str_eq(twice, "up")))
        sw_recipe_error_item(g->recipe, reader->section, "src", 1,
                             "%s has doubled = %s, which %s does not support", hidden->name, twice,
                             reader->type->base.name);
}

/* A layer that reads a deep machine names all its layers, from below. */
static void check_stack(struct sw_net_graph *g, const struct sw_net_graph_node *reader)
{
    bool is_chain = energy_of(&g->node[reader->src[0]]) == SW_ENERGY_VISIBLE;

    for (int k = 1; k < reader->src_count; k++) {
        const struct sw_net_graph_node *hidden = &g->node[reader->src[k]];
        const bool top = k == reader->src_count - 1;

        is_chain = is_chain && energy_of(hidden) == SW_ENERGY_HIDDEN &&
                   hidden->src[0] == reader->src[k - 1] && (hidden->place == SW_MACHINE_TOP) == top;
    }

    if (is_chain)
        check_binary(g, reader, &g->node[reader->src[0]]);
    else
        sw_recipe_error(g->recipe, reader->section, "src",
                        "%s needs all layers of a deep Boltzmann machine, from the visible one to "
                        "the top, in a net with algorithm = cd",
                        reader->type->base.name);
}

static bool is_conditioned(const struct sw_net_graph_node *side)
{
    return energy_of(side) != SW_ENERGY_NONE && side->src_count > 1;
}

/* Checks that a reader of a machine has the condition of `side`, if it has one, as its source k. */
static void check_condition(struct sw_net_graph *g, const struct sw_net_graph_node *reader, int k,
                            const struct sw_net_graph_node *side)
{
    if (!is_conditioned(side)) {
        if (k < reader->src_count)
            sw_recipe_error_item(g->recipe, reader->section, "src", k, "%s has no condition",
                                 side->name);
        return;
    }

    const char *condition = g->node[side->src[1]].name;
    if (k >= reader->src_count)
        sw_recipe_error(g->recipe, reader->section, "src",
                        "the biases of %s depend on %s (conditioned = yes): %s%s", side->name,
                        condition, reader->type->base.name,
                        reader->type->conditions
                            ? " needs conditioned = yes and the same condition too"
                            : " does not support this");
    else if (reader->src[k] != side->src[1])
        sw_recipe_error_item(g->recipe, reader->section, "src", k,
                             "the condition of %s is %s: name it here", side->name, condition);
}

/* A machine is read by its visible and its hidden layer, the last sources before conditions. */
static void check_machine(struct sw_net_graph *g, int i)
{
    const struct sw_net_graph_node *node = &g->node[i];
    const enum sw_energy side = energy_of(node);
    const int own = own_sources(node);

    if (side == SW_ENERGY_HIDDEN)
        check_counts(g, node, &g->node[node->src[0]]);
    if (side == SW_ENERGY_NONE && node->type->borrows && own > 2)
        check_stack(g, node);
    if (side != SW_ENERGY_NONE || !node->type->borrows || own != 2 ||
        energy_of(&g->node[node->src[1]]) != SW_ENERGY_HIDDEN)
        return;

    const struct sw_net_graph_node *visible = &g->node[node->src[own - 2]],
                                   *hidden = &g->node[node->src[own - 1]];
    check_units(g, node, node->type->energy ? "units" : "visible_units", visible);
    check_units(g, node, "hidden_units", hidden);
    check_alone(g, node, hidden);
    if (!node->type->energy)
        check_binary(g, node, visible);

    check_condition(g, node, own, visible);
    if (!node->type->energy) /* a reconstruction reads the states of the hidden units */
        check_condition(g, node, own + 1, hidden);
}

static void check_sources(struct sw_net_graph *g, int i)
{
    const struct sw_net_graph_node *node = &g->node[i];

    if (node->type->energy == SW_ENERGY_HIDDEN && own_sources(node) > 1)
        sw_recipe_error_item(g->recipe, node->section, "src", 1,
                             "a second source requires conditioned = yes");
}

int sw_net_find_chains(struct sw_net_graph *g, const struct sw_net_args *args, struct sw_err *err)
{
    const bool energy = args->algorithm == SW_ALGORITHM_CD;

    for (int i = 0; i < g->count; i++)
        check_sources(g, i);

    for (int i = 0; i < g->count && energy; i++)
        if (energy_of(&g->node[i]) == SW_ENERGY_HIDDEN)
            find_place(g, i);

    for (int i = 0; i < g->count && energy && args->training; i++)
        if (energy_of(&g->node[i]) == SW_ENERGY_HIDDEN &&
            (g->node[i].place == SW_MACHINE_ALONE || g->node[i].place == SW_MACHINE_TOP))
            join(g, i);

    for (int i = 0; i < g->count; i++)
        check_machine(g, i);
    return sw_recipe_status(g->recipe, err);
}
