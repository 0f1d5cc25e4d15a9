/* ctest-labels: threads */
/* Server groups: what the workers of each changed reaches all others exactly once, over every
 * topology, under threads and random delays. The ledger: sgd at rate 1, and every gradient of
 * server group g is BASE^g, so that each element of a value says how many updates of which group
 * are in it, exactly: sums stay below 2^24. */
#include "table_support.h"

enum { BASE = 64, MOST = 4, SERVERS = 2, VERSIONS = 24 };

static const int weights[MOST] = {1, BASE, BASE *BASE, BASE *BASE *BASE};

struct setting {
    int tables, members, servers;
    int64_t period;
    bool hogwild;
    const char *pairs; /* "0-1 1-2" */
    bool phases;       /* each decides about all its gradients before it updates */
    int64_t after;     /* the last step before which nothing is exchanged */
};

struct world {
    const struct setting *setting;
    struct stand stand[MOST];
    struct sw_sync *sync;
};

static int make_sync(struct world *w, const char *pairs, struct sw_err *err)
{
    struct sw_table *tables[MOST];
    bool neighbours[MOST * MOST] = {false};
    int n = w->setting->tables;
    for (const char *p = pairs; *p; p += p[3] ? 4 : 3) {
        int a = p[0] - '0', b = p[2] - '0';
        neighbours[a * n + b] = neighbours[b * n + a] = true;
    }
    for (int i = 0; i < n; i++)
        tables[i] = w->stand[i].table;
    return sw_sync_new(&(struct sw_sync_args){.tables = tables,
                                              .count = n,
                                              .period = w->setting->period,
                                              .after = w->setting->after,
                                              .neighbours = neighbours},
                       &w->sync, err);
}

static void write_gradient(const struct world *w, int table, int param, int member)
{
    const struct stand *s = &w->stand[table];
    for (int64_t e = 0; e < storage_of(s, param); e++)
        sw_table_param(s->table, param)->gradient[member][e] = (float)weights[table];
}

static void world_new(struct world *w, const struct setting *x)
{
    struct sw_err err;
    *w = (struct world){.setting = x};
    for (int i = 0; i < x->tables; i++) {
        struct stand *s = &w->stand[i];
        stand_new(s, &(struct plan_of_table){
                         .workers = x->members,
                         .servers = x->servers,
                         .slice_elements = 500,
                         .init = SW_INIT_CONSTANT,
                         .groups = 1,
                         .others = x->tables,
                         .staleness = -1,
                         .rule = x->hogwild ? &sw_table_hogwild : &sw_table_async,
                         .two_phases = x->phases,
                     });
        for (int p = 0; p < TABLE_PARAMS; p++)
            for (int m = 0; m < x->members; m++)
                write_gradient(w, i, p, m);
    }
    ASSERT_OK(make_sync(w, x->pairs, &err));
    sw_sync_broadcast(w->sync, 0, true);
    for (int i = 0; i < x->tables; i++)
        sw_table_refresh(w->stand[i].table, 0);
}

static void world_free(struct world *w)
{
    sw_sync_free(w->sync);
    for (int i = 0; i < w->setting->tables; i++)
        stand_free(&w->stand[i]);
}

static int updates_in(float value, int group, int members)
{
    return (int)-value / weights[group] % BASE / members;
}

/* ---- threads ---- */

struct role {
    struct world *world;
    int table, index, wrong, seen; /* updates of others that were met */
    struct sw_thread thread;
    int rc;
};

static void dawdle(struct rng *r)
{
    struct timespec t = {.tv_nsec = (long)rng_int(r, 0, 200) * 1000};
    if (rng_int(r, 0, 2) == 0)
        nanosleep(&t, NULL);
}

/* All own updates, and of others no more than they made; the staleness that is told is what is
 * missing. */
static void look_at(struct role *r, int p, uint64_t v)
{
    const struct setting *x = r->world->setting;
    const struct stand *s = &r->world->stand[r->table];
    const float *value = sw_table_value(s->table, r->index, p);
    int lag = 0;
    for (int64_t e = 0; e < storage_of(s, p); e++)
        for (int g = 0; g < x->tables; g++) {
            int n = updates_in(value[e], g, x->members);
            r->wrong += g == r->table ? n != (int)v - 1 : n < 0 || n > VERSIONS;
            r->seen += g != r->table && n > 0;
            lag = (int)v - 1 - n > lag ? (int)v - 1 - n : lag;
        }
    /* It is taken for granted that the others rest before. */
    r->wrong += x->after == 0 && sw_table_staleness(s->table, 0, p, v - 1) != lag;
}

static void work(void *arg)
{
    struct role *r = arg;
    struct rng rng = rng_of(5 + (uint64_t)(10 * r->table + r->index));
    struct sw_table *t = r->world->stand[r->table].table;
    struct sw_err err;
    for (uint64_t v = 1; v <= VERSIONS && r->rc == SW_OK; v++) {
        for (int p = 0; p < TABLE_PARAMS && r->rc == SW_OK; p++) {
            r->rc = sw_table_wait(t, 0, p, v - 1, NULL, 0, 20000);
            if (r->rc == SW_OK && !r->world->setting->hogwild)
                look_at(r, p, v);
        }
        dawdle(&rng);
        for (int p = TABLE_PARAMS - 1; p >= 0 && r->rc == SW_OK; p--) {
            if (r->world->setting->phases) /* the sum was left in it */
                write_gradient(r->world, r->table, p, r->index);
            r->rc = sw_table_update(t, r->index, p, v, &err);
        }
    }
    for (int p = 0; p < TABLE_PARAMS && r->rc == SW_OK; p++)
        r->rc = sw_table_wait(t, SW_TABLE_ALL, p, VERSIONS, NULL, 0, 20000);
}

static void serve(void *arg)
{
    struct role *r = arg;
    struct rng rng = rng_of(77 + (uint64_t)(10 * r->table + r->index));
    struct sw_table *t = r->world->stand[r->table].table;
    struct sw_message m;
    struct sw_err err;
    while (r->rc == SW_OK && sw_queue_pop(sw_table_inbox(t, r->index), &m) == SW_OK) {
        dawdle(&rng);
        r->rc = sw_table_serve(t, r->index, &m, &err);
    }
}

static void start(struct role *r, struct world *w, int table, int index, void (*main)(void *))
{
    struct sw_err err;
    *r = (struct role){.world = w, .table = table, .index = index};
    ASSERT_OK(sw_thread_start(&r->thread, "role", main, r, &err));
}

/* To the end, until all deltas have come; updates of others that were met before. */
static int run_threads(struct world *w)
{
    const struct setting *x = w->setting;
    struct role worker[MOST][2], server[MOST][SERVERS];
    int seen = 0;
    for (int i = 0; i < x->tables; i++) {
        for (int j = 0; j < x->servers; j++)
            start(&server[i][j], w, i, j, serve);
        for (int j = 0; j < x->members; j++)
            start(&worker[i][j], w, i, j, work);
    }
    for (int i = 0; i < x->tables; i++)
        for (int j = 0; j < x->members; j++) {
            sw_thread_join(&worker[i][j].thread);
            assert_int_equal(worker[i][j].rc, SW_OK);
            assert_int_equal(worker[i][j].wrong, 0);
            seen += worker[i][j].seen;
        }
    while (!sw_sync_is_quiet(w->sync))
        sw_thread_yield();
    for (int i = 0; i < x->tables; i++)
        sw_table_close_v(w->stand[i].table);
    for (int i = 0; i < x->tables; i++)
        for (int j = 0; j < x->servers; j++) {
            sw_thread_join(&server[i][j].thread);
            assert_int_equal(server[i][j].rc, SW_OK);
        }
    return seen;
}

/* Without locks a worker's update and a delta may meet in an element, and one be lost; but all
 * groups agree on what is left. */
static void assert_all_have_all(const struct world *w)
{
    const struct setting *x = w->setting;
    for (int i = 0; i < x->tables; i++)
        for (int p = 0; p < TABLE_PARAMS; p++)
            for (int64_t e = 0; e < storage_of(&w->stand[i], p); e++)
                for (int g = 0; g < x->tables; g++)
                    if (x->hogwild)
                        assert_true(sw_table_param(w->stand[i].table, p)->value[e] ==
                                    sw_table_param(w->stand[0].table, p)->value[e]);
                    else
                        assert_int_equal(updates_in(sw_table_param(w->stand[i].table, p)->value[e],
                                                    g, x->members),
                                         VERSIONS);
}

#define ALL2 "0-1"
#define ALL4 "0-1 0-2 0-3 1-2 1-3 2-3"
#define RING4 "0-1 1-2 2-3 3-0"
#define TREE4 "0-1 0-2 1-3"
#define CHAIN3 "0-1 1-2"

static const struct setting settings[] = {
    {2, 1, 1, 1, false, ALL2, false, 0},  {2, 2, 2, 5, false, ALL2, false, 0},
    {4, 1, 2, 2, false, ALL4, false, 0},  {4, 1, 1, 1, false, RING4, false, 0},
    {4, 1, 2, 3, false, TREE4, false, 0}, {3, 2, 1, 1, false, CHAIN3, false, 0},
    {2, 1, 1, 1, true, ALL2, false, 0},   {4, 1, 2, 2, true, RING4, false, 0},
    {4, 2, 2, 2, false, RING4, true, 0},  {3, 2, 2, 1, true, CHAIN3, true, 0},
    {4, 1, 2, 2, false, ALL4, false, 11}, {3, 1, 1, 1000, false, CHAIN3, false, 0},
};
enum { SETTINGS = sizeof settings / sizeof *settings };

static void every_delta_arrives_exactly_once(void **state)
{
    for (int i = 0; i < SETTINGS; i++) {
        struct world w;
        world_new(&w, &settings[i]);
        int seen = run_threads(&w);
        assert_true(settings[i].hogwild || settings[i].period > VERSIONS || seen > 0);
        sw_sync_merge_all(w.sync, VERSIONS);
        assert_all_have_all(&w);
        /* Nothing is left to be said. */
        sw_sync_merge_all(w.sync, VERSIONS);
        assert_all_have_all(&w);
        world_free(&w);
    }
}

/* ---- messages one by one ---- */

static int64_t storage_bytes(const struct stand *s)
{
    int64_t bytes = 0;
    for (int p = 0; p < TABLE_PARAMS; p++)
        bytes += storage_of(s, p) * (int64_t)sizeof(float);
    return bytes;
}

static void step(struct world *w, int table, uint64_t v)
{
    struct sw_err err;
    for (int p = 0; p < TABLE_PARAMS; p++)
        for (int m = 0; m < w->setting->members; m++)
            ASSERT_OK(deliver(&w->stand[table], m, p, v, &err));
}

static int in(const struct world *w, int table, int group)
{
    return updates_in(sw_table_param(w->stand[table].table, 0)->value[0], group,
                      w->setting->members);
}

/* Along a chain the middle hands on; a delta that is under way holds back the next, not its
 * content.
 */
static void forwarded_deltas_are_not_lost_when_slow(void **state)
{
    static const struct setting x = {3, 1, 1, 2, false, CHAIN3, false, 0};
    struct world w;
    struct sw_err err;
    world_new(&w, &x);
    step(&w, 0, 1);
    assert_true(sw_sync_is_quiet(w.sync)); /* the period is 2 */
    step(&w, 0, 2);
    assert_false(sw_sync_is_quiet(w.sync));
    step(&w, 0, 3);
    step(&w, 0, 4); /* the first delta is still under way */
    ASSERT_OK(pump(&w.stand[1], &err));
    assert_int_equal(in(&w, 1, 0), 2);
    assert_int_equal(in(&w, 2, 0), 0);
    ASSERT_OK(pump(&w.stand[2], &err));
    assert_int_equal(in(&w, 2, 0), 2);
    assert_true(sw_sync_is_quiet(w.sync));
    step(&w, 0, 5);
    step(&w, 0, 6); /* with what the one left out would have said */
    ASSERT_OK(pump(&w.stand[1], &err));
    ASSERT_OK(pump(&w.stand[2], &err));
    ASSERT_OK(pump(&w.stand[0], &err));
    for (int i = 0; i < 3; i++)
        assert_int_equal(in(&w, i, 0), 6);
    int64_t bytes = storage_bytes(&w.stand[0]);
    assert_int_equal(sw_sync_sent(w.sync, 0, 1, 0), 2 * bytes);
    assert_int_equal(sw_sync_sent(w.sync, 1, 2, 0), 2 * bytes);
    assert_int_equal(sw_sync_sent(w.sync, 0, 2, 0), 0);
    assert_int_equal(sw_sync_sent(w.sync, 2, 1, 0), 0);
    world_free(&w);
}

/* What a group's values lack of another's steps is what no delta has brought yet. */
static void staleness_counts_other_server_groups(void **state)
{
    static const struct setting x = {2, 1, 1, 2, false, ALL2, false, 0};
    struct world w;
    struct sw_err err;
    world_new(&w, &x);
    for (uint64_t v = 1; v <= 3; v++)
        step(&w, 0, v);
    assert_int_equal(sw_table_staleness(w.stand[0].table, 0, 0, 3), 3);
    ASSERT_OK(pump(&w.stand[1], &err)); /* the delta of step 2 */
    step(&w, 1, 1);
    assert_int_equal(sw_table_staleness(w.stand[1].table, 0, 0, 1), 0);
    step(&w, 1, 2);
    ASSERT_OK(pump(&w.stand[0], &err));
    step(&w, 0, 4);
    assert_int_equal(sw_table_staleness(w.stand[0].table, 0, 0, 4), 2);
    ASSERT_OK(pump(&w.stand[1], &err));
    sw_sync_merge_all(w.sync, 4);
    sw_table_refresh(w.stand[0].table, 0);
    assert_int_equal(sw_table_staleness(w.stand[0].table, 0, 0, 4), 0);
    step(&w, 0, 5);
    assert_int_equal(sw_table_staleness(w.stand[0].table, 0, 0, 5), 1);
    world_free(&w);
}

/* Before the others begin there is nobody to tell, and nothing that one could lack of them. */
static void nothing_is_exchanged_before_all_have_begun(void **state)
{
    static const struct setting x = {2, 1, 1, 1, false, ALL2, false, 3};
    struct world w;
    world_new(&w, &x);
    for (uint64_t v = 1; v <= 3; v++) {
        step(&w, 0, v);
        assert_true(sw_sync_is_quiet(w.sync));
        assert_int_equal(sw_table_staleness(w.stand[0].table, 0, 0, v), 0);
    }
    step(&w, 0, 4);
    assert_false(sw_sync_is_quiet(w.sync));
    assert_int_equal(sw_table_staleness(w.stand[0].table, 0, 0, 4), 1);
    world_free(&w);
}

static void delta_that_arrives_twice_is_refused(void **state)
{
    static const struct setting x = {2, 1, 1, 1, false, ALL2, false, 0};
    struct world w;
    struct sw_err err;
    world_new(&w, &x);
    step(&w, 0, 1);
    struct sw_message m = {.kind = SW_MSG_DELTA, .from = 1 + 1, .param = 0, .version = 1};
    ASSERT_OK(pump(&w.stand[1], &err));
    assert_int_equal(sw_table_serve(w.stand[1].table, 0, &m, &err), SW_ERR_INVALID);
    m.from = 1 + 1 + 1; /* its own */
    assert_int_equal(sw_table_serve(w.stand[1].table, 0, &m, &err), SW_ERR_INVALID);
    m.from = 99;
    assert_int_equal(sw_table_serve(w.stand[1].table, 0, &m, &err), SW_ERR_INVALID);
    world_free(&w);
}

static void a_group_that_no_delta_reaches_is_an_error(void **state)
{
    static const struct setting x = {3, 1, 1, 1, false, CHAIN3, false, 0};
    struct world w;
    struct sw_err err;
    world_new(&w, &x);
    sw_sync_free(w.sync);
    w.sync = NULL;
    assert_int_equal(make_sync(&w, "0-1", &err), SW_ERR_INVALID);
    assert_non_null(strstr(err.text, "do not reach"));
    world_free(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_delta_arrives_exactly_once),
        cmocka_unit_test(forwarded_deltas_are_not_lost_when_slow),
        cmocka_unit_test(staleness_counts_other_server_groups),
        cmocka_unit_test(nothing_is_exchanged_before_all_have_begun),
        cmocka_unit_test(delta_that_arrives_twice_is_refused),
        cmocka_unit_test(a_group_that_no_delta_reaches_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
