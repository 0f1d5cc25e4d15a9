/* Passes: runs a layer's forward or backward as the execution order says. The ops before a pass run
 * with its first phase, those after it with its last phase. */
#include "net/net_private.h"

#include "device/ops/elementwise.h"
#include "net/layers/bridge.h"

/* ---- Activations with two memories ---- */

static void use_memory(struct sw_net *net, int root, bool again)
{
    const struct sw_net_places *owner = &net->memory.node[root];
    void *data = sw_net_at(net, again ? owner->data_again : owner->data);

    for (int i = root; i >= 0; i = net->aliases.node[i].next_in_place) {
        const struct sw_net_places *places = &net->memory.node[i];
        struct sw_layer *l = &net->shapes.node[i].layer;
        l->dst.data = data;
        if (places->saved_again != SW_NO_OFFSET)
            l->saved = sw_net_at(net, again ? places->saved_again : places->saved);
    }
}

static struct sw_stream *stream_of(const struct sw_net *net, int i)
{
    return sw_branches_stream(net->branches, i, net->args.stream);
}

/* The step scalars for the layer: for its worker's rows, or for all rows of the group. */
static const struct sw_step *step_of(const struct sw_net *net, int i)
{
    const struct sw_step *steps = sw_net_at(net, net->memory.step_at);
    return steps + !sw_net_shard_is_in_rows(&net->sharding, i);
}

/* Recomputes an activation: runs forward of all layers that share the root's memory, in the
 * original order. */
static int recompute(struct sw_net *net, int root, struct sw_err *err)
{
    int rc = SW_OK;

    use_memory(net, root, true);

    for (int i = root; i >= 0 && rc == SW_OK; i = net->aliases.node[i].next_in_place) {
        struct sw_layer *l = &net->shapes.node[i].layer;
        const struct sw_pass pass = {
            .stream = net->args.stream, .step = step_of(net, i), .training = true, .again = true};

        l->scratch = sw_net_at(net, net->memory.node[root].recompute_scratch);
        if (!sw_net_is_bridge(&net->graph.node[i])) /* it was already sent */
            rc = l->type->forward(l, &pass, err);
    }

    return rc;
}

/* ---- One phase ---- */

/* Zeroes the results of a layer that runs on another worker, so that old values in the arena do not
 * count. */
static int clear_results(struct sw_stream *stream, const struct sw_layer *l, struct sw_err *err)
{
    size_t pairs = l->pair_count > 0 ? (size_t)l->pair_count : 1;
    return l->result ? sw_fill_zero(stream, l->result, pairs * sizeof *l->result, err) : SW_OK;
}

/* Waits until other workers no longer read the previous value of an output that they read in place.
 */
static int wait_for_readers(struct sw_net *net, int root, struct sw_err *err)
{
    int rc = SW_OK;

    for (int i = root; i >= 0 && rc == SW_OK; i = net->aliases.node[i].next_in_place)
        if (net->graph.node[i].type == &sw_net_bridge_src)
            rc = sw_bridge_wait_free(&net->shapes.node[i].layer, err);

    return rc;
}

/* In host memory: waits until no other worker reads the gradients that node i is about to
 * overwrite. */
static int wait_for_gradient_readers(struct sw_net *net, int i, struct sw_err *err)
{
    const struct sw_net_graph_node *node = &net->graph.node[i];
    int rc = SW_OK;

    for (int k = 0; k < node->src_count && rc == SW_OK; k++) {
        int source = node->src[k];
        if (sw_net_publishes_grad(&net->aliases, source) &&
            net->aliases.node[source].first_writer == i)
            rc = sw_bridge_wait_free(&net->shapes.node[source].layer, err);
    }

    return rc;
}

/* Releases memory of other workers whose last use was this op. */
static void release_remote(struct sw_net *net, int op)
{
    for (int i = 0; i < net->graph.count && net->aliases.is_handed; i++)
        if ((net->shapes.node[i].handed || net->aliases.node[i].grad_handed) &&
            net->memory.node[i].last_use == op)
            sw_bridge_release(&net->shapes.node[i].layer);
}

static int forward(struct sw_net *net, int i, int phase, struct sw_err *err)
{
    const struct sw_net_shape *shape = &net->shapes.node[i];
    const struct sw_net_alias *alias = &net->aliases.node[i];
    struct sw_layer *l = &net->shapes.node[i].layer;
    const struct sw_pass pass = {.stream = stream_of(net, i),
                                 .step = step_of(net, i),
                                 .training = net->args.training,
                                 .begins = net->staging->step[net->staging_turn][0].pass_begins,
                                 .phase = phase,
                                 .chain = net->chain_turn};

    if (shape->absent)
        return clear_results(pass.stream, l, err);

    if (alias->root == i && net->exec.residency[i] != SW_RESIDENT)
        use_memory(net, i, false);
    l->scratch = sw_net_at(net, net->memory.node[i].forward_scratch);
    l->sums = sw_net_at(net, net->memory.node[i].forward_sums);

    int rc = alias->published && phase == 0 ? wait_for_readers(net, i, err) : SW_OK;
    if (rc == SW_OK)
        rc = l->type->forward(l, &pass, err);
    if (rc == SW_OK && shape->handed) /* its views are in the same memory */
        sw_net_use_memory(net, i, l->dst.data);

    return rc;
}

/* Sets activations that backward does not read to NULL: their memory may be reused by now, and a
 * device that checks accesses must not see them as arguments. */
static void hide_unread(struct sw_layer *l, void *hidden[SW_LAYER_SRCS + 1])
{
    for (int k = 0; k < l->src_count; k++)
        hidden[k] = l->src[k]->data;
    hidden[SW_LAYER_SRCS] = l->dst.data;
    for (int k = 0; k < l->src_count; k++)
        l->src[k]->data = NULL;

    for (int k = 0; k < l->src_count; k++) /* one activation may be several sources */
        if (l->backward_reads_src >> k & 1)
            l->src[k]->data = hidden[k];

    if (!l->backward_reads_dst)
        l->dst.data = NULL;
}

static void restore_hidden(struct sw_layer *l, void *const hidden[SW_LAYER_SRCS + 1])
{
    for (int k = 0; k < l->src_count; k++)
        l->src[k]->data = hidden[k];
    l->dst.data = hidden[SW_LAYER_SRCS];
}

/* Adds gradients that backward wrote to temporary memory. A turn of a chain writes those of source
 * 0 only. */
static int add_temporary_gradients(struct sw_net *net, int i, struct sw_err *err)
{
    const struct sw_net_shape *shape = &net->shapes.node[i];
    struct sw_stream *stream = stream_of(net, i);
    const struct sw_layer *l = &shape->layer;
    const bool turn = net->chain_turn > 0;
    int rc = SW_OK;

    for (int k = 0; k < (turn ? 1 : l->src_count) && rc == SW_OK; k++)
        /* A connection also runs on workers without its source; these have sent the whole gradient.
         */
        if (net->aliases.node[i].adds_grad[k] &&
            !net->shapes.node[net->graph.node[i].src[k]].absent)
            rc = sw_op_add_activation(stream, &l->src[k]->desc, l->src[k]->grad, l->src_grad[k],
                                      err);

    for (int k = 0; k < l->param_count && rc == SW_OK && !turn; k++)
        if (shape->adds_param[k])
            rc = sw_op_add(stream, net->gradient[shape->first_param + k], l->param[k].grad,
                           sw_desc_storage(&l->param[k].layout), err);

    return rc;
}

static int backward(struct sw_net *net, int i, int phase, struct sw_err *err)
{
    const struct sw_net_shape *shape = &net->shapes.node[i];
    struct sw_layer *l = &net->shapes.node[i].layer;
    const struct sw_pass pass = {.stream = stream_of(net, i),
                                 .step = step_of(net, i),
                                 .training = true,
                                 .phase = phase,
                                 .chain = net->chain_turn};
    void *hidden[SW_LAYER_SRCS + 1];

    /* After the chain's last turn each side has the inputs of its gradients. */
    if (shape->absent || (shape->chain_link && net->chain_turn == 0))
        return SW_OK;

    l->scratch = sw_net_at(net, net->memory.node[i].backward_scratch);
    l->sums = sw_net_at(net, net->memory.node[i].backward_sums);

    int rc =
        phase == 0 && net->shapes.connections > 0 ? wait_for_gradient_readers(net, i, err) : SW_OK;
    hide_unread(l, hidden);
    if (rc == SW_OK)
        rc = l->type->backward(l, &pass, err);
    restore_hidden(l, hidden);

    bool over = phase + 1 == sw_net_layer_phases(l, true);
    return rc == SW_OK && over ? add_temporary_gradients(net, i, err) : rc;
}

/* ---- Ops ---- */

/* Runs an op that is not a pass. */
static int run_op(struct sw_net *net, int op, struct sw_err *err)
{
    const struct sw_exec_op *a = &net->exec.ops[op];
    int rc;

    if (a->kind == SW_EXEC_RECOMPUTE) {
        rc = recompute(net, a->node, err);
    } else {
        if (a->kind == SW_EXEC_WAIT_RELOAD)
            use_memory(net, a->node, true);
        rc = sw_offload_run(net, a, err);
    }

    release_remote(net, op);
    return rc == SW_OK ? rc : sw_err_prefix(err, rc, "layer %s", net->graph.node[a->node].name);
}

int sw_net_run_phase(struct sw_net *net, int i, bool back, int phase, struct sw_err *err)
{
    const struct sw_exec_order *s = &net->exec;
    int pass = back ? 2 * net->graph.count - 1 - i : i,
        own = back ? s->node[i].backward_at : s->node[i].forward_at;
    int rc = SW_OK;

    for (int a = s->pass[pass]; a < own && phase == 0 && rc == SW_OK; a++)
        rc = run_op(net, a, err);
    if (rc != SW_OK)
        return rc;

    rc = sw_branch_enter(net->order, i, back, phase, err);
    if (rc == SW_OK)
        rc = back ? backward(net, i, phase, err) : forward(net, i, phase, err);
    if (rc == SW_OK)
        rc = sw_branch_leave(net->order, i, back, phase, err);
    if (rc != SW_OK)
        return sw_err_prefix(err, rc, "layer %s", net->graph.node[i].name);

    bool over = phase + 1 == sw_net_layer_phases(&net->shapes.node[i].layer, back);
    if (over)
        release_remote(net, own);
    for (int a = own + 1; a < s->pass[pass + 1] && over && rc == SW_OK; a++)
        rc = run_op(net, a, err);

    return rc;
}

static int run_phases(struct sw_net *net, int i, bool back, struct sw_err *err)
{
    int rc = SW_OK;
    for (int p = 0; p < sw_net_layer_phases(&net->shapes.node[i].layer, back) && rc == SW_OK; p++)
        rc = sw_net_run_phase(net, i, back, p, err);
    return rc;
}

int sw_net_forward(struct sw_net *net, int i, struct sw_err *err)
{
    return run_phases(net, i, false, err);
}

int sw_net_backward(struct sw_net *net, int i, struct sw_err *err)
{
    return run_phases(net, i, true, err);
}

/* ---- Turns of a Gibbs chain (algorithm = cd; worker/cd.c runs them for several nets) ---- */

void sw_net_set_chain(struct sw_net *net, int turn)
{
    net->chain_turn = turn;
}

int sw_net_run_chains(struct sw_net *net, struct sw_err *err)
{
    int rc = SW_OK;

    for (net->chain_turn = 1; net->chain_turn <= sw_net_chain_steps(net) && rc == SW_OK;
         net->chain_turn++) {
        for (int i = net->graph.count - 1; i >= 0 && rc == SW_OK; i--)
            if (sw_net_takes_turns(&net->shapes, i))
                rc = sw_net_backward(net, i, err);

        for (int i = 0; i < net->graph.count && rc == SW_OK; i++)
            if (sw_net_takes_turns(&net->shapes, i))
                rc = sw_net_forward(net, i, err);
    }

    net->chain_turn = 0;
    return rc;
}
