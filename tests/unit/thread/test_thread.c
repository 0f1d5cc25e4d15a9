/* ctest-labels: threads */
#include "thread/thread.h"
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include <cmocka.h>

struct seen {
    char name[16];
    sigset_t mask;
};

static void look(void *arg)
{
    struct seen *s = arg;
    /* The thread sets its name itself, so it may appear a moment later. */
    for (int i = 0; i < 1000 && strcmp(s->name, "worker0.0") != 0; i++) {
        pthread_getname_np(pthread_self(), s->name, sizeof s->name);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    pthread_sigmask(SIG_SETMASK, NULL, &s->mask);
}

static void threads_have_names_and_no_signals(void **state)
{
    struct seen s = {{0}, {{0}}};
    struct sw_thread t;
    sigset_t mine;
    assert_int_equal(sw_thread_start(&t, "worker0.0", look, &s, NULL), SW_OK);
    sw_thread_join(&t);
    assert_string_equal(s.name, "worker0.0");
    assert_true(sigismember(&s.mask, SIGINT) && sigismember(&s.mask, SIGTERM));
    pthread_sigmask(SIG_SETMASK, NULL, &mine);
    assert_false(sigismember(&mine, SIGINT));
}

static void joining_a_thread_that_never_ran_does_nothing(void **state)
{
    struct sw_thread t = {0};
    sw_thread_join(&t);
    assert_true(sw_thread_join_timed(&t, 0));
}

struct gate {
    struct sw_mutex lock; /* guards open */
    struct sw_cond changed;
    bool open;
};

static void gate_init(struct gate *g)
{
    sw_mutex_init(&g->lock);
    sw_cond_init(&g->changed);
    g->open = false;
}

static void gate_fini(struct gate *g)
{
    sw_mutex_fini(&g->lock);
    sw_cond_fini(&g->changed);
}

static void wait_at_gate(void *arg)
{
    struct gate *g = arg;
    sw_mutex_lock(&g->lock);
    while (!g->open)
        sw_cond_wait(&g->changed, &g->lock);
    sw_mutex_unlock(&g->lock);
}

static void timed_join_gives_up_and_can_be_repeated(void **state)
{
    struct gate g;
    struct sw_thread t;
    gate_init(&g);
    assert_int_equal(sw_thread_start(&t, "a-name-longer-than-linux-allows", wait_at_gate, &g, NULL),
                     SW_OK);
    assert_false(sw_thread_join_timed(&t, 0));
    assert_false(sw_thread_join_timed(&t, 30));
    sw_mutex_lock(&g.lock);
    g.open = true;
    sw_cond_broadcast(&g.changed);
    sw_mutex_unlock(&g.lock);
    assert_true(sw_thread_join_timed(&t, 60000));
    assert_true(sw_thread_join_timed(&t, 0));
    sw_thread_join(&t);
    gate_fini(&g);
}

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void timed_wait_ends_after_its_time(void **state)
{
    struct gate g;
    gate_init(&g);
    sw_mutex_lock(&g.lock);
    int64_t before = now_ms();
    /* Spurious wake-ups are allowed, but an early timeout is not. */
    while (sw_cond_wait_ms(&g.changed, &g.lock, 20))
        before = now_ms();
    assert_true(now_ms() - before >= 19);
    assert_false(sw_cond_wait_ms(&g.changed, &g.lock, 0));
    assert_false(sw_cond_wait_ms(&g.changed, &g.lock, -5));
    sw_mutex_unlock(&g.lock);
    gate_fini(&g);
}

struct sum {
    struct sw_mutex lock; /* guards total */
    long total;
};

static void add_many(void *arg)
{
    struct sum *s = arg;
    for (int i = 0; i < 10000; i++) {
        sw_mutex_lock(&s->lock);
        s->total++;
        sw_mutex_unlock(&s->lock);
    }
}

static void mutex_excludes(void **state)
{
    struct sum s = {.total = 0};
    struct sw_thread t[4];
    sw_mutex_init(&s.lock);
    for (int i = 0; i < 4; i++)
        assert_int_equal(sw_thread_start(&t[i], "adder", add_many, &s, NULL), SW_OK);
    for (int i = 0; i < 4; i++)
        sw_thread_join(&t[i]);
    assert_int_equal(s.total, 40000);
    sw_mutex_fini(&s.lock);
}

static void nap(void *slack)
{
    sw_thread_nap(1000);
    *(int *)slack = prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0);
}

/* What the system adds to a nap, here and in other threads. */
static void naps_are_exact_for_the_thread_that_takes_them(void **state)
{
    int before = prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0), there = 0;
    struct sw_thread t;
    assert_int_equal(sw_thread_start(&t, "napper", nap, &there, NULL), SW_OK);
    sw_thread_join(&t);
    assert_int_equal(there, 1000);
    assert_int_equal(prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_have_names_and_no_signals),
        cmocka_unit_test(joining_a_thread_that_never_ran_does_nothing),
        cmocka_unit_test(timed_join_gives_up_and_can_be_repeated),
        cmocka_unit_test(timed_wait_ends_after_its_time),
        cmocka_unit_test(mutex_excludes),
        cmocka_unit_test(naps_are_exact_for_the_thread_that_takes_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
