/* The control socket: one line and one answer, for our own user only; invalid or slow clients do
 * not block others, and no file remains. */
/* ctest-labels: threads */
#include "history/control.h"
#include "history/snapshot.h"
#include "history_support.h"
#include "thread/thread.h"
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

struct served {
    struct sw_control *c;
    struct sw_thread thread;
    atomic_bool over;
    char path[100];
};

static void echo(void *user, const char *line, char *answer, size_t bytes)
{
    snprintf(answer, bytes, "ok: %s", line);
}

static void serve(void *arg)
{
    struct served *s = arg;
    while (!atomic_load(&s->over))
        sw_control_poll(s->c, 1000, echo, NULL);
}

static void open_socket(struct served *s)
{
    struct sw_err err;
    char *live;
    *s = (struct served){0};
    ok(sw_snapshot_path("00112233445566cc", NULL, &live, &err), &err);
    char *path = sw_control_path(live);
    snprintf(s->path, sizeof s->path, "%s", path);
    sw_free(path);
    sw_free(live);
    ok(sw_control_new(&s->c, &err), &err);
    ok(sw_control_listen(s->c, s->path, &err), &err);
    ok(sw_thread_start(&s->thread, "control", serve, s, &err), &err);
}

static void close_socket(struct served *s)
{
    struct stat st;
    atomic_store(&s->over, true);
    sw_control_wake(s->c);
    sw_thread_join(&s->thread);
    sw_control_free(s->c);
    assert_int_not_equal(stat(s->path, &st), 0);
}

/* Sends bytes unchanged; returns the answer, or "" if the connection was closed. */
static const char *talk(const struct served *s, const void *bytes, size_t n, bool half_close)
{
    static char answer[SW_CONTROL_LINE + 8];
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    size_t got = 0;
    snprintf(to.sun_path, sizeof to.sun_path, "%s", s->path);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&to, sizeof to), 0);
    ssize_t sent = send(fd, bytes, n, MSG_NOSIGNAL);
    (void)sent;
    if (half_close)
        shutdown(fd, SHUT_WR);
    for (ssize_t r; got < sizeof answer - 1 && (r = recv(fd, answer + got, 8, 0)) > 0;)
        got += (size_t)r;
    answer[got] = '\0';
    close(fd);
    return answer;
}

static void each_line_gets_one_answer(void **state)
{
    struct served s;
    struct sw_err err;
    struct stat st;
    char answer[SW_CONTROL_LINE];
    open_socket(&s);
    assert_int_equal(stat(s.path, &st), 0);
    assert_true(S_ISSOCK(st.st_mode));
    assert_int_equal(st.st_mode & 0777, 0600);
    for (int i = 0; i < 50; i++) {
        ok(sw_control_ask(s.path, "note über allem", answer, sizeof answer, &err), &err);
        assert_string_equal(answer, "ok: note über allem");
    }
    assert_string_equal(talk(&s, "pause\r\n", 7, false), "ok: pause\n");
    assert_string_equal(talk(&s, "pause", 5, true), "ok: pause\n");
    assert_string_equal(talk(&s, "pause\nstop\n", 11, false), "ok: pause\n");
    assert_int_equal(sw_control_ask(s.path, "two\nlines", answer, sizeof answer, &err),
                     SW_ERR_INVALID);
    close_socket(&s);
    assert_int_equal(sw_control_ask(s.path, "pause", answer, sizeof answer, &err), SW_ERR_NOTFOUND);
}

static void invalid_lines_are_refused(void **state)
{
    struct served s;
    char longest[4096];
    open_socket(&s);
    memset(longest, 'x', sizeof longest);
    assert_non_null(strstr(talk(&s, "no\te\n", 5, false), "control characters"));
    assert_non_null(strstr(talk(&s, "no\0e\n", 5, false), "control characters"));
    assert_non_null(strstr(talk(&s, "note \xff\xfe\n", 8, false), "UTF-8"));
    assert_non_null(strstr(talk(&s, "note \xc3\n", 7, false), "UTF-8"));
    assert_non_null(strstr(talk(&s, "note \xed\xa0\x80\n", 9, false), "UTF-8"));
    const char *answer = talk(&s, longest, sizeof longest, false);
    assert_true(!*answer || strstr(answer, "at most 511 bytes")); /* or a reset: more came */
    longest[510] = '\n';
    assert_int_equal(strlen(talk(&s, longest, 511, false)), SW_CONTROL_LINE);
    assert_string_equal(talk(&s, "", 0, true), "");
    close_socket(&s);
}

/* More silent clients than slots: the oldest are dropped, and others are served at once. */
static void silent_clients_do_not_block_others(void **state)
{
    enum { SILENT = 20 };
    struct served s;
    struct sw_err err;
    char answer[SW_CONTROL_LINE] = "";
    int fds[SILENT];
    open_socket(&s);
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    snprintf(to.sun_path, sizeof to.sun_path, "%s", s.path);
    for (int i = 0; i < SILENT; i++) {
        fds[i] = socket(AF_UNIX, SOCK_STREAM, 0);
        assert_int_equal(connect(fds[i], (const struct sockaddr *)&to, sizeof to), 0);
    }
    for (int i = 0; i < 10; i++) {
        ok(sw_control_ask(s.path, "pause", answer, sizeof answer, &err), &err);
        assert_string_equal(answer, "ok: pause");
    }
    for (int i = 0; i < SILENT; i++)
        close(fds[i]);
    close_socket(&s);
}

/* The next run removes the socket of a crashed run, but not that of a live one. */
static void stale_sockets_are_removed(void **state)
{
    struct sw_err err;
    struct stat st;
    char *live, *other;
    struct sw_snapshot *s;
    ok(sw_snapshot_path("00112233445566dd", NULL, &live, &err), &err);
    ok(sw_snapshot_new(&s, live, &(struct sw_snapshot_run){1, "00112233445566dd", NULL, 1, 1},
                       &err),
       &err);
    assert_string_equal(sw_snapshot_file(s), live);
    char *sock = sw_control_path(live);
    FILE *f = fopen(sock, "w");
    assert_non_null(f);
    fclose(f);
    ok(sw_snapshot_path("00112233445566ee", NULL, &other, &err), &err);
    assert_int_equal(stat(sock, &st), 0);
    sw_snapshot_free(s);
    sw_free(other);
    ok(sw_snapshot_path("00112233445566ee", NULL, &other, &err), &err);
    assert_int_not_equal(stat(sock, &st), 0);
    sw_free(sock);
    sw_free(live);
    sw_free(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_line_gets_one_answer),
        cmocka_unit_test(invalid_lines_are_refused),
        cmocka_unit_test(silent_clients_do_not_block_others),
        cmocka_unit_test(stale_sockets_are_removed),
    };
    return cmocka_run_group_tests_name("control", tests, home_begin, home_end);
}
