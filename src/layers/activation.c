/* activation: an element-wise function. All but gelu compute their gradient from the output, so
 * they work in place. A relu directly after a layer that can fuse it (can_fuse_relu) is applied by
 * that layer. */
#include "device/ops/elementwise.h"
#include "layers/layer.h"

struct conf {
    int function; /* enum sw_activation */
    double slope;
};

struct state {
    bool fused, fused_backward;
    bool fills_padding; /* f(0) != 0 in a padded layout, where padding must stay zero */
};

static const char *const functions[] = {"relu",  "leaky_relu", "sigmoid", "tanh",
                                        "stanh", "softplus",   "gelu",    NULL};

static const struct sw_opt opts[] = {
    SW_OPT(ENUM, struct conf, function, "the function; stanh is 1.7159 tanh(2/3 x)",
           .choices = functions, .required = true),
    SW_OPT(REAL, struct conf, slope, "slope of leaky_relu below zero", .def = "0.01", .min = 0,
           .max = 1),
    {0},
};

static bool is_relu(const void *conf)
{
    const struct conf *c = conf;
    return c->function == SW_ACT_RELU;
}

static int setup(struct sw_layer *l, const struct sw_layer_setup *s, struct sw_err *err)
{
    const struct conf *c = l->conf;
    struct state *st = l->state;

    bool from_output = c->function != SW_ACT_GELU;
    sw_layer_use_elementwise(l);
    st->fused = s->fused;
    st->fused_backward = s->fused_backward;
    st->fills_padding = (c->function == SW_ACT_SIGMOID || c->function == SW_ACT_SOFTPLUS) &&
                        sw_desc_count(&l->dst.desc) != sw_desc_storage(&l->dst.desc);
    l->in_place = from_output;
    l->backward_reads_src = from_output ? 0u : 1u;
    l->backward_reads_dst = from_output && !s->fused_backward;
    l->view = s->fused_backward;

    return SW_OK;
}

static int forward(struct sw_layer *l, const struct sw_pass *r, struct sw_err *err)
{
    const struct conf *c = l->conf;
    struct state *st = l->state;
    if (st->fused)
        return SW_OK;

    int rc =
        sw_op_run(r->stream, &sw_op_activate,
                  &(const struct sw_activation_args){.function = (enum sw_activation)c->function,
                                                     .alpha = (float)c->slope,
                                                     .type = l->dst.desc.dtype,
                                                     .n = sw_desc_storage(&l->dst.desc),
                                                     .x = l->src[0]->data,
                                                     .y = l->dst.data},
                  err);
    if (rc != SW_OK)
        return rc;

    if (st->fills_padding)
        rc = sw_op_zero_padding(r->stream, &l->dst.desc, l->dst.data, err);
    return rc;
}

static int backward(struct sw_layer *l, const struct sw_pass *r, struct sw_err *err)
{
    const struct conf *c = l->conf;
    const struct state *st = l->state;
    if (st->fused_backward)
        return sw_layer_view_backward(l, r, err);

    return sw_op_run(
        r->stream, &sw_op_activation_gradient,
        &(const struct sw_activation_gradient_args){.function = (enum sw_activation)c->function,
                                                    .alpha = (float)c->slope,
                                                    .type = l->dst.desc.dtype,
                                                    .x = l->src[0]->data,
                                                    .y = l->dst.data,
                                                    .dy = l->dst.grad,
                                                    .dx = l->src_grad[0],
                                                    .n = sw_desc_storage(&l->dst.desc)},
        err);
}

#define EXAMPLE(text)                                                                              \
    {                                                                                              \
        .recipe = "function = " text "\n", .src = {{4, {2, 5, 3, 4}, 0}}, .dst = { 2, 5, 3, 4 }    \
    }

static const struct sw_layer_example examples[] = {
    EXAMPLE("relu"),
    EXAMPLE("leaky_relu\nslope = 0.2"),
    EXAMPLE("sigmoid"),
    EXAMPLE("tanh"),
    EXAMPLE("stanh"),
    EXAMPLE("softplus"),
    EXAMPLE("gelu"),
    {.recipe = "function = tanh\n", .src = {{2, {3, 37}, 0}}, .dst = {3, 37}},
    {0},
};

const struct sw_layer_type sw_layer_activation = {
    .base =
        SW_TYPE("activation", "element-wise function: relu, sigmoid, tanh, ...", struct conf, opts),
    .halves = SW_HALVES_AS_SOURCE,
    .split = SW_SPLIT_ELEMENTWISE,
    SW_LAYER_FEATURES(1, 1, 0),
    .state_bytes = sizeof(struct state),
    .is_relu = is_relu,
    SW_LAYER_CALLS(setup, forward, backward),
    .examples = examples,
};
