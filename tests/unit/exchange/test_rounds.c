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
    int queued[ITEMS]; /* by one rank at a time */
    int answer;        /* of queue */
    int item;          /* of queue: the item that it waits with, or -1 */
    struct sw_mutex lock;
    struct sw_cond changed;
    bool queueing, may_go; /* under the lock */
};

static int queue(void *owner, int item, struct sw_err *err)
{
    struct owner *o = owner;
    sw_mutex_lock(&o->lock);
    o->queueing = true;
    sw_cond_broadcast(&o->changed);
    while (item == o->item && !o->may_go)
        sw_cond_wait(&o->changed, &o->lock);
    sw_mutex_unlock(&o->lock);
    if (o->answer != SW_OK)
        return sw_err_set(err, o->answer, "the copy is refused");
    o->queued[item]++;
    sw_rounds_next(&o->rounds, item);
    return SW_OK;
}

static void open_owner(struct owner *o)
{
    struct sw_err err = {0};
    *o = (struct owner){.answer = SW_OK, .item = -1};
    sw_mutex_init(&o->lock);
    sw_cond_init(&o->changed);
    assert_int_equal(sw_rounds_init(&o->rounds, "bucket", ITEMS, RANKS, &err), SW_OK);
}

static void close_owner(struct owner *o)
{
    sw_rounds_fini(&o->rounds);
    sw_cond_fini(&o->changed);
    sw_mutex_fini(&o->lock);
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
    close_owner(&o);
}

static void a_contribution_to_a_wrong_round_is_refused(void **state)
{
    struct owner o;
    struct sw_err err = {0};
    open_owner(&o);
    assert_int_equal(give(&o, 1, 2, &err), SW_ERR_INVALID);
    assert_string_equal(err.text, "bucket 1: contribution to round 2, but 0 rounds are done");
    assert_int_equal(o.rounds.item[1].arrived, 0);
    close_owner(&o);
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
    close_owner(&o);
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
    close_owner(&o);
}

static void give_first(void *owner)
{
    struct sw_err err = {0};
    assert_int_equal(give(owner, 0, 1, &err), SW_OK);
}

/* What completes meanwhile is queued by the rank that queues. */
static void ranks_contribute_while_one_queues(void **state)
{
    struct owner o;
    struct sw_thread thread;
    struct sw_err err = {0};
    open_owner(&o);
    o.item = 0;
    for (int r = 1; r < RANKS; r++)
        assert_int_equal(give(&o, 0, 1, &err), SW_OK);
    assert_int_equal(sw_thread_start(&thread, "last", give_first, &o, &err), SW_OK);

    sw_mutex_lock(&o.lock);
    while (!o.queueing)
        sw_cond_wait(&o.changed, &o.lock);
    sw_mutex_unlock(&o.lock);
    for (int r = 0; r < RANKS; r++)
        assert_int_equal(give(&o, 1, 1, &err), SW_OK);
    assert_int_equal(sw_rounds_wait(&o.rounds, 1, 1, 0), SW_ERR_BUSY);

    sw_mutex_lock(&o.lock);
    o.may_go = true;
    sw_cond_broadcast(&o.changed);
    sw_mutex_unlock(&o.lock);
    sw_thread_join(&thread);
    assert_int_equal(sw_rounds_wait(&o.rounds, 0, 1, 0), SW_OK);
    assert_int_equal(sw_rounds_wait(&o.rounds, 1, 1, 0), SW_OK);
    close_owner(&o);
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
    close_owner(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_rank_queues_and_items_advance_independently),
        cmocka_unit_test(a_contribution_to_a_wrong_round_is_refused),
        cmocka_unit_test(an_error_of_queue_is_returned_and_the_round_continues),
        cmocka_unit_test(closing_refuses_contributions_but_not_finished_waits),
        cmocka_unit_test(ranks_contribute_while_one_queues),
        cmocka_unit_test(threads_queue_every_round_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
