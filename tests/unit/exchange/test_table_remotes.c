/* ctest-labels: threads
 * ctest-timeout: 180
 * Update groups of several hosts whose values are in the table of host 0. The ledger: sgd at rate
 * 1, and every gradient of group g is BASE^g, so that each element of a value says how many updates
 * of which group are in it, exactly: sums stay below 2^24. Every group looks at the values it
 * reads, wherever it is: all its own updates, and of the others as many as the staleness bound
 * demands. */
#include "unit/exchange/hosts_support.h"

#include "exchange/hosts/table_remotes.h"
#include "exchange/hosts/tcp.h"
#include "unit/faulty_os.h"

enum { BASE = 8, VERSIONS = 6, MOST_GROUPS = 8 };
enum { ROWS = 4, INPUTS = 37, OUTPUTS = 20 };
static const struct sw_table_factors layer = {
    .rows = ROWS, .inputs = INPUTS, .outputs = OUTPUTS, .steps = 1, .home = SW_FACTORS_SHARED};

struct job {
    struct plan_of_table plan; /* groups and workers: of one host */
    int hosts;
    uint64_t seed, before;
    double clip_norm; /* the weights are then not counted, but clipped */
    bool factors;     /* one layer whose gradients are made of factors; one worker per group */
    const struct sw_fabric_engine *engine; /* NULL: loop */
    struct sw_tcp_conf tcp;
    int kill_host; /* at a chunk of the loop; 0 with kill_chunk 0: none */
    int64_t kill_chunk;
};

struct own;

/* A server, or an update group with all its workers: a thread. */
struct role {
    struct own *own;
    int index;
    struct sw_thread thread;
    /* What an update group found. */
    int behind[MOST_GROUPS]; /* steps that each group was behind this one, at most */
    int untold[MOST_GROUPS]; /* times that it was so by more than the table said */
    int wrong;               /* own updates that were missing, or staleness that was not there */
};

struct own {
    struct job *job;
    struct host *host;
    struct stand stand;
    struct sw_table_remotes remotes;
    struct role server[4], group[MOST_GROUPS];
    bool opened;
    int allocations;      /* after the first update of its last group */
    int lost[MOST_HOSTS]; /* calls of lost */
};

/* ---- The ledger ---- */

static double weight_of(const struct job *job, int group)
{
    return job->clip_norm > 0 ? 0.001 * (group % 2 ? 1 : 1000) : pow(BASE, group);
}

/* How many updates of a group are in a value, that began as 0. */
static int updates_in(float value, int group)
{
    return (int)((int64_t)-value / (int64_t)pow(BASE, group) % BASE);
}

/* What a group finds when it has its update v. */
static void look_at(struct role *r, int p, uint64_t version)
{
    const struct own *o = r->own;
    const struct job *job = o->job;
    const struct sw_table *t = o->stand.table;
    const float *value = sw_table_value(t, r->index * job->plan.workers / job->plan.groups, p);
    int v = (int)(version - job->before), own = o->host->list.own * job->plan.groups + r->index;
    int told = (int)sw_table_staleness(t, r->index, p, version), most = 0;

    for (int g = 0; g < job->hosts * job->plan.groups; g++) {
        int lag = 0;
        for (int64_t e = 0; e < storage_of(&o->stand, p); e++) {
            int n = updates_in(value[e], g);
            r->wrong += g == own && n != v;
            lag = v - n > lag ? v - n : lag;
        }
        r->behind[g] = lag > r->behind[g] ? lag : r->behind[g];
        r->untold[g] += lag > told;
        most = lag > most ? lag : most;
    }
    r->wrong += told > most;
}

/* Nothing was wrong with the updates of groups that are not lost. */
static void check_findings(const struct own *home, const struct own *o)
{
    const struct job *job = o->job;
    int64_t bound = job->plan.staleness;
    for (int k = 0; k < job->plan.groups; k++) {
        const struct role *r = &o->group[k];
        assert_int_equal(r->wrong, 0);
        for (int g = 0; g < job->hosts * job->plan.groups; g++)
            if (home->lost[g / job->plan.groups] == 0) {
                assert_int_equal(r->untold[g], 0);
                assert_true(bound < 0 || r->behind[g] <= bound);
            }
    }
}

/* ---- Roles ---- */

static void serve(void *user)
{
    struct role *r = user;
    struct sw_table *t = r->own->stand.table;
    struct sw_message m;
    struct sw_err err;
    int rc = SW_OK;
    while (rc == SW_OK && (rc = sw_queue_pop(sw_table_inbox(t, r->index), &m)) == SW_OK)
        rc = sw_table_serve(t, r->index, &m, &err);
    if (rc != SW_ERR_CANCELLED)
        sw_fault_set(&r->own->host->fault, "server", &err);
}

static void dawdle(struct rng *r)
{
    struct timespec t = {.tv_nsec = (long)rng_int(r, 0, 300) * 1000};
    if (rng_int(r, 0, 3) == 0)
        nanosleep(&t, NULL);
}

/* All elements get the group's weight, in equal parts of its workers. */
static void write_gradient(struct own *o, int worker, int p)
{
    const struct job *job = o->job;
    const struct sw_table *t = o->stand.table;
    int group = sw_table_update_group(t, worker), workers = job->plan.workers / job->plan.groups;
    float weight = (float)weight_of(job, o->host->list.own * job->plan.groups + group);
    if (!job->factors) {
        for (int64_t e = 0; e < storage_of(&o->stand, p); e++)
            sw_table_param(t, p)->gradient[worker][e] = weight / (float)workers;
        return;
    }
    if (p == 0)
        return; /* the bias, which was first, has the same factors */
    const struct sw_table_factors *f = sw_table_factors_at(t, 0);
    for (int i = 0; i < ROWS * INPUTS; i++)
        sw_table_factor_x(t, f, group, 0)[i] = 1;
    for (int i = 0; i < ROWS * OUTPUTS; i++)
        sw_table_factor_dy(t, f, group, 0)[i] = weight / ROWS;
}

static int wait_for_version(struct sw_table *t, int group, uint64_t version)
{
    int rc = SW_OK;
    for (int p = 0; p < sw_table_count(t) && rc == SW_OK; p++)
        while ((rc = sw_table_wait(t, group, p, version, NULL, 0, 1000)) == SW_ERR_BUSY)
            ;
    return rc;
}

static int calls_of_allocation(void)
{
    return __atomic_load_n(&faulty.calls, __ATOMIC_RELAXED);
}

static void train(void *user)
{
    struct role *r = user;
    struct own *o = r->own;
    struct sw_table *t = o->stand.table;
    struct rng rng = rng_of(o->job->seed * 100 + (uint64_t)(o->host->list.own * 10 + r->index));
    int workers = o->job->plan.workers / o->job->plan.groups, before = 0, rc = SW_OK;
    struct sw_err err;
    for (uint64_t v = o->job->before + 1; v <= o->job->before + VERSIONS && rc == SW_OK; v++) {
        for (int p = sw_table_count(t) - 1; p >= 0 && rc == SW_OK; p--)
            for (int w = r->index * workers; w < (r->index + 1) * workers && rc == SW_OK; w++) {
                dawdle(&rng);
                write_gradient(o, w, p);
                rc = sw_table_update(t, w, p, v, &err);
            }
        if (rc == SW_OK)
            rc = wait_for_version(t, r->index, v);
        for (int p = 0; p < sw_table_count(t) && rc == SW_OK && o->job->clip_norm == 0; p++)
            look_at(r, p, v);
        before = v == o->job->before + 1 ? calls_of_allocation() : before;
    }
    if (r->index == o->job->plan.groups - 1)
        o->allocations = calls_of_allocation() - before;
    if (rc != SW_OK && rc != SW_ERR_CANCELLED)
        sw_fault_set(&o->host->fault, "group", &err);
}

/* ---- A host ---- */

static int make_table(struct own *o, struct sw_err *err)
{
    const struct job *job = o->job;
    struct plan_of_table plan = job->plan;
    bool home = o->host->list.own == 0;
    plan.plain = true;
    plan.init = SW_INIT_CONSTANT;
    plan.rule = &sw_table_async;
    plan.clip_norm = job->clip_norm;
    plan.outer = sw_table_remotes_outer(&o->remotes, &o->host->list);
    plan.remote_groups = home ? (job->hosts - 1) * plan.groups : 0;
    plan.updates_outside = !home;
    int rc =
        job->factors ? try_layer(&o->stand, &plan, &layer, err) : try_stand(&o->stand, &plan, err);
    if (rc != SW_OK)
        return rc;
    sw_table_put_version(o->stand.table, job->before, job->before, 0);
    for (int g = 0; g < sw_table_update_groups(o->stand.table); g++)
        sw_table_refresh(o->stand.table, g);
    return SW_OK;
}

static void lost_host(void *user, int host, const struct sw_err *why)
{
    struct own *o = user;
    o->lost[host]++;
}

static int open_fabric(struct own *o, struct sw_err *err)
{
    struct host *h = o->host;
    struct cluster *c = h->cluster;
    const struct job *job = o->job;
    int rc =
        sw_table_remotes_init(&o->remotes,
                              &(struct sw_table_remotes_args){.table = o->stand.table,
                                                              .hosts = &h->list,
                                                              .groups = job->plan.groups,
                                                              .by_change = job->plan.staleness > 0,
                                                              .fault = &h->fault,
                                                              .lost = lost_host,
                                                              .user = o},
                              err);
    if (rc == SW_OK)
        rc = sw_fault_attach(&h->fault, sw_table_close_v, o->stand.table, err);
    if (rc != SW_OK)
        return rc;
    sw_table_remotes_receive(&o->remotes, &h->router);
    struct sw_fabric_args args = {.hosts = &h->list,
                                  .room = sw_table_remotes_room(&o->remotes),
                                  .sink = sw_fabric_router_sink(&h->router)};
    args.conf = job->engine ? (const void *)&job->tcp : sw_loop_end(c->loop, h->list.own);
    args.clock = job->engine ? NULL : sw_loop_clock(c->loop, h->list.own);
    rc = sw_fabric_open(job->engine ? job->engine : &sw_fabric_loop, &args, &h->fabric, err);
    if (rc != SW_OK)
        return rc;
    o->opened = true;
    sw_table_remotes_start(&o->remotes, h->fabric);
    return sw_fault_attach(&h->fault, sw_fabric_close_v, h->fabric, err);
}

static void start(struct own *o, struct role *r, int index, void (*body)(void *role))
{
    struct sw_err err;
    *r = (struct role){.own = o, .index = index};
    ASSERT_OK(sw_thread_start(&r->thread, "role", body, r, &err));
}

static int run(struct host *h, struct sw_err *err)
{
    struct own *o = h->own;
    const struct plan_of_table *plan = &o->job->plan;
    o->host = h;
    int rc = make_table(o, err);
    if (rc == SW_OK)
        rc = open_fabric(o, err);
    if (rc != SW_OK)
        return rc;
    for (int i = 0; i < plan->servers; i++)
        start(o, &o->server[i], i, serve);
    for (int i = 0; i < plan->groups; i++)
        start(o, &o->group[i], i, train);
    for (int i = 0; i < plan->groups; i++)
        sw_thread_join(&o->group[i].thread);
    /* Host 0 goes on until the update groups of all others have ended. */
    rc = wait_for_version(o->stand.table, SW_TABLE_ALL, o->job->before + VERSIONS);
    sw_table_close_v(o->stand.table);
    for (int i = 0; i < plan->servers; i++)
        sw_thread_join(&o->server[i].thread);
    return rc == SW_OK || rc == SW_ERR_CANCELLED ? sw_fault_get(&h->fault, err) : rc;
}

static void run_job(struct cluster *c, struct own own[MOST_HOSTS], struct job *job)
{
    const struct sw_loop_conf conf = {.hosts = job->hosts,
                                      .seed = job->seed,
                                      .window = 1 + (int)(job->seed % 4),
                                      .kill_host = job->kill_host,
                                      .kill_chunk = job->kill_chunk};
    cluster_begin(c, job->hosts, &conf, run);
    c->names[0].address = "127.0.0.1";
    for (int i = 0; i < job->hosts; i++) {
        own[i] = (struct own){.job = job};
        c->host[i].own = &own[i];
    }
    cluster_run(c);
}

static void free_job(struct cluster *c, struct own own[MOST_HOSTS])
{
    for (int i = 0; i < c->hosts; i++) {
        sw_table_remotes_fini(&own[i].remotes);
        stand_free(&own[i].stand);
    }
    cluster_end(c);
}

/* ---- Jobs in which all goes well ---- */

/* Host 0 has every update of every group, once. */
static void check_values(struct own *home, const struct job *job)
{
    int groups = job->hosts * job->plan.groups;
    double sum = 0;
    for (int g = 0; g < groups; g++)
        sum += VERSIONS * weight_of(job, g);
    for (int p = 0; p < sw_table_count(home->stand.table); p++) {
        const float *value = sw_table_param(home->stand.table, p)->value;
        for (int64_t e = 0; e < storage_of(&home->stand, p); e++)
            assert_true(value[e] == (float)-sum);
    }
    assert_int_equal(sw_table_updates(home->stand.table),
                     job->before + (uint64_t)(VERSIONS * groups));
}

static void check_job(struct job job)
{
    static struct own own[MOST_HOSTS];
    struct cluster c;
    run_job(&c, own, &job);
    assert_all_ok(&c);
    for (int i = 0; i < job.hosts; i++) {
        check_findings(&own[0], &own[i]);
        for (int g = 0; g < sw_table_update_groups(own[i].stand.table); g++)
            for (int p = 0; p < sw_table_count(own[i].stand.table); p++)
                assert_true(sw_table_ready(own[i].stand.table, g, p, job.before + VERSIONS) &&
                            !sw_table_ready(own[i].stand.table, g, p, job.before + VERSIONS + 1));
    }
    check_values(&own[0], &job);
    free_job(&c, own);
}

static const struct job plain = {
    .plan =
        {.workers = 1, .groups = 1, .servers = 1, .slice_elements = 1000, .lr = 1, .staleness = -1},
    .hosts = 2};

static void every_update_counts_once(void **state)
{
    for (int hosts = 2; hosts <= MOST_HOSTS; hosts++)
        for (int groups = 1; groups <= 2; groups++)
            for (uint64_t seed = 0; seed < 3; seed++) {
                struct job job = plain;
                job.hosts = hosts;
                job.seed = seed;
                job.plan.groups = groups;
                job.plan.workers = groups * (1 + (int)(seed % 2));
                job.plan.servers = 1 + (int)(seed + 1) % 3;
                check_job(job);
            }
}

static void the_bound_of_staleness_holds_at_both_ends(void **state)
{
    for (int bound = 0; bound <= 3; bound++)
        for (uint64_t seed = 0; seed < 4; seed++) {
            struct job job = plain;
            job.hosts = 2 + (int)seed % 3;
            job.seed = 10 + seed;
            job.plan.groups = job.plan.workers = 1 + (int)seed / 2;
            job.plan.servers = 2;
            job.plan.staleness = bound;
            check_job(job);
        }
}

static void two_phases_count_every_update_once(void **state)
{
    for (uint64_t seed = 0; seed < 4; seed++) {
        struct job job = plain;
        job.hosts = 2 + (int)seed % 3;
        job.seed = 20 + seed;
        job.plan.groups = job.plan.workers = 1 + (int)seed % 2;
        job.plan.servers = 1 + (int)seed % 3;
        job.plan.staleness = (int)seed - 1;
        job.plan.two_phases = true;
        check_job(job);
    }
}

static void a_resumed_run_continues_its_versions(void **state)
{
    struct job job = plain;
    job.before = 1234567;
    job.plan.staleness = 1;
    check_job(job);
}

static void gradients_of_factors_are_sent_as_sums(void **state)
{
    for (int phases = 0; phases < 2; phases++) {
        struct job job = plain;
        job.hosts = 3;
        job.factors = true;
        job.plan.slice_elements = 200;
        job.plan.groups = job.plan.workers = 2;
        job.plan.servers = 2;
        job.plan.two_phases = phases;
        check_job(job);
    }
}

/* The norm is that of an update group's gradients, wherever it is. */
static void every_group_is_clipped_alone(void **state)
{
    static struct own own[MOST_HOSTS];
    struct cluster c;
    struct job job = plain;
    job.hosts = 3;
    job.clip_norm = 2;
    job.plan.groups = job.plan.workers = 2;
    job.plan.servers = 2;
    run_job(&c, own, &job);
    assert_all_ok(&c);
    double elements = (double)sw_table_elements(own[0].stand.table), sum = 0;
    for (int g = 0; g < 6; g++)
        sum += VERSIONS * fmin(weight_of(&job, g), job.clip_norm / sqrt(elements));
    for (int p = 0; p < TABLE_PARAMS; p++) {
        const float *value = sw_table_param(own[0].stand.table, p)->value;
        for (int64_t e = 0; e < storage_of(&own[0].stand, p); e++)
            assert_true(fabs(value[e] + sum) < 1e-5 * sum);
    }
    free_job(&c, own);
}

static void parties_meet_over_tcp(void **state)
{
    struct sw_err err;
    struct job job = plain;
    job.hosts = 3;
    job.engine = &sw_fabric_tcp;
    job.plan.groups = job.plan.workers = 2;
    job.plan.staleness = 1;
    ASSERT_OK(sw_tcp_listen("127.0.0.1", &job.tcp.port, &job.tcp.listener, &err));
    check_job(job);
}

/* With a bound of 0 all hosts have begun when any group has its first update. */
static void nothing_is_allocated_while_groups_train(void **state)
{
    static struct own own[MOST_HOSTS];
    struct cluster c;
    struct job job = plain;
    job.hosts = 3;
    job.plan.staleness = 0;
    job.plan.servers = 2;
    faulty_begin((struct faulty_plan){.kinds = FAULTY_ALLOC});
    run_job(&c, own, &job);
    assert_all_ok(&c);
    for (int i = 0; i < job.hosts; i++)
        assert_int_equal(own[i].allocations, 0);
    free_job(&c, own);
    assert_int_equal(faulty.live_allocations, 0);
    faulty_end();
}

/* ---- Losses ---- */

/* Those who go on have done all; of a lost group a parameter has an update everywhere or nowhere,
 * and in two phases all parameters have. */
static void check_survivors(struct own *home, const struct job *job)
{
    int most[MOST_GROUPS] = {0}, least[MOST_GROUPS];
    for (int p = 0; p < TABLE_PARAMS; p++) {
        const float *value = sw_table_param(home->stand.table, p)->value;
        for (int g = 0; g < job->hosts * job->plan.groups; g++) {
            int n = updates_in(value[0], g);
            most[g] = n > most[g] ? n : most[g];
            least[g] = p == 0 || n < least[g] ? n : least[g];
        }
        for (int64_t e = 1; e < storage_of(&home->stand, p); e++)
            assert_true(value[e] == value[0]);
    }
    for (int g = 0; g < job->hosts * job->plan.groups; g++) {
        bool goes_on = home->lost[g / job->plan.groups] == 0;
        assert_true(most[g] <= VERSIONS);
        assert_true(most[g] - least[g] <= !job->plan.two_phases);
        assert_true(!goes_on || least[g] == VERSIONS);
    }
}

/* The last host dies in the middle of a chunk. If the hosts were still meeting, some may give up.
 */
static void check_loss(struct job job)
{
    static struct own own[MOST_HOSTS];
    struct cluster c;
    run_job(&c, own, &job);
    for (int i = 0; i < job.hosts; i++) {
        check_findings(&own[0], &own[i]);
        if (i == job.kill_host)
            assert_true(c.host[i].rc == SW_ERR_LOST || c.host[i].rc == SW_OK);
        else if (own[i].opened && own[0].opened && c.host[i].rc != SW_OK)
            print_error("host %d, chunk %d: %s\n", i, (int)job.kill_chunk, c.host[i].err.text);
        if (i != job.kill_host)
            assert_int_equal(c.host[i].rc, own[i].opened && own[0].opened ? SW_OK : SW_ERR_LOST);
    }
    if (own[0].opened)
        check_survivors(&own[0], &job);
    free_job(&c, own);
}

static void a_lost_host_is_waited_for_no_more(void **state)
{
    for (int64_t chunk = 1; chunk < 240; chunk += 1 + chunk / 6) {
        struct job job = plain;
        job.hosts = 2 + (int)(chunk % 2);
        job.seed = (uint64_t)chunk;
        job.kill_host = job.hosts - 1;
        job.kill_chunk = chunk;
        job.plan.groups = job.plan.workers = 1 + (int)(chunk / 2 % 2);
        job.plan.servers = 2;
        job.plan.slice_elements = 500;
        job.plan.staleness = (int)(chunk % 3);
        check_loss(job);
        job.plan.two_phases = true;
        check_loss(job);
    }
}

/* All others end, and name it. */
static void a_lost_home_ends_all(void **state)
{
    static struct own own[MOST_HOSTS];
    for (int64_t chunk = 1; chunk < 150; chunk += 1 + chunk / 3) {
        struct cluster c;
        struct job job = plain;
        job.hosts = 3;
        job.seed = (uint64_t)chunk;
        job.kill_host = 0;
        job.kill_chunk = chunk;
        job.plan.staleness = 1;
        run_job(&c, own, &job);
        for (int i = 1; i < 3; i++) {
            assert_int_equal(c.host[i].rc, SW_ERR_LOST);
            assert_true(strstr(c.host[i].err.text, "ada") || !own[i].opened || !own[0].opened);
            check_findings(&own[0], &own[i]);
        }
        free_job(&c, own);
    }
}

/* ---- One end alone ---- */

enum { ANSWERS = 64 };

/* What a table has sent to remote groups. */
struct answers {
    int count, group[ANSWERS], slice[ANSWERS], staleness[ANSWERS];
    uint64_t version[ANSWERS];
};

static int note_answer(void *user, int group, int slice, uint64_t version, int staleness,
                       struct sw_err *err)
{
    struct answers *a = user;
    assert_true(a->count < ANSWERS);
    a->group[a->count] = group;
    a->slice[a->count] = slice;
    a->version[a->count] = version;
    a->staleness[a->count++] = staleness;
    return SW_OK;
}

/* A table with one local update group and two remote ones. */
static struct plan_of_table home_plan(struct answers *a)
{
    *a = (struct answers){0};
    return (struct plan_of_table){.workers = 1,
                                  .groups = 1,
                                  .servers = 2,
                                  .slice_elements = 1000,
                                  .plain = true,
                                  .init = SW_INIT_CONSTANT,
                                  .rule = &sw_table_async,
                                  .staleness = 1,
                                  .remote_groups = 2,
                                  .outer = {.answer = note_answer, .user = a}};
}

/* The gradient of a remote group is in its array; all elements are 1. */
static void put_ones(struct stand *s, int group, int param, uint64_t version)
{
    float *gradient = sw_table_param(s->table, param)->view[group].gradient;
    for (int64_t e = 0; e < storage_of(s, param); e++)
        gradient[e] = 1;
    sw_table_put_gradient(s->table, group, param, version);
}

static void an_answer_is_withheld_until_the_slowest_is_there_or_lost(void **state)
{
    struct answers a;
    struct stand s;
    struct sw_err err;
    struct plan_of_table plan = home_plan(&a);
    stand_new(&s, &plan);
    /* fc.weight has four slices. Group 1 is one step ahead, and gets its answer. */
    put_ones(&s, 1, 2, 1);
    ASSERT_OK(pump(&s, &err));
    assert_int_equal(a.count, 4);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(a.group[i], 1);
        assert_int_equal(a.version[i], 1);
        assert_int_equal(a.staleness[i], 1);
    }
    assert_true(sw_table_param(s.table, 2)->view[1].value[0] == -1);
    /* Two steps ahead it gets none until both others have made one. */
    put_ones(&s, 1, 2, 2);
    ASSERT_OK(pump(&s, &err));
    assert_int_equal(a.count, 4);
    ASSERT_OK(sw_table_update(s.table, 0, 2, 1, &err));
    ASSERT_OK(pump(&s, &err));
    assert_int_equal(a.count, 4);
    assert_true(sw_table_ready(s.table, 0, 2, 1));
    sw_table_lose_group(s.table, 2);
    assert_false(sw_table_ready(s.table, SW_TABLE_ALL, 2, 1));
    ASSERT_OK(pump(&s, &err));
    ASSERT_OK(pump(&s, &err));
    assert_int_equal(a.count, 8);
    assert_int_equal(a.version[7], 2);
    assert_int_equal(a.staleness[7], 1);
    assert_true(sw_table_is_lost(s.table, 2) && !sw_table_is_lost(s.table, 1));
    assert_true(sw_table_ready(s.table, SW_TABLE_ALL, 2, 1));
    stand_free(&s);
}

static bool serve_one(struct stand *s, int server)
{
    struct sw_message m;
    struct sw_err err;
    if (sw_queue_try_pop(sw_table_inbox(s->table, server), &m) != SW_OK)
        return false;
    ASSERT_OK(sw_table_serve(s->table, server, &m, &err));
    return true;
}

static void serve_all(struct stand *s, int server)
{
    while (serve_one(s, server))
        ;
}

/* In two phases an update that has all gradients is applied although its group is lost meanwhile;
 * nobody sees all update groups ready before that. One that lacks a gradient is not. */
static void leave_whole_updates(int first)
{
    struct answers a;
    struct stand s;
    struct sw_err err;
    struct plan_of_table plan = home_plan(&a);
    plan.two_phases = true;
    stand_new(&s, &plan);
    for (int p = 0; p < TABLE_PARAMS; p++)
        ASSERT_OK(sw_table_update(s.table, 0, p, 1, &err));
    ASSERT_OK(pump(&s, &err));
    for (int p = 0; p < TABLE_PARAMS; p++) {
        put_ones(&s, 1, p, 1);
        if (p > 0)
            put_ones(&s, 2, p, 1);
    }
    sw_table_lose_group(s.table, 1);
    sw_table_lose_group(s.table, 2);
    /* The other server decides, and the first one is slow to hear of it. */
    serve_all(&s, first);
    while (!sw_table_ready(s.table, SW_TABLE_ALL, 2, 1))
        if (!serve_one(&s, 1 - first))
            assert_true(serve_one(&s, first));
    for (int p = 0; p < TABLE_PARAMS; p++)
        for (int64_t e = 0; e < storage_of(&s, p); e++)
            assert_true(sw_table_param(s.table, p)->value[e] == -1);
    assert_int_equal(a.count, 0);
    stand_free(&s);
}

static void a_lost_group_leaves_whole_updates(void **state)
{
    leave_whole_updates(0);
    leave_whole_updates(1);
}

static int give_nothing(void *user, int group, int slice, uint64_t version, float *x,
                        struct sw_err *err)
{
    int *given = user;
    ++*given;
    return SW_OK;
}

static struct plan_of_table away_plan(int *given)
{
    *given = 0;
    return (struct plan_of_table){.workers = 2,
                                  .groups = 1,
                                  .servers = 2,
                                  .slice_elements = 1000,
                                  .plain = true,
                                  .init = SW_INIT_CONSTANT,
                                  .rule = &sw_table_async,
                                  .staleness = 0,
                                  .momentum = 0.9,
                                  .clip_norm = 1,
                                  .updates_outside = true,
                                  .outer = {.give = give_nothing, .user = given}};
}

static void values_from_outside_are_published(void **state)
{
    struct stand s;
    struct sw_err err;
    int given;
    struct plan_of_table plan = away_plan(&given);
    stand_new(&s, &plan);
    assert_false(sw_table_has_phases(s.table));
    assert_int_equal(sw_table_slots(s.table), 0);
    assert_ptr_equal(sw_table_value(s.table, 0, 2), sw_table_param(s.table, 2)->value);
    int slices = sw_table_param(s.table, 2)->slice_count;
    ASSERT_OK(sw_table_update(s.table, 0, 2, 1, &err));
    ASSERT_OK(pump(&s, &err));
    assert_int_equal(given, 0);
    ASSERT_OK(sw_table_update(s.table, 1, 2, 1, &err));
    ASSERT_OK(pump(&s, &err));
    assert_int_equal(given, slices);
    assert_false(sw_table_ready(s.table, 0, 2, 1));
    sw_table_put_values(s.table, 0, 2, 1, 3);
    ASSERT_OK(pump(&s, &err));
    assert_true(sw_table_ready(s.table, 0, 2, 1));
    assert_int_equal(sw_table_staleness(s.table, 0, 2, 1), 3);
    stand_free(&s);
}

static void impossible_messages_are_refused(void **state)
{
    struct answers a;
    struct stand s;
    struct sw_err err;
    int given;
    struct plan_of_table plan = home_plan(&a);
    stand_new(&s, &plan);
    sw_table_put_values(s.table, 0, 0, 1, 0);
    assert_int_equal(pump(&s, &err), SW_ERR_INVALID);
    const struct sw_message lost = {.kind = SW_MSG_LOST, .param = 1, .version = 1};
    assert_int_equal(sw_table_serve(s.table, 0, &lost, &err), SW_ERR_INVALID);
    put_ones(&s, 1, 0, 1);
    ASSERT_OK(pump(&s, &err));
    put_ones(&s, 1, 0, 1);
    assert_int_equal(pump(&s, &err), SW_ERR_INVALID);
    stand_free(&s);

    plan = away_plan(&given);
    stand_new(&s, &plan);
    sw_table_put_values(s.table, 0, 0, 1, 0); /* before the gradient was given */
    assert_int_equal(pump(&s, &err), SW_ERR_INVALID);
    sw_table_put_sum(s.table, 0, 1);
    assert_int_equal(pump(&s, &err), SW_ERR_INVALID);
    stand_free(&s);
}

static void what_cannot_be_elsewhere_is_refused(void **state)
{
    struct answers a;
    struct stand s;
    struct sw_err err;
    int given;
    for (int i = 0; i < 10; i++) {
        struct plan_of_table plan = i % 2 ? home_plan(&a) : away_plan(&given);
        plan.bad = i / 2 == 0 ? SW_BAD_DROPS : plan.bad;
        plan.rule = i / 2 == 1 ? NULL : plan.rule;
        plan.others = i / 2 == 2 ? 2 : 0;
        plan.loss_scale = i / 2 == 3 ? 1024 : 0;
        plan.updates_on_device = i / 2 == 4;
        assert_int_equal(try_stand(&s, &plan, &err), SW_ERR_UNSUPPORTED);
        stand_free(&s);
    }
}

static void changes_are_relative_to_values(void **state)
{
    const float gradient[] = {1, -2, 3}, value[] = {-4, 4, 4}, none[] = {0, 0, 0},
                nan[] = {1, NAN, 1};

    assert_true(sw_relative_change(gradient, value, 3) == 0.5F);
    assert_true(sw_relative_change(gradient, value, 1) == 0.25F);
    assert_true(sw_relative_change(none, value, 3) == 0);
    assert_true(sw_relative_change(gradient, none, 3) ==
                0); /* values that are all 0 tell nothing */
    assert_true(sw_relative_change(nan, value, 3) == 0);
}

/* A remote group costs a gradient and a buffer; a table without updates has no updater state. */
static void memory_is_counted(void **state)
{
    struct answers a;
    struct stand s;
    int given;
    size_t values, state_bytes;
    struct plan_of_table plan = home_plan(&a);
    plan.momentum = 0.9;
    stand_new(&s, &plan);
    sw_table_bytes(s.table, &values, &state_bytes);
    assert_int_equal(sw_table_slots(s.table), 1);
    assert_int_equal(state_bytes, values * (1 + 1 + 1 + 2 * 2));
    stand_free(&s);
    plan = away_plan(&given);
    stand_new(&s, &plan);
    sw_table_bytes(s.table, &values, &state_bytes);
    assert_int_equal(state_bytes, values * 2);
    stand_free(&s);
    plan.groups = 2;
    stand_new(&s, &plan);
    sw_table_bytes(s.table, &values, &state_bytes);
    assert_int_equal(state_bytes, values * (2 + 2));
    stand_free(&s);
}

/* ---- Messages that no host sends ---- */

/* The receiver of one end, without a fabric. */
struct end {
    struct stand stand;
    struct sw_table_remotes remotes;
    struct sw_fabric_router router;
    struct sw_fabric_sink sink;
    struct sw_fault fault;
};

static void end_new(struct end *e, const struct plan_of_table *plan, int own)
{
    const struct sw_host names[3] = {{.name = "ada"}, {.name = "bob"}, {.name = "cyd"}};
    const struct sw_hosts hosts = {.host = names, .count = 3, .own = own};
    struct sw_err err;
    stand_new(&e->stand, plan);
    sw_fault_init(&e->fault);
    e->router = (struct sw_fabric_router){.count = 0};
    ASSERT_OK(sw_table_remotes_init(
        &e->remotes,
        &(struct sw_table_remotes_args){
            .table = e->stand.table, .hosts = &hosts, .groups = 1, .fault = &e->fault},
        &err));
    sw_table_remotes_receive(&e->remotes, &e->router);
    e->sink = sw_fabric_router_sink(&e->router);
}

static void end_free(struct end *e)
{
    sw_table_remotes_fini(&e->remotes);
    stand_free(&e->stand);
    sw_fault_fini(&e->fault);
}

static int place(struct end *e, int from, struct sw_fabric_tag tag, size_t bytes)
{
    struct sw_err err;
    void *to = NULL;
    int rc = e->sink.place(e->sink.user, from, &tag, bytes, &to, &err);
    if (rc == SW_OK)
        memset(to, 0, bytes);
    return rc;
}

static int take(struct end *e, int from, struct sw_fabric_tag tag, size_t bytes)
{
    struct sw_err err;
    void *to = NULL;
    int rc = e->sink.place(e->sink.user, from, &tag, bytes, &to, &err);
    return rc == SW_OK ? e->sink.arrived(e->sink.user, from, &tag, to, bytes, &err) : rc;
}

static void host_0_takes_the_next_gradients_only(void **state)
{
    struct answers a;
    struct plan_of_table plan = home_plan(&a);
    struct end e;
    struct sw_err err;
    end_new(&e, &plan, 0);
    uint32_t slices = (uint32_t)sw_table_slices(e.stand.table);
    const size_t bytes = 900 * sizeof(float);
    const struct sw_fabric_tag good = {
        .kind = SW_HOSTS_GRADIENT, .urgency = 0, .item = slices, .version = 1};
    struct sw_fabric_tag bad[6] = {good, good, good, good, good, good};
    bad[0].kind = SW_HOSTS_VALUES;
    bad[1].urgency = 1;
    bad[2].item = 0;          /* a group of host 0 */
    bad[3].item = 3 * slices; /* no group */
    bad[4].version = 2;
    bad[5].version = 0;
    for (int i = 0; i < 6; i++)
        assert_int_equal(place(&e, 1, bad[i], bytes), SW_ERR_INVALID);
    assert_int_equal(place(&e, 2, good, bytes), SW_ERR_INVALID); /* another host's */
    assert_int_equal(place(&e, 1, good, bytes + 4), SW_ERR_INVALID);
    assert_int_equal(place(&e, 1, good, 0), SW_ERR_INVALID);
    ASSERT_OK(place(&e, 1, good, bytes));
    ASSERT_OK(take(&e, 1, good, bytes));
    assert_int_equal(place(&e, 1, good, bytes), SW_ERR_INVALID); /* twice */
    ASSERT_OK(place(
        &e, 2, (struct sw_fabric_tag){.kind = SW_HOSTS_GRADIENT, .item = 2 * slices, .version = 1},
        bytes));
    /* A group that begins later. */
    sw_table_put_group(e.stand.table, 2, 7);
    assert_int_equal(
        place(&e, 2,
              (struct sw_fabric_tag){.kind = SW_HOSTS_GRADIENT, .item = 2 * slices, .version = 1},
              bytes),
        SW_ERR_INVALID);
    ASSERT_OK(place(
        &e, 2, (struct sw_fabric_tag){.kind = SW_HOSTS_GRADIENT, .item = 2 * slices, .version = 8},
        bytes));
    end_free(&e);
}

static void others_take_no_values_before_they_gave_a_gradient(void **state)
{
    int given;
    struct plan_of_table plan = away_plan(&given);
    struct end e;
    end_new(&e, &plan, 2);
    uint32_t slices = (uint32_t)sw_table_slices(e.stand.table);
    const size_t bytes = 900 * sizeof(float);
    const struct sw_fabric_tag good = {
        .kind = SW_HOSTS_VALUES, .urgency = 0, .item = 2 * slices, .version = 0};
    assert_int_equal(place(&e, 0, good, bytes), SW_ERR_INVALID);
    end_free(&e);
}

static void parties_need_memory_and_the_right_groups(void **state)
{
    const struct sw_host names[3] = {{.name = "ada"}, {.name = "bob"}, {.name = "cyd"}};
    const struct sw_hosts hosts = {.host = names, .count = 3};
    struct answers a;
    struct plan_of_table plan = home_plan(&a);
    struct sw_table_remotes remotes;
    struct stand s;
    struct sw_err err;
    int at = 0, rc;
    stand_new(&s, &plan);
    struct sw_table_remotes_args args = {.table = s.table, .hosts = &hosts, .groups = 2};
    assert_int_equal(sw_table_remotes_init(&remotes, &args, &err), SW_ERR_INVALID);
    args.groups = 1;
    do {
        faulty_begin((struct faulty_plan){.kinds = FAULTY_ALLOC, .at = ++at});
        rc = sw_table_remotes_init(&remotes, &args, &err);
        assert_true(rc == SW_OK || (rc == SW_ERR_NOMEM && faulty.live_allocations == 0));
        if (rc == SW_OK)
            sw_table_remotes_fini(&remotes);
        faulty_end();
    } while (rc != SW_OK);
    assert_int_equal(at, 3);
    stand_free(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_update_counts_once),
        cmocka_unit_test(the_bound_of_staleness_holds_at_both_ends),
        cmocka_unit_test(two_phases_count_every_update_once),
        cmocka_unit_test(a_resumed_run_continues_its_versions),
        cmocka_unit_test(gradients_of_factors_are_sent_as_sums),
        cmocka_unit_test(every_group_is_clipped_alone),
        cmocka_unit_test(parties_meet_over_tcp),
        cmocka_unit_test(nothing_is_allocated_while_groups_train),
        cmocka_unit_test(a_lost_host_is_waited_for_no_more),
        cmocka_unit_test(a_lost_home_ends_all),
        cmocka_unit_test(an_answer_is_withheld_until_the_slowest_is_there_or_lost),
        cmocka_unit_test(a_lost_group_leaves_whole_updates),
        cmocka_unit_test(values_from_outside_are_published),
        cmocka_unit_test(impossible_messages_are_refused),
        cmocka_unit_test(what_cannot_be_elsewhere_is_refused),
        cmocka_unit_test(memory_is_counted),
        cmocka_unit_test(changes_are_relative_to_values),
        cmocka_unit_test(host_0_takes_the_next_gradients_only),
        cmocka_unit_test(others_take_no_values_before_they_gave_a_gradient),
        cmocka_unit_test(parties_need_memory_and_the_right_groups),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
