/* hinge_loss: penalizes scores that are not separated by a margin. Methods and sources:
 *
 *   one_vs_all  Scores [N, classes] and labels [N], like Caffe's HingeLoss:
 *               m_k = max(0, margin - x_k) for the label, max(0, margin + x_k) for other classes.
 *   ranking     The same sources: the rank loss of DeViSE (Frome et al. 2013, Eq 1):
 *               m_k = max(0, margin - x_label + x_k) for the other classes. If the weights of the
 *               inner_product before it are word vectors, these are scores of embeddings.
 *   both        Scores and targets t >= 0 of the same shape, for several labels of a row: those
 *               with t_k > 0. In ranking the score of the label is then the mean sum t x / sum t,
 *               the score of the mean of the labels' word vectors: DeViSE-L, with which the thesis
 *               compares (5.7.3). A row without labels has no ranking loss.
 *   ranking     Three sources [N, d] anchor, match, other, for pairs of embeddings:
 *               m = max(0, margin - anchor match + anchor other), with dot products. All three
 *               sources get a gradient.
 *
 * L = sum m with norm l1, sum m^2 with l2, averaged over rows. The output is dL/dx, or with three
 * sources dL/dm, [N]. */
#include "kernels/ops/row_loss.h"
#include "layers/share/plain.h"
#include "layers/share/target_loss.h"

enum { ONE_VS_ALL, RANKING };
static const char *const methods[] = {"one_vs_all", "ranking", NULL};

enum { L1, L2 };
static const char *const norms[] = {"l1", "l2", NULL};

enum { ANCHOR, MATCH, OTHER, TRIPLET };

struct conf {
    double weight, margin;
    int method, norm;
};

struct state {
    struct sw_plain src[TRIPLET]; /* with labels only the first, with targets two */
    bool by_target;
};

static const struct sw_opt opts[] = {
    SW_LOSS_WEIGHT_OPT(struct conf, weight),
    SW_OPT(ENUM, struct conf, method,
           "compare each score with the margin, or with the score of the label",
           .def = "one_vs_all", .choices = methods),
    SW_OPT(REAL, struct conf, margin, "required margin between scores", .def = "1", .min = 0,
           .max = 1e6),
    SW_OPT(ENUM, struct conf, norm, "sum of the violations, or of their squares", .def = "l1",
           .choices = norms),
    {0},
};

static bool is_triplet(const struct sw_layer *l)
{
    return l->src_count == TRIPLET;
}

/* ---- Setup ---- */

/* Triplets have a gradient for source 1, so its being a target cannot be said in the descriptor. */
static int need_targets(const struct sw_layer *l, const struct sw_layer_setup *s,
                        struct sw_err *err)
{
    if (s->wants_grad & 1u << 1)
        return sw_err_set(
            err, SW_ERR_INVALID,
            "source 2 has the targets of the scores, which get no gradient: it cannot "
            "be a layer that is trained");
    return sw_layer_need_same_rows(l, 0, 1, err);
}

static int setup_labels(struct sw_layer *l, const struct sw_layer_setup *s, struct sw_err *err)
{
    struct state *st = l->state;

    st->by_target = l->src[1]->desc.ndim > 1;
    int rc = st->by_target ? need_targets(l, s, err) : sw_layer_need_labels(l, 1, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_plain_init(&st->src[0], l, 0, s, err);
    if (rc == SW_OK && st->by_target)
        rc = sw_plain_init(&st->src[1], l, 1, s, err);
    if (rc != SW_OK)
        return rc;

    if (!st->by_target)
        l->labels =
            (struct sw_layer_labels){.src = 1, .classes = st->src[0].columns, .per_sample = 1};
    l->dst.desc = st->src[0].desc;
    l->backward_reads_dst = true;
    return SW_OK;
}

static int setup_triplet(struct sw_layer *l, const struct sw_layer_setup *s, struct sw_err *err)
{
    const struct conf *c = l->conf;
    struct state *st = l->state;
    int rc;

    if (c->method != RANKING)
        return sw_err_set(err, SW_ERR_INVALID,
                          "method = one_vs_all reads scores and labels; three sources (anchor, "
                          "match, other) are for method = ranking");

    for (int k = MATCH; k < TRIPLET; k++) {
        rc = sw_layer_need_src(l, k, 0, err);
        if (rc != SW_OK)
            return rc;
        rc = sw_layer_need_same_rows(l, ANCHOR, k, err);
        if (rc != SW_OK)
            return rc;
    }

    for (int k = ANCHOR; k < TRIPLET; k++) {
        rc = sw_plain_init(&st->src[k], l, k, s, err);
        if (rc != SW_OK)
            return rc;
    }

    l->dst.desc = sw_desc_plain(SW_F32, 1, &st->src[ANCHOR].rows);
    l->backward_reads_dst = true;
    l->backward_reads_src = 1u << ANCHOR | 1u << MATCH | 1u << OTHER;

    return SW_OK;
}

static int setup(struct sw_layer *l, const struct sw_layer_setup *s, struct sw_err *err)
{
    l->flops_forward = 4.0 * (double)sw_desc_count(&l->src[0]->desc);
    l->flops_backward = (is_triplet(l) ? 6.0 : 1.0) * (double)sw_desc_count(&l->src[0]->desc);
    return is_triplet(l) ? setup_triplet(l, s, err) : setup_labels(l, s, err);
}

/* ---- Forward ---- */

static int forward_labels(struct sw_layer *l, const struct sw_pass *r, struct sw_err *err)
{
    const struct conf *c = l->conf;
    const struct state *st = l->state;
    struct sw_row_loss_args a = {.kind = c->method == RANKING ? SW_LOSS_RANKING : SW_LOSS_HINGE,
                                 .who = "hinge_loss",
                                 .rows = st->src[0].rows,
                                 .columns = st->src[0].columns,
                                 .weight = (float)c->weight,
                                 .margin = (float)c->margin,
                                 .squared = c->norm == L2,
                                 .labels = {.label = st->by_target ? NULL : l->src[1]->data},
                                 .step = r->step,
                                 .y = l->dst.data,
                                 .result = l->result};

    int rc = st->by_target ? sw_plain_values(&st->src[1], l, r, &a.target, err) : SW_OK;
    if (rc != SW_OK)
        return rc;

    return sw_plain_forward(&st->src[0], l, r, &a.x, &sw_op_row_loss, &a, err);
}

static int read_triplet(struct sw_layer *l, const struct sw_pass *r, const float *x[TRIPLET],
                        struct sw_err *err)
{
    const struct state *st = l->state;

    for (int k = ANCHOR; k < TRIPLET; k++) {
        int rc = sw_plain_values(&st->src[k], l, r, &x[k], err);
        if (rc != SW_OK)
            return rc;
    }

    return SW_OK;
}

static int forward_triplet(struct sw_layer *l, const struct sw_pass *r, struct sw_err *err)
{
    const struct conf *c = l->conf;
    const struct state *st = l->state;
    const float *x[TRIPLET];

    int rc = read_triplet(l, r, x, err);
    if (rc != SW_OK)
        return rc;

    struct sw_triplet_loss_args a = {.rows = st->src[ANCHOR].rows,
                                     .columns = st->src[ANCHOR].columns,
                                     .weight = (float)c->weight,
                                     .margin = (float)c->margin,
                                     .squared = c->norm == L2,
                                     .anchor = x[ANCHOR],
                                     .match = x[MATCH],
                                     .other = x[OTHER],
                                     .step = r->step,
                                     .slope = l->dst.data,
                                     .result = l->result};
    return sw_op_run(r->stream, &sw_op_triplet_loss, &a, err);
}

static int forward(struct sw_layer *l, const struct sw_pass *r, struct sw_err *err)
{
    return is_triplet(l) ? forward_triplet(l, r, err) : forward_labels(l, r, err);
}

/* ---- Backward ---- */

static int backward_labels(struct sw_layer *l, const struct sw_pass *r, struct sw_err *err)
{
    const struct conf *c = l->conf;
    const struct state *st = l->state;
    struct sw_row_gradient_args a = {.kind = SW_LOSS_HINGE,
                                     .rows = st->src[0].rows,
                                     .columns = st->src[0].columns,
                                     .weight = (float)c->weight,
                                     .y = l->dst.data,
                                     .step = r->step,
                                     .dx = sw_plain_gradient(&st->src[0], l)};

    return sw_plain_backward(&st->src[0], l, r, &sw_op_row_loss_gradient, &a, err);
}

static int backward_triplet(struct sw_layer *l, const struct sw_pass *r, struct sw_err *err)
{
    const struct conf *c = l->conf;
    const struct state *st = l->state;
    const float *x[TRIPLET];

    int rc = read_triplet(l, r, x, err);
    if (rc != SW_OK)
        return rc;

    for (int k = ANCHOR; k < TRIPLET; k++) {
        struct sw_triplet_gradient_args a = {.rows = st->src[k].rows,
                                             .columns = st->src[k].columns,
                                             .weight = (float)c->weight,
                                             .slope = l->dst.data,
                                             .plus = k == ANCHOR  ? x[OTHER]
                                                     : k == OTHER ? x[ANCHOR]
                                                                  : NULL,
                                             .minus = k == ANCHOR  ? x[MATCH]
                                                      : k == MATCH ? x[ANCHOR]
                                                                   : NULL,
                                             .step = r->step,
                                             .dx = sw_plain_gradient(&st->src[k], l)};
        if (!a.dx)
            continue;
        rc = sw_plain_backward(&st->src[k], l, r, &sw_op_triplet_loss_gradient, &a, err);
        if (rc != SW_OK)
            return rc;
    }

    return SW_OK;
}

static int backward(struct sw_layer *l, const struct sw_pass *r, struct sw_err *err)
{
    return is_triplet(l) ? backward_triplet(l, r, err) : backward_labels(l, r, err);
}

/* The margins avoid the kink: no difference of the harness's values is close to them. */
static const struct sw_layer_example examples[] = {
    {.recipe = "", .src = {{2, {4, 8}, 0}, {1, {4}, 8}}, .dst = {4, 8}},
    {.recipe = "norm = l2\nweight = 0.3\n",
     .src = {{4, {2, 16, 1, 1}, 0}, {1, {2}, 16}},
     .dst = {2, 16, 1, 1}},
    {.recipe = "method = ranking\nmargin = 1.0625\n",
     .src = {{2, {4, 8}, 0}, {1, {4}, 8}},
     .dst = {4, 8}},
    {.recipe = "method = ranking\nmargin = 1.0625\nnorm = l2\n",
     .src = {{2, {4, 8}, 0}, {1, {4}, 8}},
     .dst = {4, 8}},
    {.recipe = "norm = l2\n", .src = {{2, {4, 8}, 0}, {2, {4, 8}, 2}}, .dst = {4, 8}},
    {.recipe = "method = ranking\nmargin = 1.0625\n",
     .src = {{2, {4, 8}, 0}, {2, {4, 8}, 2}},
     .dst = {4, 8}},
    {.recipe = "method = ranking\nmargin = 1.0625\nnorm = l2\nweight = 0.3\n",
     .src = {{4, {5, 16, 1, 1}, 0}, {2, {5, 16}, 3}},
     .dst = {5, 16, 1, 1}},
    {.recipe = "method = ranking\n", .src = {{2, {5, 6}, 0}, {2, {5, 6}, 0}, {2, {5, 6}, 0}}},
    {.recipe = "method = ranking\nnorm = l2\nmargin = 9\n",
     .src = {{4, {3, 10, 1, 2}, 0}, {2, {3, 20}, 0}, {4, {3, 10, 2, 1}, 0}}},
    {0},
};

const struct sw_layer_type sw_layer_hinge_loss = {
    .base = SW_TYPE("hinge_loss", "hinge loss of scores, one-vs-all or ranking", struct conf, opts),
    .role = SW_ROLE_LOSS,
    .scores = SW_SCORES_MARGIN,
    .split_reason = "a row's loss needs all its values",
    SW_LAYER_FEATURES(2, 3, 0),
    .state_bytes = sizeof(struct state),
    SW_LAYER_CALLS(setup, forward, backward),
    .examples = examples,
};
