/* Engine `tcp`. A host has two threads for each other host: one takes chunks from `push` and writes
 * them to the outgoing connection, the other reads the incoming one. Both block in their socket
 * and cost nothing while nothing moves. A connection ends by shutdown, which wakes both.
 *
 * The thread that reads is the one that reports the end of a host, since what the host sent last,
 * such as why it ends, is delivered before. One that cannot write waits for that. */
#include "exchange/hosts/tcp.h"

#include "base/os.h"
#include "exchange/hosts/tcp_meet.h"
#include "thread/tasks.h"
#include "thread/thread.h"
#include <string.h>
#include <sys/socket.h>

/* The first write of a chunk: its head and what fits beside it into a record of TLS. */
enum { FIRST_WRITE = 16 << 10, LAST_WORDS_MS = 1000 };

struct peer {
    const struct sw_fabric_wire *up;
    int host;
    struct sw_tcp_pair pair; /* frozen while the threads run */
    struct sw_thread writer, reader;
    struct sw_mutex lock; /* guards all below */
    struct sw_cond changed;
    struct sw_fabric_frame frame; /* of the chunk to write */
    const void *data;             /* borrowed while `full` */
    bool full;
    bool broken;              /* nothing can be written any more */
    bool dropped;             /* nobody wants anything of the host any more */
    bool writes, reads;       /* these threads have not ended */
    int writer_id, reader_id; /* as sw_task_self tells them; 0: not known yet */
    struct sw_err why;        /* code 0: none */
};

struct tcp {
    int own, count;
    struct sw_tls_context *context;
    struct peer *peer; /* owned [count]; the own one is not used */
};

/* ---- Threads ---- */

static int write_chunk(const struct sw_tcp_stream *s, const struct sw_fabric_frame *head,
                       const unsigned char *data, struct sw_err *err)
{
    unsigned char first[FIRST_WRITE];
    size_t beside = sizeof first - SW_FRAME_HEAD;

    beside = head->bytes < beside ? head->bytes : beside;
    sw_frame_write(head, first);
    if (beside > 0)
        memcpy(first + SW_FRAME_HEAD, data, beside);

    int rc = sw_tcp_write_all(s, first, SW_FRAME_HEAD + beside, err);
    if (rc == SW_OK && beside < head->bytes)
        rc = sw_tcp_write_all(s, data + beside, head->bytes - beside, err);
    return rc;
}

/* With the lock: the outgoing connection is broken. The host's last words may still be under way;
 * then the thread that reads ends by itself. */
static void await_end(struct peer *p, const struct sw_err *why)
{
    p->broken = true;

    while (p->reads && !p->dropped && sw_cond_wait_ms(&p->changed, &p->lock, LAST_WORDS_MS))
        ;
    if (!p->reads || p->dropped)
        return;

    p->why = *why;
    shutdown(p->pair.in.fd, SHUT_RDWR);
}

static void write_main(void *peer)
{
    struct peer *p = peer;
    struct sw_err why;

    sw_mutex_lock(&p->lock);
    p->writer_id = sw_task_self();

    while (!p->dropped && !p->broken) {
        if (!p->full) {
            sw_cond_wait(&p->changed, &p->lock);
            continue;
        }

        sw_mutex_unlock(&p->lock);
        int rc = write_chunk(&p->pair.out, &p->frame, p->data, &why);
        sw_mutex_lock(&p->lock);

        if (rc != SW_OK) {
            await_end(p, &why);
            break;
        }

        p->full = false;
        if (p->dropped)
            break;

        sw_mutex_unlock(&p->lock);
        p->up->sent(p->up->user, p->host);
        sw_mutex_lock(&p->lock);
    }

    p->writes = false;
    sw_cond_broadcast(&p->changed);
    sw_mutex_unlock(&p->lock);
}

/* SW_ERR_CANCELLED: the fabric wants no more, and has dropped the host if that was necessary. */
static int read_chunk(struct peer *p, struct sw_err *err)
{
    const struct sw_fabric_wire *up = p->up;
    unsigned char head[SW_FRAME_HEAD];
    size_t bytes = 0;
    void *to = NULL;

    int rc = sw_tcp_read_all(&p->pair.in, head, sizeof head, err);
    if (rc != SW_OK)
        return rc;
    if (up->begin(up->user, p->host, head, &to, &bytes) != SW_OK)
        return SW_ERR_CANCELLED;
    rc = sw_tcp_read_all(&p->pair.in, to, bytes, err);
    if (rc != SW_OK)
        return rc;

    return up->end(up->user, p->host) == SW_OK ? SW_OK : SW_ERR_CANCELLED;
}

static void read_main(void *peer)
{
    struct peer *p = peer;
    struct sw_err why;
    int rc;

    sw_mutex_lock(&p->lock);
    p->reader_id = sw_task_self();
    sw_mutex_unlock(&p->lock);

    do
        rc = read_chunk(p, &why);
    while (rc == SW_OK);

    sw_mutex_lock(&p->lock);
    bool tells = rc != SW_ERR_CANCELLED && !p->dropped;
    if (p->why.code != SW_OK)
        why = p->why;
    p->broken = p->broken || tells; /* a fabric that is closed may still say why */
    sw_cond_broadcast(&p->changed);
    sw_mutex_unlock(&p->lock);

    if (tells)
        p->up->failed(p->up->user, p->host, &why);

    sw_mutex_lock(&p->lock);
    p->reads = false;
    sw_cond_broadcast(&p->changed);
    sw_mutex_unlock(&p->lock);
}

/* ---- The engine ---- */

static const char *name(char *out, size_t bytes)
{
    snprintf(out, bytes, "%s", sw_tcp_has_tls() ? "tcp, TLS 1.3" : "tcp, not encrypted");
    return out;
}

static int push(void *link, int to, const struct sw_fabric_frame *head, const void *data)
{
    struct peer *p = &((struct tcp *)link)->peer[to];
    int rc = SW_OK;

    sw_mutex_lock(&p->lock);

    if (p->broken || p->dropped) {
        rc = SW_ERR_LOST;
    } else if (p->full) {
        rc = SW_ERR_BUSY;
    } else {
        p->frame = *head;
        p->data = data;
        p->full = true;
        sw_cond_broadcast(&p->changed);
    }

    sw_mutex_unlock(&p->lock);
    return rc;
}

static void drop(void *link, int host)
{
    struct peer *p = &((struct tcp *)link)->peer[host];
    int self = sw_task_self();

    sw_mutex_lock(&p->lock);
    p->dropped = true;
    sw_cond_broadcast(&p->changed);

    /* The outgoing one first: what was written still arrives, and closing a connection with bytes
     * that nobody has read resets it. */
    shutdown(p->pair.out.fd, SHUT_RDWR);
    shutdown(p->pair.in.fd, SHUT_RDWR);

    while ((p->writes && p->writer_id != self) || (p->reads && p->reader_id != self))
        sw_cond_wait(&p->changed, &p->lock);

    sw_mutex_unlock(&p->lock);
}

static void close_link(void *link)
{
    struct tcp *t = link;

    for (int i = 0; i < t->count; i++) {
        struct peer *p = &t->peer[i];

        drop(t, i);
        sw_thread_join(&p->writer);
        sw_thread_join(&p->reader);
        sw_tcp_close(&p->pair.out);
        sw_tcp_close(&p->pair.in);
        sw_cond_fini(&p->changed);
        sw_mutex_fini(&p->lock);
    }

    sw_tls_context_free(t->context);
    sw_free(t->peer);
    sw_free(t);
}

static int start_thread(struct peer *p, bool *runs, struct sw_thread *thread, const char *title,
                        void (*main)(void *peer), struct sw_err *err)
{
    sw_mutex_lock(&p->lock);
    *runs = true;
    sw_mutex_unlock(&p->lock);

    int rc = sw_thread_start(thread, title, main, p, err);
    if (rc == SW_OK)
        return SW_OK;

    sw_mutex_lock(&p->lock);
    *runs = false;
    sw_mutex_unlock(&p->lock);
    return rc;
}

static int start(struct peer *p, struct sw_err *err)
{
    int rc = start_thread(p, &p->writes, &p->writer, "net-out", write_main, err);

    return rc == SW_OK ? start_thread(p, &p->reads, &p->reader, "net-in", read_main, err) : rc;
}

static int connect_all(struct tcp *t, const struct sw_fabric_wire *up, int *listener,
                       struct sw_err *err)
{
    struct sw_tcp_pair pair[SW_MOST_HOSTS];
    int rc = SW_OK;

    if (up->key)
        rc = sw_tls_context_new(up->key, SW_FABRIC_KEY_BYTES, &t->context, err);
    if (rc == SW_OK)
        rc = sw_tcp_meet(up, t->context, listener, pair, err);
    if (rc != SW_OK)
        return rc;

    for (int i = 0; i < t->count; i++)
        if (i != t->own)
            t->peer[i].pair = pair[i];
    for (int i = 0; i < t->count && rc == SW_OK; i++)
        rc = i == t->own ? SW_OK : start(&t->peer[i], err);
    return rc;
}

static struct tcp *new_link(const struct sw_fabric_wire *up, struct sw_err *err)
{
    size_t hosts = (size_t)up->hosts->count;
    struct tcp *t = sw_calloc(1, sizeof *t);

    if (t)
        t->peer = sw_calloc(hosts, sizeof *t->peer);
    if (!t || !t->peer) {
        sw_free(t);
        sw_err_nomem(err, "connections to other hosts", hosts * sizeof *t->peer);
        return NULL;
    }

    t->own = up->hosts->own;
    t->count = up->hosts->count;
    for (int i = 0; i < t->count; i++) {
        t->peer[i] = (struct peer){.up = up, .host = i, .pair = {{.fd = -1}, {.fd = -1}}};
        sw_mutex_init(&t->peer[i].lock);
        sw_cond_init(&t->peer[i].changed);
    }

    return t;
}

static int tcp_open(const struct sw_fabric_wire *up, void **link, struct sw_err *err)
{
    const struct sw_tcp_conf *conf = up->conf;
    int listener = up->hosts->own == 0 ? conf->listener : -1;
    struct tcp *t = new_link(up, err);
    int rc = t ? connect_all(t, up, &listener, err) : SW_ERR_NOMEM;

    if (listener >= 0)
        sw_os()->close(listener);
    if (rc == SW_OK)
        *link = t;
    else if (t)
        close_link(t);
    return rc;
}

const struct sw_fabric_engine sw_fabric_tcp = {.abi = SW_FABRIC_ABI,
                                               .name = name,
                                               .open = tcp_open,
                                               .push = push,
                                               .drop = drop,
                                               .close = close_link};
