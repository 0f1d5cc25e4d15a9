/* ctest-labels: threads
 * ctest-timeout: 120
 * Hosts at different steps: all carry out a request after the same step, meet, and go on when one
 * of them is lost; without host 0 nobody waits for ever. */
#include "unit/exchange/peer_support.h"

#include "exchange/hosts/hosts_lead.h"
#include "exchange/hosts/hosts_steps.h"
#include <sched.h>

enum { STEPS = 300, MEET_EVERY = 50 };

struct node {
    struct peer peer;
    unsigned seed;
    struct sw_hosts_steps *steps;
    struct sw_hosts_lead *lead;
    struct sw_fabric_router router;
    bool opened;
    int left, meetings;
    int64_t woken; /* atomic */
    int bits[STEPS + 1];
};

static void on_woken(void *user, int64_t step)
{
    struct node *n = user;
    __atomic_store_n(&n->woken, step, __ATOMIC_SEQ_CST);
}

static int open_node(struct node *n)
{
    const struct sw_hosts_steps_args args = {
        .hosts = n->peer.hosts, .own = n->peer.host, .woken = on_woken, .user = n};
    int rc = sw_hosts_steps_new(&args, &n->steps, &n->peer.err);
    if (rc != SW_OK)
        return rc;
    rc = sw_hosts_lead_new(
        &(struct sw_hosts_lead_args){.hosts = n->peer.hosts, .own = n->peer.host, .small_most = 1},
        &n->lead, &n->peer.err);
    if (rc != SW_OK)
        return rc;
    sw_fabric_router_add(&n->router, SW_HOSTS_STEPS, 1, sw_hosts_steps_sink(n->steps));
    sw_fabric_router_add(&n->router, SW_HOSTS_LEAD, 1, sw_hosts_lead_sink(n->lead));
    rc = peer_open(&n->peer, sw_fabric_router_sink(&n->router),
                   SW_HOSTS_STEPS_ROOM + sw_hosts_lead_room(n->lead));
    if (rc != SW_OK)
        return rc;
    sw_hosts_lead_start(n->lead, n->peer.fabric);
    sw_hosts_steps_start(n->steps, n->peer.fabric);
    return SW_OK;
}

/* Hosts that have carried out something meet, as where a job merges values. */
static int meet(struct node *n)
{
    double one = 1;
    n->meetings++;
    return sw_hosts_lead_sum(n->lead, SW_HOSTS_RESULTS, &one, 1, &n->peer.err);
}

/* A few requests at random steps; a request for a checkpoint (4) is told once, the other one until
 * it is carried out. All meet where a request is carried out, and at fixed steps. */
static int run_steps(struct node *n)
{
    int level = 0;
    for (int64_t t = 1; t <= STEPS; t++) {
        n->seed = n->seed * 1103515245U + 12345U;
        const unsigned dice = n->seed >> 16;
        int own = dice % 100 == 0 ? 4 : 0;
        level |= dice % 100 == 1 ? 1 << n->peer.host % 2 : 0;
        for (volatile unsigned spin = 0; spin < dice % 2000 * (unsigned)n->peer.host; spin++)
            continue;

        int rc = sw_hosts_steps_decide(n->steps, t, own | level, &n->bits[t], &n->peer.err);
        if (rc != SW_OK)
            return rc;
        level &= ~n->bits[t];
        if (n->bits[t] || t % MEET_EVERY == 0) {
            rc = meet(n);
            if (rc != SW_OK)
                return rc;
        }
    }
    return SW_OK;
}

static void node_main(void *user)
{
    struct node *n = user;
    struct sw_err err;
    n->peer.rc = open_node(n);
    n->opened = n->peer.rc == SW_OK;
    if (n->peer.rc == SW_OK)
        n->peer.rc = run_steps(n);
    if (n->peer.rc == SW_OK)
        n->left = sw_fabric_leave(n->peer.fabric, 60000, &err);
    else if (n->peer.fabric)
        sw_fabric_abort(n->peer.fabric, &n->peer.err, 60000);
    sw_fabric_free(n->peer.fabric);
    n->peer.fabric = NULL;
}

static void fini(void *user)
{
    struct node *n = user;
    sw_hosts_lead_free(n->lead);
    sw_hosts_steps_free(n->steps);
}

static struct node *run_nodes(const struct sw_loop_conf *conf)
{
    struct node *nodes = peers_new(conf, sizeof *nodes);
    for (int i = 0; i < conf->hosts; i++)
        nodes[i].seed = (unsigned)conf->seed * 31 + (unsigned)i;
    peers_run(nodes, node_main);
    return nodes;
}

static void requests_are_carried_out_together(void **state)
{
    int requests = 0;
    for (int hosts = 2; hosts <= MOST; hosts++)
        for (uint64_t seed = 1; seed <= 10; seed++) {
            const struct sw_loop_conf conf = {.hosts = hosts, .seed = seed};
            struct node *nodes = run_nodes(&conf);
            assert_ran(nodes);
            for (int i = 0; i < hosts; i++) {
                assert_int_equal(nodes[i].left, SW_OK);
                assert_memory_equal(nodes[i].bits, nodes[0].bits, sizeof nodes[0].bits);
                assert_int_equal(nodes[i].meetings, nodes[0].meetings);
            }
            for (int t = 1; t <= STEPS; t++)
                requests += nodes[0].bits[t] != 0;
            peers_free(nodes, fini);
        }
    assert_true(requests > 30);
}

/* Killed at some chunk: the others agree on everything; without host 0 all end with its name. */
static void hosts_go_on_without_a_lost_one(void **state)
{
    int survived = 0;
    for (int64_t chunk = 4; chunk < 60; chunk += 3)
        for (int killed = 0; killed < 3; killed++) {
            const struct sw_loop_conf conf = {
                .hosts = 3, .seed = (uint64_t)chunk, .kill_host = killed, .kill_chunk = chunk};
            struct node *nodes = run_nodes(&conf);
            const struct node *zero = &nodes[0], *other = &nodes[killed == 2 ? 1 : 2];
            if (killed == 0 && zero->peer.rc != SW_OK)
                assert_true(other->peer.rc != SW_OK && nodes[1].peer.rc != SW_OK);
            if (killed != 0 && zero->opened && other->opened) {
                assert_int_equal(zero->peer.rc, SW_OK);
                assert_int_equal(other->peer.rc, SW_OK);
                assert_memory_equal(other->bits, zero->bits, sizeof zero->bits);
                survived += nodes[killed].peer.rc != SW_OK;
            }
            peers_free(nodes, fini);
        }
    assert_true(survived > 10);
}

static void only_open(void *user)
{
    struct node *n = user;
    n->peer.rc = open_node(n);
}

/* Host 0 wakes another one, after which both carry out something. */
static void wakes_a_resting_host(void **state)
{
    struct node *node = peers_new(&(struct sw_loop_conf){.hosts = 2}, sizeof *node);
    struct sw_err err;
    peers_run(node, only_open);
    assert_ran(node);

    int bits = 0;
    ASSERT_OK(sw_hosts_steps_decide(node[0].steps, 7, 1, &bits, &err));
    assert_int_equal(bits, 1); /* the other one has not begun */
    sw_hosts_steps_wake(node[0].steps, 7);
    while (__atomic_load_n(&node[1].woken, __ATOMIC_SEQ_CST) != 7)
        sched_yield();
    ASSERT_OK(sw_hosts_steps_decide(node[1].steps, 7, 0, &bits, &err));
    assert_int_equal(bits, 1);

    sw_hosts_steps_close_v(node[0].steps);
    assert_int_equal(sw_hosts_steps_decide(node[0].steps, 8, 0, &bits, &err), SW_ERR_CANCELLED);
    for (int i = 0; i < 2; i++)
        sw_fabric_close_v(node[i].peer.fabric);
    peers_free(node, fini);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_are_carried_out_together),
        cmocka_unit_test(hosts_go_on_without_a_lost_one),
        cmocka_unit_test(wakes_a_resting_host),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
