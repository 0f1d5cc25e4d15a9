/* The life of a fabric. It opens in three steps: the engine connects all hosts; each says hello to
 * each and compares what it hears; and who agrees with all says that it is ready. A host that
 * cannot begin tells the others why, so that all name the same cause.
 *
 * The thread of the beats computes nothing and waits for nothing but its time, so that a busy
 * process is not taken for a dead one; it also lets chunks go whose time has come (pace.c). With a
 * clock of its own the engine calls the tick and the pace instead.
 */
#include "exchange/hosts/fabric_private.h"

#include "base/str.h"
#include "exchange/hosts/hello.h"

enum { PROTOCOL = 1, DEFAULT_ROOM = 1024, FAREWELL_MS = 2000 };

/* ---- Waits ---- */

static int64_t deadline_in(const struct sw_fabric *f, int ms)
{
    return sw_fabric_now(f) + (int64_t)ms * 1000000;
}

/* Sleeps until something changes; with the lock. False when the time is over. */
static bool sleep_until(struct sw_fabric *f, int64_t deadline_ns)
{
    int64_t left_ns = deadline_ns - sw_fabric_now(f);

    if (left_ns <= 0)
        return false;

    if (f->args.clock)
        sw_cond_wait(&f->changed, &f->lock); /* each tick wakes it */
    else
        sw_cond_wait_ms(&f->changed, &f->lock, (int)((left_ns + 999999) / 1000000));
    return true;
}

/* As sleep_until, and false when the fabric is closed. */
static bool wait_until(struct sw_fabric *f, int64_t deadline_ns)
{
    return !f->closed && sleep_until(f, deadline_ns);
}

/* Does a host other than the own one lack something? Returns the first that does, or -1. With the
 * lock. */
static int first_host(const struct sw_fabric *f,
                      bool (*lacks)(const struct sw_fabric *f, const struct sw_peer *p))
{
    for (int i = 0; i < f->count; i++)
        if (i != f->own && lacks(f, &f->peers[i]))
            return i;
    return -1;
}

static bool is_not_ready(const struct sw_fabric *f, const struct sw_peer *p)
{
    return !p->ready || !p->agreed;
}

static bool has_messages(const struct sw_fabric *f, const struct sw_peer *p)
{
    return !p->lost && p->free_count < f->args.room;
}

static bool stays(const struct sw_fabric *f, const struct sw_peer *p)
{
    const struct sw_control_slot *slot = &p->control[SW_CONTROL_LEAVE];

    return !p->lost && (!p->left || slot->wanted || slot->pushed);
}

static bool awaits_abort(const struct sw_fabric *f, const struct sw_peer *p)
{
    const struct sw_control_slot *hello = &p->control[SW_CONTROL_HELLO];
    const struct sw_control_slot *slot = &p->control[SW_CONTROL_ABORT];

    return !p->lost && (hello->wanted || hello->pushed || slot->wanted || slot->pushed);
}

/* ---- Memory ---- */

static int make_peer(struct sw_fabric *f, struct sw_peer *p, struct sw_err *err)
{
    size_t room = (size_t)f->args.room;

    p->out = sw_calloc(room, sizeof *p->out);
    p->free_list = sw_calloc(room, sizeof *p->free_list);
    p->heap = sw_calloc(room, sizeof *p->heap);
    p->control_in = sw_calloc(1, SW_FABRIC_HELLO_BYTES);
    if (!p->out || !p->free_list || !p->heap || !p->control_in)
        return sw_err_nomem(err, "messages to another host", room * sizeof *p->out);

    for (int i = 0; i < f->args.room; i++)
        p->free_list[p->free_count++] = i;

    /* From the beginning, because whatever the host sends first, it must come after the hello. */
    p->control[SW_CONTROL_HELLO].wanted = true;
    return SW_OK;
}

static int make_peers(struct sw_fabric *f, struct sw_err *err)
{
    f->peers = sw_calloc((size_t)f->count, sizeof *f->peers);
    if (!f->peers)
        return sw_err_nomem(err, "the connections of hosts", (size_t)f->count * sizeof *f->peers);

    for (int i = 0; i < f->count; i++) {
        int rc = i == f->own ? SW_OK : make_peer(f, &f->peers[i], err);
        if (rc != SW_OK)
            return rc;
    }

    return SW_OK;
}

/* The fields that the fabric itself adds come first. */
static int make_hello(struct sw_fabric *f, struct sw_err *err)
{
    const uint16_t one = 1;
    unsigned char low;
    struct sw_bytes text = {0};

    memcpy(&low, &one, 1);
    sw_bytes_printf(&text, "protocol=%d\nbyte_order=%s\nhosts=%d\n", PROTOCOL,
                    low ? "little" : "big", f->count);
    sw_bytes_append(&text, f->args.hello, f->args.hello_bytes);
    f->hello_bytes = text.length;
    f->hello = sw_bytes_take(&text);

    return f->hello ? SW_OK : sw_err_nomem(err, "what hosts must agree on", f->args.hello_bytes);
}

static int check_args(const struct sw_fabric_engine *e, const struct sw_fabric_args *a,
                      struct sw_err *err)
{
    const struct sw_hosts *h = a->hosts;

    if (e->abi != SW_FABRIC_ABI)
        return sw_err_set(err, SW_ERR_INVALID,
                          "the engine between hosts has interface %u, but %d is needed", e->abi,
                          SW_FABRIC_ABI);
    if (h->count < 2 || h->count > SW_MOST_HOSTS || h->own < 0 || h->own >= h->count)
        return sw_err_set(err, SW_ERR_INVALID, "host %d of %d; 2 to %d hosts are possible", h->own,
                          h->count, SW_MOST_HOSTS);
    if (a->hello_bytes > SW_FABRIC_HELLO_BYTES - 256 ||
        !sw_hello_is_valid(a->hello, a->hello_bytes))
        return sw_err_set(
            err, SW_ERR_INVALID,
            "what hosts must agree on is not lines \"field=value\" of at most %d bytes",
            SW_FABRIC_HELLO_BYTES - 256);

    return SW_OK;
}

static void free_all(struct sw_fabric *f)
{
    for (int i = 0; i < f->count && f->peers; i++) {
        sw_free(f->peers[i].out);
        sw_free(f->peers[i].free_list);
        sw_free(f->peers[i].heap);
        sw_free(f->peers[i].control_in);
    }

    sw_free(f->peers);
    sw_free(f->hello);
    sw_cond_fini(&f->changed);
    sw_cond_fini(&f->stop);
    sw_mutex_fini(&f->lock);
    sw_free(f);
}

/* ---- Wire ---- */

static void failed(void *fabric, int host, const struct sw_err *why)
{
    struct sw_err lost = *why;

    lost.code = SW_ERR_LOST;
    sw_fabric_lose(fabric, host, &lost);
}

static bool awaited(void *fabric)
{
    struct sw_fabric *f = fabric;

    return __atomic_load_n(&f->awaited, __ATOMIC_RELAXED) > 0;
}

static int64_t paced_ns(void *fabric)
{
    return sw_fabric_paced_ns(fabric);
}

static void set_defaults(struct sw_fabric *f)
{
    struct sw_fabric_args *a = &f->args;

    a->connect_ms = a->connect_ms ? a->connect_ms : 30000;
    a->beat_ms = a->beat_ms ? a->beat_ms : 500;
    a->silence_ms = a->silence_ms ? a->silence_ms : 4000;
    a->room = a->room ? a->room : DEFAULT_ROOM;

    f->wire = (struct sw_fabric_wire){.hosts = a->hosts,
                                      .key = a->key,
                                      .conf = a->conf,
                                      .log = a->log,
                                      .connect_ms = a->connect_ms,
                                      .beat_ms = a->beat_ms,
                                      .silence_ms = a->silence_ms,
                                      .user = f,
                                      .begin = sw_fabric_begin,
                                      .end = sw_fabric_end,
                                      .sent = sw_fabric_sent,
                                      .failed = failed,
                                      .tick = sw_fabric_tick,
                                      .awaited = awaited,
                                      .paced_ns = paced_ns,
                                      .pace = sw_fabric_pace};
    f->bucket.bytes_per_s = a->bytes_per_s;
    f->paced_ns = INT64_MAX;
}

/* ---- The thread of the beats ---- */

static void beats_main(void *fabric)
{
    struct sw_fabric *f = fabric;

    sw_mutex_lock(&f->lock);

    for (int64_t beat_ns = deadline_in(f, f->args.beat_ms); !f->closed;) {
        int64_t paced = sw_fabric_paced_ns(f), now_ns = sw_fabric_now(f);
        int64_t next_ns = paced < beat_ns ? paced : beat_ns;

        if (next_ns > now_ns) {
            sw_cond_wait_ms(&f->stop, &f->lock, (int)((next_ns - now_ns + 999999) / 1000000));
            continue;
        }

        sw_mutex_unlock(&f->lock);
        if (paced <= now_ns)
            sw_fabric_pace(f);
        if (beat_ns <= now_ns) {
            sw_fabric_tick(f);
            beat_ns = deadline_in(f, f->args.beat_ms);
        }
        sw_mutex_lock(&f->lock);
    }

    sw_mutex_unlock(&f->lock);
}

/* ---- Life ---- */

/* Says hello to all hosts, and waits until all are ready. */
static int greet(struct sw_fabric *f, int64_t deadline_ns, struct sw_err *err)
{
    int rc = SW_OK, late;

    sw_mutex_lock(&f->lock);

    for (int i = 0; i < f->count; i++)
        if (i != f->own)
            sw_fabric_pump(f, i);

    while ((late = first_host(f, is_not_ready)) >= 0 && f->failure.code == SW_OK &&
           wait_until(f, deadline_ns))
        ;

    if (f->failure.code != SW_OK) {
        *err = f->failure;
        rc = err->code;
    } else if (late >= 0) {
        rc = sw_err_set(err, SW_ERR_NOTFOUND, "host %s was not ready within %g s",
                        sw_fabric_name(f, late), f->args.connect_ms / 1e3);
    } else {
        f->opened = true;
        f->ticked_ns = sw_fabric_now(f);
        for (int i = 0; i < f->count; i++)
            f->peers[i].heard_ns = f->ticked_ns;
    }

    sw_mutex_unlock(&f->lock);
    return rc;
}

static int connect_hosts(struct sw_fabric *f, struct sw_err *err)
{
    int64_t deadline_ns = deadline_in(f, f->args.connect_ms);
    void *link;

    f->ticked_ns = sw_fabric_now(f);

    int rc = f->engine->open(&f->wire, &link, err);
    if (rc != SW_OK)
        return rc;

    sw_mutex_lock(&f->lock);
    f->link = link;
    sw_mutex_unlock(&f->lock);

    if (!f->args.clock) {
        rc = sw_thread_start(&f->beats, "beats", beats_main, f, err);
        if (rc != SW_OK)
            return rc;
    }

    return greet(f, deadline_ns, err);
}

int sw_fabric_open(const struct sw_fabric_engine *e, const struct sw_fabric_args *args,
                   struct sw_fabric **out, struct sw_err *err)
{
    struct sw_err why;
    int rc = check_args(e, args, err);
    if (rc != SW_OK)
        return rc;

    struct sw_fabric *f = sw_calloc(1, sizeof *f);
    if (!f)
        return sw_err_nomem(err, "the connections of hosts", sizeof *f);

    f->engine = e;
    f->args = *args;
    f->own = args->hosts->own;
    f->count = args->hosts->count;
    set_defaults(f);
    sw_mutex_init(&f->lock);
    sw_cond_init(&f->changed);
    sw_cond_init(&f->stop);

    rc = make_peers(f, &why);
    if (rc != SW_OK)
        goto out;
    rc = make_hello(f, &why);
    if (rc != SW_OK)
        goto out;
    rc = connect_hosts(f, &why);
    if (rc != SW_OK)
        goto out;

    *out = f;
    return SW_OK;

out:
    if (f->link)
        sw_fabric_abort(f, &why, FAREWELL_MS);
    sw_fabric_free(f);
    return sw_err_set(err, rc, "%s", why.text);
}

void sw_fabric_close_v(void *fabric)
{
    struct sw_fabric *f = fabric;

    sw_mutex_lock(&f->lock);
    f->closed = true;
    sw_cond_broadcast(&f->changed);
    sw_cond_broadcast(&f->stop);
    sw_mutex_unlock(&f->lock);
}

void sw_fabric_free(struct sw_fabric *f)
{
    if (!f)
        return;

    sw_fabric_close_v(f);
    sw_thread_join(&f->beats);
    if (f->link)
        f->engine->close(f->link);

    sw_mutex_lock(&f->lock);
    for (int i = 0; i < f->count && f->peers; i++)
        if (f->peers[i].out)
            sw_fabric_cancel(f, i);
    sw_mutex_unlock(&f->lock);

    free_all(f);
}

/* With the lock: the last things that are said to all hosts. */
static void say_to_all(struct sw_fabric *f, enum sw_control_kind kind, uint64_t version)
{
    for (int i = 0; i < f->count; i++)
        if (i != f->own)
            sw_fabric_want(f, i, kind, kind == SW_CONTROL_LEAVE ? f->peers[i].numbers : version);
}

int sw_fabric_leave(struct sw_fabric *f, int timeout_ms, struct sw_err *err)
{
    int64_t deadline_ns = deadline_in(f, timeout_ms);
    int late, rc = SW_OK;

    sw_mutex_lock(&f->lock);
    f->leaving = true;

    while ((late = first_host(f, has_messages)) >= 0 && wait_until(f, deadline_ns))
        ;

    if (late < 0) {
        say_to_all(f, SW_CONTROL_LEAVE, 0);
        while ((late = first_host(f, stays)) >= 0 && wait_until(f, deadline_ns))
            ;
    }

    if (late >= 0 && f->closed)
        rc = sw_err_set(err, SW_ERR_CANCELLED, "the job is ending");
    else if (late >= 0)
        rc = sw_err_set(err, SW_ERR_LOST, "host %s did not end within %g s",
                        sw_fabric_name(f, late), timeout_ms / 1e3);

    sw_mutex_unlock(&f->lock);
    return rc;
}

void sw_fabric_abort(struct sw_fabric *f, const struct sw_err *why, int timeout_ms)
{
    int64_t deadline_ns = deadline_in(f, timeout_ms);

    sw_mutex_lock(&f->lock);

    if (!f->aborting) {
        f->aborting = f->leaving = true;
        f->abort = *why;
        say_to_all(f, SW_CONTROL_ABORT, (uint64_t)-why->code);
    }

    while (first_host(f, awaits_abort) >= 0 && sleep_until(f, deadline_ns))
        ;

    sw_mutex_unlock(&f->lock);
}

/* ---- Messages ---- */

/* With the lock. */
static int check_send(const struct sw_fabric *f, int to, const struct sw_fabric_tag *tag,
                      uint64_t bytes, struct sw_err *err)
{
    if (to < 0 || to >= f->count || to == f->own || tag->kind >= SW_FABRIC_KINDS ||
        bytes > SW_FABRIC_MOST_BYTES)
        return sw_err_set(err, SW_ERR_INVALID,
                          "a message of kind %d and %llu bytes cannot go from host %d to host %d",
                          tag->kind, (unsigned long long)bytes, f->own, to);

    /* In a job that ends, hosts that go are not the cause. */
    if (f->closed || f->leaving)
        return sw_err_set(err, SW_ERR_CANCELLED, "the job is ending");
    if (f->peers[to].lost && f->peers[to].left)
        return sw_err_set(err, SW_ERR_CANCELLED, "host %s has left", sw_fabric_name(f, to));
    if (f->peers[to].lost)
        return sw_err_set(err, SW_ERR_LOST, "%s", f->peers[to].why.text);

    return SW_OK;
}

int sw_fabric_send(struct sw_fabric *f, int to, const struct sw_fabric_tag *tag, const void *data,
                   size_t bytes, void (*done)(void *user, int rc), void *user, struct sw_err *err)
{
    const struct sw_outgoing m = {
        .tag = *tag, .data = data, .bytes = bytes, .done = done, .user = user};

    sw_mutex_lock(&f->lock);

    int rc = check_send(f, to, tag, bytes, err);
    if (rc == SW_OK && sw_fabric_queue(f, to, &m) != SW_OK)
        rc = sw_err_set(err, SW_ERR_BUSY, "more than %d messages to host %s are under way",
                        f->args.room, sw_fabric_name(f, to));

    sw_mutex_unlock(&f->lock);
    return rc;
}

void sw_fabric_await(struct sw_fabric *f, int change)
{
    __atomic_add_fetch(&f->awaited, change, __ATOMIC_RELAXED);
}

/* ---- Questions ---- */

uint64_t sw_fabric_alive(const struct sw_fabric *f)
{
    uint64_t alive = (uint64_t)1 << f->own;

    sw_mutex_lock(sw_fabric_lock(f));
    for (int i = 0; i < f->count; i++)
        if (f->peers[i].agreed && !f->peers[i].leaving && !f->peers[i].lost)
            alive |= (uint64_t)1 << i;
    sw_mutex_unlock(sw_fabric_lock(f));

    return alive;
}

struct sw_traffic sw_fabric_traffic(const struct sw_fabric *f, int host, int kind)
{
    struct sw_traffic sum = {0};

    sw_mutex_lock(sw_fabric_lock(f));

    for (int k = 0; k < SW_FABRIC_KINDS; k++) {
        const struct sw_traffic *t = &f->peers[host].traffic[k];
        if (kind >= 0 && kind != k)
            continue;

        sum.sent_messages += t->sent_messages;
        sum.sent_bytes += t->sent_bytes;
        sum.received_messages += t->received_messages;
        sum.received_bytes += t->received_bytes;
    }

    sw_mutex_unlock(sw_fabric_lock(f));
    return sum;
}
