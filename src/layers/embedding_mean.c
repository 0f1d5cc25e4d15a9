/* embedding_mean: the mean of the vectors of a list of tokens: [N, T] becomes [N, outputs]. It is
 * the text feature of the thesis' MDNN (section 5.5.1: "by averaging word embeddings of all tags of
 * one image, one text feature vector could be generated"). Lists are as long as the longest,
 * shorter ones filled up with -1, since an image has about six of thousands of tags
 * (NUS-WIDE, 5.7.2); a multi-hot matrix would be a thousand times as large, and goes through
 * inner_product. An empty list gives zeros. Weights, gradient and initial values are those of
 * embedding. */
#include "layers/share/tokens.h"

struct conf {
    int64_t vocabulary, outputs;
};

struct state {
    struct sw_token_lists lists;
};

static const struct sw_opt opts[] = {
    {.key = "vocabulary",
     .help = "number of different tokens; tokens are 0 to vocabulary - 1",
     .type = SW_OPT_INT,
     .offset = offsetof(struct conf, vocabulary),
     .min = 1,
     .max = 1 << 26,
     .required = true},
    {.key = "outputs",
     .help = "length of a token's vector",
     .type = SW_OPT_INT,
     .offset = offsetof(struct conf, outputs),
     .min = 1,
     .max = 1 << 20,
     .required = true},
    {0},
};

static int setup(struct sw_layer *l, const struct sw_layer_setup *s, struct sw_err *err)
{
    const struct conf *c = l->conf;
    struct state *st = l->state;
    const int64_t weight[] = {c->vocabulary, c->outputs};
    struct sw_desc layout = sw_desc_plain(SW_F32, 2, weight);
    (void)s;
    st->lists = (struct sw_token_lists){.per_row = 1, .vocabulary = c->vocabulary, .skip = -1};
    int rc = sw_layer_need_tokens(l, true, &st->lists.rows, &st->lists.length, err);
    if (rc != SW_OK)
        return rc;
    l->dst.desc = sw_desc_plain(SW_F32, 2, (const int64_t[]){l->src[0]->desc.dim[0], c->outputs});
    sw_layer_add_param(l, "weight", &layout, c->outputs, c->outputs);
    l->backward_reads_src = 1;
    l->flops_forward = (double)sw_desc_count(&l->src[0]->desc) * (double)c->outputs;
    l->flops_backward = l->flops_forward;
    return SW_OK;
}

static int forward(struct sw_layer *l, const struct sw_pass *r, struct sw_err *err)
{
    const struct conf *c = l->conf;
    const struct state *st = l->state;
    return sw_op_embedding(r->stream, &st->lists, c->outputs, l->src[0]->data, l->param[0].value,
                           r->step, l->dst.data, err);
}

static int backward(struct sw_layer *l, const struct sw_pass *r, struct sw_err *err)
{
    const struct conf *c = l->conf;
    const struct state *st = l->state;
    return sw_op_embedding_backward(r->stream, &st->lists, c->outputs, l->src[0]->data, l->dst.grad,
                                    r->step, l->param[0].grad, err);
}

static const char *const params[] = {"weight", NULL};

static const struct sw_layer_example examples[] = {
    {.recipe = "vocabulary = 6\noutputs = 3\n", .src = {{2, {4, 5}, 6}}, .dst = {4, 3}},
    {.recipe = "vocabulary = 9\noutputs = 17\n", .src = {{2, {3, 1}, 9}}, .dst = {3, 17}},
    {0},
};

const struct sw_layer_type sw_layer_embedding_mean = {
    .base = {.name = "embedding_mean",
             .help = "the mean of the vectors of a list of tokens",
             .opts = opts,
             .conf_bytes = sizeof(struct conf),
             .params = params},
    .role = SW_ROLE_NEURON,
    .split_reason = "it reads data, of which every worker has its rows",
    .min_src = 1,
    .max_src = 1,
    .state_bytes = sizeof(struct state),
    .setup = setup,
    .forward = forward,
    .backward = backward,
    .examples = examples,
};
