/* Assigns indices to the parameters, results and buffers of layers. */
#include "net/shape/shapes.h"

#include "base/os.h"

static int owner_of(const struct sw_net_sharding *sharding, int i)
{
    const struct sw_distribution *distribution = &sharding->node[i].distribution;
    return distribution->dist == SW_DIST_ROWS  ? -1
           : distribution->dist == SW_DIST_ONE ? distribution->at
                                               : sharding->worker;
}

static int number_params(struct sw_net_shapes *s, struct sw_err *err)
{
    int params = 0;

    for (int i = 0; i < s->graph->count; i++)
        params += s->node[i].layer.param_count;
    s->params = sw_calloc((size_t)params + 1, sizeof *s->params);
    if (!s->params)
        return sw_err_nomem(err, "the parameters", (size_t)params * sizeof *s->params);

    for (int i = 0; i < s->graph->count; i++) {
        struct sw_net_shape *node = &s->node[i];
        struct sw_layer *l = &node->layer;

        node->first_param = s->param_count;
        for (int k = 0; k < l->param_count; k++) {
            int root = sw_net_root_param(s, i, l->param[k].name);
            char *name = root < 0 ? sw_format("%s.%s", l->home, l->param[k].name)
                                  : sw_format("%s", s->params[root].name);
            if (!name)
                return sw_err_nomem(err, "a parameter's name", 0);

            s->params[s->param_count++] = (struct sw_net_param){.layer = i,
                                                                .index = k,
                                                                .owner = owner_of(s->sharding, i),
                                                                .frozen = node->frozen[k],
                                                                .name = name,
                                                                .root = root};
        }
    }

    sw_net_order_writers(s);
    return SW_OK;
}

static int pairs_of(const struct sw_layer *l)
{
    return l->pair_count > 0 ? l->pair_count : 1;
}

/* The time steps of one layer are one result, that of the first step; pairs of the others come
 * after those that are shown. */
static void number_later_steps(struct sw_net_shapes *s)
{
    for (int i = 0; i < s->graph->count; i++) {
        const struct sw_net_graph_node *node = &s->graph->node[i];

        for (int r = 0; r < s->result_count && sw_net_is_later_step(node); r++) {
            const struct sw_net_graph_node *first = &s->graph->node[s->results[r].layer];
            if (first->section != node->section || first->type != node->type)
                continue;

            s->node[i].result = r;
            s->node[i].first_pair = s->pair_count;
            s->pair_count += pairs_of(&s->node[i].layer);
        }
    }
}

static int number_results(struct sw_net_shapes *s, struct sw_err *err)
{
    s->results = sw_calloc((size_t)s->graph->count, sizeof *s->results);
    if (!s->results)
        return sw_err_nomem(err, "the results", (size_t)s->graph->count * sizeof *s->results);

    for (int i = 0; i < s->graph->count; i++) {
        struct sw_net_shape *node = &s->node[i];
        bool loss = sw_net_is_loss(&s->graph->node[i]);

        node->result = -1;
        if ((!loss && node->layer.type->role != SW_ROLE_METRIC) ||
            sw_net_is_later_step(&s->graph->node[i]))
            continue;

        int pairs = pairs_of(&node->layer);
        node->result = s->result_count;
        node->first_pair = s->pair_count;
        s->results[s->result_count++] = (struct sw_net_result){
            .layer = i, .loss = loss, .first = s->pair_count, .count = pairs};
        s->pair_count += pairs;
    }

    s->shown_pairs = s->pair_count;
    number_later_steps(s);
    return SW_OK;
}

static int number_states(struct sw_net_shapes *s, struct sw_err *err)
{
    int states = 0;

    for (int i = 0; i < s->graph->count; i++)
        states += s->node[i].layer.keep_count;
    s->states = sw_calloc((size_t)states + 1, sizeof *s->states);
    if (!s->states)
        return sw_err_nomem(err, "the layers' buffers", (size_t)states * sizeof *s->states);

    for (int i = 0; i < s->graph->count; i++) {
        const struct sw_layer *l = &s->node[i].layer;

        for (int k = 0; k < l->keep_count; k++) {
            char *name = sw_format("%s.%s", l->home, l->keeps[k].name);
            if (!name)
                return sw_err_nomem(err, "a buffer's name", 0);

            s->states[s->state_count++] =
                (struct sw_net_buffer){.layer = i, .index = k, .name = name};
        }
    }

    return SW_OK;
}

static void find_sums(struct sw_net_shapes *s)
{
    for (int i = 0; i < s->graph->count; i++) {
        int count = s->node[i].layer.phases.sums;
        s->sum_count = count > s->sum_count ? count : s->sum_count;
    }
}

int sw_net_number(struct sw_net_shapes *s, struct sw_err *err)
{
    int rc = number_params(s, err);

    if (rc == SW_OK)
        rc = number_results(s, err);
    if (rc == SW_OK)
        rc = number_states(s, err);
    if (rc == SW_OK)
        find_sums(s);

    return rc;
}
