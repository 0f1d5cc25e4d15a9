/* Every allocation and every system call may fail: the result is an error, or a run that continues
 * without the feature, never a crash or a leak. */
#include "../faulty_os.h"
#include "history/edit.h"
#include "history/health.h"
#include "history/reader_rows.h"
#include "history/snapshot.h"
#include "history_support.h"

enum { MOST = 3000 };

static int nothing(void *user, const struct sw_run *run)
{
    return 0;
}

static int no_row(void *user, int64_t row, int columns, const struct sw_history_cell *cells)
{
    return 0;
}

static int read_everything(struct sw_err *err)
{
    struct sw_history_reader *r = NULL;
    struct sw_run run = {0};
    int code = sw_history_reader_open(&r, db_path(), err);
    if (!code)
        code = sw_history_find(r, "fir", &run, err);
    if (!code)
        code = sw_history_each_run(r, nothing, NULL, err);
    if (!code) {
        struct sw_rows rows = sw_rows_begin(r, SW_ROWS_METRIC, 1, 0, 0, err);
        struct sw_run_metric m;
        while (sw_rows_next(&rows, &m))
            ;
        code = sw_rows_end(&rows);
    }
    if (!code)
        code = sw_history_sql(r, "SELECT * FROM metrics", no_row, NULL, err);
    sw_run_fini(&run);
    sw_history_reader_close(r);
    return code;
}

static int change_everything(struct sw_err *err)
{
    struct sw_history_edit *e = NULL;
    struct sw_history_thinned sum = {0};
    struct sw_history_health health;
    int code = sw_history_edit_open(&e, db_path(), err);
    if (!code)
        code = sw_history_edit_tag(e, 1, "key", "value", err);
    if (!code)
        code = sw_history_edit_note(e, 1, "a note", err);
    if (!code)
        code = sw_history_edit_thin(e, 1, 10, false, &sum, err);
    sw_history_edit_close(e);
    if (!code)
        code = sw_history_health(db_path(), true, &health, err);
    return code;
}

static int make_and_read_a_snapshot(struct sw_err *err)
{
    char *path = NULL;
    struct sw_snapshot *s = NULL;
    struct sw_snapshot_reader *r = NULL;
    int code = sw_snapshot_path("0011223344556677", NULL, &path, err);
    if (!code)
        code = sw_snapshot_new(&s, path,
                               &(struct sw_snapshot_run){1, "0011223344556677", "x", 1, 2}, err);
    if (!code)
        code = sw_snapshot_reader_open(&r, path, err);
    sw_snapshot_reader_close(r);
    sw_snapshot_free(s);
    sw_free(path);
    return code;
}

static int set_up_and_close(struct sw_err *err)
{
    struct sw_history *h = NULL;
    struct sw_history_producer *p;
    int id, code = sw_history_open(&h, db_path(), NULL, err);
    if (code)
        return code;
    code = sw_history_producer_new(h, &p, err);
    if (!code)
        code = sw_history_series(h, "train", "loss", &id, err);
    if (!code)
        code = sw_history_link(h, "a", "b", "param", &id, err);
    sw_history_event(h, SW_LOG_INFO, "test", "x");
    sw_history_tag(h, "a", "b");
    sw_history_close(h);
    return code;
}

/* Lets the n-th call of a kind fail, for every n until there are no more. */
static void fail_each(int (*body)(struct sw_err *), int kinds, int only_code)
{
    for (int n = 1;; n++) {
        struct sw_err err = {0};
        assert_true(n < MOST);
        faulty_begin((struct faulty_plan){.kinds = kinds, .at = n});
        int code = body(&err);
        int live = faulty.live_allocations;
        int calls = faulty_end();
        assert_int_equal(live, 0);
        if (code && only_code && code != only_code)
            fail_msg("call %d: %d %s", n, code, err.text);
        if (code)
            assert_true(err.text[0] != 0);
        if (calls < n) {
            assert_int_equal(code, SW_OK);
            return;
        }
    }
}

static void write_first_run(void)
{
    struct sw_history *h = begin("first");
    struct sw_history_producer *p = producer(h);
    sw_history_point(p, series(h, "train", "loss"), 1, 1);
    finish(h, SW_RUN_DONE);
}

static void reader_survives_every_fault(void **state)
{
    write_first_run();
    fail_each(read_everything, FAULTY_ALLOC, SW_ERR_NOMEM);
    fail_each(read_everything, FAULTY_DIR | FAULTY_OPEN | FAULTY_READ, 0);
}

static void changes_survive_every_fault(void **state)
{
    struct sw_history *h = begin("first");
    struct sw_history_producer *p = producer(h);
    int loss = series(h, "train", "loss");
    for (int step = 1; step <= 100; step++)
        sw_history_point(p, loss, step, step);
    finish(h, SW_RUN_DONE);
    fail_each(change_everything, FAULTY_ALLOC, SW_ERR_NOMEM);
    fail_each(change_everything, FAULTY_DIR | FAULTY_OPEN, 0);
    assert_true(ask("SELECT points = 100 AND min = 1 AND max = 100 FROM series_stats"));
    assert_sound();
}

static void snapshot_survives_every_fault(void **state)
{
    fail_each(make_and_read_a_snapshot, FAULTY_ALLOC, SW_ERR_NOMEM);
    fail_each(make_and_read_a_snapshot, FAULTY_OPEN | FAULTY_RENAME | FAULTY_READ, 0);
    struct stat st;
    assert_int_not_equal(stat(in_home("singa-ws/0011223344556677.live"), &st), 0);
}

static void setup_survives_every_fault(void **state)
{
    fail_each(set_up_and_close, FAULTY_ALLOC, SW_ERR_NOMEM);
}

/* A whole run begins or returns an error; a run that began also ends, with its rows in the
 * database, in the spool, or counted as lost. */
static void run_survives_every_fault(void **state)
{
    static const int kinds[] = {FAULTY_ALLOC, FAULTY_FILES};
    write_first_run();
    for (int k = 0; k < 2; k++)
        for (int n = 1, calls = n; n <= calls; n++) {
            struct sw_err err = {0};
            struct sw_history *h = NULL;
            struct sw_run_info info = info_of("n");
            struct sw_history_stats s = {.rows = 1};
            info.out_dir = in_home("out");
            faulty_begin((struct faulty_plan){.kinds = kinds[k], .at = n, .error = ENOSPC});
            int code = sw_history_open(&h, db_path(), NULL, &err);
            if (!code)
                code = sw_history_begin_run(h, &info, &err);
            if (!code) {
                struct sw_history_producer *p;
                int loss;
                if (!sw_history_producer_new(h, &p, &err) &&
                    !sw_history_series(h, "train", "loss", &loss, &err))
                    sw_history_point(p, loss, 1, 1);
                sw_history_finish_run(h, SW_RUN_DONE);
                assert_true(sw_history_flush(h, PATIENCE_MS));
                s = stats_of(h);
            }
            if (code)
                assert_true(err.text[0] != 0);
            sw_history_close(h);
            calls = faulty_end();
            assert_true(s.rows + s.spooled + s.lost > 0);
            assert_true(n < MOST);
        }
    struct sw_err err;
    uint64_t rows;
    ok(sw_history_merge(db_path(), NULL, &rows, &err), &err);
    assert_sound();
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, home_begin, home_end)
int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(reader_survives_every_fault),   CASE(changes_survive_every_fault),
        CASE(snapshot_survives_every_fault), CASE(setup_survives_every_fault),
        CASE(run_survives_every_fault),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
