/* The live snapshot: written state is read consistently, inconsistent files are refused, no file
 * remains. */
/* ctest-labels: threads */
#include "history/process.h"
#include "history/slot_record.h"
#include "history/snapshot.h"
#include "history_support.h"
#include "thread/thread.h"
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>

static struct sw_snapshot *make(int slots, char **path)
{
    struct sw_err err;
    struct sw_snapshot *s;
    ok(sw_snapshot_path("00112233445566aa", NULL, path, &err), &err);
    ok(sw_snapshot_new(&s, *path,
                       &(struct sw_snapshot_run){7, "00112233445566aa", "lenet", 100, slots}, &err),
       &err);
    return s;
}

static void other_process_reads_written_state(void **state)
{
    struct sw_err err;
    char *path, *found;
    struct sw_snapshot *s = make(2, &path);
    struct sw_slot *slot = sw_snapshot_slot(s, 1);
    sw_slot_set_name(slot, "server0.0");
    struct sw_snapshot_reader *r;
    struct sw_snapshot_state header;
    struct sw_slot_state x;
    ok(sw_snapshot_find("00112233445566aa", &found, &err), &err);
    assert_string_equal(found, path);
    ok(sw_snapshot_reader_open(&r, found, &err), &err);
    assert_true(sw_snapshot_reader_state(r, &header));
    assert_int_equal(header.pid, getpid());
    assert_int_equal(header.run_id, 7);
    assert_int_equal(header.steps_total, 100);
    assert_int_equal(header.slots, 2);
    assert_int_equal(header.status, SW_RUN_RUNNING);
    assert_string_equal(header.run_name, "lenet");
    assert_string_equal(header.run_uid, "00112233445566aa");
    assert_true(header.started_at > 1e9);
    assert_true(sw_snapshot_reader_slot(r, 1, &x));
    assert_string_equal(x.name, "server0.0");
    assert_true(x.phase == SW_PHASE_IDLE && x.layer == -1 && x.step == -1 && isnan(x.loss));
    sw_slot_phase(slot, SW_PHASE_FORWARD, 12, 3, "conv3", 1000);
    sw_slot_result(slot, 11, 0.25, 704, 2000);
    sw_slot_wait(slot, "server0.0: conv1.weight version 12", 3000);
    assert_true(sw_snapshot_reader_slot(r, 1, &x));
    assert_true(x.phase == SW_PHASE_FORWARD && x.layer == 3 && x.step == 12 && x.since_ns == 3000);
    assert_true(x.done_step == 11 && x.loss == 0.25 && x.samples_done == 704 &&
                x.heartbeat_ns == 3000);
    assert_string_equal(x.layer_name, "conv3");
    assert_string_equal(x.waiting_for, "server0.0: conv1.weight version 12");
    assert_int_equal(x.wait.kind, SW_WAIT_OTHER);
    sw_slot_wait_on(slot, (struct sw_wait){SW_WAIT_VERSION, 5, 1ll << 40}, "version", 3000);
    assert_true(sw_snapshot_reader_slot(r, 1, &x));
    assert_true(x.wait.kind == SW_WAIT_VERSION && x.wait.index == 5 && x.wait.number == 1ll << 40);
    assert_string_equal(x.waiting_for, "version");
    sw_slot_phase(slot, SW_PHASE_IDLE, 12, -1, NULL, 4000);
    sw_slot_heartbeat(slot, 5000);
    assert_true(sw_snapshot_read_slot(s, 1, &x));
    assert_true(x.layer == -1 && x.heartbeat_ns == 5000 && x.since_ns == 4000);
    assert_int_equal(x.wait.kind, SW_WAIT_NONE);
    assert_string_equal(x.layer_name, "");
    assert_string_equal(x.waiting_for, "");
    assert_false(sw_snapshot_reader_slot(r, 2, &x));
    assert_false(sw_snapshot_reader_slot(r, -1, &x));
    sw_snapshot_set_status(s, SW_RUN_STOPPED);
    assert_true(sw_snapshot_reader_state(r, &header));
    assert_true(header.status == SW_RUN_STOPPED);
    sw_snapshot_free(s);
    sw_free(path);
    assert_int_equal(sw_snapshot_find("00112233445566aa", &path, &err), SW_ERR_NOTFOUND);
    assert_true(sw_snapshot_reader_slot(r, 1, &x)); /* the mapping outlives the unlinked file */
    sw_snapshot_reader_close(r);
    sw_free(found);
}

static void reader_detects_a_removed_file(void **state)
{
    struct sw_err err;
    char *path, *again;
    struct sw_snapshot *s = make(1, &path);
    struct sw_snapshot_reader *old, *new;
    struct sw_snapshot_state header;
    ok(sw_snapshot_reader_open(&old, path, &err), &err);
    assert_true(sw_snapshot_reader_state(old, &header));
    assert_false(header.gone);
    sw_snapshot_free(s);
    s = make(3, &again);
    assert_string_equal(path, again);
    assert_true(sw_snapshot_reader_state(old, &header));
    assert_true(header.gone && header.status == SW_RUN_RUNNING);
    ok(sw_snapshot_reader_open(&new, path, &err), &err);
    assert_true(sw_snapshot_reader_state(new, &header));
    assert_true(!header.gone && header.slots == 3);
    sw_snapshot_reader_close(old);
    sw_snapshot_reader_close(new);
    sw_snapshot_free(s);
    sw_free(path);
    sw_free(again);
}

static void texts_are_truncated(void **state)
{
    struct sw_err err;
    struct sw_snapshot *s;
    struct sw_slot_state x;
    char text[200];
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = 0;
    ok(sw_snapshot_new(&s, NULL, &(struct sw_snapshot_run){1, "00112233445566aa", NULL, 0, 1},
                       &err),
       &err);
    struct sw_slot *slot = sw_snapshot_slot(s, 0);
    sw_slot_set_name(slot, text);
    sw_slot_phase(slot, SW_PHASE_READ, 1, 0, text, 1);
    sw_slot_wait(slot, text, 1);
    assert_true(sw_snapshot_read_slot(s, 0, &x));
    assert_int_equal(strlen(x.name), SW_SNAPSHOT_NAME - 1);
    assert_int_equal(strlen(x.layer_name), SW_SNAPSHOT_TEXT - 1);
    assert_int_equal(strlen(x.waiting_for), SW_SNAPSHOT_TEXT - 1);
    sw_slot_phase(slot, SW_PHASE_READ, 1, 0, "short", 1);
    assert_true(sw_snapshot_read_slot(s, 0, &x));
    assert_string_equal(x.layer_name, "short");
    sw_snapshot_free(s);
}

/* The job still has its own state and continues; a reader gets an error. */
static void truncated_file_does_not_affect_the_job(void **state)
{
    struct sw_err err;
    char *path;
    enum { SLOTS = 40 }; /* more than two pages */
    for (off_t left = 11000; left >= 0; left = left ? left / 8 : -1) {
        struct sw_snapshot *s = make(SLOTS, &path);
        struct sw_snapshot_reader *r, *late;
        struct sw_snapshot_state header;
        struct sw_slot_state x;
        ok(sw_snapshot_reader_open(&r, path, &err), &err);
        for (int i = 0; i < SLOTS; i++)
            sw_slot_phase(sw_snapshot_slot(s, i), SW_PHASE_FORWARD, 12, i, "conv3", 1000);
        ok(sw_snapshot_check(s, &err), &err);
        ok(sw_snapshot_reader_check(r, &err), &err);
        assert_int_equal(truncate(path, left), 0);
        for (int i = 0; i < SLOTS; i++) {
            sw_slot_heartbeat(sw_snapshot_slot(s, i), 5000);
            assert_true(sw_snapshot_read_slot(s, i, &x));
            assert_true(x.step == 12 && x.layer == i && x.heartbeat_ns == 5000);
            (void)sw_snapshot_reader_slot(r, i, &x);
        }
        (void)sw_snapshot_reader_state(r, &header);
        assert_int_equal(sw_snapshot_reader_check(r, &err), SW_ERR_FORMAT);
        assert_non_null(strstr(err.text, "was truncated from"));
        assert_int_equal(sw_snapshot_check(s, &err), SW_ERR_FORMAT);
        assert_non_null(strstr(err.text, "another program truncated it"));
        assert_int_equal(sw_snapshot_reader_open(&late, path, &err), SW_ERR_FORMAT);
        sw_snapshot_reader_close(r);
        sw_snapshot_free(s);
        sw_free(path);
    }
}

struct storm {
    struct sw_thread thread;
    struct sw_slot *slot;
    atomic_bool stop;
};

/* Every field of a write has the same number. */
static void write_numbers(void *arg)
{
    struct storm *storm = arg;
    char text[96];
    for (int64_t n = 1; !atomic_load_explicit(&storm->stop, memory_order_relaxed); n++) {
        snprintf(text, sizeof text, "%lld %lld %lld %lld", (long long)n, (long long)n, (long long)n,
                 (long long)n);
        sw_slot_phase(storm->slot, SW_PHASE_FORWARD, n, (int)n, text, n);
        sw_slot_result(storm->slot, n, (double)n, n, n);
    }
}

static void readers_never_see_a_partial_write(void **state)
{
    struct sw_err err;
    char *path;
    struct sw_snapshot *s = make(1, &path);
    struct sw_snapshot_reader *r;
    struct storm storm = {.slot = sw_snapshot_slot(s, 0)};
    ok(sw_snapshot_reader_open(&r, path, &err), &err);
    ok(sw_thread_start(&storm.thread, "storm", write_numbers, &storm, &err), &err);
    int seen = 0, torn = 0;
    int64_t last = 0, start = sw_os()->monotonic_ns(), took = 0;
    /* On a busy machine the two threads may take turns on one core. */
    while (took < 500000000 || (seen <= 100 && took < 60000000000)) {
        took = sw_os()->monotonic_ns() - start;
        struct sw_slot_state x;
        if (!sw_snapshot_reader_slot(r, 0, &x) || x.step < 1)
            continue;
        long long a = 0, b = 0, c = 0, d = 0;
        seen += x.step != last;
        last = x.step;
        torn += sscanf(x.layer_name, "%lld %lld %lld %lld", &a, &b, &c, &d) != 4 || a != x.step ||
                b != a || c != a || d != a || x.layer != (int)a || x.since_ns != a;
        torn += x.done_step > 0 && ((double)x.done_step != x.loss || x.done_step != x.samples_done);
        torn += x.done_step > 0 && x.done_step != x.step && x.done_step != x.step - 1;
    }
    atomic_store(&storm.stop, true);
    sw_thread_join(&storm.thread);
    assert_true(seen > 100);
    assert_int_equal(torn, 0);
    sw_snapshot_reader_close(r);
    sw_snapshot_free(s);
    sw_free(path);
}

static void put_word(const char *path, off_t at, uint64_t value)
{
    int fd = open(path, O_WRONLY);
    assert_int_equal(pwrite(fd, &value, 8, at), 8);
    close(fd);
}

static void inconsistent_files_are_refused(void **state)
{
    struct sw_err err;
    char *path;
    struct sw_snapshot_reader *r;
    struct stat st;
    struct sw_snapshot *s = make(3, &path);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    struct {
        off_t at;
        uint64_t value;
        int code;
    } lies[] = {
        {0, 0x1122, SW_ERR_FORMAT}, {8, 2, SW_ERR_UNSUPPORTED}, {16, 64, SW_ERR_FORMAT},
        {24, 128, SW_ERR_FORMAT},   {32, 4, SW_ERR_FORMAT},     {32, UINT64_MAX, SW_ERR_FORMAT},
        {40, 99999, SW_ERR_FORMAT},
    };
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        uint64_t before;
        int fd = open(path, O_RDONLY);
        assert_int_equal(pread(fd, &before, 8, lies[i].at), 8);
        close(fd);
        put_word(path, lies[i].at, lies[i].value);
        assert_int_equal(sw_snapshot_reader_open(&r, path, &err), lies[i].code);
        put_word(path, lies[i].at, before);
    }
    ok(sw_snapshot_reader_open(&r, path, &err), &err);
    sw_snapshot_reader_close(r);
    for (off_t size = 0; size < st.st_size; size += 100) {
        char *copy = in_home("short.live");
        int from = open(path, O_RDONLY), to = open(copy, O_CREAT | O_WRONLY | O_TRUNC, 0600);
        char bytes[4096];
        assert_int_equal(read(from, bytes, (size_t)size), size);
        assert_int_equal(write(to, bytes, (size_t)size), size);
        close(from);
        close(to);
        assert_int_equal(sw_snapshot_reader_open(&r, copy, &err), SW_ERR_FORMAT);
    }
    assert_int_equal(sw_snapshot_reader_open(&r, in_home("absent"), &err), SW_ERR_NOTFOUND);
    assert_int_not_equal(sw_snapshot_reader_open(&r, home_dir, &err), SW_OK);
    sw_snapshot_free(s);
    sw_free(path);
}

static void file_of_a_killed_job_is_crashed_and_removed(void **state)
{
    struct sw_err err;
    struct stat st;
    char *path;
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        struct sw_snapshot *s;
        if (sw_snapshot_path("deaddeaddeaddead", NULL, &path, NULL) == SW_OK &&
            sw_snapshot_new(&s, path, &(struct sw_snapshot_run){1, "deaddeaddeaddead", NULL, 1, 1},
                            NULL) == SW_OK)
            kill(getpid(), SIGKILL);
        _exit(1);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    ok(sw_snapshot_find("deaddeaddeaddead", &path, &err), &err);
    struct sw_snapshot_reader *r;
    struct sw_snapshot_state header;
    ok(sw_snapshot_reader_open(&r, path, &err), &err);
    assert_true(sw_snapshot_reader_state(r, &header));
    assert_int_equal(header.status, SW_RUN_CRASHED);
    sw_snapshot_reader_close(r);
    char *mine, *left = in_home("singa-ws/x.live.999999999.tmp");
    int fd = open(left, O_CREAT | O_WRONLY, 0600);
    close(fd);
    struct sw_snapshot *s = make(1, &mine);
    assert_int_not_equal(stat(path, &st), 0);
    assert_int_not_equal(stat(left, &st), 0);
    assert_int_equal(stat(mine, &st), 0);
    sw_snapshot_free(s);
    sw_free(path);
    sw_free(mine);
}

static void state_directory_is_used_without_a_runtime_directory(void **state)
{
    struct sw_err err;
    struct stat st;
    char *path;
    setenv("XDG_RUNTIME_DIR", in_home("not/there"), 1);
    ok(sw_snapshot_path("00112233445566aa", NULL, &path, &err), &err);
    assert_string_equal(path, in_home("singa-ws/live/00112233445566aa.live"));
    sw_free(path);
    assert_int_equal(stat(in_home("singa-ws/live"), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    assert_int_not_equal(stat(in_home("not"), &st), 0);
}

static void slots_are_limited(void **state)
{
    struct sw_err err;
    struct sw_snapshot *s;
    assert_int_equal(
        sw_snapshot_new(&s, NULL, &(struct sw_snapshot_run){1, "x", NULL, 1, -1}, &err),
        SW_ERR_INVALID);
    assert_int_equal(
        sw_snapshot_new(&s, NULL, &(struct sw_snapshot_run){1, "x", NULL, 1, 100000}, &err),
        SW_ERR_INVALID);
    assert_string_equal(sw_phase_name(SW_PHASE_CHECKPOINT), "checkpoint");
    assert_string_equal(sw_phase_name((enum sw_phase)99), "?");
}

static void process_identity_includes_start_time_and_boot(void **state)
{
    struct sw_process me;
    sw_process_self(&me);
    assert_int_equal(me.pid, getpid());
    assert_true(me.start_ticks > 0);
    assert_true(sw_process_alive(me.pid, me.start_ticks, me.boot_id));
    assert_false(sw_process_alive(me.pid, me.start_ticks + 1, me.boot_id));
    assert_false(sw_process_alive(me.pid, me.start_ticks, "another boot"));
    assert_true(sw_process_alive(me.pid, 0, NULL));
    assert_false(sw_process_alive(0, 0, NULL));
    assert_false(sw_process_alive(999999999, 0, NULL));
    pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    /* A zombie is dead although its pid is still in use. */
    assert_int_equal(waitid(P_PID, (id_t)pid, &(siginfo_t){0}, WEXITED | WNOWAIT), 0);
    assert_false(sw_process_alive(pid, 0, NULL));
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* ---- Threads of other hosts ---- */

static void state_of_a_thread_of_another_host_is_shown(void **state)
{
    const int64_t there_ns = 5000000000, here_ns = 900000000000;
    struct sw_slot_state from = {.name = "worker0.1",
                                 .layer_name = "conv3",
                                 .waiting_for = "batch of train",
                                 .wait = {SW_WAIT_VERSION, 5, 7},
                                 .phase = SW_PHASE_BACKWARD,
                                 .layer = 3,
                                 .step = 12,
                                 .since_ns = there_ns - 300,
                                 .heartbeat_ns = there_ns - 20,
                                 .done_step = 11,
                                 .loss = 0.25,
                                 .samples_done = 704};
    unsigned char record[SW_SLOT_RECORD];
    struct sw_slot_state to, shown;
    char *path;
    struct sw_snapshot *s = make(1, &path);
    struct sw_slot *slot = sw_snapshot_slot(s, 0);

    sw_slot_write(&from, there_ns, record);
    sw_slot_read(record, here_ns, &to);
    assert_string_equal(to.name, "worker0.1");
    sw_slot_set_name(slot, "b/worker0.1");
    sw_slot_mirror(slot, &to);
    assert_true(sw_snapshot_read_slot(s, 0, &shown));
    assert_string_equal(shown.name, "b/worker0.1");
    assert_string_equal(shown.layer_name, "conv3");
    assert_string_equal(shown.waiting_for, "batch of train");
    assert_true(shown.phase == SW_PHASE_BACKWARD && shown.layer == 3 && shown.step == 12);
    assert_true(shown.done_step == 11 && shown.loss == 0.25 && shown.samples_done == 704);
    assert_true(shown.since_ns == here_ns - 300 && shown.heartbeat_ns == here_ns - 20);
    assert_int_equal(shown.wait.kind, SW_WAIT_OTHER); /* its parameters have other numbers */
    sw_snapshot_free(s);
    sw_free(path);
}

static void record_of_another_host_can_hold_any_bytes(void **state)
{
    unsigned char record[SW_SLOT_RECORD];
    struct sw_slot_state s;

    for (int byte = 0; byte < 256; byte++) {
        memset(record, byte, sizeof record);
        sw_slot_read(record, 1000, &s);
        assert_true(s.phase >= 0 && s.phase < SW_PHASES && s.layer >= -1);
        assert_true(s.step >= -1 && s.done_step >= -1 && s.samples_done >= 0);
        assert_true(s.since_ns >= 0 && s.since_ns <= 1000);
        assert_true(s.heartbeat_ns >= 0 && s.heartbeat_ns <= 1000);
        assert_true(strlen(s.name) < SW_SNAPSHOT_NAME);
        assert_true(strlen(s.waiting_for) < SW_SNAPSHOT_TEXT);
        for (const char *c = s.layer_name; *c; c++)
            assert_true((unsigned char)*c >= ' ' && *c != 0x7f);
    }
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, home_begin, home_end)
int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(other_process_reads_written_state),
        CASE(reader_detects_a_removed_file),
        CASE(texts_are_truncated),
        CASE(truncated_file_does_not_affect_the_job),
        CASE(readers_never_see_a_partial_write),
        CASE(inconsistent_files_are_refused),
        CASE(file_of_a_killed_job_is_crashed_and_removed),
        CASE(state_directory_is_used_without_a_runtime_directory),
        CASE(slots_are_limited),
        CASE(state_of_a_thread_of_another_host_is_shown),
        CASE(record_of_another_host_can_hold_any_bytes),
        CASE(process_identity_includes_start_time_and_boot),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
