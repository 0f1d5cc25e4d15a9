/* onehot: encodes integers (labels, tokens) as one-hot vectors: [N] becomes [N, classes], [N, T]
 * becomes [N, T, classes]. There is no gradient: the integers are data. */
#include "device/op.h"
#include "layers/share/tokens.h"

struct conf {
    int64_t classes;
};

struct state {
    struct sw_token_lists lists;
};

static const struct sw_opt opts[] = {
    SW_OPT(INT, struct conf, classes, "length of the vectors; values are 0 to classes - 1",
           .min = 1, .max = 1 << 26, .required = true),
    {0},
};

static int64_t width(const void *conf)
{
    return ((const struct conf *)conf)->classes;
}

static int setup(struct sw_layer *l, const struct sw_layer_setup *s, struct sw_err *err)
{
    const struct conf *c = l->conf;
    struct state *st = l->state;

    st->lists =
        (struct sw_token_lists){.length = 1, .vocabulary = c->classes, .skip = SW_TOKEN_NO_SKIP};

    int rc = sw_layer_need_tokens(l, false, &st->lists.rows, &st->lists.per_row, err);
    if (rc != SW_OK)
        return rc;

    l->dst.desc = sw_layer_token_vectors(&l->src[0]->desc, c->classes);
    l->flops_forward = (double)sw_desc_count(&l->src[0]->desc);
    return SW_OK;
}

static int forward(struct sw_layer *l, const struct sw_pass *r, struct sw_err *err)
{
    const struct state *st = l->state;

    return sw_op_run(
        r->stream, &sw_op_onehot,
        &(const struct sw_onehot_args){
            .lists = st->lists, .token = l->src[0]->data, .step = r->step, .y = l->dst.data},
        err);
}

static const struct sw_layer_example examples[] = {
    {.recipe = "classes = 5\n", .src = {{1, {4}, 5}}, .dst = {4, 5}},
    {.recipe = "classes = 7\n", .src = {{2, {3, 6}, 7}}, .dst = {3, 6, 7}},
    {0},
};

const struct sw_layer_type sw_layer_onehot = {
    .base = SW_TYPE("onehot", "integers as one-hot vectors", struct conf, opts),
    .split_reason = "it reads data, of which every worker has its rows",
    SW_LAYER_SOURCES(1, 1),
    .width = width,
    .state_bytes = sizeof(struct state),
    SW_LAYER_CALLS(setup, forward, NULL),
    .examples = examples,
};
