/* perplexity: exp of the mean of -log p_label over all valid rows: a uniform guess among this many
 * classes would be as good as the model (Jelinek, Mercer, Bahl, Baker 1977). Sources: scores before
 * the softmax, [N, classes] or of sequences [N, T, classes], and labels [N] or [N, T]; rows with
 * ignore_label are ignored. */
#include "kernels/ops/softmax_loss.h"
#include "layers/share/class_targets.h"
#include <math.h>

struct conf {
    int64_t ignore_label;
};

struct state {
    struct sw_class_targets by;
    size_t prob_at; /* offset in scratch */
};

static const struct sw_opt opts[] = {
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
    if (!st->by.by_label)
        return sw_err_set(err, SW_ERR_INVALID, "source 2 must be labels");

    st->prob_at = sw_layer_reserve(&l->scratch_bytes, sw_desc_bytes(&st->by.scores.desc));
    l->dst.desc = sw_class_rows(&st->by);
    l->flops_forward = 5.0 * (double)sw_desc_count(&st->by.scores.desc);

    return SW_OK;
}

static int forward(struct sw_layer *l, const struct sw_pass *r, struct sw_err *err)
{
    const struct state *st = l->state;
    struct sw_softmax_loss_args a = {.rows = st->by.scores.rows,
                                     .classes = st->by.scores.columns,
                                     .weight = 1,
                                     .labels = sw_class_labels(&st->by, l),
                                     .step = r->step,
                                     .prob = sw_layer_at(l->scratch, st->prob_at),
                                     .result = l->result};

    return sw_plain_forward(&st->by.scores, l, r, &a.x, &sw_op_softmax_loss, &a, err);
}

static double value(const struct sw_layer *l, const struct sw_result *total, int which)
{
    return total->weight > 0 ? exp(total->sum / total->weight) : (double)NAN;
}

static const struct sw_layer_example examples[] = {
    {.recipe = "", .src = {{2, {4, 10}, 0}, {1, {4}, 10}}},
    {.recipe = "ignore_label = 1\n", .src = {{3, {3, 4, 6}, 0}, {2, {3, 4}, 6}}},
    {0},
};

const struct sw_layer_type sw_layer_perplexity = {
    .base = SW_TYPE("perplexity", "exp of the mean negative log likelihood of labels", struct conf,
                    opts),
    .role = SW_ROLE_METRIC,
    .split_reason = "a row needs all its scores",
    SW_LAYER_FEATURES(2, 2, 0),
    .state_bytes = sizeof(struct state),
    SW_LAYER_CALLS(setup, forward, NULL),
    .value = value,
    .less_is_better = true,
    .examples = examples,
};
