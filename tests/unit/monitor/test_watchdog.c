/* The watchdog on a simulated run: the test provides clock, slots and threads, and a table of who
 * waits for whom. The last role stands for threads that belong to no role. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "monitor/watchdog.h"
#include <string.h>

enum { UNITS = 5, OTHER = UNITS - 1, CHECK_MS = 200 };

struct play {
    struct sw_watchdog *dog;
    struct sw_slot_state slots[UNITS];
    struct sw_thread_state threads[UNITS];
    int blocker[UNITS]; /* -1: nobody */
    int64_t now_ms;
    struct sw_stall stall; /* of the newest news */
};

static int blocker(void *user, const struct sw_slot_state *slots, int role)
{
    const struct play *p = user;
    return p->blocker[role];
}

static void begin(struct play *p, double stall_s, enum sw_on_stall on_stall)
{
    struct sw_err err;
    *p = (struct play){.now_ms = 1000};
    struct sw_watchdog_args args = {.role_count = UNITS,
                                    .workers = 2,
                                    .others = 1,
                                    .stall_ns = (int64_t)(stall_s * 1e9),
                                    .on_stall = on_stall,
                                    .blocker = blocker,
                                    .user = p};
    assert_int_equal(sw_watchdog_new(&args, &p->dog, &err), SW_OK);
    for (int u = 0; u < UNITS; u++)
        p->blocker[u] = -1;
}

static void works(struct play *p, int u, enum sw_phase phase)
{
    p->slots[u] = (struct sw_slot_state){
        .phase = phase, .heartbeat_ns = p->now_ms * 1000000, .since_ns = p->now_ms * 1000000};
    p->blocker[u] = -1;
}

static void waits(struct play *p, int u, int whom)
{
    works(p, u, SW_PHASE_FORWARD);
    p->slots[u].wait.kind = SW_WAIT_VERSION;
    p->blocker[u] = whom;
}

/* What the system says of its thread, from now on. */
static void thread_is(struct play *p, int u, enum sw_activity activity)
{
    p->threads[u] = (struct sw_thread_state){.activity = activity, .id = 100 + u};
}

static enum sw_stall_news look_after(struct play *p, int64_t ms)
{
    p->now_ms += ms;
    for (int u = 0; u < UNITS; u++)
        if (p->threads[u].activity >= SW_THREAD_STOPPED)
            p->threads[u].for_ns += ms * 1000000;
    return sw_watchdog_check(p->dog, p->slots, p->threads, p->now_ms * 1000000, &p->stall);
}

/* Looks until there is news, for `ms` at most. */
static enum sw_stall_news run(struct play *p, int64_t ms)
{
    enum sw_stall_news news = SW_STALL_NONE;
    for (int64_t end = p->now_ms + ms; p->now_ms < end && news == SW_STALL_NONE;)
        news = look_after(p, CHECK_MS);
    return news;
}

static void assert_stalls(struct play *p, int64_t within_ms, int culprit, int victim)
{
    assert_int_equal(run(p, within_ms), SW_STALL_BEGINS);
    assert_int_equal(p->stall.culprit, culprit);
    assert_int_equal(p->stall.victim, victim);
}

static void silence_is_a_stall_after_four_seconds_and_is_reported_once(void **state)
{
    struct play p;
    begin(&p, 0, SW_ON_STALL_WARN);
    works(&p, 2, SW_PHASE_BACKWARD);
    assert_int_equal(run(&p, 3800), SW_STALL_NONE);
    assert_stalls(&p, 1000, 2, 2);
    assert_false(p.stall.stop);
    assert_int_equal(run(&p, 1000000), SW_STALL_NONE);
    works(&p, 2, SW_PHASE_BACKWARD);
    assert_int_equal(look_after(&p, CHECK_MS), SW_STALL_ENDS);
    assert_int_equal(p.stall.culprit, 2);
    sw_watchdog_free(p.dog);
}

static void idle_and_paused_units_never_stall(void **state)
{
    struct play p;
    begin(&p, 1, SW_ON_STALL_STOP);
    works(&p, 0, SW_PHASE_IDLE);
    works(&p, 1, SW_PHASE_PAUSED);
    p.slots[3].phase = SW_PHASE_IDLE; /* it rests until it is called */
    p.slots[3].wait.kind = SW_WAIT_TURN;
    assert_int_equal(run(&p, 100000), SW_STALL_NONE);
    /* Nor does who waits for them. */
    waits(&p, 2, 1);
    assert_int_equal(run(&p, 100000), SW_STALL_NONE);
    sw_watchdog_free(p.dog);
}

static void waits_are_followed_to_the_culprit(void **state)
{
    struct play p;
    begin(&p, 0, SW_ON_STALL_WARN);
    waits(&p, 1, 3); /* a worker for a server */
    waits(&p, 3, 0); /* which waits for another worker */
    p.now_ms += 1000;
    works(&p, 0, SW_PHASE_BACKWARD);
    assert_stalls(&p, 6000, 0, 1);
    sw_watchdog_free(p.dog);
}

/* A slow one that moves is no stall, however long the others wait for it. */
static void waiting_for_an_active_role_is_no_stall(void **state)
{
    struct play p;
    begin(&p, 1, SW_ON_STALL_STOP);
    waits(&p, 1, 0);
    for (int i = 0; i < 200; i++) {
        works(&p, 0, SW_PHASE_EVALUATE);
        assert_int_equal(run(&p, 800), SW_STALL_NONE);
    }
    sw_watchdog_free(p.dog);
}

/* Of disks and devices: silences of 3 s that end make the limit 12 s and not more, as it does not
 * creep while one lasts. Other phases learn nothing from it. */
static void limit_is_four_times_the_longest_silence(void **state)
{
    struct play p;
    begin(&p, 0, SW_ON_STALL_WARN);
    thread_is(&p, 0, SW_THREAD_ASLEEP);
    for (int i = 0; i < 5; i++) {
        works(&p, 0, SW_PHASE_READ);
        assert_int_equal(run(&p, 3000), SW_STALL_NONE);
    }
    works(&p, 0, SW_PHASE_READ);
    assert_int_equal(run(&p, 11000), SW_STALL_NONE);
    assert_stalls(&p, 2000, 0, 0);
    works(&p, 0, SW_PHASE_FORWARD);
    assert_int_equal(look_after(&p, CHECK_MS), SW_STALL_ENDS);
    assert_stalls(&p, 4600, 0, 0);
    sw_watchdog_free(p.dog);
}

/* Time that is spent waiting for others teaches nothing. */
static void waiting_does_not_raise_the_limit(void **state)
{
    struct play p;
    begin(&p, 0, SW_ON_STALL_WARN);
    waits(&p, 1, 0);
    for (int i = 0; i < 10; i++) {
        works(&p, 0, SW_PHASE_EVALUATE);
        assert_int_equal(run(&p, 1000), SW_STALL_NONE);
    }
    works(&p, 1, SW_PHASE_IDLE);
    works(&p, 0, SW_PHASE_FORWARD);
    assert_stalls(&p, 5600, 0, 0);
    sw_watchdog_free(p.dog);
}

static void initializing_values_may_take_a_minute(void **state)
{
    struct play p;
    begin(&p, 0, SW_ON_STALL_WARN);
    works(&p, 0, SW_PHASE_START);
    waits(&p, 1, 0);
    assert_int_equal(run(&p, 59000), SW_STALL_NONE);
    assert_stalls(&p, 2000, 0, 1);
    sw_watchdog_free(p.dog);
}

static void stop_comes_at_once_or_after_twelve_times_the_limit(void **state)
{
    struct play p;
    begin(&p, 2, SW_ON_STALL_STOP);
    works(&p, 0, SW_PHASE_FORWARD);
    assert_stalls(&p, 2400, 0, 0);
    assert_true(p.stall.stop);
    assert_int_equal(run(&p, 100000), SW_STALL_NONE);
    sw_watchdog_free(p.dog);
    begin(&p, 2, SW_ON_STALL_AUTO);
    works(&p, 0, SW_PHASE_FORWARD);
    assert_stalls(&p, 2400, 0, 0);
    assert_false(p.stall.stop);
    assert_int_equal(run(&p, 21000), SW_STALL_NONE);
    assert_int_equal(run(&p, 2000), SW_STALL_LASTS);
    assert_true(p.stall.stop);
    assert_int_equal(run(&p, 100000), SW_STALL_NONE);
    sw_watchdog_free(p.dog);
}

static void slow_disk_is_reported_but_does_not_stop_the_run(void **state)
{
    struct play p;
    begin(&p, 0, SW_ON_STALL_AUTO);
    works(&p, 0, SW_PHASE_CHECKPOINT);
    assert_stalls(&p, 5600, 0, 0);
    assert_int_equal(run(&p, 700000), SW_STALL_NONE);
    assert_int_equal(run(&p, 20000), SW_STALL_LASTS);
    sw_watchdog_free(p.dog);
}

/* SIGSTOP, a debugger, a machine that slept: nobody moved, the watchdog included. */
static void time_between_checks_is_limited(void **state)
{
    struct play p;
    begin(&p, 0, SW_ON_STALL_STOP);
    works(&p, 0, SW_PHASE_FORWARD);
    assert_int_equal(look_after(&p, CHECK_MS), SW_STALL_NONE);
    assert_int_equal(look_after(&p, 3600000), SW_STALL_NONE);
    works(&p, 0, SW_PHASE_BACKWARD);
    assert_int_equal(run(&p, 4000), SW_STALL_NONE);
    sw_watchdog_free(p.dog);
}

/* Who only waits is blamed after twice the time. */
static void deadlock_cycle_is_a_stall(void **state)
{
    struct play p;
    begin(&p, 0, SW_ON_STALL_STOP);
    for (int u = 0; u < 3; u++)
        waits(&p, u, (u + 1) % 3);
    assert_int_equal(run(&p, 7600), SW_STALL_NONE);
    assert_int_equal(run(&p, 1000), SW_STALL_BEGINS);
    assert_in_range(p.stall.culprit, 0, 2);
    assert_true(p.stall.stop);
    sw_watchdog_free(p.dog);
}

/* What a role does when one look after another finds it so, and what is said within five seconds.
 */
struct row {
    const char *what;
    enum sw_phase phase[2];       /* of units 0 and 1 */
    enum sw_wait_kind wait[2];    /* what they wait for */
    int blocker[2];               /* and for whom */
    enum sw_activity activity[3]; /* of their threads, and of one that is no unit's */
    int culprit, victim;          /* -1: nobody is blamed */
};

static const struct row rows[] = {
    {"a stopped worker is named, with who waits for it",
     {SW_PHASE_FORWARD, SW_PHASE_BACKWARD},
     {SW_WAIT_VERSION, SW_WAIT_NONE},
     {1, -1},
     {SW_THREAD_ASLEEP, SW_THREAD_STOPPED},
     1,
     0},
    {"it is when it had just been given what it waits for",
     {SW_PHASE_FORWARD, SW_PHASE_FORWARD},
     {SW_WAIT_VERSION, SW_WAIT_VERSION},
     {1, -1},
     {SW_THREAD_ASLEEP, SW_THREAD_STOPPED},
     1,
     0},
    {"it is when its slot says that it waits for the other",
     {SW_PHASE_FORWARD, SW_PHASE_FORWARD},
     {SW_WAIT_VERSION, SW_WAIT_VERSION},
     {1, 0},
     {SW_THREAD_ASLEEP, SW_THREAD_STOPPED},
     1,
     0},
    {"it is when nobody can tell whom the other waits for",
     {SW_PHASE_FORWARD, SW_PHASE_UPDATE},
     {SW_WAIT_VERSION, SW_WAIT_NONE},
     {-1, -1},
     {SW_THREAD_ASLEEP, SW_THREAD_STOPPED},
     1,
     1},
    {"a stopped server is, though its slot says that it is idle",
     {SW_PHASE_FORWARD, SW_PHASE_IDLE},
     {SW_WAIT_VERSION, SW_WAIT_NONE},
     {-1, -1},
     {SW_THREAD_ASLEEP, SW_THREAD_STOPPED},
     1,
     1},
    {"a stopped thread that is no unit's is",
     {SW_PHASE_FORWARD, SW_PHASE_IDLE},
     {SW_WAIT_DEVICE, SW_WAIT_NONE},
     {-1, -1},
     {SW_THREAD_ASLEEP, SW_THREAD_ASLEEP, SW_THREAD_STOPPED},
     OTHER,
     OTHER},
    {"a worker whose thread has ended is, when another waits for it",
     {SW_PHASE_FORWARD, SW_PHASE_IDLE},
     {SW_WAIT_VERSION, SW_WAIT_NONE},
     {1, -1},
     {SW_THREAD_ASLEEP, SW_THREAD_ENDED},
     1,
     0},
    {"it is not, when nobody does",
     {SW_PHASE_IDLE, SW_PHASE_IDLE},
     {SW_WAIT_NONE, SW_WAIT_NONE},
     {-1, -1},
     {SW_THREAD_ASLEEP, SW_THREAD_ENDED},
     -1,
     -1},
    {"one that sleeps at work is named",
     {SW_PHASE_FORWARD, SW_PHASE_BACKWARD},
     {SW_WAIT_GROUP, SW_WAIT_NONE},
     {1, -1},
     {SW_THREAD_ASLEEP, SW_THREAD_ASLEEP},
     1,
     0},
    {"one that computes is slow, and no stall",
     {SW_PHASE_FORWARD, SW_PHASE_BACKWARD},
     {SW_WAIT_GROUP, SW_WAIT_NONE},
     {1, -1},
     {SW_THREAD_ASLEEP, SW_THREAD_COMPUTES},
     -1,
     -1},
    {"nor is one that gets no core",
     {SW_PHASE_FORWARD, SW_PHASE_BACKWARD},
     {SW_WAIT_GROUP, SW_WAIT_NONE},
     {1, -1},
     {SW_THREAD_ASLEEP, SW_THREAD_STARVED},
     -1,
     -1},
    {"nor one that has what it waited for, and gets no core",
     {SW_PHASE_FORWARD, SW_PHASE_IDLE},
     {SW_WAIT_VERSION, SW_WAIT_NONE},
     {-1, -1},
     {SW_THREAD_STARVED, SW_THREAD_ASLEEP},
     -1,
     -1},
};

static void only_the_culprit_is_named_within_five_seconds(void **state)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct row *r = &rows[i];
        struct play p;
        begin(&p, 0, SW_ON_STALL_WARN);
        /* Silences of before make no difference. */
        works(&p, 1, r->phase[1]);
        thread_is(&p, 1, SW_THREAD_ASLEEP);
        assert_int_equal(run(&p, 3600), SW_STALL_NONE);
        for (int u = 0; u < 2; u++) {
            works(&p, u, r->phase[u]);
            p.slots[u].wait.kind = r->wait[u];
            p.blocker[u] = r->blocker[u];
            thread_is(&p, u, r->activity[u]);
        }
        thread_is(&p, OTHER, r->activity[2]);

        enum sw_stall_news news = run(&p, 5000);
        if (r->culprit < 0 ? news != SW_STALL_NONE
                           : news != SW_STALL_BEGINS || p.stall.culprit != r->culprit ||
                                 p.stall.victim != r->victim)
            fail_msg("%s: news %d, culprit %d, victim %d", r->what, news, p.stall.culprit,
                     p.stall.victim);
        assert_int_equal(run(&p, 60000), SW_STALL_NONE); /* nor later, nor anybody else */
        sw_watchdog_free(p.dog);
    }
}

/* A debugger that lets it go: those who waited have their time, from then on. */
static void resumed_thread_ends_the_stall(void **state)
{
    struct play p;
    begin(&p, 0, SW_ON_STALL_WARN);
    waits(&p, 0, -1);
    works(&p, 1, SW_PHASE_IDLE);
    thread_is(&p, 0, SW_THREAD_ASLEEP);
    thread_is(&p, 1, SW_THREAD_STOPPED);
    assert_stalls(&p, 3000, 1, 1);
    assert_int_equal(run(&p, 60000), SW_STALL_NONE);
    thread_is(&p, 1, SW_THREAD_ASLEEP);
    assert_int_equal(look_after(&p, CHECK_MS), SW_STALL_ENDS);
    assert_int_equal(p.stall.culprit, 1);
    assert_int_equal(run(&p, 7800), SW_STALL_NONE);
    sw_watchdog_free(p.dog);
}

/* The first verdict was the best at its time. */
static void more_certain_culprit_replaces_the_reported_one(void **state)
{
    struct play p;
    begin(&p, 0, SW_ON_STALL_WARN);
    works(&p, 0, SW_PHASE_CHECKPOINT);
    works(&p, 1, SW_PHASE_BACKWARD);
    thread_is(&p, 0, SW_THREAD_ASLEEP);
    thread_is(&p, 1, SW_THREAD_COMPUTES);
    assert_stalls(&p, 5000, 0, 0);
    thread_is(&p, 1, SW_THREAD_STOPPED);
    assert_stalls(&p, 3000, 1, 1);
    sw_watchdog_free(p.dog);
}

/* The history's writer, say: training goes on without it, so the run does not end either. */
static void stopped_thread_that_blocks_no_role_does_not_end_the_run(void **state)
{
    struct play p;
    begin(&p, 0, SW_ON_STALL_STOP);
    thread_is(&p, OTHER, SW_THREAD_STOPPED);
    assert_stalls(&p, 3000, OTHER, OTHER);
    assert_false(p.stall.stop);
    for (int i = 0; i < 100; i++) {
        works(&p, 0, SW_PHASE_FORWARD);
        assert_int_equal(look_after(&p, CHECK_MS), SW_STALL_NONE);
    }
    /* One that then waits for it in vain. */
    assert_int_equal(run(&p, 5000), SW_STALL_LASTS);
    assert_int_equal(p.stall.culprit, OTHER);
    assert_true(p.stall.stop);
    sw_watchdog_free(p.dog);
}

/* A server that sleeps over its mail: nobody else is left, but it gets twice the time. */
static void idle_server_that_is_waited_for_is_blamed_late(void **state)
{
    struct play p;
    begin(&p, 0, SW_ON_STALL_WARN);
    waits(&p, 0, 2);
    works(&p, 2, SW_PHASE_IDLE);
    thread_is(&p, 0, SW_THREAD_ASLEEP);
    thread_is(&p, 2, SW_THREAD_ASLEEP);
    assert_int_equal(run(&p, 7600), SW_STALL_NONE);
    assert_stalls(&p, 1000, 2, 0);
    assert_true(p.stall.quiet_ns >= 8 * (int64_t)1000000000);
    assert_int_equal(run(&p, 60000), SW_STALL_NONE);
    works(&p, 0, SW_PHASE_FORWARD);
    assert_int_equal(look_after(&p, CHECK_MS), SW_STALL_ENDS);
    /* A worker that is waited for before it has begun is no such one. */
    waits(&p, 0, 1);
    works(&p, 1, SW_PHASE_IDLE);
    thread_is(&p, 1, SW_THREAD_ASLEEP);
    assert_int_equal(run(&p, 60000), SW_STALL_NONE);
    sw_watchdog_free(p.dog);
}

static void second_stall_is_reported_after_the_first_is_over(void **state)
{
    struct play p;
    begin(&p, 1, SW_ON_STALL_WARN);
    works(&p, 0, SW_PHASE_FORWARD);
    p.now_ms += 400;
    works(&p, 1, SW_PHASE_FORWARD);
    assert_stalls(&p, 2000, 0, 0);
    works(&p, 0, SW_PHASE_IDLE);
    assert_int_equal(look_after(&p, CHECK_MS), SW_STALL_ENDS);
    assert_stalls(&p, 2000, 1, 1);
    sw_watchdog_free(p.dog);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(silence_is_a_stall_after_four_seconds_and_is_reported_once),
        cmocka_unit_test(idle_and_paused_units_never_stall),
        cmocka_unit_test(waits_are_followed_to_the_culprit),
        cmocka_unit_test(waiting_for_an_active_role_is_no_stall),
        cmocka_unit_test(limit_is_four_times_the_longest_silence),
        cmocka_unit_test(waiting_does_not_raise_the_limit),
        cmocka_unit_test(initializing_values_may_take_a_minute),
        cmocka_unit_test(stop_comes_at_once_or_after_twelve_times_the_limit),
        cmocka_unit_test(slow_disk_is_reported_but_does_not_stop_the_run),
        cmocka_unit_test(time_between_checks_is_limited),
        cmocka_unit_test(deadlock_cycle_is_a_stall),
        cmocka_unit_test(only_the_culprit_is_named_within_five_seconds),
        cmocka_unit_test(resumed_thread_ends_the_stall),
        cmocka_unit_test(more_certain_culprit_replaces_the_reported_one),
        cmocka_unit_test(stopped_thread_that_blocks_no_role_does_not_end_the_run),
        cmocka_unit_test(idle_server_that_is_waited_for_is_blamed_late),
        cmocka_unit_test(second_stall_is_reported_after_the_first_is_over),
    };
    return cmocka_run_group_tests_name("watchdog", tests, NULL, NULL);
}
