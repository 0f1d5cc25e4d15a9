/* Tied parameters: PARAM.share = LAYER.PARAM ties a layer's parameter to that of another layer
 * (tied weights of an auto-encoder, the steps of an unrolled net). The first user in topological
 * order, the root, determines layout, initial values and name; the others read the same values in
 * the same layout.
 *
 * Gradients are added in the order of backward, from the last user to the first. The last user
 * writes the parameter's gradient; the others add to it, or write to temporary memory if they
 * cannot add, and the net adds that. After backward of the root the gradient is complete, and no
 * layer reads the values again in this step. */
#include "net/graph/stages.h"

#include "optim/init.h"
#include "recipe/lookup.h"
#include <stdio.h>
#include <string.h>

static const struct sw_init_conf *conf_of(const struct sw_section *section, int k)
{
    return section->param_conf[k];
}

/* Reports other keys of a tied parameter: initial values and rates are set at the root. */
static void check_other_keys(struct sw_net_graph *g, const struct sw_section *section, int k,
                             const char *home)
{
    const char *param = section->type[0]->params[k];

    for (const struct sw_opt *o = sw_param_opts; o->key; o++) {
        char key[128];

        snprintf(key, sizeof key, "%s.%s", param, o->key);

        if (!sw_str_eq(o->key, "share") && sw_section_is_set(section, key))
            sw_recipe_error(g->recipe, section, key,
                            "%s is shared: set this key in the layer that owns %s", param, home);
    }
}

static int report_no_layer(struct sw_net_graph *g, const struct sw_section *section,
                           const char *key, const char *name, int bytes)
{
    const char *names[256];
    int count = 0;

    sw_recipe_error(g->recipe, section, key, "layer '%.*s' not found in this net", bytes, name);

    char wanted[128];
    snprintf(wanted, sizeof wanted, "%.*s", bytes, name);

    for (int i = 0; i < g->count && count < 256; i++)
        if (g->node[i].type->base.params && !sw_net_is_later_step(&g->node[i]))
            names[count++] = g->node[i].home;

    sw_recipe_hint_near(g->recipe, wanted, names, count, "layers with parameters");
    return -1;
}

/* Finds the node and parameter of "LAYER.PARAM"; returns -1 after adding an error. */
static int find_target(struct sw_net_graph *g, int i, const char *key, const char *text,
                       const char **param)
{
    const struct sw_section *section = g->node[i].section;
    const char *dot = strrchr(text, '.');
    if (!dot || dot == text || !dot[1]) {
        sw_recipe_error(g->recipe, section, key,
                        "a parameter is named LAYER.PARAM, such as fc1.weight");
        return -1;
    }

    int bytes = (int)(dot - text), target = -1;
    for (int j = 0; j < g->count; j++)
        if (target < 0 && g->node[j].home && strncmp(g->node[j].home, text, (size_t)bytes) == 0 &&
            !g->node[j].home[bytes])
            target = j;

    if (target < 0)
        return report_no_layer(g, section, key, text, bytes);

    const struct sw_type *type = &g->node[target].type->base;
    for (int k = 0; type->params && type->params[k]; k++)
        if (sw_str_eq(type->params[k], dot + 1)) {
            *param = type->params[k];
            return target;
        }

    sw_recipe_error(g->recipe, section, key, "%s has no parameter '%s'", type->name, dot + 1);
    return -1;
}

/* Ties parameter k to a parameter of node `root`, or to the one which that is tied to. */
static void add_tie(struct sw_net_graph *g, int i, int k, int root, const char *root_param)
{
    struct sw_net_graph_node *node = &g->node[i];
    struct sw_net_tie share = {node->section->type[0]->params[k], root, root_param};
    const struct sw_net_tie *further = sw_net_tie_of(&g->node[root], root_param);

    if (further) {
        share.root_param = further->root_param;
        share.root = further->root;
    }

    g->node[share.root].is_shared = node->is_shared = true;
    node->tie[node->tie_count++] = share;
}

static void read_tie(struct sw_net_graph *g, int i, int k)
{
    const struct sw_net_graph_node *node = &g->node[i];
    const char *text = conf_of(node->section, k)->share, *root_param = NULL;
    char key[128];

    snprintf(key, sizeof key, "%s.share", node->section->type[0]->params[k]);
    check_other_keys(g, node->section, k, text);

    int root = find_target(g, i, key, text, &root_param);
    if (root < 0)
        return;

    if (root >= i) {
        sw_recipe_error(g->recipe, node->section, key,
                        "%s does not run before this layer: share %s.%s there instead",
                        root == i ? "the layer itself" : g->node[root].home, node->home,
                        node->section->type[0]->params[k]);
        return;
    }

    add_tie(g, i, k, root, root_param);
}

/* Does the type have that parameter? */
static bool has_param(const struct sw_layer_type *type, const char *param)
{
    const char *const *params = type->base.params;

    for (int k = 0; params && params[k]; k++)
        if (sw_str_eq(params[k], param))
            return true;

    return false;
}

/* Checks that `key` of the borrowing layer has the same value as in the source. */
static void check_same_key(struct sw_net_graph *g, const struct sw_net_graph_node *node,
                           const struct sw_net_graph_node *source, const char *key)
{
    const struct sw_opt *own = sw_opts_find(node->type->base.opts, key),
                        *its = sw_opts_find(source->type->base.opts, key);
    if (!own || !its)
        return;

    const int says = *(const int *)((const char *)node->conf + own->offset),
              is = *(const int *)((const char *)source->conf + its->offset);
    if (says != is)
        sw_recipe_error(g->recipe, node->section, key, "%s has %s = %s: set the same here",
                        source->name, key, its->choices[is]);
}

/* Ties a parameter that the layer's type takes from a source. */
static void borrow(struct sw_net_graph *g, int i, int k)
{
    const struct sw_net_graph_node *node = &g->node[i];
    const char *param = node->section->type[0]->params[k];
    const int sources = sw_layer_own_sources(node->type, node->conf, node->src_count);

    for (const struct sw_layer_borrow *b = node->type->borrows; b && b->param; b++) {
        if (!sw_str_eq(b->param, param) || b->sources != sources)
            continue;

        const struct sw_net_graph_node *source = &g->node[node->src[b->src]];
        check_other_keys(g, node->section, k, source->name);
        if (b->key)
            check_same_key(g, node, source, b->key);

        if (has_param(source->type, b->of))
            add_tie(g, i, k, node->src[b->src], b->of);
        else
            sw_recipe_error_item(g->recipe, node->section, "src", b->src,
                                 "%s is of type %s, which has no parameter %s for %s to use",
                                 source->name, source->type->base.name, b->of,
                                 node->type->base.name);
    }
}

/* Ties all parameters of a later time step to those of the first one, or to their roots. */
static void tie_to_first_step(struct sw_net_graph *g, int i)
{
    struct sw_net_graph_node *node = &g->node[i], *first = NULL;
    const struct sw_section *s = node->section;
    int root = 0;

    while (g->node[root].section != s || g->node[root].step != 0 ||
           sw_net_connects_steps(&g->node[root]))
        root++;

    first = &g->node[root];
    for (int k = 0; k < s->param_count && k < SW_LAYER_PARAMS; k++) {
        const char *param = s->type[0]->params[k];
        const struct sw_net_tie *given = sw_net_tie_of(first, param);
        node->tie[node->tie_count++] =
            given ? *given : (struct sw_net_tie){.param = param, .root = root, .root_param = param};
    }

    if (s->param_count > 0)
        first->is_shared = node->is_shared = true;
}

int sw_net_find_ties(struct sw_net_graph *g, struct sw_err *err)
{
    for (int i = 0; i < g->count; i++) {
        const struct sw_section *s = g->node[i].section;

        if (sw_net_connects_steps(&g->node[i]))
            continue;
        if (sw_net_is_later_step(&g->node[i])) {
            tie_to_first_step(g, i);
            continue;
        }

        for (int k = 0; k < s->param_count && k < SW_LAYER_PARAMS; k++)
            if (conf_of(s, k)->share)
                read_tie(g, i, k);
            else
                borrow(g, i, k);
    }

    return sw_recipe_status(g->recipe, err);
}
