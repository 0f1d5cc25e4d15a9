/* precision_recall: of the rows that are said to be of a class, the share that is (precision); of
 * those that are, the share that is said to be (recall); and their harmonic mean (f1), which goes
 * by the metric's name. Sources: scores [N, classes] in any layout, and labels [N] or as many
 * targets as scores, of which those above 1/2 are a row's labels.
 *
 * A row is said to be of the top_k classes with the largest scores, or of those with a score above
 * threshold. Single column and labels 0 and 1: whether the row is of the one class there is.
 *
 *   macro: the mean of each figure over the classes that occur, said or true, as scikit-learn's
 *          precision_recall_fscore_support has it: what cannot be divided is 0
 *   micro: from the sums over all classes; with top_k the thesis' Eq 5.13
 *
 * `class` looks at one class alone. Counts are added over all batches and workers before anything
 * is divided. */
#include "device/op.h"
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
           "mean over classes of each figure, or figures of all counts together", .def = "macro",
           .choices = averages),
    SW_OPT_KEY(INT, "class", struct conf, only, "look at this class alone", .def = "-1", .min = 0,
               .max = 1 << 20),
    SW_OPT(INT, struct conf, top_k,
           "how many of the largest scores are said; default: with labels 1, else by threshold",
           .def = "-1", .min = 1, .max = 1 << 20),
    SW_OPT(REAL, struct conf, threshold, "without top_k: what is above it is said", .def = "0.5"),
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
    if (rc == SW_OK)
        rc = check_classes(c, classes, err);
    if (rc != SW_OK)
        return rc;
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
    return rc == SW_OK ? sw_op_run(r->stream, &sw_op_class_count, &a, err) : rc;
}

static double share(double part, double whole)
{
    return whole > 0 ? part / whole : 0;
}

/* `said` counts the rows that are and are said to be of the class, out of those that are said to;
 * `true_ones` the same out of those that are. */
static double figure(struct sw_result said, struct sw_result true_ones, int which)
{
    switch (which) {
    case PRECISION:
        return share(said.sum, said.weight);
    case RECALL:
        return share(true_ones.sum, true_ones.weight);
    default:
        return share(2 * said.sum, said.weight + true_ones.weight);
    }
}

static double macro(const struct sw_result *total, int64_t from, int64_t to, int which)
{
    double sum = 0;
    int64_t occur = 0;
    for (int64_t c = from; c < to; c++) {
        bool occurs = total[2 * c].weight + total[2 * c + 1].weight > 0;
        occur += occurs;
        sum += occurs ? figure(total[2 * c], total[2 * c + 1], which) : 0;
    }
    return occur > 0 ? sum / (double)occur : (double)NAN;
}

static double micro(const struct sw_result *total, int64_t from, int64_t to, int which)
{
    struct sw_result said = {0, 0}, true_ones = {0, 0};
    for (int64_t c = from; c < to; c++) {
        said.sum += total[2 * c].sum;
        said.weight += total[2 * c].weight;
        true_ones.sum += total[2 * c + 1].sum;
        true_ones.weight += total[2 * c + 1].weight;
    }
    bool any = said.weight + true_ones.weight > 0;
    return any ? figure(said, true_ones, which) : (double)NAN;
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
    .split_reason = "what a row is said to be needs all its scores",
    SW_LAYER_SOURCES(2, 2),
    .state_bytes = sizeof(struct state),
    SW_LAYER_CALLS(setup, forward, NULL),
    .values = values,
    .value = value,
    .examples = examples,
};
