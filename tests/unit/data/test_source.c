/* Sources: which sample is which record, the transforms a section asks for, and its mistakes. */
#include "data_support.h"
#include <math.h>

enum { RECORDS = 103 };

static struct sw_source *open_idx(const struct sw_data_conf *conf, bool training, uint64_t seed)
{
    struct support_conf c;
    struct sw_source *s = NULL;
    struct sw_err err = {0};
    support_idx(&c, RECORDS);
    ASSERT_OK(support_open(&c, conf, training, seed, &s, &err));
    return s;
}

/* The records of `batches` batches of `rows` from batch 0 on, one after the other. */
static void read_records(const struct sw_source *s, int64_t batches, int64_t rows, int64_t *record)
{
    struct sw_reader r;
    struct sw_err err = {0};
    float *image = calloc((size_t)rows * SUPPORT_PIXELS, sizeof *image);
    int32_t *label = calloc((size_t)rows, sizeof *label);
    void *out[SW_MAX_FIELDS] = {image, label};
    assert_non_null(image);
    assert_non_null(label);
    ASSERT_OK(sw_reader_init(&r, s, &err));
    for (int64_t b = 0; b < batches; b++) {
        ASSERT_OK(sw_source_fetch(&r, b * rows, rows, out, &err));
        for (int64_t i = 0; i < rows; i++) {
            record[b * rows + i] = support_record(image + i * SUPPORT_PIXELS);
            assert_int_equal(label[i], record[b * rows + i] % 10);
        }
    }
    sw_reader_fini(&r);
    free(image);
    free(label);
}

static void shuffled_batches_contain_each_record_once_per_epoch(void **state)
{
    enum { ROWS = 10, EPOCHS = 10, BATCHES = RECORDS }; /* 1030 samples are ten epochs */
    struct sw_data_conf conf = support_plain();
    int64_t record[BATCHES * ROWS], in_place = 0;
    conf.shuffle = true;
    struct sw_source *s = open_idx(&conf, true, 1);
    read_records(s, BATCHES, ROWS, record);
    for (int e = 0; e < EPOCHS; e++) {
        int seen[RECORDS] = {0};
        for (int i = 0; i < RECORDS; i++) {
            const int64_t r = record[e * RECORDS + i];
            assert_in_range(r, 0, RECORDS - 1);
            assert_int_equal(seen[r]++, 0);
            in_place += e > 0 && r == record[(e - 1) * RECORDS + i];
        }
    }
    assert_true(in_place <
                60); /* about one per epoch would be chance; 103 per epoch the same order */
    sw_source_close(s);
}

static void unshuffled_batches_wrap_at_the_end_of_an_epoch(void **state)
{
    struct sw_data_conf conf = support_plain();
    int64_t record[240];
    struct sw_source *s = open_idx(&conf, true, 1);
    read_records(s, 4, 60, record);
    for (int i = 0; i < 240; i++)
        assert_int_equal(record[i], i % RECORDS);
    sw_source_close(s);
}

static void evaluation_is_sequential_and_unchanged(void **state)
{
    struct sw_data_conf conf = support_plain();
    int64_t record[RECORDS];
    conf.shuffle = conf.mirror = true;
    struct sw_source *s = open_idx(&conf, false, 1);
    read_records(s, 1, RECORDS, record);
    for (int i = 0; i < RECORDS; i++)
        assert_int_equal(record[i], i);
    assert_int_equal(sw_source_batches(s, 10), 11);
    assert_int_equal(sw_source_batches(s, 103), 1);
    assert_int_equal(sw_source_batches(s, 200), 1);
    sw_source_close(s);
}

static void order_depends_on_the_seed_only(void **state)
{
    struct sw_data_conf conf = support_plain();
    int64_t a[100], b[100], c[100];
    conf.shuffle = true;
    struct sw_source *first = open_idx(&conf, true, 1), *again = open_idx(&conf, true, 1);
    struct sw_source *other = open_idx(&conf, true, 2);
    read_records(first, 10, 10, a);
    read_records(again, 2, 50, b); /* other batches, same samples */
    read_records(other, 10, 10, c);
    assert_memory_equal(a, b, sizeof a);
    assert_memory_not_equal(a, c, sizeof a);
    sw_source_close(first);
    sw_source_close(again);
    sw_source_close(other);
}

static void random_crop_is_for_training_only(void **state)
{
    struct sw_data_conf conf = support_plain();
    struct sw_err err = {0};
    float image[64][4], other[4];
    bool differs = false;
    conf.crop = 2;
    conf.mirror = true;
    for (int training = 0; training < 2; training++) {
        struct sw_source *s = open_idx(&conf, training, 1);
        struct sw_reader r;
        void *out[SW_MAX_FIELDS] = {image};
        assert_int_equal(s->field[0].dim[1], 2);
        assert_int_equal(s->field[0].dtype, SW_F32);
        ASSERT_OK(sw_reader_init(&r, s, &err));
        ASSERT_OK(sw_source_fetch(&r, 0, 64, out, &err));
        differs = false;
        for (int i = 0; i < 64; i++) {
            /* Centre of 4x4 whose pixel k is 3k: 5, 6, 9, 10. */
            const float centre[4] = {15, 18, 27, 30};
            differs |= memcmp(image[i], centre, sizeof centre) != 0;
            out[0] = other; /* alone or among others: the same sample gives the same numbers */
            ASSERT_OK(sw_source_fetch(&r, i, 1, out, &err));
            assert_memory_equal(image[i], other, sizeof other);
        }
        assert_int_equal(differs, training);
        sw_reader_fini(&r);
        sw_source_close(s);
    }
}

static void mean_std_and_scale_follow_the_formula(void **state)
{
    const double mean[] = {1.5, 2.5, 3.5}, deviation[] = {2, 4, 8};
    struct sw_data_conf conf = support_plain();
    struct support_conf c;
    struct sw_source *raw = NULL, *s = NULL;
    struct sw_reader r;
    struct sw_err err = {0};
    float a[3 * 5 * 6], b[3 * 5 * 6];
    support_init(&c, "synthetic");
    support_int(&c, "height", 5);
    support_int(&c, "width", 6);
    ASSERT_OK(support_open(&c, &conf, false, 1, &raw, &err));
    conf.mean = (struct sw_reals){mean, 3};
    conf.std = (struct sw_reals){deviation, 3};
    conf.scale = 0.125;
    ASSERT_OK(support_open(&c, &conf, false, 1, &s, &err));
    for (int i = 0; i < 20; i++) {
        void *to_a[SW_MAX_FIELDS] = {a}, *to_b[SW_MAX_FIELDS] = {b};
        ASSERT_OK(sw_reader_init(&r, raw, &err));
        ASSERT_OK(sw_source_fetch(&r, i, 1, to_a, &err));
        sw_reader_fini(&r);
        ASSERT_OK(sw_reader_init(&r, s, &err));
        ASSERT_OK(sw_source_fetch(&r, i, 1, to_b, &err));
        sw_reader_fini(&r);
        for (int k = 0; k < 90; k++) {
            const double want = (a[k] - mean[k / 30]) / deviation[k / 30] * 0.125;
            assert_true(fabs(b[k] - want) < 1e-5);
        }
    }
    sw_source_close(raw);
    sw_source_close(s);
}

static void refuse(struct sw_data_conf conf, const char *part)
{
    struct support_conf c;
    struct sw_source *s = NULL;
    struct sw_err err = {0};
    support_idx(&c, RECORDS);
    assert_int_equal(support_open(&c, &conf, true, 1, &s, &err), SW_ERR_INVALID);
    assert_null(s);
    ASSERT_CONTAINS(err.text, "data train: ");
    ASSERT_CONTAINS(err.text, part);
}

static void keys_that_do_not_fit_the_images_are_refused(void **state)
{
    static const double three[] = {1, 2, 3};
    struct sw_data_conf conf = support_plain();
    conf.crop = 5;
    refuse(conf, "crop = 5 exceeds the image size 4x4");
    conf = support_plain();
    conf.mean = (struct sw_reals){three, 3};
    refuse(conf, "mean: 3 values, expected one value or one for each of the 1 channels");
    conf = support_plain();
    conf.std = (struct sw_reals){three, 2};
    refuse(conf, "std: 2 values");
}

static void epochs_become_steps(void **state)
{
    struct sw_data_conf conf = support_plain();
    struct sw_source *s = open_idx(&conf, true, 1);
    assert_int_equal(sw_source_steps(s, 1, 10), 11);
    assert_int_equal(sw_source_steps(s, 10, 10), 103);
    assert_int_equal(sw_source_steps(s, 0.5, 103), 1);
    sw_source_close(s);
}

static void a_missing_file_is_named_and_its_fallback_has_its_sizes(void **state)
{
    struct sw_data_conf conf = support_plain();
    struct support_conf idx, synthetic;
    struct sw_source *s = NULL;
    struct sw_err err = {0};
    struct sw_bytes line = {0};
    support_init(&idx, "idx");
    support_strings(&idx, "paths", 0, support_path("nothing-here"), support_path("nor-*"));
    support_strings(&idx, "labels", 1, support_path("nothing-here"), NULL);
    assert_int_equal(support_open(&idx, &conf, true, 1, &s, &err), SW_ERR_NOTFOUND);
    ASSERT_CONTAINS(err.text, "nor-*");

    support_init(&synthetic, "synthetic");
    const struct sw_source_args args = {.name = "train",
                                        .conf = &conf,
                                        .format = synthetic.format,
                                        .format_conf = synthetic.bytes,
                                        .replaced = idx.format,
                                        .seed = 1,
                                        .training = true};
    ASSERT_OK(sw_source_open(&args, &s, &err));
    assert_int_equal(s->field[0].dim[0], 1);
    assert_int_equal(s->field[0].dim[1], 28);
    assert_int_equal(s->field[0].dim[2], 28);
    assert_int_equal(s->classes, 10);
    sw_data_describe(s, &line);
    assert_string_equal(sw_bytes_text(&line),
                        "synthetic, 10000 records of 1x28x28, 10 classes, generated data");
    sw_bytes_fini(&line);
    sw_source_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shuffled_batches_contain_each_record_once_per_epoch),
        cmocka_unit_test(unshuffled_batches_wrap_at_the_end_of_an_epoch),
        cmocka_unit_test(evaluation_is_sequential_and_unchanged),
        cmocka_unit_test(order_depends_on_the_seed_only),
        cmocka_unit_test(random_crop_is_for_training_only),
        cmocka_unit_test(mean_std_and_scale_follow_the_formula),
        cmocka_unit_test(keys_that_do_not_fit_the_images_are_refused),
        cmocka_unit_test(epochs_become_steps),
        cmocka_unit_test(a_missing_file_is_named_and_its_fallback_has_its_sizes),
    };
    return cmocka_run_group_tests(tests, support_setup, support_teardown);
}
