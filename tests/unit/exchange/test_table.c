/* ctest-labels: threads */
/* The parameter table: how it is cut, that cutting changes nothing, what an update does, who is
 * woken, and what is refused. */
#include "table_support.h"

#include "unit/faulty_os.h"

/* ---- Cutting ---- */

static const int64_t slice_sizes[] = {1, 16, 17, 100, 1000, 1 << 20};

static void check_slices(const struct sw_table *t, int64_t largest)
{
    int next = 0;
    int64_t limit = (largest + 15) / 16 * 16;
    for (int p = 0; p < TABLE_PARAMS; p++) {
        const struct sw_param *param = sw_table_param(t, p);
        int64_t at = 0;
        assert_int_equal(param->first_slice, next);
        assert_true(param->slice_count > 0);
        for (int i = 0; i < param->slice_count; i++) {
            const struct sw_slice *s = &t->slices[next++];
            assert_int_equal(s->param, p);
            assert_int_equal(s->from, at);
            assert_int_equal(s->from % 16, 0);
            assert_true(s->count > 0 && s->count <= limit);
            assert_true(s->server >= 0 && s->server < t->args.servers);
            at += s->count;
        }
        assert_int_equal(at, sw_desc_storage(&param->layout));
    }
    assert_int_equal(next, t->slice_count);
}

/* What a server has is what the slices say, and no server has more than one slice above another. */
static void check_dealing(const struct sw_table *t)
{
    int64_t least = INT64_MAX, most = 0, largest = 0;
    int dealt = 0;
    for (int i = 0; i < t->slice_count; i++)
        largest = t->slices[i].count > largest ? t->slices[i].count : largest;
    for (int s = 0; s < t->args.servers; s++) {
        const struct sw_server_state *server = &t->servers[s];
        int64_t load = 0;
        for (int p = 0; p < TABLE_PARAMS; p++)
            for (int i = server->first[p]; i < server->first[p + 1]; i++) {
                const struct sw_slice *slice = &t->slices[server->slices[i]];
                assert_int_equal(slice->server, s);
                assert_int_equal(slice->param, p);
                load += slice->count;
                dealt++;
            }
        least = load < least ? load : least;
        most = load > most ? load : most;
    }
    assert_int_equal(dealt, t->slice_count);
    assert_true(most - least <= largest);
}

static void slices_cover_each_parameter_exactly_and_servers_are_balanced(void **state)
{
    for (size_t i = 0; i < sizeof slice_sizes / sizeof *slice_sizes; i++)
        for (int servers = 1; servers <= 7; servers += 2) {
            struct stand s;
            stand_new(&s, &(struct plan_of_table){
                              .workers = 2, .servers = servers, .slice_elements = slice_sizes[i]});
            check_slices(s.table, slice_sizes[i]);
            check_dealing(s.table);
            stand_free(&s);
        }
}

static void parameters_are_found_by_name(void **state)
{
    struct stand s;
    size_t values, others;
    int64_t elements = 0;
    stand_new(&s, &(struct plan_of_table){.workers = 2, .servers = 1, .slice_elements = 100});
    assert_int_equal(sw_table_count(s.table), TABLE_PARAMS);
    for (int p = 0; p < TABLE_PARAMS; p++) {
        assert_int_equal(sw_table_find(s.table, table_names[p], 0), p);
        elements += sw_desc_count(&sw_table_param(s.table, p)->layout);
    }
    assert_int_equal(sw_table_find(s.table, "fc", 0), -1);
    assert_int_equal(sw_table_elements(s.table), elements);
    sw_table_bytes(s.table, &values, &others);
    assert_true(values >= (size_t)elements * sizeof(float));
    assert_int_equal(others, 2 * values); /* two workers' gradients; no momentum, no state */
    stand_free(&s);
}

static void a_name_is_taken_once(void **state)
{
    struct stand s;
    struct sw_param_spec spec = {.owner = -1, .name = "fc.bias", .layout = table_layout(3, true)};
    struct sw_err err;
    int index;
    stand_new(&s, &(struct plan_of_table){.workers = 1, .servers = 1, .slice_elements = 100});
    assert_int_equal(sw_table_add(s.table, &spec, &index, &err), SW_ERR_INVALID);
    assert_non_null(strstr(err.text, "fc.bias"));
    stand_free(&s);
}

/* ---- Where memory lies ---- */

/* What the table asked of the system, page by page of two arrays. */
static struct {
    uintptr_t page_bytes;
    struct placed {
        uintptr_t first, end;
        uint64_t nodes;
    } range[64];
    int count;
} asked;

static int note_pages(void *p, size_t bytes, uint64_t nodes)
{
    assert_true(asked.count < 64 && (uintptr_t)p % asked.page_bytes == 0);
    asked.range[asked.count++] = (struct placed){(uintptr_t)p, (uintptr_t)p + bytes, nodes};
    return 0;
}

static uint64_t node_of_server(void *user, int server)
{
    return *(uint64_t *)user << server;
}

static uint64_t node_of_worker(void *user, int worker)
{
    return *(uint64_t *)user << (8 + worker);
}

/* All pages that lie wholly in the array are placed on these nodes, and no other. */
static void check_placed(const float *array, int64_t elements, uint64_t nodes)
{
    uintptr_t from = (uintptr_t)array, end = from + (uintptr_t)elements * sizeof(float);
    uintptr_t page = asked.page_bytes;
    for (uintptr_t at = (from + page - 1) / page * page; at + page <= end; at += page) {
        int found = 0;
        for (int i = 0; i < asked.count; i++) {
            if (at < asked.range[i].first || at >= asked.range[i].end)
                continue;
            assert_int_equal(asked.range[i].nodes, nodes);
            found++;
        }
        assert_int_equal(found, 1);
    }
}

static void arrays_are_on_the_numa_node_of_their_writer(void **state)
{
    enum { ELEMENTS = 1000 * 1001, SLICE = 200 * 1000, SERVERS = 3, WORKERS = 2 };
    for (int named = 0; named < 2; named++) {
        uint64_t first = 1;
        int64_t dim[2] = {1000, 1001};
        struct sw_updater_conf common = {.lr = 1};
        struct sw_os os = sw_os_posix;
        struct sw_param_spec spec = {
            .owner = -1, .name = "w", .layout = sw_desc_plain(SW_F32, 2, dim), .lr_mult = 1};
        struct sw_table_args args = {.updater = sgd(),
                                     .updater_conf = conf_with(&sgd()->base, "momentum", 0.9),
                                     .common = &common,
                                     .schedule = fixed_schedule(),
                                     .schedule_conf = conf_with(fixed_schedule(), NULL, 0),
                                     .slice_elements = SLICE,
                                     .workers = WORKERS,
                                     .servers = SERVERS,
                                     .server_nodes = named ? node_of_server : NULL,
                                     .worker_nodes = named ? node_of_worker : NULL,
                                     .nodes_user = &first};
        struct sw_table *t = NULL;
        struct sw_err err;
        int index;
        ASSERT_OK(sw_cpu_open(false, &args.device, &err));
        ASSERT_OK(sw_table_new(&args, &t, &err));
        ASSERT_OK(sw_table_add(t, &spec, &index, &err));
        ASSERT_OK(sw_table_freeze(t, &err));
        asked.page_bytes = (uintptr_t)sysconf(_SC_PAGESIZE);
        asked.count = 0;
        os.bind_pages = note_pages;
        sw_os_set(&os);
        int rc = sw_table_allocate(t, &err);
        sw_os_set(NULL);
        ASSERT_OK(rc);
        const struct sw_param *p = sw_table_param(t, index);
        assert_true(p->slice_count > SERVERS && sw_table_slots(t) == 1);
        for (int i = 0; i < p->slice_count && named; i++) {
            const struct sw_slice *s = &t->slices[p->first_slice + i];
            check_placed(p->value + s->from, s->count, UINT64_C(1) << s->server);
            check_placed(p->slot[0] + s->from, s->count, UINT64_C(1) << s->server);
        }
        for (int w = 0; w < WORKERS && named; w++)
            check_placed(p->gradient[w], ELEMENTS, UINT64_C(1) << (8 + w));
        assert_int_equal(asked.count > 0, named);
        sw_table_free(t);
        sw_device_close(args.device);
        free((void *)(uintptr_t)args.updater_conf);
        free((void *)(uintptr_t)args.schedule_conf);
    }
}

/* ---- Initial values ---- */

static void initial_values_do_not_depend_on_layout_slices_or_servers(void **state)
{
    struct stand a, b;
    stand_new(&a, &(struct plan_of_table){
                      .workers = 1, .servers = 1, .slice_elements = 1 << 20, .plain = true});
    stand_new(&b, &(struct plan_of_table){.workers = 3, .servers = 3, .slice_elements = 17});
    for (int p = 0; p < TABLE_PARAMS; p++) {
        const struct sw_param *param = sw_table_param(b.table, p);
        int64_t n = sw_desc_count(&param->layout), not_zero = 0;
        float *x = plain_of_table(&a, p, -1), *y = plain_of_table(&b, p, -1);
        assert_same_bits(table_names[p], x, y, (size_t)n * sizeof *x);
        for (int64_t i = 0; i < n; i++)
            not_zero += x[i] != 0;
        assert_true(param->fan_in ? not_zero > n * 9 / 10 : not_zero == 0);
        for (int64_t i = 0; i < storage_of(&b, p); i++)
            for (int w = 0; w < 3; w++)
                assert_true(param->gradient[w][i] == 0);
        free(x);
        free(y);
    }
    stand_free(&a);
    stand_free(&b);
}

/* Rows [from, from + rows) of a 24 x 10 parameter, orthogonal, of worker `owner`. */
static void add_part(struct sw_table *t, int64_t from, int64_t rows, int owner)
{
    const int64_t dim[2] = {rows, 10};
    struct sw_param_spec spec = {.name = "w",
                                 .layout = sw_desc_blocked(SW_F32, 2, dim, 0, 8),
                                 .owner = owner,
                                 .part_first = from,
                                 .part_whole = owner < 0 ? 0 : 24,
                                 .init = {.init = SW_INIT_ORTHOGONAL, .gain = 1}};
    struct sw_err err;
    int index;
    ASSERT_OK(sw_table_add(t, &spec, &index, &err));
}

static struct sw_table *orthogonal_table(const struct stand *s, bool parts)
{
    struct sw_table *t;
    struct sw_err err;
    ASSERT_OK(sw_table_new(&s->table->args, &t, &err));
    for (int w = 0; w < 3 && parts; w++)
        add_part(t, (w * 9), w < 2 ? 9 : 6, w);
    if (!parts)
        add_part(t, 0, 24, -1);
    ASSERT_OK(sw_table_freeze(t, &err));
    ASSERT_OK(sw_table_allocate(t, &err));
    ASSERT_OK(sw_table_init_values(t, &err));
    return t;
}

static void parts_of_an_orthogonal_parameter_come_from_one_matrix(void **state)
{
    struct stand s;
    struct sw_err err;
    float a[24 * 10], b[24 * 10];
    stand_new(&s, &(struct plan_of_table){.workers = 3, .servers = 1, .slice_elements = 16});
    struct sw_table *whole = orthogonal_table(&s, false), *parts = orthogonal_table(&s, true);
    struct sw_tensor t = sw_table_tensor(whole, 0, -1);
    ASSERT_OK(sw_tensor_read(&t, NULL, a, &err));
    for (int p = 0; p < 3; p++) {
        t = sw_table_tensor(parts, p, -1);
        ASSERT_OK(sw_tensor_read(&t, NULL, b + sw_table_param(parts, p)->part_first * 10, &err));
    }
    assert_same_bits("w", a, b, sizeof a);
    assert_true(a[0] != 0 && a[239] != 0);
    sw_table_free(whole), sw_table_free(parts);
    stand_free(&s);
}

/* ---- The same bits however it is cut ---- */

static void the_number_of_slices_changes_no_bits(void **state)
{
    struct plan_of_table plan = {.workers = 3,
                                 .servers = 1,
                                 .slice_elements = 1 << 20,
                                 .lr = 0.1,
                                 .momentum = 0.9,
                                 .weight_decay = 0.01,
                                 .plain = true};
    struct stand a, b;
    stand_new(&a, &plan);
    plan.servers = 4;
    plan.slice_elements = 33;
    plan.plain = false;
    stand_new(&b, &plan);
    for (uint64_t v = 1; v <= 5; v++) {
        random_update(&a, v);
        random_update(&b, v);
    }
    for (int p = 0; p < TABLE_PARAMS; p++)
        for (int slot = -1; slot < 1; slot++) {
            float *x = plain_of_table(&a, p, slot), *y = plain_of_table(&b, p, slot);
            struct sw_tensor t = sw_table_tensor(b.table, p, slot);
            assert_same_bits(table_names[p], x, y, (size_t)sw_desc_count(&t.desc) * sizeof(float));
            sw_desc_from_plain(&t.desc, y, sw_table_param(b.table, p)->gradient[0]);
            assert_same_bits("padding", sw_table_param(b.table, p)->gradient[0], t.data,
                             sw_desc_bytes(&t.desc));
            free(x);
            free(y);
        }
    assert_int_equal(sw_table_slots(a.table), 1);
    assert_ptr_equal(sw_table_updater(a.table), sgd());
    stand_free(&a);
    stand_free(&b);
}

/* A whole table by hand: w -= lr lr_mult (g + decay decay_mult w). */
static void factors_reach_the_updater(void **state)
{
    struct plan_of_table plan = {.workers = 1, .servers = 1, .slice_elements = 64, .lr = 0.5};
    struct stand s;
    struct sw_err err;
    stand_new(&s, &plan);
    struct sw_param *p = &s.table->params[2];
    s.common.weight_decay = 0.25;
    p->lr_mult = 3;
    p->decay_mult = 2;
    float *before = plain_of_table(&s, 2, -1);
    for (int64_t e = 0; e < storage_of(&s, 2); e++)
        p->gradient[0][e] = 0.125f;
    ASSERT_OK(deliver(&s, 0, 2, 1, &err));
    float *after = plain_of_table(&s, 2, -1);
    for (int64_t e = 0; e < sw_desc_count(&p->layout); e++) {
        double want = (double)before[e] - 0.5 * 3 * (0.125 + 0.25 * 2 * (double)before[e]);
        assert_true(fabs((double)after[e] - want) < 1e-6);
    }
    assert_true(sw_table_rate(s.table, 12) == 0.5);
    free(before);
    free(after);
    stand_free(&s);
}

/* ---- Versions, waits, ends ---- */

static void a_checkpoint_sets_the_version(void **state)
{
    struct stand s;
    struct sw_err err;
    stand_new(&s, &(struct plan_of_table){
                      .workers = 1, .servers = 2, .slice_elements = 100, .init = SW_INIT_CONSTANT});
    sw_table_put_version(s.table, 41, 41, 0);
    for (int p = 0; p < TABLE_PARAMS; p++) {
        assert_true(sw_table_ready(s.table, 0, p, 41));
        assert_false(sw_table_ready(s.table, 0, p, 42));
        assert_int_equal(deliver(&s, 0, p, 41, &err), SW_ERR_INVALID);
        ASSERT_OK(deliver(&s, 0, p, 42, &err));
        assert_true(sw_table_ready(s.table, 0, p, 42));
    }
    stand_free(&s);
}

struct waiter {
    struct stand *stand;
    struct sw_thread thread;
    int rc;
    bool stop;
};

static void wait_long(void *arg)
{
    struct waiter *w = arg;
    w->rc = sw_table_wait(w->stand->table, 0, 2, 1, NULL, 0, 600000);
}

static void until_somebody_waits(struct stand *s)
{
    while (__atomic_load_n(&s->table->waiters, __ATOMIC_SEQ_CST) == 0)
        usleep(200);
}

static void closing_wakes_waiters(void **state)
{
    struct stand s;
    struct waiter waiter[3];
    struct sw_message m;
    struct sw_err err;
    stand_new(&s, &(struct plan_of_table){.workers = 1, .servers = 2, .slice_elements = 1000});
    assert_int_equal(sw_table_wait(s.table, 0, 2, 1, NULL, 0, 1), SW_ERR_BUSY);
    assert_int_equal(sw_table_wait(s.table, 0, 2, 0, NULL, 0, 0), SW_OK);
    for (int i = 0; i < 3; i++) {
        waiter[i] = (struct waiter){.stand = &s, .rc = 1};
        ASSERT_OK(sw_thread_start(&waiter[i].thread, "waiter", wait_long, &waiter[i], &err));
    }
    until_somebody_waits(&s);
    sw_table_close_v(s.table);
    for (int i = 0; i < 3; i++) {
        sw_thread_join(&waiter[i].thread);
        assert_int_equal(waiter[i].rc, SW_ERR_CANCELLED);
    }
    assert_int_equal(sw_table_wait(s.table, 0, 2, 1, NULL, 0, 60000), SW_ERR_CANCELLED);
    assert_int_equal(sw_table_wait(s.table, 0, 2, 0, NULL, 0, 60000),
                     SW_OK); /* what is there stays there */
    assert_int_equal(sw_table_update(s.table, 0, 2, 1, &err), SW_ERR_CANCELLED);
    for (int i = 0; i < 2; i++)
        assert_int_equal(sw_queue_pop(sw_table_inbox(s.table, i), &m), SW_ERR_CANCELLED);
    stand_free(&s);
}

static void an_update_wakes_waiters(void **state)
{
    struct stand s;
    struct waiter waiter = {.stand = &s, .rc = 1};
    struct sw_err err;
    stand_new(&s, &(struct plan_of_table){.workers = 1, .servers = 1, .slice_elements = 1000});
    ASSERT_OK(sw_thread_start(&waiter.thread, "waiter", wait_long, &waiter, &err));
    until_somebody_waits(&s);
    ASSERT_OK(deliver(&s, 0, 1, 1, &err)); /* of another parameter: it sleeps on */
    ASSERT_OK(deliver(&s, 0, 2, 1, &err));
    sw_thread_join(&waiter.thread);
    assert_int_equal(waiter.rc, SW_OK);
    stand_free(&s);
}

static void update_another(void *arg)
{
    struct waiter *w = arg;
    struct sw_err err;
    w->rc = SW_OK;
    for (uint64_t v = 1; w->rc == SW_OK && !__atomic_load_n(&w->stop, __ATOMIC_RELAXED); v++) {
        w->rc = deliver(w->stand, 0, 1, v, &err);
        usleep(500);
    }
}

/* Without a count from the start, each waking would begin the time again, and this never ended. */
static void updates_of_other_parameters_do_not_prolong_a_wait(void **state)
{
    struct stand s;
    struct waiter noise = {.stand = &s, .rc = 1};
    struct sw_err err;
    stand_new(&s, &(struct plan_of_table){.workers = 1, .servers = 1, .slice_elements = 1000});
    ASSERT_OK(sw_thread_start(&noise.thread, "noise", update_another, &noise, &err));
    assert_int_equal(sw_table_wait(s.table, 0, 2, 1, NULL, 0, 300), SW_ERR_BUSY);
    __atomic_store_n(&noise.stop, true, __ATOMIC_RELAXED);
    sw_thread_join(&noise.thread);
    assert_int_equal(noise.rc, SW_OK);
    stand_free(&s);
}

/* ---- What must not be ---- */

static void check_divergence(int param, int64_t element, float bad, int worker)
{
    struct stand s;
    struct sw_err err;
    stand_new(&s, &(struct plan_of_table){.workers = 2, .servers = 1, .slice_elements = 100});
    for (uint64_t v = 1; v <= 3; v++)
        for (int w = 0; w < 2; w++)
            ASSERT_OK(deliver(&s, w, param, v, &err));
    sw_table_param(s.table, param)->gradient[worker][element] = bad;
    ASSERT_OK(deliver(&s, 0, param, 4, &err));
    assert_int_equal(deliver(&s, 1, param, 4, &err), SW_ERR_DIVERGED);
    assert_non_null(strstr(err.text, "step 4"));
    assert_non_null(strstr(err.text, table_names[param]));
    assert_non_null(strstr(err.text, "not finite"));
    assert_false(sw_table_ready(s.table, 0, param, 4));
    stand_free(&s);
}

static void values_that_are_not_finite_name_parameter_and_step(void **state)
{
    check_divergence(0, 0, NAN, 0);
    check_divergence(2, 3000, INFINITY, 1);
    check_divergence(2, 37 * 101 - 1, -INFINITY, 0);
    check_divergence(4, 0, NAN, 1);
}

static void assert_refused(struct stand *s, int server, struct sw_message m, const char *says)
{
    struct sw_err err;
    int rc = sw_table_serve(s->table, server, &m, &err);
    if (rc != SW_ERR_INVALID || !strstr(err.text, says))
        fail_msg("%d: %s, which does not say '%s'", rc, rc ? err.text : "", says);
}

static void invalid_messages_are_refused(void **state)
{
    struct stand s;
    struct sw_err err;
    stand_new(&s,
              &(struct plan_of_table){
                  .workers = 2, .servers = 2, .slice_elements = 1 << 20, .init = SW_INIT_CONSTANT});
    int owner = s.table->slices[sw_table_param(s.table, 2)->first_slice].server;
    struct sw_message m = {.kind = SW_MSG_UPDATE, .from = 0, .param = 2, .version = 1};
    assert_refused(&s, 1 - owner, m, "server"); /* which has no slice of it */
    m.from = 2;
    assert_refused(&s, owner, m, "worker 2");
    m.from = -1;
    assert_refused(&s, owner, m, "worker -1");
    m = (struct sw_message){.kind = SW_MSG_UPDATE, .param = TABLE_PARAMS, .version = 1};
    assert_refused(&s, owner, m, "parameter 5");
    m.param = -1;
    assert_refused(&s, owner, m, "parameter -1");
    m = (struct sw_message){.kind = (enum sw_message_kind)9, .param = 2, .version = 1};
    assert_refused(&s, owner, m, "message unknown");
    m = (struct sw_message){.kind = SW_MSG_UPDATE, .from = 1, .param = 2, .version = 0};
    assert_refused(&s, owner, m, "for step 0, which is already applied");
    m.version = 1;
    ASSERT_OK(sw_table_serve(s.table, owner, &m, &err));
    assert_refused(&s, owner, m, "for step 1 twice");
    assert_false(sw_table_ready(s.table, 0, 2, 1));
    m.from = 0;
    ASSERT_OK(sw_table_serve(s.table, owner, &m, &err));
    assert_true(sw_table_ready(s.table, 0, 2, 1));
    assert_refused(&s, owner, m, "for step 1, which is already applied");
    stand_free(&s);
}

/* What is ahead of its turn is kept, but not without limit. */
static void too_many_early_updates_are_refused(void **state)
{
    struct stand s;
    struct sw_message m = {.kind = SW_MSG_UPDATE, .from = 0, .param = 3};
    struct sw_err err;
    int kept = 0, rc = SW_OK;
    stand_new(&s, &(struct plan_of_table){.workers = 2, .servers = 1, .slice_elements = 100});
    for (m.version = 2; rc == SW_OK && kept < 100000; m.version++) {
        rc = sw_table_serve(s.table, 0, &m, &err);
        kept += rc == SW_OK;
    }
    assert_int_equal(rc, SW_ERR_INVALID);
    assert_non_null(strstr(err.text, "ahead of their turn"));
    assert_true(kept >= 4 * TABLE_PARAMS);
    assert_int_equal(sw_table_param(s.table, 3)->view[0].ready, 0);
    stand_free(&s);
}

/* ---- Memory runs out ---- */

static void check_allocations(const struct plan_of_table *plan)
{
    struct faulty_plan faults = {.kinds = FAULTY_ALLOC};
    size_t in_use = sw_cpu_bytes_in_use();
    struct sw_err err;
    struct stand s;
    faulty_begin(faults);
    ASSERT_OK(try_stand(&s, plan, &err));
    stand_free(&s);
    int calls = faulty_end();
    assert_true(calls > 10);
    for (faults.at = 1; faults.at <= calls; faults.at++)
        for (int forever = 0; forever < 2; forever++) {
            faults.forever = forever;
            faulty_begin(faults);
            int rc = try_stand(&s, plan, &err);
            stand_free(&s);
            faulty_end();
            if (rc != SW_ERR_NOMEM || faulty.live_allocations)
                fail_msg("allocation %d fails: %d: %s; %d leak", faults.at, rc, err.text,
                         faulty.live_allocations);
            assert_int_equal(sw_cpu_bytes_in_use(), in_use);
        }
}

static void every_failing_allocation_is_an_error_without_leaks(void **state)
{
    check_allocations(&(struct plan_of_table){.workers = 2, .servers = 2, .slice_elements = 100});
    check_allocations(&(struct plan_of_table){.workers = 1,
                                              .servers = 1,
                                              .slice_elements = 1024,
                                              .updater = "lars",
                                              .init = SW_INIT_ORTHOGONAL});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slices_cover_each_parameter_exactly_and_servers_are_balanced),
        cmocka_unit_test(parameters_are_found_by_name),
        cmocka_unit_test(a_name_is_taken_once),
        cmocka_unit_test(arrays_are_on_the_numa_node_of_their_writer),
        cmocka_unit_test(initial_values_do_not_depend_on_layout_slices_or_servers),
        cmocka_unit_test(parts_of_an_orthogonal_parameter_come_from_one_matrix),
        cmocka_unit_test(the_number_of_slices_changes_no_bits),
        cmocka_unit_test(factors_reach_the_updater),
        cmocka_unit_test(a_checkpoint_sets_the_version),
        cmocka_unit_test(closing_wakes_waiters),
        cmocka_unit_test(an_update_wakes_waiters),
        cmocka_unit_test(updates_of_other_parameters_do_not_prolong_a_wait),
        cmocka_unit_test(values_that_are_not_finite_name_parameter_and_step),
        cmocka_unit_test(invalid_messages_are_refused),
        cmocka_unit_test(too_many_early_updates_are_refused),
        cmocka_unit_test(every_failing_allocation_is_an_error_without_leaks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
