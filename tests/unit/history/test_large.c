/* ctest-labels: threads long
 * ctest-timeout: 1800 */
/* Ten million points: their size on disk, views that agree with the points, and downsampling to a
 * small file with the same views. */
#include "history_support.h"

#include "history/edit.h"

enum { RUNS = 2, CURVES = 5, STEPS = 1000000, PACE = 1000 };

static void write_run(const char *name)
{
    struct sw_history *h = begin(name);
    struct sw_history_producer *p = producer(h);
    int curve[CURVES];
    for (int c = 0; c < CURVES; c++) {
        char text[24];
        snprintf(text, sizeof text, "curve%d", c);
        curve[c] = series(h, "train", text);
    }
    for (int64_t step = 1; step <= STEPS; step++) {
        for (int c = 0; c < CURVES; c++)
            sw_history_point(p, curve[c], step, (double)((step * (c + 7)) % 10007) / 3);
        if (step % PACE == 0) /* at most one ring at once, so that nothing is dropped */
            assert_true(sw_history_flush(h, 120000));
    }
    assert_int_equal(stats_of(h).lost, 0);
    finish(h, SW_RUN_DONE);
}

static void assert_views_agree(void)
{
    assert_true(ask("SELECT count(*) = 10 AND min(points) = 1000000 AND max(points) = 1000000"
                    " AND min(min) = 0 AND max(max) = 10006 / 3.0 AND min(last_step) = 1000000"
                    " FROM series_stats"));
}

static void ten_million_points_have_small_file_and_exact_views(void **state)
{
    struct sw_err err;
    struct sw_history_edit *e;
    struct sw_history_thinned sum = {0};
    for (int r = 0; r < RUNS; r++)
        write_run(r ? "second" : "first");
    assert_true(ask("SELECT count(*) = 10000000 FROM point"));
    assert_views_agree();
    double mean = ask("SELECT avg(value) FROM point WHERE series_id = 3");
    assert_true(fabs(ask("SELECT mean FROM series_stats WHERE run_id = 1 AND name = 'curve2'") -
                     mean) < 1e-6 * mean);
    double bytes = ask("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size");
    print_message("%.2f bytes a point\n", bytes / (RUNS * CURVES * (double)STEPS));
    assert_true(bytes < 29.0 * RUNS * CURVES * STEPS);
    ok(sw_history_edit_open(&e, db_path(), &err), &err);
    for (int r = 1; r <= RUNS; r++)
        ok(sw_history_edit_thin(e, r, 1000, false, &sum, &err), &err);
    ok(sw_history_edit_vacuum(e, &err), &err);
    sw_history_edit_close(e);
    assert_true(ask("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size") <
                bytes / 100);
    assert_views_agree();
    assert_sound();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(ten_million_points_have_small_file_and_exact_views,
                                        home_begin, home_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
