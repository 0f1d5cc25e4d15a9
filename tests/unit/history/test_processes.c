/* Many processes on one database, killed processes, and runs that are resumed by another process.
 */
/* ctest-timeout: 120 */
#include "history_support.h"
#include <fcntl.h>
#include <signal.h>

static pid_t spawn(int (*body)(int), int argument)
{
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(body(argument));
    return pid;
}

static int result_of(pid_t pid)
{
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (!WIFEXITED(status))
        fail_msg("a process died of signal %d", WTERMSIG(status));
    return WEXITSTATUS(status);
}

/* --- A hundred at once --------------------------------------------------------------------- */

enum { WRITERS = 60, READERS = 40, POINTS = 400 };

static int write_a_run(int number)
{
    char name[32];
    struct sw_err err;
    struct sw_history *h;
    snprintf(name, sizeof name, "w%d", number);
    struct sw_run_info info = info_of(name);
    if (sw_history_open(&h, db_path(), NULL, &err) || sw_history_begin_run(h, &info, &err))
        return 1;
    struct sw_history_producer *p = producer(h);
    int loss = series(h, "train", "loss");
    for (int step = 1; step <= POINTS; step++) {
        sw_history_point(p, loss, step, number);
        if (step % 100 == 0)
            sleep_ms(50);
    }
    bool lost = stats_of(h).lost > 0;
    finish(h, SW_RUN_DONE);
    return lost ? 2 : 0;
}

static int count_run(void *user, const struct sw_run *run)
{
    ++*(int *)user;
    return 0;
}

/* A reader may find no file or no tables yet, but never an error. */
static int read_all_the_time(int number)
{
    struct sw_err err;
    for (int i = 0; i < 10; i++) {
        struct sw_history_reader *r;
        int runs = 0, code = sw_history_reader_open(&r, db_path(), &err);
        if (code == SW_ERR_NOTFOUND) {
            sleep_ms(20);
            continue;
        }
        if (code || sw_history_each_run(r, count_run, &runs, &err)) {
            fprintf(stderr, "reader: %s\n", err.text);
            return 1;
        }
        sw_history_reader_close(r);
        sleep_ms(20);
    }
    return 0;
}

static void hundred_processes_lose_no_rows(void **state)
{
    struct sw_err err;
    uint64_t rows;
    pid_t pids[WRITERS + READERS];
    for (int i = 0; i < WRITERS + READERS; i++)
        pids[i] = i < WRITERS ? spawn(write_a_run, i) : spawn(read_all_the_time, i);
    int failed = 0;
    for (int i = 0; i < WRITERS + READERS; i++)
        failed += result_of(pids[i]) != 0;
    assert_int_equal(failed, 0);
    ok(sw_history_merge(db_path(), NULL, &rows, &err), &err);
    assert_int_equal(ask("SELECT count(*) FROM runs WHERE status = 'done'"), WRITERS);
    assert_int_equal(ask("SELECT count(*) FROM metrics WHERE name = 'loss'"), WRITERS * POINTS);
    assert_int_equal(ask("SELECT count(DISTINCT id) FROM runs"), WRITERS);
    assert_int_equal(ask("SELECT count(DISTINCT out_dir) FROM runs"), WRITERS);
    assert_int_equal(
        ask("SELECT count(*) FROM (SELECT r.id FROM runs r JOIN metrics m ON m.run_id = r.id"
            " WHERE 'w' || CAST(m.value AS INTEGER) <> r.name)"),
        0);
    assert_sound();
}

/* --- Killed --------------------------------------------------------------------------------- */

static int write_until_killed(int number)
{
    struct sw_history *h = begin("victim");
    struct sw_history_producer *p = producer(h);
    int loss = series(h, "train", "loss");
    for (int step = 1;; step++) {
        sw_history_point(p, loss, step, step);
        if (step % 50 == 0)
            sw_history_checkpoint(h, step, "/c", 1, "x", false);
        if (step % 1000 == 0)
            sleep_ms(1);
    }
    return 0;
}

static void kill_at(pid_t pid, int ms)
{
    int status;
    sleep_ms(ms);
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
}

static void killed_writers_leave_an_undamaged_database(void **state)
{
    finish(begin("first"), SW_RUN_DONE);
    for (int i = 0; i < 20; i++) {
        unsigned random;
        assert_int_equal(sw_os()->random_bytes(&random, sizeof random), 0);
        pid_t a = spawn(write_until_killed, i), b = spawn(write_until_killed, i);
        kill_at(a, (int)(random % 150));
        kill_at(b, (int)(random / 150 % 250));
        assert_sound();
    }
    /* On a busy machine the killed processes wrote little, so the last one gets the time it needs.
     */
    pid_t last = spawn(write_until_killed, 0);
    while (ask("SELECT count(*) FROM point") <= 1000)
        sleep_ms(5);
    kill_at(last, 0);
    assert_sound();
    /* The committed rows are a complete prefix of the rows of each process. */
    assert_int_equal(ask("SELECT count(*) FROM (SELECT run_id FROM metrics WHERE name = 'loss'"
                         " GROUP BY run_id HAVING count(*) <> max(step) OR total(value) <>"
                         " max(step) * (max(step) + 1) / 2)"),
                     0);
}

/* A process is killed while it spools and merges: no row is lost or stored twice. */
static int spool_until_killed(int number)
{
    struct sw_history *h = begin("spooler");
    struct sw_history_producer *p = producer(h);
    int loss = series(h, "train", "loss");
    for (int step = 1;; step++) {
        sw_history_point(p, loss, step, step);
        if (step % 100 == 0)
            sw_history_event(h, SW_LOG_INFO, "test", "%d", step);
        if (step % 20 == 0)
            sleep_ms(1);
    }
    return 0;
}

static void killed_spoolers_are_merged_exactly_once(void **state)
{
    struct sw_err err;
    uint64_t rows;
    finish(begin("first"), SW_RUN_DONE);
    for (int i = 0; i < 4; i++) {
        unsigned random;
        assert_int_equal(sw_os()->random_bytes(&random, sizeof random), 0);
        sqlite3 *other = lock_database();
        int waiting = sw_history_waiting(db_path());
        pid_t pid = spawn(spool_until_killed, i);
        while (sw_history_waiting(db_path()) == waiting)
            sleep_ms(20);
        sleep_ms(300);
        unlock_database(other);
        kill_at(pid, (int)(random % 400));
    }
    ok(sw_history_merge(db_path(), NULL, &rows, &err), &err);
    assert_int_equal(ask("SELECT count(*) FROM runs WHERE name = 'spooler'"), 4);
    assert_int_equal(ask("SELECT count(*) FROM (SELECT run_id FROM metrics WHERE name = 'loss'"
                         " GROUP BY run_id HAVING count(*) <> max(step))"),
                     0);
    assert_int_equal(
        ask("SELECT count(*) FROM (SELECT run_id, text FROM events WHERE source = 'test'"
            " GROUP BY run_id, text HAVING count(*) > 1)"),
        0);
    assert_sound();
}

/* --- Crashed and resumed -------------------------------------------------------------------- */

static enum sw_run_status status_of(const char *name, int64_t *id)
{
    struct sw_err err;
    struct sw_history_reader *r;
    struct sw_run run;
    ok(sw_history_reader_open(&r, db_path(), &err), &err);
    ok(sw_history_find(r, name, &run, &err), &err);
    enum sw_run_status status = run.status;
    *id = run.id;
    sw_run_fini(&run);
    sw_history_reader_close(r);
    return status;
}

static void killed_run_is_reported_as_crashed(void **state)
{
    int64_t id;
    finish(begin("first"), SW_RUN_DONE);
    pid_t pid = spawn(write_until_killed, 0);
    while (ask("SELECT count(*) FROM runs WHERE name = 'victim'") == 0)
        sleep_ms(5);
    assert_int_equal(status_of("victim", &id), SW_RUN_RUNNING);
    kill_at(pid, 0);
    assert_int_equal(status_of("victim", &id), SW_RUN_CRASHED);
    assert_string_equal(ask_text("SELECT status FROM runs WHERE name = 'victim'"), "running");
    assert_int_equal(status_of("first", &id), SW_RUN_DONE);
}

static void change_run(const char *sql)
{
    sqlite3 *db;
    assert_int_equal(sqlite3_open(db_path(), &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

static void other_boot_or_start_time_is_reported_as_crashed(void **state)
{
    int64_t id;
    struct sw_history *h = begin("me");
    assert_int_equal(status_of("me", &id), SW_RUN_RUNNING);
    change_run("UPDATE runs SET pid_start = pid_start + 1");
    assert_int_equal(status_of("me", &id), SW_RUN_CRASHED);
    change_run("UPDATE runs SET pid_start = pid_start - 1, boot_id = '0'");
    assert_int_equal(status_of("me", &id), SW_RUN_CRASHED);
    change_run("UPDATE runs SET host = 'elsewhere'");
    assert_int_equal(status_of("me", &id), SW_RUN_RUNNING);
    finish(h, SW_RUN_DONE);
}

static void write_steps(struct sw_history *h, int from, int to, double value)
{
    struct sw_err err;
    struct sw_history_producer *p = producer(h);
    int loss = series(h, "train", "loss"), link;
    ok(sw_history_link(h, "worker0.0", "server0.0", "param", &link, &err), &err);
    for (int step = from; step <= to; step++) {
        struct sw_step_time t = {.step = step, .forward_ms = (float)value};
        sw_history_point(p, loss, step, value);
        sw_history_step_time(p, &t);
        sw_history_traffic(p, link, step, (int64_t)value, 1);
        if (step % 10 == 0)
            sw_history_checkpoint(h, step, "/c", (int64_t)value, "x", false);
    }
}

static int crash_after_steps(int steps)
{
    struct sw_history *h = begin("crash");
    write_steps(h, 1, steps, 1);
    if (!sw_history_flush(h, PATIENCE_MS))
        return 1;
    kill(getpid(), SIGKILL);
    return 2;
}

static struct sw_history *resume(int64_t id, int64_t from_step)
{
    struct sw_err err;
    struct sw_history *h;
    struct sw_run_info info = {.command = "singa-ws resume", .workers = 2, .steps = 200};
    ok(sw_history_open(&h, db_path(), NULL, &err), &err);
    h->timeouts.setup_ms = 1500;
    h->timeouts.busy_ms = 500;
    ok(sw_history_resume_run(h, id, from_step, &info, &err), &err);
    return h;
}

static void resume_opens_a_segment_and_supersedes_later_rows(void **state)
{
    int64_t id;
    int status;
    pid_t pid = spawn(crash_after_steps, 35);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(status_of("crash", &id), SW_RUN_CRASHED);
    char before[512];
    strcpy(before, ask_text("SELECT out_dir FROM runs"));
    struct sw_history *h = resume(id, 20);
    assert_string_equal(sw_history_out_dir(h), before);
    assert_int_equal(sw_history_run_id(h), id);
    assert_int_equal(status_of("crash", &id), SW_RUN_RUNNING);
    assert_int_equal(ask("SELECT max(step) FROM metrics"), 20);
    assert_int_equal(ask("SELECT max(step) FROM checkpoints"), 20);
    write_steps(h, 21, 30, 2);
    finish(h, SW_RUN_DONE);
    assert_true(ask("SELECT count(*) = 30 AND total(value) = 40 FROM metrics"));
    assert_true(ask("SELECT count(*) = 30 AND total(forward_ms) = 40 FROM step_time"));
    assert_true(ask("SELECT count(*) = 30 AND total(bytes) = 40 FROM link_traffic"));
    assert_true(ask("SELECT count(*) = 3 AND total(bytes) = 4 FROM checkpoints"));
    assert_string_equal(ask_text("SELECT group_concat(segment || ':' || from_step) FROM segments"),
                        "0:0,1:20");
    assert_int_equal(ask("SELECT count(*) FROM segments WHERE ended_at IS NULL"), 0);
    assert_true(ask("SELECT status = 'done' AND workers = 2 AND steps = 200 AND device = 'cpu'"
                    " AND command = 'singa-ws run recipes/x.ini' FROM runs"));
    assert_string_equal(ask_text("SELECT group_concat(command, '; ') FROM segments"),
                        "singa-ws run recipes/x.ini; singa-ws resume");
    assert_int_equal(ask("SELECT count(*) FROM runs"), 1);
    assert_sound();
}

static void resume_of_an_unknown_run_is_an_error(void **state)
{
    struct sw_err err;
    struct sw_history *h;
    struct sw_run_info info = {0};
    finish(begin("first"), SW_RUN_DONE);
    ok(sw_history_open(&h, db_path(), NULL, &err), &err);
    assert_int_equal(sw_history_resume_run(h, 77, 0, &info, &err), SW_ERR_NOTFOUND);
    sw_history_close(h);
}

/* A resume is refused if another process has resumed the run since its checkpoint was chosen, even
 * if that process has ended; and while a process trains, no other can claim its folder. */
static void only_one_of_two_concurrent_resumes_succeeds(void **state)
{
    struct sw_err err;
    struct sw_history *h, *late;
    struct sw_run_info info = {.command = "singa-ws resume", .segments = 1};
    finish(begin("run"), SW_RUN_STOPPED);
    ok(sw_history_open(&h, db_path(), NULL, &err), &err);
    ok(sw_history_open(&late, db_path(), NULL, &err), &err);
    ok(sw_history_resume_run(h, 1, 0, &info, &err), &err);
    assert_int_equal(sw_history_resume_run(late, 1, 0, &info, &err), SW_ERR_INVALID);
    assert_non_null(strstr(err.text, sw_history_out_dir(h)));
    assert_non_null(strstr(err.text, "training run 1 there since"));
    sw_history_close(late);
    finish(h, SW_RUN_DONE);

    ok(sw_history_open(&late, db_path(), NULL, &err), &err);
    assert_int_equal(sw_history_resume_run(late, 1, 0, &info, &err), SW_ERR_INVALID);
    assert_non_null(strstr(err.text, "was resumed by another process"));
    sw_history_close(late);
    assert_int_equal(ask("SELECT count(*) FROM segments"), 2);
    assert_true(ask("SELECT status = 'done' FROM runs"));
    info.segments = 2;
    ok(sw_history_open(&late, db_path(), NULL, &err), &err);
    ok(sw_history_resume_run(late, 1, 0, &info, &err), &err);
    finish(late, SW_RUN_DONE);
}

/* Locks the whole file for a while, like a connection that recovers the WAL after a crash. */
static int hold_the_file(int ms)
{
    sqlite3 *db = NULL;
    if (sqlite3_open(db_path(), &db) != SQLITE_OK ||
        sqlite3_exec(db,
                     "PRAGMA locking_mode = EXCLUSIVE; BEGIN IMMEDIATE;"
                     "UPDATE runs SET note = 'held'; COMMIT",
                     NULL, NULL, NULL) != SQLITE_OK)
        return 1;
    close(open(in_home("held"), O_CREAT | O_WRONLY, 0600));
    sleep_ms(ms);
    return sqlite3_close(db) != SQLITE_OK;
}

static void resume_waits_for_a_locked_file(void **state)
{
    struct sw_err err;
    struct stat st;
    struct sw_history *h;
    struct sw_run_info info = {.command = "singa-ws resume"};
    finish(begin("run"), SW_RUN_STOPPED);
    pid_t holder = spawn(hold_the_file, 300);
    while (stat(in_home("held"), &st) != 0)
        sleep_ms(1);
    ok(sw_history_open(&h, db_path(), NULL, &err), &err);
    h->timeouts.setup_ms = PATIENCE_MS;
    ok(sw_history_resume_run(h, 1, 0, &info, &err), &err);
    finish(h, SW_RUN_DONE);
    assert_int_equal(result_of(holder), 0);
    assert_int_equal(ask("SELECT count(*) FROM segments"), 2);
}

/* The new segment is spooled, and supersedes in the right order when it is merged: after the rows
 * of the old one, some of which were spooled too. */
static void resume_with_a_locked_database_is_spooled(void **state)
{
    struct sw_err err;
    uint64_t rows;
    struct sw_history *h = begin("run");
    int64_t id = sw_history_run_id(h);
    write_steps(h, 1, 10, 1);
    assert_true(sw_history_flush(h, PATIENCE_MS));
    sqlite3 *other = lock_database();
    write_steps(h, 11, 35, 1);
    finish(h, SW_RUN_STOPPED);
    h = resume(id, 20);
    write_steps(h, 21, 30, 2);
    finish(h, SW_RUN_DONE);
    unlock_database(other);
    assert_int_equal(ask("SELECT count(*) FROM metrics"), 10);
    ok(sw_history_merge(db_path(), NULL, &rows, &err), &err);
    assert_true(ask("SELECT count(*) = 30 AND total(value) = 40 FROM metrics"));
    assert_true(ask("SELECT count(*) = 30 AND total(bytes) = 40 FROM link_traffic"));
    assert_string_equal(ask_text("SELECT group_concat(segment || ':' || from_step) FROM segments"),
                        "0:0,1:20");
    assert_string_equal(ask_text("SELECT status FROM runs"), "done");
    assert_sound();
}

/* The resume merges the spool of the first half, although no announcement exists. */
static void resume_merges_the_spool_of_the_run(void **state)
{
    char name[64];
    struct sw_history *h = begin("run");
    int64_t id = sw_history_run_id(h);
    sqlite3 *other = lock_database();
    write_steps(h, 1, 20, 1);
    snprintf(name, sizeof name, "db/history.db-spool/%s", sw_history_run_uid(h));
    finish(h, SW_RUN_STOPPED);
    unlock_database(other);
    assert_int_equal(unlink(in_home("%s", name)), 0);
    h = resume(id, 20);
    assert_int_equal(ask("SELECT count(*) FROM metrics"), 20);
    write_steps(h, 21, 25, 1);
    finish(h, SW_RUN_DONE);
    assert_int_equal(ask("SELECT count(*) FROM metrics"), 25);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, home_begin, home_end)
int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(hundred_processes_lose_no_rows),
        CASE(killed_writers_leave_an_undamaged_database),
        CASE(killed_spoolers_are_merged_exactly_once),
        CASE(killed_run_is_reported_as_crashed),
        CASE(other_boot_or_start_time_is_reported_as_crashed),
        CASE(resume_opens_a_segment_and_supersedes_later_rows),
        CASE(resume_of_an_unknown_run_is_an_error),
        CASE(only_one_of_two_concurrent_resumes_succeeds),
        CASE(resume_waits_for_a_locked_file),
        CASE(resume_with_a_locked_database_is_spooled),
        CASE(resume_merges_the_spool_of_the_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
