/* Gibbs chains of a net that is trained by algorithm = cd: which layers are the two sides of a
 * Boltzmann machine, and which of these machines are trained. Such a machine is a loss of its own:
 * it needs no other, and no gradient leaves it. And do all layers of a machine say the same of its
 * units? They are keys of each, because layers do not know each other. */
#include "net/net_private.h"

#include "base/str.h"

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

/* ---- Units ---- */

/* A key of the layer's type, NULL: it has none; and what the layer says. */
static const struct sw_opt *key_of(const struct sw_net_node *node, const char *key)
{
    const struct sw_opt *o = node->layer.type->base.opts;
    while (o && o->key && !sw_str_eq(o->key, key))
        o++;
    return o && o->key ? o : NULL;
}

static const void *value_of(const struct sw_net_node *node, const struct sw_opt *o)
{
    return (const char *)node->layer.conf + o->offset;
}

/* A layer that reads a machine's side says in `key` what units that has. */
static void check_units(struct sw_net *net, const struct sw_net_node *reader, const char *key,
                        const struct sw_net_node *side)
{
    const struct sw_opt *own = key_of(reader, key), *its = key_of(side, "units");
    if (!own || !its || sw_layer_energy(&side->layer) == SW_ENERGY_NONE)
        return;
    const int says = *(const int *)value_of(reader, own), is = *(const int *)value_of(side, its);
    if (says != is)
        sw_recipe_error(net->recipe, reader->section, key,
                        "the units of %s are %s: say %s = %s here, too", side->layer.name,
                        its->choices[is], key, its->choices[is]);
}

/* One that has no key for the visible units is for those that are 0 or 1. */
static void check_binary(struct sw_net *net, const struct sw_net_node *reader,
                         const struct sw_net_node *visible)
{
    const struct sw_opt *units = key_of(visible, "units");
    if (key_of(reader, "visible_units") || sw_layer_energy(&visible->layer) == SW_ENERGY_NONE)
        return;
    const char *name = units->choices[*(const int *)value_of(visible, units)];
    if (!sw_str_eq(name, "bernoulli"))
        sw_recipe_error_item(net->recipe, reader->section, "src", 0,
                             "the units of %s are %s: %s is for bernoulli ones, which are 0 or 1",
                             visible->layer.name, name, reader->layer.type->base.name);
}

/* Counts of words have biases that count once per word, on both sides. */
static void check_counts(struct sw_net *net, const struct sw_net_node *hidden,
                         const struct sw_net_node *visible)
{
    const struct sw_opt *replicated = key_of(hidden, "replicated"),
                        *units = key_of(visible, "units");
    if (sw_layer_energy(&visible->layer) != SW_ENERGY_VISIBLE || !replicated || !units)
        return;
    const bool counts =
        sw_str_eq(units->choices[*(const int *)value_of(visible, units)], "softmax");
    if (*(const bool *)value_of(hidden, replicated) != counts)
        sw_recipe_error(net->recipe, hidden->section, "replicated",
                        "the units of %s are %s: say replicated = %s", visible->layer.name,
                        units->choices[*(const int *)value_of(visible, units)],
                        counts ? "yes" : "no");
}

static void check_machine(struct sw_net *net, int i)
{
    const struct sw_net_node *node = &net->nodes[i];
    const enum sw_energy side = sw_layer_energy(&node->layer);
    if (side == SW_ENERGY_HIDDEN)
        check_counts(net, node, &net->nodes[node->src[0]]);
    if (side != SW_ENERGY_NONE || !node->layer.type->borrows || node->layer.src_count != 2)
        return;
    const struct sw_net_node *visible = &net->nodes[node->src[0]];
    check_units(net, node, node->layer.type->energy ? "units" : "visible_units", visible);
    check_units(net, node, "hidden_units", &net->nodes[node->src[1]]);
    if (!node->layer.type->energy)
        check_binary(net, node, visible);
}

int sw_net_find_chains(struct sw_net *net, struct sw_err *err)
{
    for (int i = 0; i < net->count && net->algorithm == SW_ALGORITHM_CD; i++)
        if (sw_layer_energy(&net->nodes[i].layer) == SW_ENERGY_HIDDEN)
            join(net, i);
    for (int i = 0; i < net->count; i++)
        check_machine(net, i);
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
            if (sw_net_takes_turns(&net->nodes[i]))
                rc = sw_net_backward(net, i, err);
        for (int i = 0; i < net->count && rc == SW_OK; i++)
            if (sw_net_takes_turns(&net->nodes[i]))
                rc = sw_net_forward(net, i, err);
    }
    net->chain_turn = 0;
    return rc;
}
