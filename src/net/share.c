/* Parameters that several layers use: PARAM.share = LAYER.PARAM says that a layer's parameter is
 * another one's (tied weights of an auto-encoder, the copies of an unrolled net). The first of its
 * users in topological order, the root, chooses the layout and the initial values and gives it its
 * name; the others read the same values in the same layout.
 *
 * Their gradients are added from the last user to the first: that is the order of backward. The
 * last writes into the parameter's gradient; every other one adds to it where it can, else it
 * writes aside and the net adds. When backward of the root is done, the gradient is complete and
 * nobody reads the values again in this step. */
#include "net/net_private.h"

#include "base/str.h"
#include "param/init.h"
#include <stdio.h>
#include <string.h>

static const struct sw_init_conf *conf_of(const struct sw_section *section, int k)
{
    return section->param_conf[k];
}

/* Is another key of the parameter set? Values, rates and initialisation are the root's. */
static void check_other_keys(struct sw_net *net, const struct sw_section *section, int k,
                             const char *home)
{
    const char *param = section->type[0]->params[k];
    for (const struct sw_opt *o = sw_param_opts; o->key; o++) {
        char key[128];
        snprintf(key, sizeof key, "%s.%s", param, o->key);
        if (!sw_str_eq(o->key, "share") && sw_section_is_set(section, key))
            sw_recipe_error(net->recipe, section, key, "%s is shared: say this where %s is at home",
                            param, home);
    }
}

static int say_no_layer(struct sw_net *net, const struct sw_section *section, const char *key,
                        const char *name, int bytes)
{
    const char *names[256];
    int count = 0;
    sw_recipe_error(net->recipe, section, key, "there is no layer '%.*s' in this net", bytes, name);
    char wanted[128];
    snprintf(wanted, sizeof wanted, "%.*s", bytes, name);
    for (int i = 0; i < net->count && count < 256; i++)
        if (net->nodes[i].layer.type->base.params && !sw_net_is_later_step(&net->nodes[i]))
            names[count++] = net->nodes[i].layer.home;
    sw_recipe_hint_near(net->recipe, wanted, names, count, "layers with parameters");
    return -1;
}

/* The node of the layer that the text "LAYER.PARAM" names, and its parameter; -1 with a message. */
static int find_target(struct sw_net *net, int i, const char *key, const char *text,
                       const char **param)
{
    const struct sw_section *section = net->nodes[i].section;
    const char *dot = strrchr(text, '.');
    if (!dot || dot == text || !dot[1]) {
        sw_recipe_error(net->recipe, section, key,
                        "a parameter is named LAYER.PARAM, such as fc1.weight");
        return -1;
    }
    int bytes = (int)(dot - text), target = -1;
    for (int j = 0; j < net->count; j++)
        if (target < 0 && net->nodes[j].layer.home &&
            strncmp(net->nodes[j].layer.home, text, (size_t)bytes) == 0 &&
            !net->nodes[j].layer.home[bytes])
            target = j;
    if (target < 0)
        return say_no_layer(net, section, key, text, bytes);
    const struct sw_type *type = &net->nodes[target].layer.type->base;
    for (int k = 0; type->params && type->params[k]; k++)
        if (sw_str_eq(type->params[k], dot + 1)) {
            *param = type->params[k];
            return target;
        }
    sw_recipe_error(net->recipe, section, key, "%s has no parameter '%s'", type->name, dot + 1);
    return -1;
}

const struct sw_net_share *sw_net_share_of(const struct sw_net_node *node, const char *param)
{
    for (int s = 0; s < node->share_count; s++)
        if (sw_str_eq(node->share[s].param, param))
            return &node->share[s];
    return NULL;
}

/* Its parameter k is one of layer `root`. */
static void note_share(struct sw_net *net, int i, int k, int root, const char *root_param)
{
    struct sw_net_node *node = &net->nodes[i];
    struct sw_net_share share = {node->section->type[0]->params[k], root, root_param};
    const struct sw_net_share *further = sw_net_share_of(&net->nodes[root], root_param);
    if (further) {
        share.root_param = further->root_param;
        share.root = further->root;
    }
    net->nodes[share.root].is_shared = node->is_shared = true;
    node->share[node->share_count++] = share;
}

static void read_share(struct sw_net *net, int i, int k)
{
    const struct sw_net_node *node = &net->nodes[i];
    const char *text = conf_of(node->section, k)->share, *root_param = NULL;
    char key[128];
    snprintf(key, sizeof key, "%s.share", node->section->type[0]->params[k]);
    check_other_keys(net, node->section, k, text);
    int root = find_target(net, i, key, text, &root_param);
    if (root < 0)
        return;
    if (root >= i) {
        sw_recipe_error(net->recipe, node->section, key,
                        "%s does not run before this layer: let that one share %s.%s instead",
                        root == i ? "the layer itself" : net->nodes[root].layer.home,
                        node->layer.home, node->section->type[0]->params[k]);
        return;
    }
    note_share(net, i, k, root, root_param);
}

/* Does the layer's source have that parameter? */
static bool has_param(const struct sw_layer *l, const char *param)
{
    const char *const *params = l->type->base.params;
    for (int k = 0; params && params[k]; k++)
        if (sw_str_eq(params[k], param))
            return true;
    return false;
}

/* A parameter that is a source's by the layer's type. */
static void borrow(struct sw_net *net, int i, int k)
{
    const struct sw_net_node *node = &net->nodes[i];
    const char *param = node->section->type[0]->params[k];
    for (const struct sw_layer_borrow *b = node->layer.type->borrows; b && b->param; b++) {
        if (!sw_str_eq(b->param, param) || b->sources != node->layer.src_count)
            continue;
        const struct sw_layer *source = &net->nodes[node->src[b->src]].layer;
        check_other_keys(net, node->section, k, source->name);
        if (has_param(source, b->of))
            note_share(net, i, k, node->src[b->src], b->of);
        else
            sw_recipe_error_item(net->recipe, node->section, "src", b->src,
                                 "%s is %s and has no %s, which %s takes from it", source->name,
                                 source->type->base.name, b->of, node->layer.type->base.name);
    }
}

/* A later step has the parameters of the first one, or whose those are. */
static void share_first_step(struct sw_net *net, int i)
{
    struct sw_net_node *node = &net->nodes[i], *first = NULL;
    const struct sw_section *s = node->section;
    int root = 0;
    while (net->nodes[root].section != s || net->nodes[root].step != 0 ||
           sw_net_connects_steps(&net->nodes[root]))
        root++;
    first = &net->nodes[root];
    for (int k = 0; k < s->param_count && k < SW_LAYER_PARAMS; k++) {
        const char *param = s->type[0]->params[k];
        const struct sw_net_share *given = sw_net_share_of(first, param);
        node->share[node->share_count++] =
            given ? *given
                  : (struct sw_net_share){.param = param, .root = root, .root_param = param};
    }
    if (s->param_count > 0)
        first->is_shared = node->is_shared = true;
}

int sw_net_find_shares(struct sw_net *net, struct sw_err *err)
{
    for (int i = 0; i < net->count; i++) {
        const struct sw_section *s = net->nodes[i].section;
        if (sw_net_connects_steps(&net->nodes[i]))
            continue;
        if (sw_net_is_later_step(&net->nodes[i])) {
            share_first_step(net, i);
            continue;
        }
        for (int k = 0; k < s->param_count && k < SW_LAYER_PARAMS; k++)
            if (conf_of(s, k)->share)
                read_share(net, i, k);
            else
                borrow(net, i, k);
    }
    return sw_recipe_verdict(net->recipe, err);
}

static int find_in(const struct sw_layer *l, const char *param)
{
    for (int p = 0; p < l->param_count; p++)
        if (sw_str_eq(l->param[p].name, param))
            return p;
    return -1;
}

const struct sw_desc *sw_net_shared_layout(const struct sw_net *net, const struct sw_net_node *node,
                                           const char *param)
{
    const struct sw_net_share *share = sw_net_share_of(node, param);
    const struct sw_layer *root = share ? &net->nodes[share->root].layer : NULL;
    int p = root ? find_in(root, share->root_param) : -1;
    return p < 0 ? NULL : &root->param[p].layout;
}

int sw_net_check_shares(const struct sw_net *net, const struct sw_net_node *node,
                        struct sw_err *err)
{
    char own_text[128], root_text[128];
    for (int s = 0; s < node->share_count; s++) {
        const struct sw_net_share *share = &node->share[s];
        const struct sw_layer *root = &net->nodes[share->root].layer;
        int own = find_in(&node->layer, share->param), p = find_in(root, share->root_param);
        /* Its type may have a parameter that this layer has not; or another worker has them all. */
        bool neither = own < 0 && p < 0 && root->home == node->layer.home;
        if (neither || net->nodes[share->root].absent)
            continue;
        if (own < 0)
            return sw_err_set(err, SW_ERR_INVALID, "%s.share: this layer has no %s", share->param,
                              share->param);
        if (p < 0)
            return sw_err_set(err, SW_ERR_INVALID, "%s.share: layer %s has no %s", share->param,
                              root->name, share->root_param);
        const struct sw_desc *mine = &node->layer.param[own].layout, *its = &root->param[p].layout;
        if (sw_desc_equal(mine, its))
            continue;
        bool turned = mine->ndim == 2 && its->ndim == 2 && mine->dim[0] == its->dim[1] &&
                      mine->dim[1] == its->dim[0];
        return sw_err_set(err, SW_ERR_INVALID, "%s.share: its %s is %s, but %s.%s is %s%s",
                          share->param, share->param, sw_desc_text(mine, own_text), root->name,
                          share->root_param, sw_desc_text(its, root_text),
                          turned ? ": transpose = yes shares it the other way round" : "");
    }
    return SW_OK;
}

/* The entry of the root's parameter, which is numbered before its other users. */
int sw_net_root_param(const struct sw_net *net, const struct sw_net_node *node, const char *param)
{
    const struct sw_net_share *share = sw_net_share_of(node, param);
    if (!share)
        return -1;
    const struct sw_net_node *root = &net->nodes[share->root];
    return root->first_param + find_in(&root->layer, share->root_param);
}

/* Backward visits the last entry first: it writes the sum's first term, all others add. */
void sw_net_order_givers(struct sw_net *net)
{
    for (int p = net->param_count - 1; p >= 0; p--) {
        const struct sw_net_param *param = &net->params[p];
        const struct sw_net_param *root = &net->params[param->root < 0 ? p : param->root];
        bool *given = &net->nodes[root->layer].gradient_given[root->index];
        if (!net->nodes[param->layer].has_backward || param->frozen)
            continue;
        struct sw_net_node *giver = &net->nodes[param->layer];
        if (*given && (giver->layer.can_add_params >> param->index & 1))
            giver->layer.param_adds |= 1u << param->index;
        else
            giver->adds_param[param->index] = *given;
        *given = true;
    }
}
