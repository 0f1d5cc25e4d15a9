/* negative_sampling: skip-gram with negative sampling (SGNS; Mikolov, Sutskever, Chen, Corrado,
 * Dean, "Distributed Representations of Words and Phrases and their Compositionality", 2013,
 * section 2.2; the text model of the thesis' MDNN, 5.1.2 and 5.5.1). Sources: a vector for every
 * token of a window of running text [N, T, width] (embedding), and the tokens [N, T]. Every word is
 * to be told from `negatives` drawn words by the vectors of the words around it
 * (kernels/cpu/skip_gram.c).
 *
 * Drawn words have the distribution count^0.75 of the text. The parameter `output` [vocabulary,
 * width] has the vectors of words as outputs, at first zero. The output and the loss of a row is
 * the sum over its pairs, so that with one row per batch the learning rate is that of a single
 * pair, as in word2vec.c; with several it is averaged over rows, as all losses. */
#include "base/os.h"
#include "layers/share/skip_gram.h"
#include <math.h>

struct conf {
    struct sw_skip_gram_conf common;
    int64_t negatives;
};

static const struct sw_opt opts[] = {
    SW_SKIP_GRAM_OPTS(struct sw_skip_gram_conf),
    SW_OPT(INT, struct conf, negatives, "words drawn at random for every word of the text",
           .def = "5", .min = 1, .max = 1000),
    {0},
};

/* Fills the tables of Walker's alias method (1977), as Vose (1991) does: every column of `share` *
 * n = 1 on average is filled up by one that has more. */
static void fill_alias(struct sw_skip_gram *st, double *share, int64_t *columns)
{
    const int64_t n = st->known;
    int64_t small = 0, large = n;

    for (int64_t i = 0; i < n; i++) {
        st->host.below[i] = UINT32_MAX;
        st->host.alias[i] = (int32_t)i;
        columns[share[i] < 1 ? small++ : --large] = i;
    }

    while (small > 0 && large < n) {
        const int64_t low = columns[--small], high = columns[large];

        st->host.below[low] = (uint32_t)(share[low] * 0x1p32);
        st->host.alias[low] = (int32_t)high;
        share[high] -= 1 - share[low];
        if (share[high] < 1) {
            large++;
            columns[small++] = high;
        }
    }
}

static int make_alias(struct sw_skip_gram *st, struct sw_err *err)
{
    const size_t n = (size_t)st->known;
    double *share = sw_calloc(n, sizeof *share), total = 0;
    int64_t *columns = sw_calloc(n, sizeof *columns);

    st->host.below = sw_calloc(n, sizeof *st->host.below);
    st->host.alias = sw_calloc(n, sizeof *st->host.alias);
    if (!share || !columns || !st->host.below || !st->host.alias) {
        sw_free(share);
        sw_free(columns);
        return sw_err_nomem(err, "a table of words", n * sizeof *share);
    }

    for (size_t i = 0; i < n; i++)
        total += share[i] = pow((double)st->host.times[i], 0.75);
    for (size_t i = 0; i < n; i++)
        share[i] *= (double)n / total;
    fill_alias(st, share, columns);

    sw_free(share);
    sw_free(columns);
    return SW_OK;
}

static int setup(struct sw_layer *l, const struct sw_layer_setup *s, struct sw_err *err)
{
    const struct conf *c = l->conf;
    struct sw_skip_gram *st = l->state;

    int rc = sw_skip_gram_begin(l, s, err);
    if (rc != SW_OK)
        return rc;
    rc = make_alias(st, err);
    if (rc != SW_OK)
        return rc;

    st->words.negatives = c->negatives;
    st->shape.outputs = 1 + c->negatives;
    st->shape.output_rows = c->common.vocabulary;

    return sw_skip_gram_finish(l, s, err);
}

static const struct sw_layer_example examples[] = {
    {.recipe = "vocabulary = 9\nwindow = 2\nnegatives = 3\nsubsample = 0\n",
     .src = {{3, {3, 7, 5}, 0}, {2, {3, 7}, 9}},
     .dst = {3}},
    {.recipe = "vocabulary = 30\nwindow = 5\nsubsample = 0.02\nweight = 0.5\n",
     .src = {{3, {2, 40, 20}, 0}, {2, {2, 40}, 30}},
     .dst = {2}},
    {.recipe = "vocabulary = 70\nwindow = 64\nnegatives = 9\nsubsample = 0\n",
     .src = {{3, {2, 24, 36}, 0}, {2, {2, 24}, 70}},
     .dst = {2},
     .tolerance = 1e-3},
    {0},
};

const struct sw_layer_type sw_layer_negative_sampling = {
    .base = SW_TYPE("negative_sampling", "skip-gram: words told from random ones by their contexts",
                    struct conf, opts, .params = sw_skip_gram_params),
    SW_SKIP_GRAM_TYPE(setup),
    .examples = examples,
};
