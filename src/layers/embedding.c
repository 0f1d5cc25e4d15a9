/* embedding: a vector for every token: [N] becomes [N, outputs], [N, T] becomes [N, T, outputs].
 * Weights are logically [vocabulary, outputs]; the lookup is the product of a one-hot vector with
 * them (Bengio, Ducharme, Vincent, Jauvin, "A Neural Probabilistic Language Model", 2003, section
 * 2; thesis 2.1.3, the projection layer). The gradient is dense and summed in the order of the
 * tokens for every number of threads. Fan-in is the number of elements of a vector, so that xavier
 * gives vectors of about length 1. The token `padding` gives zeros and gets no gradient. */
#include "layers/share/lookup.h"

struct conf {
    struct sw_lookup_conf lookup;
    int64_t padding; /* -2: not given */
};

static const struct sw_opt opts[] = {
    SW_LOOKUP_OPTS(struct sw_lookup_conf),
    SW_OPT(INT, struct conf, padding,
           "token whose vector is zero and is not trained; may be -1; default: none", .def = "-2",
           .min = -1, .max = 1 << 26),
    {0},
};

static int setup(struct sw_layer *l, const struct sw_layer_setup *s, struct sw_err *err)
{
    const struct conf *c = l->conf;
    struct sw_lookup *st = l->state;

    st->lists =
        (struct sw_token_lists){.length = 1,
                                .vocabulary = c->lookup.vocabulary,
                                .skip = c->padding >= -1 ? (int32_t)c->padding : SW_TOKEN_NO_SKIP};

    int rc = sw_layer_need_tokens(l, false, &st->lists.rows, &st->lists.per_row, err);
    if (rc != SW_OK)
        return rc;

    sw_lookup_init(st, l, &c->lookup, s);
    l->dst.desc = sw_layer_token_vectors(&l->src[0]->desc, st->outputs);

    const char *reason = s->parts > 1 ? sw_layer_refuse_sequences(&l->src[0]->desc) : NULL;
    return reason
               ? sw_err_set(err, SW_ERR_INVALID, "the layer cannot be split by columns: %s", reason)
               : SW_OK;
}

static int64_t width(const void *conf)
{
    return ((const struct conf *)conf)->lookup.outputs;
}

static const struct sw_layer_example examples[] = {
    {.recipe = "vocabulary = 5\noutputs = 3\n", .src = {{1, {6}, 5}}, .dst = {6, 3}},
    {.recipe = "vocabulary = 7\noutputs = 20\n", .src = {{2, {3, 4}, 7}}, .dst = {3, 4, 20}},
    {.recipe = "vocabulary = 4\noutputs = 2\npadding = 1\n",
     .src = {{2, {3, 5}, 4}},
     .dst = {3, 5, 2}},
    {0},
};

const struct sw_layer_type sw_layer_embedding = {
    .base = SW_TYPE("embedding", "a vector for every token", struct conf, opts,
                    .params = sw_lookup_params),
    .split = SW_SPLIT_OUTPUTS,
    .refuses_split = sw_lookup_refuses_split,
    .refuses_data = sw_layer_refuse_sequences,
    SW_LAYER_SOURCES(1, 1),
    .width = width,
    .state_bytes = sizeof(struct sw_lookup),
    SW_LAYER_CALLS(setup, sw_lookup_forward, sw_lookup_backward),
    .examples = examples,
};
