/* The list of threads of this process. */
/* ctest-labels: threads */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "thread/tasks.h"
#include "thread/thread.h"
#include <stdatomic.h>
#include <string.h>
#include <time.h>

static void lines_of_stat_are_parsed(void **state)
{
    struct sw_task t;
    assert_true(sw_task_parse("42 (worker0.0) t 1 2 3 4 -1 4194304 100 0 9 0 77 23 5 5 20 0", &t));
    assert_int_equal(t.id, 42);
    assert_string_equal(t.name, "worker0.0");
    assert_int_equal(t.state, 't');
    assert_int_equal(t.cpu_ticks, 100);
    /* A name may look like the rest of the line. */
    assert_true(sw_task_parse("7 (a) R 1 (b) S 1 2 3 4 -1 0 0 0 0 0 1 2 0 0 20 0", &t));
    assert_string_equal(t.name, "a) R 1 (b");
    assert_int_equal(t.state, 'S');
    assert_int_equal(t.cpu_ticks, 3);
    assert_true(sw_task_parse("7 (longer than any name) S 1 2 3 4 -1 0 0 0 0 0 1 2 0", &t));
    assert_string_equal(t.name, "longer than any");
    static const char *const broken[] = {"", "7", "7 (a", "7 )a( S 1 2 3", "7 (a) S 1 2 3 4 -1 0"};
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++)
        assert_false(sw_task_parse(broken[i], &t));
}

struct sleeper {
    atomic_int id;
    atomic_bool over;
};

static void nap(void)
{
    nanosleep(&(struct timespec){0, 1000000}, NULL);
}

static void sleep_until_over(void *arg)
{
    struct sleeper *s = arg;
    atomic_store(&s->id, sw_task_self());
    while (!atomic_load(&s->over))
        nap();
}

static const struct sw_task *find(const struct sw_task *tasks, int count, int id)
{
    for (int i = 0; i < count; i++)
        if (tasks[i].id == id)
            return &tasks[i];
    return NULL;
}

static void threads_are_listed_while_they_live(void **state)
{
    struct sleeper s = {0};
    struct sw_task tasks[64];
    struct sw_thread thread;
    struct sw_err err;
    assert_int_equal(sw_thread_start(&thread, "sleeper", sleep_until_over, &s, &err), SW_OK);
    while (atomic_load(&s.id) == 0)
        nap();

    int count = sw_tasks_read(tasks, 64);
    const struct sw_task *self = find(tasks, count, sw_task_self());
    const struct sw_task *other = find(tasks, count, atomic_load(&s.id));
    assert_non_null(self);
    assert_int_equal(self->state, 'R');
    assert_non_null(other);
    assert_string_equal(other->name, "sleeper");
    assert_int_equal(sw_tasks_read(tasks, 1), 1);

    atomic_store(&s.over, true);
    sw_thread_join(&thread);
    while (find(tasks, sw_tasks_read(tasks, 64), atomic_load(&s.id)))
        nap(); /* it leaves the list a moment later */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_of_stat_are_parsed),
        cmocka_unit_test(threads_are_listed_while_they_live),
    };
    return cmocka_run_group_tests_name("tasks", tests, NULL, NULL);
}
