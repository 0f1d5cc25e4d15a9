/* hinge_loss against its definitions: one-vs-all, ranking, and triplets of embeddings; l1 and l2
 * norm, on any layout, with invalid rows. */
#include "loss_support.h"

/* ---- Labels ---- */

struct shape {
    const char *recipe;
    bool ranking, squared;
    double weight, margin;
};

static const struct shape shapes[] = {
    {"", false, false, 1, 1},
    {"norm = l2\nweight = 0.5\n", false, true, 0.5, 1},
    {"margin = 0.25\n", false, false, 1, 0.25},
    {"method = ranking\n", true, false, 1, 1},
    {"method = ranking\nnorm = l2\nmargin = 0.1\nweight = 3\n", true, true, 3, 0.1},
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

/* Returns the loss of a margin and sets *slope to its derivative. */
static double hinge(const struct shape *k, double m, double *slope)
{
    *slope = m <= 0 ? 0 : k->squared ? 2 * m : 1;
    return m <= 0 ? 0 : k->squared ? m * m : m;
}

static double row_of(const struct shape *k, const float *x, int label, int64_t n, double *g)
{
    double sum = 0, slope;
    memset(g, 0, (size_t)n * sizeof *g);
    for (int64_t j = 0; j < n; j++) {
        if (k->ranking && j != label) {
            sum += hinge(k, k->margin - (double)x[label] + (double)x[j], &slope);
            g[j] += slope;
            g[label] -= slope;
        }
        if (!k->ranking) {
            int sign = j == label ? 1 : -1;
            sum += hinge(k, k->margin - sign * (double)x[j], &slope);
            g[j] = -sign * slope;
        }
    }
    return sum;
}

static void check_labels(const struct shape *k, int64_t rows, int64_t valid, int block)
{
    const struct sw_layer_example ex = {.recipe = k->recipe,
                                        .src = {{4, {rows, 9, 2, 1}, 0}, {1, {rows}, 18}}};
    struct scene s = scene_new("hinge_loss", &ex, block == 8, block);
    struct values *v = &s.v;
    double sum = 0, *gradient = get_doubles(rows * 18);
    scene_fix_pointers(&s);
    memset(gradient, 0, (size_t)rows * 18 * sizeof *gradient);
    for (int64_t r = 0; r < valid; r++)
        sum += row_of(k, v->src[0] + r * 18, v->label[1][r], 18, gradient + r * 18);
    for (int64_t i = 0; i < rows * 18; i++) {
        gradient[i] *= k->weight * (double)s.g.step.backward_scale;
        if (i >= valid * 18)
            v->src[0][i] = NAN;
    }
    for (int64_t r = valid; r < rows; r++)
        v->label[1][r] = -1;
    s.g.step.valid_rows = valid;
    rig_pass(&s.g, v);
    assert_true(sum > 0 && fabs(v->result.sum - k->weight * sum) < 1e-5 * k->weight * sum);
    assert_true(v->result.weight == (double)valid);
    assert_near(k->recipe, v->src_grad[0], gradient, rows * 18, 2e-6);
    free(gradient);
    scene_free(&s);
}

static void label_hinges_match_their_definition(void **state)
{
    for (int i = 0; i < SHAPES; i++)
        for (int block = 0; block <= 16; block += 8) {
            check_labels(&shapes[i], 6, 6, block);
            check_labels(&shapes[i], 6, 2, block);
        }
}

/* ---- Targets ---- */

/* The loss of a row by its targets; in ranking the score of the label is their weighted mean. */
static double row_of_targets(const struct shape *k, const float *x, const int32_t *t, int64_t n,
                             double *g)
{
    double sum = 0, slope, total = 0, mean = 0, slopes = 0;
    memset(g, 0, (size_t)n * sizeof *g);
    for (int64_t j = 0; j < n; j++) {
        total += t[j];
        mean += t[j] * (double)x[j];
    }
    for (int64_t j = 0; j < n; j++) {
        const int sign = t[j] > 0 ? 1 : -1;
        if (!k->ranking) {
            sum += hinge(k, k->margin - sign * (double)x[j], &slope);
            g[j] = -sign * slope;
        } else if (total > 0 && sign < 0) {
            sum += hinge(k, k->margin - mean / total + (double)x[j], &slope);
            g[j] = slope;
            slopes += slope;
        }
    }
    for (int64_t j = 0; k->ranking && j < n; j++)
        g[j] -= t[j] > 0 ? slopes * t[j] / total : 0;
    return sum;
}

static void check_targets(const struct shape *k, int64_t valid, int block)
{
    enum { N = 6, CLASSES = 18 };
    const struct sw_layer_example ex = {.recipe = k->recipe,
                                        .src = {{4, {N, 9, 2, 1}, 0}, {2, {N, CLASSES}, 3}}};
    struct scene s = scene_new("hinge_loss", &ex, block == 8, block);
    struct values *v = &s.v;
    double sum = 0, gradient[N * CLASSES] = {0};
    scene_fix_pointers(&s);
    memset(v->label[1], 0, CLASSES * sizeof *v->label[1]); /* a row without labels */
    for (int64_t r = 0; r < valid; r++)
        sum += row_of_targets(k, v->src[0] + r * CLASSES, v->label[1] + r * CLASSES, CLASSES,
                              gradient + r * CLASSES);
    for (int i = 0; i < N * CLASSES; i++)
        gradient[i] *= k->weight * (double)s.g.step.backward_scale;
    for (int64_t i = valid * CLASSES; i < N * CLASSES; i++)
        v->src[0][i] = NAN;
    s.g.step.valid_rows = valid;
    rig_pass(&s.g, v);
    assert_true(sum > 0 && fabs(v->result.sum - k->weight * sum) < 1e-5 * k->weight * sum);
    assert_true(v->result.weight == (double)valid);
    assert_near(k->recipe, v->src_grad[0], gradient, N * CLASSES, 2e-6);
    scene_free(&s);
}

static void targets_match_their_definition(void **state)
{
    for (int i = 0; i < SHAPES; i++)
        for (int block = 0; block <= 16; block += 8) {
            check_targets(&shapes[i], 6, block);
            check_targets(&shapes[i], 2, block);
        }
}

/* Weights of labels count in the mean. */
static void targets_by_hand(void **state)
{
    const struct sw_layer_example ex = {.recipe = "method = ranking\n",
                                        .src = {{2, {1, 4}, 0}, {2, {1, 4}, 4}}};
    struct scene s = scene_new("hinge_loss", &ex, false, 0);
    scene_fix_pointers(&s);
    memcpy(s.v.src[0], ((float[]){2, -2, 0.5f, -3}), 4 * sizeof(float));
    memcpy(s.v.label[1], ((int32_t[]){3, 1, 0, 0}), 4 * sizeof(int32_t));
    s.g.step.backward_scale = 1;
    rig_pass(&s.g, &s.v);
    assert_true(s.v.result.sum == 0.5); /* the mean score is 1: 1 - 1 + 0.5, and 1 - 1 - 3 < 0 */
    const float g[4] = {-0.75f, -0.25f, 1, 0};
    assert_memory_equal(s.v.src_grad[0], g, sizeof g);
    scene_free(&s);
}

static double loss_by_hand(const char *recipe, const float *scores, int32_t label, float *gradient)
{
    const struct sw_layer_example ex = {.recipe = recipe, .src = {{2, {1, 3}, 0}, {1, {1}, 3}}};
    struct scene s = scene_new("hinge_loss", &ex, false, 0);
    scene_fix_pointers(&s);
    memcpy(s.v.src[0], scores, 3 * sizeof *scores);
    s.v.label[1][0] = label;
    s.g.step.backward_scale = 1;
    rig_pass(&s.g, &s.v);
    memcpy(gradient, s.v.src_grad[0], 3 * sizeof *gradient);
    double sum = s.v.result.sum;
    scene_free(&s);
    return sum;
}

/* Values computed by hand. */
static void small_cases_by_hand(void **state)
{
    const float x[3] = {0.5f, -2, 0.25f};
    float g[3];
    assert_true(loss_by_hand("", x, 0, g) == 0.5 + 1.25); /* 1 - 0.5, 1 - 2 < 0, 1 + 0.25 */
    assert_true(g[0] == -1 && g[1] == 0 && g[2] == 1);
    assert_true(loss_by_hand("norm = l2\n", x, 0, g) == 0.25 + 1.5625);
    assert_true(g[0] == -1 && g[1] == 0 && g[2] == 2.5f);
    assert_true(loss_by_hand("method = ranking\n", x, 0, g) == 0.75); /* 1 - 0.5 + 0.25 */
    assert_true(g[0] == -1 && g[1] == 0 && g[2] == 1);
    assert_true(loss_by_hand("method = ranking\n", x, 1, g) == 3.5 + 3.25);
    assert_true(g[0] == 1 && g[1] == -2 && g[2] == 1);
}

static void large_scores_keep_their_precision(void **state)
{
    const float x[3] = {100, -100, 100};
    float g[3];
    assert_true(loss_by_hand("", x, 1, g) == 101 + 101 + 101);
    assert_true(loss_by_hand("method = ranking\nnorm = l2\n", x, 1, g) == 2 * 201. * 201);
    assert_true(loss_by_hand("method = ranking\n", x, 0, g) ==
                1); /* the class with an equal score */
}

static void nan_score_gives_nan_loss(void **state)
{
    for (int i = 0; i < SHAPES; i++)
        for (int at = 0; at < 3; at++) {
            float x[3] = {5, -5, -5}, g[3];
            x[at] = NAN;
            assert_false(isfinite(loss_by_hand(shapes[i].recipe, x, 0, g)));
        }
}

static void invalid_label_error_names_row_and_value(void **state)
{
    const struct sw_layer_example ex = {.recipe = "", .src = {{2, {4, 5}, 0}, {1, {4}, 5}}};
    struct scene s = scene_new("hinge_loss", &ex, false, 0);
    struct sw_err err;
    scene_fix_pointers(&s);
    s.v.label[1][3] = 5;
    assert_int_equal(rig_try_forward(&s.g, &s.v, &err), SW_ERR_INVALID);
    assert_non_null(strstr(err.text, "hinge_loss: the label of row 3 is 5"));
    scene_free(&s);
}

/* ---- Triplets ---- */

static void check_triplets(const char *recipe, bool squared, double margin, int64_t valid,
                           int block)
{
    enum { N = 5, D = 20 };
    const struct sw_layer_example ex = {
        .recipe = recipe, .src = {{4, {N, 10, 2, 1}, 0}, {2, {N, D}, 0}, {4, {N, 20, 1, 1}, 0}}};
    const struct shape k = {.squared = squared};
    struct scene s = scene_new("hinge_loss", &ex, block == 8, block);
    struct values *v = &s.v;
    double sum = 0, gradient[3][N * D] = {{0}};
    int active = 0;
    scene_fix_pointers(&s);
    for (int64_t r = 0; r < N; r++) {
        double m = margin, slope;
        const float *a = v->src[0] + r * D, *p = v->src[1] + r * D, *q = v->src[2] + r * D;
        for (int i = 0; i < D; i++)
            m += (double)a[i] * ((double)q[i] - (double)p[i]);
        sum += r < valid ? hinge(&k, m, &slope) : 0;
        active += m > 0;
        for (int i = 0; i < D && r < valid; i++) {
            gradient[0][r * D + i] = slope * 0.375 * ((double)q[i] - (double)p[i]);
            gradient[1][r * D + i] = -slope * 0.375 * (double)a[i];
            gradient[2][r * D + i] = slope * 0.375 * (double)a[i];
        }
    }
    assert_true(active > 0 && active < N); /* both sides of the kink are tested */
    for (int64_t i = valid * D; i < N * D; i++)
        v->src[0][i] = v->src[1][i] = v->src[2][i] = NAN;
    s.g.step.valid_rows = valid;
    rig_pass(&s.g, v);
    assert_true(fabs(v->result.sum - sum) < 1e-5 * (1 + sum));
    assert_true(v->result.weight == (double)valid);
    for (int i = 0; i < 3; i++)
        assert_near("triplet", v->src_grad[i], gradient[i], N * D, 2e-6);
    scene_free(&s);
}

static void triplets_match_their_definition(void **state)
{
    for (int block = 0; block <= 16; block += 8) {
        check_triplets("method = ranking\n", false, 1, 5, block);
        check_triplets("method = ranking\n", false, 1, 3, block);
        check_triplets("method = ranking\nnorm = l2\nmargin = 0.5\n", true, 0.5, 5, block);
    }
}

/* ---- Invalid sources ---- */

static void invalid_sources_are_refused(void **state)
{
    const struct sw_layer_example floats = {.recipe = "", .src = {{2, {4, 5}, 0}, {2, {4, 5}, 0}}};
    const struct sw_layer_example columns = {.recipe = "", .src = {{2, {4, 5}, 0}, {2, {4, 6}, 2}}};
    const struct sw_layer_example three = {.recipe = "",
                                           .src = {{2, {4, 5}, 0}, {2, {4, 5}, 0}, {2, {4, 5}, 0}}};
    const struct sw_layer_example uneven = {
        .recipe = "method = ranking\n", .src = {{2, {4, 5}, 0}, {2, {4, 5}, 0}, {2, {4, 6}, 0}}};
    const struct sw_layer_example label = {.recipe = "method = ranking\n",
                                           .src = {{2, {4, 5}, 0}, {2, {4, 5}, 0}, {1, {4}, 5}}};
    assert_refused("hinge_loss", &floats, 0, "which get no gradient");
    assert_refused("hinge_loss", &columns, 0, "must have the same number of rows");
    assert_refused("hinge_loss", &three, 0, "method = ranking");
    assert_refused("hinge_loss", &uneven, 0, "of values per row");
    assert_refused("hinge_loss", &label, 0, "not features");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(label_hinges_match_their_definition),
        cmocka_unit_test(targets_match_their_definition),
        cmocka_unit_test(targets_by_hand),
        cmocka_unit_test(small_cases_by_hand),
        cmocka_unit_test(large_scores_keep_their_precision),
        cmocka_unit_test(nan_score_gives_nan_loss),
        cmocka_unit_test(invalid_label_error_names_row_and_value),
        cmocka_unit_test(triplets_match_their_definition),
        cmocka_unit_test(invalid_sources_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
