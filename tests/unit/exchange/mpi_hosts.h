/* Engine `mpi` in the conformance suite. MPI needs a process for each host, while the suite has its
 * hosts in one; so the fabrics of the suite have an engine that hands everything on to processes of
 * MPI, one for each host, which run the real one:
 *
 *     fabric - suite's engine ~ socket "down" ~ push, drop, open, close of the real engine
 *     fabric - suite's engine ~ socket "up"   ~ begin, end, sent, failed of its wire
 *
 * Bytes are in memory that all processes share. One launch serves all cases. Time is virtual, but
 * for the limit of open: it moves when a chunk is delivered and when a test moves it, and then
 * until all is delivered. A host that is held gets nothing from the suite's engine, and nothing of
 * it is handed on; MPI goes on. A host that is killed drops all others at once, since MPI's
 * launcher would end all processes if one of them ended. Included by fabric_support.h, whose types
 * it uses. */
#pragma once

#include "unit/exchange/mpi_run.h"

#include "base/os.h"
#include "thread/tasks.h"
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>

enum { MPI_WINDOW = 4 };
enum {
    MPI_OPEN,
    MPI_PUSH,
    MPI_DROP,
    MPI_CLOSE,
    MPI_EXIT,
    MPI_BEGIN,
    MPI_END,
    MPI_SENT,
    MPI_FAILED
};

/* A call of a function by the other side, and its answer; the rest of the fields as needed. */
struct mpi_call {
    int what, host, rc, hosts, connect_ms;
    uint64_t drops; /* of an answer: hosts that were dropped during the call */
    size_t bytes;
    struct sw_fabric_frame frame;
    int slot;
    unsigned char head[SW_FRAME_HEAD];
    struct sw_err err;
};

/* Between all processes. */
struct mpi_memory {
    unsigned char out[MOST][MOST][MPI_WINDOW][SW_FABRIC_CHUNK]; /* of a host, to another one */
    unsigned char in[MOST][MOST][SW_FABRIC_CHUNK];              /* of a host, from another one */
};

/* What one host has sent to another; all numbers count chunks. */
struct mpi_path {
    struct sw_fabric_frame frame[MPI_WINDOW];
    uint64_t pushed, forwarded, sent, delivered;
    bool dropped; /* by the sender: in both directions nothing is delivered */
    bool cut;     /* it dies in the middle of the chunk that arrives */
    bool fails;   /* to tell the sender, when it is not held any more */
    struct sw_err why;
};

struct mpi_end {
    int host, down, up, task;
    struct sw_thread thread;           /* reads `up` */
    struct sw_mutex ask;               /* held by who waits for an answer on `down` */
    const struct sw_fabric_wire *wire; /* NULL: not open */
    bool held, stopped, killed, closing, came;
    int users, opened; /* threads of the suite that use `wire`; openings in this world */
    int64_t chunks;    /* from and to it */
    uint64_t drops;    /* by the call that its thread is in */
    void *to[MOST];    /* where the bytes of each host go */
    size_t bytes[MOST];
    struct sw_fabric_clock clock;
    int64_t skew_ns;
};

static struct mpi_net {
    const struct mpi_made *made;
    pid_t launcher;
    char folder[64];
    struct mpi_memory *memory;
    struct sw_mutex lock; /* guards all below */
    struct sw_cond changed;
    struct mpi_end end[MOST];
    struct mpi_path path[MOST][MOST];
    int hosts;
    int64_t now_ns;
    int64_t kill_chunk; /* of the last host; 0: never */
} mpi_net;

/* ---- Both sides ---- */

static inline void mpi_give_up(const char *what)
{
    fprintf(stderr, "%s: %s\n", mpi_net.made ? mpi_net.made->name : "a process of MPI", what);
    _exit(9);
}

static inline void mpi_write(int socket, const struct mpi_call *c)
{
    if (send(socket, c, sizeof *c, MSG_NOSIGNAL) != sizeof *c)
        mpi_give_up("the other side is gone");
}

static inline bool mpi_read(int socket, struct mpi_call *c)
{
    ssize_t n;
    do
        n = recv(socket, c, sizeof *c, 0);
    while (n < 0 && errno == EINTR);
    return n == sizeof *c;
}

static inline const char *mpi_memory_path(const char *folder, char path[100])
{
    snprintf(path, 100, "%.80s/memory", folder);
    return path;
}

static inline struct mpi_memory *mpi_map(const char *folder, int flags)
{
    char path[100];
    int fd = open(mpi_memory_path(folder, path), O_RDWR | flags, 0600);
    void *p = MAP_FAILED;
    if (fd >= 0 && ftruncate(fd, sizeof(struct mpi_memory)) == 0)
        p = mmap(NULL, sizeof(struct mpi_memory), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED)
        mpi_give_up("no memory to share");
    close(fd);
    return p;
}

static inline int mpi_socket(const char *folder, struct sockaddr_un *address)
{
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    snprintf(address->sun_path, sizeof address->sun_path, "%.80s/socket", folder);
    int s = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (s < 0)
        mpi_give_up("no socket");
    return s;
}

/* ---- A process of MPI ---- */

static struct mpi_child {
    int rank, down, up;
    const struct sw_fabric_engine *engine;
    void *link;
    struct mpi_memory *memory;
    struct sw_os os;
    int allocations; /* atomic */
    bool silent;     /* the suite has not begun */
} mpi_child;

static inline void *mpi_child_alloc(size_t bytes)
{
    __atomic_add_fetch(&mpi_child.allocations, 1, __ATOMIC_RELAXED);
    return sw_os_posix.alloc(bytes);
}

static inline int mpi_child_call(struct mpi_call *c)
{
    if (mpi_child.silent)
        return SW_ERR_CANCELLED;
    mpi_write(mpi_child.up, c);
    if (!mpi_read(mpi_child.up, c))
        mpi_give_up("the suite has ended");
    for (int h = 0; h < MOST; h++)
        if (c->drops >> h & 1)
            mpi_child.engine->drop(mpi_child.link, h);
    return c->rc;
}

static inline int mpi_child_begin(void *user, int from, const unsigned char head[SW_FRAME_HEAD],
                                  void **to, size_t *bytes)
{
    struct mpi_call c = {.what = MPI_BEGIN, .host = from};
    memcpy(c.head, head, sizeof c.head);
    int rc = mpi_child_call(&c);
    *to = mpi_child.memory->in[mpi_child.rank][from];
    *bytes = c.bytes;
    return rc;
}

static inline int mpi_child_end(void *user, int from)
{
    return mpi_child_call(&(struct mpi_call){.what = MPI_END, .host = from});
}

static inline void mpi_child_sent(void *user, int to)
{
    mpi_child_call(&(struct mpi_call){.what = MPI_SENT, .host = to});
}

static inline void mpi_child_failed(void *user, int host, const struct sw_err *why)
{
    mpi_child_call(&(struct mpi_call){.what = MPI_FAILED, .host = host, .err = *why});
}

static inline bool mpi_child_awaited(void *user)
{
    return mpi_child.rank % 2;
}

/* Answers what the suite asks. Returns false at the end. */
static inline bool mpi_child_serve(struct mpi_call *c, struct sw_fabric_wire *wire,
                                   struct sw_hosts *hosts)
{
    const struct sw_fabric_engine *e = mpi_child.engine;
    if (c->what == MPI_PUSH) {
        const void *data = mpi_child.memory->out[mpi_child.rank][c->host][c->slot];
        if (e->push(mpi_child.link, c->host, &c->frame, data) == SW_ERR_BUSY)
            mpi_give_up("the engine has no room");
        return true;
    }
    if (c->what == MPI_OPEN) {
        hosts->count = c->hosts;
        wire->connect_ms = c->connect_ms;
        do /* the time limit is for the others, not for the end of the last connection */
            c->rc = e->open(wire, &mpi_child.link, &c->err);
        while (c->rc == SW_ERR_NOTFOUND && strstr(c->err.text, "earlier job"));
    } else if (c->what == MPI_DROP) {
        e->drop(mpi_child.link, c->host);
    } else if (c->what == MPI_CLOSE) {
        e->close(mpi_child.link);
    }
    mpi_write(mpi_child.down, c);
    return c->what != MPI_EXIT;
}

static inline int mpi_child_main(const char *folder)
{
    static const struct sw_host names[MOST] = {{"ada", 0}, {"bob", 0}, {"cyd", 0}, {"dan", 0}};
    enum sw_mpi_kind kind;
    struct sockaddr_un address;
    struct mpi_call c;
    struct sw_err err;
    int size, sockets[2];
    if (!sw_mpi_launched(&mpi_child.rank, &size, &kind) || size != MOST ||
        sw_mpi_engine_load(kind, &mpi_child.engine, &err) != SW_OK)
        mpi_give_up("not launched");
    mpi_child.memory = mpi_map(folder, 0);
    mpi_child.os = sw_os_posix;
    mpi_child.os.alloc = mpi_child_alloc;
    sw_os_set(&mpi_child.os);
    struct sw_hosts hosts = {.host = names, .count = MOST, .own = mpi_child.rank};
    struct sw_fabric_wire wire = {.hosts = &hosts,
                                  .connect_ms = 60000,
                                  .beat_ms = 500,
                                  .silence_ms = 600000, /* of real time */
                                  .begin = mpi_child_begin,
                                  .end = mpi_child_end,
                                  .sent = mpi_child_sent,
                                  .failed = mpi_child_failed,
                                  .awaited = mpi_child_awaited};
    /* MPI begins in all processes at once. */
    mpi_child.silent = true;
    if (mpi_child.engine->open(&wire, &mpi_child.link, &err) != SW_OK)
        mpi_give_up(err.text);
    mpi_child.engine->close(mpi_child.link);
    mpi_child.silent = false;
    int before = mpi_child.allocations;
    for (int i = 0; i < 2; i++) {
        sockets[i] = mpi_socket(folder, &address);
        if (connect(sockets[i], (struct sockaddr *)&address, sizeof address) != 0)
            mpi_give_up("the suite does not listen");
        mpi_write(sockets[i], &(struct mpi_call){.what = i, .host = mpi_child.rank});
    }
    mpi_child.down = sockets[0];
    mpi_child.up = sockets[1];
    while (mpi_read(mpi_child.down, &c) && mpi_child_serve(&c, &wire, &hosts))
        ;
    return mpi_child.allocations == before ? 0 : 3;
}

/* ---- The suite's engine ---- */

/* Waits for the answer. */
static inline void mpi_ask(struct mpi_end *e, struct mpi_call *c)
{
    sw_mutex_lock(&e->ask);
    mpi_write(e->down, c);
    if (!mpi_read(e->down, c))
        mpi_give_up("a process has ended");
    sw_mutex_unlock(&e->ask);
}

/* With the lock: hands on what is pushed, unless one of the two is held. */
static inline void mpi_forward(int from, int to)
{
    struct mpi_path *p = &mpi_net.path[from][to];
    if (mpi_net.end[from].held || mpi_net.end[to].held)
        return;
    for (; p->forwarded < p->pushed && !p->dropped; p->forwarded++) {
        int slot = (int)(p->forwarded % MPI_WINDOW);
        mpi_write(mpi_net.end[from].down,
                  &(struct mpi_call){
                      .what = MPI_PUSH, .host = to, .frame = p->frame[slot], .slot = slot});
    }
}

static inline void mpi_proxy_drop(void *link, int host);

/* A process that ends. It drops all others, and hears of it, so that the test can see when. */
static inline void mpi_die(struct mpi_end *e)
{
    struct sw_err why;
    sw_err_set(&why, SW_ERR_IO, "the process is killed");
    sw_mutex_lock(&mpi_net.lock);
    e->killed = true;
    bool open = e->wire && e->opened && !e->closing; /* else its open goes on, or it ends anyway */
    e->users += open;
    for (int i = 0; open && i < mpi_net.hosts; i++) {
        if (i == e->host || mpi_net.path[e->host][i].dropped)
            continue;
        sw_mutex_unlock(&mpi_net.lock);
        mpi_proxy_drop(e, i);
        e->wire->failed(e->wire->user, i, &why);
        sw_mutex_lock(&mpi_net.lock);
    }
    e->users -= open;
    sw_cond_broadcast(&mpi_net.changed);
    sw_mutex_unlock(&mpi_net.lock);
}

/* Counts a chunk that begins to arrive. Does the last host die in the middle of it? */
static inline bool mpi_kills(struct mpi_end *e, int from)
{
    struct mpi_end *last = &mpi_net.end[mpi_net.hosts - 1];
    sw_mutex_lock(&mpi_net.lock);
    e->chunks++;
    mpi_net.end[from].chunks++;
    bool kills = mpi_net.kill_chunk > 0 && (e == last || from == last->host) &&
                 last->chunks == mpi_net.kill_chunk;
    mpi_net.path[from][e->host].cut = kills;
    sw_mutex_unlock(&mpi_net.lock);
    return kills;
}

static inline void mpi_deliver(struct mpi_end *e, struct mpi_call *c)
{
    const struct sw_fabric_wire *w = e->wire;
    struct mpi_path *in = &mpi_net.path[c->host][e->host], *out = &mpi_net.path[e->host][c->host];
    if (c->what == MPI_BEGIN) {
        struct mpi_end *last = &mpi_net.end[mpi_net.hosts - 1];
        bool kills = !e->killed && mpi_kills(e, c->host);
        c->rc = e->killed
                    ? SW_ERR_CANCELLED
                    : w->begin(w->user, c->host, c->head, &e->to[c->host], &e->bytes[c->host]);
        c->bytes = e->bytes[c->host];
        if (kills)
            mpi_die(last);
        if (kills && e == last)
            c->rc = SW_ERR_CANCELLED;
    } else if (c->what == MPI_END && in->cut) {
        c->rc = SW_ERR_CANCELLED;
        sw_err_set(&c->err, SW_ERR_IO, "the connection is closed");
        w->failed(w->user, c->host, &c->err);
    } else if (c->what == MPI_END) {
        if (e->bytes[c->host] > 0)
            memcpy(e->to[c->host], mpi_net.memory->in[e->host][c->host], e->bytes[c->host]);
        c->rc = w->end(w->user, c->host);
        sw_mutex_lock(&mpi_net.lock);
        in->delivered++;
        mpi_net.now_ns += 1000;
        sw_mutex_unlock(&mpi_net.lock);
    } else if (c->what == MPI_SENT) {
        sw_mutex_lock(&mpi_net.lock);
        out->sent++;
        sw_mutex_unlock(&mpi_net.lock);
        w->sent(w->user, c->host);
    } else {
        sw_mutex_lock(&mpi_net.lock);
        bool held = out->fails = e->held;
        out->why = c->err;
        sw_mutex_unlock(&mpi_net.lock);
        if (!held)
            w->failed(w->user, c->host, &c->err);
    }
}

static inline void mpi_up_main(void *end)
{
    struct mpi_end *e = end;
    struct mpi_call c;
    e->task = sw_task_self();
    while (mpi_read(e->up, &c)) {
        e->drops = 0;
        c.rc = SW_OK;
        if (e->wire) {
            mpi_deliver(e, &c);
        } else { /* an opening that only meets those of the others */
            c.rc = SW_ERR_CANCELLED;
            e->drops = (uint64_t)1 << c.host;
        }
        c.drops = e->drops;
        mpi_write(e->up, &c);
        sw_mutex_lock(&mpi_net.lock);
        sw_cond_broadcast(&mpi_net.changed);
        sw_mutex_unlock(&mpi_net.lock);
    }
}

static inline const char *mpi_proxy_name(char *out, size_t bytes)
{
    snprintf(out, bytes, "%s", mpi_net.made->name);
    return out;
}

static inline int mpi_proxy_open(const struct sw_fabric_wire *up, void **link, struct sw_err *err)
{
    struct mpi_end *e = (struct mpi_end *)up->conf;
    struct mpi_call c = {.what = MPI_OPEN, .hosts = up->hosts->count, .connect_ms = up->connect_ms};
    sw_mutex_lock(&mpi_net.lock);
    for (int to = 0; to < MOST; to++)
        mpi_net.path[e->host][to] = (struct mpi_path){0};
    e->wire = up;
    e->closing = false;
    e->came = true;
    sw_mutex_unlock(&mpi_net.lock);
    mpi_ask(e, &c);
    sw_mutex_lock(&mpi_net.lock);
    e->wire = c.rc == SW_OK ? up : NULL;
    e->opened += c.rc == SW_OK || c.rc == SW_ERR_NOTFOUND;
    sw_mutex_unlock(&mpi_net.lock);
    if (c.rc != SW_OK)
        *err = c.err;
    else if (e->killed)
        mpi_die(e);
    if (c.rc == SW_OK)
        *link = e;
    return c.rc;
}

static inline int mpi_proxy_push(void *link, int to, const struct sw_fabric_frame *head,
                                 const void *data)
{
    struct mpi_end *e = link;
    struct mpi_path *p = &mpi_net.path[e->host][to];
    int rc = SW_OK;
    sw_mutex_lock(&mpi_net.lock);
    if (p->dropped) {
        rc = SW_ERR_LOST;
    } else if (p->pushed - p->sent == MPI_WINDOW) {
        rc = SW_ERR_BUSY;
    } else {
        int slot = (int)(p->pushed++ % MPI_WINDOW);
        p->frame[slot] = *head;
        if (head->bytes > 0)
            memcpy(mpi_net.memory->out[e->host][to][slot], data, head->bytes);
        mpi_forward(e->host, to);
    }
    sw_mutex_unlock(&mpi_net.lock);
    return rc;
}

static inline void mpi_proxy_drop(void *link, int host)
{
    struct mpi_end *e = link;
    sw_mutex_lock(&mpi_net.lock);
    mpi_net.path[e->host][host].dropped = true;
    sw_cond_broadcast(&mpi_net.changed);
    sw_mutex_unlock(&mpi_net.lock);
    if (sw_task_self() == e->task)
        e->drops |= (uint64_t)1 << host; /* the process does it when it has the answer */
    else
        mpi_ask(e, &(struct mpi_call){.what = MPI_DROP, .host = host});
}

static inline void mpi_proxy_close(void *link)
{
    struct mpi_end *e = link;
    sw_mutex_lock(&mpi_net.lock);
    e->closing = true;
    for (int to = 0; to < MOST; to++)
        mpi_net.path[e->host][to].dropped = true;
    while (e->users > 0)
        sw_cond_wait(&mpi_net.changed, &mpi_net.lock);
    sw_mutex_unlock(&mpi_net.lock);
    mpi_ask(e, &(struct mpi_call){.what = MPI_CLOSE});
    sw_mutex_lock(&mpi_net.lock);
    e->wire = NULL;
    sw_cond_broadcast(&mpi_net.changed);
    sw_mutex_unlock(&mpi_net.lock);
}

static const struct sw_fabric_engine mpi_proxy = {.abi = SW_FABRIC_ABI,
                                                  .name = mpi_proxy_name,
                                                  .open = mpi_proxy_open,
                                                  .push = mpi_proxy_push,
                                                  .drop = mpi_proxy_drop,
                                                  .close = mpi_proxy_close};

/* ---- Worlds ---- */

static inline int64_t mpi_monotonic_ns(void *end)
{
    sw_mutex_lock(&mpi_net.lock);
    int64_t now_ns = mpi_net.now_ns;
    sw_mutex_unlock(&mpi_net.lock);
    return now_ns;
}

static inline int64_t mpi_wall_ns(void *end)
{
    const struct mpi_end *e = end;
    return 1700000000000000000 + mpi_monotonic_ns(end) + e->skew_ns;
}

/* Starts the processes, and waits for their connections. */
static inline void mpi_launch(const struct mpi_made *made)
{
    struct mpi_net *n = &mpi_net;
    struct sockaddr_un address;
    struct sw_err err;
    char program[4096] = "";
    *n = (struct mpi_net){.made = made, .folder = "/tmp/singa-mpi-XXXXXX"};
    if (!mkdtemp(n->folder) || readlink("/proc/self/exe", program, sizeof program - 1) <= 0)
        mpi_give_up("no folder");
    sw_mutex_init(&n->lock);
    sw_cond_init(&n->changed);
    n->memory = mpi_map(n->folder, O_CREAT | O_EXCL);
    n->now_ns = 1;
    int listener = mpi_socket(n->folder, &address);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) != 0 ||
        listen(listener, 2 * MOST) != 0)
        mpi_give_up("no socket");
    n->launcher = mpi_start(made, MOST, program, n->folder, NULL);
    for (int i = 0; i < 2 * MOST; i++) {
        struct mpi_call c;
        struct pollfd ready = {.fd = listener, .events = POLLIN};
        while (poll(&ready, 1, 500) <= 0)
            if (waitpid(n->launcher, NULL, WNOHANG) != 0)
                mpi_give_up("its launcher has ended");
        int s = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (s < 0 || !mpi_read(s, &c))
            mpi_give_up("no connection");
        *(c.what ? &n->end[c.host].up : &n->end[c.host].down) = s;
    }
    close(listener);
    for (int i = 0; i < MOST; i++) {
        struct mpi_end *e = &n->end[i];
        e->host = i;
        e->clock = (struct sw_fabric_clock){mpi_monotonic_ns, mpi_wall_ns, e};
        sw_mutex_init(&e->ask);
        ASSERT_OK(sw_thread_start(&e->thread, "up", mpi_up_main, e, &err));
    }
}

/* Ends the processes, all of which must end well. */
static inline void mpi_quit(void)
{
    struct mpi_net *n = &mpi_net;
    struct sockaddr_un address;
    char path[100];
    if (!n->made)
        return;
    for (int i = 0; i < MOST; i++)
        mpi_ask(&n->end[i], &(struct mpi_call){.what = MPI_EXIT});
    int code = mpi_wait(n->launcher);
    for (int i = 0; i < MOST; i++) {
        sw_thread_join(&n->end[i].thread);
        close(n->end[i].up);
        close(n->end[i].down);
    }
    munmap(n->memory, sizeof *n->memory);
    close(mpi_socket(n->folder, &address));
    unlink(address.sun_path);
    unlink(mpi_memory_path(n->folder, path));
    if (code != 0 || rmdir(n->folder) != 0)
        mpi_give_up("its processes ended with an error");
    n->made = NULL;
}

static inline void mpi_begin(struct world *w)
{
    const struct mpi_made *made = &mpi_made[strcmp(w->engine->name, mpi_made[0].name) != 0];
    if (!mpi_net.made)
        mpi_launch(made);
    mpi_net.hosts = w->setup.hosts;
    mpi_net.kill_chunk = w->setup.kill_chunk;
    for (int i = 0; i < MOST; i++) {
        struct mpi_end *e = &mpi_net.end[i];
        e->held = e->stopped = e->killed = e->came = false;
        e->opened = 0;
        e->chunks = 0;
        e->skew_ns = w->setup.skew_ns && i < w->setup.hosts ? w->setup.skew_ns[i] : 0;
    }
    w->net = &mpi_net;
}

/* A connection is over when both have closed it: who was not there does it now. */
static inline void mpi_end(struct world *w)
{
    int most = 0;
    for (int i = 0; i < w->setup.hosts; i++)
        most = mpi_net.end[i].opened > most ? mpi_net.end[i].opened : most;
    for (int i = 0; i < w->setup.hosts; i++) {
        struct mpi_end *e = &mpi_net.end[i];
        for (; e->opened < most; e->opened++) {
            struct mpi_call c = {.what = MPI_OPEN, .hosts = w->setup.hosts, .connect_ms = 60000};
            mpi_ask(e, &c);
            if (c.rc != SW_OK)
                mpi_give_up(c.err.text);
            mpi_ask(e, &(struct mpi_call){.what = MPI_CLOSE});
        }
    }
}

static inline const void *mpi_conf(struct world *w, int host)
{
    return &mpi_net.end[host];
}

static inline const struct sw_fabric_clock *mpi_clock(struct world *w, int host)
{
    return &mpi_net.end[host].clock;
}

static inline void mpi_hold(struct world *w, int host, bool held)
{
    struct mpi_end *e = &mpi_net.end[host];
    sw_mutex_lock(&mpi_net.lock);
    e->held = held;
    for (int i = 0; i < mpi_net.hosts; i++) {
        struct mpi_path *p = &mpi_net.path[host][i];
        mpi_forward(host, i);
        mpi_forward(i, host);
        if (held || !p->fails || !e->wire)
            continue;
        p->fails = false;
        sw_mutex_unlock(&mpi_net.lock);
        e->wire->failed(e->wire->user, i, &p->why);
        sw_mutex_lock(&mpi_net.lock);
    }
    sw_mutex_unlock(&mpi_net.lock);
}

static inline void mpi_stop(struct world *w, int host, bool stopped)
{
    sw_mutex_lock(&mpi_net.lock);
    mpi_net.end[host].stopped = stopped;
    sw_mutex_unlock(&mpi_net.lock);
    mpi_hold(w, host, stopped);
}

static inline void mpi_kill(struct world *w, int host)
{
    mpi_die(&mpi_net.end[host]);
}

static inline bool mpi_came(struct world *w, int host)
{
    sw_mutex_lock(&mpi_net.lock);
    bool came = mpi_net.end[host].came;
    sw_mutex_unlock(&mpi_net.lock);
    return came;
}

/* With the lock: is there a chunk that will be delivered? */
static inline bool mpi_moves(void)
{
    const struct mpi_net *n = &mpi_net;
    for (int a = 0; a < n->hosts; a++)
        for (int b = 0; b < n->hosts; b++) {
            const struct mpi_path *p = &n->path[a][b];
            if (n->end[a].wire && n->end[b].wire && !n->end[a].closing && !n->end[b].closing &&
                !p->dropped && !n->path[b][a].dropped && p->delivered < p->forwarded)
                return true;
        }
    return false;
}

static inline void mpi_advance(struct world *w, int ms)
{
    struct mpi_net *n = &mpi_net;
    sw_mutex_lock(&n->lock);
    for (int step; ms > 0; ms -= step) {
        step = ms < 500 ? ms : 500;
        n->now_ns += (int64_t)step * 1000000;
        for (int i = 0; i < n->hosts; i++) {
            struct mpi_end *e = &n->end[i];
            if (!e->wire || e->stopped || e->closing)
                continue;
            e->users++;
            sw_mutex_unlock(&n->lock);
            e->wire->tick(e->wire->user);
            sw_mutex_lock(&n->lock);
            e->users--;
            sw_cond_broadcast(&n->changed);
        }
        while (mpi_moves())
            sw_cond_wait(&n->changed, &n->lock);
    }
    sw_mutex_unlock(&n->lock);
}

static inline const char *openmpi_missing(void)
{
    return mpi_missing(&mpi_made[0]);
}

static inline const char *mpich_missing(void)
{
    return mpi_missing(&mpi_made[1]);
}

#define MPI_ENGINE(made, lacks)                                                                    \
    {                                                                                              \
        .name = made, .table = &mpi_proxy, .window = MPI_WINDOW, .buffers = true,                  \
        .missing = lacks, .begin = mpi_begin, .end = mpi_end, .quit = mpi_quit, .conf = mpi_conf,  \
        .clock = mpi_clock, .hold = mpi_hold, .stop = mpi_stop, .kill = mpi_kill,                  \
        .came = mpi_came, .advance = mpi_advance                                                   \
    }
