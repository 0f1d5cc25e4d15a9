/* Synthetic images: reproducible, different from one another, and learnable. */
#include "data_support.h"
#include <math.h>

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

/* Share of a split's images whose nearest class mean of the training split is the right one. */
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
    assert_true(nearest_mean(10, 300, 300) > 0.99);
    assert_true(nearest_mean(200, 4000, 300) > 0.95);
}

static void synthetic_makes_any_size(void **state)
{
    static const int64_t sizes[][3] = {
        {1, 1, 1}, {3, 2, 5}, {64, 1, 33}, {3, 227, 227}, {1, 1000, 3}};
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

static void open_kind(struct sw_records *r, int kind, const char *split, int64_t classes,
                      int64_t length)
{
    struct support_conf c;
    struct sw_err err = {0};
    const int64_t seed = 1;
    support_init(&c, "synthetic");
    support_set(&c, "kind", &kind, sizeof kind);
    support_set(&c, "seed", &seed, sizeof seed);
    support_int(&c, "classes", classes);
    support_int(&c, "length", length);
    support_int(&c, "tags", 8);
    support_int(&c, "height", 8);
    support_int(&c, "width", 8);
    const struct sw_format_args args = {.conf = c.bytes, .split = split, .channels = 1};
    ASSERT_OK(sw_records_open(r, c.format, &args, &err));
}

static const void *field_of(const struct sw_records *r, int64_t record, int f)
{
    static _Alignas(64) unsigned char scratch[SW_MAX_FIELDS][8192];
    const void *out = NULL;
    struct sw_err err = {0};
    ASSERT_OK(r->format->fetch(r, record, f, scratch[f], &out, &err));
    return out;
}

static void sequences_are_one_text_whatever_their_length(void **state)
{
    struct sw_records a, b, other;
    int32_t whole[2000];
    int64_t differ = 0;
    open_kind(&a, 2, "train", 20, 2000);
    memcpy(whole, field_of(&a, 0, 0), sizeof whole);
    assert_int_equal(a.classes, 20);
    sw_records_close(&a);
    open_kind(&b, 2, "train", 20, 7);
    open_kind(&other, 2, "test", 20, 7);
    for (int64_t i = 0; i < 280; i++) {
        assert_memory_equal(field_of(&b, i, 0), whole + 7 * i, 7 * sizeof *whole);
        assert_memory_equal(field_of(&b, i, 1), whole + 7 * i + 1, 7 * sizeof *whole);
        assert_int_equal(*(const int32_t *)field_of(&b, i, 2), whole[7 * i + 7]);
        differ += memcmp(field_of(&other, i, 0), whole + 7 * i, 7 * sizeof *whole) != 0;
    }
    assert_true(differ > 270);
    sw_records_close(&b);
    sw_records_close(&other);
}

static void sequences_follow_the_documented_chain(void **state)
{
    enum { V = 12, T = 1000, RECORDS = 100 };
    static int64_t pairs[V][V];
    int64_t best = 0, all = 0;
    for (int split = 0; split < 2; split++) {
        struct sw_records r;
        open_kind(&r, 2, split ? "test" : "train", V, T);
        for (int64_t i = 0; i < RECORDS; i++) {
            const int32_t *x = field_of(&r, i, 0), *y = field_of(&r, i, 1);
            for (int t = 0; t < T; t++) {
                assert_true(x[t] >= 0 && x[t] < V);
                pairs[x[t]][y[t]]++;
            }
        }
        sw_records_close(&r);
    }
    for (int a = 0; a < V; a++) {
        int64_t most = 0, seen = 0, often = 0;
        for (int b = 0; b < V; b++) {
            seen += pairs[a][b];
            most = pairs[a][b] > most ? pairs[a][b] : most;
        }
        for (int b = 0; b < V; b++)
            often += pairs[a][b] > seen / 16;
        assert_true(seen == 0 || often == 4);
        best += most;
        all += seen;
    }
    assert_true(best > all * 48 / 100 && best < all * 52 / 100);
}

static void both_sides_of_pairs_depend_on_the_class(void **state)
{
    enum { WORDS = 100, K = 5, RECORDS = 600 };
    struct sw_records r;
    double mean[K][WORDS] = {{0}}, tag_count[K][WORDS] = {{0}};
    int64_t seen[K] = {0}, right = 0, right_by_tags = 0;
    open_kind(&r, 3, "train", K, 0);
    assert_int_equal(r.field_count, 4);
    assert_int_equal(r.field[2].dim[0], WORDS);
    assert_int_equal(r.field[3].dim[0], 8);
    for (int64_t i = 0; i < RECORDS; i++) {
        const int32_t label = *(const int32_t *)field_of(&r, i, 1), *tag = field_of(&r, i, 3);
        const float *text = field_of(&r, i, 2);
        assert_true(tag[0] >= 0);
        for (int k = 0; k < 8; k++) {
            assert_true(tag[k] >= -1 && tag[k] < WORDS &&
                        (k == 0 || tag[k] < 0 || tag[k - 1] >= 0));
            if (tag[k] >= 0)
                tag_count[label][tag[k]]++;
        }
        for (int d = 0; d < WORDS; d++) {
            assert_true(text[d] >= 0 && text[d] <= 5);
            mean[label][d] += text[d];
        }
        seen[label]++;
    }
    sw_records_close(&r);
    open_kind(&r, 3, "test", K, 0);
    for (int64_t i = 0; i < RECORDS; i++) {
        const int32_t label = *(const int32_t *)field_of(&r, i, 1), *tag = field_of(&r, i, 3);
        const float *text = field_of(&r, i, 2);
        double score[K] = {0}, distance[K] = {0};
        int nearest = 0, likeliest = 0;
        for (int k = 0; k < K; k++) {
            for (int d = 0; d < WORDS; d++) {
                const double e = text[d] - mean[k][d] / (double)seen[k];
                distance[k] += e * e;
            }
            for (int t = 0; t < 8 && tag[t] >= 0; t++)
                score[k] += log((tag_count[k][tag[t]] + 0.1) / (double)seen[k]);
            nearest = distance[k] < distance[nearest] ? k : nearest;
            likeliest = score[k] > score[likeliest] ? k : likeliest;
        }
        right += nearest == label;
        right_by_tags += likeliest == label;
    }
    sw_records_close(&r);
    assert_true(right > RECORDS * 95 / 100);
    assert_true(right_by_tags > RECORDS * 70 / 100);
}

static void label_sets_have_one_or_two_classes(void **state)
{
    enum { K = 6, RECORDS = 400 };
    struct support_conf c;
    struct sw_records r, plain;
    struct sw_err err = {0};
    const int pairs = 3;
    const bool yes = true;
    int64_t both = 0, seen[K] = {0}, own = 0, all = 0;
    support_init(&c, "synthetic");
    support_set(&c, "kind", &pairs, sizeof pairs);
    support_int(&c, "classes", K);
    support_int(&c, "tags", 8);
    support_int(&c, "height", 4);
    support_int(&c, "width", 8);
    const struct sw_format_args args = {.conf = c.bytes, .split = "train", .channels = 1};
    ASSERT_OK(sw_records_open(&plain, c.format, &args, &err));
    support_set(&c, "label_sets", &yes, sizeof yes);
    ASSERT_OK(sw_records_open(&r, c.format, &args, &err));
    assert_true(r.field[1].dtype == SW_F32 && r.field[1].ndim == 1 && r.field[1].dim[0] == K);
    for (int64_t i = 0; i < RECORDS; i++) {
        const int32_t first = *(const int32_t *)field_of(&plain, i, 1);
        const float *set = field_of(&r, i, 1);
        int64_t n = 0;
        assert_true(set[first] == 1);
        for (int k = 0; k < K; k++) {
            assert_true(set[k] == 0 || set[k] == 1);
            n += set[k] > 0;
            seen[k] += set[k] > 0;
        }
        assert_in_range(n, 1, 2);
        both += n == 2;
        /* Records of one class are those of the plain data. */
        float text[100];
        memcpy(text, field_of(&r, i, 2), sizeof text);
        const float *other = field_of(&plain, i, 2);
        for (int k = 0; k < 100; k++) {
            own += n == 2 && text[k] > 1;
            all += n == 2 && other[k] > 1;
        }
        assert_true(n == 2 || !memcmp(text, other, sizeof text));
    }
    assert_in_range(both, RECORDS * 34 / 100, RECORDS * 50 / 100); /* 5/12 */
    for (int k = 0; k < K; k++)
        assert_true(seen[k] > RECORDS / 6);
    assert_true(own > all * 3 / 2); /* two classes have 7/16 of the words, one has 1/4 */
    sw_records_close(&r);
    sw_records_close(&plain);
}

static void fallback_data_have_the_kind_of_the_files(void **state)
{
    struct support_conf c;
    struct sw_records r;
    struct sw_err err = {0};
    support_init(&c, "synthetic");
    support_int(&c, "tags", 3);
    struct sw_format_args args = {
        .conf = c.bytes, .split = "train", .implied = sw_format_find("text")->implied};
    ASSERT_OK(sw_records_open(&r, c.format, &args, &err));
    assert_string_equal(r.field[0].name, "tokens");
    assert_int_equal(r.field[0].dim[0], 50);
    sw_records_close(&r);
    args.implied = sw_format_find("pairs")->implied;
    ASSERT_OK(sw_records_open(&r, c.format, &args, &err));
    assert_int_equal(r.field_count, 4);
    sw_records_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(synthetic_depends_on_seed_split_and_record_only),
        cmocka_unit_test(synthetic_uses_the_raw_range_and_all_classes),
        cmocka_unit_test(synthetic_can_be_learned_on_another_split),
        cmocka_unit_test(synthetic_makes_any_size),
        cmocka_unit_test(sequences_are_one_text_whatever_their_length),
        cmocka_unit_test(sequences_follow_the_documented_chain),
        cmocka_unit_test(both_sides_of_pairs_depend_on_the_class),
        cmocka_unit_test(label_sets_have_one_or_two_classes),
        cmocka_unit_test(fallback_data_have_the_kind_of_the_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
