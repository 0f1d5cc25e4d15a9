/* softmax_loss: softmax over the scores of a row, p, followed by the negative log likelihood of its
 * label or targets. Sources: scores [N, classes] (more dimensions are flattened), and either
 *
 *   labels [N], or for sequences [N, T, classes] labels [N, T], every step a row: L = -log p_label,
 *   averaged over the rows of the global batch whose label is not ignore_label; or
 *   targets t >= 0, as many as scores (several labels of a row as 0 and 1, soft labels, a
 *   distribution): L = -sum t log p / sum t, Eq 5.7 of the thesis, averaged over rows. A row
 *   without targets has no loss; sum t = 1 gives Eq 2.13, and one target of 1 gives the above.
 *
 * The output is p; the gradient is p minus the target. */
#include "kernels/ops/softmax_loss.h"
#include "kernels/ops/label_count.h"
#include "kernels/ops/row_loss.h"
#include "layers/share/class_targets.h"
#include "layers/share/target_loss.h"

struct conf {
    double weight;
    int64_t ignore_label;
};

struct state {
    struct sw_class_targets by;
    int64_t batch_rows;
};

static const struct sw_opt opts[] = {
    SW_LOSS_WEIGHT_OPT(struct conf, weight),
    SW_IGNORE_LABEL_OPT(struct conf, ignore_label),
    {0},
};

static int setup(struct sw_layer *l, const struct sw_layer_setup *s, struct sw_err *err)
{
    const struct conf *c = l->conf;
    struct state *st = l->state;

    int rc = sw_class_targets_init(&st->by, l, s, c->ignore_label, err);
    if (rc != SW_OK)
        return rc;

    st->batch_rows = s->batch_rows;
    if (st->by.ignores && s->training) {
        l->phases.backward = 2; /* first the number of valid labels, then the gradient */
        l->phases.sums = 1;
    }

    l->dst.desc = st->by.scores.desc; /* the probabilities, which backward reads */
    l->backward_reads_dst = true;
    l->backward_reads_src = 1u << 1; /* labels or targets */
    l->flops_forward = 5.0 * (double)sw_desc_count(&l->dst.desc);
    l->flops_backward = 2.0 * (double)sw_desc_count(&l->dst.desc);

    return SW_OK;
}

static int forward(struct sw_layer *l, const struct sw_pass *r, struct sw_err *err)
{
    const struct conf *c = l->conf;
    const struct state *st = l->state;
    const struct sw_plain *p = &st->by.scores;
    const float *x, *target;

    int rc = sw_class_values(&st->by, l, r, &x, &target, err);
    if (rc != SW_OK)
        return rc;

    if (st->by.by_label)
        return sw_op_run(r->stream, &sw_op_softmax_loss,
                         &(struct sw_softmax_loss_args){.rows = p->rows,
                                                        .classes = p->columns,
                                                        .weight = (float)c->weight,
                                                        .x = x,
                                                        .labels = sw_class_labels(&st->by, l),
                                                        .step = r->step,
                                                        .prob = l->dst.data,
                                                        .result = l->result},
                         err);

    return sw_op_run(r->stream, &sw_op_row_loss,
                     &(struct sw_row_loss_args){.kind = SW_LOSS_SOFTMAX,
                                                .who = "softmax_loss",
                                                .rows = p->rows,
                                                .columns = p->columns,
                                                .weight = (float)c->weight,
                                                .x = x,
                                                .target = target,
                                                .step = r->step,
                                                .y = l->dst.data,
                                                .result = l->result},
                     err);
}

static int gradient_by_label(struct sw_layer *l, const struct sw_pass *r, float *dx,
                             struct sw_err *err)
{
    const struct conf *c = l->conf;
    const struct state *st = l->state;
    struct sw_softmax_gradient_args a = {.rows = st->by.scores.rows,
                                         .classes = st->by.scores.columns,
                                         .batch_rows = st->batch_rows,
                                         .weight = (float)c->weight,
                                         .prob = l->dst.data,
                                         .labels = sw_class_labels(&st->by, l),
                                         .step = r->step,
                                         .counted = st->by.ignores ? l->sums : NULL,
                                         .dx = dx};

    return sw_op_run(r->stream, &sw_op_softmax_loss_gradient, &a, err);
}

static int gradient_by_target(struct sw_layer *l, const struct sw_pass *r, float *dx,
                              struct sw_err *err)
{
    const struct conf *c = l->conf;
    const struct state *st = l->state;
    struct sw_row_gradient_args a = {.kind = SW_LOSS_SOFTMAX,
                                     .rows = st->by.scores.rows,
                                     .columns = st->by.scores.columns,
                                     .weight = (float)c->weight,
                                     .y = l->dst.data,
                                     .step = r->step,
                                     .dx = dx};

    return sw_plain_forward(&st->by.targets, l, r, &a.target, &sw_op_row_loss_gradient, &a, err);
}

static int backward(struct sw_layer *l, const struct sw_pass *r, struct sw_err *err)
{
    const struct state *st = l->state;

    if (r->phase == 0 && l->phases.backward == 2)
        return sw_op_run(r->stream, &sw_op_label_count,
                         &(struct sw_label_count_args){.rows = st->by.scores.rows,
                                                       .labels = sw_class_labels(&st->by, l),
                                                       .step = r->step,
                                                       .count = l->sums},
                         err);

    float *dx = sw_plain_gradient(&st->by.scores, l);
    int rc = st->by.by_label ? gradient_by_label(l, r, dx, err) : gradient_by_target(l, r, dx, err);
    if (rc != SW_OK)
        return rc;

    return sw_plain_write(&st->by.scores, l, err);
}

static const struct sw_layer_example examples[] = {
    {.recipe = "", .src = {{2, {4, 10}, 0}, {1, {4}, 10}}, .dst = {4, 10}},
    {.recipe = "weight = 0.3\n", .src = {{2, {3, 5}, 0}, {1, {3}, 5}}, .dst = {3, 5}},
    {.recipe = "", .src = {{4, {3, 20, 1, 1}, 0}, {1, {3}, 20}}, .dst = {3, 20, 1, 1}},
    {.recipe = "ignore_label = 1\n", .src = {{2, {12, 3}, 0}, {1, {12}, 3}}, .dst = {12, 3}},
    {.recipe = "weight = 2\n", .src = {{3, {3, 4, 6}, 0}, {2, {3, 4}, 6}}, .dst = {3, 4, 6}},
    {.recipe = "ignore_label = 2\n", .src = {{3, {3, 5, 4}, 0}, {2, {3, 5}, 4}}},
    {.recipe = "",
     .src = {{2, {4, 10}, 0}, {2, {4, 10}, 0}},
     .dst = {4, 10},
     .range = {[1] = {0, 1}}},
    {.recipe = "weight = 0.3\n", .src = {{4, {5, 17, 1, 1}, 0}, {2, {5, 17}, 2}}},
    {0},
};

const struct sw_layer_type sw_layer_softmax_loss = {
    .base =
        SW_TYPE("softmax_loss", "softmax with the negative log likelihood of labels or soft labels",
                struct conf, opts),
    .role = SW_ROLE_LOSS,
    .scores = SW_SCORES_SOFTMAX,
    .split_reason = "a row's loss needs all its scores",
    SW_LAYER_FEATURES(2, 2, 0),
    .targets = 1u << 1,
    .state_bytes = sizeof(struct state),
    SW_LAYER_CALLS(setup, forward, backward),
    .examples = examples,
};
