/* layer_norm: normalizes the trailing dimensions of every sample, from `axis` on, to mean 0 and
 * variance 1, then scales and shifts each of their elements (Ba, Kiros and Hinton, "Layer
 * Normalization", 2016):
 *
 *   y = scale (x - mean) / sqrt(variance + eps) + bias
 *
 * The variance is the biased one. Unlike batch_norm the result does not depend on the batch and is
 * the same in training and evaluation. scale and bias have the shape of the normalized dimensions.
 * The layer computes in plain layout, and its output is plain. */
#include "kernels/ops/layer_norm.h"
#include "layers/share/plain.h"

struct conf {
    int64_t axis;
    double eps;
};

struct state {
    struct sw_plain plain;
    int64_t rows, n; /* n: elements normalized together */
};

enum { SCALE, BIAS };

static const struct sw_opt opts[] = {
    SW_OPT(INT, struct conf, axis,
           "first of the dimensions that are normalized together; 1: whole samples", .def = "1",
           .min = 1, .max = SW_MAX_DIMS - 1),
    SW_OPT(REAL, struct conf, eps, "added to the variance", .def = "1e-5", .min = 0, .max = 1,
           .above_min = true),
    {0},
};

static int setup(struct sw_layer *l, const struct sw_layer_setup *s, struct sw_err *err)
{
    const struct conf *c = l->conf;
    struct state *st = l->state;
    const struct sw_desc *in = &l->src[0]->desc;

    int axis = (int)c->axis, rc = sw_layer_need_axis(l, axis, err);
    if (rc != SW_OK)
        return rc;

    struct sw_desc together = sw_desc_plain(SW_F32, in->ndim - axis, in->dim + axis);
    st->n = sw_desc_count(&together);
    st->rows = sw_desc_count(in) / st->n;
    sw_layer_add_param(l, "scale", &together, 0, 0)->natural = 1;
    sw_layer_add_param(l, "bias", &together, 0, 0);
    rc = sw_plain_init(&st->plain, l, 0, s, err);
    l->dst.desc = st->plain.desc;
    l->in_place = !st->plain.from_source;
    l->saved_bytes = (size_t)(2 * st->rows) * sizeof(float);
    l->backward_reads_src = 1;
    l->flops_forward = 7.0 * (double)sw_desc_count(in);
    l->flops_backward = (s->wants_grad & 1 ? 14.0 : 5.0) * (double)sw_desc_count(in);

    return rc;
}

/* Fills the arguments that both passes read. */
static int args_of(const struct sw_layer *l, const struct sw_pass *r, struct sw_layer_norm_args *a,
                   struct sw_err *err)
{
    const struct conf *c = l->conf;
    const struct state *st = l->state;

    *a = (struct sw_layer_norm_args){.rows = st->rows,
                                     .n = st->n,
                                     .eps = (float)c->eps,
                                     .scale = l->param[SCALE].value,
                                     .bias = l->param[BIAS].value,
                                     .moments = l->saved};
    return sw_plain_values(&st->plain, l, r, &a->x, err);
}

static int forward(struct sw_layer *l, const struct sw_pass *r, struct sw_err *err)
{
    struct sw_layer_norm_args a;

    int rc = args_of(l, r, &a, err);
    if (rc != SW_OK)
        return rc;

    a.y = l->dst.data;
    return sw_op_run(r->stream, &sw_op_layer_norm, &a, err);
}

static int backward(struct sw_layer *l, const struct sw_pass *r, struct sw_err *err)
{
    const struct state *st = l->state;
    struct sw_layer_norm_args a;

    int rc = args_of(l, r, &a, err);
    if (rc != SW_OK)
        return rc;

    a.dy = l->dst.grad;
    a.dx = sw_plain_gradient(&st->plain, l);
    a.dscale = l->param[SCALE].grad;
    a.dbias = l->param[BIAS].grad;

    return sw_plain_backward(&st->plain, l, r, &sw_op_layer_norm_gradient, &a, err);
}

static const char *const params[] = {"scale", "bias", NULL};

static const struct sw_layer_example examples[] = {
    {.recipe = "", .src = {{2, {4, 37}, 0}}, .dst = {4, 37}},
    {.recipe = "eps = 0.1\n", .src = {{4, {3, 5, 2, 3}, 0}}, .dst = {3, 5, 2, 3}},
    {.recipe = "axis = 3\n", .src = {{4, {2, 3, 2, 18}, 0}}, .dst = {2, 3, 2, 18}},
    {.recipe = "axis = 2\n", .src = {{3, {2, 3, 80}, 0}}, .dst = {2, 3, 80}},
    {0},
};

const struct sw_layer_type sw_layer_layer_norm = {
    .base = SW_TYPE("layer_norm", "normalizes every sample by its own mean and variance",
                    struct conf, opts, .params = params),
    .split_reason = "it normalizes across columns, or its scale and bias are shared by all columns",
    .keeps_columns = true,
    SW_LAYER_FEATURES(1, 1, 0),
    .state_bytes = sizeof(struct state),
    SW_LAYER_CALLS(setup, forward, backward),
    .examples = examples,
};
