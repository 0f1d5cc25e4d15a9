/* ctest-labels: threads
 * ctest-timeout: 120
 * Sums over hosts: exact for integers, the same bits on all hosts for any numbers, for sizes that
 * do not divide, with items under way in any number and hosts at different speeds, and an end
 * without waits where a host dies. */
#include "exchange/hosts/hosts_sum.h"
#include "exchange/hosts/loop.h"
#include "thread/thread.h"
#include "unit/faulty_os.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MOST = 4, SMALL_MOST = 512, ITEMS = 9, VERSIONS = 3 };

/* Of one to several pieces a share; some hosts have no share of the small ones. */
static const int64_t sizes[ITEMS] = {0, 1, 2, 3, 5, 1000, 65536, 4 * 65536 + 3, 300001};

#define ASSERT_OK(call)                                                                            \
    do {                                                                                           \
        int code_ = (call);                                                                        \
        if (code_ != SW_OK)                                                                        \
            print_error("%s\n", err.text);                                                         \
        assert_int_equal(code_, SW_OK);                                                            \
    } while (0)

struct crowd {
    int hosts;
    bool integers;
    struct sw_loop *loop;
    struct sw_host names[MOST];
    struct node {
        struct crowd *crowd;
        int host, rc;
        struct sw_err err;
        struct sw_hosts list;
        struct sw_fabric *fabric;
        struct sw_hosts_sum *sum;
        struct sw_thread thread;
        float *x[ITEMS];
        struct sw_mutex lock; /* guards all below */
        struct sw_cond changed;
        uint64_t summed[ITEMS];
        int lost;
        int allocations; /* between the first and the last step */
    } node[MOST];
};

/* What a host gives: a small integer, or any number. */
static float term(const struct crowd *c, int host, int item, uint64_t version, int64_t i)
{
    uint32_t bits = (uint32_t)(i * 2654435761u) ^ (uint32_t)(host * 97 + item * 13 + version * 7);
    bits ^= bits >> 15;
    if (c->integers)
        return (float)(bits % 201) - 100;
    return ((float)(bits % 100003) - 50000) * (bits & 1 ? 1e-3f : 7.77f);
}

/* The sum in the order of the tree over hosts. */
static float expected(const struct crowd *c, int item, uint64_t version, int64_t i)
{
    if (c->hosts == 4)
        return (term(c, 0, item, version, i) + term(c, 1, item, version, i)) +
               (term(c, 2, item, version, i) + term(c, 3, item, version, i));

    float sum = term(c, 0, item, version, i);
    for (int host = 1; host < c->hosts; host++)
        sum += term(c, host, item, version, i);
    return sum;
}

static void on_summed(void *user, int item, uint64_t version)
{
    struct node *n = user;
    sw_mutex_lock(&n->lock);
    n->summed[item] = version;
    sw_cond_broadcast(&n->changed);
    sw_mutex_unlock(&n->lock);
}

static void on_lost(void *user, int host, const struct sw_err *why)
{
    struct node *n = user;
    sw_mutex_lock(&n->lock);
    n->lost++;
    sw_cond_broadcast(&n->changed);
    sw_mutex_unlock(&n->lock);
}

/* False if a host was lost first. */
static bool wait_summed(struct node *n, int item, uint64_t version)
{
    sw_mutex_lock(&n->lock);
    while (n->summed[item] < version && !n->lost)
        sw_cond_wait(&n->changed, &n->lock);
    bool summed = n->summed[item] >= version;
    sw_mutex_unlock(&n->lock);
    return summed;
}

/* ---- Steps ---- */

static int give(struct node *n, int item, uint64_t version)
{
    for (int64_t i = 0; i < sizes[item]; i++)
        n->x[item][i] = term(n->crowd, n->host, item, version, i);
    return sw_hosts_sum_give(n->sum, item, version, n->x[item], &n->err);
}

static int check(struct node *n, int item, uint64_t version)
{
    if (!wait_summed(n, item, version))
        return SW_ERR_LOST;
    for (int64_t i = 0; i < sizes[item]; i++) {
        float want = expected(n->crowd, item, version, i);
        if (memcmp(&n->x[item][i], &want, sizeof want) != 0)
            return sw_err_set(&n->err, SW_ERR_FORMAT, "host %d, item %d, version %d: %g, not %g",
                              n->host, item, (int)version, (double)n->x[item][i], (double)want);
    }
    return SW_OK;
}

/* Between two items a small sum, as of losses; its count changes from step to step. */
static int small(struct node *n, uint64_t version)
{
    double values[7], want[7];
    int count = (int)(version % 8);
    for (int i = 0; i < count; i++) {
        values[i] = n->host + 0.1 * i;
        want[i] = 0.1 * i;
        for (int host = 1; host < n->crowd->hosts; host++)
            want[i] += host + 0.1 * i;
    }
    int rc = sw_hosts_sum_small(n->sum, SW_HOSTS_PASSES, values, count, &n->err);
    if (rc == SW_OK && memcmp(values, want, (size_t)count * sizeof *want) != 0)
        rc = sw_err_set(&n->err, SW_ERR_FORMAT, "a small sum is wrong");
    return rc;
}

/* The top item first, as in backward; and each is awaited only where forward needs it, so that up
 * to all items are under way. */
static int step(struct node *n, uint64_t version)
{
    int rc = SW_OK;
    for (int item = ITEMS - 1; item >= 0 && rc == SW_OK; item--) {
        rc = give(n, item, version);
        if (rc == SW_OK && item == n->host)
            sw_thread_yield();
    }
    if (rc == SW_OK)
        rc = small(n, version);
    for (int item = 0; item < ITEMS && rc == SW_OK; item++)
        rc = check(n, item, version);
    return rc;
}

static int calls_of_allocation(void)
{
    return __atomic_load_n(&faulty.calls, __ATOMIC_RELAXED);
}

static int open_node(struct node *n)
{
    const struct crowd *c = n->crowd;
    const struct sw_fabric_args args = {.hosts = &n->list,
                                        .hello = "sums=1\n",
                                        .hello_bytes = 7,
                                        .room = sw_hosts_sum_room(n->sum),
                                        .sink = sw_hosts_sum_sink(n->sum),
                                        .conf = sw_loop_end(c->loop, n->host),
                                        .clock = sw_loop_clock(c->loop, n->host)};
    int rc = sw_fabric_open(&sw_fabric_loop, &args, &n->fabric, &n->err);
    if (rc == SW_OK)
        sw_hosts_sum_start(n->sum, n->fabric);
    return rc;
}

static void node_main(void *user)
{
    struct node *n = user;
    n->rc = open_node(n);
    int before = 0;
    for (uint64_t version = 1; version <= VERSIONS && n->rc == SW_OK; version++) {
        n->rc = step(n, version);
        /* All hosts have opened their fabrics when the first step is over. */
        before = version == 1 ? calls_of_allocation() : before;
    }
    n->allocations = calls_of_allocation() - before;
    if (n->rc == SW_OK)
        n->rc = sw_fabric_leave(n->fabric, 60000, &n->err);
}

/* ---- A crowd ---- */

static void crowd_begin(struct crowd *c, int hosts, bool integers, const struct sw_loop_conf *conf)
{
    static const char *const names[MOST] = {"ada", "bob", "cyd", "dan"};
    static struct sw_hosts_sum_item items[ITEMS];
    struct sw_err err;
    memset(c, 0, sizeof *c);
    c->hosts = hosts;
    c->integers = integers;
    ASSERT_OK(sw_loop_new(conf, &c->loop, &err));
    for (int i = 0; i < ITEMS; i++)
        items[i] = (struct sw_hosts_sum_item){.elements = sizes[i], .urgency = (uint16_t)(i + 1)};
    for (int h = 0; h < hosts; h++) {
        struct node *n = &c->node[h];
        const struct sw_hosts_sum_args args = {.hosts = hosts,
                                               .small_most = SMALL_MOST,
                                               .own = h,
                                               .items = items,
                                               .count = ITEMS,
                                               .summed = on_summed,
                                               .lost = on_lost,
                                               .user = n};
        n->crowd = c;
        n->host = h;
        c->names[h].name = names[h];
        n->list = (struct sw_hosts){.host = c->names, .count = hosts, .own = h};
        sw_mutex_init(&n->lock);
        sw_cond_init(&n->changed);
        for (int i = 0; i < ITEMS; i++)
            assert_non_null(n->x[i] = calloc((size_t)sizes[i] + 1, sizeof *n->x[i]));
        ASSERT_OK(sw_hosts_sum_new(&args, &n->sum, &err));
    }
}

static void crowd_run(struct crowd *c, void (*run)(void *node))
{
    struct sw_err err;
    for (int h = 0; h < c->hosts; h++)
        ASSERT_OK(sw_thread_start(&c->node[h].thread, "host", run, &c->node[h], &err));
    for (int h = 0; h < c->hosts; h++)
        sw_thread_join(&c->node[h].thread);
}

static void crowd_end(struct crowd *c)
{
    for (int h = 0; h < c->hosts; h++)
        sw_fabric_free(c->node[h].fabric);
    for (int h = 0; h < c->hosts; h++) {
        struct node *n = &c->node[h];
        sw_hosts_sum_free(n->sum);
        for (int i = 0; i < ITEMS; i++)
            free(n->x[i]);
        sw_cond_fini(&n->changed);
        sw_mutex_fini(&n->lock);
    }
    sw_loop_free(c->loop);
}

static void all_ok(struct crowd *c)
{
    for (int h = 0; h < c->hosts; h++) {
        if (c->node[h].rc != SW_OK)
            print_error("%s\n", c->node[h].err.text);
        assert_int_equal(c->node[h].rc, SW_OK);
    }
}

/* ---- Cases ---- */

static void sum_all(bool integers)
{
    for (int hosts = 2; hosts <= MOST; hosts++)
        for (uint64_t seed = 0; seed < 3; seed++) {
            struct crowd c;
            crowd_begin(&c, hosts, integers,
                        &(struct sw_loop_conf){
                            .hosts = hosts, .seed = seed, .window = 1 + (int)(seed % 4)});
            crowd_run(&c, node_main);
            all_ok(&c);
            crowd_end(&c);
        }
}

static void integers_are_summed_exactly(void **state)
{
    sum_all(true);
}

static void any_numbers_have_the_same_bits_on_all_hosts(void **state)
{
    sum_all(false);
}

/* Two hosts send each other one half of the array twice: 2 (K-1)/K of its bytes. */
static void traffic_is_that_of_a_direct_exchange(void **state)
{
    struct crowd c;
    uint64_t bytes = 0;
    crowd_begin(&c, MOST, true, &(struct sw_loop_conf){.hosts = MOST});
    crowd_run(&c, node_main);
    all_ok(&c);
    for (int h = 0; h < MOST; h++)
        for (int k = 0; k < MOST; k++)
            if (k != h) {
                struct sw_traffic s = sw_fabric_traffic(c.node[h].fabric, k, SW_HOSTS_SHARE);
                struct sw_traffic t = sw_fabric_traffic(c.node[h].fabric, k, SW_HOSTS_TOTAL);
                bytes += s.sent_bytes + t.sent_bytes;
                assert_int_equal(t.sent_bytes,
                                 sw_fabric_traffic(c.node[k].fabric, h, SW_HOSTS_SHARE).sent_bytes);
            }
    uint64_t elements = 0;
    for (int i = 0; i < ITEMS; i++)
        elements += (uint64_t)sizes[i];
    assert_int_equal(bytes, elements * sizeof(float) * 2 * (MOST - 1) * VERSIONS);
    crowd_end(&c);
}

static void nothing_is_allocated_while_hosts_sum(void **state)
{
    struct crowd c;
    faulty_begin((struct faulty_plan){.kinds = FAULTY_ALLOC});
    crowd_begin(&c, 3, true, &(struct sw_loop_conf){.hosts = 3});
    crowd_run(&c, node_main);
    all_ok(&c);
    for (int h = 0; h < 3; h++)
        assert_int_equal(c.node[h].allocations, 0);
    crowd_end(&c);
    assert_int_equal(faulty.live_allocations, 0);
    faulty_end();
}

/* Wherever a host dies, all others end with the loss, and nothing is left that waits. */
static void every_wait_ends_when_a_host_dies(void **state)
{
    for (int64_t chunk = 1; chunk < 220; chunk += 1 + chunk / 6) {
        struct crowd c;
        crowd_begin(&c, 3, true,
                    &(struct sw_loop_conf){.hosts = 3,
                                           .seed = (uint64_t)chunk,
                                           .window = 2,
                                           .kill_host = (int)(chunk % 3),
                                           .kill_chunk = chunk});
        crowd_run(&c, node_main);
        for (int h = 0; h < 3; h++)
            assert_int_equal(c.node[h].rc, SW_ERR_LOST);
        crowd_end(&c);
    }
}

static void close_main(void *user)
{
    struct node *n = user;
    double value = 1;
    n->rc = open_node(n);
    if (n->rc == SW_OK && n->host == 0)
        n->rc = sw_hosts_sum_small(n->sum, SW_HOSTS_PASSES, &value, 1, &n->err);
}

static void close_ends_a_small_sum(void **state)
{
    struct crowd c;
    struct sw_err err;
    crowd_begin(&c, 2, true, &(struct sw_loop_conf){.hosts = 2});
    for (int h = 0; h < 2; h++)
        ASSERT_OK(sw_thread_start(&c.node[h].thread, "host", close_main, &c.node[h], &err));
    sw_thread_join(&c.node[1].thread);
    assert_false(sw_thread_join_timed(&c.node[0].thread, 20));
    sw_hosts_sum_close_v(c.node[0].sum);
    sw_thread_join(&c.node[0].thread);
    assert_int_equal(c.node[1].rc, SW_OK);
    assert_int_equal(c.node[0].rc, SW_ERR_CANCELLED);
    crowd_end(&c);
}

static void counts_main(void *user)
{
    struct node *n = user;
    double values[8] = {0};
    n->rc = open_node(n);
    if (n->rc == SW_OK)
        n->rc = sw_hosts_sum_small(n->sum, SW_HOSTS_PASSES, values, 3 + n->host, &n->err);
}

static void different_counts_are_an_error(void **state)
{
    struct crowd c;
    crowd_begin(&c, 2, true, &(struct sw_loop_conf){.hosts = 2});
    crowd_run(&c, counts_main);
    for (int h = 0; h < 2; h++) {
        assert_int_equal(c.node[h].rc, SW_ERR_INVALID);
        assert_non_null(strstr(c.node[h].err.text, h ? "host 0 sums 3" : "host 1 sums 4"));
    }
    crowd_end(&c);
}

static void only_open_main(void *user)
{
    struct node *n = user;
    n->rc = open_node(n);
}

/* Messages that no host sends lose the sender, and change nothing. */
static void what_nobody_waits_for_is_refused(void **state)
{
    static float data[65536];
    const struct {
        struct sw_fabric_tag tag;
        size_t bytes;
    } bad[] = {
        {{SW_HOSTS_SHARE, 2, 1000000, 1}, 4}, /* no such piece */
        {{SW_HOSTS_SHARE, 2, 0, 1}, 4},       /* host 0's: the only one of item 1 */
        {{SW_HOSTS_TOTAL, 2, 0, 1}, 4},       /* a sum before the term */
        {{SW_HOSTS_SHARE, 3, 2, 2}, 4},       /* too early a version */
        {{SW_HOSTS_SHARE, 3, 2, 0}, 4},       /* an old one */
        {{SW_HOSTS_SHARE, 3, 2, 1}, 8},       /* too long */
        {{SW_HOSTS_SHARE, 3, 2, 1}, 0},       /* too short */
        {{SW_HOSTS_SHARE, 4, 2, 1}, 4},       /* of another urgency */
        {{SW_HOSTS_SMALL, 0, 0, 2}, 8},       /* the second before the first */
        {{SW_HOSTS_SMALL, 0, 0, 1}, 12},      /* no doubles */
        {{SW_HOSTS_SMALL, 0, 0, 1}, 8 * (SMALL_MOST + 1)},
        {{SW_HOSTS_SMALL, 1, 0, 1}, 8},
        {{SW_HOSTS_SMALL, 0, SW_HOSTS_CHANNELS, 1}, 8},
        {{SW_HOSTS_SMALL + 1, 0, 0, 1}, 8},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct crowd c;
        struct sw_err err;
        crowd_begin(&c, 2, true, &(struct sw_loop_conf){.hosts = 2});
        crowd_run(&c, only_open_main);
        all_ok(&c);
        ASSERT_OK(
            sw_fabric_send(c.node[0].fabric, 1, &bad[i].tag, data, bad[i].bytes, NULL, NULL, &err));
        assert_false(wait_summed(&c.node[1], 2, 1));
        crowd_end(&c);
    }
}

static void versions_come_one_after_the_other(void **state)
{
    struct crowd c;
    struct sw_err err;
    crowd_begin(&c, 2, true, &(struct sw_loop_conf){.hosts = 2});
    crowd_run(&c, only_open_main);
    all_ok(&c);
    assert_int_equal(sw_hosts_sum_give(c.node[0].sum, 5, 2, c.node[0].x[5], &err), SW_ERR_INVALID);
    ASSERT_OK(sw_hosts_sum_give(c.node[0].sum, 5, 1, c.node[0].x[5], &err));
    assert_int_equal(sw_hosts_sum_give(c.node[0].sum, 5, 1, c.node[0].x[5], &err), SW_ERR_INVALID);
    assert_int_equal(sw_hosts_sum_give(c.node[0].sum, 5, 2, c.node[0].x[5], &err), SW_ERR_INVALID);
    ASSERT_OK(sw_hosts_sum_give(c.node[1].sum, 5, 1, c.node[1].x[5], &err));
    assert_true(wait_summed(&c.node[0], 5, 1));
    assert_true(wait_summed(&c.node[1], 5, 1));
    double values[SMALL_MOST + 1] = {0};
    assert_int_equal(
        sw_hosts_sum_small(c.node[0].sum, SW_HOSTS_PASSES, values, SMALL_MOST + 1, &err),
        SW_ERR_INVALID);
    crowd_end(&c);
}

static void allocations_may_fail(void **state)
{
    const struct sw_hosts_sum_item item = {.elements = 100};
    const struct sw_hosts_sum_args args = {.hosts = 2, .items = &item, .count = 1};
    struct sw_hosts_sum *s = NULL;
    struct sw_err err;
    int at = 0, rc;
    do {
        faulty_begin((struct faulty_plan){.kinds = FAULTY_ALLOC, .at = ++at});
        rc = sw_hosts_sum_new(&args, &s, &err);
        assert_true(rc == SW_OK || (rc == SW_ERR_NOMEM && faulty.live_allocations == 0));
        if (rc == SW_OK)
            sw_hosts_sum_free(s);
        faulty_end();
    } while (rc != SW_OK);
    assert_true(at > 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integers_are_summed_exactly),
        cmocka_unit_test(any_numbers_have_the_same_bits_on_all_hosts),
        cmocka_unit_test(traffic_is_that_of_a_direct_exchange),
        cmocka_unit_test(nothing_is_allocated_while_hosts_sum),
        cmocka_unit_test(every_wait_ends_when_a_host_dies),
        cmocka_unit_test(close_ends_a_small_sum),
        cmocka_unit_test(different_counts_are_an_error),
        cmocka_unit_test(what_nobody_waits_for_is_refused),
        cmocka_unit_test(versions_come_one_after_the_other),
        cmocka_unit_test(allocations_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
