/* Connects the exchange of server groups with messages between hosts: groups are hosts, an item is
 * a unit of an origin. What acknowledges deltas and tells of losses has one urgency, so that it
 * arrives in the order in which it was sent. */
#include "exchange/hosts/table_deltas.h"

#include "base/os.h"

enum { URGENCY_OF_ANSWERS = 0 };

static uint16_t urgency_of(const struct sw_sync *s, int unit)
{
    int param;

    sw_sync_unit(s, unit, &param);
    return (uint16_t)(param < UINT16_MAX ? param : UINT16_MAX);
}

/* ---- What goes to other hosts ---- */

static struct sw_fabric_tag tag_of(const struct sw_table_deltas *t, int kind, uint16_t urgency,
                                   const struct sw_sync_delta *d)
{
    return (struct sw_fabric_tag){.kind = (uint16_t)kind,
                                  .urgency = urgency,
                                  .item = (uint32_t)(d->origin * sw_sync_units(t->sync) + d->unit),
                                  .version = d->version};
}

static int post(void *user, int to, const struct sw_sync_delta *d,
                void (*done)(void *done_user, int rc), void *done_user, struct sw_err *err)
{
    const struct sw_table_deltas *t = user;
    const struct sw_fabric_tag tag = tag_of(t, SW_HOSTS_DELTA, urgency_of(t->sync, d->unit), d);

    return sw_fabric_send(t->fabric, to, &tag, sw_sync_room(t->sync, d->origin, d->unit),
                          sw_sync_room_bytes(t->sync, d->unit), done, done_user, err);
}

static int acknowledge(void *user, const struct sw_sync_delta *d, struct sw_err *err)
{
    const struct sw_table_deltas *t = user;
    const struct sw_fabric_tag tag = tag_of(t, SW_HOSTS_DELTA_ADDED, URGENCY_OF_ANSWERS, d);

    return sw_fabric_send(t->fabric, d->origin, &tag, NULL, 0, NULL, NULL, err);
}

static int send_lost(struct sw_fabric *f, int to, uint64_t groups, struct sw_err *err)
{
    const struct sw_fabric_tag tag = {
        .kind = SW_HOSTS_DELTA_LOST, .urgency = URGENCY_OF_ANSWERS, .version = groups};

    return sw_fabric_send(f, to, &tag, NULL, 0, NULL, NULL, err);
}

/* A host can be lost before sw_table_deltas_start, which sends what was to be told by then. */
static int tell_lost(void *user, int to, uint64_t groups, struct sw_err *err)
{
    struct sw_table_deltas *t = user;

    sw_mutex_lock(&t->lock);
    struct sw_fabric *f = t->fabric;
    if (!f)
        t->early[to] = groups;
    sw_mutex_unlock(&t->lock);

    return f ? send_lost(f, to, groups, err) : SW_OK;
}

struct sw_sync_outer sw_table_deltas_outer(struct sw_table_deltas *d)
{
    return (struct sw_sync_outer){
        .post = post, .acknowledge = acknowledge, .tell_lost = tell_lost, .user = d};
}

/* ---- What comes from other hosts ---- */

static struct sw_sync_delta delta_of(const struct sw_table_deltas *t,
                                     const struct sw_fabric_tag *tag)
{
    uint32_t units = (uint32_t)sw_sync_units(t->sync);
    uint32_t origin = tag->item / units;

    return (struct sw_sync_delta){.origin = origin < (uint32_t)t->hosts ? (int)origin : -1,
                                  .unit = (int)(tag->item % units),
                                  .version = tag->version};
}

static int place(void *deltas, int from, const struct sw_fabric_tag *tag, size_t bytes, void **to,
                 struct sw_err *err)
{
    const struct sw_table_deltas *t = deltas;
    const struct sw_sync_delta d = delta_of(t, tag);

    if (tag->kind == SW_HOSTS_DELTA && d.origin >= 0 && tag->urgency == urgency_of(t->sync, d.unit))
        return sw_sync_place(t->sync, from, &d, bytes, to, err);
    if (tag->kind != SW_HOSTS_DELTA && tag->urgency == URGENCY_OF_ANSWERS && bytes == 0)
        return SW_OK;

    return sw_err_set(err, SW_ERR_INVALID,
                      "it sent %zu bytes of kind %d, item %lu, urgency %d, which nobody waits for",
                      bytes, tag->kind, (unsigned long)tag->item, tag->urgency);
}

static int arrived(void *deltas, int from, const struct sw_fabric_tag *tag, void *data,
                   size_t bytes, struct sw_err *err)
{
    const struct sw_table_deltas *t = deltas;
    const struct sw_sync_delta d = delta_of(t, tag);

    if (tag->kind == SW_HOSTS_DELTA)
        sw_sync_arrived(t->sync, from, &d);
    else if (tag->kind == SW_HOSTS_DELTA_ADDED)
        return sw_sync_acknowledged(t->sync, from, &d, err);
    else
        return sw_sync_told_lost(t->sync, from, tag->version, err);

    return SW_OK;
}

static void lost(void *deltas, int host, const struct sw_err *why)
{
    const struct sw_table_deltas *t = deltas;

    sw_sync_lose(t->sync, host);
}

/* ---- Merging ---- */

static float *change_of(void *user, int host, int item)
{
    const struct sw_table_deltas *t = user;

    return sw_sync_room(t->sync, host, item);
}

/* Values go from the room of host 0 to the room of host 0. */
static float *value_of(void *user, int item)
{
    const struct sw_table_deltas *t = user;

    return sw_sync_room(t->sync, 0, item);
}

static void add(void *user, uint64_t hosts)
{
    const struct sw_table_deltas *t = user;

    sw_sync_add_changes(t->sync, hosts);
}

static void take(void *user)
{
    const struct sw_table_deltas *t = user;

    sw_sync_take_values(t->sync, 0);
}

bool sw_table_deltas_is_quiet(struct sw_table_deltas *t)
{
    struct sw_err err;

    if (sw_hosts_merge_is_agreed(t->merge))
        return true;
    if (!sw_sync_is_quiet(t->sync) || sw_hosts_merge_offer(t->merge, &err) != SW_OK)
        return false;

    return sw_hosts_merge_is_agreed(t->merge);
}

/* All living hosts are quiet: what still arrives is of a host that is lost. */
int sw_table_deltas_merge(struct sw_table_deltas *t, uint64_t step, uint64_t *hosts,
                          struct sw_err *err)
{
    sw_sync_hold(t->sync, step);
    if (t->own != 0)
        sw_sync_take_change(t->sync);

    int rc = sw_hosts_merge(t->merge, hosts, err);
    if (rc == SW_OK && t->own == 0)
        take(t);
    return rc;
}

void sw_table_deltas_resume(struct sw_table_deltas *t)
{
    sw_sync_resume(t->sync);
}

/* ---- Life ---- */

static int make_merge(struct sw_table_deltas *t, struct sw_err *err)
{
    int units = sw_sync_units(t->sync), param;
    struct sw_hosts_merge_item *items = sw_calloc((size_t)units + 1, sizeof *items);
    if (!items)
        return sw_err_nomem(err, "deltas between hosts", (size_t)units * sizeof *items);

    for (int i = 0; i < units; i++)
        items[i] = (struct sw_hosts_merge_item){.elements = sw_sync_unit(t->sync, i, &param),
                                                .urgency = urgency_of(t->sync, i)};

    const struct sw_hosts_merge_args args = {.hosts = t->hosts,
                                             .own = t->own,
                                             .items = items,
                                             .count = units,
                                             .change = change_of,
                                             .value = value_of,
                                             .add = add,
                                             .take = take,
                                             .user = t};
    int rc = sw_hosts_merge_new(&args, &t->merge, err);
    sw_free(items);
    return rc;
}

int sw_table_deltas_init(struct sw_table_deltas *t, struct sw_sync *sync,
                         const struct sw_hosts *hosts, struct sw_err *err)
{
    *t = (struct sw_table_deltas){.sync = sync, .hosts = hosts->count, .own = hosts->own};

    int rc = make_merge(t, err);
    if (rc == SW_OK)
        sw_mutex_init(&t->lock);
    return rc;
}

void sw_table_deltas_receive(struct sw_table_deltas *t, struct sw_fabric_router *router)
{
    sw_fabric_router_add(
        router, SW_HOSTS_DELTA, SW_HOSTS_DELTA_LOST - SW_HOSTS_DELTA + 1,
        (struct sw_fabric_sink){.place = place, .arrived = arrived, .lost = lost, .user = t});
    sw_fabric_router_add(router, SW_HOSTS_CHANGE, SW_HOSTS_VALUE - SW_HOSTS_CHANGE + 1,
                         sw_hosts_merge_sink(t->merge));
}

int sw_table_deltas_room(const struct sw_table_deltas *t)
{
    /* Each unit of each origin, once; two acknowledgements of each unit, of which one is already
     * known to have arrived; what is told of losses. */
    return (t->hosts + 2) * sw_sync_units(t->sync) + t->hosts + sw_hosts_merge_room(t->merge);
}

void sw_table_deltas_start(struct sw_table_deltas *t, struct sw_fabric *f)
{
    struct sw_err ignored;

    sw_mutex_lock(&t->lock);
    t->fabric = f;
    sw_mutex_unlock(&t->lock);
    sw_hosts_merge_start(t->merge, f);

    for (int to = 0; to < t->hosts; to++) {
        int rc = t->early[to] ? send_lost(f, to, t->early[to], &ignored) : SW_OK;
        (void)rc; /* it is lost as well */
    }
}

void sw_table_deltas_close_v(void *deltas)
{
    struct sw_table_deltas *t = deltas;

    sw_hosts_merge_close_v(t->merge);
}

void sw_table_deltas_fini(struct sw_table_deltas *t)
{
    if (!t->merge)
        return;

    sw_hosts_merge_free(t->merge);
    t->merge = NULL;
    sw_mutex_fini(&t->lock);
}
