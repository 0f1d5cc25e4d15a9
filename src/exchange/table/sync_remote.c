/* What comes from groups whose tables are elsewhere, and what happens when one is lost.
 *
 * Every delta carries the groups of its tree, so that all forward it along the same one, whoever
 * has been lost meanwhile where. So a group gets a delta from its parent in that tree or, when it
 * has lost this parent, from the origin. It tells every origin of its loss when it has acknowledged
 * the deltas that it already has; the origin then knows which ones it has not, and sends these
 * again. So a delta never arrives twice, and no delta arrives while an earlier one is in the room.
 *
 * A group that anybody has lost forwards nothing any more. */
#include "exchange/table/sync_private.h"

#include <string.h>

static bool is_of(uint64_t groups, int group)
{
    return groups >> group & 1;
}

/* ---- Deltas of others ---- */

static int refuse(const struct sw_sync_delta *d, const char *why, struct sw_err *err)
{
    return sw_err_set(err, SW_ERR_INVALID, "delta %llu of server group %d, unit %d: %s",
                      (unsigned long long)d->version, d->origin, d->unit, why);
}

int sw_sync_place(struct sw_sync *s, int from, const struct sw_sync_delta *d, size_t bytes,
                  void **to, struct sw_err *err)
{
    if (d->origin < 0 || d->origin >= s->count || d->origin == s->own || d->unit < 0 ||
        d->unit >= sw_sync_units(s) || s->units[d->unit].count == 0)
        return refuse(d, "there is none", err);

    const struct sw_sync_slices *unit = &s->units[d->unit];
    struct sw_sync_post *p = sw_sync_post_of(s, d->origin, d->unit);
    if (bytes != sw_sync_room_bytes(s, d->unit))
        return refuse(d, "its size is wrong", err);

    sw_mutex_lock(&s->lock);

    bool is_free = p->writer < 0 && p->users == 0;
    if (is_free) {
        p->writer = from;
        p->version = d->version;
    }

    sw_mutex_unlock(&s->lock);
    if (!is_free)
        return refuse(d, "the one before is still used", err);

    *to = s->delta[d->origin] + unit->offset;
    return SW_OK;
}

/* Tells the server that a delta is in its room. The inbox has room for all that can arrive; a
 * closed one belongs to a job that ends. */
static void announce(struct sw_sync *s, const struct sw_sync_post *p)
{
    const struct sw_sync_slices *unit = &s->units[p->unit];
    int rc =
        sw_sync_send(s, s->own, s->own, unit->server,
                     &(struct sw_message){.kind = SW_MSG_DELTA,
                                          .from = s->tables[s->own]->args.workers + 1 + p->origin,
                                          .param = unit->param,
                                          .version = p->version,
                                          .bytes = unit->count * (int64_t)sizeof(float)});
    (void)rc;
}

void sw_sync_arrived(struct sw_sync *s, int from, const struct sw_sync_delta *d)
{
    const struct sw_sync_slices *unit = &s->units[d->unit];
    struct sw_sync_post *p = sw_sync_post_of(s, d->origin, d->unit);
    uint64_t merged =
        __atomic_load_n(sw_sync_merged_of(s, s->own, d->origin, d->unit), __ATOMIC_RELAXED);

    sw_mutex_lock(&s->lock);

    /* Of a group that is lost, without which the values have been merged or are being merged. */
    bool drops = d->version <= (s->held ? s->step : merged);
    bool announces = !drops && !s->held;
    p->writer = -1;
    p->users = !drops;
    p->kept = !drops && s->held;
    memcpy(&p->route, s->delta[d->origin] + unit->offset + unit->count, SW_SYNC_TRAILER);

    sw_mutex_unlock(&s->lock);
    if (announces)
        announce(s, p);
}

void sw_sync_resume(struct sw_sync *s)
{
    sw_mutex_lock(&s->lock);
    s->held = false;
    sw_mutex_unlock(&s->lock);

    for (int origin = 0; origin < s->count; origin++)
        for (int i = 0; i < sw_sync_units(s); i++) {
            struct sw_sync_post *p = sw_sync_post_of(s, origin, i);

            sw_mutex_lock(&s->lock);
            bool kept = p->kept;
            p->kept = false;
            sw_mutex_unlock(&s->lock);

            if (kept)
                announce(s, p);
        }
}

/* ---- The own deltas ---- */

/* Under the lock: has the group not added the delta yet? */
static bool is_missing(const struct sw_sync *s, const struct sw_sync_post *p, int group)
{
    return p->readers > 0 && __atomic_load_n(sw_sync_merged_of(s, group, s->own, p->unit),
                                             __ATOMIC_RELAXED) < p->version;
}

/* Under the lock: nobody waits for the group any more. */
static void count_reader(struct sw_sync *s, struct sw_sync_post *p)
{
    if (--p->readers == 0)
        __atomic_sub_fetch(&s->in_flight, 1, __ATOMIC_SEQ_CST);
}

int sw_sync_acknowledged(struct sw_sync *s, int from, const struct sw_sync_delta *d,
                         struct sw_err *err)
{
    if (d->origin != s->own || d->unit < 0 || d->unit >= sw_sync_units(s))
        return refuse(d, "there is none", err);

    struct sw_sync_post *p = sw_sync_post_of(s, s->own, d->unit);

    sw_mutex_lock(&s->lock);

    bool counts = d->version == p->version && is_missing(s, p, from);
    if (counts) {
        __atomic_store_n(sw_sync_merged_of(s, from, s->own, d->unit), d->version, __ATOMIC_RELAXED);
        count_reader(s, p);
    }

    sw_mutex_unlock(&s->lock);
    return counts ? SW_OK : refuse(d, "it was acknowledged already, or never sent", err);
}

/* ---- Losses ---- */

/* Sends a unit's delta to a group that would have got it from one of the lost ones. */
static int send_again(struct sw_sync *s, struct sw_sync_post *p, int to, uint64_t lost)
{
    int scratch[SW_SYNC_GROUPS];

    sw_mutex_lock(&s->lock);

    const int *parent = sw_sync_tree(s, s->own, p->route, scratch);
    bool sends = is_missing(s, p, to) && parent[to] != s->own && is_of(lost, parent[to]);
    uint64_t version = p->version;
    if (sends) {
        p->users++;
        __atomic_add_fetch(&s->in_flight, 1, __ATOMIC_SEQ_CST);
    }

    sw_mutex_unlock(&s->lock);
    return sends ? sw_sync_post_outside(s, p, to, version) : SW_OK;
}

int sw_sync_told_lost(struct sw_sync *s, int from, uint64_t groups, struct sw_err *err)
{
    int rc = SW_OK;

    sw_mutex_lock(&s->lock);

    uint64_t news = groups & s->all & ~s->heard[from];
    s->heard[from] |= news;
    s->suspects |= news;

    sw_mutex_unlock(&s->lock);

    for (int i = 0; i < sw_sync_units(s) && rc == SW_OK; i++)
        if (s->units[i].count > 0)
            rc = send_again(s, sw_sync_post_of(s, s->own, i), from, news);

    if (rc != SW_OK)
        return sw_err_set(err, rc, "deltas cannot be sent to server group %d", from);
    return SW_OK;
}

/* Under the lock: what a lost group was sending or should have acknowledged. */
static void forget(struct sw_sync *s, int group)
{
    for (int origin = 0; origin < s->count; origin++)
        for (int i = 0; i < sw_sync_units(s); i++) {
            struct sw_sync_post *p = sw_sync_post_of(s, origin, i);

            if (origin == s->own && is_missing(s, p, group))
                count_reader(s, p);
            if (p->writer == group)
                p->writer = -1;
        }
}

/* Under the lock: notes which units of an origin must be acknowledged before it is told. */
static void count_debts(struct sw_sync *s, int origin)
{
    for (int i = 0; i < sw_sync_units(s); i++) {
        struct sw_sync_post *p = sw_sync_post_of(s, origin, i);

        if (p->owes || (p->users == 0 && p->acks == 0))
            continue;
        p->owes = true;
        s->owing[origin]++;
    }

    s->untold[origin] = true;
}

void sw_sync_lose(struct sw_sync *s, int group)
{
    uint64_t untold[SW_SYNC_GROUPS] = {0};

    sw_mutex_lock(&s->lock);

    if (group != s->own && is_of(s->living, group)) {
        __atomic_store_n(&s->living, s->living & ~((uint64_t)1 << group), __ATOMIC_RELAXED);
        s->suspects |= (uint64_t)1 << group;
        forget(s, group);

        for (int origin = 0; origin < s->count; origin++)
            if (origin != s->own && is_of(s->living, origin)) {
                count_debts(s, origin);
                untold[origin] = sw_sync_take_untold(s, origin);
            }
    }

    sw_mutex_unlock(&s->lock);

    for (int origin = 0; origin < s->count; origin++)
        sw_sync_tell_lost(s, origin, untold[origin]);
    sw_table_wake(s->tables[s->own]);
}
