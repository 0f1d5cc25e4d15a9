/* Exchanges between server groups: deltas in flight, and merging everything at once.
 *
 * `base` is the value at the last exchange plus all deltas that came in since, so value minus base
 * is what the group's own workers changed. A delta lies in memory of its origin and is announced by
 * SW_MSG_DELTA, from table to table along a fixed tree per origin. `readers` counts the tables that
 * have not added it yet; until it is 0 the origin posts no other one. Under Hogwild, where servers
 * see no updates, a worker requests an exchange from its servers (SW_MSG_SYNC); a delta and an
 * update may then collide in an element and one of them be lost, as two updates may
 * (kernels/cpu/hogwild.h).
 *
 * `merged` is the number of steps of each origin in a table's values, from which the staleness
 * towards other server groups follows. A staleness bound holds within one server group only, so no
 * worker ever waits for a delta. All groups get the same values when the workers have stopped, no
 * message is in flight (sw_sync_is_quiet), and one thread merges the rest (sw_sync_merge_all). */
#include "exchange/table/sync.h"

#include "base/os.h"
#include "exchange/table/table_private.h"
#include "kernels/cpu/hogwild.h"
#include <string.h>

enum { BLOCK = 1024 };

/* State of a parameter's slices on one server of one table. */
struct post {
    int readers;   /* atomic: tables that have not added the delta yet */
    int requested; /* atomic: a request of a worker is in the inbox */
    uint64_t done; /* steps at the last exchange; the server's own */
};

struct sw_sync {
    struct sw_table **tables; /* owned array */
    int count, servers, params;
    int64_t period;
    uint64_t after;
    int *parent;   /* owned [origin][table]: the table that forwards the origin's deltas to it; -1:
                      the origin */
    float **base;  /* owned [table][param]: value at the last exchange plus what came in since */
    float **delta; /* owned [table][param]: the delta posted last */
    struct post *posts; /* owned [table][param][server] */
    int64_t *sent;      /* owned [from][to][server], atomic */
    uint64_t *merged;   /* owned [table][origin][param][server], atomic: steps of the origin whose
                           updates the values contain */
    int in_flight;      /* atomic: messages that are not handled yet */
    void *memory;       /* owned device memory: base and delta */
    size_t bytes;
};

size_t sw_sync_bytes(int count, size_t value_bytes)
{
    return count > 1 ? 2 * (size_t)count * value_bytes : 0;
}

static struct post *post_of(const struct sw_sync *s, int table, int param, int server)
{
    return &s->posts[((size_t)table * (size_t)s->params + (size_t)param) * (size_t)s->servers +
                     (size_t)server];
}

static uint64_t *merged_of(const struct sw_sync *s, int table, int origin, int param, int server)
{
    size_t row = (size_t)(table * s->count + origin) * (size_t)s->params + (size_t)param;
    return &s->merged[row * (size_t)s->servers + (size_t)server];
}

static float *array_of(const struct sw_sync *s, float **arrays, int table, int param)
{
    return arrays[table * s->params + param];
}

/* ---- forwarding trees ---- */

/* Finds the tree over which the deltas of one group reach all others, by breadth-first search.
 * Returns the number of groups reached. */
static int find_tree(struct sw_sync *s, int origin, const bool *neighbours, int *queue)
{
    int *parent = &s->parent[origin * s->count], reached = 1;

    for (int i = 0; i < s->count; i++)
        parent[i] = -1;

    queue[0] = origin;
    for (int at = 0; at < reached; at++)
        for (int i = 0; i < s->count; i++)
            if (neighbours[queue[at] * s->count + i] && i != origin && parent[i] < 0) {
                parent[i] = queue[at];
                queue[reached++] = i;
            }

    return reached;
}

static int find_trees(struct sw_sync *s, const bool *neighbours, struct sw_err *err)
{
    int *queue = sw_calloc((size_t)s->count, sizeof *queue), rc = SW_OK;
    if (!queue)
        return sw_err_nomem(err, "the forwarding trees of deltas",
                            (size_t)s->count * sizeof *queue);

    for (int origin = 0; origin < s->count && rc == SW_OK; origin++)
        if (find_tree(s, origin, neighbours, queue) < s->count)
            rc = sw_err_set(err, SW_ERR_INVALID,
                            "deltas of server group %d do not reach all other groups", origin);

    sw_free(queue);
    return rc;
}

/* ---- life ---- */

static int take_memory(struct sw_sync *s, struct sw_err *err)
{
    size_t arrays = (size_t)s->count * (size_t)s->params, bytes = 0;
    size_t pairs = (size_t)s->count * (size_t)s->count;

    for (int p = 0; p < s->params; p++)
        bytes += sw_param_array_bytes(&s->tables[0]->params[p]);
    s->bytes = sw_sync_bytes(s->count, bytes);
    s->parent = sw_calloc(pairs, sizeof *s->parent);
    s->base = sw_calloc(arrays + 1, sizeof *s->base);
    s->delta = sw_calloc(arrays + 1, sizeof *s->delta);
    s->posts = sw_calloc(arrays * (size_t)s->servers + 1, sizeof *s->posts);
    s->sent = sw_calloc(pairs * (size_t)s->servers, sizeof *s->sent);

    s->merged = sw_calloc(pairs * (size_t)s->params * (size_t)s->servers + 1, sizeof *s->merged);
    if (!s->parent || !s->base || !s->delta || !s->posts || !s->sent || !s->merged)
        return sw_err_nomem(err, "the exchange of server groups", arrays * sizeof *s->posts);

    int rc = sw_device_alloc(s->tables[0]->args.device, s->bytes, "deltas of server groups",
                             &s->memory, err);
    if (rc != SW_OK)
        return rc;

    char *at = s->memory;
    for (size_t i = 0; i < arrays; i++) {
        size_t room = sw_param_array_bytes(&s->tables[0]->params[i % (size_t)s->params]);
        s->base[i] = (float *)(void *)at;
        s->delta[i] = (float *)(void *)(at + room);
        at += 2 * room;
    }

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
    s->params = args->tables[0]->param_count;
    s->servers = args->tables[0]->args.servers;
    s->tables = sw_calloc((size_t)s->count, sizeof(void *));

    int rc = s->tables ? SW_OK : sw_err_nomem(err, "the exchange of server groups", 0);
    if (rc != SW_OK)
        goto out;

    memcpy(s->tables, args->tables, (size_t)s->count * sizeof(void *));
    rc = take_memory(s, err);
    if (rc != SW_OK)
        goto out;
    rc = find_trees(s, args->neighbours, err);
    if (rc != SW_OK)
        goto out;

    for (int i = 0; i < s->count; i++) {
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
        sw_device_free(s->tables[0]->args.device, s->memory, s->bytes);
    sw_free(s->tables);
    sw_free(s->parent);
    sw_free(s->base);
    sw_free(s->delta);
    sw_free(s->posts);
    sw_free(s->sent);
    sw_free(s->merged);
    sw_free(s);
}

/* ---- deltas in flight ---- */

/* Counts the message before it can be handled, and pushes it, which releases what the sender wrote.
 */
static int send(struct sw_sync *s, int from, int to, int server, const struct sw_message *m)
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

/* Forwards the origin's delta from `at` to the next tables of its tree. */
static int forward(struct sw_sync *s, int origin, int at, int server, struct sw_message m)
{
    for (int to = 0; to < s->count; to++) {
        if (s->parent[origin * s->count + to] != at)
            continue;

        m.from = s->tables[to]->args.workers + 1 + origin;

        int rc = send(s, at, to, server, &m);
        if (rc != SW_OK)
            return rc;
    }

    return SW_OK;
}

static int64_t elements(const struct sw_table *t, int server, int param)
{
    const struct sw_server_state *s = &t->servers[server];
    int64_t n = 0;

    for (int i = s->first[param]; i < s->first[param + 1]; i++)
        n += t->slices[s->slices[i]].count;
    return n;
}

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

static int exchange(struct sw_table *t, int server, int param, uint64_t done)
{
    struct sw_sync *s = t->sync;
    const struct sw_server_state *own = &t->servers[server];
    struct post *post = post_of(s, t->group_index, param, server);

    post->done = done;
    /* Acquires the reads of the last delta. */
    if (__atomic_load_n(&post->readers, __ATOMIC_ACQUIRE) > 0)
        return SW_OK;

    for (int i = own->first[param]; i < own->first[param + 1]; i++) {
        const struct sw_slice *slice = &t->slices[own->slices[i]];
        take_delta(array_of(s, s->delta, t->group_index, param) + slice->from,
                   array_of(s, s->base, t->group_index, param) + slice->from,
                   t->params[param].value + slice->from, slice->count);
    }

    __atomic_store_n(&post->readers, s->count - 1, __ATOMIC_RELAXED);
    return forward(
        s, t->group_index, t->group_index, server,
        (struct sw_message){.kind = SW_MSG_DELTA,
                            .param = param,
                            .version = done,
                            .bytes = elements(t, server, param) * (int64_t)sizeof(float)});
}

static bool is_due(const struct sw_sync *s, uint64_t done)
{
    return s && done > s->after && done % (uint64_t)s->period == 0;
}

int sw_sync_after(struct sw_table *t, int server, int param, uint64_t done)
{
    if (!is_due(t->sync, done) || done <= post_of(t->sync, t->group_index, param, server)->done)
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
            !__atomic_exchange_n(&post_of(t->sync, t->group_index, param, i)->requested, 1,
                                 __ATOMIC_ACQ_REL))
            rc = send(t->sync, t->group_index, t->group_index, i, &m);

        if (rc != SW_OK)
            return rc;
    }

    return SW_OK;
}

int sw_sync_handle(struct sw_table *t, int server, const struct sw_message *m)
{
    struct sw_sync *s = t->sync;
    int origin = m->from - t->args.workers - 1, rc;

    if (m->kind == SW_MSG_SYNC) {
        __atomic_store_n(&post_of(s, t->group_index, m->param, server)->requested, 0,
                         __ATOMIC_RELEASE);
        rc = sw_sync_after(t, server, m->param, m->version);
        __atomic_sub_fetch(&s->in_flight, 1, __ATOMIC_SEQ_CST);
        return rc;
    }

    const struct sw_server_state *own = &t->servers[server];
    for (int i = own->first[m->param]; i < own->first[m->param + 1]; i++) {
        const struct sw_slice *slice = &t->slices[own->slices[i]];
        const float *delta = array_of(s, s->delta, origin, m->param) + slice->from;
        float *base = array_of(s, s->base, t->group_index, m->param) + slice->from;

        sw_hogwild_add(t->params[m->param].value + slice->from, delta, NULL, slice->count);
        for (int64_t e = 0; e < slice->count; e++)
            base[e] += delta[e];
    }

    /* A delta arrives after all earlier ones. Workers that read values in place read this counter.
     */
    __atomic_store_n(merged_of(s, t->group_index, origin, m->param, server), m->version,
                     __ATOMIC_RELAXED);
    rc = forward(s, origin, t->group_index, server, *m);
    __atomic_sub_fetch(&post_of(s, origin, m->param, server)->readers, 1, __ATOMIC_RELEASE);
    __atomic_sub_fetch(&s->in_flight, 1, __ATOMIC_SEQ_CST);

    return rc;
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
           __atomic_load_n(&post_of(t->sync, origin, m->param, server)->readers, __ATOMIC_RELAXED) >
               0;
}

bool sw_sync_is_quiet(const struct sw_sync *s)
{
    return __atomic_load_n(&s->in_flight, __ATOMIC_SEQ_CST) == 0;
}

uint64_t sw_sync_steps_of_others(const struct sw_table *t, int server, int param)
{
    uint64_t least = UINT64_MAX;

    for (int origin = 0; t->sync && origin < t->sync->count; origin++) {
        uint64_t steps = __atomic_load_n(merged_of(t->sync, t->group_index, origin, param, server),
                                         __ATOMIC_RELAXED);
        if (origin != t->group_index && steps < least)
            least = steps;
    }

    return least;
}

int64_t sw_sync_sent(const struct sw_sync *s, int from, int to, int server)
{
    return __atomic_load_n(&s->sent[(from * s->count + to) * s->servers + server],
                           __ATOMIC_RELAXED);
}

/* ---- all at once ---- */

static void copy_value(struct sw_sync *s, int param)
{
    const struct sw_param *first = &s->tables[0]->params[param];

    for (int i = 0; i < s->count; i++) {
        struct sw_param *p = &s->tables[i]->params[param];
        if (i > 0)
            memcpy(p->value, first->value, sw_param_array_bytes(first));
        memcpy(array_of(s, s->base, i, param), first->value, sw_param_array_bytes(first));
    }
}

/* Records that all values contain everything up to a step, at least up to `after`. */
static void mark_merged(struct sw_sync *s, uint64_t step)
{
    size_t count = (size_t)(s->count * s->count) * (size_t)s->params * (size_t)s->servers;
    for (size_t i = 0; i < count; i++)
        s->merged[i] = step > s->after ? step : s->after;
}

void sw_sync_broadcast(struct sw_sync *s, uint64_t step, bool state)
{
    mark_merged(s, step);

    for (int p = 0; p < s->params; p++) {
        const struct sw_param *first = &s->tables[0]->params[p];

        copy_value(s, p);

        for (int i = 1; i < s->count && state; i++)
            for (int k = 0; k < sw_table_param_slots(s->tables[0], p); k++)
                memcpy(s->tables[i]->params[p].slot[k], first->slot[k],
                       sw_param_array_bytes(first));
    }
}

/* Counts the bytes of every group's delta along its tree, as if it had been sent. */
static void count_all(struct sw_sync *s)
{
    for (int origin = 0; origin < s->count; origin++)
        for (int to = 0; to < s->count; to++)
            for (int j = 0, from = s->parent[origin * s->count + to]; j < s->servers && from >= 0;
                 j++)
                for (int p = 0; p < s->params; p++)
                    s->sent[(from * s->count + to) * s->servers + j] +=
                        elements(s->tables[0], j, p) * (int64_t)sizeof(float);
}

void sw_sync_merge_all(struct sw_sync *s, uint64_t step)
{
    mark_merged(s, step);

    for (int p = 0; p < s->params; p++) {
        float *merged = s->tables[0]->params[p].value;
        int64_t n = sw_desc_storage(&s->tables[0]->params[p].layout);

        for (int i = 1; i < s->count && !s->tables[0]->params[p].frozen; i++) {
            const float *value = s->tables[i]->params[p].value;
            const float *base = array_of(s, s->base, i, p);
            for (int64_t e = 0; e < n; e++)
                merged[e] += value[e] - base[e];
        }

        copy_value(s, p);
    }

    count_all(s);
}
