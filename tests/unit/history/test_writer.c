/* The writer of the history on a working database: every table and view has the written rows. */
/* ctest-labels: threads */
#include "history_support.h"
#include "thread/thread.h"
#include <fcntl.h>

static void default_path_is_option_environment_recipe_or_state(void **state)
{
    struct sw_err err;
    char *path;
    setenv("SINGA_DB", "/env.db", 1);
    ok(sw_history_default_path("/option.db", "/job.db", &path, &err), &err);
    assert_string_equal(path, "/option.db");
    sw_free(path);
    ok(sw_history_default_path(NULL, "/job.db", &path, &err), &err);
    assert_string_equal(path, "/env.db");
    sw_free(path);
    unsetenv("SINGA_DB");
    ok(sw_history_default_path(NULL, "/job.db", &path, &err), &err);
    assert_string_equal(path, "/job.db");
    sw_free(path);
    ok(sw_history_default_path("", NULL, &path, &err), &err);
    assert_string_equal(path, in_home("singa-ws/history.db"));
    sw_free(path);
}

static void files_are_private(void **state)
{
    struct stat st;
    struct sw_history *h = begin("private");
    assert_int_equal(stat(db_path(), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(stat(in_home("db"), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    assert_int_equal(stat(in_home("singa-ws/runs"), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    /* What lies in there follows the umask, as checkpoints do in any other folder. */
    mode_t mask = umask(0);
    umask(mask);
    assert_int_equal(stat(sw_history_out_dir(h), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0777 & ~mask);
    finish(h, SW_RUN_DONE);
}

static void run_row_stores_run_info(void **state)
{
    struct sw_err err;
    struct sw_history *h;
    struct sw_run_info info = info_of("given");
    info.overrides = "job.batch=8";
    info.fallback = "job.steps=200";
    info.out_dir = in_home("given/out");
    ok(sw_history_open(&h, db_path(), NULL, &err), &err);
    ok(sw_history_begin_run(h, &info, &err), &err);
    assert_true(sw_history_run_id(h) > 0);
    assert_string_equal(sw_history_out_dir(h), in_home("given/out"));
    assert_string_equal(ask_text("SELECT status FROM runs WHERE name = 'given'"), "running");
    finish(h, SW_RUN_STOPPED);
    assert_string_equal(ask_text("SELECT status FROM runs WHERE name = 'given'"), "stopped");
    assert_string_equal(ask_text("SELECT overrides || ' ' || fallback || ' ' || out_dir FROM runs"
                                 " WHERE name = 'given'") +
                            strlen("job.batch=8 job.steps=200 "),
                        in_home("given/out"));
    assert_true(
        ask("SELECT ended_at >= started_at AND started_at > 1e9 FROM runs WHERE name = 'given'"));
    assert_int_equal(ask("SELECT pid FROM runs WHERE name = 'given'"), getpid());
    assert_int_equal(ask("SELECT params FROM runs WHERE name = 'given'"), 1234);
    assert_true(ask("SELECT ended_at IS NOT NULL AND segment = 0 AND from_step = 0 FROM segments"
                    " WHERE run_id = (SELECT id FROM runs WHERE name = 'given')"));
}

static void default_directory_is_new_for_each_run(void **state)
{
    struct sw_history *a = begin("a");
    char wanted[64], taken[64];
    snprintf(wanted, sizeof wanted, "singa-ws/runs/%lld", (long long)sw_history_run_id(a));
    assert_string_equal(sw_history_out_dir(a), in_home("%s", wanted));
    snprintf(taken, sizeof taken, "singa-ws/runs/%lld", (long long)sw_history_run_id(a) + 1);
    assert_int_equal(mkdir(in_home("%s", taken), 0700), 0);
    struct sw_history *b = begin("b");
    strcat(taken, "-2");
    assert_string_equal(sw_history_out_dir(b), in_home("%s", taken));
    finish(a, SW_RUN_DONE);
    finish(b, SW_RUN_DONE);
}

static void uncreatable_directory_is_an_error(void **state)
{
    struct sw_err err;
    struct sw_history *h;
    struct sw_run_info info = info_of("nodir");
    int fd = open(in_home("file"), O_CREAT | O_WRONLY, 0600);
    close(fd);
    info.out_dir = in_home("file/out");
    ok(sw_history_open(&h, db_path(), NULL, &err), &err);
    assert_int_not_equal(sw_history_begin_run(h, &info, &err), SW_OK);
    assert_non_null(strstr(err.text, "file"));
    sw_history_close(h);
    struct stat st;
    assert_int_not_equal(stat(db_path(), &st), 0);
}

/* One run with rows in every table that the writer fills. */
static void write_everything(struct sw_history *h)
{
    struct sw_err err;
    struct sw_history_producer *p = producer(h);
    int loss = series(h, "train", "loss"), rate = series(h, "train", "samples_per_s");
    int test = series(h, "test", "loss"), accuracy = series(h, "test", "accuracy"), link;
    ok(sw_history_link(h, "worker0.0", "server0.0", "param", &link, &err), &err);
    for (int step = 1; step <= 20; step++) {
        struct sw_step_time t = {.step = step,
                                 .worker = 0,
                                 .read_ms = 1,
                                 .forward_ms = 2,
                                 .backward_ms = 4,
                                 .update_ms = 1,
                                 .comm_hidden_ms = 3,
                                 .staleness = 0};
        sw_history_point(p, loss, step, 100 - step);
        sw_history_point(p, rate, step, 1000);
        sw_history_step_time(p, &t);
        sw_history_traffic(p, link, step, 100, 0.5);
        sw_history_traffic(p, link, step, 11, 0.25);
        if (step % 10 == 0) {
            sw_history_point(p, test, step, 50 - step);
            sw_history_point(p, accuracy, step, step == 10 ? 0.75 : 0.5);
        }
    }
    sw_history_layer_time(h, "conv1", 0, 2, 4, 10);
    sw_history_layer_time(h, "conv1", 0, 4, 8, 30);
    sw_history_layer_time(h, "fc1", 0, 1, 1, 10);
    sw_history_placement(h, "worker0.0", "cpu", -1, "0-1", "the only place");
    sw_history_checkpoint(h, 10, "/c10", 1000, "aa", false);
    sw_history_checkpoint(h, 20, "/c20", 2000, "bb", true);
    sw_history_checkpoint_removed(h, 10);
    sw_history_event(h, SW_LOG_WARN, "worker0.0", "%d things", 3);
    sw_history_tag(h, "kind", "test");
    sw_history_tag(h, "kind", "unit");
    sw_history_plan(h, "{\"predicted_ms\":7.5}", 7.5, "job.batch=7");
    sw_history_plan_measured(h, 9);
    sw_history_plan_measured(h, 8);
}

/* A stage that equals the one before it adds no row; a resume deletes superseded stages. */
static void epochs_follow_the_stages(void **state)
{
    struct sw_history *h = begin("stages");
    struct sw_history_stage s = {
        .name = "a", .batch = 10, .epoch_records = 50, .params = 7, .flops_per_sample = 3};
    int64_t id = sw_history_run_id(h);
    write_everything(h); /* 20 steps */
    sw_history_stage(h, &s);
    s = (struct sw_history_stage){"b", 8, 30, 60, 9, 4};
    sw_history_stage(h, &s);
    s.from_step = 12;
    sw_history_stage(h, &s);
    finish(h, SW_RUN_DONE);
    assert_string_equal(ask_text("SELECT group_concat(name || from_step) FROM stages"), "a0,b8");
    assert_true(ask("SELECT params = 9 AND batch = 30 AND flops_per_sample = 4 FROM runs"));
    /* 8 steps of a fifth of an epoch, then halves. */
    assert_string_equal(ask_text("SELECT group_concat(epoch) FROM (SELECT epoch FROM metrics WHERE"
                                 " name = 'loss' AND split = 'train' AND step IN (1, 5, 6, 8, 9,"
                                 " 10, 11, 20) ORDER BY step)"),
                        "1,1,2,2,3,3,4,8");
    struct sw_run_info info = info_of("stages");
    struct sw_err err;
    ok(sw_history_open(&h, db_path(), NULL, &err), &err);
    ok(sw_history_resume_run(h, id, 8, &info, &err), &err);
    s = (struct sw_history_stage){"c", 8, 10, 50, 7, 3};
    sw_history_stage(h, &s);
    finish(h, SW_RUN_DONE);
    assert_string_equal(ask_text("SELECT group_concat(name || from_step) FROM stages"), "a0,c8");
}

static void every_table_and_view_has_the_rows(void **state)
{
    struct sw_history *h = begin("all");
    write_everything(h);
    assert_true(sw_history_flush(h, PATIENCE_MS));
    assert_int_equal(ask("SELECT count(*) FROM metrics WHERE name = 'loss' AND split = 'train'"),
                     20);
    finish(h, SW_RUN_DONE);
    /* metrics: epochs of 50 records in batches of 10. */
    assert_true(ask("SELECT value = 95 AND epoch = 1 AND time > 1e9 FROM metrics"
                    " WHERE step = 5 AND name = 'loss' AND split = 'train'"));
    assert_int_equal(ask("SELECT epoch FROM metrics WHERE step = 6 AND name = 'loss'"), 2);
    assert_int_equal(ask("SELECT count(*) FROM step_time WHERE forward_ms = 2 AND worker = 0"), 20);
    assert_int_equal(ask("SELECT bytes FROM link_traffic WHERE step = 3 AND to_unit = 'server0.0'"),
                     111);
    assert_true(ask("SELECT forward_ms = 3.5 AND backward_ms = 7 AND samples = 40 FROM layer_time"
                    " WHERE layer = 'conv1'"));
    assert_true(
        ask("SELECT numa IS NULL AND cores = '0-1' FROM placement WHERE unit = 'worker0.0'"));
    assert_string_equal(ask_text("SELECT group_concat(path) FROM checkpoints"), "/c20");
    assert_string_equal(ask_text("SELECT text FROM events WHERE source = 'worker0.0'"), "3 things");
    assert_string_equal(ask_text("SELECT value FROM tags"), "unit");
    assert_true(ask("SELECT json = '{\"predicted_ms\":7.5}' AND predicted_ms = 7.5 AND"
                    " measured_ms = 8 FROM plans"));
    assert_string_equal(ask_text("SELECT overrides FROM runs WHERE name = 'all'"), "job.batch=7");
    assert_true(
        ask("SELECT train_loss = 80 AND eval_loss = 30 AND best_eval_loss = 30 AND accuracy = 0.5"
            " AND best_accuracy = 0.75 AND samples_per_s = 1000 AND last_step = 20"
            " AND duration_s >= 0 AND checkpoints = 1 AND segments = 1 AND status = 'done'"
            " FROM run_summary WHERE name = 'all'"));
    assert_true(ask("SELECT points = 5 AND mean = 92 AND min = 90 AND max = 94 AND last = 90"
                    " FROM epoch_metrics WHERE epoch = 2 AND split = 'train' AND name = 'loss'"));
    assert_string_equal(ask_text("SELECT layer FROM slowest_layers LIMIT 1"), "conv1");
    assert_true(ask("SELECT abs(sum(share) - 1) < 1e-9 FROM slowest_layers"));
    assert_true(
        ask("SELECT total_ms = 80 AND share = 0.5 FROM where_time_went WHERE part = 'backward'"));
    assert_true(ask("SELECT total_ms = 60 AND share IS NULL FROM where_time_went"
                    " WHERE part = 'comm_hidden'"));
    assert_int_equal(ask("SELECT count(*) FROM where_time_went"), 10);
    assert_int_equal(ask("PRAGMA user_version"), SW_SCHEMA_VERSION);
    assert_sound();
}

/* Every run measures its steps, and only one with a plan stores them there. */
static void a_run_without_a_plan_has_no_row_of_one(void **state)
{
    struct sw_history *h = begin("unplanned");

    sw_history_plan_measured(h, 9);
    finish(h, SW_RUN_DONE);
    assert_int_equal(ask("SELECT count(*) FROM plans"), 0);
}

static void point_costs_at_most_31_bytes(void **state)
{
    struct sw_history *h = begin("size");
    struct sw_history_producer *p = producer(h);
    int loss = series(h, "train", "loss");
    for (int step = 1; step <= 100000; step++)
        sw_history_point(p, loss, step, 1.0 / step);
    finish(h, SW_RUN_DONE);
    assert_int_equal(ask("SELECT count(*) FROM point"), 100000);
    double bytes = ask("SELECT sum(pgsize) FROM dbstat WHERE name = 'point'");
    assert_true(bytes > 100000 * 20 && bytes < 100000 * 31);
}

/* The checkpoints of SQLite are off: ours must keep the WAL short, and the last connection empties
 * it. */
static void wal_stays_short(void **state)
{
    struct stat st;
    struct sw_history *h = begin("wal");
    struct sw_history_producer *p = producer(h);
    off_t longest = 0;
    for (int step = 1; step <= 200000; step++) {
        float ms = (float)step + 0.3f; /* eight bytes each: whole numbers are stored shorter */
        struct sw_step_time t = {.step = step,
                                 .read_ms = ms,
                                 .decode_ms = ms,
                                 .forward_ms = ms,
                                 .backward_ms = ms,
                                 .update_ms = ms,
                                 .comm_hidden_ms = ms,
                                 .wait_ms = ms,
                                 .idle_ms = ms};
        sw_history_step_time(p, &t);
        if (step % 5000)
            continue;
        assert_true(sw_history_flush(h, PATIENCE_MS));
        assert_int_equal(stat(in_home("db/history.db-wal"), &st), 0);
        longest = st.st_size > longest ? st.st_size : longest;
    }
    finish(h, SW_RUN_DONE);
    assert_true(longest < 12 << 20);
    assert_int_equal(stat(db_path(), &st), 0);
    assert_true(st.st_size > 16 << 20);
    assert_int_not_equal(stat(in_home("db/history.db-wal"), &st), 0);
    assert_sound();
}

static void point_at_the_same_step_replaces(void **state)
{
    struct sw_history *h = begin("again");
    struct sw_history_producer *p = producer(h);
    int loss = series(h, "train", "loss");
    assert_int_equal(series(h, "train", "loss"), loss);
    assert_int_not_equal(series(h, "test", "loss"), loss);
    sw_history_point(p, loss, 1, 5);
    assert_true(sw_history_flush(h, PATIENCE_MS));
    sw_history_point(p, loss, 1, 6);
    sw_history_point(p, loss, 2, NAN);
    sw_history_point(p, loss, 3, -INFINITY);
    finish(h, SW_RUN_DONE);
    assert_int_equal(ask("SELECT value FROM metrics WHERE step = 1"), 6);
    assert_true(ask("SELECT value IS NULL FROM metrics WHERE step = 2"));
    assert_true(ask("SELECT value < -1e300 FROM metrics WHERE step = 3"));
}

enum { THREADS = 4, POINTS = 30000 };

struct stream {
    struct sw_history *history;
    struct sw_thread thread;
    struct sw_history_producer *producer;
    int series;
};

static void stream_points(void *arg)
{
    struct stream *s = arg;
    for (int step = 1; step <= POINTS; step++)
        sw_history_point(s->producer, s->series, step, step);
}

/* Each thread writes several rings full; nothing may be lost on the way. */
static void full_rings_lose_nothing(void **state)
{
    struct sw_err err;
    struct stream streams[THREADS];
    struct sw_history *h = begin("rings");
    for (int i = 0; i < THREADS; i++) {
        char name[16];
        snprintf(name, sizeof name, "s%d", i);
        streams[i] = (struct stream){
            .history = h, .producer = producer(h), .series = series(h, "train", name)};
        ok(sw_thread_start(&streams[i].thread, name, stream_points, &streams[i], &err), &err);
    }
    for (int i = 0; i < THREADS; i++) {
        sw_history_event(h, SW_LOG_INFO, "test", "while they write");
        sw_thread_join(&streams[i].thread);
    }
    assert_true(sw_history_flush(h, PATIENCE_MS));
    struct sw_history_stats s = stats_of(h);
    assert_int_equal(s.lost, 0);
    assert_int_equal(s.rows, THREADS * POINTS + THREADS);
    finish(h, SW_RUN_DONE);
    assert_int_equal(ask("SELECT count(*) FROM point"), THREADS * POINTS);
    assert_true(ask("SELECT total(value) FROM point") == 4 * (POINTS * (POINTS + 1.0) / 2));
}

static void history_without_a_run_can_be_closed(void **state)
{
    struct sw_err err;
    struct sw_history *h;
    struct stat st;
    ok(sw_history_open(&h, db_path(), NULL, &err), &err);
    series(h, "train", "loss");
    producer(h);
    sw_history_event(h, SW_LOG_INFO, "test", "nobody will read this");
    sw_history_close(h);
    sw_history_close(NULL);
    assert_int_not_equal(stat(db_path(), &st), 0);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, home_begin, home_end)
int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(default_path_is_option_environment_recipe_or_state),
        CASE(files_are_private),
        CASE(run_row_stores_run_info),
        CASE(default_directory_is_new_for_each_run),
        CASE(uncreatable_directory_is_an_error),
        CASE(every_table_and_view_has_the_rows),
        CASE(a_run_without_a_plan_has_no_row_of_one),
        CASE(epochs_follow_the_stages),
        CASE(point_costs_at_most_31_bytes),
        CASE(wal_stays_short),
        CASE(point_at_the_same_step_replaces),
        CASE(full_rings_lose_nothing),
        CASE(history_without_a_run_can_be_closed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
