/* ctest-labels: threads */
/* All fields of a record reach the batches, the same whatever the number of threads and workers. */
#include "data/prefetch.h"
#include "field_sets.h"

enum { ROWS = 12, BATCHES = 9 };

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

static void fields_do_not_depend_on_threads_and_workers(void **state)
{
    for (int m = 0; m < FIELD_SETS; m++) {
        struct sw_data_conf common = support_plain();
        struct sw_source *s = NULL;
        struct sw_err err = {0};
        common.shuffle = true;
        field_sets[m].make();
        ASSERT_OK(support_open(&conf, &common, true, 1, &s, &err));
        assert_int_equal(s->field_count, field_sets[m].fields);
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
        cmocka_unit_test(fields_do_not_depend_on_threads_and_workers),
    };
    return cmocka_run_group_tests(tests, support_setup, nus_teardown);
}
