/* Hosts of a fabric for tests: each has a fabric, a sink that records what arrives and checks its
 * bytes, and buffers for one message at a time of each urgency and sender. An engine is a table
 * here, so that one suite takes all engines through the same cases. */
#pragma once

#include "exchange/hosts/loop.h"
#include "exchange/hosts/tcp.h"
#include "thread/thread.h"
#include "unit/exchange/gates.h"
#include "unit/faulty_os.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MOST = 4, RECORDS = 4096, URGENCIES = 64, KIND = 5, REFUSED = 77 };

#define ASSERT_OK(call)                                                                            \
    do {                                                                                           \
        int code_ = (call);                                                                        \
        if (code_ != SW_OK)                                                                        \
            print_error("%s\n", err.text);                                                         \
        assert_int_equal(code_, SW_OK);                                                            \
    } while (0)

struct world;

/* An engine in a test. */
struct engine {
    const char *name;
    const struct sw_fabric_engine *table;
    int window; /* chunks that it has of one host at a time, while they are held */
    /* Chunks may leave the sender before they arrive: those of a host that is lost meanwhile are
     * done, and not cancelled. */
    bool buffers;
    const unsigned char *key;
    const char *(*missing)(void); /* what this build lacks for it; NULL: nothing */
    void (*begin)(struct world *w);
    void (*end)(struct world *w);
    void (*quit)(void); /* after the last world; may be NULL */
    const void *(*conf)(struct world *w, int host);
    const struct sw_fabric_clock *(*clock)(struct world *w, int host);
    void (*hold)(struct world *w, int host, bool held);    /* nothing moves from and to the host */
    void (*stop)(struct world *w, int host, bool stopped); /* and it does nothing itself */
    void (*kill)(struct world *w, int host);
    bool (*came)(struct world *w, int host);  /* does it open its fabric? */
    void (*advance)(struct world *w, int ms); /* lets time pass */
};

struct setup {
    int hosts;
    size_t most_bytes; /* of a message; 0: 4096 */
    int urgencies;     /* 0: 4 */
    int room;
    int64_t bytes_per_s; /* 0: no limit */
    uint64_t seed;
    int window;
    int connect_ms;     /* 0: the default */
    int64_t kill_chunk; /* of the last host; 0: never */
    const int64_t *skew_ns;
    const char *hello[MOST]; /* NULL: "recipe=1\n" */
};

/* A message that arrived. */
struct record {
    int from;
    struct sw_fabric_tag tag;
    size_t bytes;
};

struct node {
    struct world *world;
    int host;
    struct sw_hosts hosts;
    struct sw_fabric *fabric;
    struct sw_thread thread;
    int rc;
    struct sw_err err;
    struct sw_mutex lock; /* guards all below */
    struct sw_cond changed;
    struct record record[RECORDS];
    int count, placed;
    int lost[MOST]; /* calls of lost */
    struct sw_err why[MOST];
    bool late[MOST]; /* a call about a host that was lost */
    int done, cancelled;
    unsigned char *room[MOST][URGENCIES];
    void (*on_place)(struct node *n, const struct sw_fabric_tag *tag);
};

struct world {
    const struct engine *engine;
    struct setup setup;
    void *net;
    struct node node[MOST];
    struct sw_host names[MOST];
};

/* ---- Payloads ---- */

static inline unsigned char pattern(int from, const struct sw_fabric_tag *tag, size_t i)
{
    return (unsigned char)(from * 31 + tag->item * 7 + tag->version + i + (i >> 8));
}

/* Which bytes are checked: of long messages not all, to save time. */
static inline size_t stride(size_t bytes)
{
    return bytes > 10000 ? 61 : 1;
}

static inline unsigned char *payload(int from, const struct sw_fabric_tag *tag, size_t bytes)
{
    unsigned char *data = calloc(1, bytes + 1);
    assert_non_null(data);
    for (size_t i = 0; i < bytes; i += stride(bytes))
        data[i] = pattern(from, tag, i);
    if (bytes > 0)
        data[bytes - 1] = pattern(from, tag, bytes - 1);
    return data;
}

static inline bool is_intact(int from, const struct sw_fabric_tag *tag, const unsigned char *data,
                             size_t bytes)
{
    for (size_t i = 0; i < bytes; i += stride(bytes))
        if (data[i] != pattern(from, tag, i))
            return false;
    return bytes == 0 || data[bytes - 1] == pattern(from, tag, bytes - 1);
}

/* ---- Sinks ---- */

static inline void note_call(struct node *n, int from)
{
    n->late[from] = n->late[from] || n->lost[from] > 0;
}

static inline int node_place(void *user, int from, const struct sw_fabric_tag *tag, size_t bytes,
                             void **to, struct sw_err *err)
{
    struct node *n = user;
    int rc = SW_OK;

    sw_mutex_lock(&n->lock);
    note_call(n, from);
    n->placed++;
    if (tag->item == REFUSED)
        rc = sw_err_set(err, SW_ERR_INVALID, "item %d is not welcome", REFUSED);
    else if (bytes > n->world->setup.most_bytes || tag->urgency >= n->world->setup.urgencies)
        rc = sw_err_set(err, SW_ERR_INVALID, "a message that no test sends");
    *to = rc == SW_OK ? n->room[from][tag->urgency] : NULL;
    sw_cond_broadcast(&n->changed);
    sw_mutex_unlock(&n->lock);

    if (n->on_place)
        n->on_place(n, tag);
    return rc;
}

static inline int node_arrived(void *user, int from, const struct sw_fabric_tag *tag, void *data,
                               size_t bytes, struct sw_err *err)
{
    struct node *n = user;
    int rc = SW_OK;

    sw_mutex_lock(&n->lock);
    note_call(n, from);
    if (!is_intact(from, tag, data, bytes) || n->count == RECORDS)
        rc = sw_err_set(err, SW_ERR_FORMAT, "a message is damaged");
    else
        n->record[n->count++] = (struct record){from, *tag, bytes};
    sw_cond_broadcast(&n->changed);
    sw_mutex_unlock(&n->lock);
    return rc;
}

static inline void node_lost(void *user, int host, const struct sw_err *why)
{
    struct node *n = user;

    sw_mutex_lock(&n->lock);
    n->why[host] = *why;
    n->lost[host]++;
    sw_cond_broadcast(&n->changed);
    sw_mutex_unlock(&n->lock);
}

static inline void node_done(void *user, int rc)
{
    struct node *n = user;

    sw_mutex_lock(&n->lock);
    n->done++;
    n->cancelled += rc != SW_OK;
    sw_cond_broadcast(&n->changed);
    sw_mutex_unlock(&n->lock);
}

/* ---- A world ---- */

static inline void open_main(void *user)
{
    struct node *n = user;
    struct world *w = n->world;
    const char *hello = w->setup.hello[n->host] ? w->setup.hello[n->host] : "recipe=1\n";
    const struct sw_fabric_args args = {
        .hosts = &n->hosts,
        .key = w->engine->key,
        .hello = hello,
        .hello_bytes = strlen(hello),
        .connect_ms = w->setup.connect_ms,
        .room = w->setup.room,
        .bytes_per_s = w->setup.bytes_per_s,
        .sink = {.place = node_place, .arrived = node_arrived, .lost = node_lost, .user = n},
        .conf = w->engine->conf(w, n->host),
        .clock = w->engine->clock(w, n->host)};

    n->rc = sw_fabric_open(w->engine->table, &args, &n->fabric, &n->err);
}

static inline void world_begin(struct world *w, const struct engine *e, const struct setup *s)
{
    static const char *const names[MOST] = {"ada", "bob", "cyd", "dan"};

    memset(w, 0, sizeof *w);
    w->engine = e;
    w->setup = *s;
    w->setup.most_bytes = s->most_bytes ? s->most_bytes : 4096;
    w->setup.urgencies = s->urgencies ? s->urgencies : 4;
    e->begin(w);
    for (int i = 0; i < s->hosts; i++) {
        struct node *n = &w->node[i];
        w->names[i].name = names[i];
        n->world = w;
        n->host = i;
        n->hosts = (struct sw_hosts){.host = w->names, .count = s->hosts, .own = i};
        sw_mutex_init(&n->lock);
        sw_cond_init(&n->changed);
        for (int from = 0; from < s->hosts; from++)
            for (int u = 0; u < w->setup.urgencies; u++)
                assert_non_null(n->room[from][u] = malloc(w->setup.most_bytes));
    }
}

/* Opens hosts [0, count) at the same time. */
static inline void start_hosts(struct world *w, int count)
{
    struct sw_err err;
    for (int i = 0; i < count; i++)
        ASSERT_OK(sw_thread_start(&w->node[i].thread, "host", open_main, &w->node[i], &err));
}

static inline void join_hosts(struct world *w)
{
    for (int i = 0; i < w->setup.hosts; i++)
        sw_thread_join(&w->node[i].thread);
}

static inline void world_open(struct world *w, const struct engine *e, const struct setup *s)
{
    world_begin(w, e, s);
    start_hosts(w, s->hosts);
    join_hosts(w);
    for (int i = 0; i < s->hosts; i++) {
        if (w->node[i].rc != SW_OK)
            print_error("%s\n", w->node[i].err.text);
        assert_int_equal(w->node[i].rc, SW_OK);
    }
}

/* Ends a host at once. */
static inline void node_free(struct node *n)
{
    sw_fabric_free(n->fabric);
    n->fabric = NULL;
}

/* Ends all; nothing was ever said about a host that was lost. */
static inline void world_end(struct world *w)
{
    for (int i = 0; i < w->setup.hosts; i++)
        node_free(&w->node[i]);
    w->engine->end(w);
    for (int i = 0; i < w->setup.hosts; i++) {
        struct node *n = &w->node[i];
        for (int from = 0; from < w->setup.hosts; from++) {
            assert_false(n->late[from]);
            assert_true(n->lost[from] <= 1);
            for (int u = 0; u < w->setup.urgencies; u++)
                free(n->room[from][u]);
        }
        sw_cond_fini(&n->changed);
        sw_mutex_fini(&n->lock);
    }
}

/* ---- What hosts do ---- */

static inline int try_send(struct world *w, int from, int to, struct sw_fabric_tag tag,
                           const void *data, size_t bytes)
{
    struct sw_err err;
    return sw_fabric_send(w->node[from].fabric, to, &tag, data, bytes, node_done, &w->node[from],
                          &err);
}

/* Waits until a condition about a node holds; a test that waits in vain ends by ctest's limit. */
static inline void wait_for(struct node *n, bool (*holds)(const struct node *n, int64_t what),
                            int64_t what)
{
    sw_mutex_lock(&n->lock);
    while (!holds(n, what))
        sw_cond_wait(&n->changed, &n->lock);
    sw_mutex_unlock(&n->lock);
}

static inline bool has_count(const struct node *n, int64_t count)
{
    return n->count >= count;
}

static inline bool has_placed(const struct node *n, int64_t count)
{
    return n->placed >= count;
}

static inline bool has_done(const struct node *n, int64_t count)
{
    return n->done >= count;
}

static inline bool has_lost(const struct node *n, int64_t host)
{
    return n->lost[host] > 0;
}

static inline int lost_count(struct node *n, int host)
{
    sw_mutex_lock(&n->lock);
    int count = n->lost[host];
    sw_mutex_unlock(&n->lock);
    return count;
}

static inline void leave_main(void *user)
{
    struct node *n = user;
    n->rc = sw_fabric_leave(n->fabric, 60000, &n->err);
}

/* All hosts of the bits leave in order. */
static inline void leave_all(struct world *w, uint64_t hosts)
{
    struct sw_err err;
    for (int i = 0; i < w->setup.hosts; i++)
        if (hosts >> i & 1)
            ASSERT_OK(sw_thread_start(&w->node[i].thread, "host", leave_main, &w->node[i], &err));
    join_hosts(w);
    for (int i = 0; i < w->setup.hosts; i++)
        if (hosts >> i & 1) {
            err = w->node[i].err;
            ASSERT_OK(w->node[i].rc);
        }
}

/* ---- Engine loop ---- */

static inline void loop_begin(struct world *w)
{
    const struct sw_loop_conf conf = {.hosts = w->setup.hosts,
                                      .seed = w->setup.seed,
                                      .window = w->setup.window,
                                      .skew_ns = w->setup.skew_ns,
                                      .kill_host = w->setup.hosts - 1,
                                      .kill_chunk = w->setup.kill_chunk};
    struct sw_loop *loop;
    struct sw_err err;
    ASSERT_OK(sw_loop_new(&conf, &loop, &err));
    w->net = loop;
}

static inline void loop_end(struct world *w)
{
    sw_loop_free(w->net);
}

static inline const void *loop_conf(struct world *w, int host)
{
    return sw_loop_end(w->net, host);
}

static inline const struct sw_fabric_clock *loop_clock(struct world *w, int host)
{
    return sw_loop_clock(w->net, host);
}

static inline void loop_hold(struct world *w, int host, bool held)
{
    sw_loop_set(w->net, host, held ? SW_LOOP_CUT : SW_LOOP_RUNS);
}

static inline void loop_stop(struct world *w, int host, bool stopped)
{
    sw_loop_set(w->net, host, stopped ? SW_LOOP_STOPPED : SW_LOOP_RUNS);
}

static inline void loop_kill(struct world *w, int host)
{
    sw_loop_kill(w->net, host);
}

static inline bool loop_came(struct world *w, int host)
{
    return sw_loop_came(w->net, host);
}

static inline void loop_advance(struct world *w, int ms)
{
    sw_loop_advance(w->net, (int64_t)ms * 1000000);
}

/* ---- Engine tcp, behind gates ---- */

struct tcp_net {
    struct gates *gates;
    struct sw_tcp_conf conf;
};

static inline struct gates *gates_of(struct world *w)
{
    return ((struct tcp_net *)w->net)->gates;
}

static inline void tcp_begin(struct world *w)
{
    struct tcp_net *t = calloc(1, sizeof *t);
    struct sw_err err;
    assert_non_null(t);
    ASSERT_OK(sw_tcp_listen("127.0.0.1", &t->conf.port, &t->conf.listener, &err));
    t->gates = gates_new(
        &(struct gates_conf){.engine = &sw_fabric_tcp,
                             .conf = &t->conf,
                             .hosts = w->setup.hosts,
                             .connect_ms = w->setup.connect_ms ? w->setup.connect_ms : 120000,
                             .kill_chunk = w->setup.kill_chunk,
                             .skew_ns = w->setup.skew_ns});
    w->net = t;
    w->names[0].address = "127.0.0.1";
}

static inline void tcp_end(struct world *w)
{
    struct tcp_net *t = w->net;
    if (!t->gates->gate[0].came)
        close(t->conf.listener);
    gates_free(t->gates);
    free(t);
}

static inline const void *gates_conf_of(struct world *w, int host)
{
    return &gates_of(w)->gate[host];
}

static inline const struct sw_fabric_clock *gates_clock(struct world *w, int host)
{
    return &gates_of(w)->gate[host].clock;
}

static inline void gates_hold_host(struct world *w, int host, bool held)
{
    gates_hold(gates_of(w), host, held);
}

static inline void gates_stop(struct world *w, int host, bool stopped)
{
    gates_set(gates_of(w), &gates_of(w)->gate[host].stopped, stopped);
}

static inline void gates_kill_host(struct world *w, int host)
{
    gates_kill(gates_of(w), host);
}

static inline bool gates_came(struct world *w, int host)
{
    return gates_get(gates_of(w), &gates_of(w)->gate[host].came);
}

static inline void gates_advance_ms(struct world *w, int ms)
{
    gates_advance(gates_of(w), (int64_t)ms * 1000000);
}

static inline const char *missing_tls(void)
{
    return sw_tcp_has_tls() ? NULL : "this program was built without OpenSSL";
}

static const unsigned char test_key[SW_FABRIC_KEY_BYTES] = "thirty-two bytes, and no secret";

#include "unit/exchange/mpi_hosts.h"

static const struct engine engines[] = {{.name = "loop",
                                         .table = &sw_fabric_loop,
                                         .window = 1,
                                         .begin = loop_begin,
                                         .end = loop_end,
                                         .conf = loop_conf,
                                         .clock = loop_clock,
                                         .hold = loop_hold,
                                         .stop = loop_stop,
                                         .kill = loop_kill,
                                         .came = loop_came,
                                         .advance = loop_advance},
                                        {.name = "tcp",
                                         .table = &gates_engine,
                                         .window = 2,
                                         .buffers = true,
                                         .begin = tcp_begin,
                                         .end = tcp_end,
                                         .conf = gates_conf_of,
                                         .clock = gates_clock,
                                         .hold = gates_hold_host,
                                         .stop = gates_stop,
                                         .kill = gates_kill_host,
                                         .came = gates_came,
                                         .advance = gates_advance_ms},
                                        {.name = "tcp, TLS",
                                         .table = &gates_engine,
                                         .window = 2,
                                         .buffers = true,
                                         .key = test_key,
                                         .missing = missing_tls,
                                         .begin = tcp_begin,
                                         .end = tcp_end,
                                         .conf = gates_conf_of,
                                         .clock = gates_clock,
                                         .hold = gates_hold_host,
                                         .stop = gates_stop,
                                         .kill = gates_kill_host,
                                         .came = gates_came,
                                         .advance = gates_advance_ms},
                                        MPI_ENGINE("Open MPI", openmpi_missing),
                                        MPI_ENGINE("MPICH", mpich_missing)};
