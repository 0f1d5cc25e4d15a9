/* ctest-labels: threads
 * ctest-timeout: 120
 * What the conformance suite does not see of engine tcp: how hosts meet among strangers, with wrong
 * keys and wrong numbers, and that calls that block in a socket end. Each case runs without and
 * with TLS. */
#include "exchange/hosts/tcp.h"

#include "base/os.h"
#include "base/stop.h"
#include "exchange/hosts/tcp_notes.h"
#include "thread/thread.h"
#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

enum { MOST = 16, LONG_MS = 120000, SHORT_MS = 3000 };

#define ASSERT_OK(call)                                                                            \
    do {                                                                                           \
        int code_ = (call);                                                                        \
        if (code_ != SW_OK)                                                                        \
            print_error("%s\n", err.text);                                                         \
        assert_int_equal(code_, SW_OK);                                                            \
    } while (0)

static const unsigned char right_key[SW_FABRIC_KEY_BYTES] = "thirty-two bytes, and no secret";
static const unsigned char wrong_key[SW_FABRIC_KEY_BYTES] = "another key of thirty-two bytes";
static const unsigned char *key; /* of the running test; NULL: none */

/* ---- Hosts that have an engine, and no fabric ---- */

struct node {
    struct sw_hosts hosts;
    struct sw_tcp_conf conf;
    struct sw_fabric_wire wire;
    struct sw_thread thread;
    void *link; /* NULL: not open */
    int rc;
    struct sw_err err;
    struct sw_mutex lock; /* guards all below */
    struct sw_cond changed;
    unsigned char *room; /* [SW_FABRIC_CHUNK] */
    bool blocks;         /* begin waits */
    int begun, ended, sent, failed;
};

struct group {
    int count;
    struct sw_host host[MOST];
    struct node node[MOST];
    struct sw_log *log;
    int told; /* messages of the log */
    char text[1024];
};

static void change(struct node *n, int *counter)
{
    sw_mutex_lock(&n->lock);
    ++*counter;
    sw_cond_broadcast(&n->changed);
    sw_mutex_unlock(&n->lock);
}

static void await(struct node *n, const int *counter, int count)
{
    sw_mutex_lock(&n->lock);
    while (*counter < count)
        sw_cond_wait(&n->changed, &n->lock);
    sw_mutex_unlock(&n->lock);
}

static int value(struct node *n, const int *counter)
{
    sw_mutex_lock(&n->lock);
    int count = *counter;
    sw_mutex_unlock(&n->lock);
    return count;
}

static int on_begin(void *user, int from, const unsigned char head[SW_FRAME_HEAD], void **to,
                    size_t *bytes)
{
    struct node *n = user;
    struct sw_fabric_frame f;
    if (sw_frame_parse(head, &f, NULL) != SW_OK)
        return SW_ERR_FORMAT;
    *to = n->room;
    *bytes = f.bytes;
    change(n, &n->begun);
    sw_mutex_lock(&n->lock);
    while (n->blocks)
        sw_cond_wait(&n->changed, &n->lock);
    sw_mutex_unlock(&n->lock);
    return SW_OK;
}

static int on_end(void *user, int from)
{
    struct node *n = user;
    change(n, &n->ended);
    return SW_OK;
}

static void on_sent(void *user, int to)
{
    struct node *n = user;
    change(n, &n->sent);
}

static void on_failed(void *user, int host, const struct sw_err *why)
{
    struct node *n = user;
    change(n, &n->failed);
}

static bool on_awaited(void *user)
{
    return false;
}

static void on_log(void *user, enum sw_log_level level, const char *source, const char *text)
{
    struct group *g = user;
    g->told++;
    snprintf(g->text, sizeof g->text, "%s", text);
}

/* Host 0 listens at the address. */
static void group_begin(struct group *g, int count, const char *address)
{
    static const char *const names[] = {"ada", "bob", "cyd", "dan"};
    struct sw_err err;
    uint16_t port = 0;
    int listener;
    memset(g, 0, sizeof *g);
    g->count = count;
    assert_non_null(g->log = sw_log_new());
    ASSERT_OK(sw_log_add_sink(g->log, SW_LOG_DEBUG, on_log, g, &err));
    ASSERT_OK(sw_tcp_listen(address, &port, &listener, &err));
    for (int i = 0; i < count; i++) {
        struct node *n = &g->node[i];
        g->host[i] = (struct sw_host){.name = i < 4 ? names[i] : "other", .address = address};
        n->hosts = (struct sw_hosts){.host = g->host, .count = count, .own = i};
        n->conf = (struct sw_tcp_conf){.listener = i == 0 ? listener : -1, .port = port};
        n->wire = (struct sw_fabric_wire){.hosts = &n->hosts,
                                          .key = key,
                                          .conf = &n->conf,
                                          .log = i == 0 ? g->log : NULL,
                                          .connect_ms = LONG_MS,
                                          .beat_ms = 500,
                                          .silence_ms = LONG_MS,
                                          .user = n,
                                          .begin = on_begin,
                                          .end = on_end,
                                          .sent = on_sent,
                                          .failed = on_failed,
                                          .awaited = on_awaited};
        sw_mutex_init(&n->lock);
        sw_cond_init(&n->changed);
        assert_non_null(n->room = malloc(SW_FABRIC_CHUNK));
    }
}

static void node_open(void *user)
{
    struct node *n = user;
    n->rc = sw_fabric_tcp.open(&n->wire, &n->link, &n->err);
}

static void node_start(struct node *n)
{
    struct sw_err err;
    ASSERT_OK(sw_thread_start(&n->thread, "host", node_open, n, &err));
}

static void node_close(struct node *n)
{
    if (n->link)
        sw_fabric_tcp.close(n->link);
    n->link = NULL;
}

static void group_start(struct group *g)
{
    for (int i = 0; i < g->count; i++)
        node_start(&g->node[i]);
}

static void group_join(struct group *g, int rc)
{
    for (int i = 0; i < g->count; i++) {
        sw_thread_join(&g->node[i].thread);
        if (g->node[i].rc != rc)
            print_error("%s\n", g->node[i].err.text);
        assert_int_equal(g->node[i].rc, rc);
    }
}

static void group_end(struct group *g)
{
    for (int i = 0; i < g->count; i++) {
        struct node *n = &g->node[i];
        node_close(n);
        free(n->room);
        sw_cond_fini(&n->changed);
        sw_mutex_fini(&n->lock);
    }
    sw_log_free(g->log);
}

/* Pushes a chunk, and again as long as there is no room. */
static void push_chunk(struct node *n, int to, const unsigned char *data)
{
    const struct sw_fabric_frame f = {.total = SW_FABRIC_CHUNK, .bytes = SW_FABRIC_CHUNK};
    int before, rc;
    do {
        before = value(n, &n->sent);
        rc = sw_fabric_tcp.push(n->link, to, &f, data);
        if (rc == SW_ERR_BUSY)
            await(n, &n->sent, before + 1);
    } while (rc == SW_ERR_BUSY);
    assert_int_equal(rc, SW_OK);
}

/* A chunk from each to each. */
static void group_talk(struct group *g)
{
    static unsigned char data[SW_FABRIC_CHUNK];
    for (int from = 0; from < g->count; from++)
        for (int to = 0; to < g->count; to++)
            if (to != from)
                push_chunk(&g->node[from], to, data);
    for (int i = 0; i < g->count; i++)
        await(&g->node[i], &g->node[i].ended, g->count - 1);
}

/* ---- Meeting ---- */

static void many_hosts_of_one_address_meet(void **state)
{
    struct group g;
    group_begin(&g, MOST, "127.0.0.1");
    group_start(&g);
    group_join(&g, SW_OK);
    group_talk(&g);
    group_end(&g);
}

static void hosts_meet_by_ipv6(void **state)
{
    struct group g;
    struct sw_err err;
    uint16_t port = 0;
    int fd;
    if (sw_tcp_listen("::1", &port, &fd, &err) != SW_OK) {
        print_message("skipped: %s\n", err.text);
        skip();
    }
    close(fd);
    group_begin(&g, 3, "::1");
    group_start(&g);
    group_join(&g, SW_OK);
    group_talk(&g);
    group_end(&g);
}

/* The first host comes last, and opens its port itself. */
static void hosts_that_come_early_wait(void **state)
{
    struct group g;
    group_begin(&g, 3, "127.0.0.1");
    close(g.node[0].conf.listener);
    g.node[0].conf.listener = -1;
    node_start(&g.node[1]);
    node_start(&g.node[2]);
    assert_false(sw_thread_join_timed(&g.node[1].thread, 300));
    node_start(&g.node[0]);
    group_join(&g, SW_OK);
    group_talk(&g);
    group_end(&g);
}

static void another_key_is_named(void **state)
{
    struct group g;
    if (!key)
        return;
    group_begin(&g, 2, "127.0.0.1");
    g.node[1].wire.key = wrong_key;
    g.node[0].wire.connect_ms = SHORT_MS;
    group_start(&g);
    group_join(&g, SW_ERR_NOTFOUND);
    assert_non_null(strstr(g.node[1].err.text, "host ada: it does not have the key of this job"));
    assert_non_null(strstr(g.node[0].err.text, "host bob did not come within 3 s; 1 other"));
    assert_non_null(strstr(g.node[0].err.text, "it does not have the key of this job"));
    assert_int_equal(g.told, 1);
    group_end(&g);
}

static void a_key_on_one_side_only_is_named(void **state)
{
    struct group g;
    if (!key)
        return;
    for (int without = 0; without < 2; without++) {
        group_begin(&g, 2, "127.0.0.1");
        g.node[without].wire.key = NULL;
        for (int i = 0; i < 2; i++)
            g.node[i].wire.connect_ms = SHORT_MS;
        group_start(&g);
        group_join(&g, SW_ERR_NOTFOUND);
        assert_non_null(strstr(g.node[0].err.text, "host bob did not come"));
        assert_non_null(strstr(g.node[1].err.text, "host ada"));
        group_end(&g);
    }
}

static void hosts_of_another_job_are_refused(void **state)
{
    struct group g;
    group_begin(&g, 3, "127.0.0.1");
    g.node[0].wire.connect_ms = SHORT_MS;
    g.node[1].hosts.count = 2;
    node_start(&g.node[1]);
    node_start(&g.node[0]);
    sw_thread_join(&g.node[1].thread);
    sw_thread_join(&g.node[0].thread);
    assert_int_equal(g.node[1].rc, SW_ERR_INVALID);
    assert_non_null(strstr(g.node[1].err.text, "3 hosts on host ada, and 2 on host bob"));
    assert_int_equal(g.node[0].rc, SW_ERR_NOTFOUND);
    group_end(&g);
}

/* Two processes believe that they are host 1: one of them is told, and the job goes on. */
static void a_number_is_taken_once(void **state)
{
    struct group g;
    group_begin(&g, 3, "127.0.0.1");
    struct node *twin = &g.node[2], *bob = &g.node[1];
    twin->hosts.own = 1;
    node_start(&g.node[0]);
    node_start(bob);
    node_start(twin);
    while (!sw_thread_join_timed(&twin->thread, 1) && !sw_thread_join_timed(&bob->thread, 1))
        ;
    struct node *refused = twin->thread.running ? bob : twin;
    assert_int_equal(refused->rc, SW_ERR_INVALID);
    assert_non_null(strstr(refused->err.text, "another process that is host 1, as bob is"));
    refused->hosts.own = 2;
    node_start(refused);
    group_join(&g, SW_OK);
    group_end(&g);
}

/* Nothing is sent unencrypted that should not be. */
static void a_build_without_tls_refuses_a_key(void **state)
{
    struct group g;
    if (sw_tcp_has_tls())
        return;
    group_begin(&g, 2, "127.0.0.1");
    for (int i = 0; i < 2; i++)
        g.node[i].wire.key = right_key;
    group_start(&g);
    group_join(&g, SW_ERR_UNSUPPORTED);
    assert_non_null(strstr(g.node[0].err.text, "libssl-dev"));
    group_end(&g);
}

/* Without a key nobody else can connect, unless the network is trusted. */
static void without_a_key_only_loopback_is_listened_on(void **state)
{
    struct group g;
    for (int trusted = 0; trusted < 2; trusted++) {
        group_begin(&g, 2, "127.0.0.1");
        close(g.node[0].conf.listener);
        g.node[0].conf.listener = -1;
        g.node[0].conf.trusted = trusted;
        g.node[0].wire.key = NULL;
        g.host[0].address = "192.0.2.1"; /* of no machine: RFC 5737 */
        node_start(&g.node[0]);
        sw_thread_join(&g.node[0].thread);
        assert_int_equal(g.node[0].rc, trusted ? SW_ERR_IO : SW_ERR_INVALID);
        assert_non_null(strstr(g.node[0].err.text, trusted ? "cannot listen at 192.0.2.1"
                                                           : "without a key host ada does not"));
        group_end(&g);
    }
}

static void a_stop_ends_the_wait(void **state)
{
    struct group g;
    group_begin(&g, 2, "127.0.0.1");
    node_start(&g.node[0]);
    assert_false(sw_thread_join_timed(&g.node[0].thread, 50));
    sw_stop_request(0);
    sw_thread_join(&g.node[0].thread);
    sw_stop_reset();
    assert_int_equal(g.node[0].rc, SW_ERR_CANCELLED);
    group_end(&g);
}

/* A host that ends before all have come is missing again, and may come again. */
static void a_host_may_come_again(void **state)
{
    struct group g;
    group_begin(&g, 3, "127.0.0.1");
    g.node[1].wire.connect_ms = SHORT_MS;
    node_start(&g.node[0]);
    node_start(&g.node[1]);
    sw_thread_join(&g.node[1].thread);
    assert_int_equal(g.node[1].rc, SW_ERR_NOTFOUND);
    assert_non_null(strstr(g.node[1].err.text, "host cyd did not come within 3 s"));
    g.node[1].wire.connect_ms = LONG_MS;
    node_start(&g.node[1]);
    node_start(&g.node[2]);
    group_join(&g, SW_OK);
    group_talk(&g);
    group_end(&g);
}

/* ---- Strangers ---- */

/* A connection to host 0 from an address of the loopback network; -1: refused at once. */
static int stranger(const struct group *g, int address)
{
    const struct sockaddr_in from = {.sin_family = AF_INET,
                                     .sin_addr.s_addr = htonl(0x7f000000u + (unsigned)address)};
    const struct sockaddr_in to = {.sin_family = AF_INET,
                                   .sin_port = htons(g->node[0].conf.port),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&from, sizeof from), 0);
    if (connect(fd, (const struct sockaddr *)&to, sizeof to) == 0)
        return fd;
    close(fd);
    return -1;
}

/* Waits until host 0 has closed the connection. */
static void await_close(int fd)
{
    char bytes[256];
    while (recv(fd, bytes, sizeof bytes, 0) > 0)
        ;
    close(fd);
}

static void send_noise(int fd, size_t bytes)
{
    unsigned char noise[1024];
    uint32_t x = 1;
    for (; bytes > 0; bytes -= bytes < sizeof noise ? bytes : sizeof noise) {
        for (size_t i = 0; i < sizeof noise; i++)
            noise[i] = (unsigned char)((x = x * 1664525 + 1013904223) >> 24);
        if (send(fd, noise, bytes < sizeof noise ? bytes : sizeof noise, MSG_NOSIGNAL) < 0)
            return;
    }
}

/* What follows a hello that is right but for one thing, without a key. */
static void send_note(int fd, int kind, int host, uint64_t value)
{
    unsigned char bytes[SW_TCP_NOTE_BYTES];
    sw_tcp_note_write(&(struct sw_tcp_note){(enum sw_tcp_note_kind)kind, host, value}, bytes);
    assert_int_equal(send(fd, bytes, sizeof bytes, MSG_NOSIGNAL), sizeof bytes);
}

static void strangers_are_turned_away(void **state)
{
    static const struct {
        int kind, host;
        uint64_t value;
    } notes[] = {
        {SW_TCP_HELLO, 0, 2 | 99 << 16}, /* host 0 itself */
        {SW_TCP_HELLO, 2, 2 | 99 << 16}, /* no such host */
        {SW_TCP_HELLO, 1, 2},            /* no port */
        {SW_TCP_HELLO, 1, 1 | 99 << 16},
        {SW_TCP_HELLO, 1, 3 | 99 << 16},
        {SW_TCP_HELLO, 500, 2 | 99 << 16},
        {SW_TCP_HELLO, 1, ~(uint64_t)0},
        {SW_TCP_WELCOME, 1, 0},
        {SW_TCP_TABLE, 1, 0},
        {0, 1, 2 | 99 << 16},
        {77, 1, 2 | 99 << 16},
    };
    enum { NOTES = sizeof notes / sizeof *notes, NOISY = 8 };
    struct group g;
    group_begin(&g, 2, "127.0.0.1");
    node_start(&g.node[0]);
    for (int i = 0; i < NOISY; i++) {
        int fd = stranger(&g, 2);
        assert_true(fd >= 0);
        send_noise(fd, (size_t)16 << i);
        if (i % 2)
            shutdown(fd, SHUT_WR);
        await_close(fd);
    }
    for (int i = 0; i < NOTES; i++) {
        int fd = stranger(&g, 3);
        assert_true(fd >= 0);
        send_note(fd, notes[i].kind, notes[i].host, notes[i].value);
        await_close(fd);
    }
    node_start(&g.node[1]);
    group_join(&g, SW_OK);
    group_talk(&g);
    assert_int_equal(g.told, 1);
    assert_non_null(strstr(g.text, "19 connections were refused"));
    group_end(&g);
}

/* Those who connect and say nothing take all places, of which there are few per address; their time
 * is soon over. */
static void silent_strangers_do_not_keep_hosts_out(void **state)
{
    enum { STRANGERS = 100 };
    struct group g;
    int fd[STRANGERS];
    group_begin(&g, 2, "127.0.0.1");
    for (int i = 0; i < STRANGERS; i++)
        fd[i] = stranger(&g, 1 + i / 8); /* the first of them have the hosts' own address */
    group_start(&g);
    group_join(&g, SW_OK);
    group_talk(&g);
    assert_int_equal(g.told, 1);
    for (int i = 0; i < STRANGERS; i++)
        if (fd[i] >= 0)
            await_close(fd[i]);
    group_end(&g);
}

/* A job that runs has no open port. */
static void nobody_listens_afterwards(void **state)
{
    struct group g;
    group_begin(&g, 2, "127.0.0.1");
    group_start(&g);
    group_join(&g, SW_OK);
    assert_int_equal(stranger(&g, 1), -1);
    group_end(&g);
}

/* ---- Connections ---- */

static void keys_of_long_connections_are_renewed(void **state)
{
    enum { CHUNKS = 600 }; /* 150 MiB */
    struct group g;
    unsigned char *data = calloc(1, SW_FABRIC_CHUNK);
    assert_non_null(data);
    group_begin(&g, 2, "127.0.0.1");
    group_start(&g);
    group_join(&g, SW_OK);
    for (int i = 0; i < CHUNKS; i++) {
        await(&g.node[0], &g.node[0].sent, i);
        data[0] = (unsigned char)i;
        push_chunk(&g.node[0], 1, data);
    }
    await(&g.node[1], &g.node[1].ended, CHUNKS);
    assert_int_equal(g.node[1].room[0], (CHUNKS - 1) % 256);
    for (int i = 0; i < 2; i++)
        assert_int_equal(value(&g.node[i], &g.node[i].failed), 0);
    group_end(&g);
    free(data);
}

/* Pushes until the system takes no more, as the other side does not read. */
static void fill(struct node *n, const unsigned char *data)
{
    const struct sw_fabric_frame f = {.total = SW_FABRIC_CHUNK, .bytes = SW_FABRIC_CHUNK};
    int before, after = 0;
    do {
        before = after;
        while (sw_fabric_tcp.push(n->link, 1, &f, data) == SW_OK)
            ;
        sw_thread_nap(100000000);
        after = value(n, &n->sent);
    } while (after > before);
}

/* Who blocks in a write (host 0) and in a read (host 0, too) is woken. */
static void drop_and_close_end_what_blocks(void **state)
{
    static const unsigned char data[SW_FABRIC_CHUNK];
    for (int drops = 0; drops < 2; drops++) {
        struct group g;
        const struct sw_fabric_frame f = {0};
        group_begin(&g, 2, "127.0.0.1");
        g.node[1].blocks = true;
        group_start(&g);
        group_join(&g, SW_OK);
        fill(&g.node[0], data);
        assert_int_equal(value(&g.node[1], &g.node[1].begun), 1);
        if (drops) {
            sw_fabric_tcp.drop(g.node[0].link, 1);
            int sent = value(&g.node[0], &g.node[0].sent);
            assert_int_equal(sw_fabric_tcp.push(g.node[0].link, 1, &f, NULL), SW_ERR_LOST);
            assert_int_equal(value(&g.node[0], &g.node[0].sent), sent);
        }
        node_close(&g.node[0]);
        assert_int_equal(g.node[0].failed, 0);
        sw_mutex_lock(&g.node[1].lock);
        g.node[1].blocks = false;
        sw_cond_broadcast(&g.node[1].changed);
        sw_mutex_unlock(&g.node[1].lock);
        await(&g.node[1], &g.node[1].failed, 1);
        group_end(&g);
    }
}

/* What was sent before the end arrives before the end is told, also where the other side writes. */
static void last_words_arrive(void **state)
{
    static const unsigned char data[SW_FABRIC_CHUNK];
    for (int round = 0; round < 20; round++) {
        const struct sw_fabric_frame f = {.total = SW_FABRIC_CHUNK, .bytes = SW_FABRIC_CHUNK};
        struct group g;
        group_begin(&g, 2, "127.0.0.1");
        group_start(&g);
        group_join(&g, SW_OK);
        push_chunk(&g.node[0], 1, data);
        await(&g.node[0], &g.node[0].sent, 1);
        assert_int_equal(sw_fabric_tcp.push(g.node[1].link, 0, &f, data), SW_OK);
        node_close(&g.node[0]);
        while (sw_fabric_tcp.push(g.node[1].link, 0, &f, data) != SW_ERR_LOST)
            sw_thread_yield();
        await(&g.node[1], &g.node[1].failed, 1);
        assert_int_equal(value(&g.node[1], &g.node[1].ended), 1);
        assert_int_equal(value(&g.node[1], &g.node[1].failed), 1);
        group_end(&g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_hosts_of_one_address_meet),
        cmocka_unit_test(hosts_meet_by_ipv6),
        cmocka_unit_test(hosts_that_come_early_wait),
        cmocka_unit_test(another_key_is_named),
        cmocka_unit_test(a_key_on_one_side_only_is_named),
        cmocka_unit_test(hosts_of_another_job_are_refused),
        cmocka_unit_test(a_number_is_taken_once),
        cmocka_unit_test(a_build_without_tls_refuses_a_key),
        cmocka_unit_test(without_a_key_only_loopback_is_listened_on),
        cmocka_unit_test(a_stop_ends_the_wait),
        cmocka_unit_test(a_host_may_come_again),
        cmocka_unit_test(strangers_are_turned_away),
        cmocka_unit_test(silent_strangers_do_not_keep_hosts_out),
        cmocka_unit_test(nobody_listens_afterwards),
        cmocka_unit_test(keys_of_long_connections_are_renewed),
        cmocka_unit_test(drop_and_close_end_what_blocks),
        cmocka_unit_test(last_words_arrive),
    };
    int failed = cmocka_run_group_tests_name("not encrypted", tests, NULL, NULL);
    if (!sw_tcp_has_tls()) {
        print_message("TLS: skipped, this program was built without OpenSSL\n");
        return failed;
    }
    key = right_key;
    return failed + cmocka_run_group_tests_name("TLS 1.3", tests, NULL, NULL);
}
