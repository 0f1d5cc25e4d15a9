/* Transfers that share links: times by hand, and random transfers whose rates are computed anew
 * from scratch at every event. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "planner/simulate_links.h"
#include "unit/device/device_support.h"
#include <math.h>

enum { LINKS = 8, LEVELS = 70, TRANSFERS = 30 };

static void assert_same_time(double a, double b)
{
    if (!(fabs(a - b) <= 1e-6 * fmax(fabs(a), fabs(b))))
        fail_msg("%.17g instead of %.17g", a, b);
}

struct transfer {
    struct sw_plansim_use use[LINKS];
    struct sw_plansim_path path;
    int level;
    double begin_s, bytes, copies_s, end_s;
    double left, rate; /* of the reference */
};

/* Adds a link to the path of a transfer. */
static void cross(struct transfer *t, int link, double weight)
{
    t->use[t->path.count++] = (struct sw_plansim_use){link, weight};
}

static struct transfer transfer(int level, double begin_s, double bytes, int link)
{
    struct transfer t = {.path.limit = (double)INFINITY,
                         .path.rate = 10,
                         .level = level,
                         .begin_s = begin_s,
                         .bytes = bytes};
    cross(&t, link, 1);
    return t;
}

/* Sets end_s of all. most: that share a link at a time; serial: the level of transfers that follow
 * one another. */
static void run_with(struct transfer *t, int count, const double *capacity, int most, int serial)
{
    struct sw_plansim_links l;
    struct sw_plansim_events events = {.heap = NULL};
    struct sw_err err;
    int owner;

    assert_int_equal(sw_plansim_links_init(&l, capacity, LINKS, LEVELS, &err), SW_OK);
    l.serial = serial;
    l.most = most;
    for (int i = 0; i < count; i++) {
        t[i].path.use = t[i].use;
        t[i].end_s = -1;
        assert_int_equal(sw_plansim_events_push(&events,
                                                (struct sw_plansim_event){.time_s = t[i].begin_s,
                                                                          .kind = SW_PLANSIM_START,
                                                                          .index = i},
                                                &err),
                         SW_OK);
    }

    while (events.count > 0) {
        struct sw_plansim_event e = sw_plansim_events_pop(&events);
        struct transfer *x = &t[e.index];

        if (e.kind == SW_PLANSIM_TRANSFER && sw_plansim_links_end(&l, &e, &owner))
            t[owner].end_s = e.time_s;
        if (e.kind == SW_PLANSIM_START)
            assert_int_equal(sw_plansim_links_begin(&l, &x->path,
                                                    &(struct sw_plansim_load){x->bytes, x->copies_s,
                                                                              x->level, e.index},
                                                    e.time_s, &err),
                             SW_OK);
        if (events.count == 0 || events.heap[0].time_s > e.time_s)
            assert_int_equal(sw_plansim_links_settle(&l, e.time_s, &events, &err), SW_OK);
    }

    for (int k = 0; k < LINKS; k++) {
        double busy_s = 0;
        for (int i = 0; i < count; i++)
            for (int u = 0; u < t[i].path.count; u++)
                busy_s += t[i].use[u].link == k ? t[i].bytes * t[i].use[u].weight / capacity[k] : 0;
        assert_true(fabs(busy_s - sw_plansim_links_busy_s(&l, k)) <= 1e-9 * busy_s);
    }
    sw_plansim_links_fini(&l);
    sw_plansim_events_fini(&events);
}

static void run(struct transfer *t, int count, const double *capacity)
{
    run_with(t, count, capacity, SW_PLANSIM_ADMITTED, -1);
}

/* ---- By hand ---- */

static const double tens[LINKS] = {10, 10, 10, 10, 10, 10, 10, 10};

static void equal_transfers_share_a_link_and_others_do_not(void **state)
{
    struct transfer one[2] = {transfer(3, 0, 100, 0), transfer(3, 0, 100, 0)};
    run(one, 1, tens);
    assert_same_time(one[0].end_s, 10);
    run(one, 2, tens);
    assert_same_time(one[0].end_s, 20);
    assert_same_time(one[1].end_s, 20);

    one[1].begin_s = 5; /* alone for 5 s, then the first has 50 bytes left, at half of the rate */
    run(one, 2, tens);
    assert_same_time(one[0].end_s, 15);
    assert_same_time(one[1].end_s, 20);

    struct transfer two[2] = {transfer(3, 0, 100, 0), transfer(3, 0, 100, 1)};
    run(two, 2, tens);
    assert_same_time(two[0].end_s, 10);
    assert_same_time(two[1].end_s, 10);
    (void)state;
}

static void copies_follow_one_another_and_take_their_time(void **state)
{
    struct transfer t[3] = {transfer(1, 0, 100, 0), transfer(1, 1, 10, 0), transfer(1, 2, 50, 1)};

    t[0].copies_s = 2; /* in which the link is taken, and carries nothing */
    run_with(t, 3, tens, SW_PLANSIM_ADMITTED, 1);
    assert_same_time(t[0].end_s, 12);
    assert_same_time(t[1].end_s, 13);
    assert_same_time(t[2].end_s, 7);

    t[1].level = 0; /* a message goes in between */
    run_with(t, 3, tens, SW_PLANSIM_ADMITTED, 1);
    assert_same_time(t[1].end_s, 2);
    assert_same_time(t[0].end_s, 13);
    (void)state;
}

static void urgent_ones_go_first(void **state)
{
    struct transfer t[3] = {transfer(5, 0, 100, 0), transfer(2, 4, 30, 0), transfer(66, 0, 10, 0)};
    run(t, 3, tens);
    assert_same_time(t[1].end_s, 7);
    assert_same_time(t[0].end_s, 13);
    assert_same_time(t[2].end_s, 14);
    (void)state;
}

static void what_a_slow_link_leaves_goes_to_others(void **state)
{
    double capacity[LINKS] = {10, 2};
    struct transfer t[3] = {transfer(0, 0, 20, 0), transfer(0, 0, 80, 0), transfer(1, 0, 10, 0)};

    memcpy(capacity + 2, tens, (LINKS - 2) * sizeof *tens);
    cross(&t[0], 1, 1);    /* 2 of the 10; the second has 8 */
    t[2].path.limit = 0.5; /* when both have ended */
    run(t, 3, capacity);
    assert_same_time(t[0].end_s, 10);
    assert_same_time(t[1].end_s, 10);
    assert_same_time(t[2].end_s, 30);

    /* A collective operation crosses links with different shares of its bytes. */
    struct transfer c = transfer(0, 0, 40, 0);
    cross(&c, 1, 0.1);
    run(&c, 1, capacity);
    assert_same_time(c.end_s, 4);
    (void)state;
}

static void an_urgent_one_waits_for_a_chunk_of_others(void **state)
{
    struct sw_plansim_use use = {0, 1};
    const struct sw_plansim_path path = {.use = &use, .count = 1, .limit = (double)INFINITY};
    struct sw_plansim_links l;
    struct sw_plansim_events events = {.heap = NULL};
    struct sw_err err;

    assert_int_equal(sw_plansim_links_init(&l, tens, LINKS, LEVELS, &err), SW_OK);
    assert_true(sw_plansim_links_chunk_s(&l, &path, 3, 1) == 0);
    assert_int_equal(sw_plansim_links_begin(
                         &l, &path, &(struct sw_plansim_load){.bytes = 1e9, .level = 5}, 0, &err),
                     SW_OK);
    assert_int_equal(sw_plansim_links_settle(&l, 0, &events, &err), SW_OK);
    assert_same_time(sw_plansim_links_chunk_s(&l, &path, 3, 1), SW_PLANSIM_CHUNK / 10.0);
    assert_true(sw_plansim_links_chunk_s(&l, &path, 5, 1) == 0);
    assert_true(sw_plansim_links_chunk_s(&l, &path, 6, 1) == 0);
    assert_same_time(sw_plansim_links_chunk_s(&l, &path, 3, 1e8 - 2), 2); /* the end of the last */
    sw_plansim_links_fini(&l);
    sw_plansim_events_fini(&events);
    (void)state;
}

static void many_equal_ones_take_turns(void **state)
{
    enum { MANY = 3 * SW_PLANSIM_ADMITTED };
    static struct transfer t[MANY];

    for (int i = 0; i < MANY; i++)
        t[i] = transfer(0, 0, 10, 0);
    run(t, MANY, tens);
    for (int i = 0; i < MANY; i++)
        assert_same_time(t[i].end_s, SW_PLANSIM_ADMITTED * (1 + i / SW_PLANSIM_ADMITTED));
    (void)state;
}

/* ---- Against rates from scratch ---- */

static bool is_active(const struct transfer *t, double now_s)
{
    return t->begin_s <= now_s && t->left > 0;
}

/* Max-min rates of a level's transfers, by small steps of progressive filling. */
static void fill_level(struct transfer *t, int count, int level, double *left, double now_s)
{
    bool open[TRANSFERS];
    int opened = 0;

    for (int i = 0; i < count; i++) {
        open[i] = t[i].level == level && is_active(&t[i], now_s);
        t[i].rate = open[i] ? 0 : t[i].rate;
        opened += open[i];
    }

    while (opened > 0) {
        double weight[LINKS] = {0}, step = (double)INFINITY;

        for (int i = 0; i < count; i++)
            for (int u = 0; u < t[i].path.count && open[i]; u++)
                weight[t[i].use[u].link] += t[i].use[u].weight;
        for (int k = 0; k < LINKS; k++)
            step = weight[k] > 0 ? fmin(step, left[k] / weight[k]) : step;
        for (int i = 0; i < count; i++)
            step = open[i] ? fmin(step, t[i].path.limit - t[i].rate) : step;

        for (int i = 0; i < count; i++)
            t[i].rate += open[i] ? step : 0;
        for (int k = 0; k < LINKS; k++)
            left[k] -= step * weight[k];

        for (int i = 0; i < count; i++) {
            bool closes = t[i].rate >= t[i].path.limit * (1 - 1e-9);
            for (int u = 0; u < t[i].path.count; u++)
                closes = closes || left[t[i].use[u].link] <= 1e-8;
            if (open[i] && closes) {
                open[i] = false;
                opened--;
            }
        }
    }
}

static void run_reference(struct transfer *t, int count, const double *capacity)
{
    double now_s = 0;

    for (int i = 0; i < count; i++)
        t[i].left = t[i].bytes;

    for (;;) {
        double left[LINKS], next_s = (double)INFINITY;

        memcpy(left, capacity, sizeof left);
        for (int level = 0; level < LEVELS; level++)
            fill_level(t, count, level, left, now_s);

        for (int i = 0; i < count; i++)
            if (t[i].begin_s > now_s)
                next_s = fmin(next_s, t[i].begin_s);
            else if (is_active(&t[i], now_s) && t[i].rate > 1e-7)
                next_s = fmin(next_s, now_s + t[i].left / t[i].rate);
        if (isinf(next_s))
            return;

        for (int i = 0; i < count; i++) {
            if (!is_active(&t[i], now_s))
                continue;

            t[i].left -= t[i].rate * (next_s - now_s);
            if (t[i].left <= 1e-7 * t[i].bytes) {
                t[i].left = 0;
                t[i].end_s = next_s;
            }
        }
        now_s = next_s;
    }
}

static void rates_are_those_from_scratch(void **state)
{
    struct rng r = rng_of(5);

    for (int round = 0; round < 400; round++) {
        struct transfer t[TRANSFERS], reference[TRANSFERS];
        double capacity[LINKS];
        int count = (int)rng_int(&r, 1, TRANSFERS), links = (int)rng_int(&r, 1, LINKS);

        for (int k = 0; k < LINKS; k++)
            capacity[k] = (double)rng_int(&r, 1, 20);
        for (int i = 0; i < count; i++) {
            int first = (int)rng_int(&r, 0, links - 1);

            t[i] = transfer((int)rng_int(&r, 0, 3) * 22, 0.37 * (double)rng_int(&r, 0, 60),
                            (double)rng_real(&r, 1, 100), first);
            for (int k = 0; k < links; k++)
                if (k != first && rng_int(&r, 0, 2) == 0)
                    cross(&t[i], k, (double)rng_int(&r, 1, 4) / 4);
            if (rng_int(&r, 0, 3) == 0)
                t[i].path.limit = (double)rng_int(&r, 1, 10);
        }

        memcpy(reference, t, sizeof t);
        run_with(t, count, capacity, TRANSFERS, -1);
        run_reference(reference, count, capacity);
        for (int i = 0; i < count; i++)
            assert_same_time(t[i].end_s, reference[i].end_s);
    }
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_transfers_share_a_link_and_others_do_not),
        cmocka_unit_test(copies_follow_one_another_and_take_their_time),
        cmocka_unit_test(urgent_ones_go_first),
        cmocka_unit_test(what_a_slow_link_leaves_goes_to_others),
        cmocka_unit_test(an_urgent_one_waits_for_a_chunk_of_others),
        cmocka_unit_test(many_equal_ones_take_turns),
        cmocka_unit_test(rates_are_those_from_scratch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
