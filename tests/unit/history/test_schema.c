/* ctest-labels: threads */
/* A database of an older version is read without migration, and migrated by the next writer without
 * loss; a failed migration leaves the old file. */
#include "history_support.h"

#include "history/reader_rows.h"
#include "history/schema.h"
#include "history/schema_tables.h"

static void exec(sqlite3 *db, const char *sql)
{
    char *why = NULL;
    if (sqlite3_exec(db, sql, NULL, NULL, &why) != SQLITE_OK)
        fail_msg("%s: %s", sql, why);
}

/* A database of version 1: its metrics view, one finished run, two curves. */
static void make_first_version(void)
{
    sqlite3 *db;
    assert_int_equal(sw_os_mkdirs(in_home("db"), 0700, NULL), SW_OK);
    assert_int_equal(sqlite3_open(db_path(), &db), SQLITE_OK);
    exec(db, "PRAGMA journal_mode = WAL");
    exec(db, sw_schema_tables[0]);
    exec(db, "CREATE VIEW metrics AS SELECT s.run_id AS run_id, p.step AS step, p.time AS time,"
             " s.split AS split, s.name AS name, p.value AS value FROM series s"
             " JOIN point p ON p.series_id = s.id;"
             "CREATE VIEW where_time_went AS SELECT run_id, 'forward' AS part,"
             " total(forward_ms) AS total_ms, 1.0 AS share FROM step_time GROUP BY run_id");
    exec(db, "INSERT INTO runs(id, name, uid, started_at, status, command)"
             " VALUES (7, 'old', '00000000000000aa', 1000, 'done', 'singa-ws run x.ini');"
             "INSERT INTO segments VALUES (7, 0, 0, 1000, 1100);"
             "INSERT INTO series VALUES (1, 7, 'train', 'loss'), (2, 7, 'test', 'accuracy');"
             "INSERT INTO point VALUES (1, 1, 1000.25, 2.5), (1, 2, 1000.5, NULL),"
             " (1, 3, 1795190000.1234, 0.5), (2, 3, 1001, 0.75);"
             "INSERT INTO step_time(run_id, step, worker, forward_ms) VALUES (7, 1, 0, 4)");
    exec(db, "PRAGMA application_id = 1398229075; PRAGMA user_version = 1");
    sqlite3_close(db);
}

static void assert_reads_old_run(void)
{
    struct sw_err err;
    struct sw_history_reader *r;
    struct sw_run run = {0};
    struct sw_run_metric m;
    int metrics = 0;
    ok(sw_history_reader_open(&r, db_path(), &err), &err);
    ok(sw_history_find(r, "old", &run, &err), &err);
    assert_int_equal(run.id, 7);
    assert_int_equal(run.last_step, 3);
    assert_true(run.accuracy == 0.75);
    struct sw_rows rows = sw_rows_begin(r, SW_ROWS_METRIC, 7, 0, 0, &err);
    for (; sw_rows_next(&rows, &m); metrics++)
        if (strcmp(m.name, "loss") == 0)
            assert_true(m.points == 3 && m.last_step == 3 && m.min == 0.5 && m.max == 2.5 &&
                        m.mean == 1.5 && m.last == 0.5);
    ok(sw_rows_end(&rows), &err);
    assert_int_equal(metrics, 2);
    struct sw_run_segment g;
    rows = sw_rows_begin(r, SW_ROWS_SEGMENT, 7, 0, 0, &err);
    assert_true(sw_rows_next(&rows, &g));
    assert_true(g.from_step == 0 && g.ended_at == 1100);
    if (ask("PRAGMA user_version") < 5)
        assert_null(g.command);
    else
        assert_string_equal(g.command, "singa-ws run x.ini");
    assert_false(sw_rows_next(&rows, &g));
    ok(sw_rows_end(&rows), &err);
    sw_run_fini(&run);
    sw_history_reader_close(r);
}

static void version_1_is_read_without_migration(void **state)
{
    make_first_version();
    assert_reads_old_run();
    assert_int_equal(ask("PRAGMA user_version"), 1);
}

static void version_1_is_migrated(void **state)
{
    make_first_version();
    finish(begin("new"), SW_RUN_DONE);
    assert_int_equal(ask("PRAGMA user_version"), SW_SCHEMA_VERSION);
    assert_reads_old_run();
    assert_true(ask("SELECT time = 1000.25 FROM point WHERE series_id = 1 AND step = 1"));
    assert_true(ask("SELECT value IS NULL FROM point WHERE series_id = 1 AND step = 2"));
    assert_true(ask("SELECT abs(time - 1795190000.1234) < 0.00051 FROM metrics WHERE run_id = 7 AND"
                    " name = 'loss' AND step = 3"));
    assert_true(ask("SELECT points = 3 AND min = 0.5 AND max = 2.5 AND mean = 1.5"
                    " FROM series_stats WHERE run_id = 7 AND name = 'loss'"));
    assert_true(ask("SELECT total_ms = 4 FROM where_time_went WHERE run_id = 7"
                    " AND part = 'forward'"));
    assert_int_equal(ask("SELECT count(*) FROM runs"), 2);
    assert_int_equal(ask("SELECT count(*) FROM stages WHERE from_step = 0"), 2);
    assert_sound();
}

static void failed_migration_leaves_the_old_file(void **state)
{
    struct sw_err err;
    sqlite3 *db;
    make_first_version();
    assert_int_equal(sqlite3_open(db_path(), &db), SQLITE_OK);
    exec(db, "CREATE TABLE traffic_summary(in_the_way)");
    assert_int_not_equal(sw_schema_migrate(db, db_path(), &err), SW_OK);
    sqlite3_close(db);
    assert_int_equal(ask("PRAGMA user_version"), 1);
    assert_reads_old_run();
    assert_sound();
}

/* Simulates another process that creates the tables while this one reads the file, right before the
 * first statement that could see them. */
static int make_tables_meanwhile(unsigned what, void *made, void *statement, void *sql)
{
    sqlite3 *other;
    struct sw_err err;
    if (!strstr(sql, "sqlite_schema") || *(bool *)made)
        return 0;
    *(bool *)made = true;
    assert_int_equal(sqlite3_open(db_path(), &other), SQLITE_OK);
    ok(sw_schema_migrate(other, db_path(), &err), &err);
    sqlite3_close(other);
    return 0;
}

static void concurrent_creation_is_not_a_foreign_database(void **state)
{
    sqlite3 *db;
    struct sw_err err;
    bool made = false;
    int version;
    assert_int_equal(sw_os_mkdirs(in_home("db"), 0700, NULL), SW_OK);
    assert_int_equal(sqlite3_open(db_path(), &db), SQLITE_OK);
    exec(db, "PRAGMA journal_mode = WAL");
    assert_int_equal(sqlite3_trace_v2(db, SQLITE_TRACE_STMT, make_tables_meanwhile, &made),
                     SQLITE_OK);
    ok(sw_schema_version(db, db_path(), &version, &err), &err);
    assert_true(made);
    assert_int_equal(version, 0); /* as it was at first */
    ok(sw_schema_version(db, db_path(), &version, &err), &err);
    assert_int_equal(version, SW_SCHEMA_VERSION);
    sqlite3_close(db);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(version_1_is_read_without_migration, home_begin, home_end),
        cmocka_unit_test_setup_teardown(version_1_is_migrated, home_begin, home_end),
        cmocka_unit_test_setup_teardown(failed_migration_leaves_the_old_file, home_begin, home_end),
        cmocka_unit_test_setup_teardown(concurrent_creation_is_not_a_foreign_database, home_begin,
                                        home_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
