/* accuracy: the share of rows whose label is among the top_k largest scores. Sources: scores
 * [N, classes] in plain layout, labels [N]. Of equal scores the one with the lower index counts as
 * larger, so that constant scores do not look right. */
#include "device/ops/softmax_loss.h"
#include "layers/layer.h"

struct conf {
    int64_t top_k;
};

static const struct sw_opt opts[] = {
    {.key = "top_k",
     .help = "how many of the largest scores count",
     .type = SW_OPT_INT,
     .offset = offsetof(struct conf, top_k),
     .def = "1",
     .min = 1,
     .max = 1 << 20},
    {0},
};

static int setup(struct sw_layer *l, const struct sw_layer_setup *s, struct sw_err *err)
{
    const struct conf *c = l->conf;
    (void)s;
    int rc = sw_layer_need_src(l, 0, 0, err);
    if (rc == SW_OK)
        rc = sw_layer_need_labels(l, 1, err);
    if (rc != SW_OK)
        return rc;
    const struct sw_desc *in = &l->src[0]->desc;
    char text[128];
    if (!sw_desc_is_plain(in))
        return sw_err_set(err, SW_ERR_INVALID,
                          "source 1 is %s: scores must come from an inner_product",
                          sw_desc_text(in, text));
    if (c->top_k > sw_desc_features(in))
        return sw_err_set(err, SW_ERR_INVALID, "top_k = %lld: there are only %lld classes",
                          (long long)c->top_k, (long long)sw_desc_features(in));
    int64_t rows = in->dim[0];
    l->dst.desc = sw_desc_plain(SW_F32, 1, &rows);
    l->flops_forward = (double)sw_desc_count(in);
    return SW_OK;
}

static int forward(struct sw_layer *l, const struct sw_pass *r, struct sw_err *err)
{
    const struct conf *c = l->conf;
    const struct sw_desc *in = &l->src[0]->desc;
    return sw_op_accuracy(r->stream, in->dim[0], sw_desc_features(in), c->top_k, l->src[0]->data,
                          l->src[1]->data, r->step, l->result, err);
}

static const struct sw_layer_example examples[] = {
    {.recipe = "", .src = {{2, {4, 10}, 0}, {1, {4}, 10}}},
    {.recipe = "top_k = 3\n", .src = {{2, {5, 7}, 0}, {1, {5}, 7}}},
    {0},
};

const struct sw_layer_type sw_layer_accuracy = {
    .base = {.name = "accuracy",
             .help = "share of rows whose label is among the best scores",
             .opts = opts,
             .conf_bytes = sizeof(struct conf)},
    .role = SW_ROLE_METRIC,
    .split_reason = "a row is right or wrong by all its scores",
    .min_src = 2,
    .max_src = 2,
    .setup = setup,
    .forward = forward,
    .examples = examples,
};
