/* Synthetic pictures: the same for everybody, different from one another, and learnable. */
#include "data_support.h"

static void open_split(struct sw_records *r, const char *split, int64_t classes, int64_t seed,
                       int64_t records)
{
    struct support_conf c;
    struct sw_err err = {0};
    support_init(&c, "synthetic");
    support_int(&c, "classes", classes);
    support_int(&c, "seed", seed);
    support_int(&c, "records", records);
    support_int(&c, "height", 28);
    support_int(&c, "width", 28);
    const struct sw_format_args args = {.conf = c.bytes, .split = split, .channels = 1};
    ASSERT_OK(sw_records_open(r, c.format, &args, &err));
}

static int32_t fetch(const struct sw_records *r, int64_t record, unsigned char picture[784])
{
    int32_t scratch;
    const void *out = NULL;
    struct sw_err err = {0};
    ASSERT_OK(r->format->fetch(r, record, 0, picture, &out, &err));
    assert_ptr_equal(out, picture);
    ASSERT_OK(r->format->fetch(r, record, 1, &scratch, &out, &err));
    return *(const int32_t *)out;
}

static void synthetic_depends_on_seed_split_and_record_only(void **state)
{
    struct sw_records a, b, c, d;
    unsigned char pa[784], pb[784];
    (void)state;
    open_split(&a, "train", 10, 1, 1000);
    open_split(&b, "train", 10, 1, 20); /* the number of records does not matter */
    open_split(&c, "test", 10, 1, 1000);
    open_split(&d, "train", 10, 2, 1000);
    for (int64_t i = 0; i < 20; i++) {
        const int32_t la = fetch(&a, i, pa);
        assert_int_equal(fetch(&b, i, pb), la);
        assert_memory_equal(pa, pb, sizeof pa);
        fetch(&c, i, pb);
        assert_memory_not_equal(pa, pb, sizeof pa);
        fetch(&d, i, pb);
        assert_memory_not_equal(pa, pb, sizeof pa);
        fetch(&a, i + 1, pb);
        assert_memory_not_equal(pa, pb, sizeof pa);
    }
    sw_records_close(&a);
    sw_records_close(&b);
    sw_records_close(&c);
    sw_records_close(&d);
}

static void synthetic_uses_the_raw_range_and_all_classes(void **state)
{
    struct sw_records r;
    unsigned char p[784];
    int64_t seen[10] = {0}, sum = 0;
    int lowest = 255, highest = 0;
    (void)state;
    open_split(&r, "train", 10, 1, 2000);
    for (int64_t i = 0; i < 2000; i++) {
        seen[fetch(&r, i, p)]++;
        for (int k = 0; k < 784; k++) {
            sum += p[k];
            lowest = p[k] < lowest ? p[k] : lowest;
            highest = p[k] > highest ? p[k] : highest;
        }
    }
    for (int k = 0; k < 10; k++)
        assert_in_range(seen[k], 200 - 70, 200 + 70); /* deviation 13.4 */
    assert_in_range(sum / 2000 / 784, 110, 145);
    assert_true(lowest < 20 && highest > 235);
    sw_records_close(&r);
}

/* Share of a split's pictures whose nearest class mean of the training split is the right one. */
static double nearest_mean(int64_t classes, int64_t train, int64_t test)
{
    struct sw_records r;
    unsigned char p[784];
    double(*mean)[784] = calloc((size_t)classes, sizeof *mean);
    double *count = calloc((size_t)classes, sizeof *count);
    int64_t right = 0;
    assert_non_null(mean);
    assert_non_null(count);
    open_split(&r, "train", classes, 1, train);
    for (int64_t i = 0; i < train; i++) {
        const int32_t label = fetch(&r, i, p);
        count[label]++;
        for (int k = 0; k < 784; k++)
            mean[label][k] += p[k];
    }
    sw_records_close(&r);
    open_split(&r, "test", classes, 1, test);
    for (int64_t i = 0; i < test; i++) {
        const int32_t label = fetch(&r, i, p);
        double best = 1e300;
        int64_t nearest = -1;
        for (int64_t c = 0; c < classes; c++) {
            double d = 0;
            for (int k = 0; count[c] > 0 && k < 784; k++)
                d += (p[k] - mean[c][k] / count[c]) * (p[k] - mean[c][k] / count[c]);
            if (count[c] > 0 && d < best) {
                best = d;
                nearest = c;
            }
        }
        right += nearest == label;
    }
    sw_records_close(&r);
    free(mean);
    free(count);
    return (double)right / (double)test;
}

static void synthetic_can_be_learned_on_another_split(void **state)
{
    (void)state;
    assert_true(nearest_mean(10, 300, 300) > 0.99);
    assert_true(nearest_mean(200, 4000, 300) > 0.95);
}

static void synthetic_makes_any_size(void **state)
{
    static const int64_t sizes[][3] = {
        {1, 1, 1}, {3, 2, 5}, {64, 1, 33}, {3, 227, 227}, {1, 1000, 3}};
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct support_conf c;
        struct sw_records r;
        struct sw_err err = {0};
        const void *out = NULL;
        support_init(&c, "synthetic");
        support_int(&c, "height", sizes[i][1]);
        support_int(&c, "width", sizes[i][2]);
        support_int(&c, "classes", 1000);
        const struct sw_format_args args = {
            .conf = c.bytes, .split = "train", .channels = sizes[i][0]};
        ASSERT_OK(sw_records_open(&r, c.format, &args, &err));
        assert_int_equal(sw_field_count(&r.field[0]), sizes[i][0] * sizes[i][1] * sizes[i][2]);
        unsigned char *scratch =
            malloc(sw_field_bytes(&r.field[0])); /* exact: sanitizers see one more */
        assert_non_null(scratch);
        for (int64_t k = 0; k < 200; k++)
            ASSERT_OK(r.format->fetch(&r, k, 0, scratch, &out, &err));
        free(scratch);
        sw_records_close(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(synthetic_depends_on_seed_split_and_record_only),
        cmocka_unit_test(synthetic_uses_the_raw_range_and_all_classes),
        cmocka_unit_test(synthetic_can_be_learned_on_another_split),
        cmocka_unit_test(synthetic_makes_any_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
