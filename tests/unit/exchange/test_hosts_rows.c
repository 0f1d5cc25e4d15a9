/* ctest-labels: threads
 * ctest-timeout: 120
 * Rows gathered over hosts: every host has all rows of every version, whatever overtakes what, and
 * a host that is a version ahead overwrites nothing. What nobody waits for loses its sender. */
#include "unit/exchange/peer_support.h"

#include "exchange/hosts/hosts_rows.h"

enum { ITEMS = 2, VERSIONS = 40, WIDTH = 40, ROWS = 42 };

static const struct sw_hosts_rows_item items[ITEMS] = {
    {.inputs = 37, .outputs = 5, .rows = 17, .together = 1, .urgency = 2},
    {.inputs = 3, .outputs = 40, .rows = 42, .together = 3, .urgency = 1}};

struct node {
    struct peer peer;
    struct sw_hosts_rows *rows;
    struct sw_fabric_router router;
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
    const struct sw_hosts_rows_args args = {.hosts = n->peer.hosts,
                                            .own = n->peer.host,
                                            .items = items,
                                            .count = ITEMS,
                                            .gathered = on_gathered,
                                            .user = n};
    int rc = sw_hosts_rows_new(&args, &n->rows, &n->peer.err);
    if (rc != SW_OK)
        return rc;
    sw_fabric_router_add(&n->router, SW_HOSTS_X, 2, sw_hosts_rows_sink(n->rows));
    sw_fabric_router_add(&n->router, 0, 0, (struct sw_fabric_sink){.lost = on_lost, .user = n});
    rc = peer_open(&n->peer, sw_fabric_router_sink(&n->router), sw_hosts_rows_room(n->rows) + 1);
    if (rc == SW_OK)
        sw_hosts_rows_start(n->rows, n->peer.fabric);
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
    int64_t groups = c->rows / c->together, each = groups / n->peer.hosts,
            more = groups % n->peer.hosts;
    int64_t first =
        (n->peer.host * each + (n->peer.host < more ? n->peer.host : more)) * c->together;
    int64_t count = (each + (n->peer.host < more)) * c->together;

    for (int64_t row = 0; row < c->rows; row++)
        if (row < first || row >= first + count) {
            memset(&n->x[item][row * c->inputs], 0xff, (size_t)c->inputs * sizeof(float));
            memset(&n->dy[item][row * c->outputs], 0xff, (size_t)c->outputs * sizeof(float));
        }
}

static void run_node(void *user)
{
    struct node *n = user;

    n->peer.rc = open_node(n);
    for (uint64_t v = 1; v <= VERSIONS && n->peer.rc == SW_OK; v++) {
        for (int item = 0; item < ITEMS && n->peer.rc == SW_OK; item++) {
            visit(n, item, v, true);
            spoil_others(n, item);
            n->peer.rc =
                sw_hosts_rows_give(n->rows, item, v, n->x[item], n->dy[item], &n->peer.err);
        }
        for (int item = 0; item < ITEMS && n->peer.rc == SW_OK; item++)
            if (!wait_gathered(n, item, v) || !visit(n, item, v, false))
                n->peer.rc = sw_err_set(&n->peer.err, SW_ERR_FORMAT, "host %d, item %d, version %d",
                                        n->peer.host, item, (int)v);
    }
    if (n->peer.rc == SW_OK)
        n->peer.rc = sw_fabric_leave(n->peer.fabric, 60000, &n->peer.err);
}

static void fini(void *user)
{
    struct node *n = user;
    sw_hosts_rows_free(n->rows);
    sw_cond_fini(&n->changed);
    sw_mutex_fini(&n->lock);
}

static struct node *run_all(const struct sw_loop_conf *conf, void (*main)(void *node))
{
    struct node *nodes = peers_new(conf, sizeof *nodes);
    for (int i = 0; i < conf->hosts; i++) {
        sw_mutex_init(&nodes[i].lock);
        sw_cond_init(&nodes[i].changed);
    }
    peers_run(nodes, main);
    assert_ran(nodes);
    return nodes;
}

static void every_host_has_all_rows(void **state)
{
    for (int hosts = 2; hosts <= MOST; hosts++)
        for (uint64_t seed = 0; seed < 4; seed++) {
            const struct sw_loop_conf conf = {.hosts = hosts, .seed = seed, .window = 2};
            peers_free(run_all(&conf, run_node), fini);
        }
}

static void only_open(void *user)
{
    struct node *n = user;
    n->peer.rc = open_node(n);
}

static struct node *two_open(void)
{
    return run_all(&(struct sw_loop_conf){.hosts = 2}, only_open);
}

static void what_nobody_waits_for_is_refused(void **state)
{
    static float data[ROWS * WIDTH];
    enum { X0 = 9 * 37 * 4 }; /* host 0's rows of item 0 */
    const struct {
        struct sw_fabric_tag tag;
        size_t bytes;
    } bad[] = {
        {{.kind = SW_HOSTS_X, .urgency = 2, .item = 7, .version = 1}, X0}, /* no such item */
        {{.kind = SW_HOSTS_X, .urgency = 2, .item = 0, .version = 0}, X0}, /* an old version */
        {{.kind = SW_HOSTS_X, .urgency = 2, .item = 0, .version = 3}, X0}, /* too early a version */
        {{.kind = SW_HOSTS_X, .urgency = 1, .item = 0, .version = 1}, X0}, /* of another urgency */
        {{.kind = SW_HOSTS_X, .urgency = 2, .item = 0, .version = 1}, X0 + 4}, /* too long */
        {{.kind = SW_HOSTS_DY, .urgency = 2, .item = 0, .version = 1},
         X0}, /* the size of the other array */
        {{.kind = SW_HOSTS_DY + 1, .urgency = 2, .item = 0, .version = 1},
         X0}, /* a kind that nobody has */
    };

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct node *nodes = two_open();
        struct sw_err err;
        ASSERT_OK(sw_fabric_send(nodes[0].peer.fabric, 1, &bad[i].tag, data, bad[i].bytes, NULL,
                                 NULL, &err));
        assert_false(wait_gathered(&nodes[1], 0, 1));
        peers_free(nodes, fini);
    }
}

/* The same rows twice. */
static void rows_come_once(void **state)
{
    static float data[ROWS * WIDTH];
    const struct sw_fabric_tag tag = {.kind = SW_HOSTS_X, .urgency = 2, .item = 0, .version = 2};
    struct node *nodes = two_open();
    struct sw_err err;

    for (int i = 0; i < 2; i++)
        ASSERT_OK(
            sw_fabric_send(nodes[0].peer.fabric, 1, &tag, data, 9 * 37 * 4, NULL, NULL, &err));
    assert_false(wait_gathered(&nodes[1], 0, 1));
    peers_free(nodes, fini);
}

static void versions_come_one_after_the_other(void **state)
{
    struct node *nodes = two_open();
    struct sw_err err;

    struct node *n = &nodes[0];
    assert_int_equal(sw_hosts_rows_give(n->rows, 0, 2, n->x[0], n->dy[0], &err), SW_ERR_INVALID);
    ASSERT_OK(sw_hosts_rows_give(n->rows, 0, 1, n->x[0], n->dy[0], &err));
    assert_int_equal(sw_hosts_rows_give(n->rows, 0, 1, n->x[0], n->dy[0], &err), SW_ERR_INVALID);
    assert_int_equal(sw_hosts_rows_give(n->rows, 0, 2, n->x[0], n->dy[0], &err), SW_ERR_INVALID);
    peers_free(nodes, fini);
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
