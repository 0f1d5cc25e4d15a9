/* A merge has four moves: every host offers to merge; when all living ones have, host 0 tells them
 * so; each sends its changes, and a mark that it waits for values; when the marks and changes of
 * all are here, host 0 adds, and sends the values and which hosts counted; each says that it has
 * them. A host that is lost before host 0 adds is left out. Messages of a merge may overtake each
 * other, so they are counted.
 *
 * A host can offer the next merge while host 0 still sends the values of the last one to another.
 */
#include "exchange/hosts/hosts_merge.h"

#include "base/os.h"
#include "thread/thread.h"
#include <string.h>

/* Items of messages beyond those of arrays. */
enum mark {
    OFFER,  /* to host 0: this host can merge */
    WAITS,  /* to host 0: this host's values may be written */
    TAKEN,  /* to host 0: and have been used */
    AGREED, /* from host 0: all living hosts can merge */
    ENDS,   /* from host 0: bits of the hosts that counted */
    MARKS
};

struct sw_hosts_merge {
    struct sw_hosts_merge_args args;
    struct sw_hosts_merge_item *items; /* owned [count] */
    int filled;                        /* items that are not empty */
    struct sw_fabric *fabric;          /* borrowed */
    struct sw_mutex lock;              /* guards all below */
    struct sw_cond changed;
    uint64_t living; /* bits of hosts */
    uint64_t done;   /* merges that are over */
    bool offered, agreed;
    bool waits;    /* not on host 0: values may be written */
    int sending;   /* messages whose data is still needed */
    int arrived;   /* not on host 0: values and the end */
    uint64_t ends; /* the content of ENDS */

    /* On host 0. */
    uint64_t ready[2];       /* hosts that offer a merge: odd and even ones */
    int came[SW_MOST_HOSTS]; /* changes of a host, and its marks */

    struct sw_err lost; /* host 0 */
    bool closed;
};

/* ---- Life ---- */

int sw_hosts_merge_new(const struct sw_hosts_merge_args *args, struct sw_hosts_merge **out,
                       struct sw_err *err)
{
    if (args->hosts < 2 || args->hosts > SW_MOST_HOSTS || args->own < 0 || args->own >= args->hosts)
        return sw_err_set(err, SW_ERR_INVALID, "host %d of %d; 2 to %d hosts are possible",
                          args->own, args->hosts, SW_MOST_HOSTS);

    struct sw_hosts_merge *m = sw_calloc(1, sizeof *m);
    if (!m)
        return sw_err_nomem(err, "merges of hosts", sizeof *m);

    m->args = *args;
    m->living = UINT64_MAX >> (64 - args->hosts);
    sw_mutex_init(&m->lock);
    sw_cond_init(&m->changed);

    m->items = sw_calloc((size_t)args->count + 1, sizeof *m->items);
    if (!m->items) {
        sw_hosts_merge_free(m);
        return sw_err_nomem(err, "merges of hosts", (size_t)args->count * sizeof *m->items);
    }

    memcpy(m->items, args->items, (size_t)args->count * sizeof *m->items);
    m->args.items = NULL; /* the caller's */
    for (int i = 0; i < args->count; i++)
        m->filled += m->items[i].elements > 0;

    *out = m;
    return SW_OK;
}

void sw_hosts_merge_free(struct sw_hosts_merge *m)
{
    if (!m)
        return;

    sw_free(m->items);
    sw_cond_fini(&m->changed);
    sw_mutex_fini(&m->lock);
    sw_free(m);
}

int sw_hosts_merge_room(const struct sw_hosts_merge *m)
{
    return m->filled + 2 * MARKS;
}

void sw_hosts_merge_start(struct sw_hosts_merge *m, struct sw_fabric *f)
{
    m->fabric = f;
}

void sw_hosts_merge_close_v(void *merge)
{
    struct sw_hosts_merge *m = merge;

    sw_mutex_lock(&m->lock);
    m->closed = true;
    sw_cond_broadcast(&m->changed);
    sw_mutex_unlock(&m->lock);
}

/* ---- Messages ---- */

static void sent(void *user, int rc)
{
    struct sw_hosts_merge *m = user;

    sw_mutex_lock(&m->lock);
    m->sending--;
    sw_cond_broadcast(&m->changed);
    sw_mutex_unlock(&m->lock);
}

/* A lost host is no error. */
static int send(struct sw_hosts_merge *m, int to, int item, uint64_t version, const void *data,
                struct sw_err *err)
{
    bool is_mark = item >= m->args.count;
    size_t bytes = is_mark ? 0 : (size_t)m->items[item].elements * sizeof(float);
    const struct sw_fabric_tag tag = {.kind = to == 0 ? SW_HOSTS_CHANGE : SW_HOSTS_VALUE,
                                      .urgency = is_mark ? 0 : m->items[item].urgency,
                                      .item = (uint32_t)item,
                                      .version = version};

    if (item == m->args.count + ENDS)
        bytes = sizeof m->ends;

    sw_mutex_lock(&m->lock);
    m->sending++;
    sw_mutex_unlock(&m->lock);

    int rc = sw_fabric_send(m->fabric, to, &tag, data, bytes, sent, m, err);
    if (rc != SW_OK)
        sent(m, rc);
    return rc == SW_ERR_LOST ? SW_OK : rc;
}

static int send_mark(struct sw_hosts_merge *m, int to, enum mark mark, uint64_t version,
                     struct sw_err *err)
{
    return send(m, to, m->args.count + (int)mark, version, mark == ENDS ? &m->ends : NULL, err);
}

/* ---- The agreement ---- */

/* On host 0, under the lock: do all living hosts offer the next merge, and was that not known? */
static bool agree(struct sw_hosts_merge *m)
{
    uint64_t ready = m->ready[(m->done + 1) & 1] | 1;

    if (m->args.own != 0 || !m->offered || m->agreed || (m->living & ~ready))
        return false;

    m->agreed = true;
    sw_cond_broadcast(&m->changed);
    return true;
}

static int tell_agreed(struct sw_hosts_merge *m, uint64_t version, struct sw_err *err)
{
    for (int to = 1; to < m->args.hosts; to++) {
        int rc = send_mark(m, to, AGREED, version, err);
        if (rc != SW_OK)
            return rc;
    }

    return SW_OK;
}

int sw_hosts_merge_offer(struct sw_hosts_merge *m, struct sw_err *err)
{
    sw_mutex_lock(&m->lock);

    bool first = !m->offered;
    uint64_t version = m->done + 1;
    m->offered = true;
    bool tells = agree(m);

    sw_mutex_unlock(&m->lock);

    if (tells)
        return tell_agreed(m, version, err);
    return first && m->args.own != 0 ? send_mark(m, 0, OFFER, version, err) : SW_OK;
}

bool sw_hosts_merge_is_agreed(struct sw_hosts_merge *m)
{
    sw_mutex_lock(&m->lock);
    bool agreed = m->agreed;
    sw_mutex_unlock(&m->lock);

    return agreed;
}

/* ---- Merging ---- */

/* Changes that a host sends, and its first mark. */
static int expected(const struct sw_hosts_merge *m)
{
    return (m->args.change ? m->filled : 0) + 1;
}

static bool is_agreed(const struct sw_hosts_merge *m)
{
    return m->agreed;
}

/* On host 0. */
static bool has_changes(const struct sw_hosts_merge *m)
{
    for (int i = 1; i < m->args.hosts; i++)
        if ((m->living >> i & 1) && m->came[i] < expected(m))
            return false;
    return true;
}

/* On host 0. */
static bool has_taken(const struct sw_hosts_merge *m)
{
    for (int i = 1; i < m->args.hosts; i++)
        if ((m->living >> i & 1) && m->came[i] <= expected(m))
            return false;
    return m->sending == 0;
}

/* Not on host 0. */
static bool has_values(const struct sw_hosts_merge *m)
{
    return m->arrived == m->filled + 1 && m->sending == 0;
}

static int wait_until(struct sw_hosts_merge *m, bool (*holds)(const struct sw_hosts_merge *m),
                      struct sw_err *err)
{
    int rc = SW_OK;

    sw_fabric_await(m->fabric, 1);
    sw_mutex_lock(&m->lock);

    while (!holds(m) && !m->closed && m->lost.code == SW_OK)
        sw_cond_wait(&m->changed, &m->lock);

    if (!holds(m))
        rc = m->lost.code != SW_OK ? sw_err_set(err, SW_ERR_LOST, "%s", m->lost.text)
                                   : sw_err_set(err, SW_ERR_CANCELLED, "the job is ending");

    sw_mutex_unlock(&m->lock);
    sw_fabric_await(m->fabric, -1);
    return rc;
}

/* Host 0 decides whose changes count. */
static uint64_t count_hosts(struct sw_hosts_merge *m)
{
    uint64_t hosts = 1;

    sw_mutex_lock(&m->lock);
    for (int i = 1; i < m->args.hosts; i++)
        if (m->came[i] == expected(m))
            hosts |= m->living & (uint64_t)1 << i;
    m->ends = hosts;
    sw_mutex_unlock(&m->lock);

    return hosts;
}

static int send_values(struct sw_hosts_merge *m, uint64_t version, struct sw_err *err)
{
    int rc = SW_OK;

    for (int to = 1; to < m->args.hosts && rc == SW_OK; to++) {
        for (int i = 0; i < m->args.count && rc == SW_OK; i++)
            if (m->items[i].elements > 0)
                rc = send(m, to, i, version, m->args.value(m->args.user, i), err);
        if (rc == SW_OK)
            rc = send_mark(m, to, ENDS, version, err);
    }

    return rc;
}

static int lead(struct sw_hosts_merge *m, uint64_t version, struct sw_err *err)
{
    int rc = wait_until(m, has_changes, err);
    if (rc != SW_OK)
        return rc;

    uint64_t hosts = count_hosts(m);
    if (m->args.add)
        m->args.add(m->args.user, hosts & ~(uint64_t)1);

    rc = send_values(m, version, err);
    return rc == SW_OK ? wait_until(m, has_taken, err) : rc;
}

static int follow(struct sw_hosts_merge *m, uint64_t version, struct sw_err *err)
{
    int rc = SW_OK;

    sw_mutex_lock(&m->lock);
    m->waits = true;
    sw_mutex_unlock(&m->lock);

    for (int i = 0; i < m->args.count && m->args.change && rc == SW_OK; i++)
        if (m->items[i].elements > 0)
            rc = send(m, 0, i, version, m->args.change(m->args.user, m->args.own, i), err);
    if (rc == SW_OK)
        rc = send_mark(m, 0, WAITS, version, err);

    if (rc == SW_OK)
        rc = wait_until(m, has_values, err);
    if (rc != SW_OK)
        return rc;

    if (m->args.take)
        m->args.take(m->args.user);
    return send_mark(m, 0, TAKEN, version, err);
}

static void end(struct sw_hosts_merge *m, uint64_t *hosts)
{
    sw_mutex_lock(&m->lock);

    if (hosts)
        *hosts = m->ends;
    m->done++;
    m->offered = m->agreed = m->waits = false;
    m->arrived = 0;
    m->ready[m->done & 1] = 0;
    memset(m->came, 0, sizeof m->came);

    sw_mutex_unlock(&m->lock);
}

int sw_hosts_merge(struct sw_hosts_merge *m, uint64_t *hosts, struct sw_err *err)
{
    uint64_t version = m->done + 1; /* changed by this thread only */

    int rc = sw_hosts_merge_offer(m, err);
    if (rc != SW_OK)
        return rc;
    rc = wait_until(m, is_agreed, err);
    if (rc != SW_OK)
        return rc;
    rc = m->args.own == 0 ? lead(m, version, err) : follow(m, version, err);
    if (rc != SW_OK)
        return rc;

    end(m, hosts);
    return SW_OK;
}

/* ---- The sink ---- */

/* Under the lock: may the message come now? */
static bool may_come(const struct sw_hosts_merge *m, int from, const struct sw_fabric_tag *tag)
{
    int mark = (int)tag->item - m->args.count;
    bool is_next = tag->version == m->done + 1;

    if (m->args.own != 0)
        return tag->kind == SW_HOSTS_VALUE && from == 0 && is_next &&
               (mark == AGREED ? m->offered && !m->agreed
                               : m->waits && (mark < 0 || mark == ENDS) && m->arrived <= m->filled);
    if (tag->kind != SW_HOSTS_CHANGE)
        return false;
    if (mark == OFFER)
        return (is_next || tag->version == m->done + 2) &&
               !(m->ready[tag->version & 1] >> from & 1);

    if (mark == TAKEN)
        return is_next && m->came[from] == expected(m);
    return is_next && m->agreed && (mark == WAITS || (mark < 0 && m->args.change)) &&
           m->came[from] < expected(m);
}

static int place(void *merge, int from, const struct sw_fabric_tag *tag, size_t bytes, void **to,
                 struct sw_err *err)
{
    struct sw_hosts_merge *m = merge;
    bool is_mark = tag->item >= (uint32_t)m->args.count;
    size_t room = is_mark ? 0 : (size_t)m->items[tag->item].elements * sizeof(float);

    sw_mutex_lock(&m->lock);
    bool comes = tag->item < (uint32_t)(m->args.count + MARKS) && may_come(m, from, tag);
    sw_mutex_unlock(&m->lock);

    if (is_mark && (int)tag->item - m->args.count == ENDS)
        room = sizeof m->ends;
    if (!comes || bytes != room || tag->urgency != (is_mark ? 0 : m->items[tag->item].urgency))
        return sw_err_set(
            err, SW_ERR_INVALID,
            "it sent %zu bytes of kind %d, item %lu, version %llu, which nobody waits for", bytes,
            tag->kind, (unsigned long)tag->item, (unsigned long long)tag->version);

    if (!is_mark)
        *to = m->args.own == 0 ? m->args.change(m->args.user, from, (int)tag->item)
                               : m->args.value(m->args.user, (int)tag->item);
    else if (room > 0)
        *to = &m->ends;
    return SW_OK;
}

static int arrived(void *merge, int from, const struct sw_fabric_tag *tag, void *data, size_t bytes,
                   struct sw_err *err)
{
    struct sw_hosts_merge *m = merge;
    int mark = (int)tag->item - m->args.count;

    sw_mutex_lock(&m->lock);

    if (mark == OFFER)
        m->ready[tag->version & 1] |= (uint64_t)1 << from;
    else if (mark == AGREED)
        m->agreed = true;
    else if (m->args.own == 0)
        m->came[from]++;
    else
        m->arrived++;

    bool tells = agree(m);
    uint64_t version = m->done + 1;
    sw_cond_broadcast(&m->changed);

    sw_mutex_unlock(&m->lock);
    if (!tells)
        return SW_OK;

    /* That the job ends is no fault of the sender. */
    int rc = tell_agreed(m, version, err);
    return rc == SW_ERR_CANCELLED ? SW_OK : rc;
}

static void lost(void *merge, int host, const struct sw_err *why)
{
    struct sw_hosts_merge *m = merge;
    struct sw_err err;

    sw_mutex_lock(&m->lock);

    m->living &= ~((uint64_t)1 << host);
    if (host == 0)
        m->lost = *why;
    bool tells = agree(m);
    uint64_t version = m->done + 1;
    sw_cond_broadcast(&m->changed);

    sw_mutex_unlock(&m->lock);

    int rc = tells ? tell_agreed(m, version, &err) : SW_OK;
    (void)rc; /* the job ends, which sw_hosts_merge finds as well */
}

struct sw_fabric_sink sw_hosts_merge_sink(struct sw_hosts_merge *m)
{
    return (struct sw_fabric_sink){.place = place, .arrived = arrived, .lost = lost, .user = m};
}
