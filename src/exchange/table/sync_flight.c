/* Deltas in flight. A delta lies in memory of its origin and is announced by SW_MSG_DELTA, from
 * table to table along the origin's tree. `readers` counts the tables that have not added it yet;
 * until it is 0 the origin posts no other one. Under Hogwild, where servers see no updates, a
 * worker requests an exchange from its servers (SW_MSG_SYNC); a delta and an update may then
 * collide in an element and one of them be lost, as two updates may (kernels/cpu/hogwild.h).
 *
 * To a table elsewhere the delta itself is sent, to this process's room for that origin over there.
 * The room is used until the server has added the delta and all sends that forward it are done
 * (`users`); then the delta is acknowledged to its origin, which is why the next one always finds
 * the room free. */
#include "exchange/table/sync_private.h"

#include "kernels/cpu/hogwild.h"
#include <string.h>

enum { BLOCK = 1024 };

/* ---- Sending ---- */

/* Counts the message before it can be handled, and pushes it, which releases what the sender wrote.
 */
int sw_sync_send(struct sw_sync *s, int from, int to, int server, const struct sw_message *m)
{
    __atomic_add_fetch(&s->in_flight, 1, __ATOMIC_SEQ_CST);

    int rc = sw_queue_push(&s->tables[to]->servers[server].inbox, m);
    if (rc != SW_OK)
        __atomic_sub_fetch(&s->in_flight, 1, __ATOMIC_SEQ_CST);
    else if (from != to)
        __atomic_add_fetch(&s->sent[(from * s->count + to) * s->servers + server], m->bytes,
                           __ATOMIC_RELAXED);

    sw_table_wake(s->tables[to]);
    return rc;
}

/* The `done` of a delta that went to a group elsewhere. */
static void posted(void *user, int rc)
{
    struct sw_sync_post *p = user;
    struct sw_sync *s = p->sync;

    sw_sync_release(s, p);
    __atomic_sub_fetch(&s->in_flight, 1, __ATOMIC_SEQ_CST);
}

int sw_sync_post_outside(struct sw_sync *s, struct sw_sync_post *p, int to, uint64_t version)
{
    const struct sw_sync_slices *unit = &s->units[p->unit];
    const struct sw_sync_delta d = {.origin = p->origin, .unit = p->unit, .version = version};
    int64_t bytes = unit->count * (int64_t)sizeof(float);
    struct sw_err err;

    int rc = s->outer.post(s->outer.user, to, &d, posted, p, &err);
    if (rc != SW_OK)
        posted(p, rc);
    else
        __atomic_add_fetch(&s->sent[(s->own * s->count + to) * s->servers + unit->server], bytes,
                           __ATOMIC_RELAXED);

    return rc == SW_ERR_LOST || rc == SW_ERR_CANCELLED ? SW_OK : rc;
}

/* Forwards the delta of a post from `at` to the next tables of its tree. */
static int forward(struct sw_sync *s, struct sw_sync_post *p, int at, struct sw_message m)
{
    int scratch[SW_SYNC_GROUPS], rc = SW_OK;
    const int *parent = sw_sync_tree(s, p->origin, p->route, scratch);

    for (int to = 0; to < s->count && rc == SW_OK; to++) {
        if (parent[to] != at || !sw_sync_lives(s, to))
            continue;

        if (s->tables[to]) {
            m.from = s->tables[to]->args.workers + 1 + p->origin;
            rc = sw_sync_send(s, at, to, s->units[p->unit].server, &m);
            continue;
        }

        sw_mutex_lock(&s->lock);
        p->users++;
        sw_mutex_unlock(&s->lock);
        __atomic_add_fetch(&s->in_flight, 1, __ATOMIC_SEQ_CST);
        rc = sw_sync_post_outside(s, p, to, m.version);
    }

    return rc;
}

/* ---- Acknowledging ---- */

/* A group that has lost another one may get deltas again that it would have got from there. It asks
 * the origin for them only when it has acknowledged all that it has. */
uint64_t sw_sync_take_untold(struct sw_sync *s, int origin)
{
    if (!s->untold[origin] || s->owing[origin] > 0 || !sw_sync_lives(s, origin))
        return 0;

    s->untold[origin] = false;
    return s->all & ~s->living;
}

void sw_sync_tell_lost(struct sw_sync *s, int origin, uint64_t lost)
{
    struct sw_err err;

    if (!lost)
        return;

    /* Room for it is reserved, so an error says that the origin is lost, or that the job ends. */
    int rc = s->outer.tell_lost(s->outer.user, origin, lost, &err);
    (void)rc;
}

/* Nobody reads the room of an origin elsewhere any more: the delta in it is acknowledged. */
static void acknowledge(struct sw_sync *s, struct sw_sync_post *p, const struct sw_sync_delta *d)
{
    struct sw_err err;
    int rc = s->outer.acknowledge(s->outer.user, d, &err); /* errors: as above */
    (void)rc;

    sw_mutex_lock(&s->lock);

    p->acks--;
    if (p->owes && p->acks == 0 && p->users == 0) {
        p->owes = false;
        s->owing[p->origin]--;
    }

    uint64_t untold = sw_sync_take_untold(s, p->origin);

    sw_mutex_unlock(&s->lock);
    sw_sync_tell_lost(s, p->origin, untold);
}

void sw_sync_release(struct sw_sync *s, struct sw_sync_post *p)
{
    sw_mutex_lock(&s->lock);

    const struct sw_sync_delta d = {.origin = p->origin, .unit = p->unit, .version = p->version};
    bool last = --p->users == 0 && p->origin != s->own;
    p->acks += last;

    sw_mutex_unlock(&s->lock);
    if (last)
        acknowledge(s, p, &d);
}

/* ---- Posting ---- */

/* Computes the delta of the group since the last exchange. Others may change the value meanwhile,
 * without locks: the values that are read count. */
static void take_delta(float *delta, float *base, const float *value, int64_t n)
{
    float now[BLOCK];

    for (int64_t from = 0; from < n; from += BLOCK) {
        int64_t count = n - from < BLOCK ? n - from : BLOCK;

        memcpy(now, value + from, (size_t)count * sizeof *now);

        for (int64_t i = 0; i < count; i++) {
            delta[from + i] = now[i] - base[from + i];
            base[from + i] = now[i];
        }
    }
}

/* Is the last delta still in flight? Acquires the reads of it. */
static bool is_busy(struct sw_sync *s, const struct sw_sync_post *p)
{
    sw_mutex_lock(&s->lock);
    bool busy = p->readers > 0 || p->users > 0;
    sw_mutex_unlock(&s->lock);

    return busy;
}

/* Puts a new delta into the room. */
static void begin(struct sw_sync *s, struct sw_sync_post *p, float *trailer)
{
    sw_mutex_lock(&s->lock);

    p->version = p->done;
    p->route = s->all;
    p->readers = s->count - 1;

    if (s->has_remote) {
        p->route = (s->living & ~s->suspects) | (uint64_t)1 << s->own;
        p->readers = __builtin_popcountll(s->living) - 1;
        memcpy(trailer, &p->route, SW_SYNC_TRAILER);
        if (p->readers > 0)
            __atomic_add_fetch(&s->in_flight, 1, __ATOMIC_SEQ_CST);
    }

    sw_mutex_unlock(&s->lock);
}

static int exchange(struct sw_table *t, int server, int param, uint64_t done)
{
    struct sw_sync *s = t->sync;
    const struct sw_server_state *own = &t->servers[server];
    const struct sw_sync_slices *unit = &s->units[sw_sync_unit_of(s, param, server)];
    struct sw_sync_post *p = sw_sync_post_of(s, t->group_index, sw_sync_unit_of(s, param, server));
    float *delta = s->delta[t->group_index] + unit->offset;
    float *base = s->base[t->group_index] + unit->offset;

    p->done = done;
    if (is_busy(s, p))
        return SW_OK;

    for (int i = own->first[param]; i < own->first[param + 1]; i++) {
        const struct sw_slice *slice = &t->slices[own->slices[i]];

        take_delta(delta, base, t->params[param].value + slice->from, slice->count);
        delta += slice->count;
        base += slice->count;
    }

    begin(s, p, delta);
    return forward(s, p, t->group_index,
                   (struct sw_message){.kind = SW_MSG_DELTA,
                                       .param = param,
                                       .version = done,
                                       .bytes = unit->count * (int64_t)sizeof(float)});
}

static bool is_due(const struct sw_sync *s, uint64_t done)
{
    return s && done > s->after && done % (uint64_t)s->period == 0;
}

static struct sw_sync_post *own_post(const struct sw_table *t, int server, int param)
{
    return sw_sync_post_of(t->sync, t->group_index, sw_sync_unit_of(t->sync, param, server));
}

int sw_sync_after(struct sw_table *t, int server, int param, uint64_t done)
{
    if (!is_due(t->sync, done) || done <= own_post(t, server, param)->done)
        return SW_OK;
    return exchange(t, server, param, done);
}

int sw_sync_request(struct sw_table *t, int worker, int param, uint64_t done)
{
    struct sw_message m = {.kind = SW_MSG_SYNC, .from = worker, .param = param, .version = done};
    int rc = SW_OK;

    if (!is_due(t->sync, done))
        return SW_OK;

    for (int i = 0; i < t->args.servers; i++) {
        if (t->servers[i].first[param] < t->servers[i].first[param + 1] &&
            !__atomic_exchange_n(&own_post(t, i, param)->requested, 1, __ATOMIC_ACQ_REL))
            rc = sw_sync_send(t->sync, t->group_index, t->group_index, i, &m);

        if (rc != SW_OK)
            return rc;
    }

    return SW_OK;
}

/* ---- Adding ---- */

/* A delta of a lost group may still be in the inbox when values have been merged. */
static bool begin_adding(struct sw_sync *s, int table, const struct sw_sync_post *p,
                         uint64_t version)
{
    uint64_t merged =
        __atomic_load_n(sw_sync_merged_of(s, table, p->origin, p->unit), __ATOMIC_RELAXED);

    sw_mutex_lock(&s->lock);
    bool adds = !s->held && (!s->has_remote || version > merged);
    s->adding += adds;
    sw_mutex_unlock(&s->lock);

    return adds;
}

static void end_adding(struct sw_sync *s)
{
    sw_mutex_lock(&s->lock);
    s->adding--;
    sw_cond_broadcast(&s->added);
    sw_mutex_unlock(&s->lock);
}

static void add(struct sw_table *t, int server, const struct sw_sync_post *p, uint64_t version)
{
    struct sw_sync *s = t->sync;
    const struct sw_server_state *own = &t->servers[server];
    const struct sw_sync_slices *unit = &s->units[p->unit];
    const float *delta = s->delta[p->origin] + unit->offset;
    float *base = s->base[t->group_index] + unit->offset;

    for (int i = own->first[unit->param]; i < own->first[unit->param + 1]; i++) {
        const struct sw_slice *slice = &t->slices[own->slices[i]];

        sw_hogwild_add(t->params[unit->param].value + slice->from, delta, NULL, slice->count);
        for (int64_t e = 0; e < slice->count; e++)
            base[e] += delta[e];

        delta += slice->count;
        base += slice->count;
    }

    /* A delta arrives after all earlier ones. Workers that read values in place read this counter.
     */
    __atomic_store_n(sw_sync_merged_of(s, t->group_index, p->origin, p->unit), version,
                     __ATOMIC_RELAXED);
}

/* Forwards the delta first, because others wait for it. */
static int take_up(struct sw_table *t, int server, const struct sw_message *m)
{
    struct sw_sync *s = t->sync;
    int unit = sw_sync_unit_of(s, m->param, server), rc = SW_OK;
    struct sw_sync_post *p = sw_sync_post_of(s, m->from - t->args.workers - 1, unit);

    if (begin_adding(s, t->group_index, p, m->version)) {
        rc = forward(s, p, t->group_index, *m);
        add(t, server, p, m->version);
        end_adding(s);
    }

    if (s->has_remote) {
        sw_sync_release(s, p);
    } else {
        sw_mutex_lock(&s->lock);
        p->readers--;
        sw_mutex_unlock(&s->lock);
    }

    return rc;
}

int sw_sync_handle(struct sw_table *t, int server, const struct sw_message *m)
{
    struct sw_sync *s = t->sync;
    int rc;

    if (m->kind == SW_MSG_SYNC) {
        __atomic_store_n(&own_post(t, server, m->param)->requested, 0, __ATOMIC_RELEASE);
        rc = sw_sync_after(t, server, m->param, m->version);
    } else {
        rc = take_up(t, server, m);
    }

    __atomic_sub_fetch(&s->in_flight, 1, __ATOMIC_SEQ_CST);
    return rc;
}

static bool is_in_room(struct sw_sync *s, const struct sw_sync_post *p, uint64_t version)
{
    sw_mutex_lock(&s->lock);
    bool is = s->has_remote ? p->users > 0 && p->version == version : p->readers > 0;
    sw_mutex_unlock(&s->lock);

    return is;
}

bool sw_sync_can_handle(const struct sw_table *t, int server, const struct sw_message *m)
{
    const struct sw_server_state *s = &t->servers[server];
    int origin = m->from - t->args.workers - 1;

    if (!t->sync || m->param < 0 || m->param >= t->param_count ||
        s->first[m->param] == s->first[m->param + 1])
        return false;
    if (m->kind == SW_MSG_SYNC)
        return m->from >= 0 && m->from < t->args.workers;

    return m->kind == SW_MSG_DELTA && origin >= 0 && origin < t->sync->count &&
           origin != t->group_index &&
           is_in_room(t->sync,
                      sw_sync_post_of(t->sync, origin, sw_sync_unit_of(t->sync, m->param, server)),
                      m->version);
}
