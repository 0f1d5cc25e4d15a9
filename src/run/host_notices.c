/* Numbers that hosts tell each other when the job ends, beside the sums, and a file. Room for the
 * numbers is in the struct; each is told once. */
#include "base/os.h"
#include "run/job_hosts.h"

enum { CHECK_MS = 100 };

void sw_host_notices_init(struct sw_host_notices *n)
{
    *n = (struct sw_host_notices){0};
    sw_mutex_init(&n->lock);
    sw_cond_init(&n->changed);
}

void sw_host_notices_fini(struct sw_host_notices *n)
{
    sw_free(n->keeps); /* the fabric is closed */
    sw_cond_fini(&n->changed);
    sw_mutex_fini(&n->lock);
}

static int place_file(struct sw_host_notices *n, int from, size_t bytes, void **to,
                      struct sw_err *err)
{
    sw_mutex_lock(&n->lock);
    char *data = from == n->inbox.from && bytes == n->inbox.bytes ? n->inbox.data : NULL;
    sw_mutex_unlock(&n->lock);

    *to = data;
    return data ? SW_OK
                : sw_err_set(err, SW_ERR_INVALID, "it sent a file that nobody has asked for");
}

static int place(void *notices, int from, const struct sw_fabric_tag *tag, size_t bytes, void **to,
                 struct sw_err *err)
{
    struct sw_host_notices *n = notices;

    if (tag->kind == SW_HOST_FILE)
        return place_file(n, from, bytes, to, err);
    if (tag->item >= SW_HOST_NOTICES || bytes != sizeof **n->room)
        return sw_err_set(err, SW_ERR_INVALID, "it told something that does not exist");

    *to = &n->room[tag->item][from];
    return SW_OK;
}

static int arrived(void *notices, int from, const struct sw_fabric_tag *tag, void *data,
                   size_t bytes, struct sw_err *err)
{
    struct sw_host_notices *n = notices;

    sw_mutex_lock(&n->lock);
    if (tag->kind == SW_HOST_FILE)
        n->inbox.complete = true;
    else
        n->heard[tag->item] |= (uint64_t)1 << from;
    sw_cond_broadcast(&n->changed);
    sw_mutex_unlock(&n->lock);
    return SW_OK;
}

static void lost(void *notices, int host, const struct sw_err *why)
{
    struct sw_host_notices *n = notices;

    sw_mutex_lock(&n->lock);
    n->lost |= (uint64_t)1 << host;
    sw_cond_broadcast(&n->changed);
    sw_mutex_unlock(&n->lock);
}

uint64_t sw_host_notices_lost(struct sw_host_notices *n)
{
    sw_mutex_lock(&n->lock);
    uint64_t bits = n->lost;
    sw_mutex_unlock(&n->lock);
    return bits;
}

struct sw_fabric_sink sw_host_notices_sink(struct sw_host_notices *n)
{
    return (struct sw_fabric_sink){.place = place, .arrived = arrived, .lost = lost, .user = n};
}

void sw_host_notices_tell(struct sw_host_notices *n, struct sw_fabric *f,
                          const struct sw_hosts *hosts, enum sw_host_notice what, int64_t value)
{
    const struct sw_fabric_tag tag = {.kind = SW_HOST_NOTICE, .item = what};
    struct sw_err ignored;

    n->own[what] = value;
    for (int i = 0; i < hosts->count; i++) {
        if (i == hosts->own)
            continue;

        int rc = sw_fabric_send(f, i, &tag, &n->own[what], sizeof *n->own, NULL, NULL, &ignored);
        (void)rc; /* it is lost */
    }
}

/* With the lock: waits for a change; false: it is not worth it, the host has gone, or the time is
 * over. */
static bool wait_for_host(struct sw_host_notices *n, const struct sw_fabric *f, int host,
                          int64_t until_ns)
{
    const uint64_t bit = (uint64_t)1 << host;

    if ((n->lost & bit) || !(sw_fabric_alive(f) & bit) || sw_os()->monotonic_ns() >= until_ns)
        return false;
    sw_cond_wait_ms(&n->changed, &n->lock, CHECK_MS);
    return true;
}

bool sw_host_notices_receive(struct sw_host_notices *n, struct sw_fabric *f,
                             const struct sw_hosts *hosts, const struct sw_host_inbox *room,
                             int timeout_ms)
{
    const int64_t until_ns = sw_os()->monotonic_ns() + (int64_t)timeout_ms * 1000000;

    sw_mutex_lock(&n->lock);
    n->inbox = *room;
    sw_mutex_unlock(&n->lock);
    sw_host_notices_tell(n, f, hosts, SW_HOST_ROOM, (int64_t)room->bytes);

    sw_mutex_lock(&n->lock);
    while (!n->inbox.complete && wait_for_host(n, f, room->from, until_ns))
        ;
    const bool complete = n->inbox.complete;
    sw_mutex_unlock(&n->lock);

    return complete;
}

static void on_sent(void *notices, int rc)
{
    struct sw_host_notices *n = notices;

    sw_mutex_lock(&n->lock);
    n->sent = true;
    sw_cond_broadcast(&n->changed);
    sw_mutex_unlock(&n->lock);
}

void sw_host_notices_send(struct sw_host_notices *n, struct sw_fabric *f, const char *data,
                          size_t bytes, int timeout_ms)
{
    const struct sw_fabric_tag tag = {.kind = SW_HOST_FILE};
    const int64_t until_ns = sw_os()->monotonic_ns() + (int64_t)timeout_ms * 1000000;
    struct sw_err ignored;

    if (sw_fabric_send(f, 0, &tag, data, bytes, on_sent, n, &ignored) != SW_OK)
        return; /* it is lost */

    sw_mutex_lock(&n->lock);
    while (!n->sent && wait_for_host(n, f, 0, until_ns))
        ;
    sw_mutex_unlock(&n->lock);
}

uint64_t sw_host_notices_await(struct sw_host_notices *n, const struct sw_fabric *f,
                               enum sw_host_notice what, uint64_t from, int timeout_ms)
{
    const int64_t until_ns = sw_os()->monotonic_ns() + (int64_t)timeout_ms * 1000000;

    sw_mutex_lock(&n->lock);
    while ((from & ~n->heard[what] & ~n->lost & sw_fabric_alive(f)) != 0 &&
           sw_os()->monotonic_ns() < until_ns)
        sw_cond_wait_ms(&n->changed, &n->lock, CHECK_MS);

    uint64_t heard = from & n->heard[what];
    sw_mutex_unlock(&n->lock);
    return heard;
}
