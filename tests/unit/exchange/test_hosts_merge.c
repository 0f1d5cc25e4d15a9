/* ctest-labels: threads
 * ctest-timeout: 120
 * Merges and small sums through host 0: all living hosts get the same bits, whoever dies when; the
 * changes of a host count for all items or for none. */
#include "unit/exchange/peer_support.h"

#include "exchange/hosts/hosts_lead.h"
#include "exchange/hosts/hosts_merge.h"
#include "unit/faulty_os.h"

enum { ITEMS = 5, ROUNDS = 4, SUMS = 7 };

static const int64_t sizes[ITEMS] = {1000, 0, 3, 70000, 17};

struct crowd;

struct node {
    struct peer peer;
    struct crowd *crowd;
    struct sw_hosts_merge *merge;
    struct sw_hosts_lead *lead;
    struct sw_fabric_router router;
    float *value[ITEMS], *change[MOST][ITEMS];
    uint64_t hosts[ROUNDS], summed[ROUNDS]; /* bits: who counted */
    double sum[ROUNDS][SUMS];
    int rounds, wrong, allocations, takes;
    bool opened;
};

struct crowd {
    bool changes; /* or only the values of host 0 */
    struct node *node;
    struct sw_mutex lock; /* guards came */
    struct sw_cond changed;
    int came;
};

static float change_of_host(int host, int round, int item)
{
    return (float)((1 << 4 * host) * (round + 1) + item);
}

static float *change(void *user, int host, int item)
{
    struct node *n = user;
    return n->change[host][item];
}

static float *value(void *user, int item)
{
    struct node *n = user;
    return n->value[item];
}

static void add(void *user, uint64_t hosts)
{
    struct node *n = user;
    for (int h = 1; h < n->peer.hosts; h++)
        for (int i = 0; i < ITEMS && (hosts >> h & 1); i++)
            for (int64_t e = 0; e < sizes[i]; e++)
                n->value[i][e] += n->change[h][i][e];
}

static void take(void *user)
{
    struct node *n = user;
    n->takes++;
}

/* ---- A host ---- */

static int open_node(struct node *n)
{
    sw_fabric_router_add(&n->router, SW_HOSTS_CHANGE, 2, sw_hosts_merge_sink(n->merge));
    sw_fabric_router_add(&n->router, SW_HOSTS_LEAD, 1, sw_hosts_lead_sink(n->lead));
    int rc = peer_open(&n->peer, sw_fabric_router_sink(&n->router),
                       sw_hosts_merge_room(n->merge) + sw_hosts_lead_room(n->lead));
    n->opened = rc == SW_OK;
    if (rc != SW_OK)
        return rc;
    sw_hosts_merge_start(n->merge, n->peer.fabric);
    sw_hosts_lead_start(n->lead, n->peer.fabric);
    return SW_OK;
}

static void wait_for_others(struct crowd *c)
{
    sw_mutex_lock(&c->lock);
    c->came++;
    sw_cond_broadcast(&c->changed);
    while (c->came < c->node->peer.hosts)
        sw_cond_wait(&c->changed, &c->lock);
    sw_mutex_unlock(&c->lock);
}

/* With changes: the value is the last one, plus the changes of those that count. */
static void check_values(struct node *n, int round)
{
    for (int i = 0; i < ITEMS; i++)
        for (int64_t e = 0; e < sizes[i]; e++) {
            float want = 0;
            for (int r = 0; r <= round && n->crowd->changes; r++)
                for (int h = 1; h < n->peer.hosts; h++)
                    want += (n->hosts[r] >> h & 1) ? change_of_host(h, r, i) : 0;
            if (!n->crowd->changes)
                want = (float)(100 * round + i);
            n->wrong += n->value[i][e] != want;
        }
}

static int merge(struct node *n, int round)
{
    for (int i = 0; i < ITEMS; i++)
        for (int64_t e = 0; e < sizes[i]; e++) {
            n->change[n->peer.host][i][e] = change_of_host(n->peer.host, round, i);
            if (!n->crowd->changes)
                n->value[i][e] = (float)(n->peer.host == 0 ? 100 * round + i : -1);
        }
    /* Some have offered it before. */
    if ((round + n->peer.host) % 2 == 0) {
        int rc = sw_hosts_merge_offer(n->merge, &n->peer.err);
        for (int i = 0; i < 10 && rc == SW_OK && !sw_hosts_merge_is_agreed(n->merge); i++)
            sw_thread_yield();
        if (rc != SW_OK)
            return rc;
    }
    int rc = sw_hosts_merge(n->merge, &n->hosts[round], &n->peer.err);
    if (rc == SW_OK)
        check_values(n, round);
    return rc;
}

/* Sums of 0 to SUMS values, one after the other. */
static int sum(struct node *n, int round)
{
    int count = (3 * round) % (SUMS + 1);
    for (int i = 0; i < count; i++)
        n->sum[round][i] = n->peer.host + 0.1 * i + round;
    int rc = sw_hosts_lead_sum(n->lead, SW_HOSTS_RESULTS, n->sum[round], count, &n->peer.err);
    if (rc != SW_OK)
        return rc;
    n->summed[round] = sw_hosts_lead_counted(n->lead, SW_HOSTS_RESULTS);
    for (int i = 0; i < count; i++) {
        double want = 0.1 * i + round;
        for (int h = 1; h < n->peer.hosts; h++)
            want += (n->summed[round] >> h & 1) ? h + 0.1 * i + round : 0;
        n->wrong += n->sum[round][i] != want;
    }
    return SW_OK;
}

static int calls_of_allocation(void)
{
    return __atomic_load_n(&faulty.calls, __ATOMIC_RELAXED);
}

static void node_main(void *user)
{
    struct node *n = user;
    n->peer.rc = open_node(n);
    wait_for_others(n->crowd);
    int before = calls_of_allocation();
    for (int round = 0; round < ROUNDS && n->peer.rc == SW_OK; round++) {
        n->peer.rc = sum(n, round);
        if (n->peer.rc == SW_OK)
            n->peer.rc = merge(n, round);
        n->rounds += n->peer.rc == SW_OK;
    }
    n->allocations = calls_of_allocation() - before;
    if (n->peer.rc == SW_OK)
        n->peer.rc = sw_fabric_leave(n->peer.fabric, 600000, &n->peer.err);
}

/* ---- All of them ---- */

static void crowd_begin(struct crowd *c, bool changes, const struct sw_loop_conf *conf)
{
    struct sw_hosts_merge_item items[ITEMS];
    struct sw_err err;
    memset(c, 0, sizeof *c);
    c->node = peers_new(conf, sizeof *c->node);
    c->changes = changes;
    sw_mutex_init(&c->lock);
    sw_cond_init(&c->changed);
    for (int i = 0; i < ITEMS; i++)
        items[i] = (struct sw_hosts_merge_item){.elements = sizes[i], .urgency = (uint16_t)i};
    for (int h = 0; h < conf->hosts; h++) {
        struct node *n = &c->node[h];
        const struct sw_hosts_merge_args args = {.hosts = conf->hosts,
                                                 .own = h,
                                                 .items = items,
                                                 .count = ITEMS,
                                                 .change = changes ? change : NULL,
                                                 .value = value,
                                                 .add = changes ? add : NULL,
                                                 .take = take,
                                                 .user = n};
        n->crowd = c;
        for (int i = 0; i < ITEMS; i++) {
            n->value[i] = calloc((size_t)sizes[i] + 1, sizeof(float));
            assert_non_null(n->value[i]);
            for (int k = 0; k < conf->hosts; k++)
                assert_non_null(n->change[k][i] = calloc((size_t)sizes[i] + 1, sizeof(float)));
        }
        ASSERT_OK(sw_hosts_merge_new(&args, &n->merge, &err));
        ASSERT_OK(sw_hosts_lead_new(
            &(struct sw_hosts_lead_args){.hosts = conf->hosts, .own = h, .small_most = SUMS},
            &n->lead, &err));
    }
}

static void fini(void *user)
{
    struct node *n = user;
    sw_hosts_merge_free(n->merge);
    sw_hosts_lead_free(n->lead);
    for (int i = 0; i < ITEMS; i++) {
        free(n->value[i]);
        for (int k = 0; k < n->peer.hosts; k++)
            free(n->change[k][i]);
    }
}

static void crowd_end(struct crowd *c)
{
    peers_free(c->node, fini);
    sw_cond_fini(&c->changed);
    sw_mutex_fini(&c->lock);
}

static void assert_ok(const struct node *n)
{
    if (n->peer.rc != SW_OK)
        print_error("host %d: %s\n", n->peer.host, n->peer.err.text);
    assert_int_equal(n->peer.rc, SW_OK);
    assert_int_equal(n->wrong, 0);
    assert_int_equal(n->takes, n->peer.host == 0 ? 0 : ROUNDS);
}

/* The hosts of the bits agree on who counted when, and on all bits. */
static void assert_same(const struct crowd *c, uint64_t hosts)
{
    const struct node *first = &c->node[0];
    for (int h = 0; h < c->node->peer.hosts; h++) {
        const struct node *n = &c->node[h];
        if (!(hosts >> h & 1))
            continue;
        assert_ok(n);
        assert_memory_equal(n->hosts, first->hosts, sizeof n->hosts);
        assert_memory_equal(n->summed, first->summed, sizeof n->summed);
        for (int r = 0; r < ROUNDS; r++)
            assert_true((n->hosts[r] & n->summed[r] & hosts) == hosts);
        for (int r = 0; r < ROUNDS; r++)
            assert_memory_equal(n->sum[r], first->sum[r],
                                sizeof(double) * (size_t)((3 * r) % (SUMS + 1)));
        for (int i = 0; i < ITEMS; i++)
            assert_memory_equal(n->value[i], first->value[i], (size_t)sizes[i] * sizeof(float));
    }
}

static struct crowd crowd;

static void all_hosts_get_the_same_bits(void **state)
{
    for (int hosts = 2; hosts <= MOST; hosts++)
        for (uint64_t seed = 0; seed < 6; seed++) {
            crowd_begin(&crowd, seed % 2 == 0,
                        &(struct sw_loop_conf){
                            .hosts = hosts, .seed = seed, .window = 1 + (int)(seed % 4)});
            peers_run(crowd.node, node_main);
            assert_same(&crowd, UINT64_MAX >> (64 - hosts));
            crowd_end(&crowd);
        }
}

static bool all_opened(const struct crowd *c)
{
    for (int h = 0; h < c->node->peer.hosts; h++)
        if (!c->node[h].opened)
            return false;
    return true;
}

static void survivors_agree_wherever_a_host_dies(void **state)
{
    int died = 0;
    for (int64_t chunk = 9; chunk < 120; chunk++) {
        int hosts = 3 + (int)(chunk % 2), dead = 1 + (int)(chunk % 3) % (hosts - 1);
        uint64_t all = UINT64_MAX >> (64 - hosts), left = all & ~((uint64_t)1 << dead);
        crowd_begin(&crowd, chunk % 5 > 0,
                    &(struct sw_loop_conf){.hosts = hosts,
                                           .seed = (uint64_t)chunk,
                                           .window = 2,
                                           .kill_host = dead,
                                           .kill_chunk = chunk});
        peers_run(crowd.node, node_main);
        bool lost = crowd.node[dead].peer.rc == SW_ERR_LOST;
        if (all_opened(&crowd))
            assert_same(&crowd, lost ? left : all);
        died += all_opened(&crowd) && lost;
        crowd_end(&crowd);
    }
    assert_true(died > 20);
}

/* Host 0 goes on alone. */
static void all_end_when_host_0_dies(void **state)
{
    int died = 0;
    for (int64_t chunk = 9; chunk < 80; chunk += 2) {
        crowd_begin(&crowd, true,
                    &(struct sw_loop_conf){
                        .hosts = 3, .seed = (uint64_t)chunk, .window = 2, .kill_chunk = chunk});
        peers_run(crowd.node, node_main);
        for (int h = 1; h < 3 && all_opened(&crowd); h++) {
            const struct node *n = &crowd.node[h];
            assert_int_equal(n->peer.rc, n->rounds < ROUNDS ? SW_ERR_LOST : SW_OK);
            assert_int_equal(n->wrong, 0);
            if (n->peer.rc == SW_OK)
                continue;
            assert_non_null(strstr(n->peer.err.text, "ada"));
            died++;
        }
        crowd_end(&crowd);
    }
    assert_true(died > 10);
}

static void nothing_is_allocated_while_hosts_merge(void **state)
{
    faulty_begin((struct faulty_plan){.kinds = FAULTY_ALLOC});
    crowd_begin(&crowd, true, &(struct sw_loop_conf){.hosts = 3});
    peers_run(crowd.node, node_main);
    assert_same(&crowd, 7);
    for (int h = 0; h < 3; h++)
        assert_int_equal(crowd.node[h].allocations, 0);
    crowd_end(&crowd);
    assert_int_equal(faulty.live_allocations, 0);
    faulty_end();
}

/* ---- Waits that end otherwise ---- */

static void merge_alone(void *user)
{
    struct node *n = user;
    n->peer.rc = open_node(n);
    if (n->peer.rc == SW_OK && n->peer.host == 0)
        n->peer.rc = sw_hosts_merge(n->merge, NULL, &n->peer.err);
}

static void sum_alone(void *user)
{
    struct node *n = user;
    double x = 1;
    n->peer.rc = open_node(n);
    if (n->peer.rc == SW_OK && n->peer.host == 1)
        n->peer.rc = sw_hosts_lead_sum(n->lead, SW_HOSTS_PASSES, &x, 1, &n->peer.err);
}

static void close_ends_all_waits(void **state)
{
    crowd_begin(&crowd, true, &(struct sw_loop_conf){.hosts = 2});
    peers_start(crowd.node, merge_alone);
    sw_thread_join(&crowd.node[1].peer.thread);
    assert_false(sw_thread_join_timed(&crowd.node[0].peer.thread, 20));
    sw_hosts_merge_close_v(crowd.node[0].merge);
    sw_thread_join(&crowd.node[0].peer.thread);
    assert_int_equal(crowd.node[0].peer.rc, SW_ERR_CANCELLED);
    crowd_end(&crowd);

    crowd_begin(&crowd, true, &(struct sw_loop_conf){.hosts = 2});
    peers_start(crowd.node, sum_alone);
    sw_thread_join(&crowd.node[0].peer.thread);
    assert_false(sw_thread_join_timed(&crowd.node[1].peer.thread, 20));
    sw_hosts_lead_close_v(crowd.node[1].lead);
    sw_thread_join(&crowd.node[1].peer.thread);
    assert_int_equal(crowd.node[1].peer.rc, SW_ERR_CANCELLED);
    crowd_end(&crowd);
}

/* Host 0 finds the difference, and ends. */
static void sum_different_counts(void *user)
{
    struct node *n = user;
    double x[SUMS + 1] = {0};
    n->peer.rc = open_node(n);
    if (n->peer.rc == SW_OK)
        n->peer.rc = sw_hosts_lead_sum(n->lead, SW_HOSTS_PASSES, x, 2 + n->peer.host, &n->peer.err);
    if (n->peer.rc == SW_ERR_INVALID)
        sw_fabric_abort(n->peer.fabric, &n->peer.err, 60000);
}

static void different_counts_are_an_error(void **state)
{
    struct sw_err err;
    double x[SUMS + 1] = {0};
    crowd_begin(&crowd, true, &(struct sw_loop_conf){.hosts = 2});
    peers_run(crowd.node, sum_different_counts);
    assert_int_equal(crowd.node[0].peer.rc, SW_ERR_INVALID);
    assert_non_null(
        strstr(crowd.node[0].peer.err.text, "host 1 sums 3 values where host 0 sums 2"));
    assert_int_equal(crowd.node[1].peer.rc, SW_ERR_LOST);
    assert_int_equal(sw_hosts_lead_sum(crowd.node[0].lead, SW_HOSTS_PASSES, x, SUMS + 1, &err),
                     SW_ERR_INVALID);
    crowd_end(&crowd);
}

static void only_open(void *user)
{
    struct node *n = user;
    n->peer.rc = open_node(n);
}

static bool is_lost(struct node *n, int host)
{
    return !(sw_fabric_alive(n->peer.fabric) >> host & 1);
}

/* Messages that no host sends lose the sender. */
static void what_nobody_waits_for_is_refused(void **state)
{
    static float data[70000];
    const struct {
        int to;
        struct sw_fabric_tag tag;
        size_t bytes;
    } bad[] = {
        {0, {.kind = SW_HOSTS_CHANGE, .item = 0, .version = 1}, 4000},  /* before it is agreed */
        {0, {.kind = SW_HOSTS_CHANGE, .item = ITEMS, .version = 3}, 0}, /* too early an offer */
        {0, {.kind = SW_HOSTS_CHANGE, .item = ITEMS, .version = 1}, 8}, /* an offer has no bytes */
        {0, {.kind = SW_HOSTS_CHANGE, .item = ITEMS + 1, .version = 1}, 0}, /* a mark too early */
        {0, {.kind = SW_HOSTS_CHANGE, .item = ITEMS + 9, .version = 1}, 0}, /* no such mark */
        {0, {.kind = SW_HOSTS_VALUE, .item = 0, .version = 1}, 4000}, /* host 0 gets no values */
        {1, {.kind = SW_HOSTS_VALUE, .item = 0, .version = 1}, 4000}, /* nobody waits for them */
        {1,
         {.kind = SW_HOSTS_VALUE, .item = ITEMS + 3, .version = 1},
         0}, /* agreed, but nothing was offered */
        {1,
         {.kind = SW_HOSTS_CHANGE, .item = ITEMS, .version = 1},
         0},                                                       /* only host 0 gets offers */
        {0, {.kind = SW_HOSTS_LEAD, .item = 0, .version = 2}, 8},  /* the second before the first */
        {0, {.kind = SW_HOSTS_LEAD, .item = 0, .version = 1}, 12}, /* no doubles */
        {0, {.kind = SW_HOSTS_LEAD, .item = 0, .version = 1}, 8 * (SUMS + 1)}, /* too many */
        {0,
         {.kind = SW_HOSTS_LEAD, .urgency = 1, .item = 0, .version = 1},
         8}, /* of another urgency */
        {0,
         {.kind = SW_HOSTS_LEAD, .item = SW_HOSTS_CHANNELS, .version = 1},
         8},                                                       /* no such channel */
        {1, {.kind = SW_HOSTS_LEAD, .item = 0, .version = 1}, 16}, /* a result without a question */
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct sw_err err;
        int to = bad[i].to;
        crowd_begin(&crowd, true, &(struct sw_loop_conf){.hosts = 2});
        peers_run(crowd.node, only_open);
        ASSERT_OK(sw_fabric_send(crowd.node[1 - to].peer.fabric, to, &bad[i].tag, data,
                                 bad[i].bytes, NULL, NULL, &err));
        while (!is_lost(&crowd.node[to], 1 - to))
            sw_thread_yield();
        crowd_end(&crowd);
    }
}

static void allocations_may_fail(void **state)
{
    const struct sw_hosts_merge_item item = {.elements = 100};
    const struct sw_hosts_merge_args args = {.hosts = 2, .items = &item, .count = 1};
    const struct sw_hosts_lead_args few = {.hosts = 2, .small_most = 3};
    struct sw_hosts_merge *m = NULL;
    struct sw_hosts_lead *s = NULL;
    struct sw_err err;
    int at = 0, rc;
    do {
        faulty_begin((struct faulty_plan){.kinds = FAULTY_ALLOC, .at = ++at});
        m = NULL;
        s = NULL;
        rc = sw_hosts_merge_new(&args, &m, &err);
        if (rc == SW_OK)
            rc = sw_hosts_lead_new(&few, &s, &err);
        assert_true(rc == SW_OK || rc == SW_ERR_NOMEM);
        sw_hosts_merge_free(m);
        sw_hosts_lead_free(s);
        assert_int_equal(faulty.live_allocations, 0);
        faulty_end();
    } while (rc != SW_OK);
    assert_true(at > 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_hosts_get_the_same_bits),
        cmocka_unit_test(survivors_agree_wherever_a_host_dies),
        cmocka_unit_test(all_end_when_host_0_dies),
        cmocka_unit_test(nothing_is_allocated_while_hosts_merge),
        cmocka_unit_test(close_ends_all_waits),
        cmocka_unit_test(different_counts_are_an_error),
        cmocka_unit_test(what_nobody_waits_for_is_refused),
        cmocka_unit_test(allocations_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
