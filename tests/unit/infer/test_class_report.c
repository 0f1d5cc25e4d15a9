/* Reports by class: counts and scores computed by hand, the records with the highest loss. */
#include "infer/class_report.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/os.h"
#include <math.h>
#include <string.h>

enum { CLASSES = 3, ROWS = 7 };

/* Predictions 0 0 1 1 2 0 of the labels 0 0 0 1 1 2; the last row is ignored. */
static const float scores[ROWS][CLASSES] = {{2, 1, 0}, {5, 0, 0}, {0, 3, 0}, {0, 1, 0},
                                            {0, 1, 4}, {9, 0, 0}, {0, 0, 9}};
static const int32_t labels[ROWS] = {0, 0, 0, 1, 1, 2, -1};

static struct sw_class_report report_of(int worst)
{
    struct sw_class_report r = {.classes = CLASSES,
                                .worst_most = worst,
                                .labels = {.src = 1, .classes = CLASSES, .per_sample = 1},
                                .counts = sw_calloc(CLASSES * CLASSES, sizeof *r.counts),
                                .worst = sw_calloc((size_t)worst + 1, sizeof *r.worst)};
    assert_true(r.counts && r.worst);
    r.labels.ignores = true;
    r.labels.ignored = -1;
    return r;
}

static void assert_near(double have, double want)
{
    if (!(fabs(have - want) <= 1e-12 * fabs(want)))
        fail_msg("%.15g, should be %.15g", have, want);
}

static void scores_are_those_computed_by_hand(void **state)
{
    static const int64_t counts[CLASSES * CLASSES] = {2, 1, 0, 0, 1, 1, 1, 0, 0};
    struct sw_class_report r = report_of(0);

    /* In two batches. */
    sw_class_report_rows(&r, scores[0], labels, 3);
    sw_class_report_rows(&r, scores[3], labels + 3, ROWS - 3);
    assert_memory_equal(r.counts, counts, sizeof counts);
    assert_int_equal(r.rows, ROWS);
    assert_int_equal(r.ignored, 1);

    struct sw_class_score s = sw_class_report_score(&r, 0);
    assert_true(s.count == 3 && s.predicted == 3 && s.right == 2);
    assert_near(s.precision, 2.0 / 3);
    assert_near(s.recall, 2.0 / 3);
    s = sw_class_report_score(&r, 1);
    assert_near(s.precision, 0.5);
    assert_near(s.recall, 0.5);
    assert_near(s.f1, 0.5);
    s = sw_class_report_score(&r, 2);
    assert_true(s.count == 1 && s.predicted == 1 && s.precision == 0 && s.recall == 0 && s.f1 == 0);

    s = sw_class_report_macro(&r);
    assert_true(s.count == 6);
    assert_near(s.f1, (2.0 / 3 + 0.5) / 3);
    assert_near(sw_class_report_accuracy(&r), 0.5);
    sw_class_report_fini(&r);
}

/* A class that neither occurs nor is predicted is left out of the mean. */
static void absent_classes_are_left_out(void **state)
{
    struct sw_class_report r = report_of(0);

    assert_true(isnan(sw_class_report_accuracy(&r)));
    sw_class_report_rows(&r, scores[0], labels, 2);
    assert_near(sw_class_report_macro(&r).recall, 1);
    assert_near(sw_class_report_accuracy(&r), 1);
    sw_class_report_fini(&r);
}

static void confusions_are_sorted_by_their_number(void **state)
{
    struct sw_class_report r = report_of(0);
    struct sw_confused pair[2];

    sw_class_report_rows(&r, scores[0], labels, ROWS);
    sw_class_report_rows(&r, scores[5], labels + 5, 1);
    assert_int_equal(sw_class_report_confused(&r, pair, 2), 2);
    assert_true(pair[0].label == 2 && pair[0].predicted == 0 && pair[0].count == 2);
    assert_true(pair[1].label == 0 && pair[1].predicted == 1 && pair[1].count == 1);
    sw_class_report_fini(&r);
}

static void the_worst_records_have_the_highest_loss(void **state)
{
    struct sw_class_report r = report_of(3);

    sw_class_report_rows(&r, scores[0], labels, ROWS);
    assert_int_equal(r.worst_count, 3);
    /* Row 5: 9 for class 0, 0 for its own; then row 2 and row 4, both 3 below the best. */
    assert_int_equal(r.worst[0].record, 5);
    assert_near(r.worst[0].loss, 9 + log(1 + 2 * exp(-9)));
    assert_near(r.worst[0].of_label, exp(-9) / (1 + 2 * exp(-9)));
    assert_near(r.worst[0].of_predicted, 1 / (1 + 2 * exp(-9)));
    assert_int_equal(r.worst[1].record, 2);
    assert_near(r.worst[1].loss, 3 + log(1 + 2 * exp(-3)));
    assert_int_equal(r.worst[2].record, 4);
    assert_true(r.worst[2].label == 1 && r.worst[2].predicted == 2);
    sw_class_report_fini(&r);
}

/* Probabilities are used as they are, and a score that is not a number is the worst. */
static void probabilities_and_odd_scores(void **state)
{
    const float p[3][CLASSES] = {{0.5f, 0.25f, 0.25f}, {NAN, 0.5f, 0.5f}, {0.125f, 0.5f, 0.375f}};
    const int32_t zero[3] = {0, 0, 0};
    struct sw_class_report r = report_of(3);

    r.probabilities = true;
    sw_class_report_rows(&r, p[0], zero, 3);
    assert_int_equal(r.worst[0].record, 1);
    assert_int_equal(r.worst[0].predicted, 1);
    assert_true(isinf(r.worst[0].loss));
    assert_int_equal(r.worst[1].record, 2);
    assert_near(r.worst[1].loss, log(8));
    assert_near(r.worst[2].loss, log(2));
    sw_class_report_fini(&r);
}

/* Label sets of four records: scores above 0 are predictions. */
static const float set_scores[4][CLASSES] = {{1, -1, -1}, {2, 3, -1}, {-1, 1, -2}, {0, -1, -1}};
static const float set_labels[4][CLASSES] = {{1, 1, 0}, {1, 0, 0}, {0, 1, 0}, {1, 0, 0}};

static void label_sets_are_counted_by_label(void **state)
{
    struct sw_class_score of_set[CLASSES] = {{0}};
    struct sw_class_report r = {
        .classes = CLASSES, .sets = true, .of_set = of_set, .labels = {.src = 1}};

    sw_class_report_add(&r, (const void *[]){set_scores, set_labels}, 4);
    assert_int_equal(r.rows, 4);
    struct sw_class_score s = sw_class_report_score(&r, 0);
    assert_true(s.count == 3 && s.predicted == 2 && s.right == 2);
    assert_near(s.precision, 1);
    assert_near(s.recall, 2.0 / 3);
    assert_near(s.f1, 0.8);
    s = sw_class_report_score(&r, 1);
    assert_true(s.count == 2 && s.predicted == 2 && s.right == 1);
    s = sw_class_report_score(&r, 2);
    assert_true(s.count == 0 && s.predicted == 0 && s.f1 == 0);

    s = sw_class_report_macro(&r); /* without the label that does not occur */
    assert_near(s.f1, (0.8 + 0.5) / 2);
    s = sw_class_report_micro(&r);
    assert_true(s.count == 5 && s.predicted == 4 && s.right == 3);
    assert_near(s.precision, 0.75);
    assert_near(s.recall, 0.6);
    assert_near(s.f1, 2 * 0.75 * 0.6 / 1.35);
}

/* The score of a single sigmoid is that of class 1, whatever the type of the label. */
static void one_score_is_that_of_two_classes(void **state)
{
    static const float x[4] = {1, -2, 3, -1}, real[4] = {1, 0, 0, 1};
    static const int32_t whole[4] = {1, 0, 0, 1};

    for (int integers = 0; integers < 2; integers++) {
        struct sw_class_report r = report_of(1);
        r.classes = r.labels.classes = 2;
        r.binary = true;
        r.integers = integers;
        r.labels.ignores = false;
        sw_class_report_add(&r, (const void *[]){x, integers ? (const void *)whole : real}, 4);
        for (int c = 0; c < 4; c++)
            assert_int_equal(r.counts[c], 1);
        assert_true(r.worst[0].record == 2 && r.worst[0].predicted == 1);
        assert_near(r.worst[0].of_predicted, 1 / (1 + exp(-3.0)));
        sw_class_report_fini(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scores_are_those_computed_by_hand),
        cmocka_unit_test(absent_classes_are_left_out),
        cmocka_unit_test(confusions_are_sorted_by_their_number),
        cmocka_unit_test(the_worst_records_have_the_highest_loss),
        cmocka_unit_test(probabilities_and_odd_scores),
        cmocka_unit_test(label_sets_are_counted_by_label),
        cmocka_unit_test(one_score_is_that_of_two_classes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
