/* ctest-labels: threads
 * ctest-timeout: 120
 * Hosts at different steps: all carry out a request after the same step, meet, and go on when one
 * of them is lost; without host 0 nobody waits for ever. */
#include "exchange/hosts/hosts_lead.h"
#include "exchange/hosts/hosts_steps.h"
#include "exchange/hosts/loop.h"
#include "exchange/hosts/router.h"
#include "thread/thread.h"
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MOST = 4, STEPS = 300, MEET_EVERY = 50 };

#define ASSERT_OK(call)                                                                            \
    do {                                                                                           \
        int code_ = (call);                                                                        \
        if (code_ != SW_OK)                                                                        \
            print_error("%s\n", err.text);                                                         \
        assert_int_equal(code_, SW_OK);                                                            \
    } while (0)

static const struct sw_host names[MOST] = {
    {.name = "ada"}, {.name = "bob"}, {.name = "cyd"}, {.name = "dan"}};

struct node {
    int host, hosts, rc;
    unsigned seed;
    struct sw_loop *loop;
    struct sw_hosts list;
    struct sw_hosts_steps *steps;
    struct sw_hosts_lead *lead;
    struct sw_fabric_router router;
    struct sw_fabric *fabric;
    struct sw_thread thread;
    struct sw_err err;
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
        .hosts = n->hosts, .own = n->host, .woken = on_woken, .user = n};
    int rc = sw_hosts_steps_new(&args, &n->steps, &n->err);
    if (rc != SW_OK)
        return rc;
    rc = sw_hosts_lead_new(
        &(struct sw_hosts_lead_args){.hosts = n->hosts, .own = n->host, .small_most = 1}, &n->lead,
        &n->err);
    if (rc != SW_OK)
        return rc;
    sw_fabric_router_add(&n->router, SW_HOSTS_STEPS, 1, sw_hosts_steps_sink(n->steps));
    sw_fabric_router_add(&n->router, SW_HOSTS_LEAD, 1, sw_hosts_lead_sink(n->lead));
    const struct sw_fabric_args fabric = {.hosts = &n->list,
                                          .room = SW_HOSTS_STEPS_ROOM + sw_hosts_lead_room(n->lead),
                                          .sink = sw_fabric_router_sink(&n->router),
                                          .conf = sw_loop_end(n->loop, n->host),
                                          .clock = sw_loop_clock(n->loop, n->host)};
    rc = sw_fabric_open(&sw_fabric_loop, &fabric, &n->fabric, &n->err);
    if (rc != SW_OK)
        return rc;
    sw_hosts_lead_start(n->lead, n->fabric);
    sw_hosts_steps_start(n->steps, n->fabric);
    return SW_OK;
}

/* Hosts that have carried out something meet, as where a job merges values. */
static int meet(struct node *n)
{
    double one = 1;
    n->meetings++;
    return sw_hosts_lead_sum(n->lead, SW_HOSTS_RESULTS, &one, 1, &n->err);
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
        level |= dice % 100 == 1 ? 1 << n->host % 2 : 0;
        for (volatile unsigned spin = 0; spin < dice % 2000 * (unsigned)n->host; spin++)
            continue;

        int rc = sw_hosts_steps_decide(n->steps, t, own | level, &n->bits[t], &n->err);
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
    n->rc = open_node(n);
    n->opened = n->rc == SW_OK;
    if (n->rc == SW_OK)
        n->rc = run_steps(n);
    if (n->rc == SW_OK)
        n->left = sw_fabric_leave(n->fabric, 60000, &err);
    else if (n->fabric)
        sw_fabric_abort(n->fabric, &n->err, 60000);
    sw_fabric_free(n->fabric);
    n->fabric = NULL;
    sw_hosts_lead_free(n->lead);
    sw_hosts_steps_free(n->steps);
}

static struct node *run_nodes(int hosts, const struct sw_loop_conf *conf, struct sw_loop **loop)
{
    struct node *nodes = calloc((size_t)hosts, sizeof *nodes);
    struct sw_err err;
    assert_non_null(nodes);
    ASSERT_OK(sw_loop_new(conf, loop, &err));
    for (int i = 0; i < hosts; i++) {
        nodes[i].host = i;
        nodes[i].hosts = hosts;
        nodes[i].seed = (unsigned)conf->seed * 31 + (unsigned)i;
        nodes[i].loop = *loop;
        nodes[i].list = (struct sw_hosts){.host = names, .count = hosts, .own = i};
    }
    for (int i = 0; i < hosts; i++)
        ASSERT_OK(sw_thread_start(&nodes[i].thread, "host", node_main, &nodes[i], &err));
    for (int i = 0; i < hosts; i++)
        sw_thread_join(&nodes[i].thread);
    return nodes;
}

static void requests_are_carried_out_together(void **state)
{
    int requests = 0;
    for (int hosts = 2; hosts <= MOST; hosts++)
        for (uint64_t seed = 1; seed <= 10; seed++) {
            const struct sw_loop_conf conf = {.hosts = hosts, .seed = seed};
            struct sw_loop *loop;
            struct node *nodes = run_nodes(hosts, &conf, &loop);
            for (int i = 0; i < hosts; i++) {
                if (nodes[i].rc != SW_OK)
                    print_error("host %d: %s\n", i, nodes[i].err.text);
                assert_int_equal(nodes[i].rc, SW_OK);
                assert_int_equal(nodes[i].left, SW_OK);
                assert_memory_equal(nodes[i].bits, nodes[0].bits, sizeof nodes[0].bits);
                assert_int_equal(nodes[i].meetings, nodes[0].meetings);
            }
            for (int t = 1; t <= STEPS; t++)
                requests += nodes[0].bits[t] != 0;
            free(nodes);
            sw_loop_free(loop);
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
            struct sw_loop *loop;
            struct node *nodes = run_nodes(3, &conf, &loop);
            const struct node *zero = &nodes[0], *other = &nodes[killed == 2 ? 1 : 2];
            if (killed == 0 && zero->rc != SW_OK)
                assert_true(other->rc != SW_OK && nodes[1].rc != SW_OK);
            if (killed != 0 && zero->opened && other->opened) {
                assert_int_equal(zero->rc, SW_OK);
                assert_int_equal(other->rc, SW_OK);
                assert_memory_equal(other->bits, zero->bits, sizeof zero->bits);
                survived += nodes[killed].rc != SW_OK;
            }
            free(nodes);
            sw_loop_free(loop);
        }
    assert_true(survived > 10);
}

static void open_second(void *node)
{
    struct node *n = node;
    n->rc = open_node(n);
}

/* Host 0 wakes another one, after which both carry out something. */
static void wakes_a_resting_host(void **state)
{
    const struct sw_loop_conf conf = {.hosts = 2};
    struct sw_loop *loop;
    struct sw_err err;
    struct node node[2] = {{0}};
    ASSERT_OK(sw_loop_new(&conf, &loop, &err));
    for (int i = 0; i < 2; i++)
        node[i] = (struct node){
            .host = i, .hosts = 2, .loop = loop, .list = {.host = names, .count = 2, .own = i}};

    struct sw_thread opener;
    ASSERT_OK(sw_thread_start(&opener, "host", open_second, &node[1], &err));
    ASSERT_OK(open_node(&node[0]));
    sw_thread_join(&opener);
    assert_int_equal(node[1].rc, SW_OK);

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
    for (int i = 0; i < 2; i++) {
        sw_fabric_close_v(node[i].fabric);
        sw_fabric_free(node[i].fabric);
        sw_hosts_lead_free(node[i].lead);
        sw_hosts_steps_free(node[i].steps);
    }
    sw_loop_free(loop);
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
