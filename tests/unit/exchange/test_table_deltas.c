/* ctest-labels: threads
 * ctest-timeout: 120
 * Server groups on several hosts, one on each: deltas travel as messages, are added once wherever
 * their trees lead, and merges give all hosts the same bits, also when hosts die. The ledger is
 * that of test_sync.c: sgd at rate 1, and every gradient of host h is BASE^h. */
#include "unit/exchange/table_support.h"

#include "exchange/hosts/loop.h"
#include "exchange/hosts/table_deltas.h"
#include "exchange/hosts/tcp.h"
#include "thread/fault.h"
#include "unit/faulty_os.h"
#include <stdatomic.h>

enum { BASE = 64, MOST = 4, SERVERS = 2, VERSIONS = 18, MERGE_EVERY = 6, NEVER = 1000 };

static const int weights[MOST] = {1, BASE, BASE *BASE, BASE *BASE *BASE};

struct setting {
    int hosts;
    int64_t period;
    const char *pairs; /* "0-1 1-2" */
    bool hogwild;
    bool tcp;
    uint64_t seed;
    int64_t kill_chunk; /* loop: of kill_host; 0: never */
    int kill_host;
    uint64_t dies_after; /* tcp: kill_host ends without a word after this step */
    bool dies_at_once;   /* tcp: before the others have connected their tables with the fabric */
};

struct crowd;

struct host {
    struct crowd *crowd;
    struct sw_hosts list;
    struct stand stand;
    struct sw_sync *sync;
    struct sw_table_deltas deltas;
    struct sw_fabric_router router;
    struct sw_fabric *fabric;
    struct sw_fault fault;
    struct sw_thread thread, server[SERVERS];
    int serving[SERVERS];
    int rc, wrong, allocations;
    bool opened;
    atomic_bool loses; /* it was told of a loss */
    uint64_t merged;   /* bits of hosts: of the last merge */
    struct sw_err err;
};

struct crowd {
    const struct setting *setting;
    struct sw_loop *loop;
    struct sw_tcp_conf tcp;
    struct sw_host names[MOST];
    struct host host[MOST];
    struct sw_mutex lock; /* guards came */
    struct sw_cond changed;
    int came;           /* hosts that have tried to open their fabrics */
    atomic_int fabrics; /* that are open */
};

static void dawdle(struct rng *r)
{
    struct timespec t = {.tv_nsec = (long)rng_int(r, 0, 100) * 1000};
    if (rng_int(r, 0, 2) == 0)
        nanosleep(&t, NULL);
}

/* ---- The ledger ---- */

static int updates_in(float value, int host)
{
    return (int)-value / weights[host] % BASE;
}

/* Counts elements with another number of own updates, or an impossible one of others. */
static int look_at(const struct host *h, int p, uint64_t done)
{
    const float *value = sw_table_value(h->stand.table, 0, p);
    int wrong = 0;
    for (int64_t e = 0; e < storage_of(&h->stand, p); e++)
        for (int g = 0; g < h->list.count; g++) {
            int n = updates_in(value[e], g);
            wrong += g == h->list.own ? n != (int)done : n < 0 || n > VERSIONS;
        }
    return wrong;
}

/* After a merge: everything of those that counted, and of nobody more than there is. */
static int look_at_merged(const struct host *h, uint64_t step)
{
    int wrong = 0;
    for (int p = 0; p < TABLE_PARAMS; p++) {
        const float *value = sw_table_param(h->stand.table, p)->value;
        for (int64_t e = 0; e < storage_of(&h->stand, p); e++)
            for (int g = 0; g < h->list.count; g++) {
                int n = updates_in(value[e], g);
                wrong += (h->merged >> g & 1) && !h->crowd->setting->hogwild
                             ? n != (int)step
                             : n < 0 || n > (int)step;
            }
    }
    return wrong;
}

/* ---- A host ---- */

static void serve(struct host *h, int index)
{
    struct rng rng = rng_of(77 + h->crowd->setting->seed * 10 + (uint64_t)index);
    struct sw_table *t = h->stand.table;
    struct sw_message m;
    struct sw_err err;
    int rc = SW_OK;
    while (rc == SW_OK && sw_queue_pop(sw_table_inbox(t, index), &m) == SW_OK) {
        dawdle(&rng);
        rc = sw_table_serve(t, index, &m, &err);
    }
    if (rc != SW_OK)
        sw_fault_set(&h->fault, "server", &err);
}

static void serve_first(void *host)
{
    serve(host, 0);
}

static void serve_second(void *host)
{
    serve(host, 1);
}

static int nothing_to_place(void *user, int from, const struct sw_fabric_tag *tag, size_t bytes,
                            void **to, struct sw_err *err)
{
    return SW_OK;
}

/* Only host 0 is needed. */
static void on_lost(void *user, int host, const struct sw_err *why)
{
    struct host *h = user;
    atomic_store(&h->loses, true);
    if (host == 0)
        sw_fault_set(&h->fault, "hosts", why);
}

static int make_sync(struct host *h, struct sw_err *err)
{
    struct sw_table *tables[MOST] = {NULL};
    bool neighbours[MOST * MOST] = {false};
    int n = h->list.count;
    for (const char *p = h->crowd->setting->pairs; *p; p += p[3] ? 4 : 3) {
        int a = p[0] - '0', b = p[2] - '0';
        if (a < n && b < n)
            neighbours[a * n + b] = neighbours[b * n + a] = true;
    }
    tables[h->list.own] = h->stand.table;
    return sw_sync_new(&(struct sw_sync_args){.tables = tables,
                                              .count = n,
                                              .period = h->crowd->setting->period,
                                              .neighbours = neighbours,
                                              .outer = sw_table_deltas_outer(&h->deltas)},
                       &h->sync, err);
}

static int make_table(struct host *h, struct sw_err *err)
{
    const struct setting *x = h->crowd->setting;
    int rc =
        try_stand(&h->stand,
                  &(struct plan_of_table){.workers = 1,
                                          .servers = SERVERS,
                                          .slice_elements = 500,
                                          .init = SW_INIT_CONSTANT,
                                          .groups = 1,
                                          .others = x->hosts,
                                          .staleness = -1,
                                          .rule = x->hogwild ? &sw_table_hogwild : &sw_table_async},
                  err);
    for (int p = 0; p < TABLE_PARAMS && rc == SW_OK; p++)
        for (int64_t e = 0; e < storage_of(&h->stand, p); e++)
            sw_table_param(h->stand.table, p)->gradient[0][e] = (float)weights[h->list.own];
    return rc == SW_OK ? make_sync(h, err) : rc;
}

static int open_fabric(struct host *h, struct sw_err *err)
{
    struct crowd *c = h->crowd;
    bool tcp = c->setting->tcp;
    const struct sw_fabric_args args = {.hosts = &h->list,
                                        .room = sw_table_deltas_room(&h->deltas),
                                        .silence_ms = 600000, /* a slow machine loses no host */
                                        .connect_ms = 600000,
                                        .sink = sw_fabric_router_sink(&h->router),
                                        .conf = tcp ? (const void *)&c->tcp
                                                    : sw_loop_end(c->loop, h->list.own),
                                        .clock = tcp ? NULL : sw_loop_clock(c->loop, h->list.own)};
    return sw_fabric_open(tcp ? &sw_fabric_tcp : &sw_fabric_loop, &args, &h->fabric, err);
}

static int connect_host(struct host *h, struct sw_err *err)
{
    const struct setting *x = h->crowd->setting;
    int rc = sw_table_deltas_init(&h->deltas, h->sync, &h->list, err);
    if (rc != SW_OK)
        return rc;
    sw_table_deltas_receive(&h->deltas, &h->router);
    sw_fabric_router_add(
        &h->router, 0, 0,
        (struct sw_fabric_sink){.place = nothing_to_place, .lost = on_lost, .user = h});
    rc = open_fabric(h, err);
    if (rc != SW_OK)
        return rc;
    atomic_fetch_add(&h->crowd->fabrics, 1);
    if (x->dies_at_once && h->list.own == x->kill_host) {
        while (atomic_load(&h->crowd->fabrics) < x->hosts)
            sw_thread_nap(1000000);
        sw_fabric_free(h->fabric);
        h->fabric = NULL;
        return sw_err_set(err, SW_ERR_LOST, "it dies");
    }
    while (x->dies_at_once && !atomic_load(&h->loses))
        sw_thread_nap(1000000);
    sw_table_deltas_start(&h->deltas, h->fabric);
    sw_sync_broadcast(h->sync, 0, true);
    sw_table_refresh(h->stand.table, 0);
    sw_table_deltas_resume(&h->deltas);
    rc = sw_fault_attach(&h->fault, sw_table_close_v, h->stand.table, err);
    return rc == SW_OK ? sw_fault_attach(&h->fault, sw_table_deltas_close_v, &h->deltas, err) : rc;
}

/* Nobody sends before all have opened, so that a death there is no failure to open. */
static void wait_for_others(struct crowd *c)
{
    sw_mutex_lock(&c->lock);
    c->came++;
    sw_cond_broadcast(&c->changed);
    while (c->came < c->setting->hosts)
        sw_cond_wait(&c->changed, &c->lock);
    sw_mutex_unlock(&c->lock);
}

static int wait_version(struct host *h, uint64_t version)
{
    int rc = SW_OK;
    for (int p = 0; p < TABLE_PARAMS && rc == SW_OK; p++)
        do {
            rc = sw_table_wait(h->stand.table, 0, p, version, NULL, 0, 1000);
        } while (rc == SW_ERR_BUSY);
    return rc;
}

static int merge(struct host *h, uint64_t step)
{
    int rc = wait_version(h, step);
    while (rc == SW_OK && !sw_table_deltas_is_quiet(&h->deltas)) {
        if (sw_fault_is_set(&h->fault))
            rc = SW_ERR_CANCELLED;
        sw_thread_yield();
    }
    if (rc == SW_OK)
        rc = sw_table_deltas_merge(&h->deltas, step, &h->merged, &h->err);
    if (rc == SW_OK) {
        sw_table_refresh(h->stand.table, 0);
        h->wrong += look_at_merged(h, step);
        sw_table_deltas_resume(&h->deltas);
    }
    return rc;
}

static int work(struct host *h)
{
    const struct setting *x = h->crowd->setting;
    struct rng rng = rng_of(5 + x->seed * 10 + (uint64_t)h->list.own);
    int rc = SW_OK;
    for (uint64_t v = 1; v <= VERSIONS && rc == SW_OK; v++) {
        rc = wait_version(h, v - 1);
        for (int p = 0; p < TABLE_PARAMS && rc == SW_OK && !x->hogwild; p++)
            h->wrong += look_at(h, p, v - 1);
        dawdle(&rng);
        for (int p = TABLE_PARAMS - 1; p >= 0 && rc == SW_OK; p--)
            rc = sw_table_update(h->stand.table, 0, p, v, &h->err);
        if (rc == SW_OK && v == x->dies_after && h->list.own == x->kill_host)
            return sw_err_set(&h->err, SW_ERR_LOST, "it dies");
        if (rc == SW_OK && v % MERGE_EVERY == 0)
            rc = merge(h, v);
    }
    return rc;
}

static int calls_of_allocation(void)
{
    return __atomic_load_n(&faulty.calls, __ATOMIC_RELAXED);
}

static void run_host(struct host *h)
{
    static void (*const servers[SERVERS])(void *) = {serve_first, serve_second};
    for (int i = 0; i < SERVERS && h->rc == SW_OK; i++) {
        h->rc = sw_thread_start(&h->server[i], "server", servers[i], h, &h->err);
        h->serving[i] = h->rc == SW_OK;
    }
    wait_for_others(h->crowd);
    int before = calls_of_allocation();
    if (h->rc == SW_OK)
        h->rc = work(h);
    h->allocations = calls_of_allocation() - before;
    if (h->rc == SW_OK)
        h->rc = sw_fabric_leave(h->fabric, 600000, &h->err);
    if (h->rc == SW_ERR_CANCELLED) /* the fault says why */
        h->rc = sw_fault_get(&h->fault, &h->err);
    sw_table_close_v(h->stand.table);
    for (int i = 0; i < SERVERS; i++)
        if (h->serving[i])
            sw_thread_join(&h->server[i]);
    sw_fabric_free(h->fabric);
    h->fabric = NULL;
}

static void host_main(void *user)
{
    struct host *h = user;
    h->rc = make_table(h, &h->err);
    if (h->rc == SW_OK)
        h->rc = connect_host(h, &h->err);
    h->opened = h->rc == SW_OK;
    run_host(h);
}

/* ---- All of them ---- */

static void crowd_run(struct crowd *c, const struct setting *x)
{
    static const char *const names[MOST] = {"ada", "bob", "cyd", "dan"};
    struct sw_err err;
    memset(c, 0, sizeof *c);
    c->setting = x;
    sw_mutex_init(&c->lock);
    sw_cond_init(&c->changed);
    if (x->tcp)
        ASSERT_OK(sw_tcp_listen("127.0.0.1", &c->tcp.port, &c->tcp.listener, &err));
    else
        ASSERT_OK(sw_loop_new(&(struct sw_loop_conf){.hosts = x->hosts,
                                                     .seed = x->seed,
                                                     .window = 1 + (int)(x->seed % 4),
                                                     .kill_host = x->kill_host,
                                                     .kill_chunk = x->kill_chunk},
                              &c->loop, &err));
    for (int i = 0; i < x->hosts; i++) {
        struct host *h = &c->host[i];
        c->names[i] = (struct sw_host){.name = names[i], .address = "127.0.0.1"};
        h->crowd = c;
        h->list = (struct sw_hosts){.host = c->names, .count = x->hosts, .own = i};
        sw_fault_init(&h->fault);
    }
    for (int i = 0; i < x->hosts; i++)
        ASSERT_OK(sw_thread_start(&c->host[i].thread, "host", host_main, &c->host[i], &err));
    for (int i = 0; i < x->hosts; i++)
        sw_thread_join(&c->host[i].thread);
}

static void crowd_end(struct crowd *c)
{
    for (int i = 0; i < c->setting->hosts; i++) {
        struct host *h = &c->host[i];
        sw_table_deltas_fini(&h->deltas);
        sw_sync_free(h->sync);
        stand_free(&h->stand);
        sw_fault_fini(&h->fault);
    }
    sw_loop_free(c->loop);
    sw_cond_fini(&c->changed);
    sw_mutex_fini(&c->lock);
}

/* The hosts of the bits ended well, and with the same bits. */
static void assert_equal(const struct crowd *c, uint64_t hosts)
{
    for (int i = 0; i < c->setting->hosts; i++) {
        const struct host *h = &c->host[i];
        if (!(hosts >> i & 1))
            continue;
        if (h->rc != SW_OK)
            print_error("host %d: %s\n", i, h->err.text);
        assert_int_equal(h->rc, SW_OK);
        assert_int_equal(h->wrong, 0);
        assert_int_equal(h->merged, c->host[0].merged);
        assert_true((h->merged & hosts) == hosts);
        for (int p = 0; p < TABLE_PARAMS; p++)
            assert_memory_equal(sw_table_param(h->stand.table, p)->value,
                                sw_table_param(c->host[0].stand.table, p)->value,
                                (size_t)storage_of(&h->stand, p) * sizeof(float));
    }
}

#define ALL "0-1 0-2 0-3 1-2 1-3 2-3"
#define RING4 "0-1 1-2 2-3 3-0"
#define TREE "0-1 0-2 1-3"
#define CHAIN "0-1 1-2 2-3"

static const struct setting settings[] = {
    {2, 1, ALL, .seed = 1},   {3, 1, ALL, .seed = 2},
    {4, 2, ALL, .seed = 3},   {4, 1, RING4, .seed = 4},
    {4, 1, TREE, .seed = 5},  {3, 3, CHAIN, .seed = 6},
    {4, 1, CHAIN, .seed = 7}, {3, 1, CHAIN, .seed = 8, .hogwild = true},
    {2, 4, ALL, .seed = 9},   {4, 1, TREE, .seed = 10, .hogwild = true},
};
enum { SETTINGS = sizeof settings / sizeof *settings };

static struct crowd crowd;

static void every_delta_is_added_once(void **state)
{
    for (int i = 0; i < SETTINGS; i++) {
        crowd_run(&crowd, &settings[i]);
        assert_equal(&crowd, UINT64_MAX >> (64 - settings[i].hosts));
        crowd_end(&crowd);
    }
}

static void every_delta_is_added_once_over_tcp(void **state)
{
    static const struct setting over[] = {{3, 1, CHAIN, .tcp = true, .seed = 1},
                                          {4, 1, TREE, .tcp = true, .seed = 2},
                                          {2, 1, ALL, .tcp = true, .seed = 3, .hogwild = true}};
    for (int i = 0; i < 3; i++) {
        crowd_run(&crowd, &over[i]);
        assert_equal(&crowd, UINT64_MAX >> (64 - over[i].hosts));
        crowd_end(&crowd);
    }
}

/* All but host `dead` go on; it finds that it has lost host 0. */
static void assert_survived(const struct crowd *c, int dead)
{
    const struct host *d = &c->host[dead];
    uint64_t all = UINT64_MAX >> (64 - c->setting->hosts);
    assert_int_equal(d->rc, SW_ERR_LOST);
    assert_int_equal(d->wrong, 0);
    assert_equal(c, all & ~((uint64_t)1 << dead));
}

static bool all_opened(const struct crowd *c)
{
    for (int i = 0; i < c->setting->hosts; i++)
        if (!c->host[i].opened)
            return false;
    return true;
}

static void others_go_on_wherever_a_host_dies(void **state)
{
    static const char *const pairs[] = {CHAIN, TREE, RING4, ALL};
    int died = 0;
    for (int64_t chunk = 13; chunk < 1500; chunk += 3 + chunk / 8) {
        struct setting x = {.hosts = 3 + (int)(chunk % 2),
                            .period = 1 + chunk % 3 / 2,
                            .seed = (uint64_t)chunk,
                            .kill_chunk = chunk,
                            .hogwild = chunk % 5 == 0};
        x.pairs = x.hosts == 3 ? CHAIN : pairs[chunk / 2 % 4];
        x.kill_host = 1 + (int)(chunk / 2 % (x.hosts - 1));
        crowd_run(&crowd, &x);
        bool lost = crowd.host[x.kill_host].rc == SW_ERR_LOST;
        if (all_opened(&crowd) && lost)
            assert_survived(&crowd, x.kill_host);
        else if (all_opened(&crowd)) /* it had left before the chunk of that number */
            assert_equal(&crowd, UINT64_MAX >> (64 - x.hosts));
        died += all_opened(&crowd) && lost;
        crowd_end(&crowd);
    }
    assert_true(died > 5);
}

static void others_go_on_when_a_host_dies_over_tcp(void **state)
{
    for (uint64_t step = 1; step <= VERSIONS; step += 4) {
        const struct setting x = {.hosts = 4,
                                  .period = 1,
                                  .pairs = step % 8 == 1 ? CHAIN : TREE,
                                  .tcp = true,
                                  .seed = step,
                                  .kill_host = 1 + (int)(step / 4 % 2),
                                  .dies_after = step};
        crowd_run(&crowd, &x);
        assert_survived(&crowd, x.kill_host);
        crowd_end(&crowd);
    }
}

/* What was lost is told when it can be. */
static void a_host_can_die_before_tables_are_connected(void **state)
{
    const struct setting x = {
        .hosts = 3, .period = 1, .pairs = CHAIN, .tcp = true, .kill_host = 1, .dies_at_once = true};
    crowd_run(&crowd, &x);
    assert_survived(&crowd, 1);
    crowd_end(&crowd);
}

static void all_end_when_host_0_dies(void **state)
{
    int died = 0;
    for (int64_t chunk = 20; chunk < 600; chunk += 10 + chunk / 8) {
        const struct setting x = {
            .hosts = 3, .period = 1, .pairs = CHAIN, .seed = (uint64_t)chunk, .kill_chunk = chunk};
        crowd_run(&crowd, &x);
        for (int i = 1; i < 3 && all_opened(&crowd); i++) {
            const struct host *h = &crowd.host[i];
            assert_true(h->rc == SW_OK || h->rc == SW_ERR_LOST);
            assert_int_equal(h->wrong, 0);
            if (h->rc == SW_OK)
                continue;
            assert_non_null(strstr(h->err.text, "ada"));
            died++;
        }
        crowd_end(&crowd);
    }
    assert_true(died > 3);
}

static void nothing_is_allocated_while_hosts_exchange(void **state)
{
    faulty_begin((struct faulty_plan){.kinds = FAULTY_ALLOC});
    crowd_run(&crowd, &settings[6]);
    assert_equal(&crowd, 15);
    for (int i = 0; i < 4; i++)
        assert_int_equal(crowd.host[i].allocations, 0);
    crowd_end(&crowd);
    assert_int_equal(faulty.live_allocations, 0);
    faulty_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_delta_is_added_once),
        cmocka_unit_test(every_delta_is_added_once_over_tcp),
        cmocka_unit_test(others_go_on_wherever_a_host_dies),
        cmocka_unit_test(others_go_on_when_a_host_dies_over_tcp),
        cmocka_unit_test(a_host_can_die_before_tables_are_connected),
        cmocka_unit_test(all_end_when_host_0_dies),
        cmocka_unit_test(nothing_is_allocated_while_hosts_exchange),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
