/* class_softmax_loss: the negative log likelihood of labels with a softmax in two levels, for large
 * vocabularies (kernels/ops/class_softmax.h; Goodman 2001; Mikolov et al. 2011): first the class of
 * the word, then the word within its class. The layer has the weights of both levels, so that it
 * replaces an inner_product of many outputs and its softmax_loss. Sources: features [N, D] with
 * labels [N], or of sequences [N, T, D] with labels [N, T].
 *
 *   L = -log p(c | x) - log p(w | c, x)      averaged like softmax_loss, with ignore_label
 *
 * A row costs about D (C + V / C) multiply-adds for V words in C classes, instead of D V. The loss
 * is exact: these are probabilities that sum to 1 over all words. With one class it is a flat
 * softmax. class_softmax computes the scores of all words. The output is the probabilities of the
 * classes. Gradients are dense; rows of weight and bias outside the classes that occur in a batch
 * (begin of sw_op_class_group) are zero. */
#include "kernels/ops/gemm.h"
#include "kernels/ops/label_count.h"
#include "kernels/ops/softmax_loss.h"
#include "kernels/ops/sums.h"
#include "layers/share/class_targets.h"
#include "layers/share/target_loss.h"
#include "layers/share/word_classes.h"

struct conf {
    struct sw_word_classes_conf words;
    int64_t classes;
    double weight;
    int64_t ignore_label;
};

struct state {
    struct sw_class_targets by; /* its scores are the features */
    struct sw_word_classes kind;
    int64_t batch_rows, rows, width, widest;
    size_t label_at, order_at, begin_at, grouped_at, prob_at; /* offsets in saved */
    size_t dscore_at, dgrouped_at;                            /* offsets in scratch */
};

static const struct sw_opt opts[] = {
    SW_WORD_CLASSES_OPTS(struct conf, words),
    SW_OPT(INT, struct conf, classes,
           "number of classes; 0: about the square root of the vocabulary", .def = "0", .min = 0,
           .max = SW_MAX_WORD_CLASSES),
    SW_LOSS_WEIGHT_OPT(struct conf, weight),
    SW_IGNORE_LABEL_OPT(struct conf, ignore_label),
    {0},
};

static size_t reserve(size_t *at, int64_t elements)
{
    return sw_layer_reserve(at, (size_t)elements * sizeof(float));
}

/* The layout of the output: the classes of every row. */
static struct sw_desc class_rows(const struct state *st)
{
    const int64_t steps = st->by.per_sample,
                  dim[] = {st->rows / steps, steps > 1 ? steps : st->kind.classes,
                           st->kind.classes};
    return sw_desc_plain(SW_F32, steps > 1 ? 3 : 2, dim);
}

static void reserve_memory(struct sw_layer *l, const struct sw_layer_setup *s)
{
    struct state *st = l->state;

    st->label_at = reserve(&l->saved_bytes, st->rows);
    st->order_at = reserve(&l->saved_bytes, st->rows);
    st->begin_at = reserve(&l->saved_bytes, st->kind.classes + 1);
    st->grouped_at = reserve(&l->saved_bytes, st->rows * st->width);
    st->prob_at = reserve(&l->saved_bytes, st->rows * st->widest);
    if (!s->training)
        return;

    st->dscore_at = reserve(&l->scratch_bytes, st->rows * st->kind.classes);
    st->dgrouped_at = reserve(&l->scratch_bytes, st->rows * st->width);
}

static int setup(struct sw_layer *l, const struct sw_layer_setup *s, struct sw_err *err)
{
    const struct conf *c = l->conf;
    struct state *st = l->state;

    int rc = sw_class_targets_init(&st->by, l, s, c->ignore_label, err);
    if (rc != SW_OK)
        return rc;
    if (!st->by.by_label)
        return sw_err_set(err, SW_ERR_INVALID, "source 2 must be labels");
    rc = sw_word_classes_init(&st->kind, &c->words, c->classes, err);
    if (rc != SW_OK)
        return rc;

    l->labels.classes = st->kind.words;
    st->rows = st->by.scores.rows;
    st->width = st->by.scores.columns;
    st->widest = sw_class_widest(&st->kind);
    st->batch_rows = s->batch_rows;
    if (st->by.ignores && s->training) {
        l->phases.backward = 2; /* first the number of valid labels, then the gradient */
        l->phases.sums = 1;
    }

    sw_word_classes_add_params(&st->kind, l, st->width);
    reserve_memory(l, s);
    l->dst.desc = class_rows(st);
    l->backward_reads_dst = true;
    l->backward_reads_src = 3; /* features and labels */
    l->flops_forward =
        2.0 * (double)st->rows * (double)st->width *
        ((double)st->kind.classes + (double)st->kind.words / (double)st->kind.classes);
    l->flops_backward = 2 * l->flops_forward;

    return SW_OK;
}

/* The classes of the labels, which sw_op_class_group writes. */
static struct sw_labels labels_of_classes(const struct sw_layer *l)
{
    const struct state *st = l->state;
    return (struct sw_labels){.label = sw_layer_at(l->saved, st->label_at),
                              .ignores = st->by.ignores,
                              .ignored = -1,
                              .per_sample = st->by.per_sample};
}

/* ---- Forward ---- */

static int group(struct sw_layer *l, const struct sw_pass *r, struct sw_err *err)
{
    const struct state *st = l->state;
    const struct sw_class_group_args a = {.rows = st->rows,
                                          .kind = st->kind,
                                          .labels = sw_class_labels(&st->by, l),
                                          .step = r->step,
                                          .label = sw_layer_at(l->saved, st->label_at),
                                          .order = sw_layer_at(l->saved, st->order_at),
                                          .begin = sw_layer_at(l->saved, st->begin_at)};
    return sw_op_run(r->stream, &sw_op_class_group, &a, err);
}

static int choose_word(struct sw_layer *l, const struct sw_pass *r, const float *x,
                       struct sw_err *err)
{
    const struct state *st = l->state;
    const struct sw_class_words_args a = {.rows = st->rows,
                                          .width = st->width,
                                          .widest = st->widest,
                                          .kind = st->kind,
                                          .factor = (float)((const struct conf *)l->conf)->weight,
                                          .labels = sw_class_labels(&st->by, l),
                                          .order = sw_layer_at(l->saved, st->order_at),
                                          .begin = sw_layer_at(l->saved, st->begin_at),
                                          .x = x,
                                          .weight = l->param[SW_WORD_WEIGHT].value,
                                          .bias = l->param[SW_WORD_BIAS].value,
                                          .grouped = sw_layer_at(l->saved, st->grouped_at),
                                          .prob = sw_layer_at(l->saved, st->prob_at),
                                          .result = l->result};
    return sw_op_run(r->stream, &sw_op_class_words, &a, err);
}

static int forward(struct sw_layer *l, const struct sw_pass *r, struct sw_err *err)
{
    const struct state *st = l->state;
    const float *x;

    int rc = sw_plain_values(&st->by.scores, l, r, &x, err);
    if (rc != SW_OK)
        return rc;
    rc = group(l, r, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_word_classes_score(l, r, SW_CLASS_WEIGHT, st->rows, x, l->dst.data, err);
    if (rc != SW_OK)
        return rc;

    const struct sw_softmax_loss_args a = {.rows = st->rows,
                                           .classes = st->kind.classes,
                                           .weight = (float)((const struct conf *)l->conf)->weight,
                                           .x = l->dst.data,
                                           .labels = labels_of_classes(l),
                                           .step = r->step,
                                           .prob = l->dst.data,
                                           .result = l->result};
    rc = sw_op_run(r->stream, &sw_op_softmax_loss, &a, err);
    if (rc != SW_OK)
        return rc;

    return choose_word(l, r, x, err);
}

/* ---- Backward ---- */

/* The gradients of the weights of the classes, and of the source, dx. */
static int gradient_of_classes(struct sw_layer *l, const struct sw_pass *r, float *dx,
                               struct sw_err *err)
{
    const struct state *st = l->state;
    float *dscore = sw_layer_at(l->scratch, st->dscore_at);
    const struct sw_softmax_gradient_args softmax = {
        .rows = st->rows,
        .classes = st->kind.classes,
        .batch_rows = st->batch_rows,
        .weight = (float)((const struct conf *)l->conf)->weight,
        .prob = l->dst.data,
        .labels = labels_of_classes(l),
        .step = r->step,
        .counted = st->by.ignores ? l->sums : NULL,
        .dx = dscore};
    struct sw_gemm_args weight = {.trans_a = true,
                                  .m = st->kind.classes,
                                  .n = st->width,
                                  .k = st->rows,
                                  .alpha = 1,
                                  .a = dscore,
                                  .c = l->param[SW_CLASS_WEIGHT].grad};
    const struct sw_gemm_args source = {.m = st->rows,
                                        .n = st->width,
                                        .k = st->kind.classes,
                                        .alpha = 1,
                                        .a = dscore,
                                        .b = l->param[SW_CLASS_WEIGHT].value,
                                        .c = dx};
    const struct sw_sum_rows_args bias = {.rows = st->rows,
                                          .columns = st->kind.classes,
                                          .x = dscore,
                                          .sum = l->param[SW_CLASS_BIAS].grad};

    int rc = sw_plain_values(&st->by.scores, l, r, &weight.b, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_op_run(r->stream, &sw_op_softmax_loss_gradient, &softmax, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_op_run(r->stream, &sw_op_gemm, &weight, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_op_run(r->stream, &sw_op_sum_rows, &bias, err);
    if (rc != SW_OK)
        return rc;

    return dx ? sw_op_run(r->stream, &sw_op_gemm, &source, err) : SW_OK;
}

static int gradient_of_words(struct sw_layer *l, const struct sw_pass *r, float *dx,
                             struct sw_err *err)
{
    const struct state *st = l->state;
    const struct sw_class_words_gradient_args a = {
        .rows = st->rows,
        .width = st->width,
        .widest = st->widest,
        .batch_rows = st->batch_rows,
        .kind = st->kind,
        .factor = (float)((const struct conf *)l->conf)->weight,
        .labels = sw_class_labels(&st->by, l),
        .step = r->step,
        .counted = st->by.ignores ? l->sums : NULL,
        .order = sw_layer_at(l->saved, st->order_at),
        .begin = sw_layer_at(l->saved, st->begin_at),
        .weight = l->param[SW_WORD_WEIGHT].value,
        .grouped = sw_layer_at(l->saved, st->grouped_at),
        .prob = sw_layer_at(l->saved, st->prob_at),
        .dweight = l->param[SW_WORD_WEIGHT].grad,
        .dbias = l->param[SW_WORD_BIAS].grad,
        .dgrouped = dx ? sw_layer_at(l->scratch, st->dgrouped_at) : NULL,
        .dx = dx};
    return sw_op_run(r->stream, &sw_op_class_words_gradient, &a, err);
}

static int backward(struct sw_layer *l, const struct sw_pass *r, struct sw_err *err)
{
    const struct state *st = l->state;

    if (r->phase == 0 && l->phases.backward == 2)
        return sw_op_run(r->stream, &sw_op_label_count,
                         &(struct sw_label_count_args){.rows = st->rows,
                                                       .labels = sw_class_labels(&st->by, l),
                                                       .step = r->step,
                                                       .count = l->sums},
                         err);

    float *dx = sw_plain_gradient(&st->by.scores, l);
    int rc = gradient_of_classes(l, r, dx, err);
    if (rc != SW_OK)
        return rc;
    rc = gradient_of_words(l, r, dx, err);
    if (rc != SW_OK)
        return rc;

    return sw_plain_write(&st->by.scores, l, err);
}

static const struct sw_layer_example examples[] = {
    {.recipe = "vocabulary = 10\n", .src = {{2, {6, 7}, 0}, {1, {6}, 10}}, .dst = {6, 3}},
    {.recipe = "vocabulary = 30\nclasses = 4\nweight = 0.3\nbins = equal\n",
     .src = {{2, {9, 5}, 0}, {1, {9}, 30}},
     .dst = {9, 4}},
    {.recipe = "vocabulary = 12\nclasses = 1\n", .src = {{4, {4, 20, 1, 1}, 0}, {1, {4}, 12}}},
    {.recipe = "vocabulary = 8\nclasses = 8\n", .src = {{2, {5, 3}, 0}, {1, {5}, 8}}},
    {.recipe = "vocabulary = 9\nignore_label = 1\n", .src = {{2, {12, 4}, 0}, {1, {12}, 9}}},
    {.recipe = "vocabulary = 700\nclasses = 2\nweight = 2\n",
     .src = {{3, {3, 4, 6}, 0}, {2, {3, 4}, 700}},
     .dst = {3, 4, 2}},
    {.recipe = "vocabulary = 6\nignore_label = 2\n", .src = {{3, {3, 5, 4}, 0}, {2, {3, 5}, 6}}},
    {0},
};

const struct sw_layer_type sw_layer_class_softmax_loss = {
    .base = SW_TYPE("class_softmax_loss",
                    "negative log likelihood of words, with a softmax over classes of words",
                    struct conf, opts, .params = sw_word_classes_params),
    .role = SW_ROLE_LOSS,
    .split_reason = "a row's loss needs the scores of all classes",
    SW_LAYER_FEATURES(2, 2, 0),
    .targets = 1u << 1,
    .state_bytes = sizeof(struct state),
    SW_LAYER_CALLS(setup, forward, backward),
    .examples = examples,
};
