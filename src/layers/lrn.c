/* lrn: local response normalisation across channels, y_i = x_i (k + alpha/size sum_j x_j^2)^-beta
 * over the `size` channels around i (Krizhevsky, Sutskever, Hinton 2012, section 3.3). alpha is
 * divided by size as in Caffe, cuDNN and bvlc_alexnet; the paper's own alpha is ours / size. */
#include "layers/layer.h"

struct conf {
    int64_t size;
    double alpha, beta, k;
};

static const struct sw_opt opts[] = {
    {.key = "size",
     .help = "channels in the window; odd",
     .type = SW_OPT_INT,
     .offset = offsetof(struct conf, size),
     .def = "5",
     .min = 1,
     .max = 255},
    {.key = "alpha",
     .help = "scale of the sum of squares, divided by size",
     .type = SW_OPT_REAL,
     .offset = offsetof(struct conf, alpha),
     .def = "1",
     .min = 0,
     .max = 1e6},
    {.key = "beta",
     .help = "exponent",
     .type = SW_OPT_REAL,
     .offset = offsetof(struct conf, beta),
     .def = "0.75",
     .min = 0,
     .max = 100},
    {.key = "k",
     .help = "constant added to the scaled sum",
     .type = SW_OPT_REAL,
     .offset = offsetof(struct conf, k),
     .def = "1",
     .min = 1e-5,
     .max = 1e6},
    {0},
};

static int setup(struct sw_layer *l, const struct sw_layer_setup *s, struct sw_err *err)
{
    const struct conf *c = l->conf;
    struct sw_plan_state *st = l->state;
    int rc = sw_layer_need_src(l, 0, 4, err);
    if (rc != SW_OK)
        return rc;
    if (c->size % 2 == 0)
        return sw_err_set(err, SW_ERR_INVALID, "size = %lld: must be odd", (long long)c->size);
    struct sw_lrn_shape shape = {
        .size = c->size, .alpha = (float)c->alpha, .beta = (float)c->beta, .k = (float)c->k};
    struct sw_plan_passes passes = {.backward_data = s->wants_grad & 1, .training = s->training};
    rc = s->stream->dev->ops->plans->lrn(s->stream, &l->src[0]->desc, &shape, passes, &st->plan,
                                         err);
    if (rc != SW_OK)
        return rc;
    sw_layer_use_plan(l, 0, 0);
    l->flops_forward = (double)sw_desc_count(&l->dst.desc) * (double)(2 * c->size + 3);
    l->flops_backward = l->flops_forward;
    return SW_OK;
}

static const struct sw_layer_example examples[] = {
    {.recipe = "size = 5\nalpha = 0.5\nbeta = 0.75\n",
     .src = {{4, {2, 7, 3, 4}, 0}},
     .dst = {2, 7, 3, 4}},
    {.recipe = "size = 5\nalpha = 0.5\nbeta = 0.75\nk = 2\n",
     .src = {{4, {2, 32, 3, 3}, 0}},
     .dst = {2, 32, 3, 3}},
    {.recipe = "size = 3\nalpha = 1\nbeta = 0.6\n",
     .src = {{4, {2, 16, 2, 3}, 0}},
     .dst = {2, 16, 2, 3}},
    {0},
};

const struct sw_layer_type sw_layer_lrn = {
    .base = {.name = "lrn",
             .help = "local response normalisation across channels",
             .opts = opts,
             .conf_bytes = sizeof(struct conf)},
    .role = SW_ROLE_NEURON,
    .split_reason = "it normalises across channels",
    .min_src = 1,
    .max_src = 1,
    .state_bytes = sizeof(struct sw_plan_state),
    .setup = setup,
    .forward = sw_layer_plan_forward,
    .backward = sw_layer_plan_backward,
    .teardown = sw_layer_plan_teardown,
    .examples = examples,
};
