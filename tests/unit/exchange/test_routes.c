/* ctest-labels: threads
 * ctest-timeout: 120
 * Every route of the exchange through one matrix of cases, without nets and jobs: numbers of ranks,
 * of leaves and of servers, frozen parameters and such as one rank alone has, factors, updates that
 * are decided upon together or dropped, staleness, rows that move, graphs, and waits that a fault
 * ends. At every pull the value is the one of that version, to the bit. */
#include "exchange_support.h"
#include <dlfcn.h>
#include <stdatomic.h>

/* ---- A crowd ---- */

static void add_param(struct crowd *c, int p, int number)
{
    static const char *const names[] = {"fc.weight", "fc.bias", "frozen.weight", "free.weight",
                                        "owned.weight"};
    const int64_t weight[2] = {OUTPUTS, INPUTS};
    struct sw_err err;
    int index;
    const struct sw_param_spec spec = {.name = names[p],
                                       .layout = p == WEIGHT ? sw_desc_plain(SW_F32, 2, weight)
                                                             : sw_desc_plain(SW_F32, 1, &sizes[p]),
                                       .owner = is_owned(c->s, p) ? 0 : -1,
                                       .frozen = p == FROZEN,
                                       .factors = has_factors(c->s, p) ? number : 0,
                                       .init = {.init = SW_INIT_CONSTANT},
                                       .lr_mult = 1,
                                       .decay_mult = 1};
    ASSERT_OK(sw_table_add(c->stand.table, &spec, &index, &err));
    assert_int_equal(index, p);
}

static void make_table(struct crowd *c)
{
    const struct setup *s = c->s;
    bool on_device = s->sim && s->copy == SW_COPY_NONE;
    struct sw_err err;
    int number = 0;
    c->stand.common.lr = 1;
    c->stand.updater_conf = conf_with(&sgd()->base, NULL, 0);
    c->stand.schedule_conf = conf_with(fixed_schedule(), NULL, 0);
    c->servers = s->ranks > 1 ? 2 : 1;
    ASSERT_OK(sw_cpu_open(false, &c->stand.dev, &err));
    const struct sw_table_args args = {.device = c->stand.dev,
                                       .updater = sgd(),
                                       .updater_conf = c->stand.updater_conf,
                                       .common = &c->stand.common,
                                       .schedule = fixed_schedule(),
                                       .schedule_conf = c->stand.schedule_conf,
                                       .horizon_steps = 100,
                                       .slice_elements = 16,
                                       .workers = s->ranks,
                                       .servers = c->servers,
                                       .groups = is_async(s) ? s->ranks : 0,
                                       .leaves = s->leaves,
                                       .rule = s->rule,
                                       .staleness = s->staleness,
                                       .updates_on_device = on_device,
                                       .sums_on_device = on_device && s->reduces,
                                       .bad = s->drops || s->vetoes ? SW_BAD_DROPS : SW_BAD_STOPS,
                                       .clip_norm = s->clip_norm};
    ASSERT_OK(sw_table_new(&args, &c->stand.table, &err));
    const struct sw_table_factors f = {.rows = batch_rows(s),
                                       .inputs = INPUTS,
                                       .outputs = OUTPUTS,
                                       .steps = 1,
                                       .home = (enum sw_factor_home)(s->factors - 1)};
    if (s->factors)
        ASSERT_OK(sw_table_add_factors(c->stand.table, &f, &number, &err));
    for (int p = 0; p < PARAMS; p++)
        add_param(c, p, number);
    ASSERT_OK(sw_table_freeze(c->stand.table, &err));
    ASSERT_OK(sw_table_allocate(c->stand.table, &err));
    ASSERT_OK(sw_table_init_values(c->stand.table, &err));
    const uint64_t from = (uint64_t)s->from;
    if (from > 0)
        sw_table_put_version(c->stand.table, from,
                             from * (uint64_t)sw_table_update_groups(c->stand.table), 0);
    ASSERT_OK(sw_fault_attach(&c->fault, sw_table_close_v, c->stand.table, &err));
}

/* Two buckets of what devices add up, in the order in which it is pushed. */
static void plan_sums(struct crowd *c)
{
    c->sums = (struct sw_sums){.buckets = c->bucket,
                               .elements = c->elements,
                               .order = c->order,
                               .bucket_of = c->bucket_of,
                               .at_of = c->at_of};
    for (int p = PARAMS - 1; p >= 0; p--) {
        c->bucket_of[p] = -1;
        if (sw_table_reduction(c->stand.table, p) != SW_REDUCTION_DEVICES)
            continue;
        int b = p <= BIAS;
        c->bucket_of[p] = b;
        c->at_of[p] = c->elements[b];
        c->elements[b] += (sizes[p] + 15) / 16 * 16;
        c->bucket[b].count++;
        c->order[b] = b;
        c->sums.count = b + 1;
    }
}

static void make_sums(struct crowd *c, struct sw_device *const *devices)
{
    const struct sw_factors_layer layer = {1, INPUTS, OUTPUTS};
    const struct sw_allreduce_args sums = {.devices = devices,
                                           .ranks = c->s->ranks,
                                           .elements = c->elements,
                                           .order = c->order,
                                           .buckets = c->sums.count,
                                           .first_ms = 60000};
    const struct sw_factors_args factors = {.devices = devices,
                                            .ranks = c->s->ranks,
                                            .groups = is_async(c->s) ? c->s->ranks : 1,
                                            .staleness = c->s->staleness,
                                            .batch_rows = batch_rows(c->s),
                                            .layers = &layer,
                                            .count = 1};
    struct sw_err err;
    if (c->sums.count > 0) {
        ASSERT_OK(sw_allreduce_new(&sums, &c->sums.all_reduce, &err));
        ASSERT_OK(sw_fault_attach(&c->fault, sw_allreduce_close_v, c->sums.all_reduce, &err));
    }
    if (c->s->factors == 1 + SW_FACTORS_EXCHANGED) {
        ASSERT_OK(sw_factors_new(&factors, &c->factors, &err));
        ASSERT_OK(sw_fault_attach(&c->fault, sw_factors_close_v, c->factors, &err));
        for (int r = 0; r < c->s->ranks; r++)
            sw_factors_set_rows(c->factors, r, row_in_batch(c->s, (int64_t)r * ROWS), ROWS);
    }
}

static void make_rank(struct crowd *c, int i)
{
    const struct setup *s = c->s;
    struct rank *r = &c->rank[i];
    struct sw_err err;
    r->stream = new_stream(r->dev);
    for (int p = 0; p < PARAMS; p++) {
        if (lacks(s, i, p))
            continue;
        r->params[r->count++] = p;
        if (p != FROZEN)
            r->pushes[r->push_count++] = p;
    }
    if (has(s, SHARED))
        r->params[r->count++] = FREE;
    for (int v = 0; v < c->servers && s->hosted; v++)
        if (v % s->ranks == i)
            r->served[r->served_count++] = v;
    const struct sw_exchange_args args = {.table = c->stand.table,
                                          .device = r->dev,
                                          .stream = r->stream,
                                          .fault = &c->fault,
                                          .copy = s->copy,
                                          .own_memory = s->sim,
                                          .overlap = !has(s, LATE),
                                          .worker = i,
                                          .role = "rank",
                                          .params = r->params,
                                          .count = r->count,
                                          .sums = &c->sums,
                                          .rank = i,
                                          .factors = c->factors,
                                          .max_rows = 2 * ROWS,
                                          .votes = s->ranks > 1 || s->vetoes || s->drops,
                                          .hooks = {.user = r,
                                                    .serve = serve_inboxes,
                                                    .charge = charge_time,
                                                    .waiting = note_waiting,
                                                    .finish = finish_device,
                                                    .finite = say_finite,
                                                    .sum = sum_votes,
                                                    .served = r->served,
                                                    .served_count = r->served_count}};
    size_t before = s->sim ? sw_device_bytes_of(r->dev).in_use : 0;
    ASSERT_OK(sw_exchange_new(&args, &r->x, &err));
    if (s->sim)
        assert_int_equal(sw_device_bytes_of(r->dev).in_use - before,
                         sw_exchange_bytes(&args).device);
    sw_exchange_set_rows(r->x, row_in_batch(s, (int64_t)i * ROWS), ROWS);
}

static void serve_alone(void *user)
{
    struct crowd *c = ((struct rank *)user)->crowd;
    int server = (int)(((struct rank *)user) - c->rank);
    struct sw_message m;
    struct sw_err err;
    while (sw_queue_pop(sw_table_inbox(c->stand.table, server), &m) == SW_OK)
        if (sw_table_serve(c->stand.table, server, &m, &err) != SW_OK)
            sw_fault_set(&c->fault, "server", &err);
}

/* ---- What a rank does ---- */

/* The value at that version is where the net reads. */
static int check_values(struct rank *r, int64_t version, struct sw_err *err)
{
    for (int i = 0; i < r->count; i++) {
        int p = r->params[i];
        float value[MOST];
        struct sw_exchange_binding b;
        sw_exchange_bind(r->x, p, &b);
        int rc = sw_copy(r->stream, value, b.value, (size_t)sizes[p] * sizeof *value, err);
        if (rc == SW_OK)
            rc = sw_stream_wait(r->stream, err);
        for (int64_t k = 0; k < sizes[p] && rc == SW_OK; k++)
            if (value[k] != value_at(r->crowd, version, p, k))
                rc = sw_err_set(err, SW_ERR_INVALID,
                                "element %lld of parameter %d is %g at version %lld, not %g",
                                (long long)k, p, (double)value[k], (long long)version,
                                (double)value_at(r->crowd, version, p, k));
        if (rc != SW_OK)
            return rc;
    }
    return SW_OK;
}

static int put(struct rank *r, float *to, const float *from, int64_t count, struct sw_err *err)
{
    return sw_copy(r->stream, to, from, (size_t)count * sizeof *to, err);
}

static int write_factors(struct rank *r, const struct sw_exchange_binding *b, int64_t t,
                         struct sw_err *err)
{
    float(*host)[RANKS * 4][MOST] = r->host[t - r->crowd->s->from - 1];
    float *x = host[WEIGHT][0], *dy = host[BIAS][0];
    int64_t first, rows = rows_of(r->crowd->s, r->rank, t, &first);
    for (int64_t row = 0; row < rows; row++) {
        for (int64_t i = 0; i < INPUTS; i++)
            x[row * INPUTS + i] = x_of(t, first + row, i);
        for (int64_t o = 0; o < OUTPUTS; o++)
            dy[row * OUTPUTS + o] = dy_of(t, first + row, o);
    }
    int rc = put(r, b->x, x, rows * INPUTS, err);
    return rc == SW_OK ? put(r, b->dy, dy, rows * OUTPUTS, err) : rc;
}

static int write_gradient(struct rank *r, int p, int64_t t, struct sw_err *err)
{
    const struct setup *s = r->crowd->s;
    struct sw_exchange_binding b;
    int rc = SW_OK;
    sw_exchange_bind(r->x, p, &b);
    if (has_factors(s, p))
        return p == WEIGHT ? write_factors(r, &b, t, err) : SW_OK;
    for (int k = 0; k < b.partials && rc == SW_OK; k++) {
        float *g = r->host[t - s->from - 1][p][k];
        for (int64_t i = 0; i < sizes[p]; i++)
            g[i] = gradient_at(t, r->rank, p, k, i);
        if (s->drops && is_dropped(s, t) && r->rank == s->ranks - 1 && p == FREE)
            g[1] = NAN;
        rc = put(r, b.partial[k], g, sizes[p], err);
    }
    return rc;
}

/* What needs no host. */
static int queue_own(struct rank *r, struct sw_err *err)
{
    return sw_exchange_queues_updates(r->x) ? sw_exchange_queue_updates(r->x, err) : SW_OK;
}

/* Captured in the third step, and launched from then on. */
static int launch_own(struct rank *r, struct sw_err *err)
{
    struct sw_err ignored;
    if (!sw_device_has_graphs(r->dev))
        return queue_own(r, err);
    int rc = r->graph ? SW_OK : sw_capture_begin(r->stream, err);
    if (rc == SW_OK && !r->graph) {
        rc = queue_own(r, err);
        int end = sw_capture_end(r->stream, &r->graph, rc == SW_OK ? err : &ignored);
        rc = rc == SW_OK ? end : rc;
    }
    return rc == SW_OK ? sw_graph_launch(r->stream, r->graph, err) : rc;
}

static int finish_step(struct rank *r, int64_t t, struct sw_err *err)
{
    const struct setup *s = r->crowd->s;
    int rc = sw_exchange_end(r->x, (uint64_t)t, err);
    if (rc == SW_OK)
        rc = finish_device(r, true, err);
    if (rc == SW_OK)
        rc = sw_exchange_check_finite(r->x, 0, err);
    if (rc == SW_OK)
        rc = sw_exchange_finish(r->x, (uint64_t)t, 0, err);
    return rc == SW_OK && (s->drops || s->vetoes) ? sw_exchange_wait_own(r->x, (uint64_t)t, err)
                                                  : rc;
}

static int one_step(struct rank *r, int64_t t, struct sw_err *err)
{
    const struct setup *s = r->crowd->s;
    const struct sw_param_list all = {r->params, r->count}, pushes = {r->pushes, r->push_count};
    bool absent = s->absent_from > 0 && t >= s->absent_from && r->rank == s->ranks - 1;
    double scale;
    r->step = t;
    int rc = sw_exchange_begin(r->x, (uint64_t)t, &scale, err);
    if (rc == SW_OK)
        rc = sw_exchange_pull(r->x, all, (uint64_t)t - 1, err);
    if (rc != SW_OK || absent)
        return rc;

    if (!is_async(s))
        rc = check_values(r, t - 1, err);
    int64_t lag = sw_exchange_lag(r->x);
    r->most_lag = lag > r->most_lag ? lag : r->most_lag;

    for (int i = 0; i < r->push_count && rc == SW_OK; i++)
        rc = write_gradient(r, r->pushes[i], t, err);
    if (rc == SW_OK)
        rc = has(s, CAPTURED) && t > s->from + 2 ? launch_own(r, err) : queue_own(r, err);
    if (rc == SW_OK)
        rc = sw_exchange_push(r->x, pushes, (uint64_t)t, err);
    return rc == SW_OK ? finish_step(r, t, err) : rc;
}

/* All ranks have all updates, and read the same values; then the table has these. */
static int come_together(struct rank *r, int64_t t, struct sw_err *err)
{
    struct sw_table *table = r->crowd->stand.table;
    const struct sw_param_list all = {r->params, r->count};
    double nothing = 0;
    int rc = SW_OK;
    if (!sw_exchange_keeps_values(r->x) || is_async(r->crowd->s))
        rc = sw_exchange_wait_all(r->x, (uint64_t)t, err);
    if (rc == SW_OK)
        rc = meet_all(r, &nothing, 0, err);
    if (rc == SW_OK && is_async(r->crowd->s)) {
        sw_table_refresh(table, sw_table_update_group(table, r->rank));
        sw_exchange_refresh(r->x);
        rc = meet_all(r, &nothing, 0, err);
    }

    if (rc == SW_OK)
        rc = sw_exchange_pull(r->x, all, (uint64_t)t, err);
    if (rc == SW_OK)
        rc = finish_device(r, false, err);
    if (rc == SW_OK)
        rc = check_values(r, t, err);

    if (rc == SW_OK)
        rc = meet_all(r, &nothing, 0, err);
    if (rc == SW_OK && sw_exchange_keeps_values(r->x))
        rc = sw_exchange_sync_to_host(r->x, (uint64_t)t, r->rank == 0, err);
    return rc == SW_OK ? meet_all(r, &nothing, 0, err) : rc;
}

/* The rank's rows of step t; nobody is in a step. */
static void set_rows(struct rank *r, int64_t t)
{
    int64_t first, rows = rows_of(r->crowd->s, r->rank, t, &first);
    first = row_in_batch(r->crowd->s, first);
    sw_exchange_set_rows(r->x, first, rows);
    if (r->crowd->factors)
        sw_factors_set_rows(r->crowd->factors, r->rank, first, rows);
}

static int run_steps(struct rank *r, struct sw_err *err)
{
    const struct setup *s = r->crowd->s;
    double nothing = 0;
    int rc = SW_OK;
    for (int64_t t = s->from + 1; t <= s->from + STEPS && rc == SW_OK; t++) {
        rc = one_step(r, t, err);
        if (rc != SW_OK || !has(s, MEETS) || t != s->from + MEET_STEP)
            continue;
        rc = come_together(r, t, err);
        set_rows(r, t + 1);
        if (rc == SW_OK)
            rc = meet_all(r, &nothing, 0, err);
    }
    return rc == SW_OK && s->absent_from == 0 ? come_together(r, s->from + STEPS, err) : rc;
}

static void rank_main(void *user)
{
    struct rank *r = user;
    char name[32];
    snprintf(name, sizeof name, "rank %d", r->rank);
    r->rc = run_steps(r, &r->err);
    if (r->rc != SW_OK)
        sw_fault_set(&r->crowd->fault, name, &r->err);
}

/* ---- A whole case ---- */

static void crowd_open(struct crowd *c, const struct setup *s)
{
    struct sw_sim_conf conf = small_conf();
    struct sw_device *devices[RANKS];
    struct sw_err err;
    *c = (struct crowd){.s = s};
    sw_fault_init(&c->fault);
    sw_mutex_init(&c->lock);
    sw_cond_init(&c->changed);
    c->rank = calloc(RANKS, sizeof *c->rank);
    assert_non_null(c->rank);
    make_table(c);
    conf.gpus = s->ranks;
    for (int r = 0; r < RANKS; r++) {
        c->rank[r].crowd = c;
        c->rank[r].rank = r;
        if (r >= s->ranks)
            continue;
        if (s->sim)
            ASSERT_OK(sw_sim_open(&conf, r, &c->rank[r].dev, &err));
        else
            c->rank[r].dev = c->stand.dev;
        if (s->sim && r > 0)
            sw_sim_join(c->rank[r].dev, c->rank[0].dev);
        devices[r] = c->rank[r].dev;
    }
    plan_sums(c);
    make_sums(c, devices);
    for (int r = 0; r < s->ranks; r++)
        make_rank(c, r);
    for (int v = 0; v < c->servers && !s->hosted; v++)
        ASSERT_OK(sw_thread_start(&c->server[v], "server", serve_alone, &c->rank[v], &err));
}

static void crowd_run(struct crowd *c)
{
    struct sw_err err;
    for (int r = 0; r < c->s->ranks; r++)
        ASSERT_OK(sw_thread_start(&c->rank[r].thread, "rank", rank_main, &c->rank[r], &err));
    if (c->s->absent_from > 0) { /* they wait, and would for ever */
        sw_mutex_lock(&c->lock);
        while (c->rank[0].waits == 0)
            sw_cond_wait_ms(&c->changed, &c->lock, 10);
        sw_mutex_unlock(&c->lock);
        sw_err_set(&err, SW_ERR_IO, "planted");
        sw_fault_set(&c->fault, "test", &err);
    }
    for (int r = 0; r < c->s->ranks; r++)
        sw_thread_join(&c->rank[r].thread);
}

static void crowd_close(struct crowd *c)
{
    sw_table_close_v(c->stand.table);
    for (int v = 0; v < c->servers; v++)
        sw_thread_join(&c->server[v]);
    for (int r = 0; r < c->s->ranks; r++) {
        struct sw_err err;
        int rc = sw_stream_wait(c->rank[r].stream, &err);
        (void)rc;
    }
    for (int r = 0; r < c->s->ranks; r++)
        sw_exchange_free(c->rank[r].x);
    sw_allreduce_free(c->sums.all_reduce);
    sw_factors_free(c->factors);
    for (int r = 0; r < c->s->ranks; r++) {
        sw_graph_free(c->rank[r].dev, c->rank[r].graph);
        sw_stream_free(c->rank[r].stream);
        if (c->s->sim)
            sw_device_close(c->rank[r].dev);
    }
    free(c->rank);
    stand_free(&c->stand);
    sw_cond_fini(&c->changed);
    sw_mutex_fini(&c->lock);
    sw_fault_fini(&c->fault);
}

static bool taken[SW_MOST_ROUTES]; /* rows of the registry, by any case */

/* Of rank 0. */
static void check_routes(const struct crowd *c)
{
    for (int p = 0; p < PARAMS; p++) {
        const struct sw_route_query q = {
            .table = c->stand.table, .param = p, .copy = c->s->copy, .own_memory = c->s->sim};
        const struct sw_route *route = sw_route_choose(&q);
        if (c->s->route[p] && strcmp(route->name, c->s->route[p]) != 0)
            fail_msg("%s: parameter %d takes route %s, not %s", c->s->name, p, route->name,
                     c->s->route[p]);
        for (int i = 0; sw_route_at(i); i++)
            taken[i] |= sw_route_at(i) == route;
    }
}

static void run_case(const struct setup *s)
{
    struct crowd c;
    struct sw_err err;
    crowd_open(&c, s);
    check_routes(&c);
    crowd_run(&c);

    if (sw_fault_get(&c.fault, &err) != SW_OK)
        fail_msg("%s, with %d ranks: %s", s->name, s->ranks, err.text);
    for (int r = 0; r < s->ranks; r++)
        if (c.rank[r].rc != SW_OK ||
            (s->rule && s->staleness >= 0 && c.rank[r].most_lag > s->staleness))
            fail_msg("%s: rank %d ended with %d, %lld steps behind", s->name, r, c.rank[r].rc,
                     (long long)c.rank[r].most_lag);
    for (int p = 0; p < PARAMS; p++)
        for (int64_t i = 0; i < sizes[p]; i++)
            assert_true(sw_table_param(c.stand.table, p)->value[i] ==
                        value_at(&c, s->from + STEPS, p, i));
    crowd_close(&c);
}

/* ---- Cases ---- */

#define HOST .copy = SW_COPY_ASYNC
#define MIRROR .sim = true, .copy = SW_COPY_ASYNC
#define SYNC .sim = true, .copy = SW_COPY_SYNC
#define UPDATES .sim = true, .copy = SW_COPY_NONE
#define REDUCES UPDATES, .reduces = true
#define BY_SERVER .factors = 1 + SW_FACTORS_BY_SERVER
#define EXCHANGED .factors = 1 + SW_FACTORS_EXCHANGED
#define IN_TABLE .factors = 1 + SW_FACTORS_SHARED
#define SSP .rule = &sw_table_async, .staleness = 1
#define FREELY .rule = &sw_table_async, .staleness = -1
#define ROUTES(...) .route = {__VA_ARGS__}

static const struct setup ways[] = {
    {.name = "table", HOST, ROUTES([FREE] = "table", [FROZEN] = "table")},
    {.name = "table, factors", HOST, IN_TABLE, ROUTES([WEIGHT] = "table")},
    {.name = "mirror", MIRROR, ROUTES([FREE] = "mirror", [FROZEN] = "constant")},
    {.name = "mirror, sync", SYNC, ROUTES([FREE] = "mirror")},
    {.name = "mirror, factors",
     MIRROR,
     BY_SERVER,
     ROUTES([WEIGHT] = "mirror-factors", [BIAS] = "mirror-factors", [FREE] = "mirror")},
    {.name = "mirror, sync, factors", SYNC, BY_SERVER, ROUTES([WEIGHT] = "mirror-factors")},
    {.name = "mirror, exchanged",
     MIRROR,
     EXCHANGED,
     ROUTES([WEIGHT] = "factors", [BIAS] = "factors", [FREE] = "mirror")},
    {.name = "updates", UPDATES, ROUTES([FROZEN] = "constant", [OWNED] = "local")},
    {.name = "updates, factors", UPDATES, BY_SERVER, ROUTES([WEIGHT] = "server-sum-factors")},
    {.name = "updates, exchanged", UPDATES, EXCHANGED, ROUTES([WEIGHT] = "factors")},
    {.name = "reduces", REDUCES, ROUTES([FREE] = "all-reduce", [OWNED] = "local")},
    {.name = "reduces, exchanged",
     REDUCES,
     EXCHANGED,
     ROUTES([WEIGHT] = "factors", [FREE] = "all-reduce")},
};

static const struct setup alone[] = {
    {.name = "table", HOST, .ranks = 1, .hosted = true},
    {.name = "mirror", MIRROR, .ranks = 1, .hosted = true},
    {.name = "sync", SYNC, .ranks = 1},
    {.name = "local", UPDATES, .ranks = 1, ROUTES([FREE] = "local", [WEIGHT] = "local")},
    {.name = "local, together", UPDATES, .ranks = 1, .clip_norm = 1e9},
};

static const struct setup asynchronous[] = {
    {.name = "async", HOST, FREELY, .ranks = 3},
    {.name = "async, factors", HOST, IN_TABLE, FREELY, .ranks = 3},
    {.name = "ssp", HOST, SSP, .ranks = 3},
    {.name = "ssp, mirror", MIRROR, SSP, .ranks = 3},
    {.name = "ssp, mirror, factors", MIRROR, SSP, BY_SERVER, .ranks = 3},
    {.name = "ssp, exchanged",
     MIRROR,
     SSP,
     EXCHANGED,
     .ranks = 3,
     ROUTES([WEIGHT] = "factors", [BIAS] = "factors", [FREE] = "mirror")},
    {.name = "ssp, sync, exchanged", SYNC, SSP, EXCHANGED, .ranks = 2},
    {.name = "ssp of 3, exchanged",
     MIRROR,
     .rule = &sw_table_async,
     .staleness = 3,
     EXCHANGED,
     .ranks = 4},
    {.name = "ssp of one group, exchanged", MIRROR, SSP, EXCHANGED, .ranks = 1},
    {.name = "async, mirror", MIRROR, FREELY, .ranks = 3},
    {.name = "async, sync", SYNC, FREELY, .ranks = 3},
    {.name = "async, sync, factors", SYNC, FREELY, BY_SERVER, .ranks = 3},
    {.name = "hogwild", HOST, .rule = &sw_table_hogwild, .staleness = -1, .ranks = 1},
    {.name = "hogwild, mirror", MIRROR, .rule = &sw_table_hogwild, .staleness = 0, .ranks = 1},
};
enum {
    WAYS = sizeof ways / sizeof *ways,
    ALONE = sizeof alone / sizeof *alone,
    ASYNCHRONOUS = sizeof asynchronous / sizeof *asynchronous
};

static bool is_exchanged(const struct setup *s)
{
    return s->factors == 1 + SW_FACTORS_EXCHANGED;
}

/* From one to four ranks, with servers of their own and hosted. */
static void every_version_is_the_sum_of_all_gradients(void **state)
{
    for (int w = 0; w < WAYS; w++)
        for (int ranks = 2; ranks <= RANKS; ranks++) {
            struct setup s = ways[w];
            s.ranks = ranks;
            s.hosted = ranks % 2 == 0;
            run_case(&s);
        }
}

static void one_rank_runs_alone(void **state)
{
    for (int i = 0; i < ALONE; i++)
        run_case(&alone[i]);
}

/* This program's function takes the place of the library's, and counts. */
static atomic_int updates, updated_params;

int sw_table_update_on_device(const struct sw_table *t, const struct sw_update_formula *formula,
                              const struct sw_update_list *list, struct sw_stream *s,
                              struct sw_err *err)
{
    int (*real)(const struct sw_table *, const struct sw_update_formula *,
                const struct sw_update_list *, struct sw_stream *, struct sw_err *);
    *(void **)&real = dlsym(RTLD_NEXT, "sw_table_update_on_device");
    atomic_fetch_add(&updates, 1);
    atomic_fetch_add(&updated_params, list->count);
    return real(t, formula, list, s, err);
}

static void assert_updates(const struct setup *s, int each_step, int params)
{
    atomic_store(&updates, 0);
    atomic_store(&updated_params, 0);
    run_case(s);
    if (updates != STEPS * each_step || updated_params != STEPS * params)
        fail_msg("%s: %d updates of %d parameters in %d steps, not %d of %d", s->name, updates,
                 updated_params, STEPS, STEPS * each_step, STEPS * params);
}

/* One operation updates all parameters of one rank; of several ranks, those of a bucket. */
static void gradients_that_are_known_together_make_one_update(void **state)
{
    const struct setup together = {.name = "local", UPDATES, .ranks = 1, .clip_norm = 1e9};
    struct setup s = together;
    assert_updates(&s, 1, PARAMS - 1);
    s.clip_norm = 0;
    assert_updates(&s, 1, PARAMS - 1);
    s.extras = LATE;
    assert_updates(&s, 1, PARAMS - 1);

    /* Two buckets with three parameters at two ranks, and one that rank 0 alone has. */
    s = (struct setup){.name = "reduces", REDUCES, .ranks = 2, .hosted = true};
    assert_updates(&s, 2 * 2 + 1, 2 * 3 + 1);
    s.clip_norm = 1e9;
    assert_updates(&s, 2 * 2 + 1, 2 * 3 + 1);
}

/* Leaves of the tree are dealt out to the ranks: three to two, two and one. */
static void sums_do_not_depend_on_the_distribution_of_microbatches(void **state)
{
    for (int w = 0; w < WAYS; w++) {
        struct setup s = ways[w];
        s.ranks = 3;
        s.leaves = 8;
        s.route[OWNED] = NULL;
        if (!s.reduces && s.factors == 0)
            run_case(&s);
    }
}

/* A limit of the norm that nothing reaches changes no bit; nor does deciding first. */
static void two_phase_updates_have_the_same_bits(void **state)
{
    for (int w = 0; w < WAYS; w++) {
        struct setup s = ways[w];
        s.ranks = 2;
        s.clip_norm = 1e9;
        if (!is_exchanged(&s)) /* refused before: it has no sums to measure */
            run_case(&s);
    }
}

static void a_nonfinite_update_is_dropped_by_all(void **state)
{
    for (int w = 0; w < WAYS; w++)
        for (int veto = 0; veto <= 1; veto++) {
            struct setup s = ways[w];
            s.ranks = 3;
            s.drops = !veto;
            s.vetoes = veto;
            if (!is_exchanged(&s))
                run_case(&s);
        }
}

/* Groups of one rank each that update on their own: nothing is lost, and nobody runs away. */
static void asynchronous_groups_lose_no_updates(void **state)
{
    for (int i = 0; i < ASYNCHRONOUS; i++)
        run_case(&asynchronous[i]);
}

static atomic_int counted_updates, counted_before;

const struct sw_update_formula *sw_table_update_numbers(const struct sw_table *t, int param,
                                                        uint64_t version, uint64_t before,
                                                        struct sw_update_numbers *out)
{
    const struct sw_update_formula *(*real)(const struct sw_table *, int, uint64_t, uint64_t,
                                            struct sw_update_numbers *);
    *(void **)&real = dlsym(RTLD_NEXT, "sw_table_update_numbers");
    if (before != SW_UPDATES_OF_ONE_GROUP) {
        atomic_fetch_add(&counted_updates, 1);
        atomic_fetch_add(&counted_before, (int)before);
    }
    return real(t, param, version, before, out);
}

/* Updaters that count, such as Adam, count those of all groups, as servers do: every rank makes
 * each update with the number of its place, also behind a meeting and in a run that is resumed. */
static void updates_from_factors_have_the_numbers_of_their_order(void **state)
{
    const int groups = 3, each = groups * STEPS, params = 2;
    struct setup s = {.name = "ssp, exchanged", MIRROR, SSP, EXCHANGED, .ranks = groups};
    for (s.from = 0; s.from <= 40; s.from += 40)
        for (s.extras = 0; s.extras <= MEETS; s.extras += MEETS) {
            const int first = groups * (int)s.from;
            atomic_store(&counted_updates, 0);
            atomic_store(&counted_before, 0);
            run_case(&s);
            assert_int_equal(counted_updates, groups * params * each);
            assert_int_equal(counted_before,
                             groups * params * (each * first + each * (each - 1) / 2));
        }
}

/* Every way and rule, with something beside that changes no value. */
static void run_all(int extras, int64_t from)
{
    for (int i = 0; i < WAYS + ALONE + ASYNCHRONOUS; i++) {
        struct setup s = i < WAYS           ? ways[i]
                         : i < WAYS + ALONE ? alone[i - WAYS]
                                            : asynchronous[i - WAYS - ALONE];
        s.ranks = s.ranks ? s.ranks : 3;
        s.hosted = s.hosted || i % 2;
        s.extras = extras;
        s.from = from;
        if (!(extras & MOVES) || !is_async(&s)) /* whose groups of one rank have all rows */
            run_case(&s);
    }
}

static void pushes_may_follow_the_last_backward(void **state)
{
    run_all(LATE, 0);
}

static void layers_may_share_a_parameter(void **state)
{
    run_all(SHARED, 0);
}

static void resumed_run_continues_from_its_version(void **state)
{
    run_all(0, 40);
    run_all(MEETS | CAPTURED, 41);
}

/* Asynchronous groups, too: what a device was sent before is no longer the value. */
static void all_read_the_same_values_after_a_merge(void **state)
{
    run_all(MEETS, 0);
}

static void rows_may_move_between_steps(void **state)
{
    run_all(MEETS | MOVES, 0);
}

static void a_push_may_be_captured_in_a_graph(void **state)
{
    run_all(CAPTURED, 0);
}

/* A rank that never pushes: the others wait, and end when the fault is set. */
static void a_fault_ends_every_wait(void **state)
{
    for (int w = 0; w < WAYS; w++)
        for (int together = 0; together <= 1; together++) {
            struct setup s = ways[w];
            struct crowd c;
            s.ranks = 2;
            s.hosted = together;
            s.absent_from = 2;
            s.clip_norm = together && !is_exchanged(&s) ? 1e9 : 0;
            crowd_open(&c, &s);
            crowd_run(&c);
            if (c.rank[0].rc != SW_ERR_CANCELLED)
                fail_msg("%s: rank 0 ended with %d: %s", s.name, c.rank[0].rc, c.rank[0].err.text);
            assert_true(c.rank[0].waits > 0);
            crowd_close(&c);
        }
}

/* Asynchronous ranks go no further than the bound, where they wait for another one's factors. */
static void a_fault_ends_the_wait_for_a_group_that_is_behind(void **state)
{
    const struct setup s = {
        .name = "ssp, exchanged", MIRROR, SSP, EXCHANGED, .ranks = 3, .absent_from = 2};
    struct crowd c;
    crowd_open(&c, &s);
    crowd_run(&c);
    for (int r = 0; r < 2; r++) {
        assert_int_equal(c.rank[r].rc, SW_ERR_CANCELLED);
        assert_true(c.rank[r].step <= 1 + s.staleness + 2);
    }
    crowd_close(&c);
}

/* The registry: every row has a name of its own and what the exchange calls. */
static void every_route_is_complete(void **state)
{
    for (int i = 0; sw_route_at(i); i++) {
        const struct sw_route *r = sw_route_at(i);
        assert_non_null(r->name);
        assert_non_null(r->takes);
        assert_true(!r->attach == !r->detach);
        assert_true(!r->fetch || (r->copies && r->pull));
        assert_true(!r->device_only || !r->wait);
        for (int k = 0; k < i; k++)
            assert_true(strcmp(sw_route_at(k)->name, r->name) != 0);
    }
}

static void every_route_was_taken(void **state)
{
    for (int i = 0; sw_route_at(i); i++)
        if (!taken[i])
            fail_msg("no case takes route %s", sw_route_at(i)->name);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_route_is_complete),
        cmocka_unit_test(one_rank_runs_alone),
        cmocka_unit_test(every_version_is_the_sum_of_all_gradients),
        cmocka_unit_test(gradients_that_are_known_together_make_one_update),
        cmocka_unit_test(sums_do_not_depend_on_the_distribution_of_microbatches),
        cmocka_unit_test(two_phase_updates_have_the_same_bits),
        cmocka_unit_test(a_nonfinite_update_is_dropped_by_all),
        cmocka_unit_test(asynchronous_groups_lose_no_updates),
        cmocka_unit_test(updates_from_factors_have_the_numbers_of_their_order),
        cmocka_unit_test(pushes_may_follow_the_last_backward),
        cmocka_unit_test(layers_may_share_a_parameter),
        cmocka_unit_test(resumed_run_continues_from_its_version),
        cmocka_unit_test(all_read_the_same_values_after_a_merge),
        cmocka_unit_test(rows_may_move_between_steps),
        cmocka_unit_test(a_push_may_be_captured_in_a_graph),
        cmocka_unit_test(a_fault_ends_every_wait),
        cmocka_unit_test(a_fault_ends_the_wait_for_a_group_that_is_behind),
        cmocka_unit_test(every_route_was_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
