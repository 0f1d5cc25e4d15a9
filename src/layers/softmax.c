/* softmax: maps the values along one dimension to positive values that sum to 1: over the classes
 * of a row, or at every pixel over the channels. The largest value is subtracted first, so that
 * nothing overflows. For a likelihood use softmax_loss, which combines both and is more accurate.
 * The output is plain; put flatten before it to normalize over all features of a row. */
#include "kernels/ops/softmax.h"
#include "layers/share/plain.h"

struct conf {
    int64_t axis;
};

static const struct sw_opt opts[] = {
    SW_OPT(INT, struct conf, axis,
           "dimension along which the values sum to 1; 1: channels or features", .def = "1",
           .min = 1, .max = SW_MAX_DIMS - 1),
    {0},
};

static const char *refuses_split(const void *conf, int parts)
{
    const struct conf *c = conf;
    return c->axis == 1 ? "it sums over all columns" : NULL;
}

static int setup(struct sw_layer *l, const struct sw_layer_setup *s, struct sw_err *err)
{
    const struct conf *c = l->conf;
    struct sw_plain *p = l->state;
    const struct sw_desc *in = &l->src[0]->desc;

    int rc = sw_layer_need_axis(l, c->axis, err);
    if (rc != SW_OK)
        return rc;

    rc = sw_plain_init(p, l, 0, s, err);
    l->dst.desc = p->desc;
    l->in_place = !p->from_source;
    l->backward_reads_dst = true;
    l->flops_forward = 5.0 * (double)sw_desc_count(in);
    l->flops_backward = 4.0 * (double)sw_desc_count(in);

    return rc;
}

static struct sw_softmax_args args_of(const struct sw_layer *l)
{
    const struct conf *c = l->conf;
    struct sw_softmax_args a = {
        .rows = 1, .classes = l->dst.desc.dim[c->axis], .places = 1, .y = l->dst.data};

    for (int i = 0; i < l->dst.desc.ndim; i++)
        *(i < c->axis ? &a.rows : &a.places) *= i == c->axis ? 1 : l->dst.desc.dim[i];
    return a;
}

static int forward(struct sw_layer *l, const struct sw_pass *r, struct sw_err *err)
{
    const struct sw_plain *p = l->state;
    struct sw_softmax_args a = args_of(l);

    return sw_plain_forward(p, l, r, &a.x, &sw_op_softmax, &a, err);
}

static int backward(struct sw_layer *l, const struct sw_pass *r, struct sw_err *err)
{
    const struct sw_plain *p = l->state;
    struct sw_softmax_args a = args_of(l);

    a.dy = l->dst.grad;
    a.dx = sw_plain_gradient(p, l);

    return sw_plain_backward(p, l, r, &sw_op_softmax_gradient, &a, err);
}

static const struct sw_layer_example examples[] = {
    {.recipe = "", .src = {{2, {3, 37}, 0}}, .dst = {3, 37}},
    {.recipe = "", .src = {{4, {2, 18, 9, 8}, 0}}, .dst = {2, 18, 9, 8}},
    {.recipe = "axis = 2\n", .src = {{4, {2, 5, 6, 3}, 0}}, .dst = {2, 5, 6, 3}},
    {.recipe = "axis = 3\n", .src = {{4, {2, 5, 2, 6}, 0}}, .dst = {2, 5, 2, 6}},
    {0},
};

const struct sw_layer_type sw_layer_softmax = {
    .base =
        SW_TYPE("softmax", "positive values that sum to 1 along a dimension", struct conf, opts),
    .split = SW_SPLIT_ELEMENTWISE,
    .refuses_split = refuses_split,
    .keeps_columns = true,
    .scores = SW_SCORES_READY,
    SW_LAYER_FEATURES(1, 1, 0),
    .state_bytes = sizeof(struct sw_plain),
    SW_LAYER_CALLS(setup, forward, backward),
    .examples = examples,
};
