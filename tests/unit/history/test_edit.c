/* ctest-labels: threads */
/* Changes by users: exactly the requested change, also while runs write and others read; a failed
 * change leaves the history unchanged. */
#include "history_support.h"

#include "history/edit.h"
#include "thread/thread.h"
#include <stdatomic.h>

static struct sw_history_edit *edit_open(void)
{
    struct sw_err err;
    struct sw_history_edit *e;
    ok(sw_history_edit_open(&e, db_path(), &err), &err);
    return e;
}

/* A finished run with a curve that has one low and one high point. */
static void write_run(const char *name, int steps)
{
    struct sw_history *h = begin(name);
    struct sw_history_producer *p = producer(h);
    int loss = series(h, "train", "loss"), test = series(h, "test", "loss");
    for (int step = 1; step <= steps; step++) {
        struct sw_step_time t = {.step = step, .forward_ms = 2};
        sw_history_point(p, loss, step, step == 777 ? -5 : step == 778 ? 99 : 1);
        if (step % 100 == 0)
            sw_history_point(p, test, step, step);
        sw_history_step_time(p, &t);
    }
    sw_history_checkpoint(h, steps, "/c", 1, "x", true);
    finish(h, SW_RUN_DONE);
}

static void edit_of_a_missing_history_is_an_error(void **state)
{
    struct sw_err err;
    struct sw_history_edit *e;
    assert_int_equal(sw_history_edit_open(&e, db_path(), &err), SW_ERR_NOTFOUND);
    assert_int_not_equal(access(db_path(), F_OK), 0);
}

static void tags_and_notes_are_set_and_removed(void **state)
{
    struct sw_err err;
    write_run("a", 10);
    struct sw_history_edit *e = edit_open();
    ok(sw_history_edit_tag(e, 1, "why", "because", &err), &err);
    ok(sw_history_edit_tag(e, 1, "why", "it's 'so'", &err), &err);
    ok(sw_history_edit_note(e, 1, "a note", &err), &err);
    assert_string_equal(ask_text("SELECT group_concat(key || '=' || value) FROM tags"),
                        "why=it's 'so'");
    assert_string_equal(ask_text("SELECT note FROM runs"), "a note");
    ok(sw_history_edit_tag(e, 1, "why", NULL, &err), &err);
    ok(sw_history_edit_note(e, 1, NULL, &err), &err);
    assert_true(ask("SELECT count(*) = 0 FROM tags"));
    assert_true(ask("SELECT note IS NULL FROM runs"));
    assert_int_not_equal(sw_history_edit_tag(e, 99, "x", "y", &err), SW_OK);
    sw_history_edit_close(e);
    assert_sound();
}

static void removal_deletes_all_rows_of_the_run(void **state)
{
    struct sw_err err;
    write_run("a", 50);
    write_run("b", 50);
    struct sw_history_edit *e = edit_open();
    ok(sw_history_edit_rm(e, 1, &err), &err);
    sw_history_edit_close(e);
    static const char *const tables[] = {"series", "step_time",    "checkpoints", "segments",
                                         "events", "time_summary", "layer_time",  "placement"};
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        char sql[96];
        snprintf(sql, sizeof sql, "SELECT count(*) FROM %s WHERE run_id = 1", tables[i]);
        assert_true(ask(sql) == 0);
    }
    assert_true(ask("SELECT count(*) = 50 FROM metrics WHERE run_id = 2 AND split = 'train'"));
    assert_true(
        ask("SELECT count(*) = 0 FROM point WHERE series_id NOT IN (SELECT id FROM series)"));
    assert_sound();
}

static void downsampling_keeps_summaries_ends_and_extremes(void **state)
{
    struct sw_err err;
    struct sw_history_thinned dry = {0}, wet = {0}, again = {0};
    write_run("a", 5000);
    struct sw_history_edit *e = edit_open();
    ok(sw_history_edit_thin(e, 1, 100, true, &dry, &err), &err);
    assert_true(ask("SELECT count(*) = 5050 FROM point"));
    ok(sw_history_edit_thin(e, 1, 100, false, &wet, &err), &err);
    assert_int_equal(dry.points, wet.points);
    assert_int_equal(dry.step_times, wet.step_times);
    assert_true(wet.points > 4600 && wet.step_times > 4800);
    assert_true(ask("SELECT count(*) BETWEEN 100 AND 320 FROM metrics WHERE split = 'train'"));
    assert_true(ask("SELECT count(*) = 50 FROM metrics WHERE split = 'test'"));
    assert_true(ask("SELECT value = -5 FROM metrics WHERE split = 'train' AND step = 777"));
    assert_true(ask("SELECT value = 99 FROM metrics WHERE split = 'train' AND step = 778"));
    assert_true(ask("SELECT max(step) = 5000 AND min(step) = 1 FROM metrics"));
    assert_true(ask("SELECT points = 5000 AND min = -5 AND max = 99 AND last = 1"
                    " FROM series_stats WHERE split = 'train'"));
    assert_true(ask("SELECT total_ms = 10000 FROM where_time_went WHERE part = 'forward'"));
    ok(sw_history_edit_thin(e, 1, 100, false, &again, &err), &err);
    assert_int_equal(again.points + again.step_times, 0);
    double before = ask("SELECT page_count FROM pragma_page_count");
    ok(sw_history_edit_vacuum(e, &err), &err);
    assert_true(ask("SELECT page_count FROM pragma_page_count") < before / 2);
    sw_history_edit_close(e);
    assert_sound();
}

static void short_run_is_not_downsampled(void **state)
{
    struct sw_err err;
    struct sw_history_thinned sum = {0};
    write_run("a", 150);
    struct sw_history_edit *e = edit_open();
    ok(sw_history_edit_thin(e, 1, 100, false, &sum, &err), &err);
    assert_int_equal(sum.points + sum.step_times + sum.traffic, 0);
    sw_history_edit_close(e);
}

static void locked_database_refuses_changes_within_the_timeout(void **state)
{
    struct sw_err err;
    write_run("a", 10);
    struct sw_history_edit *e = edit_open();
    sqlite3 *lock = lock_database();
    assert_int_equal(sw_history_edit_note(e, 1, "late", &err), SW_ERR_BUSY);
    unlock_database(lock);
    ok(sw_history_edit_note(e, 1, "now", &err), &err);
    sw_history_edit_close(e);
    assert_string_equal(ask_text("SELECT note FROM runs"), "now");
}

struct busy {
    char path[512]; /* the path helpers are not thread-safe */
    atomic_bool stop;
    atomic_int failures, reads;
};

/* Reads continuously, like a dashboard. */
static void read_on(void *arg)
{
    struct busy *b = arg;
    struct sw_err err;
    while (!b->stop) {
        struct sw_history_reader *r;
        struct sw_run run = {0};
        if (sw_history_reader_open(&r, b->path, &err) != SW_OK) {
            b->failures++;
            continue;
        }
        if (sw_history_find(r, "writer", &run, &err) != SW_OK)
            b->failures++;
        sw_run_fini(&run);
        sw_history_reader_close(r);
        b->reads++;
    }
}

/* On a busy machine a change may time out, so it is retried. */
static int change_all(struct sw_history_edit *e, int64_t points, struct sw_err *err)
{
    int rc;
    do {
        struct sw_history_thinned sum = {0};
        rc = sw_history_edit_tag(e, 1, "round", "x", err);
        if (rc == SW_OK)
            rc = sw_history_edit_thin(e, 1, points, false, &sum, err);
        if (rc == SW_OK)
            rc = sw_history_edit_vacuum(e, err);
    } while (rc == SW_ERR_BUSY);
    return rc;
}

static void changes_disturb_neither_writers_nor_readers(void **state)
{
    struct sw_err err;
    struct busy busy = {0};
    struct sw_thread reader = {0};
    snprintf(busy.path, sizeof busy.path, "%s", db_path());
    write_run("old", 4000);
    struct sw_history *h = begin("writer");
    struct sw_history_producer *p = producer(h);
    int loss = series(h, "train", "loss");
    ok(sw_thread_start(&reader, "reader", read_on, &busy, &err), &err);
    struct sw_history_edit *e = edit_open();
    for (int step = 1; step <= 20000; step++) {
        sw_history_point(p, loss, step, step);
        if (step % 2000 == 0) {
            ok(change_all(e, 1000 - step / 25, &err), &err);
        }
    }
    sw_history_edit_close(e);
    finish(h, SW_RUN_DONE);
    busy.stop = true;
    sw_thread_join(&reader);
    assert_int_equal(busy.failures, 0);
    assert_true(busy.reads > 0);
    assert_true(ask("SELECT count(*) = 20000 AND total(value) = 200010000 FROM metrics"
                    " WHERE run_id = 2"));
    assert_sound();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(edit_of_a_missing_history_is_an_error, home_begin,
                                        home_end),
        cmocka_unit_test_setup_teardown(tags_and_notes_are_set_and_removed, home_begin, home_end),
        cmocka_unit_test_setup_teardown(removal_deletes_all_rows_of_the_run, home_begin, home_end),
        cmocka_unit_test_setup_teardown(downsampling_keeps_summaries_ends_and_extremes, home_begin,
                                        home_end),
        cmocka_unit_test_setup_teardown(short_run_is_not_downsampled, home_begin, home_end),
        cmocka_unit_test_setup_teardown(locked_database_refuses_changes_within_the_timeout,
                                        home_begin, home_end),
        cmocka_unit_test_setup_teardown(changes_disturb_neither_writers_nor_readers, home_begin,
                                        home_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
