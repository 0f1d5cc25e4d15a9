/* ctest-labels: threads
 * The measurement of links, on hosts that are threads: every host learns all links, loads arrive,
 * and a host that is lost is named. */
#include "run/link_test.h"

#include "exchange/hosts/loop.h"
#include "thread/thread.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { MOST = 4 };

struct node {
    struct sw_loop *loop;
    struct sw_hosts hosts;
    struct sw_thread thread;
    struct sw_link links[MOST * MOST];
    double figures[MOST][SW_LINK_FIGURES];
    int rc;
    struct sw_err err;
};

static bool shortly; /* set while no host runs */

static void node_main(void *user)
{
    struct node *n = user;
    const struct sw_link_test_args args = {.hosts = &n->hosts,
                                           .engine = &sw_fabric_loop,
                                           .conf = sw_loop_end(n->loop, n->hosts.own),
                                           .clock = sw_loop_clock(n->loop, n->hosts.own),
                                           .bytes = 9 << 20,
                                           .seconds = shortly ? 0.01 : 0,
                                           .hello = shortly ? "job=x\n" : NULL,
                                           .figures = shortly ? n->figures : NULL};

    n->figures[n->hosts.own][0] = n->hosts.own + 0.5;
    n->figures[n->hosts.own][1] = n->hosts.own * 1e11;
    n->rc = sw_link_test(&args, n->links, NULL, NULL, &n->err);
}

static void run(struct node *node, const struct sw_loop_conf *conf)
{
    static const struct sw_host names[MOST] = {
        {"ada", NULL}, {"bob", NULL}, {"cyd", NULL}, {"dan", NULL}};
    struct sw_loop *loop;
    struct sw_err err;

    assert_int_equal(sw_loop_new(conf, &loop, &err), SW_OK);
    for (int i = 0; i < conf->hosts; i++) {
        node[i] =
            (struct node){.loop = loop, .hosts = {.host = names, .count = conf->hosts, .own = i}};
        assert_int_equal(sw_thread_start(&node[i].thread, "host", node_main, &node[i], &err),
                         SW_OK);
    }
    for (int i = 0; i < conf->hosts; i++)
        sw_thread_join(&node[i].thread);
    sw_loop_free(loop);
}

static void all_hosts_learn_all_links(void **state)
{
    for (int hosts = 2; hosts <= MOST; hosts++) {
        static struct node node[MOST];

        run(node, &(struct sw_loop_conf){.hosts = hosts, .seed = (uint64_t)hosts});
        for (int i = 0; i < hosts; i++) {
            if (node[i].rc != SW_OK)
                fail_msg("%s", node[i].err.text);
            assert_memory_equal(node[i].links, node[0].links,
                                (size_t)hosts * hosts * sizeof(struct sw_link));
        }
        for (int i = 0; i < hosts * hosts; i++) {
            assert_int_equal(node[0].links[i].bytes_per_s > 0, i / hosts != i % hosts);
            assert_int_equal(node[0].links[i].round_trip_s > 0, i / hosts != i % hosts);
        }
    }
}

static void a_lost_host_is_named(void **state)
{
    static struct node node[MOST];

    run(node, &(struct sw_loop_conf){.hosts = 3, .kill_host = 2, .kill_chunk = 40});
    for (int i = 0; i < 2; i++) {
        assert_int_not_equal(node[i].rc, SW_OK);
        assert_non_null(strstr(node[i].err.text, "cyd"));
    }
    assert_int_not_equal(node[2].rc, SW_OK);
}

/* Loads that grow end in time, and figures go to all. */
static void a_short_test_tells_figures_of_all_hosts(void **state)
{
    static struct node node[MOST];

    memset(node, 0, sizeof node);
    shortly = true;
    run(node, &(struct sw_loop_conf){.hosts = 3, .seed = 5});
    shortly = false;
    for (int i = 0; i < 3; i++) {
        if (node[i].rc != SW_OK)
            fail_msg("%s", node[i].err.text);
        for (int k = 0; k < 9; k++)
            assert_int_equal(node[i].links[k].bytes_per_s > 0, k / 3 != k % 3);
        for (int k = 0; k < 3; k++) {
            assert_true(node[i].figures[k][0] == k + 0.5);
            assert_true(node[i].figures[k][1] == k * 1e11);
        }
    }
}

static void the_slowest_link_gives_the_time_of_an_exchange(void **state)
{
    const struct sw_link links[4] = {{0, 0}, {100e6, 0.1}, {50e6, 0.5}, {0, 0}};
    assert_true(fabs(sw_link_exchange_s(links, 2, 25000000) - 2.5) < 1e-9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_hosts_learn_all_links),
        cmocka_unit_test(a_lost_host_is_named),
        cmocka_unit_test(a_short_test_tells_figures_of_all_hosts),
        cmocka_unit_test(the_slowest_link_gives_the_time_of_an_exchange),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
