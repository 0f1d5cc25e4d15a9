/* ctest-labels: threads
 * ctest-timeout: 120
 * Sums over hosts: exact for integers, the same bits on all hosts for any numbers, for sizes that
 * do not divide, with items under way in any number and hosts at different speeds, and an end
 * without waits where a host dies. */
#include "unit/exchange/peer_support.h"

#include "exchange/hosts/hosts_sum.h"
#include "unit/faulty_os.h"

enum { SMALL_MOST = 512, ITEMS = 9, VERSIONS = 3 };

/* Of one to several pieces a share; some hosts have no share of the small ones. */
static const int64_t sizes[ITEMS] = {0, 1, 2, 3, 5, 1000, 65536, 4 * 65536 + 3, 300001};

struct node {
    struct peer peer;
    bool integers;
    struct sw_hosts_sum *sum;
    float *x[ITEMS];
    struct sw_mutex lock; /* guards all below */
    struct sw_cond changed;
    uint64_t summed[ITEMS];
    int lost;
    int allocations; /* between the first and the last step */
};

/* What a host gives: a small integer, or any number. */
static float term(bool integers, int host, int item, uint64_t version, int64_t i)
{
    uint32_t bits = (uint32_t)(i * 2654435761u) ^ (uint32_t)(host * 97 + item * 13 + version * 7);
    bits ^= bits >> 15;
    if (integers)
        return (float)(bits % 201) - 100;
    return ((float)(bits % 100003) - 50000) * (bits & 1 ? 1e-3f : 7.77f);
}

/* The sum in the order of the tree over hosts. */
static float expected(const struct node *n, int item, uint64_t version, int64_t i)
{
    if (n->peer.hosts == 4)
        return (term(n->integers, 0, item, version, i) + term(n->integers, 1, item, version, i)) +
               (term(n->integers, 2, item, version, i) + term(n->integers, 3, item, version, i));

    float sum = term(n->integers, 0, item, version, i);
    for (int host = 1; host < n->peer.hosts; host++)
        sum += term(n->integers, host, item, version, i);
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
        n->x[item][i] = term(n->integers, n->peer.host, item, version, i);
    return sw_hosts_sum_give(n->sum, item, version, n->x[item], &n->peer.err);
}

static int check(struct node *n, int item, uint64_t version)
{
    if (!wait_summed(n, item, version))
        return SW_ERR_LOST;
    for (int64_t i = 0; i < sizes[item]; i++) {
        float want = expected(n, item, version, i);
        if (memcmp(&n->x[item][i], &want, sizeof want) != 0)
            return sw_err_set(&n->peer.err, SW_ERR_FORMAT,
                              "host %d, item %d, version %d: %g, not %g", n->peer.host, item,
                              (int)version, (double)n->x[item][i], (double)want);
    }
    return SW_OK;
}

/* Between two items a small sum, as of losses; its count changes from step to step. */
static int small(struct node *n, uint64_t version)
{
    double values[7], want[7];
    int count = (int)(version % 8);
    for (int i = 0; i < count; i++) {
        values[i] = n->peer.host + 0.1 * i;
        want[i] = 0.1 * i;
        for (int host = 1; host < n->peer.hosts; host++)
            want[i] += host + 0.1 * i;
    }
    int rc = sw_hosts_sum_small(n->sum, SW_HOSTS_PASSES, values, count, &n->peer.err);
    if (rc == SW_OK && memcmp(values, want, (size_t)count * sizeof *want) != 0)
        rc = sw_err_set(&n->peer.err, SW_ERR_FORMAT, "a small sum is wrong");
    return rc;
}

/* The top item first, as in backward; and each is awaited only where forward needs it, so that up
 * to all items are under way. */
static int step(struct node *n, uint64_t version)
{
    int rc = SW_OK;
    for (int item = ITEMS - 1; item >= 0 && rc == SW_OK; item--) {
        rc = give(n, item, version);
        if (rc == SW_OK && item == n->peer.host)
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
    int rc = peer_open(&n->peer, sw_hosts_sum_sink(n->sum), sw_hosts_sum_room(n->sum));
    if (rc == SW_OK)
        sw_hosts_sum_start(n->sum, n->peer.fabric);
    return rc;
}

static void node_main(void *user)
{
    struct node *n = user;
    n->peer.rc = open_node(n);
    int before = 0;
    for (uint64_t version = 1; version <= VERSIONS && n->peer.rc == SW_OK; version++) {
        n->peer.rc = step(n, version);
        /* All hosts have opened their fabrics when the first step is over. */
        before = version == 1 ? calls_of_allocation() : before;
    }
    n->allocations = calls_of_allocation() - before;
    if (n->peer.rc == SW_OK)
        n->peer.rc = sw_fabric_leave(n->peer.fabric, 60000, &n->peer.err);
}

/* ---- All of them ---- */

static struct node *nodes_new(bool integers, const struct sw_loop_conf *conf)
{
    static struct sw_hosts_sum_item items[ITEMS];
    struct node *nodes = peers_new(conf, sizeof *nodes);
    struct sw_err err;
    for (int i = 0; i < ITEMS; i++)
        items[i] = (struct sw_hosts_sum_item){.elements = sizes[i], .urgency = (uint16_t)(i + 1)};
    for (int h = 0; h < conf->hosts; h++) {
        struct node *n = &nodes[h];
        const struct sw_hosts_sum_args args = {.hosts = conf->hosts,
                                               .small_most = SMALL_MOST,
                                               .own = h,
                                               .items = items,
                                               .count = ITEMS,
                                               .summed = on_summed,
                                               .lost = on_lost,
                                               .user = n};
        n->integers = integers;
        sw_mutex_init(&n->lock);
        sw_cond_init(&n->changed);
        for (int i = 0; i < ITEMS; i++)
            assert_non_null(n->x[i] = calloc((size_t)sizes[i] + 1, sizeof *n->x[i]));
        ASSERT_OK(sw_hosts_sum_new(&args, &n->sum, &err));
    }
    return nodes;
}

static void fini(void *user)
{
    struct node *n = user;
    sw_hosts_sum_free(n->sum);
    for (int i = 0; i < ITEMS; i++)
        free(n->x[i]);
    sw_cond_fini(&n->changed);
    sw_mutex_fini(&n->lock);
}

static struct node *run_all(bool integers, const struct sw_loop_conf *conf)
{
    struct node *nodes = nodes_new(integers, conf);
    peers_run(nodes, node_main);
    return nodes;
}

static void only_open(void *user)
{
    struct node *n = user;
    n->peer.rc = open_node(n);
}

static struct node *two_open(void)
{
    struct node *nodes = nodes_new(true, &(struct sw_loop_conf){.hosts = 2});
    peers_run(nodes, only_open);
    assert_ran(nodes);
    return nodes;
}

/* ---- Cases ---- */

static void sum_all(bool integers)
{
    for (int hosts = 2; hosts <= MOST; hosts++)
        for (uint64_t seed = 0; seed < 3; seed++) {
            const struct sw_loop_conf conf = {
                .hosts = hosts, .seed = seed, .window = 1 + (int)(seed % 4)};
            struct node *nodes = run_all(integers, &conf);
            assert_ran(nodes);
            peers_free(nodes, fini);
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
    struct node *nodes = run_all(true, &(struct sw_loop_conf){.hosts = MOST});
    uint64_t bytes = 0;
    assert_ran(nodes);
    for (int h = 0; h < MOST; h++)
        for (int k = 0; k < MOST; k++)
            if (k != h) {
                struct sw_traffic s = sw_fabric_traffic(nodes[h].peer.fabric, k, SW_HOSTS_SHARE);
                struct sw_traffic t = sw_fabric_traffic(nodes[h].peer.fabric, k, SW_HOSTS_TOTAL);
                bytes += s.sent_bytes + t.sent_bytes;
                assert_int_equal(
                    t.sent_bytes,
                    sw_fabric_traffic(nodes[k].peer.fabric, h, SW_HOSTS_SHARE).sent_bytes);
            }
    uint64_t elements = 0;
    for (int i = 0; i < ITEMS; i++)
        elements += (uint64_t)sizes[i];
    assert_int_equal(bytes, elements * sizeof(float) * 2 * (MOST - 1) * VERSIONS);
    peers_free(nodes, fini);
}

static void nothing_is_allocated_while_hosts_sum(void **state)
{
    faulty_begin((struct faulty_plan){.kinds = FAULTY_ALLOC});
    struct node *nodes = run_all(true, &(struct sw_loop_conf){.hosts = 3});
    assert_ran(nodes);
    for (int h = 0; h < 3; h++)
        assert_int_equal(nodes[h].allocations, 0);
    peers_free(nodes, fini);
    assert_int_equal(faulty.live_allocations, 0);
    faulty_end();
}

/* Wherever a host dies, all others end with the loss, and nothing is left that waits. */
static void every_wait_ends_when_a_host_dies(void **state)
{
    for (int64_t chunk = 1; chunk < 220; chunk += 1 + chunk / 6) {
        const struct sw_loop_conf conf = {.hosts = 3,
                                          .seed = (uint64_t)chunk,
                                          .window = 2,
                                          .kill_host = (int)(chunk % 3),
                                          .kill_chunk = chunk};
        struct node *nodes = run_all(true, &conf);
        for (int h = 0; h < 3; h++)
            assert_int_equal(nodes[h].peer.rc, SW_ERR_LOST);
        peers_free(nodes, fini);
    }
}

static void close_main(void *user)
{
    struct node *n = user;
    double value = 1;
    n->peer.rc = open_node(n);
    if (n->peer.rc == SW_OK && n->peer.host == 0)
        n->peer.rc = sw_hosts_sum_small(n->sum, SW_HOSTS_PASSES, &value, 1, &n->peer.err);
}

static void close_ends_a_small_sum(void **state)
{
    struct node *nodes = nodes_new(true, &(struct sw_loop_conf){.hosts = 2});
    peers_start(nodes, close_main);
    sw_thread_join(&nodes[1].peer.thread);
    assert_false(sw_thread_join_timed(&nodes[0].peer.thread, 20));
    sw_hosts_sum_close_v(nodes[0].sum);
    sw_thread_join(&nodes[0].peer.thread);
    assert_int_equal(nodes[1].peer.rc, SW_OK);
    assert_int_equal(nodes[0].peer.rc, SW_ERR_CANCELLED);
    peers_free(nodes, fini);
}

static void counts_main(void *user)
{
    struct node *n = user;
    double values[8] = {0};
    n->peer.rc = open_node(n);
    if (n->peer.rc == SW_OK)
        n->peer.rc =
            sw_hosts_sum_small(n->sum, SW_HOSTS_PASSES, values, 3 + n->peer.host, &n->peer.err);
}

static void different_counts_are_an_error(void **state)
{
    struct node *nodes = nodes_new(true, &(struct sw_loop_conf){.hosts = 2});
    peers_run(nodes, counts_main);
    for (int h = 0; h < 2; h++) {
        assert_int_equal(nodes[h].peer.rc, SW_ERR_INVALID);
        assert_non_null(strstr(nodes[h].peer.err.text, h ? "host 0 sums 3" : "host 1 sums 4"));
    }
    peers_free(nodes, fini);
}

/* Messages that no host sends lose the sender, and change nothing. */
static void what_nobody_waits_for_is_refused(void **state)
{
    static float data[65536];
    const struct {
        struct sw_fabric_tag tag;
        size_t bytes;
    } bad[] = {
        {{.kind = SW_HOSTS_SHARE, .urgency = 2, .item = 1000000, .version = 1},
         4}, /* no such piece */
        {{.kind = SW_HOSTS_SHARE, .urgency = 2, .item = 0, .version = 1},
         4}, /* host 0's: the only one of item 1 */
        {{.kind = SW_HOSTS_TOTAL, .urgency = 2, .item = 0, .version = 1},
         4}, /* a sum before the term */
        {{.kind = SW_HOSTS_SHARE, .urgency = 3, .item = 2, .version = 2},
         4}, /* too early a version */
        {{.kind = SW_HOSTS_SHARE, .urgency = 3, .item = 2, .version = 0}, 4}, /* an old one */
        {{.kind = SW_HOSTS_SHARE, .urgency = 3, .item = 2, .version = 1}, 8}, /* too long */
        {{.kind = SW_HOSTS_SHARE, .urgency = 3, .item = 2, .version = 1}, 0}, /* too short */
        {{.kind = SW_HOSTS_SHARE, .urgency = 4, .item = 2, .version = 1},
         4}, /* of another urgency */
        {{.kind = SW_HOSTS_SMALL, .urgency = 0, .item = 0, .version = 2},
         8}, /* the second before the first */
        {{.kind = SW_HOSTS_SMALL, .urgency = 0, .item = 0, .version = 1}, 12}, /* no doubles */
        {{.kind = SW_HOSTS_SMALL, .urgency = 0, .item = 0, .version = 1}, 8 * (SMALL_MOST + 1)},
        {{.kind = SW_HOSTS_SMALL, .urgency = 1, .item = 0, .version = 1}, 8},
        {{.kind = SW_HOSTS_SMALL, .urgency = 0, .item = SW_HOSTS_CHANNELS, .version = 1}, 8},
        {{.kind = SW_HOSTS_SMALL + 1, .urgency = 0, .item = 0, .version = 1}, 8},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct node *nodes = two_open();
        struct sw_err err;
        ASSERT_OK(sw_fabric_send(nodes[0].peer.fabric, 1, &bad[i].tag, data, bad[i].bytes, NULL,
                                 NULL, &err));
        assert_false(wait_summed(&nodes[1], 2, 1));
        peers_free(nodes, fini);
    }
}

static void versions_come_one_after_the_other(void **state)
{
    struct node *nodes = two_open();
    struct sw_err err;
    assert_int_equal(sw_hosts_sum_give(nodes[0].sum, 5, 2, nodes[0].x[5], &err), SW_ERR_INVALID);
    ASSERT_OK(sw_hosts_sum_give(nodes[0].sum, 5, 1, nodes[0].x[5], &err));
    assert_int_equal(sw_hosts_sum_give(nodes[0].sum, 5, 1, nodes[0].x[5], &err), SW_ERR_INVALID);
    assert_int_equal(sw_hosts_sum_give(nodes[0].sum, 5, 2, nodes[0].x[5], &err), SW_ERR_INVALID);
    ASSERT_OK(sw_hosts_sum_give(nodes[1].sum, 5, 1, nodes[1].x[5], &err));
    assert_true(wait_summed(&nodes[0], 5, 1));
    assert_true(wait_summed(&nodes[1], 5, 1));
    double values[SMALL_MOST + 1] = {0};
    assert_int_equal(
        sw_hosts_sum_small(nodes[0].sum, SW_HOSTS_PASSES, values, SMALL_MOST + 1, &err),
        SW_ERR_INVALID);
    peers_free(nodes, fini);
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
