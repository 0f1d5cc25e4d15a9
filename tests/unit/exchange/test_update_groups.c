/* ctest-labels: threads */
/* Groups that update on their own: asynchronous, with a bound of staleness, without locks. The
 * ledger: sgd at rate 1, and every gradient of group g is BASE^g, so that each element of a value
 * says how many updates of which group are in it, exactly: sums stay below 2^24. */
#include "table_support.h"
#include "thread/atomic.h"

enum { BASE = 128, MOST_GROUPS = 3, MOST_MEMBERS = 6, VERSIONS = 30, MOST_SERVERS = 3 };

static const int weights[MOST_GROUPS] = {1, BASE, BASE *BASE};

struct setting {
    int groups, members, servers; /* members of each group */
    int64_t staleness;            /* -1: none */
    bool hogwild;
    int alone;   /* the first so many steps are those of the first group; the others begin behind */
    bool phases; /* every group decides about all its gradients before it updates */
    bool drops;  /* and then some of its updates are dropped */
};

static void write_gradient(const struct stand *s, int p, int w, int members)
{
    for (int64_t e = 0; e < storage_of(s, p); e++)
        sw_table_param(s->table, p)->gradient[w][e] = (float)weights[w / members];
}

static void groups_new(struct stand *s, const struct setting *x)
{
    stand_new(s, &(struct plan_of_table){
                     .workers = x->groups * x->members,
                     .servers = x->servers,
                     .slice_elements = 500,
                     .init = SW_INIT_CONSTANT,
                     .groups = x->groups,
                     .staleness = x->staleness,
                     .rule = x->hogwild ? &sw_table_hogwild : &sw_table_async,
                     .two_phases = x->phases,
                     .bad = x->drops ? SW_BAD_DROPS : SW_BAD_STOPS,
                 });
    for (int r = 0; r < x->groups; r++)
        sw_table_refresh(s->table, r);
    for (int r = 1; r < x->groups; r++)
        sw_table_put_group(s->table, r, (uint64_t)x->alone);
    for (int p = 0; p < TABLE_PARAMS; p++)
        for (int w = 0; w < x->groups * x->members; w++)
            write_gradient(s, p, w, x->members);
}

/* Steps in which the group rests. */
static int rested(const struct setting *x, int group)
{
    return group > 0 ? x->alone : 0;
}

static bool is_dropped(const struct setting *x, int group, int v)
{
    return x->drops && (v + group) % 5 == 0;
}

/* Updates of the group in its steps up to v. */
static int made(const struct setting *x, int group, int v)
{
    int n = 0;
    for (int i = rested(x, group) + 1; i <= v; i++)
        n += !is_dropped(x, group, i);
    return n;
}

/* How many updates of the group are in a value. */
static int updates_in(float value, int group, int members)
{
    return (int)-value / weights[group] % BASE / members;
}

/* ---- threads ---- */

struct role {
    struct stand *stand;
    const struct setting *setting;
    atomic_int *met; /* workers, when the others begin; twice */
    int index, wrong, stalest;
    struct sw_thread thread;
    int rc;
};

static void dawdle(struct rng *r)
{
    struct timespec t = {.tv_nsec = (long)rng_int(r, 0, 300) * 1000};
    if (rng_int(r, 0, 3) == 0)
        nanosleep(&t, NULL);
}

/* What a worker finds before it computes update v: all updates of its own group, of others as many
 * as the bound demands, and nothing staler than the table says. */
static void look_at(struct role *r, int p, uint64_t v)
{
    const struct setting *x = r->setting;
    struct sw_table *t = r->stand->table;
    const float *value = sw_table_value(t, r->index, p);
    int own = r->index / x->members, lag = 0;
    int64_t told = sw_table_staleness(t, own, p, v - 1);
    for (int64_t e = 0; e < storage_of(r->stand, p); e++)
        for (int g = 0; g < x->groups; g++) {
            int n = updates_in(value[e], g, x->members) + rested(x, g);
            r->wrong += g == own && n - rested(x, g) != made(x, g, (int)v - 1);
            lag = (int)v - 1 - n > lag ? (int)v - 1 - n : lag;
        }
    if (x->drops)
        return; /* a step may be there without a trace */
    r->wrong += lag != told || (x->staleness >= 0 && lag > x->staleness);
    r->stalest = lag > r->stalest ? lag : r->stalest;
}

/* All workers are there for the count-th time. */
static void meet(struct role *r, int count)
{
    int workers = r->setting->groups * r->setting->members;
    atomic_fetch_add(r->met, 1);
    while (atomic_load(r->met) < count * workers)
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
}

/* What the first group has done is what all begin with. */
static void come_together(struct role *r)
{
    struct sw_table *t = r->stand->table;
    for (int p = 0; p < TABLE_PARAMS && r->rc == SW_OK; p++)
        r->rc = sw_table_wait(t, SW_TABLE_ALL, p, (uint64_t)r->setting->alone, NULL, 0, 20000);
    meet(r, 1);
    if (r->index % r->setting->members == 0)
        sw_table_refresh(t, sw_table_update_group(t, r->index));
    meet(r, 2);
}

static void work(void *arg)
{
    struct role *r = arg;
    struct rng rng = rng_of(99 + (uint64_t)r->index);
    struct sw_table *t = r->stand->table;
    struct sw_err err;
    int group = sw_table_update_group(t, r->index);
    uint64_t alone = (uint64_t)r->setting->alone, first = group > 0 ? alone + 1 : 1;
    for (uint64_t v = first; v <= VERSIONS && r->rc == SW_OK; v++) {
        if (v == alone + 1)
            come_together(r);
        for (int p = 0; p < TABLE_PARAMS && r->rc == SW_OK; p++) {
            r->rc = sw_table_wait(t, group, p, v - 1, NULL, 0, 20000);
            if (r->rc == SW_OK && !r->setting->hogwild)
                look_at(r, p, v);
            if (r->rc == SW_OK && r->setting->hogwild && r->setting->staleness >= 0)
                r->wrong += !sw_table_ready(t, SW_TABLE_ALL, p,
                                            v - 1 > (uint64_t)r->setting->staleness
                                                ? v - 1 - (uint64_t)r->setting->staleness
                                                : 0);
        }
        dawdle(&rng);
        if (r->rc == SW_OK)
            r->rc = sw_table_report_loss(t, r->index, !is_dropped(r->setting, group, (int)v), &err);
        for (int p = TABLE_PARAMS - 1; p >= 0 && r->rc == SW_OK; p--) {
            if (r->setting->phases) /* the sum was left in it */
                write_gradient(r->stand, p, r->index, r->setting->members);
            r->rc = sw_table_update(t, r->index, p, v, &err);
        }
    }
    for (int p = 0; p < TABLE_PARAMS && r->rc == SW_OK; p++)
        r->rc = sw_table_wait(t, SW_TABLE_ALL, p, VERSIONS, NULL, 0, 20000);
}

static void serve(void *arg)
{
    struct role *r = arg;
    struct rng rng = rng_of(7 + (uint64_t)r->index);
    struct sw_message m;
    struct sw_err err;
    while (r->rc == SW_OK && sw_queue_pop(sw_table_inbox(r->stand->table, r->index), &m) == SW_OK) {
        dawdle(&rng);
        r->rc = sw_table_serve(r->stand->table, r->index, &m, &err);
    }
}

/* All threads to their end; the largest staleness that was met. */
static int run_threads(struct stand *s, const struct setting *x)
{
    struct role worker[MOST_MEMBERS] = {{0}}, server[MOST_SERVERS] = {{0}};
    atomic_int met;
    struct sw_err err;
    int workers = x->groups * x->members, stalest = 0;
    atomic_init(&met, 0);
    for (int i = 0; i < x->servers; i++) {
        server[i] = (struct role){.stand = s, .setting = x, .index = i};
        ASSERT_OK(sw_thread_start(&server[i].thread, "server", serve, &server[i], &err));
    }
    for (int i = 0; i < workers; i++) {
        worker[i] = (struct role){.stand = s, .setting = x, .met = &met, .index = i};
        ASSERT_OK(sw_thread_start(&worker[i].thread, "worker", work, &worker[i], &err));
    }
    for (int i = 0; i < workers; i++)
        sw_thread_join(&worker[i].thread);
    sw_table_close_v(s->table);
    for (int i = 0; i < x->servers; i++) {
        sw_thread_join(&server[i].thread);
        assert_int_equal(server[i].rc, SW_OK);
    }
    for (int i = 0; i < workers; i++) {
        assert_int_equal(worker[i].rc, SW_OK);
        assert_int_equal(worker[i].wrong, 0);
        stalest = worker[i].stalest > stalest ? worker[i].stalest : stalest;
    }
    return stalest;
}

static void assert_all_arrived(const struct stand *s, const struct setting *x)
{
    for (int p = 0; p < TABLE_PARAMS; p++)
        for (int64_t e = 0; e < storage_of(s, p); e++)
            for (int g = 0; g < x->groups; g++)
                assert_int_equal(updates_in(sw_table_param(s->table, p)->value[e], g, x->members),
                                 made(x, g, VERSIONS));
}

static void asynchronous_updates_count_exactly_once(void **state)
{
    static const struct setting settings[] = {
        {1, 2, 2, -1, false, 0, false, false},  {2, 1, 1, -1, false, 0, false, false},
        {3, 1, 3, -1, false, 0, false, false},  {3, 2, 2, -1, false, 0, false, false},
        {3, 2, 2, -1, false, 10, false, false}, {2, 1, 1, -1, false, VERSIONS - 1, false, false}};
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        struct stand s;
        groups_new(&s, &settings[i]);
        run_threads(&s, &settings[i]);
        assert_all_arrived(&s, &settings[i]);
        stand_free(&s);
    }
}

/* Nothing of a group's update is applied before it has decided about all of it. */
static void updates_in_two_phases_count_exactly_once(void **state)
{
    static const struct setting settings[] = {
        {2, 1, 1, -1, false, 0, true, false}, {3, 2, 3, -1, false, 0, true, false},
        {3, 2, 2, 2, false, 0, true, false},  {3, 2, 2, -1, false, 6, true, true},
        {2, 2, 2, 3, false, 0, true, true},   {1, 2, 1, -1, true, 0, true, false},
        {1, 3, 2, -1, true, 0, true, true},
    };
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        const struct setting *x = &settings[i];
        struct stand s;
        int dropped = 0;
        groups_new(&s, x);
        run_threads(&s, x);
        assert_all_arrived(&s, x);
        for (int g = 0; g < x->groups; g++)
            dropped += VERSIONS - rested(x, g) - made(x, g, VERSIONS);
        assert_int_equal(sw_table_dropped(s.table), dropped);
        for (int k = 0; k < s.table->slice_count; k++)
            assert_int_equal(s.table->slices[k].dropped, dropped);
        stand_free(&s);
    }
}

static void no_group_reads_values_staler_than_the_bound(void **state)
{
    static const struct setting settings[] = {
        {2, 1, 1, 1, false, 0, false, false},  {2, 1, 2, 4, false, 0, false, false},
        {3, 1, 2, 2, false, 0, false, false},  {3, 2, 3, 3, false, 0, false, false},
        {2, 1, 1, 1, false, 12, false, false}, {3, 2, 3, 3, false, 7, false, false}};
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        struct stand s;
        groups_new(&s, &settings[i]);
        int stalest = run_threads(&s, &settings[i]);
        assert_all_arrived(&s, &settings[i]);
        assert_in_range(stalest, 1, settings[i].staleness);
        stand_free(&s);
    }
}

/* Elements may lose updates; counters may not, and a group alone loses nothing. */
static void without_locks_every_update_is_issued(void **state)
{
    static const struct setting settings[] = {
        {1, 2, 1, -1, true, 0, false, false}, {2, 1, 1, -1, true, 0, false, false},
        {3, 2, 2, 2, true, 0, false, false},  {3, 2, 2, 2, true, 9, false, false},
        {3, 2, 2, -1, true, 0, true, false},  {2, 2, 1, 1, true, 5, true, true}};
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        const struct setting *x = &settings[i];
        struct stand s;
        groups_new(&s, x);
        run_threads(&s, x);
        for (int p = 0; p < TABLE_PARAMS; p++) {
            const struct sw_param *param = sw_table_param(s.table, p);
            for (int g = 0; g < x->groups; g++)
                assert_int_equal(param->view[g].ready, VERSIONS * param->slice_count);
            for (int k = 0; k < param->slice_count; k++)
                assert_int_equal(s.table->slices[param->first_slice + k].version,
                                 VERSIONS * x->groups - x->alone * (x->groups - 1));
        }
        if (x->groups == 1)
            assert_all_arrived(&s, x);
        stand_free(&s);
    }
}

/* ---- messages one by one ---- */

static void update_all(struct stand *s, int worker, uint64_t version)
{
    struct sw_err err;
    for (int p = 0; p < TABLE_PARAMS; p++)
        ASSERT_OK(deliver(s, worker, p, version, &err));
}

static bool all_ready(const struct stand *s, int group, uint64_t version)
{
    bool ready = true;
    for (int p = 0; p < TABLE_PARAMS; p++)
        ready = ready && sw_table_ready(s->table, group, p, version);
    return ready;
}

static void an_answer_waits_for_the_slowest_group(void **state)
{
    struct stand s;
    groups_new(&s, &(struct setting){.groups = 2, .members = 1, .servers = 2, .staleness = 1});
    update_all(&s, 0, 1);
    assert_true(all_ready(&s, 0, 1));
    assert_int_equal(sw_table_staleness(s.table, 0, 0, 1), 1);
    update_all(&s, 0, 2); /* applied, but not to be read before group 1 has done a step */
    assert_int_equal(updates_in(sw_table_param(s.table, 0)->value[0], 0, 1), 2);
    assert_false(all_ready(&s, 0, 2));
    assert_int_equal(updates_in(sw_table_value(s.table, 0, 0)[0], 0, 1), 1);
    update_all(&s, 1, 1);
    assert_true(all_ready(&s, 0, 2));
    assert_true(all_ready(&s, 1, 1));
    assert_int_equal(sw_table_staleness(s.table, 0, 0, 2), 1);
    assert_int_equal(sw_table_staleness(s.table, 1, 0, 1), 0);
    for (int g = 0; g < 2; g++)
        assert_int_equal(updates_in(sw_table_value(s.table, g, 0)[0], 0, 1), 2);
    stand_free(&s);
}

/* Not only the other group's updates: not even later ones of its own. */
static void a_group_reads_new_values_only_after_its_own_updates(void **state)
{
    struct stand s;
    groups_new(&s, &(struct setting){.groups = 2, .members = 2, .servers = 1, .staleness = -1});
    update_all(&s, 2, 1);
    update_all(&s, 3, 1);
    update_all(&s, 0, 1);
    for (int p = 0; p < TABLE_PARAMS; p++)
        assert_true(sw_table_value(s.table, 0, p)[0] == 0);
    update_all(&s, 1, 1);
    for (int g = 0; g < 2; g++)
        assert_int_equal(updates_in(sw_table_value(s.table, 0, 0)[0], g, 2), 1);
    stand_free(&s);
}

/* A group's gradients are clipped by their own norm, whatever another's are. */
static void a_group_clips_by_its_own_norm(void **state)
{
    for (int hogwild = 0; hogwild < 2; hogwild++) {
        struct stand s;
        struct sw_table_control d;
        struct sw_err err;
        int64_t n = 0;
        groups_new(&s, &(struct setting){.groups = 2,
                                         .members = 2,
                                         .servers = 2,
                                         .staleness = -1,
                                         .hogwild = hogwild,
                                         .phases = true});
        for (int p = 0; p < TABLE_PARAMS; p++)
            n += storage_of(&s, p);
        s.table->args.clip_norm = 4 * sqrt((double)n); /* group 0 has 2 in each element */
        for (int w = 0; w < 4; w++)
            for (int p = TABLE_PARAMS - 1; p >= 0; p--)
                ASSERT_OK(sw_table_update(s.table, w, p, 1, &err));
        ASSERT_OK(pump(&s, &err));
        ASSERT_OK(pump(&s, &err)); /* what a later server decided */
        for (int g = 0; g < 2; g++) {
            assert_true(sw_table_control(s.table, g, 1, &d));
            assert_float_equal(d.grad_norm, 2 * weights[g] * sqrt((double)n), 1e-3);
        }
        assert_float_equal(sw_table_param(s.table, 2)->value[0], -2 - 4, 1e-4);
        stand_free(&s);
    }
}

static void a_group_that_starts_later_is_not_waited_for(void **state)
{
    struct stand s;
    groups_new(&s, &(struct setting){.groups = 2, .members = 1, .servers = 2, .staleness = 1});
    sw_table_put_group(s.table, 1, 5);
    for (uint64_t v = 1; v <= 5; v++) {
        update_all(&s, 0, v);
        assert_true(all_ready(&s, 0, v));
        assert_int_equal(sw_table_staleness(s.table, 0, 0, v), 0);
    }
    update_all(&s, 1, 6);
    assert_true(all_ready(&s, 1, 6));
    stand_free(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(asynchronous_updates_count_exactly_once),
        cmocka_unit_test(no_group_reads_values_staler_than_the_bound),
        cmocka_unit_test(without_locks_every_update_is_issued),
        cmocka_unit_test(an_answer_waits_for_the_slowest_group),
        cmocka_unit_test(a_group_reads_new_values_only_after_its_own_updates),
        cmocka_unit_test(a_group_that_starts_later_is_not_waited_for),
        cmocka_unit_test(updates_in_two_phases_count_exactly_once),
        cmocka_unit_test(a_group_clips_by_its_own_norm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
