/* ctest-labels: threads */
#include "comm/channel.h"
#include "sync/thread.h"
#include "unit/faulty_os.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static struct sw_channel open_channel(int senders, size_t capacity)
{
    struct sw_channel c;
    struct sw_err err = {0};
    assert_int_equal(sw_channel_init(&c, senders, capacity, &err), SW_OK);
    return c;
}

static void messages_arrive_whole_and_in_order(void **state)
{
    (void)state;
    struct sw_channel c = open_channel(2, 4);
    struct sw_message in = {SW_MSG_UPDATE, 1, 7, 3, 12345678901ull, 4096}, out;
    assert_int_equal(sw_channel_try_receive(&c, &out), SW_ERR_BUSY);
    assert_int_equal(sw_channel_send(&c, &in), SW_OK);
    in.kind = SW_MSG_STOP, in.from = 0;
    assert_int_equal(sw_channel_send(&c, &in), SW_OK);
    assert_int_equal(sw_channel_receive(&c, &out), SW_OK);
    assert_int_equal(out.kind, SW_MSG_UPDATE);
    assert_int_equal(out.from, 1);
    assert_int_equal(out.param, 7);
    assert_int_equal(out.slice, 3);
    assert_true(out.version == 12345678901ull);
    assert_int_equal(out.bytes, 4096);
    assert_int_equal(sw_channel_try_receive(&c, &out), SW_OK);
    assert_int_equal(out.kind, SW_MSG_STOP);
    sw_channel_fini(&c);
}

static void closing_delivers_what_is_queued_and_refuses_more(void **state)
{
    (void)state;
    struct sw_channel c = open_channel(1, 4);
    struct sw_message m = {.kind = SW_MSG_GET, .bytes = 10};
    assert_int_equal(sw_channel_send(&c, &m), SW_OK);
    sw_channel_close_v(&c);
    assert_int_equal(sw_channel_send(&c, &m), SW_ERR_CANCELLED);
    assert_int_equal(sw_channel_receive(&c, &m), SW_OK);
    assert_int_equal(sw_channel_receive(&c, &m), SW_ERR_CANCELLED);
    assert_int_equal(sw_channel_traffic(&c, 0, SW_MSG_GET).messages, 1); /* the refused is not */
    sw_channel_fini(&c);
}

enum { SENDERS = 3, EACH = 2000 };

struct sender {
    struct sw_channel *channel;
    int index, rc;
};

static void send_all(void *arg)
{
    struct sender *s = arg;
    for (uint64_t i = 0; i < EACH && s->rc == SW_OK; i++) {
        struct sw_message m = {.kind = i % 2 ? SW_MSG_UPDATE : SW_MSG_PUT,
                               .from = s->index,
                               .version = i,
                               .bytes = s->index + 1};
        s->rc = sw_channel_send(s->channel, &m);
    }
}

static void every_message_arrives_once_and_is_counted(void **state)
{
    (void)state;
    struct sw_channel c = open_channel(SENDERS, 8);
    struct sw_thread threads[SENDERS] = {0};
    struct sender senders[SENDERS] = {0};
    uint64_t next[SENDERS] = {0};
    struct sw_message m;
    for (int i = 0; i < SENDERS; i++) {
        senders[i] = (struct sender){&c, i, SW_OK};
        assert_int_equal(sw_thread_start(&threads[i], "sender", send_all, &senders[i], NULL),
                         SW_OK);
    }
    for (int i = 0; i < SENDERS * EACH; i++) {
        assert_int_equal(sw_channel_receive(&c, &m), SW_OK);
        assert_int_equal(m.version, next[m.from]++); /* in each sender's order */
    }
    for (int i = 0; i < SENDERS; i++) {
        sw_thread_join(&threads[i]);
        assert_int_equal(senders[i].rc, SW_OK);
        for (int kind = 0; kind < SW_MSG_KINDS; kind++) {
            struct sw_traffic t = sw_channel_traffic(&c, i, kind);
            uint64_t want = kind == SW_MSG_UPDATE || kind == SW_MSG_PUT ? EACH / 2 : 0;
            assert_int_equal(t.messages, want);
            assert_int_equal(t.bytes, want * (uint64_t)(i + 1));
        }
    }
    assert_int_equal(sw_channel_try_receive(&c, &m), SW_ERR_BUSY);
    sw_channel_fini(&c);
}

static void receive_one(void *arg)
{
    struct sender *s = arg;
    struct sw_message m;
    s->rc = sw_channel_receive(s->channel, &m);
}

static void closing_wakes_a_waiting_receiver(void **state)
{
    (void)state;
    struct sw_channel c = open_channel(1, 2);
    struct sender s = {.channel = &c};
    struct sw_thread thread = {0};
    assert_int_equal(sw_thread_start(&thread, "receiver", receive_one, &s, NULL), SW_OK);
    usleep(20000);
    sw_channel_close(&c);
    assert_true(sw_thread_join_timed(&thread, 60000));
    assert_int_equal(s.rc, SW_ERR_CANCELLED);
    sw_channel_fini(&c);
}

static void kinds_have_names(void **state)
{
    (void)state;
    assert_string_equal(sw_message_kind_name(SW_MSG_GET), "get");
    assert_string_equal(sw_message_kind_name(SW_MSG_UPDATE), "update");
    assert_string_equal(sw_message_kind_name(SW_MSG_STOP), "stop");
    assert_string_equal(sw_message_kind_name(SW_MSG_KINDS), "unknown");
}

static void init_gives_everything_back_when_memory_is_short(void **state)
{
    (void)state;
    struct sw_channel c;
    struct sw_err err = {0};
    int rc = SW_ERR_NOMEM;
    for (int at = 1; rc != SW_OK; at++) {
        faulty_begin((struct faulty_plan){.kinds = FAULTY_ALLOC, .at = at});
        rc = sw_channel_init(&c, 2, 4, &err);
        assert_true(rc == SW_OK || (rc == SW_ERR_NOMEM && faulty.live_allocations == 0));
        faulty_end();
        assert_true(at < 10);
        if (rc != SW_OK)
            sw_channel_fini(&c); /* harmless */
    }
    sw_channel_fini(&c);
    sw_channel_fini(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_arrive_whole_and_in_order),
        cmocka_unit_test(closing_delivers_what_is_queued_and_refuses_more),
        cmocka_unit_test(every_message_arrives_once_and_is_counted),
        cmocka_unit_test(closing_wakes_a_waiting_receiver),
        cmocka_unit_test(kinds_have_names),
        cmocka_unit_test(init_gives_everything_back_when_memory_is_short),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
