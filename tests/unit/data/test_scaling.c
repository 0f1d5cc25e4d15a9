/* Fields whose values are transformed, and labels outside the range that a net accepts. */
#include "data_support.h"
#include <math.h>

static struct support_conf conf;
static const struct sw_scaling_measure both = {.mean = true, .std = true, .epsilon = 1e-9};

static struct sw_source *open_table(const char *text, const char *target, bool training)
{
    struct sw_data_conf common = support_plain();
    struct sw_source *s = NULL;
    struct sw_err err = {0};

    common.shuffle = true;
    support_init(&conf, "csv");
    support_strings(&conf, "paths", 0, support_write("t.csv", text, strlen(text)), NULL);
    if (target)
        support_strings(&conf, "target", 1, target, "2");
    ASSERT_OK(support_open(&conf, &common, training, 1, &s, &err));
    return s;
}

static void fetch(const struct sw_source *s, int f, int64_t count, void *out)
{
    void *fields[SW_MAX_FIELDS] = {NULL};
    struct sw_reader r;
    struct sw_err err = {0};

    fields[f] = out;
    ASSERT_OK(sw_reader_init(&r, s, &err));
    ASSERT_OK(sw_source_fetch(&r, 0, count, fields, &err));
    sw_reader_fini(&r);
}

static const char table[] = "1,5,0\n2,5,0\n3,5,0\n6,5,0\n";

/* Targets 1, 2, 3, 6: mean 3, variance 14 / 4; the second one is always 5. */
static void mean_and_std_are_those_of_all_records(void **state)
{
    struct sw_source *train = open_table(table, "1", true), *test = open_table(table, "1", false);
    const int f = sw_source_find(train, "target");
    float row[4][2];
    struct sw_err err = {0};

    ASSERT_OK(sw_source_scale(train, f, &err));
    ASSERT_OK(sw_source_measure(train, f, &both, &err));
    assert_true(train->scaling[f].known && train->scaling[f].count == 2);
    assert_true(train->scaling[f].mean[0] == 3 && train->scaling[f].mean[1] == 5);
    assert_true(fabs(train->scaling[f].std[0] - sqrt(3.5)) < 1e-15);
    assert_true(train->scaling[f].std[1] == 1);

    ASSERT_OK(sw_source_scale(test, f, &err));
    ASSERT_OK(sw_scaling_copy(&test->scaling[f], &train->scaling[f], &err));
    fetch(test, f, 4, row);
    for (int i = 0; i < 4; i++) {
        const double t = (double[]){1, 2, 3, 6}[i];
        assert_true(fabs((double)row[i][0] - (t - 3) / sqrt(3.5)) < 1e-6 && row[i][1] == 0);
        sw_scaling_undo(&test->scaling[f], row[i]);
        assert_true(fabs((double)row[i][0] - t) < 1e-6 && row[i][1] == 5);
    }
    sw_source_close(train);
    sw_source_close(test);
}

/* A label is one whole number: standardized, it becomes a float. */
static void integers_become_floats(void **state)
{
    struct sw_source *s = open_table("9,1\n9,2\n9,3\n9,6\n", NULL, false);
    const int f = sw_source_find(s, "label");
    float row[4];
    struct sw_err err = {0};

    ASSERT_OK(sw_source_scale(s, f, &err));
    assert_int_equal(s->field[f].dtype, SW_F32);
    ASSERT_OK(sw_source_measure(s, f, &both, &err));
    fetch(s, f, 4, row);
    assert_true(fabs((double)row[3] - 3 / sqrt(3.5)) < 1e-6);
    sw_source_close(s);
}

static void images_and_wrong_counts_are_refused(void **state)
{
    struct sw_source *s = open_table(table, "1", true);
    const int f = sw_source_find(s, "target");
    const double three[3] = {1, 2, 3}, one = 4;
    struct sw_err err = {0};

    s->transform.gain[0] = 2;
    assert_int_equal(sw_source_scale(s, sw_source_find(s, "image"), &err), SW_ERR_INVALID);
    ASSERT_CONTAINS(err.text, "the keys of data train (mean, std, scale");
    ASSERT_OK(sw_source_scale(s, f, &err));
    assert_int_equal(sw_scaling_set(&s->scaling[f], &(struct sw_reals){three, 3},
                                    &(struct sw_reals){NULL, 0}, &err),
                     SW_ERR_INVALID);
    ASSERT_CONTAINS(err.text, "mean: 3 numbers, but the field has 2 values per record");
    ASSERT_OK(sw_scaling_set(&s->scaling[f], &(struct sw_reals){NULL, 0},
                             &(struct sw_reals){&one, 1}, &err));
    assert_true(s->scaling[f].mean[1] == 0 && s->scaling[f].std[0] == 4 &&
                s->scaling[f].std[1] == 4);
    sw_source_close(s);
}

/* Features of a section without keys: log(v + 1), then the mean and the std of the logarithms, then
 * the factor. */
static void steps_are_in_order(void **state)
{
    struct sw_source *s = open_table("0,2,0\n2,2,0\n", NULL, false);
    const int f = sw_source_find(s, "image");
    float row[2][2];
    struct sw_err err = {0};

    ASSERT_OK(sw_source_scale(s, f, &err));
    s->scaling[f].log1p = true;
    s->scaling[f].factor = 3;
    ASSERT_OK(sw_source_measure(s, f, &both, &err));
    assert_true(fabs(s->scaling[f].mean[0] - log(3) / 2) < 1e-15);
    assert_true(fabs(s->scaling[f].mean[1] - log(3)) < 1e-15 && s->scaling[f].std[1] == 1);
    fetch(s, f, 2, row);
    assert_true(fabs((double)row[0][0] + 3) < 1e-6 && fabs((double)row[1][0] - 3) < 1e-6);
    assert_true(fabs((double)row[0][1]) < 1e-6);
    assert_false(sw_scaling_has_units(&s->scaling[f]));
    sw_source_close(s);
}

/* Roots keep the sign, and come before the logarithm and what is measured. */
static void powers_come_first(void **state)
{
    struct sw_source *s = open_table("-4,9,0\n0,0.25,0\n", NULL, false);
    const int f = sw_source_find(s, "image");
    float row[2][2];
    struct sw_err err = {0};

    ASSERT_OK(sw_source_scale(s, f, &err));
    assert_true(sw_scaling_has_units(&s->scaling[f]));
    s->scaling[f].power = 0.5;
    assert_false(sw_scaling_has_units(&s->scaling[f]));
    ASSERT_OK(sw_source_measure(s, f, &both, &err));
    assert_true(s->scaling[f].mean[0] == -1 && s->scaling[f].std[0] == 1);
    assert_true(s->scaling[f].mean[1] == 1.75 && s->scaling[f].std[1] == 1.25);
    fetch(s, f, 2, row);
    assert_true(row[0][0] == -1 && row[1][0] == 1 && row[0][1] == 1 && row[1][1] == -1);

    s->scaling[f].log1p = true; /* of the roots: -2 has none */
    assert_int_equal(sw_source_measure(s, f, &both, &err), SW_ERR_FORMAT);
    ASSERT_CONTAINS(err.text, "value 1 of image is -4");
    sw_source_close(s);
}

/* Whitened rows have mean 0 and the identity as their covariance. */
static void whitened_rows_are_uncorrelated(void **state)
{
    static const char rows[] = "1,2,0,0\n2,5,1,0\n3,5,7,0\n6,1,2,0\n8,2,2,0\n0,9,4,0\n";
    enum { ROWS = 6, COLUMNS = 3 };
    struct sw_source *s = open_table(rows, NULL, true), *test = open_table(rows, NULL, false);
    const int f = sw_source_find(s, "image");
    float row[ROWS][COLUMNS];
    struct sw_err err = {0};

    for (int standardize = 0; standardize < 2; standardize++) {
        const struct sw_scaling_measure how = {
            .mean = true, .std = standardize == 1, .epsilon = 1e-9};

        ASSERT_OK(sw_source_scale(s, f, &err));
        s->scaling[f].whitens = true;
        ASSERT_OK(sw_source_measure(s, f, &how, &err));
        ASSERT_OK(sw_source_scale(test, f, &err));
        test->scaling[f].whitens = true;
        ASSERT_OK(sw_scaling_copy(&test->scaling[f], &s->scaling[f], &err));
        fetch(test, f, ROWS, row);

        for (int a = 0; a < COLUMNS; a++) {
            double mean = 0;
            for (int i = 0; i < ROWS; i++)
                mean += (double)row[i][a] / ROWS;
            assert_true(fabs(mean) < 1e-5);

            for (int b = 0; b < COLUMNS; b++) {
                double sum = 0;
                for (int i = 0; i < ROWS; i++)
                    sum += (double)(row[i][a] * row[i][b]) / ROWS;
                assert_true(fabs(sum - (a == b)) < 1e-4);
            }
        }
        sw_scaling_fini(&s->scaling[f]);
        sw_scaling_fini(&test->scaling[f]);
    }
    sw_source_close(s);
    sw_source_close(test);
}

static void a_value_without_a_logarithm_is_named(void **state)
{
    struct sw_source *s = open_table("0,2,0\n2,-1,0\n", NULL, false);
    const int f = sw_source_find(s, "image");
    void *fields[SW_MAX_FIELDS] = {NULL};
    float row[2][2];
    struct sw_reader r;
    struct sw_err err = {0};

    ASSERT_OK(sw_source_scale(s, f, &err));
    s->scaling[f].log1p = true;
    assert_int_equal(sw_source_measure(s, f, &both, &err), SW_ERR_FORMAT);
    ASSERT_CONTAINS(err.text, "value 2 of image is -1, but log1p = yes needs values above -1");

    s->scaling[f].known = true;
    fields[f] = row;
    ASSERT_OK(sw_reader_init(&r, s, &err));
    assert_int_equal(sw_source_fetch(&r, 0, 2, fields, &err), SW_ERR_FORMAT);
    ASSERT_CONTAINS(err.text, "image: value 2 is -1, but log1p = yes needs values above -1");
    sw_reader_fini(&r);
    sw_source_close(s);
}

static void a_label_outside_its_range_is_named(void **state)
{
    struct sw_source *s = open_table("9,0\n9,1\n9,4\n9,1\n", NULL, false);
    const int f = sw_source_find(s, "label");
    void *fields[SW_MAX_FIELDS] = {NULL};
    int32_t label[4];
    struct sw_reader r;
    struct sw_err err = {0};

    fields[f] = label;
    s->labels[f] = (struct sw_label_range){.classes = 4, .layer = "loss"};
    ASSERT_OK(sw_reader_init(&r, s, &err));
    ASSERT_OK(sw_source_fetch(&r, 0, 2, fields, &err));
    assert_int_equal(sw_source_fetch(&r, 0, 4, fields, &err), SW_ERR_INVALID);
    ASSERT_CONTAINS(err.text, "data train: record 2 (");
    ASSERT_CONTAINS(err.text, "label 4, but layer loss has scores for 4 classes (0 to 3)");
    s->labels[f].ignores = true;
    s->labels[f].ignored = 4;
    ASSERT_OK(sw_source_fetch(&r, 0, 4, fields, &err));
    assert_int_equal(label[2], 4);
    sw_reader_fini(&r);
    sw_source_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mean_and_std_are_those_of_all_records),
        cmocka_unit_test(integers_become_floats),
        cmocka_unit_test(images_and_wrong_counts_are_refused),
        cmocka_unit_test(steps_are_in_order),
        cmocka_unit_test(powers_come_first),
        cmocka_unit_test(whitened_rows_are_uncorrelated),
        cmocka_unit_test(a_value_without_a_logarithm_is_named),
        cmocka_unit_test(a_label_outside_its_range_is_named),
    };
    return cmocka_run_group_tests(tests, support_setup, support_teardown);
}
