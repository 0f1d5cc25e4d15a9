/* Statistics of data against sums by hand, and files that the transforms of a section read back. */
#include "data/statistics.h"
#include "data/stats.h"
#include "data_support.h"
#include <math.h>

enum { RECORDS = 700 };

static struct sw_source *open_source(const struct sw_data_conf *of)
{
    struct sw_data_conf conf = *of;
    struct support_conf c;
    struct sw_source *s = NULL;
    struct sw_err err = {0};
    support_init(&c, "synthetic");
    support_int(&c, "records", RECORDS);
    support_int(&c, "classes", 3);
    support_int(&c, "height", 6);
    support_int(&c, "width", 5);
    conf.channels = 2;
    ASSERT_OK(support_open(&c, &conf, false, 1, &s, &err));
    return s;
}

static bool near(double a, double b, double tolerance)
{
    return fabs(a - b) <= tolerance * (1 + fabs(b));
}

static void statistics_match_the_records(void **state)
{
    struct sw_data_conf conf = support_plain();
    struct sw_err err = {0};
    for (conf.workers = 1; conf.workers <= 3; conf.workers++) {
        struct sw_source *s = open_source(&conf);
        struct sw_stats got;
        double sum[2] = {0}, squares[2] = {0}, picture[60] = {0};
        int64_t count[3] = {0};
        ASSERT_OK(sw_stats_measure(s, NULL, &got, &err));
        for (int64_t i = 0; i < RECORDS; i++) {
            unsigned char scratch[64];
            const void *out;
            ASSERT_OK(s->raw.format->fetch(&s->raw, i, 0, scratch, &out, &err));
            for (int k = 0; k < 60; k++) {
                const double x = ((const unsigned char *)out)[k];
                sum[k / 30] += x;
                squares[k / 30] += x * x;
                picture[k] += x;
            }
            ASSERT_OK(s->raw.format->fetch(&s->raw, i, 1, scratch, &out, &err));
            count[*(const int32_t *)out]++;
        }
        assert_int_equal(got.records, RECORDS);
        assert_int_equal(got.classes, 3);
        assert_memory_equal(got.class_count, count, sizeof count);
        assert_int_equal(got.field[0].parts, 2);
        for (int c = 0; c < 2; c++) {
            const double n = 30.0 * RECORDS, mean = sum[c] / n;
            assert_true(near(got.field[0].part[c].mean, mean, 1e-12));
            assert_true(near(got.field[0].part[c].std, sqrt(squares[c] / n - mean * mean), 1e-9));
            assert_true(got.field[0].part[c].least >= 0 && got.field[0].part[c].most <= 255);
        }
        assert_int_equal(got.shape[0] * 100 + got.shape[1] * 10 + got.shape[2], 265);
        for (int k = 0; k < 60; k++)
            assert_true(near((double)got.mean[k], picture[k] / RECORDS, 1e-6));
        sw_stats_fini(&got);
        sw_source_close(s);
    }
}

/* The mean of all rows of a source, and how far the covariance of its finished rows is from 1. */
static double distance_from_white(struct sw_source *s)
{
    static double sum[60], covariance[60][60];
    static float rows[RECORDS][60];
    struct sw_reader r;
    struct sw_err err = {0};
    void *out[SW_MAX_FIELDS] = {rows};
    double worst = 0;
    ASSERT_OK(sw_reader_init(&r, s, &err));
    ASSERT_OK(sw_source_fetch(&r, 0, RECORDS, out, &err));
    sw_reader_fini(&r);
    memset(sum, 0, sizeof sum);
    memset(covariance, 0, sizeof covariance);
    for (int i = 0; i < RECORDS; i++) {
        for (int a = 0; a < 60; a++) {
            sum[a] += (double)rows[i][a];
            for (int b = 0; b < 60; b++)
                covariance[a][b] += (double)rows[i][a] * (double)rows[i][b];
        }
    }
    for (int a = 0; a < 60; a++) {
        assert_true(fabs(sum[a] / RECORDS) < 0.01);
        for (int b = 0; b < 60; b++)
            worst = fmax(worst, fabs(covariance[a][b] / RECORDS - (a == b)));
    }
    return worst;
}

static void whitened_rows_have_identity_covariance(void **state)
{
    struct sw_data_conf conf = support_plain();
    struct sw_err err = {0};
    float *mean = NULL, *matrix = NULL;
    conf.scale = 1.0 / 64;
    struct sw_source *s = open_source(&conf);
    ASSERT_OK(sw_stats_whiten(s, 1e-5, NULL, &mean, &matrix, &err));
    sw_source_close(s);
    const char *path = support_path("white.safetensors");
    const struct sw_stats_file file = {
        .row_shape = {2, 6, 5}, .whiten_mean = mean, .whiten_matrix = matrix};
    ASSERT_OK(sw_stats_write(&file, path, &err));
    conf.whiten = path;
    s = open_source(&conf);
    assert_true(distance_from_white(s) < 0.02);
    sw_source_close(s);
    sw_free(mean);
    sw_free(matrix);
}

static void mean_images_are_read_back(void **state)
{
    struct sw_data_conf conf = support_plain();
    struct sw_err err = {0};
    struct sw_stats got;
    struct sw_source *s = open_source(&conf);
    ASSERT_OK(sw_stats_measure(s, NULL, &got, &err));
    sw_source_close(s);
    const char *const names[] = {"mean.npy", "mean.safetensors"};
    for (int i = 0; i < 2; i++) {
        const struct sw_stats_file file = {.mean_shape = {2, 6, 5}, .mean = got.mean};
        const char *path = support_path(names[i]);
        float *back = NULL;
        int64_t height, width;
        ASSERT_OK(sw_stats_write(&file, path, &err));
        ASSERT_OK(sw_statistics_mean(path, 2, &back, &height, &width, &err));
        assert_int_equal(height * 10 + width, 65);
        assert_memory_equal(back, got.mean, 60 * sizeof *back);
        sw_free(back);
        conf.mean_image = path;
        s = open_source(&conf);
        struct sw_stats centred;
        ASSERT_OK(sw_stats_measure(s, NULL, &centred, &err));
        assert_true(fabs(centred.field[0].part[1].mean) < 1e-4);
        sw_stats_fini(&centred);
        sw_source_close(s);
    }
    sw_stats_fini(&got);
}

static void file_suffixes_are_checked(void **state)
{
    struct sw_err err = {0};
    assert_int_equal(sw_stats_check_name("mean.npy", false, &err), SW_OK);
    assert_int_equal(sw_stats_check_name("x.safetensors", true, &err), SW_OK);
    assert_int_equal(sw_stats_check_name("x.npy", true, &err), SW_ERR_INVALID);
    assert_int_equal(sw_stats_check_name("x.txt", false, &err), SW_ERR_INVALID);
    ASSERT_CONTAINS(err.text, ".npy or .safetensors");
}

static bool stop(void *user, int64_t done, int64_t records)
{
    *(int64_t *)user = done;
    return done == records;
}

static void a_stop_takes_effect_between_batches(void **state)
{
    struct sw_data_conf conf = support_plain();
    struct sw_err err = {0};
    struct sw_stats got;
    int64_t done = 0;
    struct sw_source *s = open_source(&conf);
    const struct sw_stats_watch watch = {stop, &done};
    assert_int_equal(sw_stats_measure(s, &watch, &got, &err), SW_ERR_CANCELLED);
    assert_true(done > 0 && done < RECORDS);
    sw_stats_fini(&got);
    sw_source_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(statistics_match_the_records),
        cmocka_unit_test(whitened_rows_have_identity_covariance),
        cmocka_unit_test(mean_images_are_read_back),
        cmocka_unit_test(file_suffixes_are_checked),
        cmocka_unit_test(a_stop_takes_effect_between_batches),
    };
    return cmocka_run_group_tests_name("stats", tests, support_setup, support_teardown);
}
