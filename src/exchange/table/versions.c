/* Versions of parameters: the progress of each update group, waits for a version or a message, and
 * setting versions where a checkpoint or a later stage begins. */
#include "exchange/table/table_private.h"

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

uint64_t sw_table_slowest(const struct sw_table *t, int param)
{
    const struct sw_param *p = &t->params[param];
    uint64_t least = UINT64_MAX;

    for (int r = 0; r < t->update_groups; r++) {
        uint64_t ready = __atomic_load_n(&p->view[r].ready, __ATOMIC_SEQ_CST);
        least = ready < least && !sw_table_is_lost(t, r) ? ready : least;
    }

    return p->slice_count > 0 ? least / (uint64_t)p->slice_count : UINT64_MAX;
}

bool sw_table_is_lost(const struct sw_table *t, int group)
{
    return __atomic_load_n(&t->lost[group].lost, __ATOMIC_SEQ_CST) != 0;
}

static bool is_settled(const struct sw_table *t, int group)
{
    return __atomic_load_n(&t->lost[group].settled, __ATOMIC_SEQ_CST) != 0;
}

/* Do the values that the update group, or each one, reads contain `version` of its updates? */
static bool has(const struct sw_table *t, int group, int param, uint64_t version)
{
    const struct sw_param *p = &t->params[param];
    int from = group == SW_TABLE_ALL ? 0 : group,
        to = group == SW_TABLE_ALL ? t->update_groups : from + 1;

    for (int r = from; r < to; r++)
        /* Acquires the values written before the counter was advanced. Sequentially consistent with
         * sw_table_wake, so that a waiter that registers and then checks here is not missed. */
        if (__atomic_load_n(&p->view[r].ready, __ATOMIC_SEQ_CST) <
                version * (uint64_t)p->slice_count &&
            !(group == SW_TABLE_ALL && is_settled(t, r)))
            return false;

    return true;
}

bool sw_table_ready(const struct sw_table *t, int group, int param, uint64_t version)
{
    /* Asynchronous groups that read in place check the bound themselves, because no server answers.
     */
    bool bounded = t->args.rule->is_async && t->args.rule->in_place && t->args.staleness >= 0;
    uint64_t bound = (uint64_t)t->args.staleness;

    if (!has(t, group, param, version))
        return false;

    return group == SW_TABLE_ALL || !bounded || version <= bound ||
           has(t, SW_TABLE_ALL, param, version - bound);
}

/* Sleeps until something changes, with the lock held. Most wakeups are for other parameters, so the
 * timeout counts from the start. SW_ERR_BUSY on timeout. */
static int sleep_until(struct sw_table *t, int64_t deadline_ns)
{
    int64_t left_ns = deadline_ns - sw_os()->monotonic_ns();
    int left_ms = left_ns > 0 ? (int)((left_ns + 999999) / 1000000) : 0;
    return left_ms > 0 && sw_cond_wait_ms(&t->changed, &t->lock, left_ms) ? SW_OK : SW_ERR_BUSY;
}

static bool has_message(const struct sw_table *t, const int *served, int count)
{
    for (int i = 0; i < count; i++)
        if (sw_queue_pending(&t->servers[served[i]].inbox))
            return true;
    return false;
}

/* Spins briefly before sleeping: the version is usually microseconds away. SW_ERR_CANCELLED: not
 * found, sleep. */
static int spin(const struct sw_table *t, int group, int param, uint64_t version, const int *served,
                int count)
{
    for (int i = 0; i < SPINS; i++) {
        if (sw_table_ready(t, group, param, version))
            return SW_OK;
        if (has_message(t, served, count))
            return SW_ERR_BUSY;
    }

    return SW_ERR_CANCELLED;
}

int sw_table_wait(struct sw_table *t, int group, int param, uint64_t version, const int *served,
                  int count, int timeout_ms)
{
    int rc = spin(t, group, param, version, served, count);
    if (rc != SW_ERR_CANCELLED)
        return rc;

    int64_t deadline_ns = sw_os()->monotonic_ns() + (int64_t)timeout_ms * 1000000;
    sw_mutex_lock(&t->lock);

    /* Sequentially consistent with the load in sw_table_wake: one of the two sees the other. */
    __atomic_add_fetch(&t->waiters, 1, __ATOMIC_SEQ_CST);

    for (rc = SW_OK; rc == SW_OK && !t->closed && !sw_table_ready(t, group, param, version) &&
                     !has_message(t, served, count);)
        rc = sleep_until(t, deadline_ns);

    __atomic_sub_fetch(&t->waiters, 1, __ATOMIC_SEQ_CST);

    bool ready = sw_table_ready(t, group, param, version);
    rc = ready ? SW_OK : t->closed ? SW_ERR_CANCELLED : SW_ERR_BUSY;
    sw_mutex_unlock(&t->lock);

    return rc;
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
            sw_queue_close(&t->servers[i].inbox);
}

void sw_table_put_group(struct sw_table *t, int group, uint64_t version)
{
    for (int i = 0; i < t->args.servers; i++)
        for (int p = 0; p < t->param_count; p++)
            t->servers[i].turns[p * t->update_groups + group] =
                (struct sw_turn){.done = version, .answered = version};

    for (int p = 0; p < t->param_count; p++)
        __atomic_store_n(&t->params[p].view[group].ready,
                         version * (uint64_t)t->params[p].slice_count, __ATOMIC_SEQ_CST);
    if (t->phases)
        t->phases[group].version = version + 1;
}

void sw_table_put_version(struct sw_table *t, uint64_t version, uint64_t updates, uint64_t dropped)
{
    for (int i = 0; i < t->slice_count; i++) {
        t->slices[i].version = updates;
        t->slices[i].dropped = dropped;
    }

    for (int r = 0; r < t->update_groups; r++)
        sw_table_put_group(t, r, version);
    t->dropped = dropped;
    t->before = version - updates;
    t->nonfinite_param = -1;
}

void sw_table_put_param(struct sw_table *t, int param, uint64_t version)
{
    struct sw_param *p = &t->params[param];
    const uint64_t ready = __atomic_load_n(&p->view[0].ready, __ATOMIC_RELAXED);

    for (int i = p->first_slice; i < p->first_slice + p->slice_count; i++) {
        uint64_t more = version - ready / (uint64_t)p->slice_count;

        t->slices[i].version += more * (uint64_t)t->update_groups;
        t->slices[i].dropped = sw_table_dropped(t);
    }

    for (int r = 0; r < t->update_groups; r++)
        /* Releases what the worker wrote into the table to threads that wait for the version. */
        __atomic_store_n(&p->view[r].ready, version * (uint64_t)p->slice_count, __ATOMIC_SEQ_CST);

    sw_table_wake(t);
}

void sw_table_refresh(struct sw_table *t, int group)
{
    for (int i = 0; i < t->param_count; i++) {
        struct sw_param *p = &t->params[i];
        if (p->view[group].value != p->value)
            memcpy(p->view[group].value, p->value, sw_param_array_bytes(p));
        for (int s = 0; s < t->args.servers; s++)
            t->servers[s].turns[i * t->update_groups + group].staleness = 0;
    }
}

uint64_t sw_table_updates(const struct sw_table *t)
{
    return t->slice_count > 0 ? t->slices[0].version : 0;
}

uint64_t sw_table_applied(const struct sw_table *t, int param)
{
    const struct sw_param *p = &t->params[param];
    const struct sw_slice *s = &t->slices[p->first_slice];

    return p->slice_count > 0 ? s->version - s->dropped : 0;
}

uint64_t sw_table_dropped(const struct sw_table *t)
{
    return __atomic_load_n(&t->dropped, __ATOMIC_RELAXED);
}
