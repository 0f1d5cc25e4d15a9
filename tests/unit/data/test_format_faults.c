/* Formats whose n-th allocation, open, read or stat fails: they return an error, leak nothing, and
 * the next attempt succeeds. */
#include "field_sets.h"
#include "unit/faulty_os.h"

static int open_set(struct sw_records *r, struct sw_err *err)
{
    const struct sw_format_args args = {.conf = conf.bytes, .split = "train"};
    return sw_records_open(r, conf.format, &args, err);
}

static void opening_reports_every_system_failure(void **state)
{
    for (int m = 0; m < FIELD_SETS; m++) {
        field_sets[m].make();
        bool failed = true;
        for (int at = 1; failed; at++) {
            struct sw_records r;
            struct sw_err err = {0};
            faulty_begin((struct faulty_plan){
                .kinds = FAULTY_ALLOC | FAULTY_OPEN | FAULTY_READ | FAULTY_DIR, .at = at});
            const int rc = open_set(&r, &err);
            if (rc == SW_OK)
                sw_records_close(&r);
            failed = faulty.calls >= at;
            assert_int_equal(faulty.live_allocations, 0);
            faulty_end();
            if (failed)
                assert_true(rc != SW_OK && err.text[0]);
            else
                assert_int_equal(rc, SW_OK);
        }
    }
}

static void partial_reads_change_nothing(void **state)
{
    for (int m = 0; m < FIELD_SETS; m++) {
        struct sw_records whole, pieces;
        struct sw_err err = {0};
        field_sets[m].make();
        ASSERT_OK(open_set(&whole, &err));
        faulty_begin((struct faulty_plan){.io_bytes = 3, .interrupts = true});
        const int rc = open_set(&pieces, &err);
        faulty_end();
        ASSERT_OK(rc);
        for (int64_t i = 0; i < whole.count; i++) {
            for (int f = 0; f < whole.field_count; f++) {
                static _Alignas(64) unsigned char a[4096], b[4096];
                const void *x = NULL, *y = NULL;
                ASSERT_OK(whole.format->fetch(&whole, i, f, a, &x, &err));
                ASSERT_OK(pieces.format->fetch(&pieces, i, f, b, &y, &err));
                assert_memory_equal(x, y, sw_field_bytes(&whole.field[f]));
            }
        }
        sw_records_close(&whole);
        sw_records_close(&pieces);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(opening_reports_every_system_failure),
        cmocka_unit_test(partial_reads_change_nothing),
    };
    return cmocka_run_group_tests(tests, support_setup, nus_teardown);
}
