/* inner_product: dst [N, outputs] = src [N, features] weight^T + bias, the fully-connected layer. A
 * source with more dimensions is flattened in (C, H, W) order. Weights are logically
 * [outputs, features]; a pass takes 2 N outputs features flops. */
#include "layers/layer.h"

struct conf {
    int64_t outputs;
    bool bias;
};

static const struct sw_opt opts[] = {
    {.key = "outputs",
     .help = "number of output features",
     .type = SW_OPT_INT,
     .offset = offsetof(struct conf, outputs),
     .min = 1,
     .max = 1 << 26,
     .required = true},
    {.key = "bias",
     .help = "add one value per output",
     .type = SW_OPT_BOOL,
     .offset = offsetof(struct conf, bias),
     .def = "yes"},
    {0},
};

static const char *refuses_split(const void *conf, int parts)
{
    const struct conf *c = conf;
    return c->outputs < parts ? "it has fewer outputs than there are workers" : NULL;
}

static int setup(struct sw_layer *l, const struct sw_layer_setup *s, struct sw_err *err)
{
    const struct conf *c = l->conf;
    struct sw_plan_state *st = l->state;
    int64_t first, outputs;
    sw_setup_part(s, c->outputs, &first, &outputs);
    int rc = sw_layer_need_src(l, 0, 0, err);
    if (rc != SW_OK)
        return rc;
    const struct sw_desc *in = &l->src[0]->desc;
    struct sw_ip_shape shape = {.outputs = outputs,
                                .bias = c->bias,
                                .fuse_relu = s->fuse_relu,
                                .weight_layout = sw_setup_layout(s, l, "weight")};
    struct sw_plan_passes passes = {.backward_data = s->wants_grad & 1,
                                    .backward_weights = s->training,
                                    .training = s->training};
    rc = s->stream->dev->ops->plans->inner_product(s->stream, in, &shape, passes, &st->plan, err);
    if (rc != SW_OK)
        return rc;
    int64_t features = sw_desc_features(in);
    sw_layer_use_plan(l, features, c->outputs);
    if (s->parts > 1)
        sw_layer_mark_parts(l, first, c->outputs);
    l->flops_forward = 2.0 * (double)in->dim[0] * (double)features * (double)outputs;
    l->flops_backward = l->flops_forward * ((s->wants_grad & 1) ? 2 : 1);
    return SW_OK;
}

static const char *const params[] = {"weight", "bias", NULL};

static const struct sw_layer_example examples[] = {
    {.recipe = "outputs = 5\n", .src = {{2, {3, 7}, 0}}, .dst = {3, 5}},
    {.recipe = "outputs = 10\nbias = no\n", .src = {{2, {4, 33}, 0}}, .dst = {4, 10}},
    {.recipe = "outputs = 6\n", .src = {{4, {2, 3, 4, 5}, 0}}, .dst = {2, 6}},
    {.recipe = "outputs = 20\n", .src = {{4, {3, 20, 3, 2}, 0}}, .dst = {3, 20}},
    {0},
};

const struct sw_layer_type sw_layer_inner_product = {
    .base = {.name = "inner_product",
             .help = "fully-connected layer",
             .opts = opts,
             .conf_bytes = sizeof(struct conf),
             .params = params},
    .role = SW_ROLE_NEURON,
    .split = SW_SPLIT_OUTPUTS,
    .refuses_split = refuses_split,
    .min_src = 1,
    .max_src = 1,
    .state_bytes = sizeof(struct sw_plan_state),
    .can_fuse_relu = true,
    .setup = setup,
    .forward = sw_layer_plan_forward,
    .backward = sw_layer_plan_backward,
    .teardown = sw_layer_plan_teardown,
    .examples = examples,
};
