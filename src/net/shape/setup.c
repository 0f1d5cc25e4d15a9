/* Runs every layer's setup in topological order, and finds fused relus and the gradients that are
 * needed. */
#include "net/shape/shapes.h"

#include "base/os.h"
#include "base/stop.h"
#include "net/args.h"
#include "net/layers/bridge.h"
#include "net/layers/steps.h"

struct setup {
    const struct sw_net_graph *g;
    const struct sw_net_sharding *sharding;
    const struct sw_branches *branches;
    const struct sw_net_args *args;
    const struct sw_net_shapes *sharing;
    struct sw_net_shapes *s;
    struct sw_bytes others; /* owned: names collected by sw_net_find_exchange_mode */
    int at;                 /* the node being set up */
};

static bool find_field(void *user, const char *field, struct sw_layer_tensor *out)
{
    const struct setup *u = user;
    const struct sw_net_field *f = sw_net_args_field(u->args, field);

    if (f)
        *out =
            (struct sw_layer_tensor){.desc = f->desc, .scaling = f->scaling, .tokens = f->tokens};
    return f != NULL;
}

static const struct sw_desc *find_layout(void *user, const struct sw_layer *l, const char *param)
{
    const struct setup *u = user;
    const struct sw_net_shapes *sharing = u->sharing;

    if (sw_net_tie_of(&u->g->node[u->at], param))
        return sw_net_shared_layout(u->s, u->at, param);

    int i = sharing ? sw_net_shapes_find(sharing, l->name) : -1;
    /* Shards of a parameter may have different shapes on every worker. */
    if (i < 0 || (!sw_net_shard_is_in_rows(u->sharding, u->at) &&
                  sharing->sharding->worker != u->args->worker))
        return NULL;

    const struct sw_layer *other = &sharing->node[i].layer;
    for (int p = 0; p < other->param_count; p++)
        if (sw_str_eq(other->param[p].name, param))
            return &other->param[p].layout;

    return NULL;
}

/* Is source k a target, which gets no gradient? In a chain the data are one. Visible units read
 * their conditions only there. */
static bool is_target(const struct sw_net_graph_node *node, int k)
{
    if (node->type->energy == SW_ENERGY_VISIBLE &&
        sw_layer_own_sources(node->type, node->conf, node->src_count) == 1)
        return (k == 0) == node->chain;
    return node->type->targets >> k & 1;
}

static void find_paths_to_losses(struct sw_net_shapes *s)
{
    for (int i = s->graph->count - 1; i >= 0; i--) {
        const struct sw_net_graph_node *node = &s->graph->node[i];

        s->node[i].leads_to_loss |= sw_net_is_loss(node);
        for (int k = 0; s->node[i].leads_to_loss && k < node->src_count; k++)
            if (!is_target(node, k))
                s->node[node->src[k]].leads_to_loss = true;
    }
}

/* Finds relus that their source applies: the source supports it, and has no other reader. */
static void find_fused(struct sw_net_shapes *s)
{
    for (int i = 0; i < s->graph->count; i++) {
        const struct sw_net_graph_node *node = &s->graph->node[i];
        if (!node->type->is_relu || !node->type->is_relu(node->conf))
            continue;

        const struct sw_net_graph_node *source = &s->graph->node[node->src[0]];
        if (source->type->can_fuse_relu && source->readers == 1)
            s->node[node->src[0]].fuse_relu = s->node[i].fused = true;
    }
}

/* Finds the outputs that may be stored in 16 bits. Readers come after their sources. */
static void find_halves(struct sw_net_shapes *s, enum sw_precision precision)
{
    for (int i = 0; i < s->graph->count; i++)
        s->node[i].halves = sw_precision_is_half(precision) && s->graph->node[i].type->halves &&
                            s->graph->node[i].readers > 0;

    for (int i = s->graph->count - 1; i >= 0; i--) {
        const struct sw_net_graph_node *node = &s->graph->node[i];
        bool reads = node->type->halves == SW_HALVES_AS_TOLD ||
                     (node->type->halves == SW_HALVES_AS_SOURCE && s->node[i].halves);

        for (int k = 0; k < node->src_count && !reads; k++)
            s->node[node->src[k]].halves = false;
    }
}

/* The type in which the node's output is stored. Partial sums stay f32. */
static enum sw_dtype stored_type(const struct sw_net_shape *shape, enum sw_precision precision,
                                 bool partial)
{
    return !shape->halves || partial ? SW_F32 : precision == SW_PRECISION_BF16 ? SW_BF16 : SW_F16;
}

static uint32_t wanted_gradients(const struct setup *u, int i)
{
    const struct sw_net_graph_node *node = &u->g->node[i];
    uint32_t mask = 0;

    for (int k = 0; u->args->training && u->s->node[i].leads_to_loss && k < node->src_count; k++)
        if (u->s->node[node->src[k]].needs_grad && !is_target(node, k))
            mask |= 1u << k;

    return mask;
}

/* Does the parameter have the same shape as in the net whose layouts are adopted? */
static int check_shared(struct setup *u, const struct sw_layer *l, struct sw_err *err)
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

/* Determines which parameters are frozen. */
static void find_frozen(const struct sw_net_graph *g, struct sw_net_shape *shape, int i)
{
    const struct sw_layer *l = &shape->layer;

    shape->trains = false;
    for (int k = 0; k < l->param_count; k++) {
        shape->frozen[k] = sw_net_is_frozen_param(g, &g->node[i], l->param[k].name);
        shape->trains = shape->trains || !shape->frozen[k];
    }
}

static void find_backward(const struct setup *u, int i, uint32_t wants)
{
    const struct sw_net_graph_node *node = &u->g->node[i];
    struct sw_net_shape *shape = &u->s->node[i];
    struct sw_layer *l = &shape->layer;

    find_frozen(u->g, shape, i);
    shape->has_backward =
        u->args->training && shape->leads_to_loss && (shape->trains || wants != 0);
    shape->needs_grad = shape->has_backward && l->type->role != SW_ROLE_LOSS;
    if (!node->chain)
        return;

    /* Even if its own parameters are frozen: the chain of the other side runs through it. */
    shape->has_backward = shape->needs_grad = true;
    if (sw_layer_energy(l) != SW_ENERGY_HIDDEN)
        return;

    int below = node->src[0];
    for (; sw_net_is_bridge(&u->g->node[below]); below = u->g->node[below].src[0]) {
        u->s->node[below].chain_link = true;
        u->s->node[below].layer.chain.steps = l->chain.steps;
    }

    u->s->node[below].layer.chain = l->chain;
}

/* Does a loss depend on the layer through another loss? */
static const struct sw_layer *loss_below(const struct setup *u, int i)
{
    const struct sw_net_graph_node *node = &u->g->node[i];

    for (int k = 0; u->s->node[i].leads_to_loss && k < node->src_count; k++) {
        const struct sw_net_shape *source = &u->s->node[node->src[k]];
        if (source->has_backward && source->layer.type->role == SW_ROLE_LOSS && !is_target(node, k))
            return &source->layer;
    }

    return NULL;
}

static int check_backward(const struct setup *u, int i, struct sw_err *err)
{
    const struct sw_net_shape *shape = &u->s->node[i];
    const struct sw_layer *l = &shape->layer;
    if (u->args->training && shape->trains && l->param_count > u->g->node[i].tie_count &&
        !shape->leads_to_loss)
        return sw_err_set(
            err, SW_ERR_INVALID,
            "no loss depends on it, so its parameters would never be trained: connect it to a loss "
            "(the targets of a loss get no gradient), or set include = eval");

    const struct sw_layer *loss = loss_below(u, i);
    if (loss)
        return sw_err_set(err, SW_ERR_INVALID,
                          "it reads %s and leads to a loss, but no gradient flows through a loss: "
                          "read the source of %s instead",
                          loss->name, loss->name);

    if (shape->has_backward && !l->type->backward)
        return sw_err_set(err, SW_ERR_INVALID,
                          "%s has no gradient, but a loss depends on it and its sources have "
                          "parameters",
                          l->type->base.name);

    return SW_OK;
}

/* Columns of the whole output, of which this worker may have a shard. */
static int64_t whole_columns(const struct setup *u, int i)
{
    const struct sw_net_shard *shard = &u->sharding->node[i];
    const struct sw_layer *l = &u->s->node[i].layer;

    if (shard->distribution.dist != SW_DIST_COLUMNS)
        return l->dst.desc.ndim > 1 ? l->dst.desc.dim[1] : 1;
    if (sw_net_is_bridge(&u->g->node[i]))
        return sw_bridge_connection(l)->move.columns;
    if (l->type->split == SW_SPLIT_OUTPUTS)
        return l->whole_columns;
    if (shard->joins)
        return shard->known_columns;

    return u->s->node[u->g->node[i].src[0]].columns;
}

static void place_columns(const struct setup *u, int i, struct sw_layer_setup *setup)
{
    const struct sw_net_sharding *sharding = u->sharding;
    const struct sw_net_graph_node *node = &u->g->node[i];
    const struct sw_distribution *distribution = &sharding->node[i].distribution;

    setup->parts = 1;
    setup->whole_batch =
        distribution->dist != SW_DIST_ROWS && u->args->group_rows == u->args->batch_rows;
    if (node->src_count == 0)
        return;

    const struct sw_distribution *source = &sharding->node[node->src[0]].distribution;
    setup->sums = distribution->dist == SW_DIST_SUMS;
    setup->first_partial = sharding->worker == 0;

    if (distribution->dist == SW_DIST_COLUMNS && node->type->split == SW_SPLIT_OUTPUTS) {
        setup->part = sharding->worker;
        setup->parts = sharding->workers;
    }

    if (source->dist == SW_DIST_COLUMNS) {
        setup->channels = u->s->node[node->src[0]].columns;
        setup->first_channel =
            sw_distribution_rect(*source, 1, setup->channels, sharding->workers, sharding->worker)
                .column;
    }
}

/* Checks that a time step has the width that its neighbors expect and supports unrolling. */
static int check_step(const struct sw_net_graph_node *node, const struct sw_layer *l,
                      struct sw_err *err)
{
    const struct sw_desc *d = &l->dst.desc;
    char text[128];

    if (l->keep_count > 0)
        return sw_err_set(err, SW_ERR_INVALID,
                          "unroll = %d: %s keeps running statistics, which steps cannot share",
                          node->steps, l->type->base.name);

    if (l->phases.backward > 1)
        return sw_err_set(err, SW_ERR_INVALID,
                          "unroll = %d: the number of labels that count is not known for all steps "
                          "at once: remove unroll, and the layer reads the steps as a sequence",
                          node->steps);

    if (node->width > 0 && (d->ndim != 2 || d->dim[1] != node->width || !sw_desc_is_plain(d)))
        return sw_err_set(
            err, SW_ERR_INVALID,
            "its output is %s, but the layers that read its previous step expect %lld features",
            sw_desc_text(d, text), (long long)node->width);

    return SW_OK;
}

/* The arguments of the node's setup. */
static struct sw_layer_setup setup_for(struct setup *u, int i, uint32_t wants)
{
    const struct sw_net_graph_node *node = &u->g->node[i];
    const struct sw_net_shape *shape = &u->s->node[i];
    struct sw_layer_setup setup = {.stream = sw_branches_stream(u->branches, i, u->args->stream),
                                   .seed = u->args->seed,
                                   .training = u->args->training && shape->leads_to_loss,
                                   .wants_grad = wants,
                                   .frozen = !sw_net_may_train(u->g, node),
                                   .factors = shape->comm != SW_EXCHANGE_PS && shape->leads_to_loss,
                                   .batch_rows = u->args->batch_rows,
                                   .energy = u->args->algorithm == SW_ALGORITHM_CD,
                                   .chain = node->chain,
                                   .place = node->place,
                                   .keep_state = u->args->keep_state && node->step < 0,
                                   .unrolled = node->step >= 0,
                                   .fuse_relu = shape->fuse_relu,
                                   .fused = shape->fused,
                                   .fused_backward =
                                       shape->fused && u->s->node[node->src[0]].layer.masks_relu,
                                   .layout = find_layout,
                                   .field = find_field,
                                   .user = u};

    place_columns(u, i, &setup);
    setup.dst_type = stored_type(shape, u->args->stream->dev->precision, setup.sums);
    return setup;
}

/* Is node i's output in memory whose lifetime this net does not control: that of the batch, or of
 * another worker? */
static bool is_borrowed(const struct sw_net_shapes *s, int i)
{
    while (s->node[i].layer.in_place && s->node[i].layer.view)
        i = s->graph->node[i].src[0];
    return s->graph->node[i].type->role == SW_ROLE_INPUT || s->node[i].handed;
}

static int setup_bridge(struct setup *u, int i, const struct sw_layer_setup *setup,
                        struct sw_err *err)
{
    const struct sw_net_sharding *sharding = u->sharding;
    struct sw_net_shape *shape = &u->s->node[i];
    int source = u->g->node[i].src[0];
    bool upper = u->g->node[i].type == &sw_net_bridge_dst;
    const struct sw_bridge_args args = {.lower = &u->s->node[source].layer,
                                        .stream = u->args->stream,
                                        .index = u->s->connections,
                                        .workers = sharding->workers,
                                        .worker = sharding->worker,
                                        .from = sharding->node[i].from,
                                        .to = sharding->node[i].to,
                                        .group_rows = u->args->group_rows,
                                        .borrowed = is_borrowed(u->s, source)};

    int rc = sw_bridge_setup(&shape->layer, &args, setup, err);
    if (rc != SW_OK)
        return rc;

    u->s->connections += !upper;
    shape->handed = upper && sw_bridge_can_read_in_place(&shape->layer);
    return SW_OK;
}

static int run_setup(struct setup *u, int i, const struct sw_layer_setup *setup, struct sw_err *err)
{
    const struct sw_net_graph_node *node = &u->g->node[i];
    struct sw_layer *l = &u->s->node[i].layer;
    bool in_rows = sw_net_shard_is_in_rows(u->sharding, i);

    if (l->type->state_bytes) {
        l->state = sw_calloc(1, l->type->state_bytes);
        if (!l->state)
            return sw_err_nomem(err, "a layer", l->type->state_bytes);
    }

    u->s->node[i].set_up = true;
    if (sw_net_is_bridge(node))
        return setup_bridge(u, i, setup, err);
    if (sw_net_connects_steps(node))
        return sw_net_steps_setup(node, l, in_rows ? u->args->rows : u->args->group_rows, err);

    return sw_layer_set_up(l, setup, err);
}

/* A layer that another worker runs is set up only for its shape. */
static void drop_absent(struct sw_layer *l)
{
    l->param_count = l->keep_count = l->recurrent_count = l->phases.sums = 0;
    l->saved_bytes = l->scratch_bytes = 0;
    l->flops_forward = l->flops_backward = 0;
}

static int setup_node(struct setup *u, int i, struct sw_err *err)
{
    const struct sw_net_graph_node *node = &u->g->node[i];
    struct sw_net_shape *shape = &u->s->node[i];
    struct sw_layer *l = &shape->layer;
    bool elsewhere = sw_net_shard_is_elsewhere(u->sharding, i);
    uint32_t wants = wanted_gradients(u, i);

    u->at = i;
    shape->comm = sw_net_find_exchange_mode(u->s, u->args, i, &u->others);

    const struct sw_layer_setup setup = setup_for(u, i, wants);
    int rc = run_setup(u, i, &setup, err);
    if (rc == SW_OK && node->step >= 0)
        rc = check_step(node, l, err);
    if (rc != SW_OK)
        return rc;

    find_backward(u, i, wants);
    shape->absent = elsewhere && !sw_net_is_bridge(node);
    rc = check_backward(u, i, err);
    if (rc == SW_OK && !shape->absent)
        rc = sw_net_check_ties(u->s, i, err);
    if (rc == SW_OK)
        rc = check_shared(u, l, err);
    if (rc != SW_OK)
        return rc;

    shape->columns = whole_columns(u, i);
    shape->output_bytes = elsewhere ? 0 : sw_desc_bytes(&l->dst.desc);
    if (shape->absent)
        drop_absent(l);

    return SW_OK;
}

/* Errors of the recipe become its messages; other errors are prefixed with the layer. */
static int report(const struct sw_net_graph *g, int i, int rc, struct sw_err *err)
{
    const struct sw_net_graph_node *node = &g->node[i];

    if (rc != SW_ERR_INVALID)
        return sw_err_prefix(err, rc, "layer %s", node->name);

    if (sw_net_is_later_step(node))
        sw_recipe_error(g->recipe, node->section, NULL, "step %d: %s", node->step, err->text);
    else
        sw_recipe_error(g->recipe, node->section, NULL, "%s", err->text);

    return sw_recipe_status(g->recipe, err);
}

/* Does the node depend on one with an error, or is it a later step of a layer that has one? */
static bool follows_failure(const struct setup *u, int i)
{
    const struct sw_net_graph_node *node = &u->g->node[i];

    for (int k = 0; k < node->src_count; k++)
        if (u->s->node[node->src[k]].failed)
            return true;
    for (int k = 0; k < node->tie_count; k++)
        if (u->s->node[node->tie[k].root].failed)
            return true;

    return sw_net_is_later_step(node) && node->section && node->section->errors;
}

static int setup_nodes(struct setup *u, struct sw_err *err)
{
    int rc = SW_OK;

    /* After an error of the recipe, layers that do not depend on it are checked too. */
    for (int i = 0; i < u->g->count && (rc == SW_OK || rc == SW_ERR_INVALID); i++) {
        if (follows_failure(u, i)) {
            u->s->node[i].failed = true;
            continue;
        }

        struct sw_err own;
        int rc_node = sw_stop_check(&own);
        if (rc_node == SW_OK)
            rc_node = setup_node(u, i, &own);
        if (rc_node == SW_ERR_INVALID)
            u->s->node[i].failed = true;
        if (rc_node != SW_OK && rc_node != SW_ERR_CANCELLED)
            rc_node = report(u->g, i, rc_node, &own);
        if (rc_node != SW_OK)
            *err = own;
        rc = rc_node != SW_OK ? rc_node : rc;
    }

    sw_net_end_exchange_modes(u->s, &u->others);
    return rc == SW_OK ? sw_recipe_status(u->g->recipe, err) : rc;
}

/* ---- Life ---- */

static int make_layers(struct sw_net_shapes *s, struct sw_err *err)
{
    const struct sw_net_graph *g = s->graph;
    size_t n = (size_t)g->count + 1;

    s->node = sw_calloc(n, sizeof *s->node);
    if (!s->node)
        return sw_err_nomem(err, "the layers", n * sizeof *s->node);

    for (int i = 0; i < g->count; i++) {
        struct sw_layer *l = &s->node[i].layer;
        *l = sw_net_graph_layer(g, i);
        for (int k = 0; k < l->src_count; k++)
            l->src[k] = &s->node[g->node[i].src[k]].layer.dst;
    }

    return SW_OK;
}

int sw_net_shapes_init(struct sw_net_shapes *s, const struct sw_net_graph *graph,
                       const struct sw_net_sharding *sharding, const struct sw_branches *branches,
                       const struct sw_net_args *args, const struct sw_net_shapes *sharing,
                       struct sw_err *err)
{
    struct setup u = {graph, sharding, branches, args, sharing, s, {0}, 0};

    *s = (struct sw_net_shapes){.graph = graph, .sharding = sharding};

    int rc = make_layers(s, err);
    if (rc != SW_OK)
        return rc;

    find_paths_to_losses(s);
    find_fused(s);
    find_halves(s, args->stream->dev->precision);
    rc = setup_nodes(&u, err);

    return rc == SW_OK ? sw_net_number(s, err) : rc;
}

int sw_net_shapes_find(const struct sw_net_shapes *s, const char *layer)
{
    for (int i = 0; i < s->graph->count; i++)
        if (sw_str_eq(s->graph->node[i].name, layer))
            return i;
    return -1;
}

void sw_net_shapes_fini(struct sw_net_shapes *s)
{
    for (int i = 0; s->node && i < s->graph->count; i++) {
        if (s->node[i].set_up)
            sw_layer_teardown(&s->node[i].layer);
    }

    for (int i = 0; i < s->param_count; i++)
        sw_free((char *)(uintptr_t)s->params[i].name);
    for (int i = 0; i < s->state_count; i++)
        sw_free((char *)(uintptr_t)s->states[i].name);
    sw_free(s->params);
    sw_free(s->states);
    sw_free(s->results);
    sw_bytes_fini(&s->comm_notes);
    sw_free(s->node);
    *s = (struct sw_net_shapes){0};
}
