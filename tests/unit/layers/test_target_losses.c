/* Losses against targets (euclidean_loss, sigmoid_cross_entropy, poisson_loss, softmax_loss with
 * targets) and reconstruction_error: their definitions in double, on any layout, with invalid rows,
 * values far from zero, and invalid targets. */
#include "loss_support.h"

/* Returns the loss of a row and, unless g is NULL, sets g to its derivative by x. */
typedef double definition(const float *x, const float *t, int64_t n, double *g);

static double euclidean(const float *x, const float *t, int64_t n, double *g)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        double d = (double)x[i] - (double)t[i];
        sum += d * d / 2;
        g[i] = d;
    }
    return sum;
}

/* The textbook formula; accurate for scores within +-30. */
static double sigmoid(const float *x, const float *t, int64_t n, double *g)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        double p = 1 / (1 + exp(-(double)x[i])), q = 1 / (1 + exp((double)x[i]));
        sum -= (double)t[i] * log(p) + (1 - (double)t[i]) * log(q);
        g[i] = p - (double)t[i];
    }
    return sum;
}

static double softmax_of(const float *x, int64_t n, double *p)
{
    double largest = -INFINITY, sum = 0;
    for (int64_t i = 0; i < n; i++)
        largest = fmax(largest, (double)x[i]);
    for (int64_t i = 0; i < n; i++)
        sum += p[i] = exp((double)x[i] - largest);
    for (int64_t i = 0; i < n; i++)
        p[i] /= sum;
    return largest + log(sum); /* of all exponentials */
}

/* Thesis, Eq 5.7. */
static double soft_labels(const float *x, const float *t, int64_t n, double *g)
{
    double total = 0, sum = 0, all = softmax_of(x, n, g);
    for (int64_t i = 0; i < n; i++)
        total += (double)t[i];
    for (int64_t i = 0; i < n; i++) {
        sum -= total > 0 ? (double)t[i] * ((double)x[i] - all) / total : 0;
        g[i] = total > 0 ? g[i] - (double)t[i] / total : 0;
    }
    return sum;
}

/* Thesis, Eq 5.3 to 5.5, with Gamma for the factorial. */
static double poisson(const float *x, const float *t, int64_t n, double *g)
{
    double total = 0, sum = 0, all = softmax_of(x, n, g);
    for (int64_t i = 0; i < n; i++)
        total += (double)t[i];
    for (int64_t i = 0; i < n && total > 0; i++) {
        double log_rate = log(total) + (double)x[i] - all;
        sum += exp(log_rate) - (double)t[i] * log_rate + lgamma((double)t[i] + 1);
    }
    for (int64_t i = 0; i < n; i++)
        g[i] = total * g[i] - (double)t[i];
    return sum;
}

static const struct loss {
    const char *type;
    definition *value;
    double from, to; /* of targets */
    bool both;       /* the target gets a gradient too */
} losses[] = {
    {"euclidean_loss", euclidean, -2, 2, true},
    {"sigmoid_cross_entropy", sigmoid, 0, 1, false},
    {"softmax_loss", soft_labels, 0, 1, false},
    {"poisson_loss", poisson, 0, 6, false},
};
enum { LOSSES = sizeof losses / sizeof *losses };

/* Fills invalid rows with values that must not matter. */
static void spoil_rows(struct values *v, int64_t rows, int64_t valid)
{
    int64_t n = v->src_n[0] / rows;
    for (int64_t i = valid * n; i < rows * n; i++) {
        v->src[0][i] = NAN;
        if (v->src[1])
            v->src[1][i] = i % 2 ? NAN : -7;
    }
}

static void check_loss(const struct loss *loss, const struct sw_layer_example *ex, bool reference,
                       int block, int64_t valid, double weight)
{
    struct scene s = scene_new(loss->type, ex, reference, block);
    scene_fix_pointers(&s);
    struct values *v = &s.v;
    int64_t rows = ex->src[0].dim[0], n = v->src_n[0] / rows;
    double sum = 0, scale = weight * (double)s.g.step.backward_scale;
    double *gradient = get_doubles(rows * n), *other = get_doubles(rows * n);
    spoil_rows(v, rows, valid);
    memset(gradient, 0, (size_t)(rows * n) * sizeof *gradient);
    for (int64_t r = 0; r < valid; r++)
        sum += loss->value(v->src[0] + r * n, v->src[1] + r * n, n, gradient + r * n);
    for (int64_t i = 0; i < rows * n; i++) {
        gradient[i] *= scale;
        other[i] = -gradient[i];
    }
    s.g.step.valid_rows = valid;
    rig_pass(&s.g, v);
    if (!(fabs(v->result.sum - weight * sum) < 1e-5 * (1 + fabs(weight * sum))))
        fail_msg("%s: %.9g, should be %.9g", loss->type, v->result.sum, weight * sum);
    assert_true(v->result.weight == (double)valid);
    assert_near(loss->type, v->src_grad[0], gradient, rows * n, 3e-6);
    if (loss->both)
        assert_near(loss->type, v->src_grad[1], other, rows * n, 3e-6);
    else
        assert_null(s.g.layer.src_grad[1]);
    free(gradient);
    free(other);
    scene_free(&s);
}

static void losses_match_their_definitions(void **state)
{
    for (int i = 0; i < LOSSES; i++) {
        const struct loss *l = &losses[i];
        struct sw_layer_example flat = {.recipe = "",
                                        .src = {{2, {7, 10}, 0}, {2, {7, 10}, 0}},
                                        .range = {[1] = {l->from, l->to}}};
        struct sw_layer_example wide = {.recipe = "weight = 0.5\n",
                                        .src = {{2, {3, 4001}, 0}, {2, {3, 4001}, 0}},
                                        .range = {[1] = {l->from, l->to}}};
        struct sw_layer_example image = {.recipe = "weight = 2\n",
                                         .src = {{4, {4, 9, 2, 3}, 0}, {4, {4, 9, 2, 3}, 0}},
                                         .range = {[1] = {l->from, l->to}}};
        struct sw_layer_example mixed = {.recipe = "",
                                         .src = {{2, {4, 54}, 0}, {4, {4, 9, 3, 2}, 0}},
                                         .range = {[1] = {l->from, l->to}}};
        for (int reference = 0; reference < 2; reference++) {
            check_loss(l, &flat, reference, 0, 7, 1);
            check_loss(l, &flat, reference, 0, 4, 1);
            check_loss(l, &wide, reference, 0, 3, 0.5);
            for (int block = 0; block <= 16; block += 8) {
                check_loss(l, &image, reference, block, 4, 2);
                check_loss(l, &image, reference, block, 1, 2);
                check_loss(l, &mixed, reference, block, 3, 1);
            }
        }
    }
}

/* ---- Integers ---- */

static void targets_may_be_integers(void **state)
{
    for (int i = 0; i < LOSSES; i++) {
        struct sw_layer_example whole = {.recipe = "", .src = {{2, {5, 6}, 0}, {2, {5, 6}, 2}}};
        struct sw_layer_example real = {.recipe = "", .src = {{2, {5, 6}, 0}, {2, {5, 6}, 0}}};
        struct scene a = scene_new(losses[i].type, &whole, false, 0);
        struct scene b = scene_new(losses[i].type, &real, false, 0);
        scene_fix_pointers(&a);
        scene_fix_pointers(&b);
        memcpy(b.v.src[0], a.v.src[0], 30 * sizeof(float));
        for (int k = 0; k < 30; k++)
            b.v.src[1][k] = (float)a.v.label[1][k];
        rig_pass(&a.g, &a.v);
        rig_pass(&b.g, &b.v);
        assert_true(a.v.result.sum == b.v.result.sum && a.v.result.weight == 5);
        assert_same_bits(losses[i].type, a.v.src_grad[0], b.v.src_grad[0], 30 * sizeof(float));
        scene_free(&a);
        scene_free(&b);
    }
}

/* A regression: one value per row against its label. */
static void a_label_is_a_target_of_one_value(void **state)
{
    const struct sw_layer_example ex = {.recipe = "", .src = {{2, {3, 1}, 0}, {1, {3}, 9}}};
    struct scene s = scene_new("euclidean_loss", &ex, false, 0);
    scene_fix_pointers(&s);
    for (int r = 0; r < 3; r++) {
        s.v.src[0][r] = (float)r + 0.5f;
        s.v.label[1][r] = 2 * r;
    }
    rig_pass(&s.g, &s.v);
    assert_true(s.v.result.sum == (0.25 + 0.25 + 2.25) / 2);
    assert_true(s.v.src_grad[0][2] == 0.375f * (2.5f - 4));
    scene_free(&s);
}

/* ---- Far from zero ---- */

/* Scores of +-100 and targets at both ends: no overflow and no loss of precision. */
static void losses_are_stable_far_from_zero(void **state)
{
    const struct sw_layer_example ex = {.recipe = "", .src = {{2, {1, 4}, 0}, {2, {1, 4}, 0}}};
    const float scores[4] = {100, -100, 100, -100}, targets[4] = {1, 0, 0, 1};
    const double sums[LOSSES] = {(99. * 99 + 100. * 100 + 100. * 100 + 101. * 101) / 2,
                                 200 /* two wrong by 100 each */, 0, 0};
    for (int i = 0; i < LOSSES; i++) {
        struct scene s = scene_new(losses[i].type, &ex, false, 0);
        double gradient[4], sum = sums[i];
        scene_fix_pointers(&s);
        memcpy(s.v.src[0], scores, sizeof scores);
        memcpy(s.v.src[1], targets, sizeof targets);
        rig_pass(&s.g, &s.v);
        if (i >= 2)
            sum = losses[i].value(scores, targets, 4, gradient);
        if (!(fabs(s.v.result.sum - sum) <= 1e-6 * sum))
            fail_msg("%s: %.9g, should be %.9g", losses[i].type, s.v.result.sum, sum);
        for (int k = 0; k < 4; k++)
            assert_true(isfinite(s.v.src_grad[0][k]));
        scene_free(&s);
    }
}

static void correct_large_scores_have_no_loss(void **state)
{
    const struct sw_layer_example ex = {.recipe = "", .src = {{2, {1, 2}, 0}, {2, {1, 2}, 0}}};
    struct scene s = scene_new("sigmoid_cross_entropy", &ex, false, 0);
    scene_fix_pointers(&s);
    s.v.src[0][0] = 100;
    s.v.src[0][1] = -100;
    s.v.src[1][0] = 1;
    s.v.src[1][1] = 0;
    rig_pass(&s.g, &s.v);
    assert_true(s.v.result.sum >= 0 && s.v.result.sum < 1e-40);
    assert_true(s.v.src_grad[0][0] == 0);
    assert_true(s.v.dst[1] > 0 && s.v.dst[1] < 1e-42f); /* exp -100, not rounded to 0 */
    scene_free(&s);
}

/* A NaN score must not give a finite loss, whatever its target is. */
static void nan_score_gives_nan_loss(void **state)
{
    const struct sw_layer_example ex = {.recipe = "", .src = {{2, {3, 21}, 0}, {2, {3, 21}, 2}}};
    for (int i = 0; i < LOSSES; i++)
        for (int at = 0; at < 63; at++) {
            struct scene s = scene_new(losses[i].type, &ex, false, 0);
            scene_fix_pointers(&s);
            s.v.src[0][at] = NAN;
            rig_forward(&s.g, &s.v);
            assert_false(isfinite(s.v.result.sum));
            scene_free(&s);
        }
}

/* ---- Special cases ---- */

/* A row without targets has no loss and no gradient, but is counted as a row. */
static void a_row_without_targets_has_no_loss(void **state)
{
    const struct sw_layer_example ex = {.recipe = "", .src = {{2, {2, 3}, 0}, {2, {2, 3}, 0}}};
    static const char *const types[] = {"softmax_loss", "poisson_loss"};
    for (int i = 0; i < 2; i++) {
        struct scene s = scene_new(types[i], &ex, false, 0);
        scene_fix_pointers(&s);
        memset(s.v.src[1], 0, 6 * sizeof(float));
        rig_pass(&s.g, &s.v);
        assert_true(s.v.result.sum == 0 && s.v.result.weight == 2);
        for (int k = 0; k < 6; k++)
            assert_true(s.v.src_grad[0][k] == 0);
        scene_free(&s);
    }
}

static void one_hot_target_equals_a_label(void **state)
{
    const struct sw_layer_example labels = {.recipe = "", .src = {{2, {4, 9}, 0}, {1, {4}, 9}}};
    const struct sw_layer_example targets = {.recipe = "", .src = {{2, {4, 9}, 0}, {2, {4, 9}, 2}}};
    struct scene a = scene_new("softmax_loss", &labels, false, 0);
    struct scene b = scene_new("softmax_loss", &targets, false, 0);
    double want[36];
    scene_fix_pointers(&a);
    scene_fix_pointers(&b);
    memcpy(b.v.src[0], a.v.src[0], 36 * sizeof(float));
    for (int k = 0; k < 36; k++)
        b.v.label[1][k] = k % 9 == a.v.label[1][k / 9];
    rig_pass(&a.g, &a.v);
    rig_pass(&b.g, &b.v);
    assert_true(fabs(a.v.result.sum - b.v.result.sum) < 1e-12);
    for (int k = 0; k < 36; k++)
        want[k] = (double)a.v.src_grad[0][k];
    assert_near("gradient", b.v.src_grad[0], want, 36, 1e-7);
    scene_free(&a);
    scene_free(&b);
}

/* A reconstruction has the length of the text. */
static void poisson_reconstruction_keeps_the_word_count(void **state)
{
    const struct sw_layer_example ex = {.recipe = "", .src = {{2, {3, 50}, 0}, {2, {3, 50}, 5}}};
    struct scene s = scene_new("poisson_loss", &ex, false, 0);
    scene_fix_pointers(&s);
    rig_forward(&s.g, &s.v);
    for (int r = 0; r < 3; r++) {
        double words = 0, given = 0;
        for (int k = 0; k < 50; k++) {
            words += s.v.label[1][r * 50 + k];
            given += (double)s.v.dst[r * 50 + k];
        }
        assert_true(words > 50 && fabs(given - words) < 1e-4);
    }
    scene_free(&s);
}

/* ---- reconstruction_error ---- */

static void reconstruction_error_is_the_squared_distance(void **state)
{
    const struct sw_layer_example ex = {.recipe = "",
                                        .src = {{4, {4, 9, 2, 3}, 0}, {2, {4, 54}, 0}}};
    for (int block = 0; block <= 16; block += 8) {
        struct scene s = scene_new("reconstruction_error", &ex, block == 8, block);
        double sum = 0;
        scene_fix_pointers(&s);
        for (int i = 0; i < 3 * 54; i++)
            sum += pow((double)s.v.src[0][i] - (double)s.v.src[1][i], 2);
        spoil_rows(&s.v, 4, 3);
        s.g.step.valid_rows = 3;
        rig_forward(&s.g, &s.v);
        assert_true(fabs(s.v.result.sum - sum) < 1e-5 * sum);
        assert_true(s.v.result.weight == 3);
        scene_free(&s);
    }
}

/* Points (x, 2 x + e): the error of the principal component is the smaller eigenvalue of the
 * covariance. */
static void reconstruction_error_of_pca_is_the_omitted_variance(void **state)
{
    enum { N = 64 };
    const struct sw_layer_example ex = {.recipe = "", .src = {{2, {N, 2}, 0}, {2, {N, 2}, 0}}};
    struct scene s = scene_new("reconstruction_error", &ex, false, 0);
    struct rng r = rng_of(5);
    double mean[2] = {0}, cov[3] = {0};
    scene_fix_pointers(&s);
    float *x = s.v.src[0];
    for (int i = 0; i < N; i++) {
        x[2 * i] = rng_real(&r, -1, 1);
        x[2 * i + 1] = 2 * x[2 * i] + rng_real(&r, -0.5, 0.5);
        mean[0] += (double)x[2 * i] / N;
        mean[1] += (double)x[2 * i + 1] / N;
    }
    for (int i = 0; i < N; i++) {
        double a = (double)x[2 * i] - mean[0], b = (double)x[2 * i + 1] - mean[1];
        cov[0] += a * a / N;
        cov[1] += a * b / N;
        cov[2] += b * b / N;
    }
    double middle = (cov[0] + cov[2]) / 2, half = (cov[0] - cov[2]) / 2;
    double radius = sqrt(half * half + cov[1] * cov[1]);
    double axis[2] = {cov[1], middle + radius - cov[0]}, length = hypot(axis[0], axis[1]);
    for (int i = 0; i < N; i++) {
        double code =
            (((double)x[2 * i] - mean[0]) * axis[0] + ((double)x[2 * i + 1] - mean[1]) * axis[1]) /
            length;
        for (int k = 0; k < 2; k++)
            s.v.src[1][2 * i + k] = (float)(mean[k] + code * axis[k] / length);
    }
    rig_forward(&s.g, &s.v);
    assert_true(fabs(s.v.result.sum / s.v.result.weight - (middle - radius)) < 1e-6);
    scene_free(&s);
}

/* ---- Invalid sources and targets ---- */

static void assert_target_refused(const char *type, float target, const char *says)
{
    const struct sw_layer_example ex = {
        .recipe = "", .src = {{2, {4, 5}, 0}, {2, {4, 5}, 0}}, .range = {[1] = {0, 1}}};
    struct scene s = scene_new(type, &ex, false, 0);
    struct sw_err err;
    scene_fix_pointers(&s);
    s.v.src[1][2 * 5 + 3] = target;
    assert_int_equal(rig_try_forward(&s.g, &s.v, &err), SW_ERR_INVALID);
    if (!strstr(err.text, says) || !strstr(err.text, type))
        fail_msg("%s: %s", type, err.text);
    scene_free(&s);
}

static void invalid_target_error_names_row_and_value(void **state)
{
    assert_target_refused("sigmoid_cross_entropy", 255, "target 3 of row 2 is 255");
    assert_target_refused("sigmoid_cross_entropy", -0.5f, "target 3 of row 2 is -0.5");
    assert_target_refused("sigmoid_cross_entropy", NAN, "row 2 is nan");
    assert_target_refused("softmax_loss", -1, "target 3 of row 2 is -1");
    assert_target_refused("softmax_loss", INFINITY, "row 2 is inf");
    assert_target_refused("poisson_loss", -0.25f, "target 3 of row 2 is -0.25");
    assert_target_refused("poisson_loss", NAN, "row 2 is nan");
}

/* 255 times a rounded 1 / 255 is slightly above 1 and must be accepted. */
static void probability_slightly_above_one_is_accepted(void **state)
{
    const struct sw_layer_example ex = {.recipe = "", .src = {{2, {1, 1}, 0}, {2, {1, 1}, 0}}};
    struct scene s = scene_new("sigmoid_cross_entropy", &ex, false, 0);
    scene_fix_pointers(&s);
    s.v.src[1][0] = 255 * 0.003922f;
    rig_forward(&s.g, &s.v);
    assert_true(isfinite(s.v.result.sum));
    scene_free(&s);
}

static void invalid_sources_are_refused(void **state)
{
    const struct sw_layer_example columns = {.recipe = "", .src = {{2, {4, 5}, 0}, {2, {4, 6}, 0}}};
    const struct sw_layer_example rows = {.recipe = "", .src = {{2, {4, 5}, 0}, {2, {3, 5}, 0}}};
    const struct sw_layer_example whole = {.recipe = "", .src = {{2, {4, 5}, 3}, {2, {4, 5}, 0}}};
    for (int i = 0; i < LOSSES; i++) {
        assert_refused(losses[i].type, &columns, 0, "of values per row");
        assert_refused(losses[i].type, &rows, 0, "the same number of rows");
        assert_refused(losses[i].type, &whole, 0, "not features");
    }
    assert_refused("reconstruction_error", &columns, 0, "of values per row");
    assert_refused("reconstruction_error", &whole, 0, "not features");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(losses_match_their_definitions),
        cmocka_unit_test(targets_may_be_integers),
        cmocka_unit_test(a_label_is_a_target_of_one_value),
        cmocka_unit_test(losses_are_stable_far_from_zero),
        cmocka_unit_test(correct_large_scores_have_no_loss),
        cmocka_unit_test(nan_score_gives_nan_loss),
        cmocka_unit_test(a_row_without_targets_has_no_loss),
        cmocka_unit_test(one_hot_target_equals_a_label),
        cmocka_unit_test(poisson_reconstruction_keeps_the_word_count),
        cmocka_unit_test(reconstruction_error_is_the_squared_distance),
        cmocka_unit_test(reconstruction_error_of_pca_is_the_omitted_variance),
        cmocka_unit_test(invalid_target_error_names_row_and_value),
        cmocka_unit_test(probability_slightly_above_one_is_accepted),
        cmocka_unit_test(invalid_sources_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
