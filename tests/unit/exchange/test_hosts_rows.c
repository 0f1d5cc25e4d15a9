/* ctest-labels: threads
 * ctest-timeout: 120
 * Rows gathered over hosts: every host has all rows of every version, whatever overtakes what, and
 * a host that is a version ahead overwrites nothing. What nobody waits for loses its sender. */
#include "exchange/hosts/hosts_rows.h"
#include "exchange/hosts/loop.h"
#include "exchange/hosts/router.h"
#include "thread/thread.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MOST = 4, ITEMS = 2, VERSIONS = 40, WIDTH = 40, ROWS = 42 };

#define ASSERT_OK(call)                                                                            \
    do {                                                                                           \
        int code_ = (call);                                                                        \
        if (code_ != SW_OK)                                                                        \
            print_error("%s\n", err.text);                                                         \
        assert_int_equal(code_, SW_OK);                                                            \
    } while (0)

static const struct sw_hosts_rows_item items[ITEMS] = {
    {.inputs = 37, .outputs = 5, .rows = 17, .together = 1, .urgency = 2},
    {.inputs = 3, .outputs = 40, .rows = 42, .together = 3, .urgency = 1}};
static const struct sw_host names[MOST] = {
    {.name = "ada"}, {.name = "bob"}, {.name = "cyd"}, {.name = "dan"}};

struct node {
    int host, hosts, rc;
    struct sw_loop *loop;
    struct sw_hosts list;
    struct sw_hosts_rows *rows;
    struct sw_fabric_router router;
    struct sw_fabric *fabric;
    struct sw_thread thread;
    struct sw_err err;
    float x[ITEMS][ROWS * WIDTH], dy[ITEMS][ROWS * WIDTH];
    struct sw_mutex lock; /* guards all below */
    struct sw_cond changed;
    uint64_t gathered[ITEMS];
    int lost;
};

static void on_gathered(void *user, int item, uint64_t version)
{
    struct node *n = user;
    sw_mutex_lock(&n->lock);
    assert_int_equal(version, n->gathered[item] + 1);
    n->gathered[item] = version;
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

static bool wait_gathered(struct node *n, int item, uint64_t version)
{
    sw_mutex_lock(&n->lock);
    while (n->gathered[item] < version && !n->lost)
        sw_cond_wait(&n->changed, &n->lock);
    bool is = n->gathered[item] >= version;
    sw_mutex_unlock(&n->lock);
    return is;
}

static int open_node(struct node *n)
{
    const struct sw_hosts_rows_args args = {.hosts = n->hosts,
                                            .own = n->host,
                                            .items = items,
                                            .count = ITEMS,
                                            .gathered = on_gathered,
                                            .user = n};
    int rc = sw_hosts_rows_new(&args, &n->rows, &n->err);
    if (rc != SW_OK)
        return rc;
    sw_fabric_router_add(&n->router, SW_HOSTS_X, 2, sw_hosts_rows_sink(n->rows));
    sw_fabric_router_add(&n->router, 0, 0, (struct sw_fabric_sink){.lost = on_lost, .user = n});
    const struct sw_fabric_args fabric = {.hosts = &n->list,
                                          .room = sw_hosts_rows_room(n->rows) + 1,
                                          .sink = sw_fabric_router_sink(&n->router),
                                          .conf = sw_loop_end(n->loop, n->host),
                                          .clock = sw_loop_clock(n->loop, n->host)};
    rc = sw_fabric_open(&sw_fabric_loop, &fabric, &n->fabric, &n->err);
    if (rc == SW_OK)
        sw_hosts_rows_start(n->rows, n->fabric);
    return rc;
}

static float value(int item, uint64_t version, int64_t row, int64_t i, bool is_dy)
{
    return (float)((item * 31 + (int)version * 7 + (int)row * 13 + (int)i * 3 + is_dy) % 1009);
}

/* Writes all rows of a version, or checks them. */
static bool visit(struct node *n, int item, uint64_t version, bool write)
{
    const struct sw_hosts_rows_item *c = &items[item];

    for (int64_t row = 0; row < c->rows; row++)
        for (int64_t i = 0; i < c->inputs + c->outputs; i++) {
            bool is_dy = i >= c->inputs;
            int64_t k = is_dy ? i - c->inputs : i;
            float *at =
                is_dy ? &n->dy[item][row * c->outputs + k] : &n->x[item][row * c->inputs + k];
            float want = value(item, version, row, k, is_dy);
            if (write)
                *at = want;
            else if (*at != want)
                return false;
        }
    return true;
}

/* Spoils the rows that others are to bring. The parts are those of base/tree.h. */
static void spoil_others(struct node *n, int item)
{
    const struct sw_hosts_rows_item *c = &items[item];
    int64_t groups = c->rows / c->together, each = groups / n->hosts, more = groups % n->hosts;
    int64_t first = (n->host * each + (n->host < more ? n->host : more)) * c->together;
    int64_t count = (each + (n->host < more)) * c->together;

    for (int64_t row = 0; row < c->rows; row++)
        if (row < first || row >= first + count) {
            memset(&n->x[item][row * c->inputs], 0xff, (size_t)c->inputs * sizeof(float));
            memset(&n->dy[item][row * c->outputs], 0xff, (size_t)c->outputs * sizeof(float));
        }
}

static void run_node(void *user)
{
    struct node *n = user;

    n->rc = open_node(n);
    for (uint64_t v = 1; v <= VERSIONS && n->rc == SW_OK; v++) {
        for (int item = 0; item < ITEMS && n->rc == SW_OK; item++) {
            visit(n, item, v, true);
            spoil_others(n, item);
            n->rc = sw_hosts_rows_give(n->rows, item, v, n->x[item], n->dy[item], &n->err);
        }
        for (int item = 0; item < ITEMS && n->rc == SW_OK; item++)
            if (!wait_gathered(n, item, v) || !visit(n, item, v, false))
                n->rc = sw_err_set(&n->err, SW_ERR_FORMAT, "host %d, item %d, version %d", n->host,
                                   item, (int)v);
    }
    if (n->rc == SW_OK)
        n->rc = sw_fabric_leave(n->fabric, 60000, &n->err);
}

static void begin(struct node *nodes, int hosts, struct sw_loop *loop)
{
    for (int i = 0; i < hosts; i++) {
        nodes[i] = (struct node){.host = i, .hosts = hosts, .loop = loop};
        nodes[i].list = (struct sw_hosts){.host = names, .count = hosts, .own = i};
        sw_mutex_init(&nodes[i].lock);
        sw_cond_init(&nodes[i].changed);
    }
}

static void run_all(struct node *nodes, int hosts, void (*main)(void *node))
{
    struct sw_err err;
    for (int i = 0; i < hosts; i++)
        ASSERT_OK(sw_thread_start(&nodes[i].thread, "host", main, &nodes[i], &err));
    for (int i = 0; i < hosts; i++)
        sw_thread_join(&nodes[i].thread);
    for (int i = 0; i < hosts; i++) {
        err = nodes[i].err;
        ASSERT_OK(nodes[i].rc);
    }
}

static void end(struct node *nodes, int hosts)
{
    for (int i = 0; i < hosts; i++) {
        sw_fabric_free(nodes[i].fabric);
        sw_hosts_rows_free(nodes[i].rows);
        sw_cond_fini(&nodes[i].changed);
        sw_mutex_fini(&nodes[i].lock);
    }
}

static void every_host_has_all_rows(void **state)
{
    struct node *nodes = calloc(MOST, sizeof *nodes);
    struct sw_err err;

    for (int hosts = 2; hosts <= MOST; hosts++)
        for (uint64_t seed = 0; seed < 4; seed++) {
            struct sw_loop *loop;
            ASSERT_OK(sw_loop_new(&(struct sw_loop_conf){.hosts = hosts, .seed = seed, .window = 2},
                                  &loop, &err));
            begin(nodes, hosts, loop);
            run_all(nodes, hosts, run_node);
            end(nodes, hosts);
            sw_loop_free(loop);
        }
    free(nodes);
}

static void only_open(void *user)
{
    struct node *n = user;
    n->rc = open_node(n);
}

static void what_nobody_waits_for_is_refused(void **state)
{
    static float data[ROWS * WIDTH];
    enum { X0 = 9 * 37 * 4 }; /* host 0's rows of item 0 */
    const struct {
        struct sw_fabric_tag tag;
        size_t bytes;
    } bad[] = {
        {{SW_HOSTS_X, 2, 7, 1}, X0},      /* no such item */
        {{SW_HOSTS_X, 2, 0, 0}, X0},      /* an old version */
        {{SW_HOSTS_X, 2, 0, 3}, X0},      /* too early a version */
        {{SW_HOSTS_X, 1, 0, 1}, X0},      /* of another urgency */
        {{SW_HOSTS_X, 2, 0, 1}, X0 + 4},  /* too long */
        {{SW_HOSTS_DY, 2, 0, 1}, X0},     /* the size of the other array */
        {{SW_HOSTS_DY + 1, 2, 0, 1}, X0}, /* a kind that nobody has */
    };
    struct node *nodes = calloc(2, sizeof *nodes);

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct sw_loop *loop;
        struct sw_err err;
        ASSERT_OK(sw_loop_new(&(struct sw_loop_conf){.hosts = 2}, &loop, &err));
        begin(nodes, 2, loop);
        run_all(nodes, 2, only_open);
        ASSERT_OK(
            sw_fabric_send(nodes[0].fabric, 1, &bad[i].tag, data, bad[i].bytes, NULL, NULL, &err));
        assert_false(wait_gathered(&nodes[1], 0, 1));
        end(nodes, 2);
        sw_loop_free(loop);
    }
    free(nodes);
}

/* The same rows twice. */
static void rows_come_once(void **state)
{
    static float data[ROWS * WIDTH];
    const struct sw_fabric_tag tag = {SW_HOSTS_X, 2, 0, 2};
    struct node *nodes = calloc(2, sizeof *nodes);
    struct sw_loop *loop;
    struct sw_err err;

    ASSERT_OK(sw_loop_new(&(struct sw_loop_conf){.hosts = 2}, &loop, &err));
    begin(nodes, 2, loop);
    run_all(nodes, 2, only_open);
    for (int i = 0; i < 2; i++)
        ASSERT_OK(sw_fabric_send(nodes[0].fabric, 1, &tag, data, 9 * 37 * 4, NULL, NULL, &err));
    assert_false(wait_gathered(&nodes[1], 0, 1));
    end(nodes, 2);
    sw_loop_free(loop);
    free(nodes);
}

static void versions_come_one_after_the_other(void **state)
{
    struct node *nodes = calloc(2, sizeof *nodes);
    struct sw_loop *loop;
    struct sw_err err;

    ASSERT_OK(sw_loop_new(&(struct sw_loop_conf){.hosts = 2}, &loop, &err));
    begin(nodes, 2, loop);
    run_all(nodes, 2, only_open);
    struct node *n = &nodes[0];
    assert_int_equal(sw_hosts_rows_give(n->rows, 0, 2, n->x[0], n->dy[0], &err), SW_ERR_INVALID);
    ASSERT_OK(sw_hosts_rows_give(n->rows, 0, 1, n->x[0], n->dy[0], &err));
    assert_int_equal(sw_hosts_rows_give(n->rows, 0, 1, n->x[0], n->dy[0], &err), SW_ERR_INVALID);
    assert_int_equal(sw_hosts_rows_give(n->rows, 0, 2, n->x[0], n->dy[0], &err), SW_ERR_INVALID);
    end(nodes, 2);
    sw_loop_free(loop);
    free(nodes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_host_has_all_rows),
        cmocka_unit_test(what_nobody_waits_for_is_refused),
        cmocka_unit_test(rows_come_once),
        cmocka_unit_test(versions_come_one_after_the_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
