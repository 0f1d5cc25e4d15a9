/* Predicted classes against labels: accuracy with several labels per row and with ignored labels,
 * precision_recall against independently computed counts, and labels that softmax_loss ignores. */
#include "loss_support.h"

enum { ROWS = 30, CLASSES = 6, CELLS = ROWS * CLASSES };

static double value_of(const struct scene *s, const char *name)
{
    const struct sw_layer_type *type = s->g.layer.type;
    for (int i = 0; type->values[i]; i++)
        if (strcmp(type->values[i], name) == 0)
            return type->value(&s->g.layer, s->g.result, i);
    fail_msg("%s says no %s", type->base.name, name);
    return NAN;
}

static void assert_value(const struct scene *s, const char *name, double want)
{
    double have = value_of(s, name);
    if (!(fabs(have - want) < 1e-12))
        fail_msg("%s is %.15g, should be %.15g", name, have, want);
}

static struct scene labeled(const char *type, const char *recipe, int block)
{
    const struct sw_layer_example ex = {
        .recipe = recipe, .src = {{4, {ROWS, CLASSES, 1, 1}, 0}, {1, {ROWS}, CLASSES}}};
    return scene_new(type, &ex, block == 8, block);
}

static struct scene targeted(const char *type, const char *recipe, int block)
{
    const struct sw_layer_example ex = {
        .recipe = recipe, .src = {{4, {ROWS, CLASSES, 1, 1}, 0}, {2, {ROWS, CLASSES}, 2}}};
    return scene_new(type, &ex, block == 8, block);
}

/* Returns the number of scores that rank before score c of a row. */
static int rank_of(const float *x, int c)
{
    int before = 0;
    for (int j = 0; j < CLASSES; j++)
        before += x[j] > x[c] || (x[j] == x[c] && j < c);
    return before;
}

/* ---- accuracy ---- */

static void accuracy_accepts_any_layout(void **state)
{
    struct scene plain = labeled("accuracy", "top_k = 2\n", 0);
    scene_fix_pointers(&plain);
    rig_forward(&plain.g, &plain.v);
    assert_true(plain.v.result.sum > 0 && plain.v.result.sum < ROWS);
    for (int block = 8; block <= 16; block += 8) {
        struct scene s = labeled("accuracy", "top_k = 2\n", block);
        scene_fix_pointers(&s);
        rig_forward(&s.g, &s.v);
        assert_true(s.v.result.sum == plain.v.result.sum && s.v.result.weight == ROWS);
        scene_free(&s);
    }
    scene_free(&plain);
}

/* A row is a hit if its best label is; without labels it is ignored. */
static void accuracy_accepts_several_labels_per_row(void **state)
{
    for (int top_k = 1; top_k <= 3; top_k++)
        for (int block = 0; block <= 16; block += 8) {
            char recipe[32];
            int hits = 0, counted = 0;
            snprintf(recipe, sizeof recipe, "top_k = %d\n", top_k);
            struct scene s = targeted("accuracy", recipe, block);
            scene_fix_pointers(&s);
            for (int c = 0; c < CLASSES; c++)
                s.v.label[1][4 * CLASSES + c] = 0;
            for (int r = 0; r < ROWS; r++) {
                int best = CLASSES;
                for (int c = 0; c < CLASSES; c++)
                    if (s.v.label[1][r * CLASSES + c]) {
                        int rank = rank_of(s.v.src[0] + r * CLASSES, c);
                        best = rank < best ? rank : best;
                    }
                hits += best < top_k;
                counted += best < CLASSES;
            }
            rig_forward(&s.g, &s.v);
            assert_true(counted < ROWS && hits < counted);
            assert_true(s.v.result.sum == hits && s.v.result.weight == counted);
            scene_free(&s);
        }
}

static void ignored_labels_are_not_counted(void **state)
{
    struct scene s = labeled("accuracy", "ignore_label = -1\n", 0);
    int hits = 0;
    scene_fix_pointers(&s);
    for (int r = 0; r < ROWS; r++) {
        if (r % 3 == 0)
            s.v.label[1][r] = -1;
        else
            hits += rank_of(s.v.src[0] + r * CLASSES, s.v.label[1][r]) == 0;
    }
    rig_forward(&s.g, &s.v);
    assert_true(s.v.result.sum == hits && s.v.result.weight == 20);
    scene_free(&s);
}

/* ---- precision_recall ---- */

struct counts {
    double both[CLASSES], predicted[CLASSES], have[CLASSES];
};

static struct counts count_of(const bool (*predicted)[CLASSES], const bool (*have)[CLASSES],
                              int rows)
{
    struct counts k = {{0}, {0}, {0}};
    for (int r = 0; r < rows; r++)
        for (int c = 0; c < CLASSES; c++) {
            k.both[c] += predicted[r][c] && have[r][c];
            k.predicted[c] += predicted[r][c];
            k.have[c] += have[r][c];
        }
    return k;
}

/* Checks the means over classes of the definitions; class -1: over all classes that occur. */
static void assert_macro(const struct scene *s, const struct counts *k, int only)
{
    double precision = 0, recall = 0, f1 = 0;
    int n = 0;
    for (int c = 0; c < CLASSES; c++) {
        if ((only >= 0 && c != only) || k->predicted[c] + k->have[c] == 0)
            continue;
        double p = k->predicted[c] > 0 ? k->both[c] / k->predicted[c] : 0;
        double q = k->have[c] > 0 ? k->both[c] / k->have[c] : 0;
        precision += p;
        recall += q;
        f1 += p + q > 0 ? 2 * p * q / (p + q) : 0;
        n++;
    }
    assert_value(s, "precision", precision / n);
    assert_value(s, "recall", recall / n);
    assert_value(s, "f1", f1 / n);
}

static void assert_micro(const struct scene *s, const struct counts *k)
{
    double both = 0, predicted = 0, have = 0;
    for (int c = 0; c < CLASSES; c++) {
        both += k->both[c];
        predicted += k->predicted[c];
        have += k->have[c];
    }
    assert_value(s, "precision", both / predicted);
    assert_value(s, "recall", both / have);
    assert_value(s, "f1", 2 * both / (predicted + have));
}

static void read_labels(const struct values *v, int top_k, bool (*predicted)[CLASSES],
                        bool (*have)[CLASSES])
{
    for (int r = 0; r < ROWS; r++)
        for (int c = 0; c < CLASSES; c++) {
            predicted[r][c] = rank_of(v->src[0] + r * CLASSES, c) < top_k;
            have[r][c] = v->label[1][r] == c;
        }
}

static void precision_and_recall_by_label(void **state)
{
    for (int block = 0; block <= 16; block += 8)
        for (int only = -1; only < CLASSES; only++) {
            char recipe[32] = "";
            bool predicted[ROWS][CLASSES], have[ROWS][CLASSES];
            if (only >= 0)
                snprintf(recipe, sizeof recipe, "class = %d\n", only);
            struct scene s = labeled("precision_recall", recipe, block);
            scene_fix_pointers(&s);
            for (int r = 0; r < ROWS; r++) /* class 5 is no row's label, but some rows predict it */
                s.v.label[1][r] %= CLASSES - 1;
            read_labels(&s.v, 1, predicted, have);
            s.g.step.valid_rows = ROWS - 4;
            for (int r = ROWS - 4; r < ROWS; r++)
                s.v.label[1][r] = 99;
            struct counts k = count_of(predicted, have, ROWS - 4);
            rig_forward(&s.g, &s.v);
            assert_macro(&s, &k, only);
            scene_free(&s);
        }
}

/* With the best k scores the micro averages are those of the thesis, Eq 5.13. */
static void precision_and_recall_of_several_labels(void **state)
{
    for (int block = 0; block <= 16; block += 8) {
        struct scene s = targeted("precision_recall", "top_k = 3\naverage = micro\n", block);
        bool predicted[ROWS][CLASSES], have[ROWS][CLASSES];
        double right = 0, labels = 0;
        scene_fix_pointers(&s);
        for (int r = 0; r < ROWS; r++)
            for (int c = 0; c < CLASSES; c++) {
                predicted[r][c] = rank_of(s.v.src[0] + r * CLASSES, c) < 3;
                have[r][c] = s.v.label[1][r * CLASSES + c];
                right += predicted[r][c] && have[r][c];
                labels += have[r][c];
            }
        struct counts k = count_of(predicted, have, ROWS);
        rig_forward(&s.g, &s.v);
        assert_micro(&s, &k);
        assert_value(&s, "precision", right / (3 * ROWS));
        assert_value(&s, "recall", right / labels);
        scene_free(&s);
    }
}

static void scores_above_the_threshold_are_predicted(void **state)
{
    struct scene s = targeted("precision_recall", "threshold = 0.25\n", 0);
    bool predicted[ROWS][CLASSES], have[ROWS][CLASSES];
    scene_fix_pointers(&s);
    for (int i = 0; i < CELLS; i++) {
        predicted[i / CLASSES][i % CLASSES] = s.v.src[0][i] > 0.25f;
        have[i / CLASSES][i % CLASSES] = s.v.label[1][i];
    }
    struct counts k = count_of(predicted, have, ROWS);
    rig_forward(&s.g, &s.v);
    assert_macro(&s, &k, -1);
    scene_free(&s);
}

/* One output: label 1 is the class, 0 is not. */
static void one_column_is_a_binary_classifier(void **state)
{
    const struct sw_layer_example ex = {.recipe = "", .src = {{2, {5, 1}, 0}, {1, {5}, 2}}};
    const float scores[5] = {0.9f, 0.8f, 0.1f, 0.2f, 0.7f};
    const int32_t labels[5] = {1, 0, 1, 0, 1};
    struct scene s = scene_new("precision_recall", &ex, false, 0);
    struct sw_err err;
    scene_fix_pointers(&s);
    memcpy(s.v.src[0], scores, sizeof scores);
    memcpy(s.v.label[1], labels, sizeof labels);
    rig_forward(&s.g, &s.v);
    assert_value(&s, "precision", 2.0 / 3);
    assert_value(&s, "recall", 2.0 / 3);
    s.v.label[1][0] = 2;
    assert_int_equal(rig_try_forward(&s.g, &s.v, &err), SW_ERR_INVALID);
    assert_non_null(strstr(err.text, "row 0 is 2, but there are 2 classes"));
    scene_free(&s);
}

static void zero_by_zero_is_zero_and_no_rows_is_nan(void **state)
{
    struct scene s = labeled("precision_recall", "ignore_label = 0\n", 0);
    scene_fix_pointers(&s);
    for (int r = 0; r < ROWS; r++) {
        for (int c = 0; c < CLASSES; c++)
            s.v.src[0][r * CLASSES + c] = c == 1; /* class 1 is always predicted */
        s.v.label[1][r] = 2;
    }
    rig_forward(&s.g, &s.v);
    assert_value(&s, "precision", 0);
    assert_value(&s, "recall", 0);
    assert_value(&s, "f1", 0);
    for (int r = 0; r < ROWS; r++)
        s.v.label[1][r] = 0; /* all labels are ignored */
    rig_forward(&s.g, &s.v);
    assert_true(isnan(value_of(&s, "f1")) && isnan(value_of(&s, "precision")));
    scene_free(&s);
}

/* ---- softmax_loss with ignored labels ---- */

/* The loss is the mean over rows that are not ignored, and the gradient is that of the same batch
 * without the ignored rows. */
static void ignored_rows_do_not_change_the_mean(void **state)
{
    enum { LEFT = 20 };
    const struct sw_layer_example all = {
        .recipe = "weight = 2\nignore_label = 255\n",
        .src = {{4, {ROWS, CLASSES, 1, 1}, 0}, {1, {ROWS}, CLASSES}}};
    const struct sw_layer_example few = {.recipe = "weight = 2\n",
                                         .src = {{2, {LEFT, CLASSES}, 0}, {1, {LEFT}, CLASSES}}};
    for (int block = 0; block <= 16; block += 8) {
        struct scene a = scene_new("softmax_loss", &all, false, block);
        struct scene b = scene_new("softmax_loss", &few, false, 0);
        scene_fix_pointers(&a);
        scene_fix_pointers(&b);
        a.g.step.backward_scale = 1.0f / ROWS;
        b.g.step.backward_scale = 1.0f / LEFT;
        for (int r = 0, n = 0; r < ROWS; r++) {
            if (r % 3 == 1) {
                a.v.label[1][r] = 255;
                continue;
            }
            memcpy(b.v.src[0] + n * CLASSES, a.v.src[0] + r * CLASSES, CLASSES * sizeof(float));
            b.v.label[1][n++] = a.v.label[1][r];
        }
        rig_pass(&a.g, &a.v);
        rig_pass(&b.g, &b.v);
        assert_true(a.v.result.weight == LEFT);
        assert_true(fabs(a.v.result.sum - b.v.result.sum) < 1e-9);
        for (int r = 0, n = 0; r < ROWS; r++)
            for (int c = 0; c < CLASSES; c++) {
                float have = a.v.src_grad[0][r * CLASSES + c];
                float want = r % 3 == 1 ? 0 : b.v.src_grad[0][n * CLASSES + c];
                assert_true(fabsf(have - want) <= 1e-8f);
                n += c == CLASSES - 1 && r % 3 != 1;
            }
        scene_free(&a);
        scene_free(&b);
    }
}

static void batch_without_labels_has_zero_gradient(void **state)
{
    struct scene s = labeled("softmax_loss", "ignore_label = -1\n", 0);
    scene_fix_pointers(&s);
    for (int r = 0; r < ROWS; r++)
        s.v.label[1][r] = -1;
    rig_pass(&s.g, &s.v);
    assert_true(s.v.result.sum == 0 && s.v.result.weight == 0);
    for (int i = 0; i < CELLS; i++)
        assert_true(s.v.src_grad[0][i] == 0);
    scene_free(&s);
}

/* ---- Invalid sources ---- */

static void invalid_sources_are_refused(void **state)
{
    const struct sw_layer_example ignored = {.recipe = "ignore_label = 3\n",
                                             .src = {{2, {4, 5}, 0}, {2, {4, 5}, 0}}};
    const struct sw_layer_example best = {.recipe = "top_k = 6\n",
                                          .src = {{2, {4, 5}, 0}, {2, {4, 5}, 0}}};
    const struct sw_layer_example beyond = {.recipe = "class = 5\n",
                                            .src = {{2, {4, 5}, 0}, {1, {4}, 5}}};
    assert_refused("softmax_loss", &ignored, 0, "source 2 has targets, not labels");
    assert_refused("accuracy", &ignored, 0, "source 2 has targets, not labels");
    assert_refused("precision_recall", &ignored, 0, "source 2 has targets, not labels");
    assert_refused("accuracy", &best, 0, "there are only 5 classes");
    assert_refused("precision_recall", &best, 0, "there are only 5 classes");
    assert_refused("precision_recall", &beyond, 0, "class = 5: there are only 5 classes (0..4)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(accuracy_accepts_any_layout),
        cmocka_unit_test(accuracy_accepts_several_labels_per_row),
        cmocka_unit_test(ignored_labels_are_not_counted),
        cmocka_unit_test(precision_and_recall_by_label),
        cmocka_unit_test(precision_and_recall_of_several_labels),
        cmocka_unit_test(scores_above_the_threshold_are_predicted),
        cmocka_unit_test(one_column_is_a_binary_classifier),
        cmocka_unit_test(zero_by_zero_is_zero_and_no_rows_is_nan),
        cmocka_unit_test(ignored_rows_do_not_change_the_mean),
        cmocka_unit_test(batch_without_labels_has_zero_gradient),
        cmocka_unit_test(invalid_sources_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
