/* Finds which role blocks another, from the slots of the live snapshot only, so that no role has to
 * respond. A slot says what its role waits for; the positions of the others say whether they have
 * done their part. Called by the watch thread when something is slow. */
#include "monitor/waits.h"
#include "worker/server.h"
#include "worker/worker.h"
#include <stdarg.h>
#include <stdio.h>

struct view {
    const struct sw_roles *roles;
    const struct sw_slot_state *slots;
    char *why; /* or NULL */
    size_t bytes;
};

static int workers(const struct view *v)
{
    return v->roles->topology->workers;
}

static int slot_of_server(const struct view *v, int server)
{
    return workers(v) + server;
}

/* The one of two roles that has been silent for longer; a may be -1. */
static int longer_silent(const struct view *v, int a, int b)
{
    return a < 0 || v->slots[b].heartbeat_ns < v->slots[a].heartbeat_ns ? b : a;
}

/* Has the worker pushed its gradient of step `version`? With update control on the host, all
 * gradients of that step count. */
static bool has_pushed(const struct view *v, int worker, int param, int64_t version)
{
    const struct sw_slot_state *s = &v->slots[worker];
    const struct sw_worker *w = &v->roles->workers[worker];
    int owner = sw_table_param(w->table, param)->owner;
    bool at_once = sw_table_has_phases(w->table) && !sw_table_is_controlled_on_device(w->table);
    if (s->done_step >= version || s->step > version ||
        sw_topology_sleeps(v->roles->topology, w->rank->group, version) ||
        (owner >= 0 && owner != w->rank->rank && !at_once))
        return true;
    if (s->step < version || at_once)
        return false;

    int layer = w->completed_by[param];
    return layer < 0 || (s->phase == SW_PHASE_BACKWARD && s->layer < layer) ||
           (s->phase == SW_PHASE_UPDATE && s->layer <= layer);
}

/* The servers of the worker's server group. */
static const struct sw_server *servers_of(const struct view *v, int role)
{
    const int server_group = v->roles->workers[role].rank->server_group;
    return &v->roles->servers[v->roles->topology->server_group[server_group].first_server];
}

/* A server of the worker's group that owns slices of the parameter. */
static const struct sw_server *owner_of_slices(const struct view *v, int role, int param)
{
    const struct sw_table *t = v->roles->workers[role].table;
    const struct sw_server *own = servers_of(v, role);

    for (int i = 0; i < v->roles->topology->servers_per_group; i++)
        if (sw_table_has_slices(t, i, param))
            return &own[i];

    return own;
}

/* Are the two in one update group? */
static bool make_updates_together(const struct sw_worker *a, const struct sw_worker *b)
{
    return a->rank->update_group == b->rank->update_group;
}

/* The worker, other than the role, whose gradient of that version is missing and that has been
 * silent for longest; own: in the role's update group, otherwise in other groups of its table. */
static int without_gradient(const struct view *v, int role, bool own, int64_t version)
{
    const struct sw_worker *all = v->roles->workers;
    int late = -1;

    for (int i = 0; i < workers(v); i++)
        if (i != role && all[i].table == all[role].table &&
            make_updates_together(&all[i], &all[role]) == own &&
            !has_pushed(v, i, v->slots[role].wait.index, version))
            late = longer_silent(v, late, i);

    return late;
}

/* The version of other groups that the role waits for: its own between steps, in a step the
 * staleness bound; 0: none. */
static int64_t version_of_others(const struct view *v, int role)
{
    const struct sw_slot_state *s = &v->slots[role];
    int64_t bound = v->roles->topology->staleness;

    if (s->step <= s->wait.number)
        return s->wait.number;

    return bound < 0 ? 0 : s->wait.number - bound;
}

/* The worker that runs the server, now or usually; -1: it has a separate thread. */
static int runner_of(const struct view *v, const struct sw_server *s)
{
    int busy = __atomic_load_n(&s->runner, __ATOMIC_RELAXED);
    if (busy > 0)
        return busy - 1;

    for (int i = 0; s->hosted && i < workers(v); i++)
        for (int k = 0; k < v->roles->workers[i].served.count; k++)
            if (v->roles->workers[i].table == s->table &&
                v->roles->workers[i].served.ranks[k] == s->place->server_rank)
                return i;

    return -1;
}

/* Writes the reason and returns the blocking role. */
static int blames(const struct view *v, int role, const char *fmt, ...) SW_PRINTF(3, 4);
static int blames(const struct view *v, int role, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    if (v->why)
        vsnprintf(v->why, v->bytes, fmt, ap);
    va_end(ap);

    return role;
}

/* Blocks on a version. None if the version exists already and the role has not noticed yet.
 * Otherwise, in this order: a worker whose gradient is missing; a worker whose gradient is still on
 * its device; the server that applies them; a group that is too far behind; the worker that runs
 * the server; the server, even if it reports to be idle. */
static int version_blocker(const struct view *v, int role)
{
    const struct sw_worker *all = v->roles->workers;
    const struct sw_wait *wait = &v->slots[role].wait;
    const struct sw_server *s = owner_of_slices(v, role, wait->index);
    if (sw_table_ready(all[role].table, SW_TABLE_ALL, wait->index, (uint64_t)wait->number))
        return -1;

    int late = without_gradient(v, role, true, wait->number);
    if (late >= 0)
        return blames(v, late, "%s has no gradient of %s", s->role, all[late].role);
    if (sw_exchange_copies_in_flight(all[role].exchange) > 0)
        return -1; /* it waits for its own device */

    for (int i = 0; i < workers(v); i++)
        if (sw_exchange_copies_in_flight(all[i].exchange) > 0)
            late = longer_silent(v, late, i);

    if (late >= 0)
        return blames(v, late, "the gradient of %s has not left %s", all[late].role,
                      all[late].device->name);
    if (v->slots[slot_of_server(v, s->place->global_rank)].phase != SW_PHASE_IDLE)
        return blames(v, slot_of_server(v, s->place->global_rank), "%s has not applied it",
                      s->role);

    int64_t others = version_of_others(v, role);
    late = others > 0 ? without_gradient(v, role, false, others) : -1;
    if (late >= 0)
        return blames(v, late, "%s has no gradient of %s", s->role, all[late].role);
    late = v->roles->topology->is_async ? -1 : runner_of(v, s);
    if (late >= 0 && late != role)
        return blames(v, late, "%s runs on the thread of %s", s->role, all[late].role);
    if (!s->hosted)
        return blames(v, slot_of_server(v, s->place->global_rank), "%s has not applied it",
                      s->role);

    return -1;
}

/* The worker that has not arrived at a barrier, preferably of the same group. If all wait, the one
 * that waits longest has not left the previous barrier. */
static int group_blocker(const struct view *v, int role)
{
    const struct sw_worker *all = v->roles->workers;
    int late = -1, first = role;

    for (int own = 1; own >= 0 && late < 0; own--)
        for (int i = 0; i < workers(v); i++) {
            bool peer = i != role && (all[i].group == all[role].group) == own;

            if (peer && v->slots[i].wait.kind != SW_WAIT_GROUP &&
                v->slots[i].wait.kind != SW_WAIT_TURN)
                late = longer_silent(v, late, i);

            if (peer && v->slots[i].wait.kind == SW_WAIT_GROUP)
                first = longer_silent(v, first, i);
        }

    if (late >= 0)
        return blames(v, late, "%s has not arrived", all[late].role);

    return first == role
               ? -1
               : blames(v, first, "%s has not left the previous barrier", all[first].role);
}

/* The reader thread that has been reading for longest, or an idle one that should be reading. */
static int batch_blocker(const struct view *v, int role)
{
    const struct sw_worker *w = &v->roles->workers[role];
    int split = v->slots[role].wait.index, late = -1, idle = -1;
    const struct sw_reading *r = &w->batches.reading[split];

    for (int i = r->first; i < r->first + r->count; i++)
        if (v->slots[i].phase != SW_PHASE_IDLE)
            late = longer_silent(v, late, i);
        else
            idle = longer_silent(v, idle, i);

    if (late < 0 && w->batches.prefetch[split] && sw_prefetch_is_late(w->batches.prefetch[split]))
        late = idle;
    return late < 0 ? -1 : blames(v, late, "%s has not read it", v->slots[late].name);
}

/* The server that the worker runs now; -1: none. */
static int served(const struct view *v, int role)
{
    const struct sw_worker *w = &v->roles->workers[role];

    for (int i = 0; i < w->served.count; i++) {
        const struct sw_server *s = servers_of(v, role) + w->served.ranks[i];
        if (v->slots[slot_of_server(v, s->place->global_rank)].phase != SW_PHASE_IDLE &&
            runner_of(v, s) == role)
            return blames(v, slot_of_server(v, s->place->global_rank), "it is running %s", s->role);
    }

    return -1;
}

int sw_waits_on(const struct sw_roles *roles, const struct sw_slot_state *slots, int role,
                char *why, size_t bytes)
{
    struct view v = {roles, slots, why, bytes};

    if (why)
        why[0] = '\0';
    if (role >= workers(&v))
        return -1; /* servers and readers only wait for work, and are idle then */

    int next = served(&v, role);
    if (next >= 0)
        return next;

    switch (slots[role].wait.kind) {
    case SW_WAIT_VERSION:
        return version_blocker(&v, role);
    case SW_WAIT_GROUP:
        return group_blocker(&v, role);
    case SW_WAIT_BATCH:
        return batch_blocker(&v, role);
    case SW_WAIT_NONE:
    case SW_WAIT_OTHER:
    case SW_WAIT_DEVICE:
    case SW_WAIT_TURN:
        break;
    }

    return -1;
}

void sw_waits_place(const struct sw_roles *roles, const struct sw_slot_state *slots, int role,
                    char *out, size_t bytes)
{
    const struct sw_slot_state *s = &slots[role];
    bool own = role < roles->topology->workers && !roles->workers[role].device->host_memory;
    char step[32] = "";

    if (s->step >= 0)
        snprintf(step, sizeof step, ", step %lld", (long long)s->step);
    snprintf(out, bytes, "%s%s%s%s%s%s", sw_phase_name(s->phase), s->layer_name[0] ? " of " : "",
             s->layer_name, step, own ? ", on " : "", own ? roles->workers[role].device->name : "");
}
