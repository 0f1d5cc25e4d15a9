/* The watchdog's judgement on a played run: a clock of our own, slots written by hand, and a table
 * of who waits for whom. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "train/watchdog.h"
#include <string.h>

enum { UNITS = 4, LOOK_MS = 200 };

struct play {
    struct sw_watchdog *dog;
    struct sw_slot_state slots[UNITS];
    int blocker[UNITS]; /* -1: nobody */
    int64_t now_ms;
    struct sw_stall stall; /* of the newest news */
};

static int blocker(void *user, const struct sw_slot_state *slots, int unit)
{
    const struct play *p = user;
    (void)slots;
    return p->blocker[unit];
}

static void begin(struct play *p, double stall_s, enum sw_on_stall on_stall)
{
    struct sw_err err;
    *p = (struct play){.now_ms = 1000};
    struct sw_watchdog_args args = {.units = UNITS,
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

static enum sw_stall_news look_after(struct play *p, int64_t ms)
{
    p->now_ms += ms;
    return sw_watchdog_look(p->dog, p->slots, p->now_ms * 1000000, &p->stall);
}

/* Looks until there is news, for `ms` at most. */
static enum sw_stall_news run(struct play *p, int64_t ms)
{
    enum sw_stall_news news = SW_STALL_NONE;
    for (int64_t end = p->now_ms + ms; p->now_ms < end && news == SW_STALL_NONE;)
        news = look_after(p, LOOK_MS);
    return news;
}

static void assert_stalls(struct play *p, int64_t within_ms, int culprit, int victim)
{
    assert_int_equal(run(p, within_ms), SW_STALL_BEGINS);
    assert_int_equal(p->stall.culprit, culprit);
    assert_int_equal(p->stall.victim, victim);
}

static void silence_is_a_stall_after_five_seconds_and_is_told_once(void **state)
{
    (void)state;
    struct play p;
    begin(&p, 0, SW_ON_STALL_WARN);
    works(&p, 2, SW_PHASE_BACKWARD);
    assert_int_equal(run(&p, 4800), SW_STALL_NONE);
    assert_stalls(&p, 1000, 2, 2);
    assert_false(p.stall.stop);
    assert_int_equal(run(&p, 1000000), SW_STALL_NONE);
    works(&p, 2, SW_PHASE_BACKWARD);
    assert_int_equal(look_after(&p, LOOK_MS), SW_STALL_ENDS);
    assert_int_equal(p.stall.culprit, 2);
    sw_watchdog_free(p.dog);
}

static void idle_and_paused_units_never_stall(void **state)
{
    (void)state;
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
    (void)state;
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
static void waiting_for_one_that_moves_is_no_stall(void **state)
{
    (void)state;
    struct play p;
    begin(&p, 1, SW_ON_STALL_STOP);
    waits(&p, 1, 0);
    for (int i = 0; i < 200; i++) {
        works(&p, 0, SW_PHASE_EVALUATE);
        assert_int_equal(run(&p, 800), SW_STALL_NONE);
    }
    sw_watchdog_free(p.dog);
}

/* Silences of 3 s that end make the limit 12 s and not more: it does not creep while one lasts. */
static void limit_is_four_times_the_longest_silence(void **state)
{
    (void)state;
    struct play p;
    begin(&p, 0, SW_ON_STALL_WARN);
    for (int i = 0; i < 5; i++) {
        works(&p, 0, SW_PHASE_FORWARD);
        assert_int_equal(run(&p, 3000), SW_STALL_NONE);
    }
    works(&p, 0, SW_PHASE_FORWARD);
    assert_int_equal(run(&p, 11000), SW_STALL_NONE);
    assert_stalls(&p, 2000, 0, 0);
    sw_watchdog_free(p.dog);
}

/* Time that is spent waiting for others teaches nothing. */
static void waiting_does_not_raise_the_limit(void **state)
{
    (void)state;
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

static void making_first_values_may_take_a_minute(void **state)
{
    (void)state;
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
    (void)state;
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

static void slow_disk_is_told_and_waited_for(void **state)
{
    (void)state;
    struct play p;
    begin(&p, 0, SW_ON_STALL_AUTO);
    works(&p, 0, SW_PHASE_CHECKPOINT);
    assert_stalls(&p, 5600, 0, 0);
    assert_int_equal(run(&p, 700000), SW_STALL_NONE);
    assert_int_equal(run(&p, 20000), SW_STALL_LASTS);
    sw_watchdog_free(p.dog);
}

/* SIGSTOP, a debugger, a machine that slept: nobody moved, the watchdog included. */
static void time_in_which_nobody_looked_does_not_count(void **state)
{
    (void)state;
    struct play p;
    begin(&p, 0, SW_ON_STALL_STOP);
    works(&p, 0, SW_PHASE_FORWARD);
    assert_int_equal(look_after(&p, LOOK_MS), SW_STALL_NONE);
    assert_int_equal(look_after(&p, 3600000), SW_STALL_NONE);
    works(&p, 0, SW_PHASE_BACKWARD);
    assert_int_equal(run(&p, 4000), SW_STALL_NONE);
    sw_watchdog_free(p.dog);
}

static void waiting_in_a_circle_is_a_stall(void **state)
{
    (void)state;
    struct play p;
    begin(&p, 0, SW_ON_STALL_STOP);
    for (int u = 0; u < 3; u++)
        waits(&p, u, (u + 1) % 3);
    assert_int_equal(run(&p, 6000), SW_STALL_BEGINS);
    assert_in_range(p.stall.culprit, 0, 2);
    assert_true(p.stall.stop);
    sw_watchdog_free(p.dog);
}

static void second_stall_is_told_when_the_first_is_over(void **state)
{
    (void)state;
    struct play p;
    begin(&p, 1, SW_ON_STALL_WARN);
    works(&p, 0, SW_PHASE_FORWARD);
    p.now_ms += 400;
    works(&p, 1, SW_PHASE_FORWARD);
    assert_stalls(&p, 2000, 0, 0);
    works(&p, 0, SW_PHASE_IDLE);
    assert_int_equal(look_after(&p, LOOK_MS), SW_STALL_ENDS);
    assert_stalls(&p, 2000, 1, 1);
    sw_watchdog_free(p.dog);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(silence_is_a_stall_after_five_seconds_and_is_told_once),
        cmocka_unit_test(idle_and_paused_units_never_stall),
        cmocka_unit_test(waits_are_followed_to_the_culprit),
        cmocka_unit_test(waiting_for_one_that_moves_is_no_stall),
        cmocka_unit_test(limit_is_four_times_the_longest_silence),
        cmocka_unit_test(waiting_does_not_raise_the_limit),
        cmocka_unit_test(making_first_values_may_take_a_minute),
        cmocka_unit_test(stop_comes_at_once_or_after_twelve_times_the_limit),
        cmocka_unit_test(slow_disk_is_told_and_waited_for),
        cmocka_unit_test(time_in_which_nobody_looked_does_not_count),
        cmocka_unit_test(waiting_in_a_circle_is_a_stall),
        cmocka_unit_test(second_stall_is_told_when_the_first_is_over),
    };
    return cmocka_run_group_tests_name("watchdog", tests, NULL, NULL);
}
