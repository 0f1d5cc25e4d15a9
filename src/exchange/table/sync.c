/* Exchanges between server groups: life, and merging everything at once.
 *
 * `base` is the value at the last exchange plus all deltas that came in since, so value minus base
 * is what the group's own workers changed.
 *
 * `merged` is the number of steps of each origin in a table's values, from which the staleness
 * towards other server groups follows. A staleness bound holds within one server group only, so no
 * worker ever waits for a delta. All groups get the same values when the workers have stopped, no
 * message is in flight (sw_sync_is_quiet), and one thread merges the rest: sw_sync_merge_all or,
 * with tables elsewhere, the functions at the end, of which each process calls some. */
#include "exchange/table/sync_private.h"

#include "base/os.h"
#include <string.h>

/* ---- Life ---- */

size_t sw_sync_bytes(int count, size_t value_bytes)
{
    return count > 1 ? 2 * (size_t)count * value_bytes : 0;
}

/* Bytes of one array of a group: a route behind each unit, if it travels. */
static size_t array_bytes(const struct sw_table *t, bool has_remote)
{
    size_t bytes = 0;

    for (int p = 0; p < t->param_count; p++)
        bytes += sw_param_array_bytes(&t->params[p]);
    return bytes +
           (has_remote ? (size_t)t->param_count * (size_t)t->args.servers * SW_SYNC_TRAILER : 0);
}

size_t sw_sync_remote_bytes(const struct sw_table *t, int count)
{
    return (size_t)(1 + count) * array_bytes(t, true);
}

static int allocate(struct sw_sync *s, struct sw_err *err)
{
    size_t groups = (size_t)s->count, units = (size_t)s->params * (size_t)s->servers;

    s->neighbours = sw_calloc(groups * groups, sizeof *s->neighbours);
    s->parent = sw_calloc(groups * groups, sizeof *s->parent);
    s->units = sw_calloc(units + 1, sizeof *s->units);
    s->base = sw_calloc(groups, sizeof *s->base);
    s->delta = sw_calloc(groups, sizeof *s->delta);
    s->posts = sw_calloc(groups * units + 1, sizeof *s->posts);
    s->sent = sw_calloc(groups * groups * (size_t)s->servers, sizeof *s->sent);
    s->merged = sw_calloc(groups * groups * units + 1, sizeof *s->merged);
    if (!s->neighbours || !s->parent || !s->units || !s->base || !s->delta || !s->posts ||
        !s->sent || !s->merged)
        return sw_err_nomem(err, "the exchange of server groups",
                            groups * units * sizeof *s->posts);

    const struct sw_table *t = s->tables[s->own];
    s->bytes = s->has_remote ? sw_sync_remote_bytes(t, s->count)
                             : sw_sync_bytes(s->count, array_bytes(t, false));
    return sw_device_alloc(t->args.device, s->bytes, "deltas of server groups", &s->memory, err);
}

/* The slices of a unit are one after the other in every array. */
static void number_units(struct sw_sync *s)
{
    const struct sw_table *t = s->tables[s->own];
    int64_t at = 0;

    for (int i = 0; i < sw_sync_units(s); i++) {
        struct sw_sync_slices *unit = &s->units[i];
        *unit = (struct sw_sync_slices){
            .param = i / s->servers, .server = i % s->servers, .offset = at};

        const struct sw_server_state *server = &t->servers[unit->server];
        for (int k = server->first[unit->param]; k < server->first[unit->param + 1]; k++)
            unit->count += t->slices[server->slices[k]].count;

        at += unit->count + (s->has_remote ? SW_SYNC_TRAILER / (int)sizeof(float) : 0);
    }
}

static void make_posts(struct sw_sync *s)
{
    size_t bytes = array_bytes(s->tables[s->own], s->has_remote);
    char *at = s->memory;

    for (int i = 0; i < s->count; i++) {
        s->delta[i] = (float *)(void *)at;
        at += bytes;
        if (s->tables[i]) {
            s->base[i] = (float *)(void *)at;
            at += bytes;
        }

        for (int k = 0; k < sw_sync_units(s); k++)
            *sw_sync_post_of(s, i, k) =
                (struct sw_sync_post){.sync = s, .origin = i, .unit = k, .writer = -1};
    }
}

static int take_tables(struct sw_sync *s, const struct sw_sync_args *args, struct sw_err *err)
{
    int here = 0;

    s->tables = sw_calloc((size_t)s->count, sizeof(void *));
    if (!s->tables)
        return sw_err_nomem(err, "the exchange of server groups",
                            (size_t)s->count * sizeof(void *));

    memcpy(s->tables, args->tables, (size_t)s->count * sizeof(void *));
    for (int i = 0; i < s->count; i++)
        here += s->tables[i] != NULL;
    while (s->own < s->count && !s->tables[s->own])
        s->own++;

    s->has_remote = here < s->count;
    if (s->has_remote && (here != 1 || s->count > SW_SYNC_GROUPS))
        return sw_err_set(
            err, SW_ERR_INVALID,
            "%d server groups, %d of them in this process: if their tables are not in "
            "one process, each has one, and at most %d are possible",
            s->count, here, SW_SYNC_GROUPS);

    s->params = s->tables[s->own]->param_count;
    s->servers = s->tables[s->own]->args.servers;
    s->all = s->has_remote ? UINT64_MAX >> (64 - s->count) : UINT64_MAX;
    s->living = s->all;
    s->held = s->has_remote;
    return SW_OK;
}

int sw_sync_new(const struct sw_sync_args *args, struct sw_sync **out, struct sw_err *err)
{
    struct sw_sync *s = sw_calloc(1, sizeof *s);
    if (!s)
        return sw_err_nomem(err, "the exchange of server groups", sizeof *s);

    s->count = args->count;
    s->period = args->period;
    s->after = (uint64_t)args->after;
    s->outer = args->outer;
    sw_mutex_init(&s->lock);
    sw_cond_init(&s->added);

    int rc = take_tables(s, args, err);
    if (rc != SW_OK)
        goto out;
    rc = allocate(s, err);
    if (rc != SW_OK)
        goto out;

    memcpy(s->neighbours, args->neighbours, (size_t)(s->count * s->count) * sizeof(bool));
    number_units(s);
    make_posts(s);
    rc = sw_sync_find_trees(s, err);
    if (rc != SW_OK)
        goto out;

    for (int i = 0; i < s->count; i++)
        if (s->tables[i]) {
            s->tables[i]->sync = s;
            s->tables[i]->group_index = i;
        }

    *out = s;
    return SW_OK;

out:
    sw_sync_free(s);
    return rc;
}

void sw_sync_free(struct sw_sync *s)
{
    if (!s)
        return;

    if (s->memory)
        sw_device_free(s->tables[s->own]->args.device, s->memory, s->bytes);
    sw_free(s->tables);
    sw_free(s->neighbours);
    sw_free(s->parent);
    sw_free(s->units);
    sw_free(s->base);
    sw_free(s->delta);
    sw_free(s->posts);
    sw_free(s->sent);
    sw_free(s->merged);
    sw_cond_fini(&s->added);
    sw_mutex_fini(&s->lock);
    sw_free(s);
}

/* ---- What is known ---- */

bool sw_sync_is_quiet(const struct sw_sync *s)
{
    return __atomic_load_n(&s->in_flight, __ATOMIC_SEQ_CST) == 0;
}

uint64_t sw_sync_steps_of_others(const struct sw_table *t, int server, int param)
{
    const struct sw_sync *s = t->sync;
    uint64_t least = UINT64_MAX;

    for (int origin = 0; s && origin < s->count; origin++) {
        uint64_t steps = __atomic_load_n(
            sw_sync_merged_of(s, t->group_index, origin, sw_sync_unit_of(s, param, server)),
            __ATOMIC_RELAXED);
        if (origin != t->group_index && sw_sync_lives(s, origin) && steps < least)
            least = steps;
    }

    return least;
}

int64_t sw_sync_sent(const struct sw_sync *s, int from, int to, int server)
{
    return __atomic_load_n(&s->sent[(from * s->count + to) * s->servers + server],
                           __ATOMIC_RELAXED);
}

int sw_sync_units(const struct sw_sync *s)
{
    return s->params * s->servers;
}

int64_t sw_sync_unit(const struct sw_sync *s, int unit, int *param)
{
    *param = s->units[unit].param;
    return s->units[unit].count;
}

float *sw_sync_room(const struct sw_sync *s, int group, int unit)
{
    return s->delta[group] + s->units[unit].offset;
}

size_t sw_sync_room_bytes(const struct sw_sync *s, int unit)
{
    return (size_t)s->units[unit].count * sizeof(float) + SW_SYNC_TRAILER;
}

/* ---- All at once ---- */

/* Does something with the values of a unit and the elements of an array that belong to them. */
static void for_slices(struct sw_sync *s, int table, int unit, float *array,
                       void (*each)(float *value, float *x, int64_t count))
{
    const struct sw_sync_slices *u = &s->units[unit];
    const struct sw_table *t = s->tables[table];
    const struct sw_server_state *server = &t->servers[u->server];
    float *x = array + u->offset;

    for (int i = server->first[u->param]; i < server->first[u->param + 1]; i++) {
        const struct sw_slice *slice = &t->slices[server->slices[i]];

        each(t->params[u->param].value + slice->from, x, slice->count);
        x += slice->count;
    }
}

static void for_all(struct sw_sync *s, int table, float *array,
                    void (*each)(float *value, float *x, int64_t count))
{
    for (int i = 0; i < sw_sync_units(s); i++)
        for_slices(s, table, i, array, each);
}

static void copy_out(float *value, float *x, int64_t count)
{
    memcpy(x, value, (size_t)count * sizeof *x);
}

static void copy_in(float *value, float *x, int64_t count)
{
    memcpy(value, x, (size_t)count * sizeof *x);
}

static void add_to_value(float *value, float *x, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        value[i] += x[i];
}

/* x becomes what the value has more. */
static void subtract_from_value(float *value, float *x, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        x[i] = value[i] - x[i];
}

/* Copies the values of the first table here to all others here. */
static void copy_values(struct sw_sync *s)
{
    for (int i = s->own; i < s->count; i++) {
        if (!s->tables[i])
            continue;

        for (int p = 0; p < s->params && i != s->own; p++)
            memcpy(s->tables[i]->params[p].value, s->tables[s->own]->params[p].value,
                   sw_param_array_bytes(&s->tables[i]->params[p]));
        for_all(s, i, s->base[i], copy_out);
    }
}

/* Records that all values contain everything up to a step, at least up to `after`. */
static void mark_merged(struct sw_sync *s, uint64_t step)
{
    size_t count = (size_t)(s->count * s->count) * (size_t)sw_sync_units(s);
    for (size_t i = 0; i < count; i++)
        __atomic_store_n(&s->merged[i], step > s->after ? step : s->after, __ATOMIC_RELAXED);
}

void sw_sync_broadcast(struct sw_sync *s, uint64_t step, bool state)
{
    const struct sw_table *first = s->tables[s->own];

    mark_merged(s, step);
    copy_values(s);

    for (int i = s->own + 1; i < s->count && state; i++)
        for (int p = 0; p < s->params && s->tables[i]; p++)
            for (int k = 0; k < sw_table_param_slots(first, p); k++)
                memcpy(s->tables[i]->params[p].slot[k], first->params[p].slot[k],
                       sw_param_array_bytes(&first->params[p]));
}

/* Counts the bytes of every group's delta along its tree, as if it had been sent. */
static void count_all(struct sw_sync *s)
{
    for (int origin = 0; origin < s->count; origin++)
        for (int to = 0; to < s->count; to++)
            for (int i = 0, from = s->parent[origin * s->count + to];
                 i < sw_sync_units(s) && from >= 0; i++)
                s->sent[(from * s->count + to) * s->servers + s->units[i].server] +=
                    s->units[i].count * (int64_t)sizeof(float);
}

void sw_sync_merge_all(struct sw_sync *s, uint64_t step)
{
    mark_merged(s, step);

    for (int i = 1; i < s->count; i++) {
        for_all(s, i, s->base[i], subtract_from_value);
        for_all(s, 0, s->base[i], add_to_value);
    }

    copy_values(s);
    count_all(s);
}

/* ---- All at once, with tables elsewhere ---- */

void sw_sync_hold(struct sw_sync *s, uint64_t step)
{
    sw_mutex_lock(&s->lock);

    s->held = true;
    s->step = step;
    while (s->adding > 0)
        sw_cond_wait(&s->added, &s->lock);

    sw_mutex_unlock(&s->lock);
}

void sw_sync_take_change(struct sw_sync *s)
{
    memcpy(s->delta[s->own], s->base[s->own], array_bytes(s->tables[s->own], true));
    for_all(s, s->own, s->delta[s->own], subtract_from_value);
}

void sw_sync_add_changes(struct sw_sync *s, uint64_t groups)
{
    for (int i = 0; i < s->count; i++)
        if (i != s->own && (groups >> i & 1))
            for_all(s, s->own, s->delta[i], add_to_value);

    for_all(s, s->own, s->delta[s->own], copy_out);
}

void sw_sync_take_values(struct sw_sync *s, int group)
{
    mark_merged(s, s->step);
    for_all(s, s->own, s->delta[group], copy_in);
    copy_values(s);
}
