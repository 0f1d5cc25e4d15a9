/* softmax_loss: softmax over the features of a row followed by the negative log likelihood of the
 * row's label. Sources: scores [N, classes] (more dimensions are flattened), labels [N]. The
 * gradient is (softmax - onehot) times the loss weight over the weight of the whole batch. */
#include "device/ops/softmax_loss.h"
#include "layers/layer.h"

struct conf {
    double weight;
};

struct state {
    struct sw_plan *to_plain, *from_plain; /* NULL when scores are plain already */
    struct sw_desc plain;
    size_t prob_bytes;
};

static const struct sw_opt opts[] = {
    {.key = "weight",
     .help = "factor of this loss in the sum of all losses",
     .type = SW_OPT_REAL,
     .offset = offsetof(struct conf, weight),
     .def = "1",
     .min = 0,
     .max = 1e6},
    {0},
};

static int make_reorders(struct sw_layer *l, const struct sw_layer_setup *s, struct sw_err *err)
{
    struct state *st = l->state;
    const struct sw_plan_makers *make = s->stream->dev->ops->plans;
    const struct sw_desc *in = &l->src[0]->desc;
    int rc = make->reorder(s->stream, in, &st->plain, &st->to_plain, err);
    if (rc == SW_OK && (s->wants_grad & 1))
        rc = make->reorder(s->stream, &st->plain, in, &st->from_plain, err);
    return rc;
}

static int setup(struct sw_layer *l, const struct sw_layer_setup *s, struct sw_err *err)
{
    struct state *st = l->state;
    int rc = sw_layer_need_src(l, 0, 0, err);
    if (rc == SW_OK)
        rc = sw_layer_need_labels(l, 1, err);
    if (rc != SW_OK)
        return rc;
    const struct sw_desc *in = &l->src[0]->desc;
    st->plain = sw_desc_plain(SW_F32, in->ndim, in->dim);
    st->prob_bytes = sw_desc_bytes(&st->plain);
    if (!sw_desc_is_plain(in)) {
        rc = make_reorders(l, s, err);
        if (rc != SW_OK)
            return rc;
        l->scratch_bytes = st->prob_bytes;
    }
    l->dst.desc = st->plain; /* the probabilities; kept for backward */
    l->backward_reads_dst = true;
    l->backward_reads_src = 1u << 1; /* the labels */
    l->flops_forward = 5.0 * (double)sw_desc_count(in);
    l->flops_backward = 2.0 * (double)sw_desc_count(in);
    return SW_OK;
}

static int forward(struct sw_layer *l, const struct sw_pass *r, struct sw_err *err)
{
    const struct conf *c = l->conf;
    struct state *st = l->state;
    const float *x = l->src[0]->data;
    if (st->to_plain) {
        struct sw_plan_args a = {.src = x, .dst = l->scratch};
        int rc = sw_plan_forward(st->to_plain, &a, err);
        if (rc != SW_OK)
            return rc;
        x = l->scratch;
    }
    return sw_op_softmax_loss(r->stream, st->plain.dim[0], sw_desc_features(&st->plain), x,
                              l->src[1]->data, r->step, (float)c->weight, l->dst.data, l->result,
                              err);
}

static int backward(struct sw_layer *l, const struct sw_pass *r, struct sw_err *err)
{
    const struct conf *c = l->conf;
    struct state *st = l->state;
    float *dx = st->from_plain ? l->scratch : l->src_grad[0];
    int rc = sw_op_softmax_loss_backward(r->stream, st->plain.dim[0], sw_desc_features(&st->plain),
                                         l->dst.data, l->src[1]->data, r->step, (float)c->weight,
                                         dx, err);
    if (rc != SW_OK || !st->from_plain)
        return rc;
    struct sw_plan_args a = {.src = dx, .dst = l->src_grad[0]};
    return sw_plan_forward(st->from_plain, &a, err);
}

static void teardown(struct sw_layer *l)
{
    struct state *st = l->state;
    sw_plan_free(st->to_plain);
    sw_plan_free(st->from_plain);
}

static const struct sw_layer_example examples[] = {
    {.recipe = "", .src = {{2, {4, 10}, 0}, {1, {4}, 10}}, .dst = {4, 10}},
    {.recipe = "weight = 0.3\n", .src = {{2, {3, 5}, 0}, {1, {3}, 5}}, .dst = {3, 5}},
    {.recipe = "", .src = {{4, {3, 20, 1, 1}, 0}, {1, {3}, 20}}, .dst = {3, 20, 1, 1}},
    {0},
};

const struct sw_layer_type sw_layer_softmax_loss = {
    .base = {.name = "softmax_loss",
             .help = "softmax with the negative log likelihood of integer labels",
             .opts = opts,
             .conf_bytes = sizeof(struct conf)},
    .role = SW_ROLE_LOSS,
    .split_reason = "a row's loss needs all its scores",
    .min_src = 2,
    .max_src = 2,
    .state_bytes = sizeof(struct state),
    .setup = setup,
    .forward = forward,
    .backward = backward,
    .teardown = teardown,
    .examples = examples,
};
