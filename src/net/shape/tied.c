/* Checks of tied parameters after shapes are known: do both layers have them, in which layout, and
 * who of their users writes the gradient (net/graph/ties.c). */
#include "net/shape/shapes.h"

static int find_in(const struct sw_layer *l, const char *param)
{
    for (int p = 0; p < l->param_count; p++)
        if (sw_str_eq(l->param[p].name, param))
            return p;
    return -1;
}

const struct sw_desc *sw_net_shared_layout(const struct sw_net_shapes *s, int i, const char *param)
{
    const struct sw_net_tie *share = sw_net_tie_of(&s->graph->node[i], param);
    const struct sw_layer *root = share ? &s->node[share->root].layer : NULL;
    int p = root ? find_in(root, share->root_param) : -1;
    return p < 0 ? NULL : &root->param[p].layout;
}

int sw_net_check_ties(const struct sw_net_shapes *s, int i, struct sw_err *err)
{
    const struct sw_net_graph_node *node = &s->graph->node[i];
    const struct sw_layer *l = &s->node[i].layer;
    char own_text[128], root_text[128];

    for (int k = 0; k < node->tie_count; k++) {
        const struct sw_net_tie *share = &node->tie[k];
        const struct sw_layer *root = &s->node[share->root].layer;
        int own = find_in(l, share->param), p = find_in(root, share->root_param);

        /* The layer may lack an optional parameter of its type, or another worker may have the
         * layer. */
        bool neither = own < 0 && p < 0 && root->home == node->home;
        if (neither || s->node[share->root].absent)
            continue;
        if (own < 0)
            return sw_err_set(err, SW_ERR_INVALID, "%s.share: this layer has no %s", share->param,
                              share->param);
        if (p < 0)
            return sw_err_set(err, SW_ERR_INVALID, "%s.share: layer %s has no %s", share->param,
                              root->name, share->root_param);

        const struct sw_desc *mine = &l->param[own].layout, *its = &root->param[p].layout;
        if (sw_desc_equal(mine, its))
            continue;

        bool turned = mine->ndim == 2 && its->ndim == 2 && mine->dim[0] == its->dim[1] &&
                      mine->dim[1] == its->dim[0];
        return sw_err_set(err, SW_ERR_INVALID, "%s.share: its %s is %s, but %s.%s is %s%s",
                          share->param, share->param, sw_desc_text(mine, own_text), root->name,
                          share->root_param, sw_desc_text(its, root_text),
                          turned ? ": transpose = yes shares the transposed matrix" : "");
    }

    return SW_OK;
}

/* Index of the root's parameter, which is assigned before those of its other users. */
int sw_net_root_param(const struct sw_net_shapes *s, int i, const char *param)
{
    const struct sw_net_tie *share = sw_net_tie_of(&s->graph->node[i], param);
    if (!share)
        return -1;

    const struct sw_net_shape *root = &s->node[share->root];
    return root->first_param + find_in(&root->layer, share->root_param);
}

/* Backward visits the last user first: it writes the gradient, and all others add. */
void sw_net_order_writers(struct sw_net_shapes *s)
{
    for (int p = s->param_count - 1; p >= 0; p--) {
        const struct sw_net_param *param = &s->params[p];
        const struct sw_net_param *root = &s->params[param->root < 0 ? p : param->root];
        bool *given = &s->node[root->layer].gradient_written[root->index];

        if (!s->node[param->layer].has_backward || param->frozen)
            continue;

        struct sw_net_shape *writer = &s->node[param->layer];
        if (*given && (writer->layer.can_add.params >> param->index & 1))
            writer->layer.adds.params |= 1u << param->index;
        else
            writer->adds_param[param->index] = *given;

        *given = true;
    }
}
