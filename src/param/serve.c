/* The table in motion: what workers say and how servers answer, under BSP. The rule of the tech
 * report's Algorithms 3 and 4 as meant: a slice has one threshold, the number of contributions; an
 * update that comes early waits and is never lost. */
#include "param/table_private.h"

#include "base/os.h"
#include <string.h>

enum { SPINS = 200 };

void sw_table_wake(struct sw_table *t)
{
    if (__atomic_load_n(&t->waiters, __ATOMIC_SEQ_CST) == 0)
        return;
    sw_mutex_lock(&t->lock);
    sw_cond_broadcast(&t->changed);
    sw_mutex_unlock(&t->lock);
}

int sw_table_update(struct sw_table *t, int worker, int param, uint64_t version)
{
    struct sw_message m = {
        .kind = SW_MSG_UPDATE, .from = worker, .param = param, .version = version};
    for (int s = 0; s < t->args.servers; s++) {
        const struct sw_server_state *server = &t->servers[s];
        int from = server->first[param], to = server->first[param + 1];
        if (from == to)
            continue;
        m.bytes = 0;
        for (int i = from; i < to; i++)
            m.bytes += t->slices[server->slices[i]].count * (int64_t)sizeof(float);
        int rc = sw_channel_send(&t->servers[s].inbox, &m);
        if (rc != SW_OK)
            return rc;
    }
    sw_table_wake(t);
    return SW_OK;
}

bool sw_table_ready(const struct sw_table *t, int param, uint64_t version)
{
    const struct sw_param *p = &t->params[param];
    /* The values written before the counter moved are seen; and sequentially consistent with
     * wake, so that a waiter that says so and then looks here is not missed. */
    return __atomic_load_n(&p->applied, __ATOMIC_SEQ_CST) >= version * (uint64_t)p->slice_count;
}

/* Sleeps until something changes, with the lock held: most wakings are for other parameters, so the
 * time is counted from the start. SW_ERR_BUSY when it is over. */
static int sleep_until(struct sw_table *t, int64_t deadline_ns)
{
    int64_t left_ns = deadline_ns - sw_os()->monotonic_ns();
    int left_ms = left_ns > 0 ? (int)((left_ns + 999999) / 1000000) : 0;
    return left_ms > 0 && sw_cond_wait_ms(&t->changed, &t->lock, left_ms) ? SW_OK : SW_ERR_BUSY;
}

static bool has_mail(const struct sw_table *t, const int *served, int count)
{
    for (int i = 0; i < count; i++)
        if (sw_channel_pending(&t->servers[served[i]].inbox))
            return true;
    return false;
}

/* A short look before sleeping: what is waited for is mostly microseconds away. */
static int look(const struct sw_table *t, int param, uint64_t version, const int *served, int count)
{
    for (int i = 0; i < SPINS; i++) {
        if (sw_table_ready(t, param, version))
            return SW_OK;
        if (has_mail(t, served, count))
            return SW_ERR_BUSY;
    }
    return SW_ERR_CANCELLED;
}

int sw_table_wait(struct sw_table *t, int param, uint64_t version, const int *served, int count,
                  int timeout_ms)
{
    int rc = look(t, param, version, served, count);
    if (rc != SW_ERR_CANCELLED)
        return rc;
    int64_t deadline_ns = sw_os()->monotonic_ns() + (int64_t)timeout_ms * 1000000;
    sw_mutex_lock(&t->lock);
    /* Sequentially consistent with the reading in wake: one of the two sees the other. */
    __atomic_add_fetch(&t->waiters, 1, __ATOMIC_SEQ_CST);
    for (rc = SW_OK; rc == SW_OK && !t->closed && !sw_table_ready(t, param, version) &&
                     !has_mail(t, served, count);)
        rc = sleep_until(t, deadline_ns);
    __atomic_sub_fetch(&t->waiters, 1, __ATOMIC_SEQ_CST);
    bool ready = sw_table_ready(t, param, version);
    rc = ready ? SW_OK : t->closed ? SW_ERR_CANCELLED : SW_ERR_BUSY;
    sw_mutex_unlock(&t->lock);
    return rc;
}

struct sw_channel *sw_table_inbox(struct sw_table *t, int server)
{
    return &t->servers[server].inbox;
}

bool sw_table_has_slices(const struct sw_table *t, int server, int param)
{
    return t->servers[server].first[param] < t->servers[server].first[param + 1];
}

int64_t sw_table_link_bytes(const struct sw_table *t, int worker, int server)
{
    int64_t bytes = 0;
    for (int i = 0; i < t->servers[server].slice_count; i++) {
        const struct sw_slice *s = &t->slices[t->servers[server].slices[i]];
        int owner = t->params[s->param].owner;
        if (owner < 0 || owner == worker)
            bytes += s->count * (int64_t)sizeof(float);
    }
    return bytes;
}

int64_t sw_table_served_ns(const struct sw_table *t, int server)
{
    return __atomic_load_n(&t->servers[server].served_ns, __ATOMIC_RELAXED);
}

void sw_table_close_v(void *table)
{
    struct sw_table *t = table;
    sw_mutex_lock(&t->lock);
    t->closed = true;
    sw_cond_broadcast(&t->changed);
    sw_mutex_unlock(&t->lock);
    for (int i = 0; i < t->args.servers; i++)
        if (t->servers[i].inbox_open)
            sw_channel_close(&t->servers[i].inbox);
}

void sw_table_update_terms(const struct sw_table *t, int param, uint64_t version,
                           struct sw_update_args *a)
{
    const struct sw_param *p = &t->params[param];
    a->lr = (float)(sw_table_rate(t, version - 1) * (double)p->lr_mult);
    a->weight_decay = (float)(t->args.common->weight_decay * (double)p->decay_mult);
    a->clip_value = (float)t->args.clip_value;
    a->gradient_scale = 1;
    a->step = version - 1 - t->dropped;
}

/* What an update of a slice is made of; `more` has room for all workers. The decision is NULL where
 * the slice is updated alone; else its gradient is summed already. */
static struct sw_update_args update_of(const struct sw_table *t, const struct sw_slice *s,
                                       const struct sw_table_decision *d, const float **more)
{
    const struct sw_param *p = &t->params[s->param];
    struct sw_update_args a = {
        .value = p->value + s->from,
        .gradient = p->gradient[p->owner < 0 ? 0 : p->owner] + s->from,
        .more = more,
        .more_count = d ? 0 : sw_table_givers(t, s->param) - 1,
        .count = s->count,
        .value_norm = p->value_norm,
        .gradient_norm = p->gradient_norm,
    };
    sw_table_update_terms(t, s->param, s->version + 1, &a);
    if (d) {
        a.clip_value = 0;
        a.gradient_scale = d->scale;
    }
    for (int w = 1; w <= a.more_count; w++)
        more[w - 1] = p->gradient[w] + s->from;
    for (int i = 0; i < t->slots; i++)
        a.slot[i] = p->slot[i] + s->from;
    return a;
}

static int update(struct sw_table *t, const struct sw_slice *s, const struct sw_table_decision *d,
                  struct sw_err *err)
{
    const float *more[SW_TABLE_WORKERS];
    bool non_finite = false;
    struct sw_update_args a = update_of(t, s, d, more);
    a.non_finite = &non_finite;
    sw_updater_apply(t->args.updater, t->args.updater_conf, &a);
    return non_finite ? sw_table_bad_value(t, s->param, s->version + 1, err) : SW_OK;
}

/* Moves a complete slice to its next version, with the update or without. */
static int apply(struct sw_table *t, int server, struct sw_slice *s,
                 const struct sw_table_decision *d, struct sw_err *err)
{
    bool dropped = d && d->dropped;
    int64_t begin_ns = sw_os()->monotonic_ns();
    int rc = dropped ? SW_OK : update(t, s, d, err);
    if (rc != SW_OK)
        return rc;
    s->version++;
    s->contributions = 0;
    if (t->watch && !dropped)
        t->watch(t->watch_user, server, s->param, s->version, begin_ns, sw_os()->monotonic_ns());
    __atomic_add_fetch(&t->params[s->param].applied, 1, __ATOMIC_SEQ_CST);
    sw_table_wake(t);
    return SW_OK;
}

/* All slices of a parameter on one server move together, so the first tells the version. */
static uint64_t version_of(const struct sw_table *t, const struct sw_server_state *s, int param)
{
    return t->slices[s->slices[s->first[param]]].version;
}

static void forget_heard(struct sw_table *t, int server, int param)
{
    memset(&t->servers[server].heard[param * t->args.workers], 0, (size_t)t->args.workers);
}

/* One worker's contribution to every slice that the server owns of the parameter. */
static int contribute(struct sw_table *t, int server, const struct sw_message *m,
                      struct sw_err *err)
{
    const struct sw_server_state *s = &t->servers[server];
    bool *heard = &s->heard[m->param * t->args.workers + m->from];
    int gathered = 0, rc = SW_OK;
    if (*heard)
        return sw_err_set(err, SW_ERR_INVALID,
                          "worker %d sent its gradient of %s for step %llu twice", m->from,
                          t->params[m->param].name, (unsigned long long)m->version);
    *heard = true;
    for (int i = s->first[m->param]; i < s->first[m->param + 1] && rc == SW_OK; i++) {
        struct sw_slice *slice = &t->slices[s->slices[i]];
        if (++slice->contributions < sw_table_givers(t, m->param))
            continue;
        gathered++;
        rc = t->phases.on ? sw_table_gather(t, slice, err) : apply(t, server, slice, NULL, err);
    }
    if (rc != SW_OK)
        return rc;
    if (version_of(t, s, m->param) == m->version)
        forget_heard(t, server, m->param);
    if (t->phases.on && sw_table_gathered(t, gathered) != SW_OK)
        return sw_err_set(err, SW_ERR_CANCELLED, "the job is ending");
    return SW_OK;
}

static int keep_early(struct sw_server_state *s, const struct sw_message *m, struct sw_err *err)
{
    if (s->early_count == s->early_capacity)
        return sw_err_set(err, SW_ERR_INVALID, "more than %d updates are ahead of their turn",
                          s->early_capacity);
    s->early[s->early_count++] = *m;
    return SW_OK;
}

/* Takes up early updates whose turn has come, until none is left that can be. */
static int take_up_early(struct sw_table *t, int server, struct sw_err *err)
{
    struct sw_server_state *s = &t->servers[server];
    for (int i = 0; i < s->early_count;) {
        struct sw_message m = s->early[i];
        if (m.version != version_of(t, s, m.param) + 1) {
            i++;
            continue;
        }
        memmove(&s->early[i], &s->early[i + 1],
                (size_t)(s->early_count - i - 1) * sizeof *s->early);
        s->early_count--;
        int rc = contribute(t, server, &m, err);
        if (rc != SW_OK)
            return rc;
        i = 0;
    }
    return SW_OK;
}

static int bsp_update(struct sw_table *t, int server, const struct sw_message *m,
                      struct sw_err *err)
{
    struct sw_server_state *s = &t->servers[server];
    uint64_t version = version_of(t, s, m->param);
    if (m->version <= version)
        return sw_err_set(err, SW_ERR_INVALID,
                          "worker %d sent its gradient of %s for step %llu, which is applied",
                          m->from, t->params[m->param].name, (unsigned long long)m->version);
    if (m->version > version + 1)
        return keep_early(s, m, err);
    int rc = contribute(t, server, m, err);
    if (rc == SW_OK && s->early_count > 0)
        rc = take_up_early(t, server, err);
    return rc;
}

/* The second phase: all slices of the server, the lowest layers first, which the next forward pass
 * needs first. */
static int apply_decision(struct sw_table *t, int server, const struct sw_message *m,
                          struct sw_err *err)
{
    struct sw_server_state *s = &t->servers[server];
    struct sw_table_decision d;
    if (!sw_table_decision(t, m->version, &d))
        return sw_err_set(err, SW_ERR_INVALID, "update %llu is not decided upon",
                          (unsigned long long)m->version);
    int rc = SW_OK;
    for (int i = 0; i < s->slice_count && rc == SW_OK; i++) {
        struct sw_slice *slice = &t->slices[s->slices[i]];
        if (slice->version + 1 != m->version)
            return sw_err_set(err, SW_ERR_INVALID, "update %llu of %s at version %llu",
                              (unsigned long long)m->version, t->params[slice->param].name,
                              (unsigned long long)slice->version);
        rc = apply(t, server, slice, &d, err);
        forget_heard(t, server, slice->param);
    }
    return rc == SW_OK && s->early_count > 0 ? take_up_early(t, server, err) : rc;
}

static bool can_handle(const struct sw_table *t, int server, const struct sw_message *m)
{
    const struct sw_server_state *s = &t->servers[server];
    if (m->kind == SW_MSG_APPLY)
        return t->phases.on;
    return m->kind == SW_MSG_UPDATE && m->param >= 0 && m->param < t->param_count &&
           s->first[m->param] < s->first[m->param + 1] && m->from >= 0 &&
           m->from < t->args.workers &&
           (t->params[m->param].owner < 0 || t->params[m->param].owner == m->from);
}

int sw_table_serve(struct sw_table *t, int server, const struct sw_message *m, struct sw_err *err)
{
    struct sw_server_state *s = &t->servers[server];
    if (!can_handle(t, server, m))
        return sw_err_set(err, SW_ERR_INVALID,
                          "server %d cannot handle message %s of worker %d for parameter %d",
                          server, sw_message_kind_name(m->kind), m->from, m->param);
    int64_t begin_ns = sw_os()->monotonic_ns();
    int rc = m->kind == SW_MSG_APPLY ? apply_decision(t, server, m, err)
                                     : t->args.rule->update(t, server, m, err);
    __atomic_fetch_add(&s->served_ns, sw_os()->monotonic_ns() - begin_ns, __ATOMIC_RELAXED);
    return rc;
}

const struct sw_table_rule sw_table_bsp = {.name = "bsp", .update = bsp_update};
