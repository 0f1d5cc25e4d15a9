/* ctest-labels: threads
 * ctest-timeout: 120
 * The conformance suite of the fabric: each case runs on every engine. A sender's messages arrive
 * once and in order, or the host is lost, and then everybody is told once. */
#include "unit/exchange/fabric_support.h"

static const struct engine *engine; /* of the running test */

/* ---- Beginning and end ---- */

static void hosts_meet_talk_and_leave(void **state)
{
    for (int hosts = 2; hosts <= MOST; hosts++) {
        struct world w;
        const struct sw_fabric_tag tag = {.kind = KIND, .urgency = 1, .item = 3, .version = 1};
        unsigned char *data[MOST];
        world_open(&w, engine, &(struct setup){.hosts = hosts, .seed = (uint64_t)hosts});
        for (int from = 0; from < hosts; from++) {
            assert_int_equal(sw_fabric_alive(w.node[from].fabric), (1 << hosts) - 1);
            data[from] = payload(from, &tag, 1000);
            for (int to = 0; to < hosts; to++)
                if (to != from)
                    assert_int_equal(try_send(&w, from, to, tag, data[from], 1000), SW_OK);
        }
        leave_all(&w, (1u << hosts) - 1);
        for (int i = 0; i < hosts; i++) {
            struct sw_traffic t = sw_fabric_traffic(w.node[i].fabric, (i + 1) % hosts, -1);
            assert_int_equal(w.node[i].count, hosts - 1);
            assert_int_equal(w.node[i].done, hosts - 1);
            assert_int_equal(w.node[i].cancelled, 0);
            assert_int_equal(t.sent_messages, 1);
            assert_int_equal(t.sent_bytes, 1000);
            assert_int_equal(t.received_messages, 1);
            assert_int_equal(t.received_bytes, 1000);
            t = sw_fabric_traffic(w.node[i].fabric, (i + 1) % hosts, KIND + 1);
            assert_int_equal(t.sent_bytes + t.received_bytes, 0);
            for (int k = 0; k < hosts; k++)
                assert_int_equal(w.node[i].lost[k], 0);
        }
        world_end(&w);
        for (int i = 0; i < hosts; i++)
            free(data[i]);
    }
}

static void a_mismatch_names_both_hosts_and_the_field(void **state)
{
    static const struct {
        const char *hello[3], *field, *value;
    } cases[] = {
        {{"recipe=1\ndata=7\n", "recipe=1\ndata=7\n", "recipe=1\ndata=8\n"}, "data", "\"8\""},
        {{"recipe=1\n", "recipe=2\n", "recipe=1\n"}, "recipe", "\"2\""},
        {{"recipe=1\n", "recipe=1\nbuild=a\n", "recipe=1\n"}, "build", "missing"},
        {{"recipe=\n", "recipe=1\n", "recipe=1\n"}, "recipe", "\"\""},
    };
    static const char *const odd[] = {"cyd", "bob", "bob", "ada"};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct world w;
        struct setup s = {.hosts = 3, .seed = c};
        memcpy(s.hello, cases[c].hello, sizeof cases[c].hello);
        world_begin(&w, engine, &s);
        start_hosts(&w, 3);
        join_hosts(&w);
        for (int i = 0; i < 3; i++) {
            const char *text = w.node[i].err.text;
            assert_int_equal(w.node[i].rc, SW_ERR_INVALID);
            assert_non_null(strstr(text, cases[c].field));
            assert_non_null(strstr(text, cases[c].value));
            assert_non_null(strstr(text, odd[c]));
            assert_true((strstr(text, "ada") != NULL) + (strstr(text, "bob") != NULL) +
                            (strstr(text, "cyd") != NULL) >=
                        2);
        }
        world_end(&w);
    }
}

static void arguments_are_checked(void **state)
{
    static char long_hello[SW_FABRIC_HELLO_BYTES + 1];
    memset(long_hello, 'x', sizeof long_hello - 1);
    memcpy(long_hello, "a=", 2);
    long_hello[sizeof long_hello - 2] = '\n';
    const char *const bad[] = {"recipe",   "recipe\n", "=1\n",    "a=1\n\n",
                               "a=\x01\n", "a=1",      long_hello};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct world w;
        world_begin(&w, engine, &(struct setup){.hosts = 2, .hello = {bad[i]}});
        start_hosts(&w, 1);
        join_hosts(&w);
        assert_int_equal(w.node[0].rc, SW_ERR_INVALID);
        world_end(&w);
    }
    struct world w;
    world_begin(&w, engine, &(struct setup){.hosts = 2});
    w.node[0].hosts.count = 1;
    start_hosts(&w, 1);
    join_hosts(&w);
    assert_int_equal(w.node[0].rc, SW_ERR_INVALID);
    struct sw_fabric_engine old = *engine->table;
    struct sw_err err;
    old.abi++;
    assert_int_equal(sw_fabric_open(&old, &(struct sw_fabric_args){.hosts = &w.node[1].hosts},
                                    &w.node[1].fabric, &err),
                     SW_ERR_INVALID);
    world_end(&w);
}

static void who_does_not_come_is_named(void **state)
{
    struct world w;
    world_begin(&w, engine, &(struct setup){.hosts = 3, .connect_ms = 2000});
    start_hosts(&w, 2);
    for (int i = 0; i < 2; i++)
        while (!engine->came(&w, i))
            sw_thread_yield();
    for (int i = 0; i < 2; i++) {
        while (!sw_thread_join_timed(&w.node[i].thread, 1))
            engine->advance(&w, 10000);
        assert_int_equal(w.node[i].rc, SW_ERR_NOTFOUND);
        if (!strstr(w.node[i].err.text, "cyd"))
            fail_msg("%s", w.node[i].err.text);
    }
    world_end(&w);
}

static void every_allocation_of_open_may_fail(void **state)
{
    int failed = 0;
    for (int at = 1;; at++) {
        struct world w;
        faulty_begin((struct faulty_plan){.kinds = 0});
        world_begin(&w, engine, &(struct setup){.hosts = 2, .connect_ms = 500});
        faulty.plan = (struct faulty_plan){.kinds = FAULTY_ALLOC, .at = at, .error = ENOMEM};
        start_hosts(&w, 1);
        while (!sw_thread_join_timed(&w.node[0].thread, 1))
            engine->advance(&w, 10000);
        int rc = w.node[0].rc;
        world_end(&w);
        assert_int_equal(faulty.live_allocations, 0);
        faulty_end();
        if (rc == SW_ERR_NOTFOUND)
            break;
        assert_int_equal(rc, SW_ERR_NOMEM);
        failed++;
    }
    assert_true(failed >= 4);
}

/* ---- Messages ---- */

static const size_t sizes[] = {0,
                               1,
                               4096,
                               SW_FABRIC_CHUNK - 1,
                               SW_FABRIC_CHUNK,
                               SW_FABRIC_CHUNK + 1,
                               2 * SW_FABRIC_CHUNK,
                               3 * SW_FABRIC_CHUNK + 77};
enum { SIZES = sizeof sizes / sizeof *sizes, MESSAGES = 48, MOST_BYTES = 4 * SW_FABRIC_CHUNK };

struct flow {
    struct world *w;
    int from, thread;
    struct sw_thread handle;
    unsigned char *data[MESSAGES];
};

/* Sends messages of all sizes to all others, of two urgencies that no other thread uses. */
static void flow_main(void *user)
{
    struct flow *f = user;
    for (int m = 0; m < MESSAGES; m++) {
        const struct sw_fabric_tag tag = {.kind = KIND,
                                          .urgency = (uint16_t)(2 * f->thread + m % 2),
                                          .item = (uint32_t)f->thread,
                                          .version = (uint64_t)m};
        size_t bytes = sizes[(m * 7 + f->from) % SIZES];
        f->data[m] = payload(f->from, &tag, bytes);
        for (int to = 0; to < f->w->setup.hosts; to++)
            if (to != f->from)
                assert_int_equal(try_send(f->w, f->from, to, tag, f->data[m], bytes), SW_OK);
    }
}

/* Messages of one sender and urgency have rising versions, and each of them is there. */
static void check_order(const struct node *n, int threads)
{
    uint64_t next[MOST][8];
    for (int from = 0; from < MOST; from++)
        for (int u = 0; u < 8; u++)
            next[from][u] = (uint64_t)u % 2;
    assert_int_equal(n->count, (n->world->setup.hosts - 1) * threads * MESSAGES);
    for (int i = 0; i < n->count; i++) {
        const struct record *r = &n->record[i];
        assert_int_equal(r->tag.version, next[r->from][r->tag.urgency]);
        next[r->from][r->tag.urgency] += 2;
        assert_int_equal(r->bytes, sizes[(r->tag.version * 7 + (uint64_t)r->from) % SIZES]);
    }
}

static void talk(int hosts, int threads, uint64_t seed, int window)
{
    static struct flow flow[MOST][4];
    struct world w;
    struct sw_err err;
    world_open(&w, engine,
               &(struct setup){.hosts = hosts,
                               .seed = seed,
                               .window = window,
                               .most_bytes = MOST_BYTES,
                               .urgencies = 8});
    for (int h = 0; h < hosts; h++)
        for (int t = 0; t < threads; t++) {
            flow[h][t] = (struct flow){.w = &w, .from = h, .thread = t};
            ASSERT_OK(sw_thread_start(&flow[h][t].handle, "flow", flow_main, &flow[h][t], &err));
        }
    for (int h = 0; h < hosts; h++)
        for (int t = 0; t < threads; t++)
            sw_thread_join(&flow[h][t].handle);
    leave_all(&w, (1u << hosts) - 1);
    for (int h = 0; h < hosts; h++) {
        check_order(&w.node[h], threads);
        assert_int_equal(w.node[h].done, (hosts - 1) * threads * MESSAGES);
        assert_int_equal(w.node[h].cancelled, 0);
    }
    world_end(&w);
    for (int h = 0; h < hosts; h++)
        for (int t = 0; t < threads; t++)
            for (int m = 0; m < MESSAGES; m++)
                free(flow[h][t].data[m]);
}

static void messages_of_an_urgency_come_in_order(void **state)
{
    talk(2, 1, 0, 1);
    talk(2, 2, 1, 1);
    for (uint64_t seed = 2; seed < 8; seed++)
        talk(3, 2, seed, 1 + (int)(seed % 4));
    talk(4, 3, 99, 4);
}

/* A message waits for the chunks that the engine already has, and for no others. */
static void an_urgent_message_overtakes_all_but_the_chunks_under_way(void **state)
{
    const struct sw_fabric_tag slow = {.kind = 1, .urgency = 3}, fast = {.kind = 2, .urgency = 1},
                               middle = {.kind = 3, .urgency = 2};
    const size_t bytes = 32 * (size_t)SW_FABRIC_CHUNK;
    struct world w;
    world_open(&w, engine, &(struct setup){.hosts = 2, .most_bytes = bytes});
    unsigned char *a = payload(0, &slow, bytes), *b = payload(0, &middle, bytes / 4),
                  *c = payload(0, &fast, 5);
    engine->hold(&w, 1, true);
    assert_int_equal(try_send(&w, 0, 1, slow, a, bytes), SW_OK);
    assert_int_equal(try_send(&w, 0, 1, middle, b, bytes / 4), SW_OK);
    assert_int_equal(try_send(&w, 0, 1, fast, c, 5), SW_OK);
    uint64_t under_way = sw_fabric_traffic(w.node[0].fabric, 1, 1).sent_bytes;
    assert_true(under_way > 0 && under_way <= (uint64_t)engine->window * SW_FABRIC_CHUNK);
    assert_int_equal(sw_fabric_traffic(w.node[0].fabric, 1, 3).sent_bytes, 0);
    engine->hold(&w, 1, false);
    wait_for(&w.node[1], has_count, 3);
    assert_int_equal(w.node[1].record[0].tag.kind, 2);
    assert_int_equal(w.node[1].record[1].tag.kind, 3);
    assert_int_equal(w.node[1].record[2].tag.kind, 1);
    leave_all(&w, 3);
    world_end(&w);
    free(a);
    free(b);
    free(c);
}

enum { NESTED = 50 };
static struct {
    struct world *w;
    unsigned char *data[NESTED];
    int most, begun;
} nest;

/* While the first chunk of a message arrives, a more urgent message is sent. */
static void send_more_urgent(struct node *n, const struct sw_fabric_tag *tag)
{
    int open = n->placed - n->count;
    nest.most = open > nest.most ? open : nest.most;
    if (nest.begun == NESTED)
        return;
    const struct sw_fabric_tag next = {.kind = KIND, .urgency = (uint16_t)(NESTED - nest.begun)};
    int m = nest.begun++;
    assert_int_equal(try_send(nest.w, 0, 1, next, nest.data[m], 3 * (size_t)SW_FABRIC_CHUNK),
                     SW_OK);
}

/* However many messages overtake each other, the receiver keeps a bounded number of records. */
static void begun_messages_are_bounded(void **state)
{
    struct world w;
    const struct sw_fabric_tag first = {.kind = KIND, .urgency = NESTED + 1};
    memset(&nest, 0, sizeof nest);
    nest.w = &w;
    for (int m = 0; m < NESTED; m++) {
        const struct sw_fabric_tag tag = {.kind = KIND, .urgency = (uint16_t)(NESTED - m)};
        nest.data[m] = payload(0, &tag, 3 * (size_t)SW_FABRIC_CHUNK);
    }
    unsigned char *data = payload(0, &first, 3 * (size_t)SW_FABRIC_CHUNK);
    world_open(&w, engine,
               &(struct setup){
                   .hosts = 2, .most_bytes = 3 * (size_t)SW_FABRIC_CHUNK, .urgencies = NESTED + 2});
    w.node[1].on_place = send_more_urgent;
    assert_int_equal(try_send(&w, 0, 1, first, data, 3 * (size_t)SW_FABRIC_CHUNK), SW_OK);
    wait_for(&w.node[1], has_count, NESTED + 1);
    leave_all(&w, 3);
    assert_int_equal(w.node[1].lost[0], 0);
    assert_int_equal(nest.begun, NESTED);
    assert_in_range(nest.most, engine->buffers ? 1 : 2, 32 + engine->window);
    world_end(&w);
    free(data);
    for (int m = 0; m < NESTED; m++)
        free(nest.data[m]);
}

static void more_messages_than_room_are_refused(void **state)
{
    const struct sw_fabric_tag tag = {.kind = KIND};
    struct world w;
    world_open(&w, engine, &(struct setup){.hosts = 2, .room = 4});
    unsigned char *data = payload(0, &tag, 100);
    engine->hold(&w, 1, true);
    for (int i = 0; i < 4; i++)
        assert_int_equal(try_send(&w, 0, 1, tag, data, 100), SW_OK);
    assert_int_equal(try_send(&w, 0, 1, tag, data, 100), SW_ERR_BUSY);
    engine->hold(&w, 1, false);
    wait_for(&w.node[0], has_done, 4);
    assert_int_equal(try_send(&w, 0, 1, tag, data, 100), SW_OK);
    wait_for(&w.node[1], has_count, 5);
    assert_int_equal(try_send(&w, 0, 0, tag, data, 100), SW_ERR_INVALID);
    assert_int_equal(try_send(&w, 0, 2, tag, data, 100), SW_ERR_INVALID);
    assert_int_equal(try_send(&w, 0, -1, tag, data, 100), SW_ERR_INVALID);
    const struct sw_fabric_tag unknown = {.kind = SW_FABRIC_KINDS};
    assert_int_equal(try_send(&w, 0, 1, unknown, data, 100), SW_ERR_INVALID);
    leave_all(&w, 3);
    world_end(&w);
    free(data);
}

/* A table that counts is in force before any thread exists. */
static void nothing_is_allocated_after_open(void **state)
{
    const struct sw_fabric_tag tag = {.kind = KIND, .urgency = 2};
    struct world w;
    faulty_begin((struct faulty_plan){.kinds = FAULTY_ALLOC});
    world_open(&w, engine, &(struct setup){.hosts = 2, .most_bytes = MOST_BYTES});
    unsigned char *data = payload(0, &tag, MOST_BYTES), *little = payload(0, &tag, 10);
    int before = __atomic_load_n(&faulty.calls, __ATOMIC_RELAXED);
    for (int i = 0; i < 100; i++)
        assert_int_equal(try_send(&w, 0, 1, tag, i % 2 ? data : little, i % 2 ? MOST_BYTES : 10),
                         SW_OK);
    wait_for(&w.node[1], has_count, 100);
    engine->advance(&w, 3000);
    leave_all(&w, 3);
    assert_int_equal(__atomic_load_n(&faulty.calls, __ATOMIC_RELAXED), before);
    world_end(&w);
    faulty_end();
    free(data);
    free(little);
}

/* ---- Loss ---- */

static void a_refused_place_loses_the_sender(void **state)
{
    const struct sw_fabric_tag bad = {.kind = KIND, .item = REFUSED}, good = {.kind = KIND};
    struct world w;
    world_open(&w, engine, &(struct setup){.hosts = 3});
    unsigned char *data[2] = {payload(0, &bad, 100), payload(0, &good, 100)};
    engine->hold(&w, 1, true);
    assert_int_equal(try_send(&w, 0, 1, bad, data[0], 100), SW_OK);
    for (int i = 0; i < 5; i++)
        assert_int_equal(try_send(&w, 0, 1, good, data[1], 100), SW_OK);
    engine->hold(&w, 1, false);
    wait_for(&w.node[1], has_lost, 0);
    wait_for(&w.node[0], has_lost, 1);
    assert_int_equal(w.node[1].why[0].code, SW_ERR_LOST);
    assert_non_null(strstr(w.node[1].why[0].text, "ada"));
    assert_non_null(strstr(w.node[1].why[0].text, "not welcome"));
    assert_non_null(strstr(w.node[0].why[1].text, "bob"));
    assert_int_equal(w.node[0].done, 6);
    assert_true(w.node[0].cancelled >= 5 || engine->buffers);
    assert_int_equal(w.node[1].count, 0);
    assert_int_equal(try_send(&w, 0, 1, good, data[1], 100), SW_ERR_LOST);
    assert_int_equal(sw_fabric_alive(w.node[0].fabric), 5);
    assert_int_equal(try_send(&w, 0, 2, good, data[1], 100), SW_OK);
    wait_for(&w.node[2], has_count, 1);
    leave_all(&w, 7);
    assert_int_equal(w.node[2].lost[0] + w.node[2].lost[1], 0);
    world_end(&w);
    free(data[0]);
    free(data[1]);
}

static bool has_both_of(const struct node *n, int64_t host)
{
    int count = 0;
    for (int i = 0; i < n->count; i++)
        count += n->record[i].from == host;
    return count == 2;
}

struct script {
    struct world *w;
    int host, sent;
    unsigned char *data[2][MOST];
};

/* Messages from all to all; counts those that were taken. */
static void run_script(struct script *s, int hosts)
{
    static const size_t lengths[2] = {300, SW_FABRIC_CHUNK + 5};
    for (int k = 0; k < 2; k++)
        for (int to = 0; to < hosts; to++) {
            const struct sw_fabric_tag tag = {.kind = KIND, .urgency = (uint16_t)k};
            if (to == s->host)
                continue;
            s->data[k][to] = payload(s->host, &tag, lengths[k]);
            s->sent +=
                try_send(s->w, s->host, to, tag, s->data[k][to], lengths[k]) == SW_OK ? 1 : 0;
        }
}

/* Kills the last host at a chunk. Returns false if it lived through all of it. */
static bool lose_at(int64_t chunk, uint64_t seed)
{
    enum { HOSTS = 3, LAST = HOSTS - 1 };
    struct script script[HOSTS] = {0};
    struct world w;
    bool died = false;
    world_begin(&w, engine,
                &(struct setup){.hosts = HOSTS,
                                .most_bytes = MOST_BYTES,
                                .kill_chunk = chunk,
                                .seed = seed,
                                .window = 1 + (int)(seed % 3)});
    start_hosts(&w, HOSTS);
    join_hosts(&w);
    for (int i = 0; i < HOSTS; i++)
        if (w.node[i].rc != SW_OK) {
            /* The dead host's, or that of one that was told so by another. */
            assert_true(w.node[i].rc == SW_ERR_LOST);
            died = true;
        }
    for (int i = 0; i < HOSTS; i++) {
        script[i] = (struct script){.w = &w, .host = i};
        if (w.node[i].rc == SW_OK)
            run_script(&script[i], HOSTS);
    }
    if (!died && chunk == 0) {
        for (int i = 0; i < HOSTS; i++)
            wait_for(&w.node[i], has_count, 2 * LAST);
        leave_all(&w, 7);
    } else if (!died) {
        for (int i = 0; i < LAST; i++) {
            wait_for(&w.node[i], has_lost, LAST);
            wait_for(&w.node[LAST], has_lost, i);
            assert_non_null(strstr(w.node[i].why[LAST].text, "cyd"));
        }
        /* The others go on. */
        for (int i = 0; i < LAST; i++) {
            wait_for(&w.node[i], has_both_of, 1 - i);
            assert_int_equal(sw_fabric_alive(w.node[i].fabric), 3);
        }
        leave_all(&w, 3);
        died = true;
    }
    for (int i = 0; i < HOSTS; i++)
        node_free(&w.node[i]);
    for (int i = 0; i < HOSTS; i++)
        assert_int_equal(w.node[i].done, script[i].sent);
    world_end(&w);
    for (int i = 0; i < HOSTS; i++)
        for (int k = 0; k < 2 * HOSTS; k++)
            free(script[i].data[k / HOSTS][k % HOSTS]);
    return died;
}

static void a_host_may_die_in_the_middle_of_every_chunk(void **state)
{
    /* Of the dead host: 4 hellos and 4 times ready, and 3 chunks each way with both others. */
    enum { CHUNKS = 8 + 12 };
    assert_false(lose_at(0, 1));
    for (uint64_t seed = 0; seed < 3; seed++)
        for (int64_t chunk = 1; chunk <= CHUNKS; chunk++)
            assert_true(lose_at(chunk, seed));
}

static void a_silent_host_is_lost_and_not_too_early(void **state)
{
    struct world w;
    world_open(&w, engine, &(struct setup){.hosts = 3});
    engine->advance(&w, 20000);
    engine->hold(&w, 1, true);
    engine->advance(&w, 3000);
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 3; k++)
            assert_int_equal(lost_count(&w.node[i], k), 0);
    engine->advance(&w, 2000);
    wait_for(&w.node[0], has_lost, 1);
    wait_for(&w.node[2], has_lost, 1);
    wait_for(&w.node[1], has_lost, 0);
    wait_for(&w.node[1], has_lost, 2);
    assert_non_null(strstr(w.node[0].why[1].text, "host bob: nothing was heard from it for 4.0 s"));
    assert_int_equal(w.node[0].why[1].code, SW_ERR_LOST);
    engine->advance(&w, 20000);
    leave_all(&w, 5);
    assert_int_equal(w.node[0].lost[2] + w.node[2].lost[0], 0);
    world_end(&w);
}

static void a_stopped_host_blames_nobody_and_ends_when_it_wakes(void **state)
{
    struct world w;
    world_open(&w, engine, &(struct setup){.hosts = 2});
    engine->stop(&w, 1, true);
    engine->advance(&w, 3000);
    engine->stop(&w, 1, false);
    engine->advance(&w, 3000);
    assert_int_equal(lost_count(&w.node[0], 1) + lost_count(&w.node[1], 0), 0);
    engine->stop(&w, 1, true);
    engine->advance(&w, 6000);
    wait_for(&w.node[0], has_lost, 1);
    assert_int_equal(lost_count(&w.node[1], 0), 0);
    engine->stop(&w, 1, false);
    wait_for(&w.node[1], has_lost, 0);
    assert_non_null(strstr(w.node[1].why[0].text, "ada"));
    assert_null(strstr(w.node[1].why[0].text, "nothing was heard"));
    world_end(&w);
}

/* As when a machine is suspended, or a debugger stops all. */
static void hosts_that_are_stopped_together_lose_nobody(void **state)
{
    struct world w;
    world_open(&w, engine, &(struct setup){.hosts = 3});
    for (int i = 0; i < 3; i++)
        engine->stop(&w, i, true);
    engine->advance(&w, 60000);
    for (int i = 0; i < 3; i++)
        engine->stop(&w, i, false);
    engine->advance(&w, 3000);
    leave_all(&w, 7);
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 3; k++)
            assert_int_equal(w.node[i].lost[k], 0);
    world_end(&w);
}

static void an_abort_reaches_all_with_code_and_text(void **state)
{
    const struct sw_err why = {SW_ERR_DIVERGED, "step 7: the loss is not finite"};
    for (int closed = 0; closed < 2; closed++) {
        struct world w;
        world_open(&w, engine, &(struct setup){.hosts = 3});
        if (closed)
            sw_fabric_close_v(w.node[1].fabric);
        sw_fabric_abort(w.node[1].fabric, &why, 60000);
        wait_for(&w.node[0], has_lost, 1);
        wait_for(&w.node[2], has_lost, 1);
        for (int i = 0; i < 3; i += 2) {
            assert_int_equal(w.node[i].why[1].code, SW_ERR_DIVERGED);
            assert_string_equal(w.node[i].why[1].text, "host bob: step 7: the loss is not finite");
        }
        node_free(&w.node[1]);
        assert_int_equal(w.node[1].lost[0] + w.node[1].lost[2], 0);
        leave_all(&w, 5);
        world_end(&w);
    }
}

static void leave_names_who_stays(void **state)
{
    const struct sw_fabric_tag tag = {.kind = KIND};
    struct world w;
    world_open(&w, engine, &(struct setup){.hosts = 2});
    struct sw_err err;
    ASSERT_OK(sw_thread_start(&w.node[0].thread, "host", leave_main, &w.node[0], &err));
    /* What others send to a host that leaves still arrives. */
    while (sw_fabric_alive(w.node[1].fabric) != 2)
        sw_thread_yield();
    unsigned char *data = payload(1, &tag, 100);
    assert_int_equal(try_send(&w, 1, 0, tag, data, 100), SW_OK);
    wait_for(&w.node[0], has_count, 1);
    assert_int_equal(try_send(&w, 0, 1, tag, data, 100), SW_ERR_CANCELLED);
    while (!sw_thread_join_timed(&w.node[0].thread, 1))
        engine->advance(&w, 10000);
    assert_int_equal(w.node[0].rc, SW_ERR_LOST);
    assert_non_null(strstr(w.node[0].err.text, "bob"));
    node_free(&w.node[0]);
    leave_all(&w, 2);
    assert_int_equal(w.node[1].lost[0], 0); /* it had left */
    world_end(&w);
    free(data);
}

static void close_ends_waits_and_cancels_messages(void **state)
{
    const struct sw_fabric_tag tag = {.kind = KIND};
    struct world w;
    struct sw_err err;
    world_open(&w, engine, &(struct setup){.hosts = 2});
    unsigned char *data = payload(0, &tag, 100);
    engine->hold(&w, 1, true);
    for (int i = 0; i < 3; i++)
        assert_int_equal(try_send(&w, 0, 1, tag, data, 100), SW_OK);
    ASSERT_OK(sw_thread_start(&w.node[0].thread, "host", leave_main, &w.node[0], &err));
    assert_false(sw_thread_join_timed(&w.node[0].thread, 20));
    sw_fabric_close_v(w.node[0].fabric);
    sw_thread_join(&w.node[0].thread);
    assert_int_equal(w.node[0].rc, SW_ERR_CANCELLED);
    assert_int_equal(try_send(&w, 0, 1, tag, data, 100), SW_ERR_CANCELLED);
    assert_int_equal(w.node[0].done, 0);
    node_free(&w.node[0]);
    assert_int_equal(w.node[0].done, 3);
    assert_int_equal(w.node[0].cancelled, 3);
    engine->hold(&w, 1, false);
    wait_for(&w.node[1], has_lost, 0);
    world_end(&w);
    free(data);
}

static void killed_hosts_are_lost_at_once(void **state)
{
    struct world w;
    world_open(&w, engine, &(struct setup){.hosts = 4});
    engine->kill(&w, 2);
    for (int i = 0; i < 4; i++)
        if (i != 2) {
            wait_for(&w.node[i], has_lost, 2);
            wait_for(&w.node[2], has_lost, i);
        }
    engine->kill(&w, 0);
    wait_for(&w.node[1], has_lost, 0);
    wait_for(&w.node[3], has_lost, 0);
    leave_all(&w, 10);
    world_end(&w);
}

/* ---- A limit of what is sent ---- */

/* These are about the fabric alone, and need a clock that stands while the test looks. */
static void needs_loop(void)
{
    if (engine->table != &sw_fabric_loop)
        skip();
}

static int64_t now_ns(struct world *w)
{
    const struct sw_fabric_clock *c = engine->clock(w, 0);
    return c->monotonic_ns(c->user);
}

static uint64_t sent_bytes(struct world *w, int to)
{
    return sw_fabric_traffic(w->node[0].fabric, to, -1).sent_bytes;
}

/* At no time more is sent than the limit allows, beyond a short burst and one chunk, and in the end
 * all is there. */
static void a_limit_of_the_throughput_holds(void **state)
{
    enum { BYTES_PER_S = 50000000, BURST_MS = 10, MOST_MS = 60 };

    needs_loop();
    const struct sw_fabric_tag tag = {.kind = KIND, .urgency = 1};
    const size_t bytes = 8 * (size_t)SW_FABRIC_CHUNK;
    struct world w;
    world_open(&w, engine,
               &(struct setup){.hosts = 2, .most_bytes = bytes, .bytes_per_s = BYTES_PER_S});
    unsigned char *data = payload(0, &tag, bytes);
    int64_t begin_ns = now_ns(&w);
    assert_int_equal(try_send(&w, 0, 1, tag, data, bytes), SW_OK);
    for (double ms = 0; sent_bytes(&w, 1) < bytes; ms = (double)(now_ns(&w) - begin_ns) / 1e6) {
        double allowed = (ms + BURST_MS) * (BYTES_PER_S / 1e3) + SW_FABRIC_CHUNK;
        assert_true((double)sent_bytes(&w, 1) <= allowed);
        assert_true(ms <= MOST_MS);
        engine->advance(&w, 1);
    }
    wait_for(&w.node[1], has_count, 1);
    leave_all(&w, 3);
    world_end(&w);
    free(data);
}

/* The choice of the next chunk is made when it can go. Hosts take turns. */
static void what_waits_for_its_time_goes_by_urgency_and_in_turns(void **state)
{
    enum { BYTES_PER_S = 10 * SW_FABRIC_CHUNK };

    needs_loop();
    const struct sw_fabric_tag slow = {.kind = 1, .urgency = 3}, fast = {.kind = 2, .urgency = 1};
    const size_t bytes = 20 * (size_t)SW_FABRIC_CHUNK;
    struct world w;
    world_open(&w, engine,
               &(struct setup){.hosts = 3, .most_bytes = bytes, .bytes_per_s = BYTES_PER_S});
    unsigned char *a = payload(0, &slow, bytes), *b = payload(0, &fast, 5);
    assert_int_equal(try_send(&w, 0, 1, slow, a, bytes), SW_OK);
    assert_int_equal(try_send(&w, 0, 2, slow, a, bytes), SW_OK);
    assert_int_equal(try_send(&w, 0, 1, fast, b, 5), SW_OK);
    engine->advance(&w, 1000);
    wait_for(&w.node[1], has_count, 1);
    assert_int_equal(w.node[1].record[0].tag.kind, 2);
    int64_t ahead = (int64_t)sent_bytes(&w, 1) - (int64_t)sent_bytes(&w, 2);
    assert_true(llabs(ahead) < 4 * SW_FABRIC_CHUNK);
    assert_true(sent_bytes(&w, 2) >= 3 * (uint64_t)SW_FABRIC_CHUNK);
    engine->advance(&w, 5000);
    wait_for(&w.node[1], has_count, 2);
    wait_for(&w.node[2], has_count, 1);
    leave_all(&w, 7);
    world_end(&w);
    free(a);
    free(b);
}

/* Among messages of one urgency the largest change goes first, but none passes one that has begun:
 * the receiver takes one message of an urgency after the other. */
static void of_one_urgency_the_largest_change_goes_first(void **state)
{
    static const float changes[] = {0.5F, 0.1F, 0, 0.9F, 0.5F};
    static const int expected[] = {0, 3, 4, 1, 2};
    enum { COUNT = 5, BYTES_PER_S = 10 * SW_FABRIC_CHUNK };

    needs_loop();
    const size_t bytes = 3 * (size_t)SW_FABRIC_CHUNK;
    unsigned char *data[COUNT];
    struct world w;
    world_open(&w, engine,
               &(struct setup){.hosts = 2, .most_bytes = bytes, .bytes_per_s = BYTES_PER_S});
    for (int i = 0; i < COUNT; i++) {
        const struct sw_fabric_tag tag = {
            .kind = KIND, .urgency = 2, .item = (uint32_t)i, .change = changes[i]};
        data[i] = payload(0, &tag, bytes);
        assert_int_equal(try_send(&w, 0, 1, tag, data[i], bytes), SW_OK);
    }
    assert_true(sent_bytes(&w, 1) > 0); /* the first has begun */
    engine->advance(&w, 5000);
    wait_for(&w.node[1], has_count, COUNT);
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(w.node[1].record[i].tag.item, expected[i]);
    assert_int_equal(lost_count(&w.node[1], 0), 0);
    leave_all(&w, 3);
    world_end(&w);
    for (int i = 0; i < COUNT; i++)
        free(data[i]);
}

/* Beats do not wait: hosts whose messages take minutes lose nobody. */
static void a_narrow_limit_loses_nobody(void **state)
{
    needs_loop();
    const struct sw_fabric_tag tag = {.kind = KIND, .urgency = 1};
    const size_t bytes = 2 * (size_t)SW_FABRIC_CHUNK;
    struct world w;
    world_open(&w, engine, &(struct setup){.hosts = 2, .most_bytes = bytes, .bytes_per_s = 1000});
    unsigned char *data = payload(0, &tag, bytes);
    assert_int_equal(try_send(&w, 0, 1, tag, data, bytes), SW_OK);
    engine->advance(&w, 20000);
    assert_int_equal(lost_count(&w.node[0], 1), 0);
    assert_int_equal(lost_count(&w.node[1], 0), 0);
    assert_int_equal(w.node[0].done, 0);
    world_end(&w);
    free(data);
}

/* ---- Clocks ---- */

static void clocks_are_compared_within_the_error(void **state)
{
    const int64_t skew_ns[3] = {5000000, -70000000000, 123456789};
    for (uint64_t seed = 0; seed < 3; seed++) {
        struct world w;
        world_open(&w, engine, &(struct setup){.hosts = 3, .seed = seed, .skew_ns = skew_ns});
        engine->advance(&w, 10000);
        for (int i = 0; i < 3; i++)
            for (int k = 0; k < 3; k++) {
                int64_t offset_ns, error_ns;
                sw_fabric_clock(w.node[i].fabric, k, &offset_ns, &error_ns);
                assert_in_range(error_ns, k == 0 ? 0 : 1, 1000000);
                assert_true(llabs(offset_ns - (skew_ns[k] - skew_ns[0])) <= error_ns);
            }
        leave_all(&w, 7);
        world_end(&w);
    }
}

int main(void)
{
    if (getenv("MPI_CASE"))
        return mpi_child_main(getenv("MPI_CASE"));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hosts_meet_talk_and_leave),
        cmocka_unit_test(a_mismatch_names_both_hosts_and_the_field),
        cmocka_unit_test(arguments_are_checked),
        cmocka_unit_test(who_does_not_come_is_named),
        cmocka_unit_test(every_allocation_of_open_may_fail),
        cmocka_unit_test(messages_of_an_urgency_come_in_order),
        cmocka_unit_test(an_urgent_message_overtakes_all_but_the_chunks_under_way),
        cmocka_unit_test(begun_messages_are_bounded),
        cmocka_unit_test(more_messages_than_room_are_refused),
        cmocka_unit_test(nothing_is_allocated_after_open),
        cmocka_unit_test(a_refused_place_loses_the_sender),
        cmocka_unit_test(a_host_may_die_in_the_middle_of_every_chunk),
        cmocka_unit_test(a_silent_host_is_lost_and_not_too_early),
        cmocka_unit_test(a_stopped_host_blames_nobody_and_ends_when_it_wakes),
        cmocka_unit_test(hosts_that_are_stopped_together_lose_nobody),
        cmocka_unit_test(an_abort_reaches_all_with_code_and_text),
        cmocka_unit_test(leave_names_who_stays),
        cmocka_unit_test(close_ends_waits_and_cancels_messages),
        cmocka_unit_test(killed_hosts_are_lost_at_once),
        cmocka_unit_test(a_limit_of_the_throughput_holds),
        cmocka_unit_test(what_waits_for_its_time_goes_by_urgency_and_in_turns),
        cmocka_unit_test(of_one_urgency_the_largest_change_goes_first),
        cmocka_unit_test(a_narrow_limit_loses_nobody),
        cmocka_unit_test(clocks_are_compared_within_the_error),
    };
    int failed = 0;
    for (size_t i = 0; i < sizeof engines / sizeof *engines; i++) {
        engine = &engines[i];
        const char *missing = engine->missing ? engine->missing() : NULL;
        print_message("engine %s%s%s\n", engine->name, missing ? ": skipped, " : "",
                      missing ? missing : "");
        if (missing)
            continue;
        failed += cmocka_run_group_tests(tests, NULL, NULL);
        if (engine->quit)
            engine->quit();
    }
    return failed;
}
