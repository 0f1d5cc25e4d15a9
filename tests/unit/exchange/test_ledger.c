/* ctest-labels: threads */
/* The ledger: every gradient is an integer of its own and sgd has rate 1, so the values say exactly
 * which gradients have arrived: each once, under threads and with messages in any order. All sums
 * are below 2^24, so floats are exact. */
#include "table_support.h"

enum { LEDGER_VERSIONS = 40 };

/* Worker w's gradient of version v at element e; distinct in (w, v) for each element. */
static float entry(int workers, int w, uint64_t v, int64_t e)
{
    return (float)((int64_t)(v - 1) * workers + w + 1 + e % 97 * 1000);
}

/* Minus the value of element e after v versions: the sum of all entries so far. */
static float ledger_sum(int workers, uint64_t v, int64_t e)
{
    int64_t n = (int64_t)v * workers;
    return (float)(n * (n + 1) / 2 + n * (e % 97 * 1000));
}

/* The first element that is not as the ledger says; -1 when all are. */
static int64_t wrong_element(const struct stand *s, int p, uint64_t v)
{
    const struct sw_param *param = sw_table_param(s->table, p);
    for (int64_t e = 0; e < storage_of(s, p); e++)
        if (param->value[e] != -ledger_sum(s->table->args.workers, v, e))
            return e;
    return -1;
}

static void assert_ledger(const struct stand *s, int p, uint64_t v)
{
    int64_t e = wrong_element(s, p, v);
    if (e >= 0)
        fail_msg("%s, version %llu, element %lld: %.9g, should be %.9g", table_names[p],
                 (unsigned long long)v, (long long)e, (double)sw_table_param(s->table, p)->value[e],
                 -(double)ledger_sum(s->table->args.workers, v, e));
}

static void write_entries(const struct stand *s, int p, int w, uint64_t v, int64_t from, int64_t to)
{
    float *gradient = sw_table_param(s->table, p)->gradient[w];
    for (int64_t e = from; e < to; e++)
        gradient[e] = entry(s->table->args.workers, w, v, e);
}

struct role {
    struct stand *stand;
    int index;
    struct sw_thread thread;
    uint64_t handled;
    int64_t announced[4]; /* elements, by worker */
    int rc, wrong_reads;
};

/* As a worker trains: collect, read, write the gradient, hand it over. Two passes over the
 * parameters, because forward reads in one order and backward gives in the other. */
static void work(void *arg)
{
    struct role *r = arg;
    struct sw_err err;
    for (uint64_t v = 1; v <= LEDGER_VERSIONS && r->rc == SW_OK; v++) {
        for (int p = 0; p < TABLE_PARAMS && r->rc == SW_OK; p++) {
            r->rc = sw_table_wait(r->stand->table, 0, p, v - 1, NULL, 0, 20000);
            r->wrong_reads += r->rc == SW_OK && wrong_element(r->stand, p, v - 1) >= 0;
        }
        if (r->rc == SW_OK)
            r->rc = sw_table_report_loss(r->stand->table, r->index, true, &err);
        for (int p = TABLE_PARAMS - 1; p >= 0 && r->rc == SW_OK; p--) {
            write_entries(r->stand, p, r->index, v, 0, storage_of(r->stand, p));
            r->rc = sw_table_update(r->stand->table, r->index, p, v, &err);
        }
    }
    for (int p = 0; p < TABLE_PARAMS && r->rc == SW_OK; p++)
        r->rc = sw_table_wait(r->stand->table, 0, p, LEDGER_VERSIONS, NULL, 0, 20000);
}

static void serve(void *arg)
{
    struct role *r = arg;
    struct sw_message m;
    struct sw_err err;
    while (r->rc == SW_OK && sw_queue_pop(sw_table_inbox(r->stand->table, r->index), &m) == SW_OK) {
        r->rc = sw_table_serve(r->stand->table, r->index, &m, &err);
        r->handled++;
        const struct sw_server_state *own = &r->stand->table->servers[r->index];
        if (m.kind != SW_MSG_UPDATE)
            continue;
        for (int i = own->first[m.param]; i < own->first[m.param + 1]; i++)
            r->announced[m.from] += r->stand->table->slices[own->slices[i]].count;
    }
}

/* Every element of every gradient was announced once to the servers together. */
static void check_announced(const struct stand *s, const struct role *server)
{
    int64_t want = 0;
    for (int p = 0; p < TABLE_PARAMS; p++)
        want += storage_of(s, p) * LEDGER_VERSIONS;
    for (int w = 0; w < s->table->args.workers; w++) {
        int64_t elements = 0;
        for (int i = 0; i < s->table->args.servers; i++)
            elements += server[i].announced[w];
        assert_int_equal(elements, want);
    }
}

static void check_threads(int workers, int servers, int64_t slice_elements, enum sw_table_bad bad)
{
    struct stand s;
    struct role worker[4] = {{0}}, server[4] = {{0}};
    struct sw_err err;
    stand_new(&s, &(struct plan_of_table){.workers = workers,
                                          .servers = servers,
                                          .slice_elements = slice_elements,
                                          .bad = bad,
                                          .init = SW_INIT_CONSTANT});
    for (int i = 0; i < servers; i++) {
        server[i] = (struct role){.stand = &s, .index = i};
        ASSERT_OK(sw_thread_start(&server[i].thread, "server", serve, &server[i], &err));
    }
    for (int i = 0; i < workers; i++) {
        worker[i] = (struct role){.stand = &s, .index = i};
        ASSERT_OK(sw_thread_start(&worker[i].thread, "worker", work, &worker[i], &err));
    }
    for (int i = 0; i < workers; i++)
        sw_thread_join(&worker[i].thread);
    sw_table_close_v(s.table);
    for (int i = 0; i < servers; i++)
        sw_thread_join(&server[i].thread);
    for (int i = 0; i < workers; i++) {
        assert_int_equal(worker[i].rc, SW_OK);
        assert_int_equal(worker[i].wrong_reads, 0);
    }
    for (int i = 0; i < servers; i++) {
        assert_int_equal(server[i].rc, SW_OK);
        assert_true((sw_table_served_ns(s.table, i) > 0) == (server[i].handled > 0));
        assert_int_equal(s.table->servers[i].early_count, 0);
    }
    for (int p = 0; p < TABLE_PARAMS; p++)
        assert_ledger(&s, p, LEDGER_VERSIONS);
    check_announced(&s, server);
    stand_free(&s);
}

static void every_gradient_counts_exactly_once_under_threads(void **state)
{
    assert_true(ledger_sum(4, LEDGER_VERSIONS, 96) < 0x1p24f);
    check_threads(1, 1, 1 << 20, SW_BAD_STOPS);
    check_threads(1, 3, 100, SW_BAD_STOPS);
    check_threads(3, 1, 100, SW_BAD_STOPS);
    check_threads(3, 2, 1000, SW_BAD_STOPS);
    check_threads(4, 4, 50, SW_BAD_STOPS);
}

/* The same in two phases: nothing changes before all have come. */
static void every_gradient_counts_exactly_once_in_two_phases(void **state)
{
    check_threads(1, 1, 1 << 20, SW_BAD_DROPS);
    check_threads(1, 3, 100, SW_BAD_TELLS);
    check_threads(3, 1, 100, SW_BAD_DROPS);
    check_threads(3, 2, 1000, SW_BAD_TELLS);
    check_threads(4, 4, 50, SW_BAD_DROPS);
}

/* ---- Messages in any order ---- */

enum { SHUFFLED_VERSIONS = 4, SHUFFLED_WORKERS = 3, SHUFFLED_SERVERS = 2 };

/* Rewrites a slice's gradients for the next version as soon as it is applied, as workers would. */
struct rewriter {
    struct stand *stand;
    int applied[SHUFFLED_SERVERS][TABLE_PARAMS]; /* slices of the coming version */
    int calls;
};

static void rewrite(void *user, int server, int param, uint64_t version, int64_t begin_ns,
                    int64_t end_ns)
{
    struct rewriter *r = user;
    const struct sw_server_state *s = &r->stand->table->servers[server];
    int *n = &r->applied[server][param];
    const struct sw_slice *slice = &r->stand->table->slices[s->slices[s->first[param] + *n]];
    assert_int_equal(slice->param, param);
    assert_int_equal(slice->version, version);
    assert_true(begin_ns > 0 && begin_ns <= end_ns);
    for (int w = 0; w < SHUFFLED_WORKERS; w++)
        write_entries(r->stand, param, w, version + 1, slice->from, slice->from + slice->count);
    *n = (*n + 1) % (s->first[param + 1] - s->first[param]);
    r->calls++;
}

/* All messages to one server, in random order. */
static int shuffled_messages(const struct stand *s, int server, struct rng *r, struct sw_message *m)
{
    int n = 0;
    for (int p = 0; p < TABLE_PARAMS; p++)
        for (int w = 0; w < SHUFFLED_WORKERS; w++)
            for (uint64_t v = 1; v <= SHUFFLED_VERSIONS; v++) {
                const struct sw_server_state *state = &s->table->servers[server];
                if (state->first[p] == state->first[p + 1])
                    continue;
                int j = (int)rng_int(r, 0, n);
                m[n++] = m[j];
                m[j] =
                    (struct sw_message){.kind = SW_MSG_UPDATE, .from = w, .param = p, .version = v};
            }
    return n;
}

/* Version v of a parameter is ready when all its slices have it, and not before. */
static void assert_readiness(const struct stand *s)
{
    for (int p = 0; p < TABLE_PARAMS; p++) {
        const struct sw_param *param = sw_table_param(s->table, p);
        uint64_t least = UINT64_MAX, applied = 0;
        for (int i = param->first_slice; i < param->first_slice + param->slice_count; i++) {
            uint64_t version = s->table->slices[i].version;
            least = version < least ? version : least;
            applied += version;
        }
        assert_int_equal(param->view[0].ready, applied);
        assert_true(sw_table_ready(s->table, 0, p, applied / (uint64_t)param->slice_count));
        assert_false(sw_table_ready(s->table, 0, p, applied / (uint64_t)param->slice_count + 1));
        if (least == SHUFFLED_VERSIONS)
            assert_true(sw_table_ready(s->table, 0, p, least));
    }
}

static void updates_may_arrive_in_any_order(void **state)
{
    struct rng r = rng_of(17);
    for (int round = 0; round < 150; round++) {
        struct stand s;
        struct rewriter rewriter = {.stand = &s};
        struct sw_message m[SHUFFLED_SERVERS][TABLE_PARAMS * SHUFFLED_WORKERS * SHUFFLED_VERSIONS];
        int count[SHUFFLED_SERVERS], done[SHUFFLED_SERVERS] = {0};
        struct sw_err err;
        stand_new(&s, &(struct plan_of_table){.workers = SHUFFLED_WORKERS,
                                              .servers = SHUFFLED_SERVERS,
                                              .slice_elements = 700,
                                              .init = SW_INIT_CONSTANT});
        sw_table_set_on_update(s.table, rewrite, &rewriter);
        for (int p = 0; p < TABLE_PARAMS; p++)
            for (int w = 0; w < SHUFFLED_WORKERS; w++)
                write_entries(&s, p, w, 1, 0, storage_of(&s, p));
        for (int i = 0; i < SHUFFLED_SERVERS; i++)
            count[i] = shuffled_messages(&s, i, &r, m[i]);
        for (int left = count[0] + count[1]; left > 0; left--) {
            int i = done[0] == count[0] || (done[1] < count[1] && (rng_word(&r) & 1));
            ASSERT_OK(sw_table_serve(s.table, i, &m[i][done[i]++], &err));
            assert_readiness(&s);
        }
        for (int p = 0; p < TABLE_PARAMS; p++)
            assert_ledger(&s, p, SHUFFLED_VERSIONS);
        assert_int_equal(rewriter.calls, s.table->slice_count * SHUFFLED_VERSIONS);
        stand_free(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_gradient_counts_exactly_once_under_threads),
        cmocka_unit_test(every_gradient_counts_exactly_once_in_two_phases),
        cmocka_unit_test(updates_may_arrive_in_any_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
