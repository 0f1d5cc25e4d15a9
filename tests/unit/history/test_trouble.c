/* The history never stops training: whatever happens to the database, calls return, rows are
 * spooled, and every row is in the database exactly once when it works again. */
/* ctest-labels: threads */
#include "history_support.h"
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>

static void write_points(struct sw_history_producer *p, int id, int from, int to)
{
    for (int step = from; step <= to; step++)
        sw_history_point(p, id, step, step);
}

static bool wait_for(struct sw_history *h, bool (*true_of)(struct sw_history *h))
{
    for (int ms = 0; ms < PATIENCE_MS; ms += 20) {
        if (true_of(h))
            return true;
        sleep_ms(20);
    }
    return true_of(h);
}

static bool has_spooled(struct sw_history *h)
{
    return stats_of(h).spooled > 0;
}

static bool has_merged(struct sw_history *h)
{
    struct sw_history_stats s = stats_of(h);
    return s.spooled > 0 && s.merged >= s.spooled;
}

static bool has_stored(struct sw_history *h)
{
    return stats_of(h).rows > 0;
}

static int announced(void)
{
    return sw_history_waiting(db_path());
}

static void locked_database_spools_and_merges(void **state)
{
    struct sw_history *h = begin("locked");
    struct sw_history_producer *p = producer(h);
    int loss = series(h, "train", "loss");
    write_points(p, loss, 1, 100);
    assert_true(sw_history_flush(h, PATIENCE_MS));
    sqlite3 *other = lock_database();
    write_points(p, loss, 101, 200);
    assert_true(wait_for(h, has_spooled));
    assert_int_equal(announced(), 1);
    write_points(p, loss, 201, 300);
    assert_true(sw_history_flush(h, PATIENCE_MS));
    unlock_database(other);
    write_points(p, loss, 301, 400);
    assert_true(wait_for(h, has_merged));
    finish(h, SW_RUN_DONE);
    assert_int_equal(announced(), 0);
    assert_true(
        ask("SELECT count(*) = 400 AND total(value) = 80200 FROM metrics WHERE name = 'loss'"));
    assert_true(ask("SELECT count(*) >= 2 FROM events WHERE source = 'history'"));
    assert_string_equal(ask_text("SELECT status FROM runs"), "done");
    assert_sound();
}

/* The number of voluntary context switches of this thread, which do not depend on other processes.
 */
static long own_waits(void)
{
    struct rusage use;
    assert_int_equal(getrusage(RUSAGE_THREAD, &use), 0);
    return use.ru_nvcsw;
}

/* The trainer under a locked database: calls do not wait although nothing can be written. */
static void locked_database_does_not_block_producers(void **state)
{
    struct sw_history *h = begin("quick");
    struct sw_history_producer *p = producer(h);
    int loss = series(h, "train", "loss");
    sqlite3 *other = lock_database();
    long waits = 0;
    for (int round = 0; round < 10; round++) {
        long before = own_waits();
        for (int step = round * 5000 + 1; step <= (round + 1) * 5000; step++)
            sw_history_point(p, loss, step, step);
        waits += own_waits() - before;
        /* The ring has room for the next ones when these are spooled. */
        assert_true(sw_history_flush(h, PATIENCE_MS));
    }
    /* Pages that are touched for the first time may cost a few. */
    assert_true(waits < 100);
    unlock_database(other);
    assert_true(wait_for(h, has_merged)); /* the end of a run waits for seconds only */
    finish(h, SW_RUN_DONE);
    assert_true(ask("SELECT count(*) = 50000 FROM point"));
    assert_sound();
}

static void run_spooled_under_a_lock_is_merged_by_the_next_job(void **state)
{
    struct sw_history *first = begin("first");
    finish(first, SW_RUN_DONE);
    sqlite3 *other = lock_database();
    struct sw_history *h = begin("spooled");
    assert_int_equal(sw_history_run_id(h), 0);
    struct sw_history_producer *p = producer(h);
    write_points(p, series(h, "train", "loss"), 1, 50);
    sw_history_checkpoint(h, 50, "/c50", 1, "x", true);
    finish(h, SW_RUN_DONE);
    unlock_database(other);
    assert_int_equal(ask("SELECT count(*) FROM runs"), 1);
    assert_int_equal(announced(), 1);
    struct sw_history *next = begin("next");
    assert_true(sw_history_flush(next, PATIENCE_MS));
    finish(next, SW_RUN_DONE);
    for (int ms = 0; ms < PATIENCE_MS && announced(); ms += 20)
        sleep_ms(20);
    assert_int_equal(announced(), 0);
    assert_true(ask(
        "SELECT status = 'done' AND ended_at > 0 AND batch = 10 FROM runs WHERE name = 'spooled'"));
    assert_true(ask("SELECT count(*) = 50 AND total(value) = 1275 FROM metrics JOIN runs"
                    " ON runs.id = run_id WHERE runs.name = 'spooled' AND metrics.name = 'loss'"));
    assert_string_equal(ask_text("SELECT path FROM checkpoints"), "/c50");
    assert_sound();
}

/* Begins a run while another process has the database: its rows are spooled. */
static struct sw_history *begin_spooled(sqlite3 **other)
{
    finish(begin("first"), SW_RUN_DONE);
    *other = lock_database();
    return begin("spooled");
}

static void explicit_merge_is_done_once(void **state)
{
    struct sw_err err;
    uint64_t rows;
    sqlite3 *other;
    struct sw_history *h = begin_spooled(&other);
    write_points(producer(h), series(h, "train", "loss"), 1, 10);
    sw_history_event(h, SW_LOG_INFO, "test", "once");
    finish(h, SW_RUN_FAILED);
    unlock_database(other);
    ok(sw_history_merge(db_path(), NULL, &rows, &err), &err);
    assert_true(rows >= 13);
    ok(sw_history_merge(db_path(), NULL, &rows, &err), &err);
    assert_int_equal(rows, 0);
    assert_int_equal(ask("SELECT count(*) FROM events WHERE text = 'once'"), 1);
    assert_string_equal(ask_text("SELECT status FROM runs WHERE name = 'spooled'"), "failed");
}

/* Restores the announcement, as if the merging process had been killed before it removed it. */
static void merge_after_a_kill_duplicates_nothing(void **state)
{
    struct sw_err err;
    uint64_t rows;
    char name[64], spool[512];
    sqlite3 *other;
    struct sw_history *h = begin_spooled(&other);
    snprintf(name, sizeof name, "db/history.db-spool/%s", sw_history_run_uid(h));
    snprintf(spool, sizeof spool, "%s/metrics.jsonl", sw_history_out_dir(h));
    sw_history_event(h, SW_LOG_INFO, "test", "once");
    finish(h, SW_RUN_DONE);
    unlock_database(other);
    ok(sw_history_merge(db_path(), NULL, &rows, &err), &err);
    ok(sw_os_replace_file(in_home("%s", name), spool, strlen(spool), 0600, &err), &err);
    ok(sw_history_merge(db_path(), NULL, &rows, &err), &err);
    assert_int_equal(rows, 0);
    assert_int_equal(announced(), 0);
    assert_int_equal(ask("SELECT count(*) FROM events WHERE text = 'once'"), 1);
}

static void damaged_lines_are_skipped(void **state)
{
    struct sw_err err;
    uint64_t rows;
    char spool[512];
    sqlite3 *other;
    struct sw_history *h = begin_spooled(&other);
    snprintf(spool, sizeof spool, "%s/metrics.jsonl", sw_history_out_dir(h));
    finish(h, SW_RUN_DONE);
    unlock_database(other);
    FILE *f = fopen(spool, "a");
    fprintf(f,
            "{\"run\":\"%s\n\n\x01\xff "
            "garbage\n{\"run\":\"0123456789abcdef\",\"row\":\"tag\",\"key\":\"k\"}\n"
            "{\"run\":7,\"row\":\"point\"}\n[]\n{\"row\":\"nonsense\"}\n{\"run\":\"torn",
            "0123456789abcdef");
    fclose(f);
    ok(sw_history_merge(db_path(), NULL, &rows, &err), &err);
    assert_string_equal(ask_text("SELECT status FROM runs WHERE name = 'spooled'"), "done");
    assert_int_equal(ask("SELECT count(*) FROM tags"), 0);
    assert_sound();
}

/* ---- A spool that grows as fast as it is merged ---- */

static char growing[512];
static int appended;

static void append_lines(int mib)
{
    FILE *f = fopen(growing, "a");
    for (int i = 0; i < mib << 20; i++)
        fputc('\n', f);
    fclose(f);
}

static ssize_t read_and_grow(int fd, void *out, size_t bytes, off_t at)
{
    if (at > 0 && appended++ < 50)
        append_lines(1);
    return sw_os_posix.pread(fd, out, bytes, at);
}

/* Its run would write for ever what another process would have to wait for. */
static void merge_ends_where_the_spool_ended_at_its_start(void **state)
{
    struct sw_err err;
    uint64_t rows;
    sqlite3 *other;
    struct sw_history *h = begin_spooled(&other);
    snprintf(growing, sizeof growing, "%s/metrics.jsonl", sw_history_out_dir(h));
    finish(h, SW_RUN_DONE);
    unlock_database(other);

    append_lines(3);
    struct sw_os os = sw_os_posix;
    os.pread = read_and_grow;
    sw_os_set(&os);
    ok(sw_history_merge(db_path(), NULL, &rows, &err), &err);
    sw_os_set(NULL);
    assert_in_range(appended, 3, 10);
    assert_string_equal(ask_text("SELECT status FROM runs WHERE name = 'spooled'"), "done");
    assert_int_equal(announced(), 1);

    ok(sw_history_merge(db_path(), NULL, &rows, &err), &err);
    assert_int_equal(announced(), 0);
}

static void deleted_database_is_recreated(void **state)
{
    struct sw_history *h = begin("deleted");
    struct sw_history_producer *p = producer(h);
    int loss = series(h, "train", "loss");
    write_points(p, loss, 1, 10);
    assert_true(sw_history_flush(h, PATIENCE_MS));
    unlink(db_path());
    unlink(in_home("db/history.db-wal"));
    unlink(in_home("db/history.db-shm"));
    write_points(p, loss, 11, 20);
    assert_true(sw_history_flush(h, PATIENCE_MS));
    finish(h, SW_RUN_DONE);
    assert_true(ask("SELECT count(*) = 10 AND min(step) = 11 FROM metrics"));
    assert_true(
        ask("SELECT id = 1 AND status = 'done' AND recipe_text LIKE '%name = x%' FROM runs"));
    assert_sound();
}

static void deleted_folder_is_recreated(void **state)
{
    struct sw_history *h = begin("deleted");
    struct sw_history_producer *p = producer(h);
    int loss = series(h, "train", "loss");
    assert_int_equal(nftw(in_home("db"), home_remove, 16, FTW_DEPTH | FTW_PHYS), 0);
    write_points(p, loss, 1, 20);
    assert_true(sw_history_flush(h, PATIENCE_MS));
    finish(h, SW_RUN_DONE);
    assert_int_equal(ask("SELECT count(*) FROM metrics"), 20);
}

static void write_file(const char *path, const char *text, size_t bytes)
{
    int fd = open(path, O_CREAT | O_WRONLY | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, bytes), bytes);
    close(fd);
}

static void garbage_is_not_overwritten_and_rows_are_spooled(void **state)
{
    struct sw_err err;
    char garbage[8192];
    uint64_t rows;
    for (size_t i = 0; i < sizeof garbage; i++)
        garbage[i] = (char)(i * 7 + i / 256);
    assert_int_equal(mkdir(in_home("db"), 0700), 0);
    write_file(db_path(), garbage, sizeof garbage);
    struct sw_history *h = begin("garbage");
    assert_int_equal(sw_history_run_id(h), 0);
    write_points(producer(h), series(h, "train", "loss"), 1, 30);
    assert_true(sw_history_flush(h, PATIENCE_MS));
    finish(h, SW_RUN_DONE);
    struct stat st;
    assert_int_equal(stat(db_path(), &st), 0);
    assert_int_equal(st.st_size, sizeof garbage);
    assert_int_equal(sw_history_merge(db_path(), NULL, &rows, &err), SW_ERR_FORMAT);
    assert_int_equal(rename(db_path(), in_home("db/broken")), 0);
    ok(sw_history_merge(db_path(), NULL, &rows, &err), &err);
    assert_int_equal(ask("SELECT count(*) FROM metrics"), 30);
}

/* Pages of an open database are overwritten: the writer must detect that and spool. */
static void database_damaged_during_a_run_spools(void **state)
{
    struct sw_history *h = begin("damaged");
    struct sw_history_producer *p = producer(h);
    int loss = series(h, "train", "loss");
    write_points(p, loss, 1, 10);
    assert_true(sw_history_flush(h, PATIENCE_MS));
    char garbage[4096];
    memset(garbage, 0xa5, sizeof garbage);
    int fd = open(in_home("db/damaged"), O_CREAT | O_WRONLY, 0600);
    for (int i = 0; i < 8; i++)
        assert_int_equal(write(fd, garbage, sizeof garbage), sizeof garbage);
    close(fd);
    assert_int_equal(rename(in_home("db/damaged"), db_path()), 0);
    unlink(in_home("db/history.db-wal"));
    unlink(in_home("db/history.db-shm"));
    write_points(p, loss, 11, 20);
    assert_true(wait_for(h, has_spooled));
    assert_true(sw_history_flush(h, PATIENCE_MS));
    struct sw_history_stats s = stats_of(h);
    assert_int_equal(s.lost, 0);
    finish(h, SW_RUN_DONE);
}

static void set_schema_version(int version)
{
    sqlite3 *db;
    char sql[64];
    assert_int_equal(sqlite3_open(db_path(), &db), SQLITE_OK);
    snprintf(sql, sizeof sql, "PRAGMA user_version = %d", version);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

static void newer_schema_is_reported_and_spooled(void **state)
{
    struct sw_err err;
    struct sw_history_reader *r;
    uint64_t rows;
    finish(begin("first"), SW_RUN_DONE);
    set_schema_version(99);
    assert_int_equal(sw_history_reader_open(&r, db_path(), &err), SW_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.text, "newer singa-ws"));
    struct sw_history *h = begin("newer");
    write_points(producer(h), series(h, "train", "loss"), 1, 5);
    finish(h, SW_RUN_DONE);
    assert_int_equal(ask("SELECT count(*) FROM runs"), 1);
    set_schema_version(SW_SCHEMA_VERSION);
    ok(sw_history_merge(db_path(), NULL, &rows, &err), &err);
    assert_int_equal(ask("SELECT count(*) FROM metrics"), 5);
}

static void database_of_another_program_is_not_modified(void **state)
{
    sqlite3 *db;
    assert_int_equal(mkdir(in_home("db"), 0700), 0);
    assert_int_equal(sqlite3_open(db_path(), &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "CREATE TABLE cookies(a)", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
    finish(begin("guest"), SW_RUN_DONE);
    assert_string_equal(ask_text("SELECT group_concat(name) FROM sqlite_schema"), "cookies");
    assert_int_equal(announced(), 1);
}

static void no_database_and_no_spool_is_an_error(void **state)
{
    struct sw_err err;
    struct sw_history *h;
    struct sw_run_info info = info_of("nowhere");
    info.out_dir = in_home("out");
    write_file(in_home("db"), "", 0);
    assert_int_equal(mkdir(in_home("out"), 0700), 0);
    assert_int_equal(mkdir(in_home("out/metrics.jsonl"), 0700), 0);
    ok(sw_history_open(&h, db_path(), NULL, &err), &err);
    assert_int_equal(sw_history_begin_run(h, &info, &err), SW_ERR_IO);
    assert_non_null(strstr(err.text, "metrics.jsonl"));
    sw_history_close(h);
}

static void uncreatable_folder_spools(void **state)
{
    write_file(in_home("db"), "", 0); /* a file where the folder should be */
    struct sw_history *h = begin("nofolder");
    assert_int_equal(sw_history_run_id(h), 0);
    write_points(producer(h), series(h, "train", "loss"), 1, 5);
    assert_true(sw_history_flush(h, PATIENCE_MS));
    assert_int_equal(remove(in_home("db")), 0);
    assert_true(wait_for(h, has_merged));
    assert_int_equal(sw_history_run_id(h), 1);
    finish(h, SW_RUN_DONE);
    assert_int_equal(ask("SELECT count(*) FROM metrics"), 5);
}

/* --- A file system without shared memory: an SQLite VFS whose files have no xShm. --- */

static sqlite3_vfs plain_vfs;
static const sqlite3_vfs *base_vfs;
static sqlite3_io_methods plain_methods;

static int open_plain(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags, int *out)
{
    int rc = base_vfs->xOpen((sqlite3_vfs *)base_vfs, name, file, flags, out);
    if (rc == SQLITE_OK) {
        plain_methods = *file->pMethods;
        plain_methods.iVersion = 1;
        file->pMethods = &plain_methods;
    }
    return rc;
}

static void file_system_without_wal_spools(void **state)
{
    sqlite3_vfs *def = sqlite3_vfs_find(NULL);
    base_vfs = def;
    plain_vfs = *def;
    plain_vfs.zName = "plain";
    plain_vfs.xOpen = open_plain;
    assert_int_equal(sqlite3_vfs_register(&plain_vfs, 1), SQLITE_OK);
    struct sw_history *h = begin("nowal");
    int64_t id = sw_history_run_id(h);
    write_points(producer(h), series(h, "train", "loss"), 1, 5);
    bool flushed = sw_history_flush(h, PATIENCE_MS);
    finish(h, SW_RUN_DONE);
    sqlite3_vfs_register(def, 1);
    sqlite3_vfs_unregister(&plain_vfs);
    assert_true(flushed);
    assert_int_equal(id, 0);
    struct sw_err err;
    uint64_t rows;
    ok(sw_history_merge(db_path(), NULL, &rows, &err), &err);
    assert_int_equal(ask("SELECT count(*) FROM metrics"), 5);
}

/* --- A disk that fills up: in a child, whose file system or limits are its own. --- */

static int in_child(int (*body)(void))
{
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        _exit(body());
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (!WIFEXITED(status))
        fail_msg("the child died of signal %d", WTERMSIG(status));
    return WEXITSTATUS(status);
}

enum { FINE = 0, CANNOT = 77, LOST = 2, NO_SPOOL = 3, NO_MERGE = 4, WRONG_COUNT = 5 };

/* No file may grow beyond the limit, so the database cannot take more pages (SQLITE_IOERR), while
 * the spool still can: it is limited likewise, but shorter. */
static int run_against_limit(void)
{
    signal(SIGXFSZ, SIG_IGN);
    struct sw_history *h = begin("limit");
    struct sw_history_producer *p = producer(h);
    int loss = series(h, "train", "loss");
    write_points(p, loss, 1, 1000);
    if (!sw_history_flush(h, PATIENCE_MS))
        return LOST;
    struct stat st;
    stat(in_home("db/history.db-wal"), &st);
    struct rlimit all, few;
    getrlimit(RLIMIT_FSIZE, &all);
    few = all;
    few.rlim_cur = (rlim_t)st.st_size;
    setrlimit(RLIMIT_FSIZE, &few);
    write_points(p, loss, 1001, 1200);
    if (!wait_for(h, has_spooled))
        return NO_SPOOL;
    setrlimit(RLIMIT_FSIZE, &all);
    if (!wait_for(h, has_merged))
        return NO_MERGE;
    uint64_t lost = stats_of(h).lost;
    finish(h, SW_RUN_DONE);
    return lost ? LOST : FINE;
}

static void file_that_cannot_grow_spools_and_merges(void **state)
{
    assert_int_equal(in_child(run_against_limit), FINE);
    assert_true(ask("SELECT count(*) = 1200 AND total(value) = 720600 FROM metrics"));
    assert_sound();
}

/* The database alone on a file system of 1 MiB. */
static int run_on_small_disk(void)
{
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mkdir(in_home("db"), 0700) != 0 || mount("none", in_home("db"), "tmpfs", 0, "size=1m") != 0)
        return CANNOT;
    struct sw_history *h = begin("full");
    struct sw_history_producer *p = producer(h);
    int loss = series(h, "train", "loss");
    char filler[65536] = {0};
    int fd = open(in_home("db/filler"), O_CREAT | O_WRONLY, 0600);
    while (write(fd, filler, sizeof filler) > 0)
        ;
    write_points(p, loss, 1, 20000);
    if (!wait_for(h, has_spooled))
        return NO_SPOOL;
    if (!sw_history_flush(h, PATIENCE_MS))
        return LOST;
    close(fd);
    unlink(in_home("db/filler"));
    write_points(p, loss, 20001, 20010);
    if (!wait_for(h, has_merged))
        return NO_MERGE;
    uint64_t lost = stats_of(h).lost;
    finish(h, SW_RUN_DONE);
    return lost ? LOST : ask("SELECT count(*) FROM point") == 20010 ? FINE : WRONG_COUNT;
}

static void full_disk_spools_and_merges(void **state)
{
    int result = in_child(run_on_small_disk);
    if (result == CANNOT) {
        print_message("skipped: a file system of its own needs the right to mount\n");
        skip();
    }
    assert_int_equal(result, FINE);
}

/* Database and spool are on the small disk, so neither can be written for a while. Rows that fit in
 * memory are kept. */
static int run_on_full_disk(void)
{
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("none", home_dir, "tmpfs", 0, "size=4m") != 0)
        return CANNOT;
    struct sw_history *h = begin("full");
    struct sw_history_producer *p = producer(h);
    int loss = series(h, "train", "loss");
    char filler[4096] = {0};
    int fd = open(in_home("filler"), O_CREAT | O_WRONLY, 0600);
    while (write(fd, filler, sizeof filler) > 0)
        ;
    for (int i = 0; i < 15; i++) {
        write_points(p, loss, i * 400 + 1, i * 400 + 400);
        sleep_ms(100);
    }
    close(fd);
    unlink(in_home("filler"));
    if (!wait_for(h, has_stored))
        return NO_MERGE;
    if (!sw_history_flush(h, PATIENCE_MS) || stats_of(h).lost)
        return LOST;
    finish(h, SW_RUN_DONE);
    return ask("SELECT count(*) FROM point") == 6000 &&
                   ask("SELECT total(value) FROM point") == 18003000.0
               ? FINE
               : WRONG_COUNT;
}

static void full_disk_without_room_for_the_spool_keeps_rows_in_memory(void **state)
{
    int result = in_child(run_on_full_disk);
    if (result == CANNOT) {
        print_message("skipped: a file system of its own needs the right to mount\n");
        skip();
    }
    assert_int_equal(result, FINE);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, home_begin, home_end)
int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(locked_database_spools_and_merges),
        CASE(locked_database_does_not_block_producers),
        CASE(run_spooled_under_a_lock_is_merged_by_the_next_job),
        CASE(explicit_merge_is_done_once),
        CASE(merge_after_a_kill_duplicates_nothing),
        CASE(damaged_lines_are_skipped),
        CASE(merge_ends_where_the_spool_ended_at_its_start),
        CASE(deleted_database_is_recreated),
        CASE(deleted_folder_is_recreated),
        CASE(garbage_is_not_overwritten_and_rows_are_spooled),
        CASE(database_damaged_during_a_run_spools),
        CASE(newer_schema_is_reported_and_spooled),
        CASE(database_of_another_program_is_not_modified),
        CASE(no_database_and_no_spool_is_an_error),
        CASE(uncreatable_folder_spools),
        CASE(file_system_without_wal_spools),
        CASE(file_that_cannot_grow_spools_and_merges),
        CASE(full_disk_spools_and_merges),
        CASE(full_disk_without_room_for_the_spool_keeps_rows_in_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
