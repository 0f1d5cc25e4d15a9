/* ctest-labels: threads */
#include "sync/barrier.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { PARTIES = 4, ROUNDS = 300 };

struct runner {
    struct sw_barrier *b;
    int *slots; /* one per party, written without a lock between barriers */
    int mine, rc;
    bool agreed;
};

/* Everyone writes its slot, meets, reads all slots, meets again: a thread that runs ahead is seen,
 * by the values and by the thread sanitizer. */
static void run(void *arg)
{
    struct runner *r = arg;
    r->agreed = true;
    for (int round = 1; round <= ROUNDS; round++) {
        r->slots[r->mine] = round;
        r->rc = sw_barrier_wait(r->b);
        for (int i = 0; i < PARTIES; i++)
            r->agreed = r->agreed && r->slots[i] == round;
        if (r->rc == SW_OK)
            r->rc = sw_barrier_wait(r->b);
        if (r->rc != SW_OK)
            return;
    }
}

static void all_parties_meet_in_every_round(void **state)
{
    (void)state;
    struct sw_barrier b;
    struct runner r[PARTIES];
    struct sw_thread t[PARTIES];
    int slots[PARTIES] = {0};
    sw_barrier_init(&b, PARTIES);
    for (int i = 0; i < PARTIES; i++) {
        r[i] = (struct runner){.b = &b, .slots = slots, .mine = i};
        assert_int_equal(sw_thread_start(&t[i], "party", run, &r[i], NULL), SW_OK);
    }
    for (int i = 0; i < PARTIES; i++) {
        sw_thread_join(&t[i]);
        assert_int_equal(r[i].rc, SW_OK);
        assert_true(r[i].agreed);
    }
    sw_barrier_fini(&b);
}

static void one_party_never_waits(void **state)
{
    (void)state;
    struct sw_barrier b;
    sw_barrier_init(&b, 1);
    for (int i = 0; i < 3; i++)
        assert_int_equal(sw_barrier_wait(&b), SW_OK);
    sw_barrier_close_v(&b);
    assert_int_equal(sw_barrier_wait(&b), SW_ERR_CANCELLED);
    sw_barrier_fini(&b);
}

struct waiter {
    struct sw_barrier *b;
    int rc;
};

static void wait_once(void *arg)
{
    struct waiter *w = arg;
    w->rc = sw_barrier_wait(w->b);
}

static void barrier_close_wakes_waiters(void **state)
{
    (void)state;
    struct sw_barrier b;
    struct waiter w[3];
    struct sw_thread t[3];
    sw_barrier_init(&b, 4);
    for (int i = 0; i < 3; i++) {
        w[i] = (struct waiter){.b = &b};
        assert_int_equal(sw_thread_start(&t[i], "waiter", wait_once, &w[i], NULL), SW_OK);
    }
    for (int i = 0; i < 3; i++)
        assert_false(sw_thread_join_timed(&t[i], 5));
    sw_barrier_close(&b);
    for (int i = 0; i < 3; i++) {
        sw_thread_join(&t[i]);
        assert_int_equal(w[i].rc, SW_ERR_CANCELLED);
    }
    sw_barrier_fini(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_parties_meet_in_every_round),
        cmocka_unit_test(one_party_never_waits),
        cmocka_unit_test(barrier_close_wakes_waiters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
