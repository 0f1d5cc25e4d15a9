/* accuracy: the fraction of rows with at least one label among the top_k largest scores. Sources:
 * scores [N, classes] in any layout (more dimensions are flattened), and labels [N], or as many
 * targets as scores, where targets above 1/2 are the labels of a row. Of equal scores the one with
 * the lower index counts as larger, so that constant scores are not counted as hits. Rows with
 * ignore_label, or without a label, are ignored. */
#include "kernels/ops/classes.h"
#include "layers/share/class_targets.h"

struct conf {
    int64_t top_k, ignore_label;
};

static const struct sw_opt opts[] = {
    SW_OPT(INT, struct conf, top_k, "number of largest scores that count as a hit", .def = "1",
           .min = 1, .max = 1 << 20),
    SW_IGNORE_LABEL_OPT(struct conf, ignore_label),
    {0},
};

static int setup(struct sw_layer *l, const struct sw_layer_setup *s, struct sw_err *err)
{
    const struct conf *c = l->conf;
    struct sw_class_targets *by = l->state;

    int rc = sw_class_targets_init(by, l, s, c->ignore_label, err);
    if (rc != SW_OK)
        return rc;
    if (c->top_k > by->scores.columns)
        return sw_err_set(err, SW_ERR_INVALID, "top_k = %lld: there are only %lld classes",
                          (long long)c->top_k, (long long)by->scores.columns);

    l->dst.desc = sw_class_rows(by);
    l->flops_forward = (double)sw_desc_count(&by->scores.desc);
    return SW_OK;
}

static int forward(struct sw_layer *l, const struct sw_pass *r, struct sw_err *err)
{
    const struct conf *c = l->conf;
    const struct sw_class_targets *by = l->state;
    struct sw_top_k_args a = {.rows = by->scores.rows,
                              .classes = by->scores.columns,
                              .top_k = c->top_k,
                              .labels = sw_class_labels(by, l),
                              .step = r->step,
                              .result = l->result};

    int rc = sw_class_values(by, l, r, &a.x, &a.target, err);
    if (rc != SW_OK)
        return rc;

    return sw_op_run(r->stream, &sw_op_top_k, &a, err);
}

static const struct sw_layer_example examples[] = {
    {.recipe = "", .src = {{2, {4, 10}, 0}, {1, {4}, 10}}},
    {.recipe = "top_k = 3\n", .src = {{2, {5, 7}, 0}, {1, {5}, 7}}},
    {.recipe = "", .src = {{3, {3, 4, 6}, 0}, {2, {3, 4}, 6}}},
    {.recipe = "ignore_label = 0\n", .src = {{4, {9, 20, 1, 1}, 0}, {1, {9}, 4}}},
    {.recipe = "top_k = 2\n", .src = {{4, {9, 20, 1, 1}, 0}, {2, {9, 20}, 2}}},
    {0},
};

const struct sw_layer_type sw_layer_accuracy = {
    .base = SW_TYPE("accuracy", "fraction of rows whose label is among the best scores",
                    struct conf, opts),
    .role = SW_ROLE_METRIC,
    .split_reason = "the result of a row depends on all its scores",
    SW_LAYER_FEATURES(2, 2, 0),
    .state_bytes = sizeof(struct sw_class_targets),
    SW_LAYER_CALLS(setup, forward, NULL),
    .examples = examples,
};
