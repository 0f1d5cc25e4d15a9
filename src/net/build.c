/* Shapes and plans: every layer's setup in topological order, fused relus, gradients that are
 * needed, parameters numbered through. */
#include "net/branches.h"
#include "net/schedule.h"

#include "base/os.h"
#include "base/stop.h"
#include "base/str.h"

struct setup_user {
    const struct sw_net *net;
    const struct sw_net_args *args;
    const struct sw_net_node *node;
};

const struct sw_desc *sw_net_find_field(const struct sw_net *net, const char *field)
{
    for (int i = 0; i < net->field_count; i++)
        if (sw_str_eq(net->fields[i].name, field))
            return &net->fields[i].desc;
    return NULL;
}

static const struct sw_desc *find_field(void *user, const char *field)
{
    const struct setup_user *u = user;
    return sw_net_find_field(u->net, field);
}

static const struct sw_desc *find_layout(void *user, const struct sw_layer *l, const char *param)
{
    const struct setup_user *u = user;
    const struct sw_net *sharing = u->args->sharing;
    if (sw_net_share_of(u->node, param))
        return sw_net_shared_layout(u->net, u->node, param);
    int i = sharing ? sw_net_find(sharing, l->name) : -1;
    /* Parts of a parameter have shapes of their own on every worker. */
    if (i < 0 || (u->node->spread.dist != SW_DIST_ROWS && sharing->worker != u->args->worker))
        return NULL;
    const struct sw_layer *other = sw_net_layer(u->args->sharing, i);
    for (int p = 0; p < other->param_count; p++)
        if (sw_str_eq(other->param[p].name, param))
            return &other->param[p].layout;
    return NULL;
}

/* Is what the layer answers a term of the loss? */
static bool is_loss(const struct sw_net_node *node)
{
    const struct sw_layer_type *type = node->layer.type;
    return type->role == SW_ROLE_LOSS || type->penalty || node->chain;
}

/* Is source k a target, to which no gradient goes? */
static bool is_target(const struct sw_net_node *node, int k)
{
    if (node->chain && sw_layer_energy(&node->layer) == SW_ENERGY_VISIBLE)
        return true;
    return node->layer.type->targets >> k & 1;
}

static void find_paths_to_losses(struct sw_net *net)
{
    for (int i = net->count - 1; i >= 0; i--) {
        struct sw_net_node *node = &net->nodes[i];
        node->leads_to_loss |= is_loss(node);
        for (int k = 0; node->leads_to_loss && k < node->layer.src_count; k++)
            if (!is_target(node, k))
                net->nodes[node->src[k]].leads_to_loss = true;
    }
}

/* A relu whose source applies it: the source can, and nobody else reads the source. */
static void find_fused(struct sw_net *net)
{
    for (int i = 0; i < net->count; i++) {
        struct sw_net_node *node = &net->nodes[i];
        const struct sw_layer_type *type = node->layer.type;
        if (!type->is_relu || !type->is_relu(node->layer.conf))
            continue;
        struct sw_net_node *source = &net->nodes[node->src[0]];
        if (source->layer.type->can_fuse_relu && source->consumers == 1)
            source->fuse_relu = node->fused = true;
    }
}

static uint32_t wanted_gradients(const struct sw_net *net, const struct sw_net_node *node)
{
    uint32_t mask = 0;
    for (int k = 0; net->training && node->leads_to_loss && k < node->layer.src_count; k++)
        if (net->nodes[node->src[k]].needs_grad && !is_target(node, k))
            mask |= 1u << k;
    return mask;
}

/* Does the shared parameter have the shape this net gives it? */
static int check_shared(struct setup_user *u, const struct sw_layer *l, struct sw_err *err)
{
    char a[128], b[128];
    for (int p = 0; p < l->param_count; p++) {
        const struct sw_desc *other = find_layout(u, l, l->param[p].name);
        if (other && !sw_desc_equal(other, &l->param[p].layout))
            return sw_err_set(err, SW_ERR_INVALID,
                              "its %s is %s in evaluation but %s in training: do both read the "
                              "same shape?",
                              l->param[p].name, sw_desc_text(&l->param[p].layout, a),
                              sw_desc_text(other, b));
    }
    return SW_OK;
}

static void settle_backward(struct sw_net *net, struct sw_net_node *node, uint32_t wants)
{
    struct sw_layer *l = &node->layer;
    sw_net_settle_frozen(net, node);
    node->has_backward = net->training && node->leads_to_loss && (node->trains || wants != 0);
    node->needs_grad = node->has_backward && l->type->role != SW_ROLE_LOSS;
    if (!node->chain)
        return;
    /* Also where its own parameters are frozen: the other side's chain runs through it. */
    node->has_backward = node->needs_grad = true;
    if (sw_layer_energy(l) != SW_ENERGY_HIDDEN)
        return;
    struct sw_net_node *below = &net->nodes[node->src[0]];
    for (; sw_net_is_bridge(below); below = &net->nodes[below->src[0]]) {
        below->chain_link = true;
        below->layer.chain_steps = l->chain_steps;
    }
    below->layer.chain_steps = l->chain_steps;
}

/* Does a loss depend on the layer through another loss? */
static const struct sw_layer *loss_below(const struct sw_net *net, const struct sw_net_node *node)
{
    for (int k = 0; node->leads_to_loss && k < node->layer.src_count; k++) {
        const struct sw_net_node *source = &net->nodes[node->src[k]];
        if (source->has_backward && source->layer.type->role == SW_ROLE_LOSS && !is_target(node, k))
            return &source->layer;
    }
    return NULL;
}

static int check_backward(const struct sw_net *net, const struct sw_net_node *node,
                          struct sw_err *err)
{
    const struct sw_layer *l = &node->layer;
    if (net->training && node->trains && l->param_count > node->share_count && !node->leads_to_loss)
        return sw_err_set(err, SW_ERR_INVALID,
                          "no loss depends on it, so its parameters would never be trained: let a "
                          "loss read it (a loss's targets get no gradient), or say include = "
                          "eval");
    const struct sw_layer *loss = loss_below(net, node);
    if (loss)
        return sw_err_set(err, SW_ERR_INVALID,
                          "it reads %s and leads to a loss, but no gradient goes through a loss: "
                          "read what %s reads",
                          loss->name, loss->name);
    if (node->has_backward && !l->type->backward)
        return sw_err_set(err, SW_ERR_INVALID,
                          "%s has no gradient, but a loss depends on it and its sources have "
                          "parameters",
                          l->type->base.name);
    return SW_OK;
}

/* The columns of the whole output, of which this worker may have a part. */
static int64_t whole_columns(const struct sw_net *net, const struct sw_net_node *node)
{
    const struct sw_layer *l = &node->layer;
    if (node->spread.dist != SW_DIST_COLUMNS)
        return l->dst.desc.ndim > 1 ? l->dst.desc.dim[1] : 1;
    if (sw_net_is_bridge(node))
        return sw_net_connection(l).columns;
    if (l->type->split == SW_SPLIT_OUTPUTS)
        return l->whole_columns;
    if (node->joins)
        return node->known_columns;
    return net->nodes[node->src[0]].columns;
}

static void place_columns(const struct sw_net *net, const struct sw_net_node *node,
                          struct sw_layer_setup *setup)
{
    setup->parts = 1;
    setup->whole_batch = sw_net_has_whole_batch(net, node->layer.index);
    if (node->layer.src_count == 0)
        return;
    const struct sw_net_node *source = &net->nodes[node->src[0]];
    setup->sums = node->spread.dist == SW_DIST_SUMS;
    setup->first_term = net->worker == 0;
    if (node->spread.dist == SW_DIST_COLUMNS && node->layer.type->split == SW_SPLIT_OUTPUTS) {
        setup->part = net->worker;
        setup->parts = net->workers;
    }
    if (source->spread.dist == SW_DIST_COLUMNS) {
        setup->channels = source->columns;
        setup->first_channel =
            sw_spread_rect(source->spread, 1, source->columns, net->workers, net->worker).column;
    }
}

/* Is a step of an unrolled layer what the steps around it take it for? */
static int check_step(const struct sw_net_node *node, struct sw_err *err)
{
    const struct sw_layer *l = &node->layer;
    const struct sw_desc *d = &l->dst.desc;
    char text[128];
    if (l->keep_count > 0)
        return sw_err_set(err, SW_ERR_INVALID,
                          "unroll = %d: %s keeps running statistics, which steps cannot share",
                          node->steps, l->type->base.name);
    if (l->backward_phases > 1)
        return sw_err_set(err, SW_ERR_INVALID,
                          "unroll = %d: how many labels count is not known of all steps at once: "
                          "leave unroll out, and it reads them as a sequence",
                          node->steps);
    if (node->width > 0 && (d->ndim != 2 || d->dim[1] != node->width || !sw_desc_is_plain(d)))
        return sw_err_set(
            err, SW_ERR_INVALID,
            "its output is %s, but where the step before is read the first step takes "
            "%lld features for it",
            sw_desc_text(d, text), (long long)node->width);
    return SW_OK;
}

static int setup_node(struct sw_net *net, int i, const struct sw_net_args *args, struct sw_err *err)
{
    struct sw_net_node *node = &net->nodes[i];
    struct sw_layer *l = &node->layer;
    struct setup_user user = {net, args, node};
    uint32_t wants = wanted_gradients(net, node);
    sw_net_find_comm(net, node);
    struct sw_layer_setup setup = {.stream = sw_net_stream_of(net, i),
                                   .seed = args->seed,
                                   .training = net->training && node->leads_to_loss,
                                   .wants_grad = wants,
                                   .frozen = !sw_net_may_train(net, node),
                                   .factors = node->comm != SW_COMM_PS && node->leads_to_loss,
                                   .batch_rows = net->batch_rows,
                                   .energy = net->algorithm == SW_ALGORITHM_CD,
                                   .chain = node->chain,
                                   .carry = net->carry && node->step < 0,
                                   .unrolled = node->step >= 0,
                                   .fuse_relu = node->fuse_relu,
                                   .fused = node->fused,
                                   .fused_backward =
                                       node->fused && net->nodes[node->src[0]].layer.masks_relu,
                                   .layout = find_layout,
                                   .field = find_field,
                                   .user = &user};
    place_columns(net, node, &setup);
    if (l->type->state_bytes) {
        l->state = sw_calloc(1, l->type->state_bytes);
        if (!l->state)
            return sw_err_nomem(err, "a layer", l->type->state_bytes);
    }
    node->set_up = true;
    int rc = sw_net_is_bridge(node)        ? sw_net_bridge_setup(net, node, &setup, err)
             : sw_net_connects_steps(node) ? sw_net_steps_setup(net, node, err)
                                           : l->type->setup(l, &setup, err);
    if (rc == SW_OK && node->step >= 0)
        rc = check_step(node, err);
    if (rc == SW_OK)
        settle_backward(net, node, wants);
    if (rc == SW_OK)
        rc = check_backward(net, node, err);
    node->absent = sw_net_is_elsewhere(net, node) && !sw_net_is_bridge(node);
    if (rc == SW_OK && !node->absent)
        rc = sw_net_check_shares(net, node, err);
    if (rc == SW_OK)
        rc = check_shared(&user, l, err);
    if (rc != SW_OK)
        return rc;
    node->columns = whole_columns(net, node);
    if (node->absent) {
        /* Set up for its shape alone. */
        l->param_count = l->keep_count = l->carry_count = l->sum_count = 0;
        l->saved_bytes = l->scratch_bytes = 0;
        l->flops_forward = l->flops_backward = 0;
    }
    return SW_OK;
}

/* Faults of the recipe become its messages; the other codes pass with the layer in front. */
static int report(struct sw_net *net, struct sw_net_node *node, int rc, struct sw_err *err)
{
    if (rc != SW_ERR_INVALID)
        return sw_err_prefix(err, rc, "layer %s", node->layer.name);
    if (sw_net_is_later_step(node))
        sw_recipe_error(net->recipe, node->section, NULL, "step %d: %s", node->step, err->text);
    else
        sw_recipe_error(net->recipe, node->section, NULL, "%s", err->text);
    return sw_recipe_verdict(net->recipe, err);
}

static int owner_of(const struct sw_net *net, const struct sw_net_node *node)
{
    return node->spread.dist == SW_DIST_ROWS  ? -1
           : node->spread.dist == SW_DIST_ONE ? node->spread.at
                                              : net->worker;
}

static int number_params(struct sw_net *net, struct sw_err *err)
{
    int params = 0;
    for (int i = 0; i < net->count; i++)
        params += net->nodes[i].layer.param_count;
    net->params = sw_calloc((size_t)params + 1, sizeof *net->params);
    if (!net->params)
        return sw_err_nomem(err, "the parameters", (size_t)params * sizeof *net->params);
    for (int i = 0; i < net->count; i++) {
        struct sw_net_node *node = &net->nodes[i];
        struct sw_layer *l = &node->layer;
        node->first_param = net->param_count;
        for (int k = 0; k < l->param_count; k++) {
            int root = sw_net_root_param(net, node, l->param[k].name);
            char *name = root < 0 ? sw_format("%s.%s", l->home, l->param[k].name)
                                  : sw_format("%s", net->params[root].name);
            if (!name)
                return sw_err_nomem(err, "a parameter's name", 0);
            net->params[net->param_count++] = (struct sw_net_param){.layer = i,
                                                                    .index = k,
                                                                    .owner = owner_of(net, node),
                                                                    .frozen = node->frozen[k],
                                                                    .name = name,
                                                                    .root = root};
        }
    }
    sw_net_order_givers(net);
    return SW_OK;
}

static int pairs_of(const struct sw_layer *l)
{
    return l->pair_count > 0 ? l->pair_count : 1;
}

/* Steps of one layer are one result, that of the first step; pairs of the others stand behind those
 * that are shown. */
static void number_later_steps(struct sw_net *net)
{
    for (int i = 0; i < net->count; i++) {
        struct sw_net_node *node = &net->nodes[i];
        for (int r = 0; r < net->result_count && sw_net_is_later_step(node); r++)
            if (net->nodes[net->results[r].layer].section == node->section &&
                node->layer.type == net->nodes[net->results[r].layer].layer.type) {
                node->result = r;
                node->first_pair = net->pair_count;
                net->pair_count += pairs_of(&node->layer);
            }
    }
}

static int number_results(struct sw_net *net, struct sw_err *err)
{
    net->results = sw_calloc((size_t)net->count, sizeof *net->results);
    if (!net->results)
        return sw_err_nomem(err, "the results", (size_t)net->count * sizeof *net->results);
    for (int i = 0; i < net->count; i++) {
        struct sw_net_node *node = &net->nodes[i];
        bool loss = is_loss(node);
        node->result = -1;
        if ((!loss && node->layer.type->role != SW_ROLE_METRIC) || sw_net_is_later_step(node))
            continue;
        int pairs = pairs_of(&node->layer);
        node->result = net->result_count;
        node->first_pair = net->pair_count;
        net->results[net->result_count++] = (struct sw_net_result){
            .layer = i, .loss = loss, .first = net->pair_count, .count = pairs};
        net->pair_count += pairs;
    }
    net->shown_pairs = net->pair_count;
    number_later_steps(net);
    void *mail = NULL;
    int rc =
        sw_device_host_alloc(net->stream->dev, sw_net_mail_bytes(net), "the results", &mail, err);
    net->mail = mail;
    return rc;
}

static int number_states(struct sw_net *net, struct sw_err *err)
{
    int states = 0;
    for (int i = 0; i < net->count; i++)
        states += net->nodes[i].layer.keep_count;
    net->states = sw_calloc((size_t)states + 1, sizeof *net->states);
    if (!net->states)
        return sw_err_nomem(err, "the layers' state", (size_t)states * sizeof *net->states);
    for (int i = 0; i < net->count; i++) {
        const struct sw_layer *l = &net->nodes[i].layer;
        for (int k = 0; k < l->keep_count; k++) {
            char *name = sw_format("%s.%s", l->home, l->keeps[k].name);
            if (!name)
                return sw_err_nomem(err, "a state's name", 0);
            net->states[net->state_count++] =
                (struct sw_net_state){.layer = i, .index = k, .name = name};
        }
    }
    return SW_OK;
}

static void find_sums(struct sw_net *net)
{
    for (int i = 0; i < net->count; i++) {
        int count = net->nodes[i].layer.sum_count;
        net->sum_count = count > net->sum_count ? count : net->sum_count;
    }
}

int sw_net_new(const struct sw_net_args *args, struct sw_net **out, struct sw_err *err)
{
    struct sw_net *net = sw_calloc(1, sizeof *net);
    if (!net)
        return sw_err_nomem(err, "a net", sizeof *net);
    net->recipe = args->recipe;
    net->stream = args->stream;
    net->fields = args->fields;
    net->field_count = args->field_count;
    net->algorithm = args->algorithm;
    net->training = args->training;
    net->rows = args->rows;
    net->batch_rows = args->batch_rows ? args->batch_rows : args->rows;
    net->group_rows = args->group_rows ? args->group_rows : net->batch_rows;
    net->workers = args->workers ? args->workers : 1;
    net->alone = args->workers == 0;
    net->worker = args->worker;
    net->carry = args->carry;
    net->steps = args->steps;
    net->partition = args->partition;
    net->comm = args->comm;
    net->freeze = args->freeze;
    net->scratch_apart = args->scratch_apart;
    int rc = sw_net_read_graph(net, args->until, err);
    if (rc == SW_OK)
        rc = sw_net_find_shares(net, err);
    if (rc == SW_OK)
        rc = sw_net_find_chains(net, err);
    if (rc == SW_OK)
        rc = sw_net_spread(net, err);
    if (rc == SW_OK) {
        find_paths_to_losses(net);
        find_fused(net);
        rc = sw_branches_new(net, args->streams, args->threads, &net->branches, err);
    }
    for (int i = 0; i < net->count && rc == SW_OK; i++) {
        rc = sw_stop_check(err);
        if (rc != SW_OK)
            break;
        rc = setup_node(net, i, args, err);
        if (rc != SW_OK)
            rc = report(net, &net->nodes[i], rc, err);
    }
    sw_net_end_comm(net);
    if (rc == SW_OK)
        rc = sw_recipe_verdict(net->recipe, err);
    if (rc == SW_OK)
        rc = number_params(net, err);
    if (rc == SW_OK)
        rc = number_results(net, err);
    if (rc == SW_OK)
        rc = number_states(net, err);
    if (rc == SW_OK) {
        find_sums(net);
        rc = sw_net_plan_memory(net, err);
    }
    if (rc != SW_OK) {
        sw_net_free(net);
        return rc;
    }
    *out = net;
    return SW_OK;
}

void sw_net_free(struct sw_net *net)
{
    if (!net)
        return;
    sw_swap_free(net->swap);
    if (net->schedule)
        sw_net_schedule_fini(net->schedule);
    sw_free(net->schedule);
    for (int i = 0; i < net->count && net->nodes; i++) {
        struct sw_layer *l = &net->nodes[i].layer;
        if (net->nodes[i].set_up && l->type->teardown)
            l->type->teardown(l);
        sw_free(l->state);
        sw_free(net->nodes[i].owned_name);
        sw_free(net->nodes[i].owned_conf);
    }
    sw_branches_free(net->branches); /* plans are freed on its streams */
    sw_buf_fini(&net->notes);
    sw_buf_fini(&net->comm_notes);
    for (int i = 0; i < net->param_count; i++)
        sw_free((char *)(uintptr_t)net->params[i].name);
    for (int i = 0; i < net->state_count; i++)
        sw_free((char *)(uintptr_t)net->states[i].name);
    sw_free(net->params);
    sw_free(net->states);
    sw_free(net->results);
    if (net->mail)
        sw_device_host_free(net->stream->dev, net->mail, sw_net_mail_bytes(net));
    sw_free(net->nodes);
    sw_free(net);
}
