/* ctest-labels: threads
 * Several threads read one shard at the same time: they get the rows that one thread reads, and
 * damage that they encounter together is reported. */
#include "data/import.h"
#include "data/prefetch.h"
#include "data_support.h"

enum { RECORDS = 3000, ROWS = 50 };

static const char *make_shard(void)
{
    struct support_conf c;
    struct sw_records from;
    struct sw_import_result result;
    struct sw_err err = {0};
    support_idx(&c, RECORDS);
    const struct sw_format_args args = {.conf = c.bytes, .split = "train"};
    ASSERT_OK(sw_records_open(&from, c.format, &args, &err));
    const struct sw_import_args import = {
        .from = &from, .out = support_path("threads.shard"), .origin = ""};
    ASSERT_OK(sw_import(&import, &result, &err));
    sw_import_result_fini(&result);
    sw_records_close(&from);
    return import.out;
}

static struct sw_source *open_shard(const char *path)
{
    struct support_conf c;
    struct sw_source *s = NULL;
    struct sw_err err = {0};
    struct sw_data_conf conf = support_plain();
    support_init(&c, "shard");
    support_strings(&c, "paths", 0, path, NULL);
    conf.shuffle = true;
    ASSERT_OK(support_open(&c, &conf, true, 7, &s, &err));
    return s;
}

/* Reads two epochs; the first error, or SW_OK with a checksum of all rows. */
static int read_all(const struct sw_source *s, int threads, uint64_t *sum, struct sw_err *err)
{
    const struct sw_prefetch_args args = {.source = s,
                                          .batch_rows = ROWS,
                                          .row_count = ROWS,
                                          .batch_stride = 1,
                                          .batch_limit = -1,
                                          .slots = 3,
                                          .threads = threads,
                                          .fields = 3};
    struct sw_prefetch *p = NULL;
    int rc = sw_prefetch_start(&args, &p, err);
    *sum = 0;
    for (int i = 0; !rc && i < 2 * RECORDS / ROWS; i++) {
        struct sw_batch b;
        rc = sw_prefetch_next(p, &b, err);
        if (rc)
            break;
        for (int row = 0; row < ROWS; row++) {
            const int64_t record = support_record((const float *)b.field[0] + row * SUPPORT_PIXELS);
            assert_int_equal(((const int32_t *)b.field[1])[row], record % 10);
            *sum = *sum * 31 + (uint64_t)record;
        }
        sw_prefetch_release(p, &b);
    }
    sw_prefetch_free(p);
    return rc;
}

static void threads_read_the_same_rows(void **state)
{
    const char *path = make_shard();
    struct sw_err err = {0};
    uint64_t alone, together;
    struct sw_source *s = open_shard(path);
    ASSERT_OK(read_all(s, 1, &alone, &err));
    sw_source_close(s);
    s = open_shard(path);
    ASSERT_OK(read_all(s, 4, &together, &err));
    ASSERT_OK(read_all(s, 4, &together, &err)); /* and again, where all were checked */
    sw_source_close(s);
    assert_true(alone == together);
}

static void damage_is_reported_with_any_number_of_threads(void **state)
{
    char *text = NULL;
    size_t bytes;
    struct sw_err err = {0};
    uint64_t sum;
    ASSERT_OK(sw_os_read_file(make_shard(), 1 << 20, &text, &bytes, &err));
    text[bytes / 2] ^= 1;
    const char *path = support_write("bad.shard", text, bytes);
    sw_free(text);
    struct sw_source *s = open_shard(path);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(read_all(s, 4, &sum, &err), SW_ERR_FORMAT);
        ASSERT_CONTAINS(err.text, "is damaged: checksum");
    }
    sw_source_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_read_the_same_rows),
        cmocka_unit_test(damage_is_reported_with_any_number_of_threads),
    };
    return cmocka_run_group_tests_name("shard threads", tests, support_setup, support_teardown);
}
