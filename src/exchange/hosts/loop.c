/* The network of engine `loop`: one thread delivers the chunks of all hosts in the order of their
 * virtual times of arrival, tells senders that there is room, calls the ticks of the fabrics, and
 * reports broken connections. Under the lock it only chooses what to do; fabrics are called and
 * chunks are copied without it. While it does that, `busy` names the two hosts that are concerned,
 * and who drops a connection or closes a host waits until it is done, unless it is this thread
 * itself. */
#include "exchange/hosts/loop.h"

#include "base/os.h"
#include "thread/tasks.h"
#include "thread/thread.h"
#include <stdio.h>
#include <string.h>

enum { MOST_WINDOW = 4 };

/* A chunk on its way. */
struct chunk {
    struct sw_fabric_frame frame;
    const void *data; /* borrowed from the sender's fabric */
    int64_t due_ns;
    uint64_t number;
    bool delivered;
};

/* The direction from one host to another. */
struct path {
    struct chunk chunk[MOST_WINDOW]; /* [count], in the order of pushing */
    int count;
    bool broken; /* nothing is delivered any more */
    bool tells;  /* the receiver must be told that it is broken */
};

struct sw_loop_end {
    struct sw_loop *loop;
    int host;
    struct sw_fabric_clock clock;
    const struct sw_fabric_wire *up; /* NULL: not open */
    bool came;
    enum sw_loop_state state;
    int64_t chunks, tick_ns; /* tick_ns: when its next tick is due */
};

struct sw_loop {
    struct sw_loop_conf conf;
    struct sw_mutex lock; /* guards all below */
    struct sw_cond changed;
    struct sw_thread thread;
    struct sw_loop_end *end;   /* owned [hosts] */
    struct path *path;         /* owned [from][to] */
    int64_t now_ns, target_ns; /* target_ns: how far the clock may move without a chunk */
    uint64_t random, numbers;
    int busy[2]; /* the hosts whose fabric or memory is in use; -1: none */
    int task;    /* the thread's, as sw_task_self tells it */
    bool stop;
};

static const int64_t epoch_ns = 1700000000000000000;

static struct path *path_of(struct sw_loop *l, int from, int to)
{
    return &l->path[from * l->conf.hosts + to];
}

/* splitmix64 (Steele, Lea and Flood, OOPSLA 2014). */
static uint64_t draw(struct sw_loop *l)
{
    uint64_t z = l->random += 0x9e3779b97f4a7c15u;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* ---- Clocks ---- */

static int64_t monotonic_ns(void *end)
{
    const struct sw_loop_end *e = end;

    sw_mutex_lock(&e->loop->lock);
    int64_t now_ns = e->loop->now_ns;
    sw_mutex_unlock(&e->loop->lock);

    return now_ns;
}

static int64_t wall_ns(void *end)
{
    const struct sw_loop_end *e = end;
    const int64_t *skew_ns = e->loop->conf.skew_ns;

    return epoch_ns + monotonic_ns(end) + (skew_ns ? skew_ns[e->host] : 0);
}

/* ---- What the thread does; all with the lock, which they release for calls ---- */

/* Until end_call the fabric of the host stays open; what the caller needs of its end was read
 * before. */
static void begin_call(struct sw_loop *l, int host, int other)
{
    l->busy[0] = host;
    l->busy[1] = other;
    sw_mutex_unlock(&l->lock);
}

static void end_call(struct sw_loop *l)
{
    sw_mutex_lock(&l->lock);
    l->busy[0] = l->busy[1] = -1;
    sw_cond_broadcast(&l->changed);
}

static bool is_busy(const struct sw_loop *l, int host)
{
    return l->busy[0] == host || l->busy[1] == host;
}

/* Breaks a path; the receiver is told if it must be. Chunks on it are lost. */
static void break_path(struct sw_loop *l, int from, int to, bool tells)
{
    struct path *p = path_of(l, from, to);

    if (!p->broken)
        p->tells = tells;
    p->broken = true;
    p->count = 0;
    sw_cond_broadcast(&l->changed);
}

static void kill_host(struct sw_loop *l, int host)
{
    for (int i = 0; i < l->conf.hosts; i++)
        if (i != host) {
            break_path(l, host, i, true);
            break_path(l, i, host, true);
        }
}

static bool can_move(const struct sw_loop *l, int from, int to)
{
    return l->end[to].up && l->end[from].state == SW_LOOP_RUNS && l->end[to].state == SW_LOOP_RUNS;
}

/* The path whose chunk arrives next, or NULL; *at: the chunk's place on it. */
static struct path *next_chunk(struct sw_loop *l, int *from, int *to, int *at)
{
    const struct chunk *best = NULL;
    struct path *found = NULL;

    for (int i = 0; i < l->conf.hosts * l->conf.hosts; i++) {
        struct path *p = &l->path[i];
        if (p->count == 0 || !can_move(l, i / l->conf.hosts, i % l->conf.hosts))
            continue;

        for (int k = 0; k < p->count; k++) {
            const struct chunk *c = &p->chunk[k];
            if (c->delivered)
                continue;
            if (best && (c->due_ns > best->due_ns ||
                         (c->due_ns == best->due_ns && c->number > best->number)))
                continue;

            best = c;
            found = p;
            *from = i / l->conf.hosts;
            *to = i % l->conf.hosts;
            *at = k;
        }
    }

    return found;
}

/* Without the lock: hands a chunk to the receiver. With `dies`, the connection breaks in the middle
 * of it. */
static void hand_over(const struct sw_fabric_wire *up, int from, const struct chunk *c, bool dies)
{
    unsigned char head[SW_FRAME_HEAD];
    void *to = NULL;
    size_t bytes = 0;

    sw_frame_write(&c->frame, head);
    if (up->begin(up->user, from, head, &to, &bytes) != SW_OK)
        return;

    if (bytes > 0)
        memcpy(to, c->data, dies ? bytes / 2 : bytes);
    /* An error means that the fabric has dropped the connection: there is nothing left to do. */
    if (!dies && up->end(up->user, from) != SW_OK)
        return;
}

/* Tells the sender that its oldest chunks are out, as far as they are delivered. */
static void tell_sent(struct sw_loop *l, int from, int to)
{
    struct path *p = path_of(l, from, to);
    const struct sw_fabric_wire *up;

    while (p->count > 0 && p->chunk[0].delivered && (up = l->end[from].up)) {
        memmove(&p->chunk[0], &p->chunk[1], (size_t)--p->count * sizeof p->chunk[0]);
        begin_call(l, from, to);
        up->sent(up->user, to);
        end_call(l);
    }
}

static void deliver(struct sw_loop *l, int from, int to, int at)
{
    struct path *p = path_of(l, from, to);
    const struct chunk c = p->chunk[at];
    const struct sw_loop_conf *conf = &l->conf;
    const struct sw_fabric_wire *up = l->end[to].up;

    l->now_ns = c.due_ns > l->now_ns ? c.due_ns : l->now_ns;
    l->end[from].chunks++;
    l->end[to].chunks++;

    bool dies = conf->kill_chunk > 0 && (from == conf->kill_host || to == conf->kill_host) &&
                l->end[conf->kill_host].chunks == conf->kill_chunk;

    begin_call(l, to, from);
    hand_over(up, from, &c, dies);
    end_call(l);

    if (dies) {
        kill_host(l, conf->kill_host);
        return;
    }
    if (p->broken)
        return;

    p->chunk[at].delivered = true;
    tell_sent(l, from, to);
}

/* Calls the tick of a host if it is due. Returns whether it did. */
static bool tick_one(struct sw_loop *l)
{
    for (int i = 0; i < l->conf.hosts; i++) {
        struct sw_loop_end *e = &l->end[i];
        if (!e->up || e->state == SW_LOOP_STOPPED || l->now_ns < e->tick_ns)
            continue;

        e->tick_ns = l->now_ns + (int64_t)e->up->beat_ms * 1000000;
        const struct sw_fabric_wire *up = e->up;
        begin_call(l, i, -1);
        up->tick(up->user);
        end_call(l);
        return true;
    }

    return false;
}

/* Lets a host send chunks whose time has come. Returns whether it did. */
static bool pace_one(struct sw_loop *l)
{
    for (int i = 0; i < l->conf.hosts; i++) {
        struct sw_loop_end *e = &l->end[i];
        if (!e->up || e->state == SW_LOOP_STOPPED || l->now_ns < e->up->paced_ns(e->up->user))
            continue;

        const struct sw_fabric_wire *up = e->up;
        begin_call(l, i, -1);
        up->pace(up->user);
        end_call(l);
        return true;
    }

    return false;
}

/* Tells a host that a connection to it is broken. Returns whether it did. */
static bool tell_broken(struct sw_loop *l)
{
    for (int i = 0; i < l->conf.hosts * l->conf.hosts; i++) {
        int from = i / l->conf.hosts, to = i % l->conf.hosts;
        struct sw_loop_end *e = &l->end[to];
        struct sw_err why;
        if (!l->path[i].tells || !e->up || e->state != SW_LOOP_RUNS)
            continue;

        l->path[i].tells = false;
        sw_err_set(&why, SW_ERR_IO, "the connection is closed");
        const struct sw_fabric_wire *up = e->up;
        begin_call(l, to, from);
        up->failed(up->user, from, &why);
        end_call(l);
        return true;
    }

    return false;
}

/* When the host must be called next: for its tick, or for chunks that wait for their time. */
static int64_t next_call_ns(const struct sw_loop_end *e)
{
    int64_t paced_ns = e->up->paced_ns(e->up->user);
    return paced_ns < e->tick_ns ? paced_ns : e->tick_ns;
}

/* Moves the clock to the next call, or to the target. Returns whether it moved. */
static bool move_clock(struct sw_loop *l)
{
    int64_t next_ns = l->target_ns;

    if (l->now_ns >= l->target_ns)
        return false;

    for (int i = 0; i < l->conf.hosts; i++)
        if (l->end[i].up && l->end[i].state != SW_LOOP_STOPPED &&
            next_call_ns(&l->end[i]) < next_ns)
            next_ns = next_call_ns(&l->end[i]);

    l->now_ns = next_ns > l->now_ns ? next_ns : l->now_ns;
    sw_cond_broadcast(&l->changed);
    return true;
}

static void loop_main(void *loop)
{
    struct sw_loop *l = loop;
    int from = 0, to = 0, at = 0;

    sw_mutex_lock(&l->lock);
    l->task = sw_task_self();

    while (!l->stop) {
        if (tell_broken(l) || tick_one(l) || pace_one(l))
            continue;
        if (next_chunk(l, &from, &to, &at))
            deliver(l, from, to, at);
        else if (!move_clock(l))
            sw_cond_wait(&l->changed, &l->lock);
    }

    sw_mutex_unlock(&l->lock);
}

/* ---- For tests ---- */

int sw_loop_new(const struct sw_loop_conf *conf, struct sw_loop **out, struct sw_err *err)
{
    size_t hosts = (size_t)conf->hosts;
    struct sw_loop *l = sw_calloc(1, sizeof *l);
    if (!l)
        return sw_err_nomem(err, "a network", sizeof *l);

    *l = (struct sw_loop){.conf = *conf, .now_ns = 1, .random = conf->seed, .busy = {-1, -1}};
    if (l->conf.window < 1 || l->conf.window > MOST_WINDOW)
        l->conf.window = l->conf.window < 1 ? 1 : MOST_WINDOW;
    l->conf.delay_ns = conf->delay_ns ? conf->delay_ns : 100000;
    sw_mutex_init(&l->lock);
    sw_cond_init(&l->changed);
    l->end = sw_calloc(hosts, sizeof *l->end);
    l->path = sw_calloc(hosts * hosts, sizeof *l->path);

    int rc =
        l->end && l->path ? SW_OK : sw_err_nomem(err, "a network", hosts * hosts * sizeof *l->path);
    for (int i = 0; i < conf->hosts && rc == SW_OK; i++)
        l->end[i] = (struct sw_loop_end){
            .loop = l,
            .host = i,
            .clock = {.monotonic_ns = monotonic_ns, .wall_ns = wall_ns, .user = &l->end[i]}};
    if (rc == SW_OK)
        rc = sw_thread_start(&l->thread, "loop", loop_main, l, err);
    if (rc != SW_OK) {
        sw_loop_free(l);
        return rc;
    }

    *out = l;
    return SW_OK;
}

void sw_loop_free(struct sw_loop *l)
{
    if (!l)
        return;

    sw_mutex_lock(&l->lock);
    l->stop = true;
    sw_cond_broadcast(&l->changed);
    sw_mutex_unlock(&l->lock);

    sw_thread_join(&l->thread);
    sw_cond_fini(&l->changed);
    sw_mutex_fini(&l->lock);
    sw_free(l->end);
    sw_free(l->path);
    sw_free(l);
}

const struct sw_loop_end *sw_loop_end(const struct sw_loop *l, int host)
{
    return &l->end[host];
}

const struct sw_fabric_clock *sw_loop_clock(const struct sw_loop *l, int host)
{
    return &l->end[host].clock;
}

void sw_loop_advance(struct sw_loop *l, int64_t ns)
{
    sw_mutex_lock(&l->lock);

    int64_t target_ns = l->now_ns + ns;
    l->target_ns = target_ns > l->target_ns ? target_ns : l->target_ns;
    sw_cond_broadcast(&l->changed);

    while (l->now_ns < target_ns)
        sw_cond_wait(&l->changed, &l->lock);

    sw_mutex_unlock(&l->lock);
}

void sw_loop_set(struct sw_loop *l, int host, enum sw_loop_state state)
{
    sw_mutex_lock(&l->lock);
    l->end[host].state = state;
    sw_cond_broadcast(&l->changed);
    sw_mutex_unlock(&l->lock);
}

void sw_loop_kill(struct sw_loop *l, int host)
{
    sw_mutex_lock(&l->lock);
    kill_host(l, host);
    sw_mutex_unlock(&l->lock);
}

bool sw_loop_came(const struct sw_loop *l, int host)
{
    struct sw_mutex *lock = (struct sw_mutex *)&l->lock;

    sw_mutex_lock(lock);
    bool came = l->end[host].came;
    sw_mutex_unlock(lock);

    return came;
}

/* ---- The engine ---- */

static const char *name(char *out, size_t bytes)
{
    snprintf(out, bytes, "loop");
    return out;
}

/* The first host that has not come; -1: all have. */
static int absent(const struct sw_loop *l)
{
    for (int i = 0; i < l->conf.hosts; i++)
        if (!l->end[i].came)
            return i;
    return -1;
}

/* With the lock: breaks all connections of a host, and waits until nothing of it is in use. */
static void leave_network(struct sw_loop *l, int host)
{
    l->end[host].up = NULL;

    for (int i = 0; i < l->conf.hosts; i++)
        if (i != host) {
            break_path(l, host, i, true);
            break_path(l, i, host, false);
        }

    while (is_busy(l, host))
        sw_cond_wait(&l->changed, &l->lock);
}

static int loop_open(const struct sw_fabric_wire *up, void **link, struct sw_err *err)
{
    struct sw_loop_end *e = (struct sw_loop_end *)up->conf;
    struct sw_loop *l = e->loop;
    int late, rc = SW_OK;

    sw_mutex_lock(&l->lock);

    int64_t deadline_ns = l->now_ns + (int64_t)up->connect_ms * 1000000;
    e->up = up;
    e->came = true;
    e->tick_ns = l->now_ns + (int64_t)up->beat_ms * 1000000;
    sw_cond_broadcast(&l->changed);

    while ((late = absent(l)) >= 0 && l->now_ns < deadline_ns)
        sw_cond_wait(&l->changed, &l->lock);

    if (late >= 0) {
        leave_network(l, e->host);
        rc = sw_err_set(err, SW_ERR_NOTFOUND, "host %s did not come within %g s",
                        up->hosts->host[late].name, up->connect_ms / 1e3);
    }

    sw_mutex_unlock(&l->lock);
    if (rc == SW_OK)
        *link = e;
    return rc;
}

/* The time at which a new chunk arrives: not before an earlier one of the same urgency. */
static int64_t due_ns(struct sw_loop *l, const struct path *p, uint16_t urgency)
{
    int64_t delay_ns = l->conf.delay_ns, at_ns;

    if (l->conf.seed)
        delay_ns = 1 + (int64_t)(draw(l) % (uint64_t)delay_ns);
    at_ns = l->now_ns + delay_ns;

    for (int i = 0; i < p->count; i++)
        if (p->chunk[i].frame.tag.urgency == urgency && p->chunk[i].due_ns > at_ns)
            at_ns = p->chunk[i].due_ns;
    return at_ns;
}

static int push(void *link, int to, const struct sw_fabric_frame *head, const void *data)
{
    const struct sw_loop_end *e = link;
    struct sw_loop *l = e->loop;
    int rc = SW_OK;

    sw_mutex_lock(&l->lock);

    struct path *p = path_of(l, e->host, to);
    if (p->broken) {
        rc = SW_ERR_LOST;
    } else if (p->count == l->conf.window) {
        rc = SW_ERR_BUSY;
    } else {
        p->chunk[p->count] = (struct chunk){.frame = *head,
                                            .data = data,
                                            .due_ns = due_ns(l, p, head->tag.urgency),
                                            .number = l->numbers++};
        p->count++;
        sw_cond_broadcast(&l->changed);
    }

    sw_mutex_unlock(&l->lock);
    return rc;
}

static void drop(void *link, int host)
{
    const struct sw_loop_end *e = link;
    struct sw_loop *l = e->loop;

    sw_mutex_lock(&l->lock);
    break_path(l, e->host, host, true);
    break_path(l, host, e->host, false);
    path_of(l, host, e->host)->tells = false;

    while (is_busy(l, e->host) && is_busy(l, host) && sw_task_self() != l->task)
        sw_cond_wait(&l->changed, &l->lock);

    sw_mutex_unlock(&l->lock);
}

static void close_end(void *link)
{
    struct sw_loop_end *e = link;

    sw_mutex_lock(&e->loop->lock);
    leave_network(e->loop, e->host);
    sw_mutex_unlock(&e->loop->lock);
}

const struct sw_fabric_engine sw_fabric_loop = {.abi = SW_FABRIC_ABI,
                                                .name = name,
                                                .open = loop_open,
                                                .push = push,
                                                .drop = drop,
                                                .close = close_end};
