/* The router of a fabric: messages go to the receiver of their kind, others lose the sender, and a
 * loss is told to all receivers in the order in which they were added. */
#include "exchange/hosts/router.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

struct receiver {
    char name, *order; /* order: names of receivers that were told of a loss */
    int placed, arrived;
};

static int place(void *user, int from, const struct sw_fabric_tag *tag, size_t bytes, void **to,
                 struct sw_err *err)
{
    struct receiver *r = user;

    r->placed++;
    *to = r;
    return tag->item == 9 ? sw_err_set(err, SW_ERR_INVALID, "item 9") : SW_OK;
}

static int arrived(void *user, int from, const struct sw_fabric_tag *tag, void *data, size_t bytes,
                   struct sw_err *err)
{
    struct receiver *r = user;

    assert_ptr_equal(data, r);
    r->arrived++;
    return SW_OK;
}

static void lost(void *user, int host, const struct sw_err *why)
{
    struct receiver *r = user;

    assert_int_equal(host, 3);
    strncat(r->order, &r->name, 1);
}

static int deliver(const struct sw_fabric_sink *s, int kind, int item)
{
    const struct sw_fabric_tag tag = {.kind = (uint16_t)kind, .item = (uint32_t)item};
    struct sw_err err;
    void *to = NULL;

    int rc = s->place(s->user, 1, &tag, 4, &to, &err);
    return rc == SW_OK ? s->arrived(s->user, 1, &tag, to, 4, &err) : rc;
}

static void messages_go_to_the_receiver_of_their_kind(void **state)
{
    char order[8] = "";
    struct receiver a = {'a', order, 0, 0}, b = {'b', order, 0, 0}, c = {'c', order, 0, 0};
    struct sw_fabric_router r = {.count = 0};
    const struct sw_err why = {.code = SW_ERR_LOST};

    sw_fabric_router_add(&r, 8, 3, (struct sw_fabric_sink){place, arrived, lost, &a});
    sw_fabric_router_add(&r, 0, 1, (struct sw_fabric_sink){place, arrived, NULL, &b});
    sw_fabric_router_add(&r, 31, 1, (struct sw_fabric_sink){place, arrived, lost, &c});

    struct sw_fabric_sink s = sw_fabric_router_sink(&r);
    for (int kind = 8; kind < 11; kind++)
        assert_int_equal(deliver(&s, kind, 0), SW_OK);
    assert_int_equal(deliver(&s, 0, 0), SW_OK);
    assert_int_equal(deliver(&s, 31, 0), SW_OK);
    assert_int_equal(deliver(&s, 31, 9), SW_ERR_INVALID);
    assert_true(a.arrived == 3 && b.arrived == 1 && c.arrived == 1 && c.placed == 2);

    static const int nobody[] = {1, 7, 11, 30, 32, UINT16_MAX};
    for (size_t i = 0; i < sizeof nobody / sizeof *nobody; i++)
        assert_int_equal(deliver(&s, nobody[i], 0), SW_ERR_INVALID);
    assert_true(a.placed == 3 && b.placed == 1 && c.placed == 2);

    s.lost(s.user, 3, &why);
    assert_string_equal(order, "ac");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_go_to_the_receiver_of_their_kind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
