/* precision_recall: the fraction of the rows predicted to be of a class that are of it (precision);
 * the fraction of the rows of a class that are predicted to be (recall); and their harmonic mean
 * (f1), which is reported under the metric's name. Sources: scores [N, classes] in any layout, and
 * labels [N], or as many targets as scores, where targets above 1/2 are the labels of a row.
 *
 * The predicted classes of a row are the top_k classes with the largest scores, or those with a
 * score above threshold. With a single column, labels 0 and 1 say whether a row is of the only
 * class.
 *
 *   macro: the mean over the classes that occur as label or prediction, like scikit-learn's
 *          precision_recall_fscore_support: 0 / 0 is 0
 *   micro: from the sums over all classes; with top_k this is Eq 5.13 of the thesis
 *
 * `class` selects a single class. Counts are summed over all batches and workers before the
 * division. */
#include "kernels/ops/classes.h"
#include "layers/share/class_targets.h"
#include <math.h>

struct conf {
    int64_t top_k, only, ignore_label;
    double threshold;
    int average;
};

enum { MACRO, MICRO };
static const char *const averages[] = {"macro", "micro", NULL};

enum { F1, PRECISION, RECALL };
static const char *const values[] = {"f1", "precision", "recall", NULL};

struct state {
    struct sw_class_targets by;
    int64_t top_k;
};

static const struct sw_opt opts[] = {
    SW_OPT(ENUM, struct conf, average,
           "mean over classes, or a single value from the counts of all classes", .def = "macro",
           .choices = averages),
    SW_OPT_KEY(INT, "class", struct conf, only, "report only this class; default: all", .def = "-1",
               .min = 0, .max = 1 << 20),
    SW_OPT(INT, struct conf, top_k,
           "number of largest scores predicted; default: 1 with labels, else by threshold",
           .def = "-1", .min = 1, .max = 1 << 20),
    SW_OPT(REAL, struct conf, threshold,
           "without top_k: classes with a score above it are predicted", .def = "0.5"),
    SW_IGNORE_LABEL_OPT(struct conf, ignore_label),
    {0},
};

static int check_classes(const struct conf *c, int64_t classes, struct sw_err *err)
{
    if (c->top_k > classes)
        return sw_err_set(err, SW_ERR_INVALID, "top_k = %lld: there are only %lld classes",
                          (long long)c->top_k, (long long)classes);
    if (c->only >= classes)
        return sw_err_set(err, SW_ERR_INVALID,
                          "class = %lld: there are only %lld classes (0..%lld)", (long long)c->only,
                          (long long)classes, (long long)classes - 1);

    return SW_OK;
}

static int setup(struct sw_layer *l, const struct sw_layer_setup *s, struct sw_err *err)
{
    const struct conf *c = l->conf;
    struct state *st = l->state;
    int rc = sw_class_targets_init(&st->by, l, s, c->ignore_label, err);
    int64_t classes = st->by.scores.columns;

    if (rc != SW_OK)
        return rc;

    rc = check_classes(c, classes, err);
    if (rc != SW_OK)
        return rc;

    if (st->by.by_label && classes == 1)
        l->labels.classes = 2;
    st->top_k = c->top_k > 0 ? c->top_k : st->by.by_label && classes > 1 ? 1 : 0;
    l->pair_count = (int)(2 * classes);
    l->dst.desc = sw_class_rows(&st->by);
    l->flops_forward = (double)sw_desc_count(&st->by.scores.desc);

    return SW_OK;
}

static int forward(struct sw_layer *l, const struct sw_pass *r, struct sw_err *err)
{
    const struct conf *c = l->conf;
    const struct state *st = l->state;
    struct sw_class_count_args a = {.rows = st->by.scores.rows,
                                    .classes = st->by.scores.columns,
                                    .top_k = st->top_k,
                                    .threshold = (float)c->threshold,
                                    .labels = sw_class_labels(&st->by, l),
                                    .step = r->step,
                                    .count = l->result};

    int rc = sw_class_values(&st->by, l, r, &a.x, &a.target, err);
    if (rc != SW_OK)
        return rc;

    return sw_op_run(r->stream, &sw_op_class_count, &a, err);
}

static double share(double part, double whole)
{
    return whole > 0 ? part / whole : 0;
}

/* `predicted` counts the true positives out of the predicted rows of a class, `labeled` the true
 * positives out of the rows with its label. */
static double score(struct sw_result predicted, struct sw_result labeled, int which)
{
    switch (which) {
    case PRECISION:
        return share(predicted.sum, predicted.weight);
    case RECALL:
        return share(labeled.sum, labeled.weight);
    default:
        return share(2 * predicted.sum, predicted.weight + labeled.weight);
    }
}

static double macro(const struct sw_result *total, int64_t from, int64_t to, int which)
{
    double sum = 0;
    int64_t occur = 0;

    for (int64_t c = from; c < to; c++) {
        bool occurs = total[2 * c].weight + total[2 * c + 1].weight > 0;
        occur += occurs;
        sum += occurs ? score(total[2 * c], total[2 * c + 1], which) : 0;
    }

    return occur > 0 ? sum / (double)occur : (double)NAN;
}

static double micro(const struct sw_result *total, int64_t from, int64_t to, int which)
{
    struct sw_result predicted = {0, 0}, labeled = {0, 0};

    for (int64_t c = from; c < to; c++) {
        predicted.sum += total[2 * c].sum;
        predicted.weight += total[2 * c].weight;
        labeled.sum += total[2 * c + 1].sum;
        labeled.weight += total[2 * c + 1].weight;
    }

    bool any = predicted.weight + labeled.weight > 0;
    return any ? score(predicted, labeled, which) : (double)NAN;
}

static double value(const struct sw_layer *l, const struct sw_result *total, int which)
{
    const struct conf *c = l->conf;
    const struct state *st = l->state;
    int64_t from = c->only >= 0 ? c->only : 0;
    int64_t to = c->only >= 0 ? c->only + 1 : st->by.scores.columns;

    return c->average == MICRO ? micro(total, from, to, which) : macro(total, from, to, which);
}

static const struct sw_layer_example examples[] = {
    {.recipe = "", .src = {{2, {9, 4}, 0}, {1, {9}, 4}}},
    {.recipe = "class = 1\n", .src = {{4, {9, 20, 1, 1}, 0}, {1, {9}, 20}}},
    {.recipe = "threshold = 0\naverage = micro\n", .src = {{2, {9, 6}, 0}, {2, {9, 6}, 2}}},
    {.recipe = "threshold = 0\n", .src = {{2, {9, 1}, 0}, {1, {9}, 2}}},
    {0},
};

const struct sw_layer_type sw_layer_precision_recall = {
    .base = SW_TYPE("precision_recall", "precision, recall and their harmonic mean, by class",
                    struct conf, opts),
    .role = SW_ROLE_METRIC,
    .split_reason = "the prediction of a row needs all its scores",
    SW_LAYER_FEATURES(2, 2, 0),
    .state_bytes = sizeof(struct state),
    SW_LAYER_CALLS(setup, forward, NULL),
    .values = values,
    .value = value,
    .examples = examples,
};
