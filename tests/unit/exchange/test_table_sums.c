/* ctest-labels: threads
 * ctest-timeout: 120
 * Tables of several hosts whose gradients are summed over all of them: each has the values and the
 * updater state that one table with all workers has, to the bit where gradients are integers. Every
 * gradient counts once; a lost host ends the waits of all others. */
#include "unit/exchange/hosts_support.h"

enum { VERSIONS = 4 };

/* What is trained, and by how many workers of each host. */
struct job {
    struct plan_of_table plan; /* workers: of one host */
    int hosts;
    uint64_t seed, before;
};

struct own {
    const struct job *job;
    int first_worker; /* among those of all hosts */
    struct stand stand;
};

/* Gradients are multiples of 1/8, so that sums are exact in any order. */
static void write_gradients(struct own *o, int p, uint64_t version)
{
    const struct sw_param *param = sw_table_param(o->stand.table, p);
    int64_t n = sw_desc_count(&param->layout);
    float *plain = get_floats(n);
    for (int w = 0; w < o->job->plan.workers; w++) {
        struct rng r = rng_of(version * 1000 + (uint64_t)(p * 10 + o->first_worker + w));
        for (int64_t i = 0; i < n; i++)
            plain[i] = (float)(rng_int(&r, -64, 64)) / 8;
        sw_desc_from_plain(&param->layout, plain, param->gradient[w]);
    }
    free(plain);
}

static int push_all(struct own *o, uint64_t version, struct sw_err *err)
{
    int rc = SW_OK;
    for (int p = TABLE_PARAMS - 1; p >= 0; p--) {
        write_gradients(o, p, version);
        for (int w = 0; w < o->job->plan.workers && rc == SW_OK; w++)
            rc = sw_table_update(o->stand.table, w, p, version, err);
        /* Others may be updated while the gradients of the rest are made. */
        if (rc == SW_OK)
            rc = pump(&o->stand, err);
        if (rc != SW_OK)
            return rc;
    }
    return rc;
}

static int run(struct host *h, struct sw_err *err)
{
    struct own *o = h->own;
    struct plan_of_table plan = o->job->plan;
    plan.outer = outer_of(h);
    int rc = try_stand(&o->stand, &plan, err);
    if (rc != SW_OK)
        return rc;
    uint64_t before = o->job->before;
    sw_table_put_version(o->stand.table, before, before, 0);
    rc = connect_table(h, o->stand.table, before, err);
    for (uint64_t v = before + 1; v <= before + VERSIONS && rc == SW_OK; v++) {
        rc = push_all(o, v, err);
        for (int p = 0; p < TABLE_PARAMS && rc == SW_OK; p++)
            rc = serve_until(h, &o->stand, p, v, err);
    }
    return rc;
}

static void run_job(struct cluster *c, struct own own[MOST_HOSTS], const struct job *job,
                    const struct sw_loop_conf *conf)
{
    cluster_begin(c, job->hosts, conf, run);
    for (int i = 0; i < job->hosts; i++) {
        own[i] = (struct own){.job = job, .first_worker = i * job->plan.workers};
        c->host[i].own = &own[i];
    }
    cluster_run(c);
}

static void free_job(struct cluster *c, struct own own[MOST_HOSTS])
{
    for (int i = 0; i < c->hosts; i++)
        stand_free(&own[i].stand);
    cluster_end(c);
}

static void compare(const struct stand *a, const struct stand *b, bool same_bits)
{
    for (int p = 0; p < TABLE_PARAMS; p++)
        for (int slot = -1; slot < sw_table_slots(a->table); slot++) {
            float *x = plain_of_table(a, p, slot), *y = plain_of_table(b, p, slot);
            int64_t n = sw_desc_count(&sw_table_param(a->table, p)->layout);
            if (same_bits) {
                assert_memory_equal(x, y, (size_t)n * sizeof *x);
            } else {
                for (int64_t i = 0; i < n; i++)
                    assert_true(fabsf(x[i] - y[i]) <= 1e-5f * (1 + fabsf(y[i])));
            }
            free(x);
            free(y);
        }
}

/* Runs a job on several hosts and on one, and compares. */
static void check_job(struct job job, bool same_bits)
{
    static struct own many[MOST_HOSTS], one[MOST_HOSTS];
    struct cluster c, single;
    const struct sw_loop_conf conf = {
        .hosts = job.hosts, .seed = job.seed, .window = 1 + (int)(job.seed % 4)};
    struct job alone = job;
    alone.hosts = 1;
    alone.plan.workers *= job.hosts;
    run_job(&c, many, &job, &conf);
    assert_all_ok(&c);
    run_job(&single, one, &alone, NULL);
    assert_all_ok(&single);
    for (int i = 0; i < job.hosts; i++) {
        compare(&many[i].stand, &one[0].stand, same_bits);
        compare(&many[i].stand, &many[0].stand, true);
        assert_int_equal(sw_table_updates(many[i].stand.table), job.before + VERSIONS);
    }
    free_job(&c, many);
    free_job(&single, one);
}

static const struct plan_of_table plain = {
    .workers = 1, .servers = 1, .slice_elements = 1000, .lr = 0.25, .momentum = 0.5};

static void hosts_have_the_values_of_one_table(void **state)
{
    for (int hosts = 2; hosts <= MOST_HOSTS; hosts++)
        for (uint64_t seed = 0; seed < 3; seed++) {
            struct job job = {.plan = plain, .hosts = hosts, .seed = seed};
            check_job(job, true);
            job.plan.workers = 2;
            job.plan.servers = 3;
            job.plan.slice_elements = 100000;
            check_job(job, true);
        }
}

static void several_leaves_are_summed_before_the_hosts(void **state)
{
    struct job job = {.plan = plain, .hosts = 2, .seed = 5};
    job.plan.workers = 3;
    job.plan.servers = 2;
    check_job(job, true);
}

/* The norm is that of the sum over all hosts, so all of them clip by the same factor. */
static void two_phases_measure_the_sum_of_all(void **state)
{
    struct job job = {.plan = plain, .hosts = 3, .seed = 2};
    job.plan.servers = 2;
    job.plan.clip_norm = 3;
    check_job(job, false);
    job.plan.clip_value = 1.5;
    check_job(job, false);
    job.plan.clip_norm = 0;
    job.plan.two_phases = true;
    check_job(job, true);
}

static void values_are_clipped_after_the_sum(void **state)
{
    struct job job = {.plan = plain, .hosts = 4, .seed = 3};
    job.plan.clip_value = 2.5;
    check_job(job, true);
}

static void a_resumed_run_continues_its_versions(void **state)
{
    check_job((struct job){.plan = plain, .hosts = 2, .seed = 4, .before = 1234567}, true);
}

static void updater_state_and_norms_are_those_of_one_table(void **state)
{
    struct job job = {.plan = plain, .hosts = 2, .seed = 6};
    job.plan.updater = "adam";
    check_job(job, true);
    job.plan.updater = "lars"; /* needs norms */
    check_job(job, true);
}

/* Workers that make the updates themselves get the sum over all hosts, also where one worker of a
 * host is its only contributor. */
static int run_sums(struct host *h, struct sw_err *err)
{
    struct own *o = h->own;
    struct plan_of_table plan = o->job->plan;
    plan.outer = outer_of(h);
    int rc = try_stand(&o->stand, &plan, err);
    if (rc == SW_OK)
        rc = connect_table(h, o->stand.table, 0, err);
    for (uint64_t v = 1; v <= VERSIONS && rc == SW_OK; v++) {
        rc = push_all(o, v, err);
        for (int p = 0; p < TABLE_PARAMS && rc == SW_OK; p++)
            rc = serve_until(h, &o->stand, p, v, err);
    }
    return rc;
}

static void workers_that_update_get_the_sum(void **state)
{
    struct own own[MOST_HOSTS];
    struct cluster c;
    struct job job = {.plan = plain, .hosts = 3};
    job.plan.updates_on_device = true;
    cluster_begin(&c, 3, &(struct sw_loop_conf){.hosts = 3}, run_sums);
    for (int i = 0; i < 3; i++) {
        own[i] = (struct own){.job = &job, .first_worker = i};
        c.host[i].own = &own[i];
    }
    cluster_run(&c);
    assert_all_ok(&c);
    for (int p = 0; p < TABLE_PARAMS; p++) {
        int64_t n = storage_of(&own[0].stand, p);
        float *sum = get_floats(n);
        for (int i = 0; i < 3; i++) {
            write_gradients(&own[i], p, VERSIONS);
            for (int64_t e = 0; e < n; e++)
                sum[e] = (i ? sum[e] : 0) + sw_table_param(own[i].stand.table, p)->gradient[0][e];
        }
        for (int i = 0; i < 3; i++)
            assert_memory_equal(sum, sw_table_param(own[i].stand.table, p)->sum,
                                (size_t)n * sizeof *sum);
        free(sum);
    }
    free_job(&c, own);
}

/* ---- Factors ---- */

enum { ROWS = 3, INPUTS = 37, OUTPUTS = 20 }; /* rows: of each host */

/* Writes the rows [from, to) of all hosts. */
static void write_factors(struct own *o, int from, int to, uint64_t version)
{
    const struct sw_table *t = o->stand.table;
    const struct sw_table_factors *f = sw_table_factors_at(t, 0);
    float *x = sw_table_factor_x(t, f, 0, 0), *dy = sw_table_factor_dy(t, f, 0, 0);
    for (int row = from; row < to; row++) {
        struct rng r = rng_of(version * 1000 + (uint64_t)row);
        for (int i = 0; i < INPUTS; i++)
            x[row * INPUTS + i] = (float)rng_int(&r, -4, 4);
        for (int i = 0; i < OUTPUTS; i++)
            dy[row * OUTPUTS + i] = (float)rng_int(&r, -8, 8) / 8;
    }
}

static int run_factors(struct host *h, struct sw_err *err)
{
    struct own *o = h->own;
    bool alone = h->cluster->hosts == 1;
    int from = alone ? 0 : o->first_worker * ROWS, rows = alone ? ROWS * o->job->hosts : ROWS;
    const struct plan_of_table plan = {.workers = 1,
                                       .servers = 2,
                                       .slice_elements = 200,
                                       .lr = 0.25,
                                       .momentum = 0.5,
                                       .outer = outer_of(h)};
    const struct sw_table_factors layer = {.rows = (int64_t)ROWS * o->job->hosts,
                                           .inputs = INPUTS,
                                           .outputs = OUTPUTS,
                                           .steps = 1,
                                           .home = SW_FACTORS_SHARED};
    int rc = try_layer(&o->stand, &plan, &layer, err);
    if (rc == SW_OK)
        rc = connect_table(h, o->stand.table, 0, err);
    for (uint64_t v = 1; v <= VERSIONS && rc == SW_OK; v++) {
        write_factors(o, from, from + rows, v);
        for (int p = 0; p < 2 && rc == SW_OK; p++)
            rc = sw_table_update(o->stand.table, 0, p, v, err);
        for (int p = 0; p < 2 && rc == SW_OK; p++)
            rc = serve_until(h, &o->stand, p, v, err);
    }
    return rc;
}

/* Every host gets the rows of all others, and makes the gradient of all rows. */
static void rows_of_factors_are_gathered(void **state)
{
    struct own own[2][MOST_HOSTS];
    struct cluster c[2];
    const struct job job = {.plan = plain, .hosts = 3};
    for (int k = 0; k < 2; k++) {
        cluster_begin(&c[k], k ? 1 : 3, &(struct sw_loop_conf){.hosts = 3, .seed = 8}, run_factors);
        for (int i = 0; i < c[k].hosts; i++) {
            own[k][i] = (struct own){.job = &job, .first_worker = i};
            c[k].host[i].own = &own[k][i];
        }
        cluster_run(&c[k]);
        assert_all_ok(&c[k]);
    }
    for (int i = 0; i < 3; i++)
        for (int p = 0; p < 2; p++) {
            float *a = plain_of_table(&own[0][i].stand, p, -1);
            float *b = plain_of_table(&own[1][0].stand, p, -1);
            size_t n = p == 0 ? OUTPUTS * INPUTS : OUTPUTS;
            assert_memory_equal(a, b, n * sizeof *a);
            assert_true(fabsf(b[0]) > 0);
            free(a);
            free(b);
        }
    free_job(&c[0], own[0]);
    free_job(&c[1], own[1]);
}

/* Wherever a host dies, the others name it and end. */
static void a_lost_host_ends_all_waits(void **state)
{
    for (int64_t chunk = 1; chunk < 90; chunk += 1 + chunk / 4) {
        struct own own[MOST_HOSTS];
        struct cluster c;
        const struct job job = {.plan = plain, .hosts = 3};
        run_job(&c, own, &job,
                &(struct sw_loop_conf){
                    .hosts = 3, .seed = (uint64_t)chunk, .kill_host = 2, .kill_chunk = chunk});
        for (int i = 0; i < 2; i++) {
            assert_int_equal(c.host[i].rc, SW_ERR_LOST);
            assert_non_null(strstr(c.host[i].err.text, "cyd"));
        }
        assert_int_equal(c.host[2].rc, SW_ERR_LOST);
        free_job(&c, own);
    }
}

static int give_nothing(void *user, int group, int slice, uint64_t version, float *x,
                        struct sw_err *err)
{
    return SW_OK;
}

static void what_cannot_be_summed_is_refused(void **state)
{
    const struct sw_table_factors exchanged = {.home = SW_FACTORS_EXCHANGED};
    struct plan_of_table bad[3] = {plain, plain, plain};
    struct stand s;
    struct sw_err err;
    int number;
    bad[0].rule = &sw_table_async;
    bad[1].bad = SW_BAD_DROPS;
    bad[2].others = 2;
    for (int i = 0; i < 3; i++) {
        bad[i].outer.give = give_nothing;
        assert_int_equal(try_stand(&s, &bad[i], &err), SW_ERR_UNSUPPORTED);
        stand_free(&s);
    }
    struct plan_of_table good = plain;
    good.outer.give = give_nothing;
    stand_new(&s, &good);
    assert_int_equal(sw_table_add_factors(s.table, &exchanged, &number, &err), SW_ERR_UNSUPPORTED);
    /* A sum that comes before the gradient, or for another version. */
    sw_table_put_sum(s.table, 0, 1);
    assert_int_equal(pump(&s, &err), SW_ERR_INVALID);
    ASSERT_OK(sw_table_update(s.table, 0, 0, 1, &err));
    ASSERT_OK(pump(&s, &err));
    sw_table_put_sum(s.table, 0, 2);
    assert_int_equal(pump(&s, &err), SW_ERR_INVALID);
    sw_table_put_sum(s.table, sw_table_slices(s.table) - 1, 1);
    assert_int_equal(pump(&s, &err), SW_ERR_INVALID);
    stand_free(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hosts_have_the_values_of_one_table),
        cmocka_unit_test(several_leaves_are_summed_before_the_hosts),
        cmocka_unit_test(two_phases_measure_the_sum_of_all),
        cmocka_unit_test(values_are_clipped_after_the_sum),
        cmocka_unit_test(a_resumed_run_continues_its_versions),
        cmocka_unit_test(updater_state_and_norms_are_those_of_one_table),
        cmocka_unit_test(workers_that_update_get_the_sum),
        cmocka_unit_test(rows_of_factors_are_gathered),
        cmocka_unit_test(a_lost_host_ends_all_waits),
        cmocka_unit_test(what_cannot_be_summed_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
