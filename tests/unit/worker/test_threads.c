/* Thread states derived from lists of threads: the role of each thread, and what that role does. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "worker/threads.h"

enum { MAIN = 1, WORKER, TEAM, SERVER, QUEUE, WRITER, TASKS = WRITER, LISTS = 3 };
static const int64_t second_ns = 1000000000;

/* Of each thread, in every list: its state, or ' ' when it is not listed, and its CPU time. */
struct row {
    const char *what;
    char state[TASKS + 1];
    int ticks[TASKS]; /* from list to list */
    bool far;
    enum sw_activity worker, server, other;
};

static const char *const names[] = {"singa-ws",  "worker0.0", "worker0.0",
                                    "server0.0", "sim:0/1",   "history"};

static const struct row rows[] = {
    {"all asleep", "SSSSSS", {0}, false, SW_THREAD_ASLEEP, SW_THREAD_ASLEEP, SW_THREAD_UNKNOWN},
    {"blocked", "SDSSSS", {0}, false, SW_THREAD_ASLEEP, SW_THREAD_ASLEEP, SW_THREAD_UNKNOWN},
    {"polls", "SSSSSS", {0, 1}, false, SW_THREAD_ASLEEP, SW_THREAD_ASLEEP, SW_THREAD_UNKNOWN},
    {"computes", "SRSSSS", {0, 9}, false, SW_THREAD_COMPUTES, SW_THREAD_ASLEEP, SW_THREAD_UNKNOWN},
    {"computed, and sleeps for a moment",
     "SSSSSS",
     {0, 9},
     false,
     SW_THREAD_COMPUTES,
     SW_THREAD_ASLEEP,
     SW_THREAD_UNKNOWN},
    {"has no core", "SRSSSS", {0}, false, SW_THREAD_STARVED, SW_THREAD_ASLEEP, SW_THREAD_UNKNOWN},
    {"waits for its team, which computes",
     "SSRSSS",
     {0, 0, 9},
     false,
     SW_THREAD_COMPUTES,
     SW_THREAD_ASLEEP,
     SW_THREAD_UNKNOWN},
    {"waits for its team, which has no core",
     "SSRSSS",
     {0},
     false,
     SW_THREAD_STARVED,
     SW_THREAD_ASLEEP,
     SW_THREAD_UNKNOWN},
    {"its device computes",
     "SSSSRS",
     {0, 0, 0, 0, 9},
     false,
     SW_THREAD_COMPUTES,
     SW_THREAD_ASLEEP,
     SW_THREAD_UNKNOWN},
    {"waits in a loop for a GPU",
     "SRSSSS",
     {0, 9},
     true,
     SW_THREAD_UNKNOWN,
     SW_THREAD_ASLEEP,
     SW_THREAD_UNKNOWN},
    {"stopped", "StSSSS", {0}, false, SW_THREAD_STOPPED, SW_THREAD_ASLEEP, SW_THREAD_UNKNOWN},
    {"stopped while its team spins",
     "StRSSS",
     {0, 0, 9},
     false,
     SW_THREAD_STOPPED,
     SW_THREAD_ASLEEP,
     SW_THREAD_UNKNOWN},
    {"one of its team stopped",
     "SRTSSS",
     {0, 9},
     false,
     SW_THREAD_STOPPED,
     SW_THREAD_ASLEEP,
     SW_THREAD_UNKNOWN},
    {"stopped, with a GPU",
     "StSSSS",
     {0},
     true,
     SW_THREAD_STOPPED,
     SW_THREAD_ASLEEP,
     SW_THREAD_UNKNOWN},
    {"the server stopped",
     "SSStSS",
     {0},
     false,
     SW_THREAD_ASLEEP,
     SW_THREAD_STOPPED,
     SW_THREAD_UNKNOWN},
    {"the queue stopped",
     "SSSStS",
     {0},
     false,
     SW_THREAD_ASLEEP,
     SW_THREAD_ASLEEP,
     SW_THREAD_STOPPED},
    {"the main thread stopped",
     "tSSSSS",
     {0},
     false,
     SW_THREAD_ASLEEP,
     SW_THREAD_ASLEEP,
     SW_THREAD_STOPPED},
    {"ended", "S SSSS", {0}, false, SW_THREAD_ENDED, SW_THREAD_ASLEEP, SW_THREAD_UNKNOWN},
    {"no list", "      ", {0}, false, SW_THREAD_UNKNOWN, SW_THREAD_UNKNOWN, SW_THREAD_UNKNOWN},
};

static int list(const struct row *r, int round, struct sw_task *tasks)
{
    int count = 0;
    for (int i = 0; i < TASKS; i++) {
        if (r->state[i] == ' ')
            continue;
        tasks[count] = (struct sw_task){
            .id = i + 1, .state = r->state[i], .cpu_ticks = 1000 + round * r->ticks[i]};
        for (size_t k = 0; names[i][k]; k++)
            tasks[count].name[k] = names[i][k];
        count++;
    }
    return count;
}

static struct sw_threads *look(const struct row *r, int lists)
{
    struct sw_threads *t = NULL;
    struct sw_err err;
    struct sw_task tasks[TASKS];
    const struct sw_thread_owner owners[] = {
        {.id = WORKER, .name = "worker0.0", .device = "sim:0/", .far = r->far},
        {.id = SERVER, .name = "server0.0"},
        {.id = 0, .name = "history"}, /* has not said its number yet */
    };
    assert_int_equal(sw_threads_new(3, &t, &err), SW_OK);
    for (int i = 0; i < lists; i++)
        sw_threads_check(t, owners, tasks, list(r, i, tasks), MAIN, second_ns);
    return t;
}

static void roles_do_what_their_threads_do(void **state)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct row *r = &rows[i];
        struct sw_threads *t = look(r, LISTS);
        const struct sw_thread_state *s = sw_threads_states(t);
        if (s[0].activity != r->worker || s[1].activity != r->server || s[2].activity ||
            s[3].activity != r->other)
            fail_msg("%s: %d, %d, %d, %d", r->what, s[0].activity, s[1].activity, s[2].activity,
                     s[3].activity);
        for (int k = 0; k < 4; k++) {
            bool lasts = s[k].activity >= SW_THREAD_STOPPED;
            assert_int_equal(s[k].for_ns, lasts ? (LISTS - 1) * second_ns : 0);
        }
        sw_threads_free(t);
    }
}

static void a_thread_without_a_role_is_named(void **state)
{
    struct sw_threads *t = look(&(struct row){.state = "SSSStt"}, 1);
    assert_int_equal(sw_threads_states(t)[3].id, QUEUE);
    assert_string_equal(sw_threads_other_name(t), "sim:0/1");
    sw_threads_free(t);
    t = look(&(struct row){.state = "tSSSSS"}, 1);
    assert_string_equal(sw_threads_other_name(t), "main");
    sw_threads_free(t);
}

/* strace stops a thread at every call: it is found stopped again and again, and goes on. */
static void thread_that_is_traced_is_not_stopped_for_long(void **state)
{
    struct sw_threads *t = look(&(struct row){.state = "StSSSS", .ticks = {0, 1}}, LISTS);
    assert_int_equal(sw_threads_states(t)[0].activity, SW_THREAD_STOPPED);
    assert_int_equal(sw_threads_states(t)[0].for_ns, 0);
    sw_threads_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(roles_do_what_their_threads_do),
        cmocka_unit_test(a_thread_without_a_role_is_named),
        cmocka_unit_test(thread_that_is_traced_is_not_stopped_for_long),
    };
    return cmocka_run_group_tests_name("threads", tests, NULL, NULL);
}
