/* class_softmax: the log probabilities of all words, with the parameters of a class_softmax_loss
 * (kernels/ops/class_softmax.h), exact and over the full vocabulary. Their softmax is the
 * probabilities themselves, so perplexity, accuracy, `predict` and `sample` read them as scores.
 * Sources: the features of the loss, [N, D] or [N, T, D], and the class_softmax_loss. The output is
 * [N, vocabulary] or [N, T, vocabulary]. It costs as much as a flat softmax, and passes no
 * gradient: training uses the loss. */
#include "layers/share/plain.h"
#include "layers/share/word_classes.h"

struct conf {
    struct sw_word_classes_conf words;
};

struct state {
    struct sw_plain in;
    struct sw_word_classes kind;
    int64_t rows;
    size_t class_score_at; /* offset in scratch */
};

static const struct sw_opt opts[] = {
    SW_WORD_CLASSES_OPTS(struct conf, words),
    {0},
};

static const struct sw_layer_borrow borrows[] = {
    {.param = "weight_class", .sources = 2, .src = 1, .of = "weight_class"},
    {.param = "bias_class", .sources = 2, .src = 1, .of = "bias_class"},
    {.param = "weight", .sources = 2, .src = 1, .of = "weight", .key = "bins"},
    {.param = "bias", .sources = 2, .src = 1, .of = "bias"},
    {0},
};

static int setup(struct sw_layer *l, const struct sw_layer_setup *s, struct sw_err *err)
{
    const struct conf *c = l->conf;
    const struct sw_desc *of_classes = &l->src[1]->desc;
    struct state *st = l->state;

    int rc = sw_plain_init(&st->in, l, 0, s, err);
    if (rc != SW_OK)
        return rc;

    const bool steps = of_classes->ndim == 3;
    int64_t dim[] = {st->in.rows, c->words.vocabulary, c->words.vocabulary};

    rc = sw_word_classes_init(&st->kind, &c->words, of_classes->dim[of_classes->ndim - 1], err);
    if (rc != SW_OK)
        return rc;
    if (steps)
        dim[1] = of_classes->dim[1];

    st->rows = st->in.rows * (steps ? dim[1] : 1);
    sw_word_classes_add_params(&st->kind, l, st->in.columns / (steps ? dim[1] : 1));
    st->class_score_at =
        sw_layer_reserve(&l->scratch_bytes, (size_t)(st->rows * st->kind.classes) * sizeof(float));
    l->dst.desc = sw_desc_plain(SW_F32, steps ? 3 : 2, dim);
    l->flops_forward = 2.0 * (double)st->rows * (double)l->param[SW_WORD_WEIGHT].layout.dim[1] *
                       (double)(st->kind.words + st->kind.classes);

    return SW_OK;
}

static int forward(struct sw_layer *l, const struct sw_pass *r, struct sw_err *err)
{
    const struct state *st = l->state;
    const struct sw_class_log_softmax_args a = {.rows = st->rows,
                                                .kind = st->kind,
                                                .class_score =
                                                    sw_layer_at(l->scratch, st->class_score_at),
                                                .score = l->dst.data};
    const float *x;

    int rc = sw_plain_values(&st->in, l, r, &x, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_word_classes_score(l, r, SW_CLASS_WEIGHT, st->rows, x,
                               sw_layer_at(l->scratch, st->class_score_at), err);
    if (rc != SW_OK)
        return rc;
    rc = sw_word_classes_score(l, r, SW_WORD_WEIGHT, st->rows, x, l->dst.data, err);
    if (rc != SW_OK)
        return rc;

    return sw_op_run(r->stream, &sw_op_class_log_softmax, &a, err);
}

static const struct sw_layer_example examples[] = {
    {.recipe = "vocabulary = 10\n", .src = {{2, {6, 7}, 0}, {2, {6, 3}, 0}}, .dst = {6, 10}},
    {.recipe = "vocabulary = 300\nbins = equal\n",
     .src = {{3, {2, 3, 5}, 0}, {3, {2, 3, 11}, 0}},
     .dst = {2, 3, 300}},
    {.recipe = "vocabulary = 21\n", .src = {{4, {3, 20, 1, 1}, 0}, {2, {3, 1}, 0}}},
    {0},
};

const struct sw_layer_type sw_layer_class_softmax = {
    .base = SW_TYPE("class_softmax", "log probabilities of all words of a class_softmax_loss",
                    struct conf, opts, .params = sw_word_classes_params),
    .scores = SW_SCORES_SOFTMAX,
    .borrows = borrows,
    .split_reason = "a word's probability needs the scores of all words of its class",
    SW_LAYER_FEATURES(2, 2, 0),
    .state_bytes = sizeof(struct state),
    SW_LAYER_CALLS(setup, forward, NULL),
    .examples = examples,
};
