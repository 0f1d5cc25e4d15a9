/* ctest-labels: threads */
/* All fields of a record reach the batches, the same whatever the number of threads and workers. */
#include "data/prefetch.h"
#include "npy_support.h"

enum { ROWS = 12, BATCHES = 9, RECORDS = 50 };

static struct support_conf conf;

static void make_csv(void)
{
    struct sw_buf b = {0};
    const int64_t most = 1 << 20;
    for (int i = 0; i < RECORDS; i++)
        sw_buf_printf(&b, "%d,%d,%d,c%d\n", i, 2 * i, 3 * i, i % 3);
    support_init(&conf, "csv");
    support_set(&conf, "max_bytes", &most, sizeof most);
    support_strings(&conf, "paths", 0, support_gzip("t.gz", b.text, b.length), NULL);
    support_strings(&conf, "target", 1, "1", NULL);
    support_text(&conf, "label", "last");
    sw_buf_fini(&b);
}

static void make_text(void)
{
    struct sw_buf b = {0};
    const int64_t most = 1 << 20;
    const int words = 2;
    for (int i = 0; i < 9 * RECORDS; i++)
        sw_buf_printf(&b, "w%d ", i * i % 97);
    support_init(&conf, "text");
    support_set(&conf, "max_bytes", &most, sizeof most);
    support_set(&conf, "unit", &words, sizeof words);
    support_int(&conf, "length", 8);
    support_strings(&conf, "paths", 0, support_write("t.txt", b.text, b.length), NULL);
    sw_buf_fini(&b);
}

static void make_pairs(void)
{
    static float image[RECORDS][3];
    static double text[RECORDS][5];
    struct sw_buf tags = {0}, labels = {0};
    const int64_t most = 1 << 20;
    const bool sets = true;
    for (int i = 0; i < RECORDS; i++) {
        for (int k = 0; k < 3; k++)
            image[i][k] = (float)(i * 3 + k);
        for (int k = 0; k < 5; k++)
            text[i][k] = i * 5 + k;
        sw_buf_printf(&tags, "t%d t%d\n", i % 7, i % 11);
        sw_buf_printf(&labels, i % 4 ? "%d\n" : "%d 9\n", i % 5);
    }
    support_init(&conf, "pairs");
    support_set(&conf, "max_bytes", &most, sizeof most);
    support_set(&conf, "label_sets", &sets, sizeof sets);
    support_strings(&conf, "paths", 0, npy_write("x", "<f4", "(50, 3)", image, sizeof image), NULL);
    support_strings(&conf, "text", 1, npy_write("y", "<f8", "(50, 5)", text, sizeof text), NULL);
    support_strings(&conf, "tags", 2, support_write("g", tags.text, tags.length), NULL);
    support_strings(&conf, "labels", 3, support_write("l", labels.text, labels.length), NULL);
    sw_buf_fini(&tags);
    sw_buf_fini(&labels);
}

static void make_synthetic(void)
{
    const int pairs = 3;
    support_init(&conf, "synthetic");
    support_set(&conf, "kind", &pairs, sizeof pairs);
    support_int(&conf, "records", RECORDS);
    support_int(&conf, "height", 8);
    support_int(&conf, "width", 8);
    support_int(&conf, "tags", 6);
}

/* Batches [0, BATCHES) of one worker of `workers` against what the source gives row by row. */
static void check_worker(const struct sw_source *s, int workers, int worker, int threads)
{
    struct sw_prefetch_args args = {.source = s,
                                    .batch_rows = ROWS,
                                    .row_count = ROWS / workers,
                                    .first_row = worker * (ROWS / workers),
                                    .batch_stride = 1,
                                    .batch_limit = BATCHES,
                                    .slots = 3,
                                    .threads = threads,
                                    .fields = (1u << s->field_count) - 1};
    struct sw_prefetch *p = NULL;
    struct sw_reader r;
    struct sw_err err = {0};
    ASSERT_OK(sw_prefetch_start(&args, &p, &err));
    ASSERT_OK(sw_reader_init(&r, s, &err));
    for (int64_t i = 0; i < BATCHES; i++) {
        struct sw_batch b;
        ASSERT_OK(sw_prefetch_next(p, &b, &err));
        for (int64_t row = 0; row < b.rows; row++) {
            static _Alignas(64) unsigned char value[SW_MAX_FIELDS][1024];
            void *out[SW_MAX_FIELDS] = {NULL};
            for (int f = 0; f < s->field_count; f++)
                out[f] = value[f];
            ASSERT_OK(sw_source_fetch(&r, i * ROWS + args.first_row + row, 1, out, &err));
            for (int f = 0; f < s->field_count; f++) {
                const size_t bytes = sw_field_bytes(&s->field[f]);
                const unsigned char *got = b.field[f];
                assert_true(bytes <= sizeof value[f]);
                assert_memory_equal(got + (size_t)row * bytes, value[f], bytes);
            }
        }
        sw_prefetch_release(p, &b);
    }
    sw_reader_fini(&r);
    sw_prefetch_free(p);
}

static void all_fields_come_whatever_the_threads_and_workers(void **state)
{
    void (*const make[])(void) = {make_csv, make_text, make_pairs, make_synthetic};
    static const int fields[] = {3, 3, 4, 4};
    (void)state;
    for (int m = 0; m < 4; m++) {
        struct sw_data_conf common = support_plain();
        struct sw_source *s = NULL;
        struct sw_err err = {0};
        common.shuffle = true;
        make[m]();
        ASSERT_OK(support_open(&conf, &common, true, 1, &s, &err));
        assert_int_equal(s->field_count, fields[m]);
        for (int threads = 1; threads <= 3; threads += 2) {
            check_worker(s, 1, 0, threads);
            check_worker(s, 2, 1, threads);
        }
        sw_source_close(s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_fields_come_whatever_the_threads_and_workers),
    };
    return cmocka_run_group_tests(tests, support_setup, support_teardown);
}
