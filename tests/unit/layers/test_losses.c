/* softmax_loss and accuracy against their definitions, with invalid rows, scores that overflow,
 * ties, and invalid labels. */
#include "loss_support.h"

/* ---- softmax_loss ---- */

static void check_softmax(const struct sw_layer_example *ex, bool reference, int block,
                          int64_t valid_rows, double weight)
{
    struct scene s = scene_new("softmax_loss", ex, reference, block);
    scene_fix_pointers(&s);
    struct values *v = &s.v;
    int64_t rows = ex->src[0].dim[0], classes = v->src_n[0] / rows;
    double loss = 0, scale = weight * (double)s.g.step.backward_scale;
    double *gradient = get_doubles(v->src_n[0]);
    for (int64_t r = valid_rows; r < rows; r++) {
        v->label[1][r] = -99; /* invalid rows must not be read */
        for (int64_t c = 0; c < classes; c++)
            v->src[0][r * classes + c] = NAN;
    }
    for (int64_t r = 0; r < rows; r++) {
        const float *x = v->src[0] + r * classes;
        double sum = 0;
        for (int64_t c = 0; c < classes; c++)
            sum += exp((double)x[c]);
        for (int64_t c = 0; c < classes; c++) {
            double p = exp((double)x[c]) / sum - (c == v->label[1][r]);
            gradient[r * classes + c] = r < valid_rows ? scale * p : 0;
        }
        loss += r < valid_rows ? log(sum) - (double)x[v->label[1][r]] : 0;
    }
    s.g.step.valid_rows = valid_rows;
    rig_pass(&s.g, v);
    assert_true(fabs(v->result.sum - weight * loss) < 1e-5 * (1 + loss));
    assert_true(v->result.weight == (double)valid_rows);
    assert_near("softmax gradient", v->src_grad[0], gradient, v->src_n[0], 2e-6);
    free(gradient);
    scene_free(&s);
}

static void softmax_loss_is_the_negative_log_likelihood(void **state)
{
    const struct sw_layer_example one = {.recipe = "", .src = {{2, {7, 10}, 0}, {1, {7}, 10}}};
    const struct sw_layer_example half = {.recipe = "weight = 0.5\n",
                                          .src = {{2, {5, 1000}, 0}, {1, {5}, 1000}}};
    const struct sw_layer_example image = {.recipe = "weight = 2\n",
                                           .src = {{4, {4, 9, 2, 3}, 0}, {1, {4}, 54}}};
    for (int reference = 0; reference < 2; reference++) {
        check_softmax(&one, reference, 0, 7, 1);
        check_softmax(&one, reference, 0, 4, 1);
        check_softmax(&half, reference, 0, 5, 0.5);
        for (int block = 0; block <= 16; block += 8) {
            check_softmax(&image, reference, block, 4, 2);
            check_softmax(&image, reference, block, 1, 2);
        }
    }
}

static void huge_scores_do_not_overflow(void **state)
{
    const struct sw_layer_example ex = {.recipe = "", .src = {{2, {2, 3}, 0}, {1, {2}, 3}}};
    const float scores[6] = {10000, -10000, 0, 10000, -10000, 0};
    struct scene s = scene_new("softmax_loss", &ex, false, 0);
    scene_fix_pointers(&s);
    memcpy(s.v.src[0], scores, sizeof scores);
    s.v.label[1][0] = 0;
    s.v.label[1][1] = 1;
    rig_pass(&s.g, &s.v);
    assert_true(s.v.result.sum == 20000);
    for (int i = 0; i < 6; i++)
        assert_true(isfinite(s.v.src_grad[0][i]));
    assert_true(s.v.src_grad[0][0] == 0 && s.v.src_grad[0][3] > 0 && s.v.src_grad[0][4] < 0);
    scene_free(&s);
}

/* A NaN score must not give a finite loss. */
static void nan_score_gives_nan_loss(void **state)
{
    const struct sw_layer_example ex = {.recipe = "", .src = {{2, {3, 5}, 0}, {1, {3}, 5}}};
    for (int at = 0; at < 15; at++) {
        struct scene s = scene_new("softmax_loss", &ex, false, 0);
        scene_fix_pointers(&s);
        s.v.src[0][at] = at % 2 ? NAN : INFINITY;
        rig_forward(&s.g, &s.v);
        assert_false(isfinite(s.v.result.sum));
        scene_free(&s);
    }
}

/* ---- labels ---- */

static void assert_label_refused(const char *type, int32_t label)
{
    const struct sw_layer_example ex = {.recipe = "", .src = {{2, {4, 5}, 0}, {1, {4}, 5}}};
    struct scene s = scene_new(type, &ex, false, 0);
    struct sw_err err;
    char text[32];
    scene_fix_pointers(&s);
    s.v.label[1][2] = label;
    assert_int_equal(rig_try_forward(&s.g, &s.v, &err), SW_ERR_INVALID);
    snprintf(text, sizeof text, "row 2 is %d", (int)label);
    assert_non_null(strstr(err.text, text));
    assert_non_null(strstr(err.text, "5 classes"));
    scene_free(&s);
}

static void invalid_label_error_names_row_and_value(void **state)
{
    assert_label_refused("softmax_loss", 5);
    assert_label_refused("softmax_loss", -1);
    assert_label_refused("accuracy", 5);
    assert_label_refused("accuracy", INT32_MAX);
    assert_label_refused("accuracy", INT32_MIN);
}

/* ---- accuracy ---- */

static int64_t rank_of(const float *x, int64_t label, int64_t classes)
{
    int64_t before = 0;
    for (int64_t j = 0; j < classes; j++)
        before += x[j] > x[label] || (x[j] == x[label] && j < label);
    return before;
}

static void accuracy_counts_labels_among_the_top_k(void **state)
{
    struct rng r = rng_of(4);
    for (int i = 0; i < 40; i++) {
        int64_t rows = rng_int(&r, 1, 20), classes = rng_int(&r, 1, 30);
        int64_t top_k = rng_int(&r, 1, classes), valid = rng_int(&r, 1, rows), hits = 0;
        char text[64];
        snprintf(text, sizeof text, "top_k = %d\n", (int)top_k);
        struct sw_layer_example ex = {.recipe = text,
                                      .src = {{2, {rows, classes}, 0}, {1, {rows}, (int)classes}}};
        struct scene s = scene_new("accuracy", &ex, i % 2, 0);
        scene_fix_pointers(&s);
        for (int64_t k = 0; k < rows * classes; k++)
            s.v.src[0][k] = (float)rng_int(&r, 0, i % 3 ? 4 : 1000); /* many ties, or few */
        for (int64_t n = 0; n < rows; n++) {
            s.v.label[1][n] = n < valid ? (int32_t)rng_int(&r, 0, classes - 1) : -1;
            if (n < valid)
                hits += rank_of(s.v.src[0] + n * classes, s.v.label[1][n], classes) < top_k;
        }
        s.g.step.valid_rows = valid;
        rig_forward(&s.g, &s.v);
        assert_true(s.v.result.sum == (double)hits);
        assert_true(s.v.result.weight == (double)valid);
        scene_free(&s);
    }
}

static void equal_scores_are_not_all_hits(void **state)
{
    const struct sw_layer_example ex = {.recipe = "", .src = {{2, {10, 10}, 0}, {1, {10}, 10}}};
    const float constants[] = {0, 3, -INFINITY, NAN};
    for (size_t i = 0; i < sizeof constants / sizeof *constants; i++) {
        struct scene s = scene_new("accuracy", &ex, false, 0);
        scene_fix_pointers(&s);
        for (int k = 0; k < 100; k++)
            s.v.src[0][k] = constants[i];
        for (int n = 0; n < 10; n++)
            s.v.label[1][n] = n;
        rig_forward(&s.g, &s.v);
        assert_true(s.v.result.sum == (isnan(constants[i]) ? 0 : 1));
        scene_free(&s);
    }
}

/* ---- Invalid sources ---- */

static void invalid_sources_are_refused(void **state)
{
    const struct sw_layer_example rows = {.recipe = "", .src = {{2, {4, 5}, 0}, {1, {3}, 5}}};
    const struct sw_layer_example floats = {.recipe = "", .src = {{2, {4, 5}, 0}, {1, {4}, 0}}};
    const struct sw_layer_example swapped = {.recipe = "", .src = {{1, {4}, 5}, {2, {4, 5}, 0}}};
    const struct sw_layer_example best = {.recipe = "top_k = 6\n",
                                          .src = {{2, {4, 5}, 0}, {1, {4}, 5}}};
    assert_refused("softmax_loss", &rows, 0, "4 rows of scores but 3 labels");
    assert_refused("accuracy", &rows, 0, "4 rows of scores but 3 labels");
    assert_refused("softmax_loss", &floats, 0, "must be labels");
    assert_refused("accuracy", &floats, 0, "must be labels");
    assert_refused("softmax_loss", &swapped, 0, "not features");
    assert_refused("accuracy", &best, 0, "top_k = 6: there are only 5 classes");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(softmax_loss_is_the_negative_log_likelihood),
        cmocka_unit_test(huge_scores_do_not_overflow),
        cmocka_unit_test(nan_score_gives_nan_loss),
        cmocka_unit_test(invalid_label_error_names_row_and_value),
        cmocka_unit_test(accuracy_counts_labels_among_the_top_k),
        cmocka_unit_test(equal_scores_are_not_all_hits),
        cmocka_unit_test(invalid_sources_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
