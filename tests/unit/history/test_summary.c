/* ctest-labels: threads */
/* Summaries make queries faster but never change their results: after any sequence of events of a
 * run, the views agree with its rows. */
#include "history_support.h"

/* Compares the views with independent SQL over the rows. */
static void assert_summaries_agree(void)
{
    assert_string_equal(
        ask_text(
            "SELECT group_concat(x) FROM (SELECT t.split || '/' || t.name AS x FROM series_stats t"
            " JOIN (SELECT s.run_id, s.split, s.name, count(*) AS points, min(p.value) AS low,"
            "  max(p.value) AS high, avg(p.value) AS mean, max(p.step) AS last_step FROM series s"
            "  JOIN point p ON p.series_id = s.id GROUP BY s.id) d USING (run_id, split, name)"
            " WHERE NOT (t.points = d.points AND t.min IS d.low AND t.max IS d.high"
            "  AND t.last_step = d.last_step"
            "  AND (t.mean IS d.mean OR abs(t.mean - d.mean) < 1e-9 * abs(d.mean))))"),
        "");
    assert_true(ask("SELECT count(*) = (SELECT count(DISTINCT series_id) FROM point)"
                    " FROM series_stats WHERE points > 0"));
    assert_true(ask("SELECT coalesce(abs((SELECT total(forward_ms) FROM step_time)"
                    " - (SELECT total(total_ms) FROM where_time_went WHERE part = 'forward'))"
                    " < 1e-6 * (1 + (SELECT total(forward_ms) FROM step_time)), 1)"));
    assert_true(ask("SELECT (SELECT coalesce(sum(bytes), 0) FROM link_traffic)"
                    " = (SELECT coalesce(sum(bytes), 0) FROM traffic)"));
}

struct curves {
    struct sw_history *h;
    struct sw_history_producer *p;
    int loss, accuracy, link;
};

static struct curves curves_of(struct sw_history *h)
{
    struct curves c = {.h = h, .p = producer(h)};
    struct sw_err err;
    c.loss = series(h, "train", "loss");
    c.accuracy = series(h, "test", "accuracy");
    ok(sw_history_link(h, "worker0.0", "server0.0", "shared", &c.link, &err), &err);
    return c;
}

static void write_step(struct curves *c, int64_t step)
{
    struct sw_step_time t = {.step = step, .forward_ms = 1.5f, .idle_ms = 0.25f};
    sw_history_point(c->p, c->loss, step, step % 1000 == 7 ? NAN : 5.0 / (double)step);
    if (step % 500 == 0)
        sw_history_point(c->p, c->accuracy, step, 1 - 10.0 / (double)(step + 10));
    if (step % 50 == 0) {
        sw_history_step_time(c->p, &t);
        sw_history_traffic(c->p, c->link, step, step, 0.5);
    }
}

static void long_run_is_summarized_while_it_runs(void **state)
{
    struct curves c = curves_of(begin("long"));
    for (int64_t step = 1; step <= 150000; step++)
        write_step(&c, step);
    assert_true(sw_history_flush(c.h, 30000));
    assert_true(ask("SELECT summed_to > 0 AND summed_to < 150000 FROM runs"));
    assert_summaries_agree();
    finish(c.h, SW_RUN_DONE);
    assert_true(ask("SELECT summed_to = 150000 FROM runs"));
    assert_summaries_agree();
    assert_sound();
}

static void resume_from_before_the_end_rebuilds_summaries(void **state)
{
    struct sw_err err;
    struct sw_history *h;
    struct sw_run_info info = info_of("again");
    struct curves c = curves_of(begin("again"));
    for (int64_t step = 1; step <= 3000; step++)
        write_step(&c, step);
    finish(c.h, SW_RUN_STOPPED);
    assert_true(ask("SELECT summed_to = 3000 FROM runs"));
    ok(sw_history_open(&h, db_path(), NULL, &err), &err);
    ok(sw_history_resume_run(h, 1, 1200, &info, &err), &err);
    assert_true(ask("SELECT summed_to = -1 FROM runs"));
    assert_summaries_agree();
    c = curves_of(h);
    for (int64_t step = 1201; step <= 1500; step++)
        write_step(&c, step);
    finish(h, SW_RUN_DONE);
    assert_true(ask("SELECT points = 1500 FROM series_stats WHERE name = 'loss'"));
    assert_summaries_agree();
}

static void resume_from_the_end_keeps_summaries(void **state)
{
    struct sw_err err;
    struct sw_history *h;
    struct sw_run_info info = info_of("on");
    struct curves c = curves_of(begin("on"));
    for (int64_t step = 1; step <= 2000; step++)
        write_step(&c, step);
    finish(c.h, SW_RUN_STOPPED);
    ok(sw_history_open(&h, db_path(), NULL, &err), &err);
    ok(sw_history_resume_run(h, 1, 2000, &info, &err), &err);
    assert_true(ask("SELECT summed_to = 2000 FROM runs"));
    c = curves_of(h);
    for (int64_t step = 2001; step <= 2600; step++)
        write_step(&c, step);
    assert_true(sw_history_flush(h, PATIENCE_MS));
    assert_summaries_agree();
    finish(h, SW_RUN_DONE);
    assert_true(ask("SELECT summed_to = 2600 FROM runs"));
    assert_summaries_agree();
}

static void late_rows_invalidate_summaries(void **state)
{
    struct curves c = curves_of(begin("late"));
    for (int64_t step = 1; step <= 120000; step++)
        write_step(&c, step);
    assert_true(sw_history_flush(c.h, 30000));
    assert_true(ask("SELECT summed_to > 0 FROM runs"));
    sw_history_point(c.p, c.loss, 17, -1000);
    assert_true(sw_history_flush(c.h, 30000));
    assert_true(ask("SELECT min = -1000 AND points = 120000 FROM series_stats"
                    " WHERE name = 'loss'"));
    assert_summaries_agree();
    finish(c.h, SW_RUN_DONE);
    assert_summaries_agree();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(long_run_is_summarized_while_it_runs, home_begin, home_end),
        cmocka_unit_test_setup_teardown(resume_from_before_the_end_rebuilds_summaries, home_begin,
                                        home_end),
        cmocka_unit_test_setup_teardown(resume_from_the_end_keeps_summaries, home_begin, home_end),
        cmocka_unit_test_setup_teardown(late_rows_invalidate_summaries, home_begin, home_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
