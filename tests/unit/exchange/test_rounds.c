/* ctest-labels: threads */
#include "exchange/reduce/rounds.h"
#include "thread/thread.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { RANKS = 3, ITEMS = 2, ROUNDS = 200, LONG_MS = 60000 };

struct owner {
    struct sw_rounds rounds;
    int queued[ITEMS]; /* under the lock */
    int answer;        /* of queue, once a thing is complete */
};

static int queue(void *owner, int item, struct sw_err *err)
{
    struct owner *o = owner;
    if (!sw_rounds_complete(&o->rounds, item))
        return SW_OK;
    if (o->answer != SW_OK)
        return sw_err_set(err, o->answer, "the copy is refused");
    o->queued[item]++;
    sw_rounds_next(&o->rounds, item);
    return SW_OK;
}

static void open_owner(struct owner *o)
{
    struct sw_err err = {0};
    *o = (struct owner){.answer = SW_OK};
    assert_int_equal(sw_rounds_init(&o->rounds, "bucket", ITEMS, RANKS, &err), SW_OK);
}

static int give(struct owner *o, int item, uint64_t round, struct sw_err *err)
{
    return sw_rounds_arrive(&o->rounds, item, round, queue, o, err);
}

static void the_last_rank_queues_and_items_advance_independently(void **state)
{
    struct owner o;
    struct sw_err err = {0};
    open_owner(&o);
    for (int r = 0; r < RANKS; r++) {
        assert_int_equal(sw_rounds_wait(&o.rounds, 1, 1, 0), SW_ERR_BUSY);
        assert_int_equal(o.queued[1], 0);
        assert_int_equal(give(&o, 1, 1, &err), SW_OK);
    }
    assert_int_equal(o.queued[1], 1);
    assert_int_equal(o.queued[0], 0);
    assert_int_equal(sw_rounds_wait(&o.rounds, 1, 1, 0), SW_OK);
    assert_int_equal(sw_rounds_wait(&o.rounds, 0, 1, 0), SW_ERR_BUSY);
    sw_rounds_fini(&o.rounds);
}

static void a_contribution_to_a_wrong_round_is_refused(void **state)
{
    struct owner o;
    struct sw_err err = {0};
    open_owner(&o);
    assert_int_equal(give(&o, 1, 2, &err), SW_ERR_INVALID);
    assert_string_equal(err.text, "bucket 1: contribution to round 2, but 0 rounds are done");
    assert_int_equal(o.rounds.item[1].arrived, 0);
    sw_rounds_fini(&o.rounds);
}

static void an_error_of_queue_is_returned_and_the_round_continues(void **state)
{
    struct owner o;
    struct sw_err err = {0};
    open_owner(&o);
    o.answer = SW_ERR_LIBRARY;
    assert_int_equal(give(&o, 0, 1, &err), SW_OK);
    assert_int_equal(give(&o, 0, 1, &err), SW_OK);
    assert_int_equal(give(&o, 0, 1, &err), SW_ERR_LIBRARY);
    assert_string_equal(err.text, "the copy is refused");
    assert_int_equal(sw_rounds_wait(&o.rounds, 0, 1, 0), SW_ERR_BUSY);
    sw_rounds_fini(&o.rounds);
}

static void closing_refuses_contributions_but_not_finished_waits(void **state)
{
    struct owner o;
    struct sw_err err = {0};
    open_owner(&o);
    for (int r = 0; r < RANKS; r++)
        assert_int_equal(give(&o, 0, 1, &err), SW_OK);
    sw_rounds_close(&o.rounds);
    assert_int_equal(give(&o, 0, 2, &err), SW_ERR_CANCELLED);
    assert_int_equal(sw_rounds_wait(&o.rounds, 0, 1, LONG_MS), SW_OK);
    assert_int_equal(sw_rounds_wait(&o.rounds, 0, 2, LONG_MS), SW_ERR_CANCELLED);
    sw_rounds_fini(&o.rounds);
}

/* A rank as devices have them: gives its part of every thing, then waits for all. */
static void go_round(void *owner)
{
    struct owner *o = owner;
    struct sw_err err = {0};
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        for (int i = 0; i < ITEMS; i++)
            if (give(o, i, round, &err) != SW_OK)
                return;
        for (int i = 0; i < ITEMS; i++)
            if (sw_rounds_wait(&o->rounds, i, round, LONG_MS) != SW_OK)
                return;
    }
}

static void threads_queue_every_round_once(void **state)
{
    struct owner o;
    struct sw_thread thread[RANKS] = {0};
    struct sw_err err = {0};
    open_owner(&o);
    for (int r = 0; r < RANKS; r++)
        assert_int_equal(sw_thread_start(&thread[r], "rank", go_round, &o, &err), SW_OK);
    for (int r = 0; r < RANKS; r++)
        sw_thread_join(&thread[r]);
    for (int i = 0; i < ITEMS; i++)
        assert_int_equal(o.queued[i], ROUNDS);
    sw_rounds_fini(&o.rounds);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_rank_queues_and_items_advance_independently),
        cmocka_unit_test(a_contribution_to_a_wrong_round_is_refused),
        cmocka_unit_test(an_error_of_queue_is_returned_and_the_round_continues),
        cmocka_unit_test(closing_refuses_contributions_but_not_finished_waits),
        cmocka_unit_test(threads_queue_every_round_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
