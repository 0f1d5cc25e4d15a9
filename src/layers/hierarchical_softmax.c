/* hierarchical_softmax: skip-gram with a hierarchical softmax (Morin and Bengio, "Hierarchical
 * Probabilistic Neural Network Language Model", 2005; Mikolov, Sutskever, Chen, Corrado, Dean,
 * "Distributed Representations of Words and Phrases and their Compositionality", 2013,
 * section 2.1). Sources: a vector for every token of a window of running text [N, T, width]
 * (embedding), and the tokens [N, T]. The vectors of the words around a word predict it: its
 * probability is the product of the probabilities of the branches from the root of a binary tree to
 * it (kernels/cpu/skip_gram.c).
 *
 * The tree is the Huffman tree of the counts of the text. The parameter `output` [vocabulary - 1,
 * width] has the vectors of its inner nodes, at first zero. Output and loss of a row are those of
 * negative_sampling. */
#include "layers/share/skip_gram.h"

static const struct sw_opt opts[] = {
    SW_SKIP_GRAM_OPTS(struct sw_skip_gram_conf),
    {0},
};

static int setup(struct sw_layer *l, const struct sw_layer_setup *s, struct sw_err *err)
{
    const struct sw_skip_gram_conf *c = l->conf;
    struct sw_skip_gram *st = l->state;

    int rc = sw_skip_gram_begin(l, s, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_huffman_make(&st->host.tree, st->host.times, st->known, err);
    if (rc != SW_OK)
        return rc;

    st->shape.outputs = st->host.tree.longest;
    st->shape.output_rows = c->vocabulary - 1;

    return sw_skip_gram_finish(l, s, err);
}

static const struct sw_layer_example examples[] = {
    {.recipe = "vocabulary = 6\nwindow = 2\nsubsample = 0\n",
     .src = {{3, {3, 7, 5}, 0}, {2, {3, 7}, 6}},
     .dst = {3}},
    {.recipe = "vocabulary = 33\nwindow = 3\nsubsample = 0.02\nweight = 0.5\n",
     .src = {{3, {2, 30, 20}, 0}, {2, {2, 30}, 33}},
     .dst = {2}},
    {.recipe = "vocabulary = 300\nwindow = 12\nsubsample = 0\n",
     .src = {{3, {2, 26, 20}, 0}, {2, {2, 26}, 300}},
     .dst = {2},
     .tolerance = 1e-3},
    {0},
};

const struct sw_layer_type sw_layer_hierarchical_softmax = {
    .base = SW_TYPE("hierarchical_softmax", "skip-gram: words as paths of a tree of their counts",
                    struct sw_skip_gram_conf, opts, .params = sw_skip_gram_params),
    SW_SKIP_GRAM_TYPE(setup),
    .examples = examples,
};
