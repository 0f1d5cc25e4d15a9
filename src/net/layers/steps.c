/* Layer types that connect the time steps of an unrolled layer (net/graph/unroll.c) with the rest
 * of the net: `step` takes one step out of a sequence, `join` joins steps into a sequence, `begin`
 * is the previous step of the first step, `end` saves the last step's output for the next batch,
 * and `front` is the part of a step that other layers read. These types are not in the registry.
 * Sequences are [N, T, ...], of integers [N, T]; a step is [N, ...]. */
#include "net/layers/steps.h"

#include "device/ops/elementwise.h"
#include "kernels/ops/layout.h"
#include "kernels/ops/recurrent.h"

struct state {
    struct sw_desc sequence; /* the source of `step` and `front` */
    int64_t at;              /* index of a `step`, else 0 */
    float *next;             /* borrowed: memory to which `end` copies the last step; NULL: none */
};

/* Shape of a sequence of `steps` steps. */
static struct sw_desc with_steps(const struct sw_desc *step, int64_t steps)
{
    int64_t dim[SW_MAX_DIMS] = {step->dim[0], steps};
    for (int i = 1; i < step->ndim; i++)
        dim[i + 1] = step->dim[i];
    return sw_desc_plain(step->dtype, step->ndim + 1, dim);
}

/* The layout with float elements, for copies of integers by the float operation. */
static struct sw_desc as_floats(struct sw_desc d)
{
    d.dtype = SW_F32;
    return d;
}

/* ---- step ---- */

static int step_setup(const struct sw_net_graph_node *node, struct sw_layer *l, struct sw_err *err)
{
    struct state *st = l->state;
    const struct sw_desc *in = &l->src[0]->desc;
    const bool tokens = in->dtype == SW_I32;
    char text[128];

    if (!sw_desc_is_plain(in) || in->ndim < (tokens ? 2 : 3) || (tokens && in->ndim > 2))
        return sw_err_set(err, SW_ERR_INVALID,
                          "layer %s is %s, not rows x steps: connections = one-to-all reads all of "
                          "it in every step",
                          node->of, sw_desc_text(in, text));

    if (in->dim[1] != node->steps)
        return sw_err_set(err, SW_ERR_INVALID, "unroll = %lld, but layer %s has %lld steps (%s)",
                          (long long)node->steps, node->of, (long long)in->dim[1],
                          sw_desc_text(in, text));

    int64_t dim[SW_MAX_DIMS] = {in->dim[0]};
    for (int i = 2; i < in->ndim; i++)
        dim[i - 1] = in->dim[i];
    st->sequence = as_floats(*in);
    st->at = node->step;
    l->dst.desc = sw_desc_plain(in->dtype, in->ndim - 1, dim);
    l->can_add.src = true;

    return SW_OK;
}

static int step_forward(struct sw_layer *l, const struct sw_pass *r, struct sw_err *err)
{
    const struct state *st = l->state;
    const struct sw_desc one = as_floats(l->dst.desc);
    const struct sw_part_args a = {.from = st->sequence,
                                   .to = with_steps(&one, 1),
                                   .axis = 1,
                                   .from_at = st->at,
                                   .count = 1,
                                   .src = l->src[0]->data,
                                   .dst = l->dst.data};

    return sw_op_run(r->stream, &sw_op_part, &a, err);
}

/* The first layer that writes the gradient of a sequence sets its other steps to zero, as with
 * slices. */
static int step_backward(struct sw_layer *l, const struct sw_pass *r, struct sw_err *err)
{
    const struct state *st = l->state;
    const struct sw_part_args a = {.from = with_steps(&l->dst.desc, 1),
                                   .to = st->sequence,
                                   .axis = 1,
                                   .add = l->adds.src & 1,
                                   .to_at = st->at,
                                   .count = 1,
                                   .src = l->dst.grad,
                                   .dst = l->src_grad[0]};
    int rc = a.add ? SW_OK : sw_fill_zero(r->stream, a.dst, sw_desc_bytes(&a.to), err);

    return rc == SW_OK ? sw_op_run(r->stream, &sw_op_part, &a, err) : rc;
}

const struct sw_layer_type sw_net_step = {
    .base = {.name = "step", .help = "one step of a sequence"},
    .split_reason = "it is a step of a sequence",
    SW_LAYER_SOURCES(1, 1),
    .state_bytes = sizeof(struct state),
    SW_LAYER_CALLS(NULL, step_forward, step_backward),
};

/* ---- front ---- */

/* A `front` takes the first `width` columns: the source is viewed as a sequence of states of that
 * width. */
static void front_setup(const struct sw_net_graph_node *node, struct sw_layer *l)
{
    struct state *st = l->state;
    const int64_t rows = l->src[0]->desc.dim[0], all = l->src[0]->desc.dim[1];

    st->sequence =
        sw_desc_plain(SW_F32, 3, (const int64_t[]){rows, all / node->width, node->width});
    l->dst.desc = sw_desc_plain(SW_F32, 2, (const int64_t[]){rows, node->width});
    l->can_add.src = true;
}

const struct sw_layer_type sw_net_front = {
    .base = {.name = "front", .help = "the part of a step that other layers read"},
    .split_reason = "it is a step of a sequence",
    SW_LAYER_SOURCES(1, 1),
    .state_bytes = sizeof(struct state),
    SW_LAYER_CALLS(NULL, step_forward, step_backward),
};

/* ---- join ---- */

/* Sources are steps, or other joins. */
static int join_setup(const struct sw_net_graph_node *node, struct sw_layer *l, struct sw_err *err)
{
    struct sw_desc first = l->src[0]->desc;
    int64_t steps = 0;
    char text[128];

    if (first.dtype != SW_F32 || !sw_desc_is_plain(&first) || first.ndim == SW_MAX_DIMS)
        return sw_err_set(err, SW_ERR_INVALID,
                          "its steps are %s: only plain activations with fewer dimensions can be "
                          "joined into a sequence",
                          sw_desc_text(&first, text));

    for (int k = 0; k < l->src_count; k++)
        steps += node->joins_joins ? l->src[k]->desc.dim[1] : 1;
    if (node->joins_joins)
        first.dim[1] = steps;
    l->dst.desc = node->joins_joins ? sw_desc_plain(SW_F32, first.ndim, first.dim)
                                    : with_steps(&first, steps);
    l->can_add.src = true;

    return SW_OK;
}

static struct sw_desc joined(const struct sw_layer *l, int k)
{
    const struct sw_desc *d = &l->src[k]->desc;
    return d->ndim < l->dst.desc.ndim ? with_steps(d, 1) : *d;
}

static int join_forward(struct sw_layer *l, const struct sw_pass *r, struct sw_err *err)
{
    struct sw_part_args a = {.to = l->dst.desc, .axis = 1, .dst = l->dst.data};
    int rc = SW_OK;

    for (int k = 0; k < l->src_count && rc == SW_OK; k++, a.to_at += a.count) {
        a.from = joined(l, k);
        a.count = a.from.dim[1];
        a.src = l->src[k]->data;
        rc = sw_op_run(r->stream, &sw_op_part, &a, err);
    }

    return rc;
}

static int join_backward(struct sw_layer *l, const struct sw_pass *r, struct sw_err *err)
{
    struct sw_part_args a = {.from = l->dst.desc, .axis = 1, .src = l->dst.grad};
    int rc = SW_OK;

    for (int k = 0; k < l->src_count && rc == SW_OK; k++, a.from_at += a.count) {
        a.to = joined(l, k);
        a.count = a.to.dim[1];
        a.add = l->adds.src >> k & 1;
        a.dst = l->src_grad[k];
        if (a.dst)
            rc = sw_op_run(r->stream, &sw_op_part, &a, err);
    }

    return rc;
}

const struct sw_layer_type sw_net_join = {
    .base = {.name = "join", .help = "steps as a sequence"},
    .split_reason = "its columns are time steps",
    SW_LAYER_SOURCES(1, SW_LAYER_SRCS),
    SW_LAYER_CALLS(NULL, join_forward, join_backward),
};

/* ---- begin and end ---- */

static void begin_setup(const struct sw_net_graph_node *node, struct sw_layer *l, int64_t rows)
{
    l->dst.desc = sw_desc_plain(SW_F32, 2, (const int64_t[]){rows, node->width});
    if (node->keeps_state)
        sw_layer_add_recurrent_state(l, "output", node->width);
}

static int begin_forward(struct sw_layer *l, const struct sw_pass *r, struct sw_err *err)
{
    const struct sw_initial_state_args a = {.n = sw_desc_count(&l->dst.desc),
                                            .from =
                                                l->recurrent_count ? l->recurrent[0].value : NULL,
                                            .step = r->step,
                                            .to = l->dst.data};
    return sw_op_run(r->stream, &sw_op_initial_state, &a, err);
}

const struct sw_layer_type sw_net_begin = {
    .base = {.name = "begin", .help = "the previous step that the first step reads"},
    .split_reason = "it is a step of a sequence",
    .forward = begin_forward,
};

/* Source 0 is the last step, source 1 its `begin`, which owns the memory. */
static int end_forward(struct sw_layer *l, const struct sw_pass *r, struct sw_err *err)
{
    const struct state *st = l->state;
    return st->next
               ? sw_copy(r->stream, st->next, l->src[0]->data, sw_desc_bytes(&l->src[0]->desc), err)
               : SW_OK;
}

void sw_net_end_bind(struct sw_layer *l, float *next)
{
    struct state *st = l->state;
    st->next = next;
}

const struct sw_layer_type sw_net_end = {
    .base = {.name = "end", .help = "saves the last step for the next batch"},
    .split_reason = "it is a step of a sequence",
    SW_LAYER_SOURCES(2, 2),
    .state_bytes = sizeof(struct state),
    .forward = end_forward,
};

int sw_net_steps_setup(const struct sw_net_graph_node *node, struct sw_layer *l, int64_t rows,
                       struct sw_err *err)
{
    if (node->type == &sw_net_step)
        return step_setup(node, l, err);
    if (node->type == &sw_net_join)
        return join_setup(node, l, err);

    if (node->type == &sw_net_begin)
        begin_setup(node, l, rows);
    else if (node->type == &sw_net_front)
        front_setup(node, l);
    else /* an `end` has no readers */
        l->dst.desc = sw_desc_plain(SW_F32, 1, l->src[0]->desc.dim);

    return SW_OK;
}
