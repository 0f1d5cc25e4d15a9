/* The race detector: records accesses to the memory of a device; race.h has the rules. A writer
 * replaces all earlier accesses to its range, since what is ordered after the writer is ordered
 * after those, too. Several readers are kept per range. If there are too many readers, the oldest
 * is dropped, as is a writer of other columns of a strided copy: an error may then be missed, but
 * none is reported wrongly. */
#include "base/os.h"
#include "device/sim/memory.h"
#include "device/sim/stream.h"
#include <stdio.h>
#include <string.h>

void sw_sim_uses_init(struct sw_sim_uses *u)
{
    *u = (struct sw_sim_uses){.count = 0};
    sw_mutex_init(&u->lock);
}

static void release_range(struct sw_sim_range *r)
{
    sw_sim_lane_drop(r->write.lane);
    for (int i = 0; i < SW_SIM_READERS; i++)
        sw_sim_lane_drop(r->read[i].lane);
}

void sw_sim_uses_fini(struct sw_sim_uses *u)
{
    for (int i = 0; i < u->count; i++)
        release_range(&u->range[i]);
    sw_free(u->range);
    sw_mutex_fini(&u->lock);
}

/* ---- The list of ranges; u->lock is held ---- */

/* The index of the first range that ends after the position. */
static int first_ending_after(const struct sw_sim_uses *u, size_t at)
{
    int low = 0, high = u->count;

    while (low < high) {
        int mid = low + (high - low) / 2;
        if (u->range[mid].to <= at)
            low = mid + 1;
        else
            high = mid;
    }

    return low;
}

/* An access that the host has not waited for, or NULL. */
static const struct sw_sim_use *find_pending(const struct sw_sim_range *r)
{
    if (r->write.lane && r->write.number > sw_sim_lane_known(r->write.lane))
        return &r->write;

    for (int k = 0; k < SW_SIM_READERS; k++)
        if (r->read[k].lane && r->read[k].number > sw_sim_lane_known(r->read[k].lane))
            return &r->read[k];

    return NULL;
}

/* Removes ranges whose accesses the host has waited for, since nothing can conflict with them any
 * more. */
static void prune(struct sw_sim_uses *u)
{
    int kept = 0;

    for (int i = 0; i < u->count; i++) {
        if (find_pending(&u->range[i]))
            u->range[kept++] = u->range[i];
        else
            release_range(&u->range[i]);
    }

    u->count = kept;
}

static int reserve(struct sw_sim_uses *u, int more, struct sw_err *err)
{
    if (u->count + more <= u->room)
        return SW_OK;

    prune(u);
    if (u->count + more <= u->room / 2)
        return SW_OK;

    int room = u->room ? 2 * u->room : 64;
    room = room < u->count + more ? u->count + more : room;

    struct sw_sim_range *r = sw_realloc_array(u->range, (size_t)room, sizeof *r);
    if (!r)
        return sw_err_nomem(err, "list of accesses to the memory of a simulated GPU",
                            (size_t)room * sizeof *r);

    u->range = r;
    u->room = room;
    return SW_OK;
}

/* Inserts an empty range before range i. */
static struct sw_sim_range *insert(struct sw_sim_uses *u, int i, size_t from, size_t to)
{
    memmove(&u->range[i + 1], &u->range[i], (size_t)(u->count - i) * sizeof *u->range);
    u->range[i] = (struct sw_sim_range){.from = from, .to = to};
    u->count++;
    return &u->range[i];
}

/* Splits the range at the position. */
static void split_at(struct sw_sim_uses *u, size_t at)
{
    int i = first_ending_after(u, at);
    if (i == u->count || u->range[i].from >= at)
        return;

    struct sw_sim_range *left = insert(u, i, u->range[i].from, at), *right = left + 1;
    right->from = at;
    sw_sim_use_set(&left->write, &right->write);
    for (int r = 0; r < SW_SIM_READERS; r++)
        sw_sim_use_set(&left->read[r], &right->read[r]);
}

static void forget(struct sw_sim_uses *u, size_t from, size_t to)
{
    split_at(u, from);
    split_at(u, to);

    int first = first_ending_after(u, from), end = first;
    for (; end < u->count && u->range[end].from < to; end++)
        release_range(&u->range[end]);
    if (end == first)
        return;

    memmove(&u->range[first], &u->range[end], (size_t)(u->count - end) * sizeof *u->range);
    u->count -= end - first;
}

/* Replaces a reader of the same stream, one that the host has waited for, or the oldest one, which
 * is first. */
static void add_reader(struct sw_sim_range *r, const struct sw_sim_use *use)
{
    for (int i = 0; i < SW_SIM_READERS; i++) {
        const struct sw_sim_lane *lane = r->read[i].lane;
        if (!lane || lane == use->lane || r->read[i].number <= sw_sim_lane_known(lane)) {
            sw_sim_use_set(&r->read[i], use);
            return;
        }
    }

    struct sw_sim_use oldest = r->read[0];
    memmove(&r->read[0], &r->read[1], (SW_SIM_READERS - 1) * sizeof r->read[0]);
    r->read[SW_SIM_READERS - 1] = oldest;
    sw_sim_use_set(&r->read[SW_SIM_READERS - 1], use);
}

static void remember_read(struct sw_sim_uses *u, const struct sw_sim_use *use)
{
    split_at(u, use->from);
    split_at(u, use->to);

    size_t at = use->from;
    for (int i = first_ending_after(u, at); at < use->to; i++) {
        size_t next = i < u->count ? u->range[i].from : use->to;
        if (at < next)
            (void)insert(u, i, at, next < use->to ? next : use->to);
        add_reader(&u->range[i], use);
        at = u->range[i].to;
    }
}

static void remember(struct sw_sim_uses *u, const struct sw_sim_use *use, bool writes)
{
    if (!writes) {
        remember_read(u, use);
        return;
    }

    forget(u, use->from, use->to);
    sw_sim_use_set(&insert(u, first_ending_after(u, use->from), use->from, use->to)->write, use);
}

/* ---- The check ---- */

/* Whether two accesses have common bytes. Columns of one matrix may be interleaved. */
static bool overlap(const struct sw_sim_use *a, const struct sw_sim_use *b)
{
    if (a->from >= b->to || b->from >= a->to)
        return false;
    if (!a->pitch || a->pitch != b->pitch)
        return true;

    size_t offset = (b->from + a->pitch - a->from % a->pitch) % a->pitch;
    return offset < a->width || offset + b->width > a->pitch;
}

static bool conflicts(const struct sw_sim_stream *s, const struct sw_sim_use *mine,
                      const struct sw_sim_use *other)
{
    return other->lane && other->lane != mine->lane && overlap(mine, other) &&
           other->number > sw_sim_clock_of(&s->clock, other->lane);
}

/* u->lock is held. Finds a conflicting access and whether it writes; NULL: none. */
static const struct sw_sim_use *find_conflict(const struct sw_sim_stream *s,
                                              const struct sw_sim_uses *u,
                                              const struct sw_sim_use *use, bool writes,
                                              bool *other_writes)
{
    for (int i = first_ending_after(u, use->from); i < u->count && u->range[i].from < use->to;
         i++) {
        const struct sw_sim_range *r = &u->range[i];

        *other_writes = true;
        if (conflicts(s, use, &r->write))
            return &r->write;

        *other_writes = false;

        for (int k = 0; writes && k < SW_SIM_READERS; k++)
            if (conflicts(s, use, &r->read[k]))
                return &r->read[k];
    }

    return NULL;
}

static const char *space(const struct sw_sim_use *u)
{
    return u->of ? " " : "";
}

static const char *of(const struct sw_sim_use *u)
{
    return u->of ? u->of : "";
}

/* The memory of a device or of the host. */
struct memory {
    struct sw_sim_uses *uses;
    struct sw_sim_names *names;
    uintptr_t start;
    const char *of; /* its owner, for messages */
};

/* The memory of pointer i of the operation. */
static struct memory memory_at(struct sw_sim_stream *s, const struct sw_sim_op *op, int i)
{
    struct sw_sim_device *d = s->device;

    if (op->type->moves)
        d = i == SW_SIM_DST ? op->u.copy.dst : op->u.copy.src;
    if (!d)
        return (struct memory){&s->device->host->uses, &s->device->host->names, 0, "the host"};

    return (struct memory){&d->uses, &d->names, (uintptr_t)d->user_base, d->base.name};
}

static struct sw_sim_use use_of(struct sw_sim_stream *s, const struct sw_sim_op *op, int i,
                                uintptr_t start)
{
    size_t from = (uintptr_t)op->p[i] - start;
    struct sw_sim_use use = {.lane = s->lane,
                             .number = s->queued + 1,
                             .from = from,
                             .to = from + op->bytes[i],
                             .name = op->type->name ? op->type->name : op->subject,
                             .of = op->type->name ? op->subject : NULL};

    if (op->type->moves && op->u.copy.rows > 1) {
        use.pitch = i == SW_SIM_DST ? op->u.copy.dst_pitch : op->u.copy.src_pitch;
        use.width = op->u.copy.width;
    }

    return use;
}

/* Writes "copy of stream compute", with the device if it is not `here`. */
static void describe(const struct sw_sim_use *u, const char *here, char *out, size_t bytes)
{
    bool other = strcmp(here, u->lane->device) != 0;
    snprintf(out, bytes, "%s%s%s of stream %s%s%s", of(u), space(u), u->name, u->lane->name,
             other ? " of " : "", other ? u->lane->device : "");
}

static int check(struct sw_sim_stream *s, const struct memory *m, const struct sw_sim_use *use,
                 bool writes, struct sw_err *err)
{
    const char *here = s->base.dev->name;
    char what[SW_SIM_WHAT], mine[128], other[128];
    bool other_writes;

    sw_mutex_lock(&m->uses->lock);

    const struct sw_sim_use *found = find_conflict(s, m->uses, use, writes, &other_writes);
    if (found)
        describe(found, here, other, sizeof other);
    sw_mutex_unlock(&m->uses->lock);
    if (!found)
        return SW_OK;

    describe(use, here, mine, sizeof mine);
    sw_sim_name_of(m->names, use->from, use->to - use->from, what);
    return sw_err_set(err, SW_ERR_INVALID,
                      "%s: %s %s %s%s while %s may still %s it: no event between them", here, mine,
                      writes ? "writes" : "reads", what[0] ? what : "memory of ",
                      what[0] ? "" : m->of, other, other_writes ? "write" : "read");
}

static int record_access(struct sw_sim_uses *u, const struct sw_sim_use *use, bool writes,
                         struct sw_err *err)
{
    enum { MAX_SPLITS = 3 };
    sw_mutex_lock(&u->lock);

    /* A reader may add a range in each gap between the ranges that it overlaps. */
    int met = 0;
    for (int i = first_ending_after(u, use->from); i < u->count && u->range[i].from < use->to; i++)
        met++;

    int rc = reserve(u, met + MAX_SPLITS, err);
    if (rc == SW_OK)
        remember(u, use, writes);
    sw_mutex_unlock(&u->lock);

    return rc;
}

static int for_each_access(struct sw_sim_stream *s, const struct sw_sim_op *op, bool checks,
                           struct sw_err *err)
{
    for (int i = 0; i < SW_SIM_POINTERS; i++) {
        if (!op->bytes[i])
            continue;

        struct memory m = memory_at(s, op, i);
        struct sw_sim_use use = use_of(s, op, i, m.start);
        bool writes = op->written >> i & 1;
        int rc =
            checks ? check(s, &m, &use, writes, err) : record_access(m.uses, &use, writes, err);
        if (rc != SW_OK)
            return rc;
    }

    return SW_OK;
}

int sw_sim_race_check(struct sw_sim_stream *s, const struct sw_sim_op *op, struct sw_err *err)
{
    int rc = for_each_access(s, op, true, err);
    if (rc != SW_OK)
        return rc;
    return for_each_access(s, op, false, err);
}

int sw_sim_race_free(struct sw_sim_uses *u, size_t from, size_t to, const char *what,
                     const struct sw_sim_lane **lane, struct sw_err *err)
{
    int rc = SW_OK;

    sw_mutex_lock(&u->lock);

    for (int i = first_ending_after(u, from); i < u->count && u->range[i].from < to && rc == SW_OK;
         i++) {
        const struct sw_sim_use *use = find_pending(&u->range[i]);
        if (!use)
            continue;

        *lane = use->lane;
        rc = sw_err_set(err, SW_ERR_INVALID,
                        "%s was freed while %s%s%s of stream %s might still use it: the host has "
                        "not waited for that stream",
                        what, of(use), space(use), use->name, use->lane->name);
    }

    forget(u, from, to); /* no access crosses the end of an allocation, so no range is split */
    sw_mutex_unlock(&u->lock);
    return rc;
}
