/* embedding_mean: the mean of the vectors of a list of tokens: [N, T] becomes [N, outputs]. It is
 * the text feature of the thesis' MDNN (section 5.5.1: "by averaging word embeddings of all tags of
 * one image, one text feature vector could be generated"). Lists have the length of the longest
 * one; shorter ones are padded with -1, since an image has about six of thousands of tags
 * (NUS-WIDE, 5.7.2). The multi-hot matrix that inner_product would read is a thousand times as
 * large. An empty list gives zeros. Weights, gradient and initial values are those of embedding. */
#include "layers/share/lookup.h"

static const struct sw_opt opts[] = {
    SW_LOOKUP_OPTS(struct sw_lookup_conf),
    {0},
};

static int setup(struct sw_layer *l, const struct sw_layer_setup *s, struct sw_err *err)
{
    const struct sw_lookup_conf *c = l->conf;
    struct sw_lookup *st = l->state;

    st->lists = (struct sw_token_lists){.per_row = 1, .vocabulary = c->vocabulary, .skip = -1};

    int rc = sw_layer_need_tokens(l, true, &st->lists.rows, &st->lists.length, err);
    if (rc != SW_OK)
        return rc;

    sw_lookup_init(st, l, c, s);
    l->dst.desc = sw_desc_plain(SW_F32, 2, (const int64_t[]){l->src[0]->desc.dim[0], st->outputs});
    return SW_OK;
}

static const struct sw_layer_example examples[] = {
    {.recipe = "vocabulary = 6\noutputs = 3\n", .src = {{2, {4, 5}, 6}}, .dst = {4, 3}},
    {.recipe = "vocabulary = 9\noutputs = 17\n", .src = {{2, {3, 1}, 9}}, .dst = {3, 17}},
    {0},
};

const struct sw_layer_type sw_layer_embedding_mean = {
    .base = SW_TYPE("embedding_mean", "the mean of the vectors of a list of tokens",
                    struct sw_lookup_conf, opts, .params = sw_lookup_params),
    .split = SW_SPLIT_OUTPUTS,
    .refuses_split = sw_lookup_refuses_split,
    SW_LAYER_SOURCES(1, 1),
    .state_bytes = sizeof(struct sw_lookup),
    SW_LAYER_CALLS(setup, sw_lookup_forward, sw_lookup_backward),
    .examples = examples,
};
