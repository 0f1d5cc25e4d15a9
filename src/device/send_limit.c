/* The limit of what a device sends. A wait inside a stream is a host function, which blocks the
 * stream but none of the threads that queue work. On GPUs host functions of several streams may run
 * on one thread of the driver, so that one's wait can delay another's; since each waits until a
 * time, not for a time, the waits do not add up. */
#include "device/send_limit.h"
#include "base/os.h"
#include "base/token_bucket.h"
#include "thread/thread.h"

enum {
    CHUNK_NS = 5000000, /* the time of a chunk */
    CHUNK_LEAST = 4096,
    CHUNK_MOST = 1 << 20,
};

/* Argument of a host function in a stream: a chunk that is to wait. */
struct ticket {
    struct sw_send_limit *limit;
    size_t bytes;
    struct ticket *next, *next_free;
};

struct sw_send_limit {
    struct sw_mutex lock; /* guards all below */
    struct sw_cond changed;
    struct sw_token_bucket bucket;
    int owners;
    struct ticket *tickets; /* owned */
    struct ticket *unused;  /* those of them that no stream has */
    bool closed;
};

int sw_send_limit_new(int64_t bytes_per_s, struct sw_send_limit **out, struct sw_err *err)
{
    struct sw_send_limit *l = sw_calloc(1, sizeof *l);
    if (!l)
        return sw_err_nomem(err, "limit of a device", sizeof *l);

    sw_mutex_init(&l->lock);
    sw_cond_init(&l->changed);
    l->bucket.bytes_per_s = bytes_per_s;
    l->owners = 1;
    *out = l;
    return SW_OK;
}

struct sw_send_limit *sw_send_limit_share(struct sw_send_limit *l)
{
    sw_mutex_lock(&l->lock);
    l->owners++;
    sw_mutex_unlock(&l->lock);
    return l;
}

void sw_send_limit_free(struct sw_send_limit *l)
{
    if (!l)
        return;

    sw_mutex_lock(&l->lock);
    bool used = --l->owners > 0;
    sw_mutex_unlock(&l->lock);
    if (used)
        return;

    for (struct ticket *t = l->tickets, *next; t; t = next) {
        next = t->next;
        sw_free(t);
    }

    sw_cond_fini(&l->changed);
    sw_mutex_fini(&l->lock);
    sw_free(l);
}

void sw_send_limit_close_v(void *limit)
{
    struct sw_send_limit *l = limit;

    sw_mutex_lock(&l->lock);
    l->closed = true;
    sw_cond_broadcast(&l->changed);
    sw_mutex_unlock(&l->lock);
}

void sw_send_limit_wake(struct sw_send_limit *l)
{
    sw_mutex_lock(&l->lock);
    sw_cond_broadcast(&l->changed);
    sw_mutex_unlock(&l->lock);
}

size_t sw_send_limit_chunk(const struct sw_send_limit *l)
{
    double bytes = (double)l->bucket.bytes_per_s * CHUNK_NS * 1e-9;

    return bytes < CHUNK_LEAST ? CHUNK_LEAST : bytes > CHUNK_MOST ? CHUNK_MOST : (size_t)bytes;
}

/* ---- Waiting for a turn ---- */

static bool is_over(const struct sw_send_limit *l, const bool *stop)
{
    return l->closed || (stop && __atomic_load_n(stop, __ATOMIC_ACQUIRE));
}

bool sw_send_limit_wait(struct sw_send_limit *l, size_t bytes, const bool *stop)
{
    sw_mutex_lock(&l->lock);
    while (!is_over(l, stop) && !sw_token_bucket_is_free(&l->bucket, sw_os()->monotonic_ns()))
        (void)sw_cond_wait_until(&l->changed, &l->lock, l->bucket.free_ns);

    bool goes = !is_over(l, stop);
    if (goes)
        sw_token_bucket_charge(&l->bucket, sw_os()->monotonic_ns(), bytes);
    sw_mutex_unlock(&l->lock);

    return goes;
}

void sw_send_limit_correct(struct sw_send_limit *l, size_t charged, size_t sent)
{
    sw_mutex_lock(&l->lock);
    if (sent < charged)
        sw_token_bucket_refund(&l->bucket, charged - sent);
    else if (sent > charged)
        sw_token_bucket_charge(&l->bucket, sw_os()->monotonic_ns(), sent - charged);
    sw_cond_broadcast(&l->changed);
    sw_mutex_unlock(&l->lock);
}

/* ---- In a stream ---- */

/* A host function of the stream. */
static void wait_turn(void *ticket)
{
    struct ticket *t = ticket;
    struct sw_send_limit *l = t->limit;

    (void)sw_send_limit_wait(l, t->bytes, NULL);

    sw_mutex_lock(&l->lock);
    t->next_free = l->unused;
    l->unused = t;
    sw_mutex_unlock(&l->lock);
}

/* Tickets of a stream that fails are lost until the limit is freed. */
static struct ticket *take_ticket(struct sw_send_limit *l)
{
    sw_mutex_lock(&l->lock);

    struct ticket *t = l->unused;
    if (t) {
        l->unused = t->next_free;
    } else if ((t = sw_calloc(1, sizeof *t)) != NULL) {
        t->limit = l;
        t->next = l->tickets;
        l->tickets = t;
    }

    sw_mutex_unlock(&l->lock);
    return t;
}

static int queue_turn(struct sw_send_limit *l, struct sw_stream *s, size_t bytes,
                      struct sw_err *err)
{
    struct ticket *t = take_ticket(l);
    if (!t)
        return sw_err_nomem(err, "limit of a device", sizeof *t);

    t->bytes = bytes;
    return sw_stream_call(s, wait_turn, t, err);
}

/* Units of a chunk, of so many in all with so many bytes each. */
static size_t units_of_chunk(const struct sw_send_limit *l, size_t units, size_t unit_bytes)
{
    size_t units_fit = sw_send_limit_chunk(l) / unit_bytes;
    size_t units_least = (units + SW_SEND_CHUNKS - 1) / SW_SEND_CHUNKS;

    return units_fit > units_least ? units_fit : units_least;
}

int sw_send_peer(struct sw_stream *s, struct sw_device *dst_dev, void *dst,
                 struct sw_device *src_dev, const void *src, size_t bytes, struct sw_err *err)
{
    struct sw_send_limit *l = src_dev == dst_dev ? NULL : src_dev->send_limit;
    if (!l)
        return sw_copy_peer(s, dst_dev, dst, src_dev, src, bytes, err);

    size_t chunk = units_of_chunk(l, bytes, 1);
    for (size_t at = 0; at < bytes; at += chunk) {
        size_t part = bytes - at < chunk ? bytes - at : chunk;

        int rc = queue_turn(l, s, part, err);
        if (rc != SW_OK)
            return rc;
        rc = sw_copy_peer(s, dst_dev, (char *)dst + at, src_dev, (const char *)src + at, part, err);
        if (rc != SW_OK)
            return rc;
    }

    return SW_OK;
}

int sw_send_2d(struct sw_stream *s, const struct sw_copy_2d *c, struct sw_err *err)
{
    struct sw_send_limit *l = s->dev->send_limit;
    if (!l || c->rows < 1 || c->width == 0)
        return sw_copy_2d(s, c, err);

    int64_t chunk = (int64_t)units_of_chunk(l, (size_t)c->rows, c->width);
    for (int64_t at = 0; at < c->rows; at += chunk) {
        struct sw_copy_2d part = *c;

        part.dst = (char *)c->dst + (size_t)at * c->dst_pitch;
        part.src = (const char *)c->src + (size_t)at * c->src_pitch;
        part.rows = c->rows - at < chunk ? c->rows - at : chunk;

        int rc = queue_turn(l, s, (size_t)part.rows * part.width, err);
        if (rc != SW_OK)
            return rc;
        rc = sw_copy_2d(s, &part, err);
        if (rc != SW_OK)
            return rc;
    }

    return SW_OK;
}
