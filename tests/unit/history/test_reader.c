/* The reader of the history: finding runs by user input, iterating over their rows, and queries
 * that cannot write. */
#include "history/reader_rows.h"
#include "history_support.h"
#include <fcntl.h>
#include <math.h>

static struct sw_history_reader *open_reader(void)
{
    struct sw_err err;
    struct sw_history_reader *r;
    ok(sw_history_reader_open(&r, db_path(), &err), &err);
    return r;
}

static int64_t id_of(struct sw_history_reader *r, const char *text)
{
    struct sw_err err;
    struct sw_run run;
    ok(sw_history_find(r, text, &run, &err), &err);
    int64_t id = run.id;
    sw_run_fini(&run);
    return id;
}

static void reader_creates_nothing(void **state)
{
    struct sw_err err;
    struct sw_history_reader *r;
    struct stat st;
    assert_int_equal(sw_history_reader_open(&r, db_path(), &err), SW_ERR_NOTFOUND);
    assert_int_not_equal(stat(in_home("db"), &st), 0);
    assert_int_equal(mkdir(in_home("db"), 0700), 0);
    int fd = open(db_path(), O_CREAT | O_WRONLY, 0600);
    close(fd);
    assert_int_equal(sw_history_reader_open(&r, db_path(), &err), SW_ERR_NOTFOUND);
    assert_non_null(strstr(err.text, "empty"));
    fd = open(db_path(), O_WRONLY, 0600);
    assert_int_equal(
        write(fd,
              "this is a text, not a database, and it is long enough to be read as one,"
              " which needs at least a hundred bytes of something",
              100),
        100);
    close(fd);
    assert_int_equal(sw_history_reader_open(&r, db_path(), &err), SW_ERR_FORMAT);
}

static void runs_are_found_by_id_name_prefix_and_last(void **state)
{
    struct sw_err err;
    struct sw_run run;
    const char *names[] = {"lenet", "mnist-mlp", "lenet", "lenet-2", NULL};
    for (int i = 0; i < 5; i++)
        finish(begin(names[i]), SW_RUN_DONE);
    struct sw_history_reader *r = open_reader();
    assert_int_equal(id_of(r, "@last"), 5);
    assert_int_equal(id_of(r, "2"), 2);
    assert_int_equal(id_of(r, "lenet"), 3); /* the newest of that name, not the prefix of lenet-2 */
    assert_int_equal(id_of(r, "lenet-"), 4);
    assert_int_equal(id_of(r, "mn"), 2);
    assert_int_equal(sw_history_find(r, "le", &run, &err), SW_ERR_INVALID);
    assert_non_null(strstr(err.text, "lenet-2, lenet"));
    assert_int_equal(sw_history_find(r, "lentet", &run, &err), SW_ERR_NOTFOUND);
    assert_non_null(strstr(err.text, "did you mean 'lenet'"));
    assert_int_equal(sw_history_find(r, "77", &run, &err), SW_ERR_NOTFOUND);
    assert_int_equal(sw_history_find(r, "", &run, &err), SW_ERR_INVALID);
    assert_int_equal(sw_history_find_id(r, 77, &run, &err), SW_ERR_NOTFOUND);
    ok(sw_history_find_id(r, 4, &run, &err), &err);
    assert_string_equal(run.name, "lenet-2");
    char uid[17];
    strcpy(uid, run.uid);
    sw_run_fini(&run);
    assert_int_equal(id_of(r, uid), 4);
    sw_history_reader_close(r);
}

static void recipe_with_checkpoint_is_found_by_hash(void **state)
{
    struct sw_err err;
    struct sw_run run;
    const char *hash = info_of("x").recipe_hash;
    struct sw_history *h = begin("old");
    sw_history_checkpoint(h, 5, "/old", 1, "x", false);
    finish(h, SW_RUN_DONE);
    finish(begin("new, without"), SW_RUN_DONE);
    struct sw_history_reader *r = open_reader();
    ok(sw_history_find_recipe(r, hash, &run, &err), &err);
    assert_string_equal(run.name, "old");
    assert_string_equal(run.recipe_text, "[job]\nname = x\n");
    sw_run_fini(&run);
    assert_int_equal(sw_history_find_recipe(r, "other", &run, &err), SW_ERR_NOTFOUND);
    sw_history_reader_close(r);
}

static int stop_at_once(void *user, const struct sw_run *run)
{
    ++*(int *)user;
    return 42;
}

static void rows_of_a_run_are_iterated(void **state)
{
    struct sw_err err;
    struct sw_run run;
    struct sw_bytes out = {0};
    struct sw_history *h = begin("walk");
    struct sw_history_producer *p = producer(h);
    int loss = series(h, "train", "loss"), accuracy = series(h, "test", "accuracy");
    int rate = series(h, "train", "samples_per_s");
    for (int step = 1; step <= 10; step++)
        sw_history_point(p, loss, step, step % 4);
    sw_history_point(p, accuracy, 10, 0.5);
    sw_history_point(p, rate, 9, 400);
    sw_history_point(p, rate, 10, 1200);
    sw_history_step_time(p, &(struct sw_step_time){.step = 1, .forward_ms = 3, .wait_ms = 1});
    sw_history_checkpoint(h, 5, "/c5", 1, "x", true);
    sw_history_checkpoint(h, 10, "/c10", 1, "x", false);
    finish(h, SW_RUN_DONE);
    finish(begin("empty"), SW_RUN_FAILED);
    struct sw_history_reader *r = open_reader();
    struct sw_run_checkpoint c;
    struct sw_rows rows = sw_rows_begin(r, SW_ROWS_CHECKPOINT, 1, 0, 0, &err);
    while (sw_rows_next(&rows, &c))
        sw_bytes_printf(&out, "%lld:%s:%d ", (long long)c.step, c.path, (int)c.is_best);
    ok(sw_rows_end(&rows), &err);
    assert_string_equal(sw_bytes_text(&out), "10:/c10:0 5:/c5:1 ");
    sw_bytes_clear(&out);
    struct sw_run_metric m;
    rows = sw_rows_begin(r, SW_ROWS_METRIC, 1, 0, 0, &err);
    while (sw_rows_next(&rows, &m))
        sw_bytes_printf(&out, "%s.%s:%lld:%g:%g:%g ", m.split, m.name, (long long)m.last_step,
                        m.last, m.min, m.max);
    ok(sw_rows_end(&rows), &err);
    assert_string_equal(sw_bytes_text(&out),
                        "train.loss:10:2:0:3 train.samples_per_s:10:1200:400:1200 "
                        "test.accuracy:10:0.5:0.5:0.5 ");
    sw_bytes_clear(&out);
    struct sw_run_time t;
    rows = sw_rows_begin(r, SW_ROWS_TIME, 1, 0, 0, &err);
    while (sw_rows_next(&rows, &t))
        if (t.total_ms > 0)
            sw_bytes_printf(&out, "%s:%g:%g ", t.part, t.total_ms, t.share);
    ok(sw_rows_end(&rows), &err);
    assert_string_equal(sw_bytes_text(&out), "forward:3:0.75 wait:1:0.25 ");
    sw_bytes_fini(&out);
    ok(sw_history_find(r, "walk", &run, &err), &err);
    assert_int_equal(run.last_step, 10);
    assert_true(run.loss == 2 && run.accuracy == 0.5 &&
                run.samples_per_s == 600); /* of both steps */
    sw_run_fini(&run);
    ok(sw_history_find(r, "empty", &run, &err), &err);
    assert_int_equal(run.last_step, -1);
    assert_true(isnan(run.loss) && isnan(run.accuracy));
    assert_int_equal(run.status, SW_RUN_FAILED);
    sw_run_fini(&run);
    int calls = 0;
    assert_int_equal(sw_history_each_run(r, stop_at_once, &calls, &err), 42);
    assert_int_equal(calls, 1);
    sw_history_reader_close(r);
}

static int add_run_id(void *user, const struct sw_run *run)
{
    sw_bytes_printf(user, "%lld ", (long long)run->id);
    return 0;
}

static void runs_are_listed_best_first(void **state)
{
    static const double loss[] = {0.3, 0.1, 0.2}, accuracy[] = {0.7, 0.5, 0.9}, rate[] = {1, 3, 2};
    static const struct {
        enum sw_run_order order;
        const char *ids;
    } cases[] = {{SW_RUNS_BY_ID, "4 3 2 1 "},
                 {SW_RUNS_BY_LOSS, "2 3 1 4 "},
                 {SW_RUNS_BY_ACCURACY, "3 1 2 4 "},
                 {SW_RUNS_BY_SPEED, "2 3 1 4 "}};
    struct sw_err err;
    for (int i = 0; i < 3; i++) {
        struct sw_history *h = begin("run");
        struct sw_history_producer *p = producer(h);
        sw_history_point(p, series(h, "train", "loss"), 1, loss[i]);
        sw_history_point(p, series(h, "test", "accuracy"), 1, accuracy[i]);
        sw_history_point(p, series(h, "train", "samples_per_s"), 1, rate[i]);
        finish(h, SW_RUN_DONE);
    }
    finish(begin("without figures"), SW_RUN_DONE);
    struct sw_history_reader *r = open_reader();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct sw_bytes ids = {0};
        struct sw_run_filter filter = {.order = cases[i].order};
        ok(sw_history_list(r, &filter, add_run_id, &ids, &err), &err);
        assert_string_equal(sw_bytes_text(&ids), cases[i].ids);
        sw_bytes_fini(&ids);
    }
    sw_history_reader_close(r);
}

static int add_row(void *user, int64_t row, int columns, const struct sw_history_cell *cells)
{
    sw_bytes_printf(user, "%lld", (long long)row);
    for (int i = 0; i < columns; i++)
        sw_bytes_printf(user, " %s%s", cells[i].text ? cells[i].text : "NULL",
                        cells[i].is_number ? "#" : "");
    sw_bytes_add(user, "\n");
    return 0;
}

static void sql_returns_names_and_rows(void **state)
{
    struct sw_err err;
    struct sw_bytes out = {0};
    finish(begin("one"), SW_RUN_DONE);
    finish(begin(NULL), SW_RUN_DONE);
    struct sw_history_reader *r = open_reader();
    ok(sw_history_sql(r, "SELECT id, name, 2.5 AS x FROM runs ORDER BY id; -- that is all", add_row,
                      &out, &err),
       &err);
    assert_string_equal(sw_bytes_text(&out), "-1 id name x\n0 1# one 2.5#\n1 2# NULL 2.5#\n");
    sw_bytes_clear(&out);
    ok(sw_history_sql(
           r,
           "WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 3)"
           " SELECT sum(i) FROM n",
           add_row, &out, &err),
       &err);
    ok(sw_history_sql(r, "PRAGMA table_info(runs)", add_row, &out, &err), &err);
    ok(sw_history_sql(r, "PRAGMA user_version", add_row, &out, &err), &err);
    ok(sw_history_sql(r, "EXPLAIN QUERY PLAN SELECT * FROM metrics WHERE run_id = 1", add_row, &out,
                      &err),
       &err);
    sw_bytes_fini(&out);
    sw_history_reader_close(r);
}

static void sql_that_writes_is_refused(void **state)
{
    struct sw_err err;
    struct sw_bytes out = {0};
    struct stat st;
    char attach[600], vacuum[600];
    finish(begin("safe"), SW_RUN_DONE);
    snprintf(attach, sizeof attach, "ATTACH '%s' AS x", in_home("attached.db"));
    snprintf(vacuum, sizeof vacuum, "VACUUM INTO '%s'", in_home("vacuumed.db"));
    const char *const bad[] = {
        attach,
        vacuum,
        "DELETE FROM runs",
        "INSERT INTO tags VALUES (1, 'a', 'b')",
        "UPDATE runs SET name = 'x'",
        "DROP TABLE runs",
        "CREATE TABLE t(a)",
        "CREATE TEMP TABLE t(a)",
        "PRAGMA user_version = 5",
        "PRAGMA query_only = 0",
        "PRAGMA journal_mode = DELETE",
        "PRAGMA writable_schema = 1",
        "PRAGMA wal_checkpoint",
        "BEGIN IMMEDIATE",
        "SELECT load_extension('x')",
        "SELECT hex(fts3_tokenizer('simple'))",
        "SELECT hex(FTS3_Tokenizer('porter'))",
        "SELECT fts5('x')",
        "SELECT count(*) FROM runs WHERE fts3_tokenizer('simple') IS NOT NULL",
        "SELECT writefile('x', 'y')",
        "SELECT readfile('/etc/passwd')",
        "WITH d AS (SELECT 1) DELETE FROM runs",
        "SELECT 1; DELETE FROM runs",
        "SELECT nothing FROM nowhere",
        "SELEC 1",
        "",
        " -- nothing",
    };
    struct sw_history_reader *r = open_reader();
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (sw_history_sql(r, bad[i], add_row, &out, &err) != SW_ERR_INVALID)
            fail_msg("accepted: %s", bad[i]);
    sw_bytes_clear(&out);
    ok(sw_history_sql(r, "SELECT name FROM runs", add_row, &out, &err), &err);
    assert_string_equal(sw_bytes_text(&out), "-1 name\n0 safe\n");
    sw_bytes_fini(&out);
    sw_history_reader_close(r);
    assert_int_not_equal(stat(in_home("attached.db"), &st), 0);
    assert_int_not_equal(stat(in_home("vacuumed.db"), &st), 0);
}

static void reader_reads_while_a_writer_is_locked_out(void **state)
{
    struct sw_history *h = begin("busy");
    sqlite3 *other = lock_database();
    struct sw_history_reader *r = open_reader(); /* waiting for the lock would time out */
    assert_int_equal(id_of(r, "busy"), 1);
    sw_history_reader_close(r);
    unlock_database(other);
    finish(h, SW_RUN_DONE);
}

/* A run with these evaluations at steps 10, 20, ... */
static void run_with(const char *name, const double *accuracy, const double *loss, int count)
{
    struct sw_history *h = begin(name);
    struct sw_history_producer *p = producer(h);
    int train = series(h, "train", "loss"), a = series(h, "test", "accuracy");
    int l = series(h, "test", "loss");
    for (int i = 0; i < count; i++) {
        sw_history_point(p, train, 10 * (i + 1), 5);
        if (accuracy)
            sw_history_point(p, a, 10 * (i + 1), accuracy[i]);
        if (loss)
            sw_history_point(p, l, 10 * (i + 1), loss[i]);
    }
    finish(h, SW_RUN_DONE);
}

static int add_name(void *user, const struct sw_run *run)
{
    sw_bytes_printf(user, "%s ", run->name);
    return 0;
}

static void runs_are_sorted_by_their_best_value(void **state)
{
    const double up_and_down[] = {0.5, 0.9, 0.6}, steady[] = {0.7, 0.8, 0.8};
    const double low_first[] = {0.5, 0.1, 0.9}, falls[] = {0.4, 0.3, 0.2};
    const double broken[] = {NAN, 0.05, NAN};
    struct sw_err err;
    struct sw_run run;
    run_with("peak", up_and_down, low_first, 3);
    run_with("steady", steady, falls, 3);
    run_with("none", NULL, NULL, 3);
    run_with("nan", broken, broken, 3);
    struct sw_history_reader *r = open_reader();

    static const struct {
        enum sw_run_order order;
        const char *names;
    } rows[] = {{SW_RUNS_BY_ACCURACY, "peak steady nan none "},
                {SW_RUNS_BY_LOSS, "nan peak steady none "},
                {SW_RUNS_BY_ID, "nan none steady peak "}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct sw_bytes names = {0};
        const struct sw_run_filter filter = {.order = rows[i].order};
        ok(sw_history_list(r, &filter, add_name, &names, &err), &err);
        assert_string_equal(sw_bytes_text(&names), rows[i].names);
        sw_bytes_fini(&names);
    }

    ok(sw_history_find(r, "steady", &run, &err), &err);
    assert_true(run.best_accuracy == 0.8 && run.best_accuracy_step == 20); /* the first of equals */
    assert_true(run.best_loss == 0.2 && run.best_loss_step == 30 && run.accuracy == 0.8);
    sw_run_fini(&run);
    ok(sw_history_find(r, "none", &run, &err), &err);
    assert_true(isnan(run.best_accuracy) && run.best_accuracy_step == -1);
    assert_true(isnan(run.best_loss) && run.best_loss_step == -1 && run.checkpoint_step == -1);
    sw_run_fini(&run);
    sw_history_reader_close(r);
}

static void smaller_losses_and_errors_are_better(void **state)
{
    static const char *const falling[] = {"loss",        "loss_2",       "reconstruction_error",
                                          "perplexity",  "mae",          "rmse",
                                          "free_energy", "cross_entropy"};
    static const char *const rising[] = {"accuracy", "r2", "log_likelihood", "precision",
                                         "accuracy.my_loss"};
    for (size_t i = 0; i < sizeof falling / sizeof *falling; i++)
        assert_true(sw_metric_falls(falling[i]));
    for (size_t i = 0; i < sizeof rising / sizeof *rising; i++)
        assert_false(sw_metric_falls(rising[i]));
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, home_begin, home_end)
int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(reader_creates_nothing),
        CASE(runs_are_found_by_id_name_prefix_and_last),
        CASE(recipe_with_checkpoint_is_found_by_hash),
        CASE(rows_of_a_run_are_iterated),
        CASE(runs_are_listed_best_first),
        CASE(sql_returns_names_and_rows),
        CASE(sql_that_writes_is_refused),
        CASE(reader_reads_while_a_writer_is_locked_out),
        CASE(runs_are_sorted_by_their_best_value),
        cmocka_unit_test(smaller_losses_and_errors_are_better),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
