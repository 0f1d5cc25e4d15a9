/* Who waits for whom in a running job, told from the slots of its live snapshot alone: no unit is
 * asked, none has to answer. What a unit waits for is in its slot; whether another has done its
 * part follows from where that one is. By the watch thread, seldom. */
#include "train/job_private.h"
#include <stdarg.h>
#include <stdio.h>

struct view {
    const struct sw_job *job;
    const struct sw_slot_state *slots;
    char *why; /* or NULL */
    size_t bytes;
};

static int workers(const struct view *v)
{
    return v->job->placement->worker_count;
}

static int slot_of_server(const struct view *v, int server)
{
    return workers(v) + server;
}

/* Of two units the one that has been silent for longer; -1 stands for nobody. */
static int longer_silent(const struct view *v, int a, int b)
{
    return a < 0 || v->slots[b].heartbeat_ns < v->slots[a].heartbeat_ns ? b : a;
}

/* The layer whose backward completes a parameter of the table; -1: the worker has not got it. */
static int layer_of(const struct sw_worker *w, int param)
{
    for (int i = 0; i < sw_net_layer_count(w->train); i++) {
        int first, count = sw_net_layer_params(w->train, i, &first);
        for (int p = first; p < first + count; p++)
            if (w->param_of[SW_SPLIT_TRAIN][p] == param && sw_net_param(w->train, p)->root < 0)
                return i;
    }
    return -1;
}

/* Has the worker handed over its gradient of step `version`? Where updates are decided upon for all
 * parameters at once, its gradients of all of them. */
static bool has_given(const struct view *v, int worker, int param, int64_t version)
{
    const struct sw_slot_state *s = &v->slots[worker];
    const struct sw_worker *w = &v->job->workers[worker];
    int owner = sw_table_param(v->job->table, param)->owner;
    bool at_once = sw_table_has_phases(v->job->table);
    if (s->done_step >= version || s->step > version || (owner >= 0 && owner != worker && !at_once))
        return true;
    if (s->step < version || at_once)
        return false;
    int layer = layer_of(w, param);
    return layer < 0 || (s->phase == SW_PHASE_BACKWARD && s->layer < layer) ||
           (s->phase == SW_PHASE_UPDATE && s->layer <= layer);
}

static int owner_of_slices(const struct view *v, int param)
{
    for (int i = 0; i < v->job->placement->server_count; i++)
        if (sw_table_has_slices(v->job->table, i, param))
            return i;
    return 0;
}

/* The unit to blame, and why. */
static int blames(const struct view *v, int unit, const char *fmt, ...) SW_PRINTF(3, 4);
static int blames(const struct view *v, int unit, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    if (v->why)
        vsnprintf(v->why, v->bytes, fmt, ap);
    va_end(ap);
    return unit;
}

/* The gradients of some workers are not there; then those that have left a worker, but not its
 * device; then the server that is to apply them, or the worker that runs it. */
static int version_blocker(const struct view *v, int unit)
{
    const struct sw_wait *wait = &v->slots[unit].wait;
    struct sw_worker *all = v->job->workers;
    int server = owner_of_slices(v, wait->index), late = -1;
    const struct sw_server *s = &v->job->servers[server];
    for (int i = 0; i < workers(v); i++)
        if (i != unit && !has_given(v, i, wait->index, wait->number))
            late = longer_silent(v, late, i);
    if (late >= 0)
        return blames(v, late, "%s has no gradient of %s", s->unit, all[late].unit);
    if (all[unit].replica && sw_replica_under_way(all[unit].replica) > 0)
        return -1; /* its own device */
    for (int i = 0; i < workers(v); i++)
        if (all[i].replica && sw_replica_under_way(all[i].replica) > 0)
            late = longer_silent(v, late, i);
    if (late >= 0)
        return blames(v, late, "the gradient of %s has not left %s", all[late].unit,
                      all[late].device->name);
    if (v->slots[slot_of_server(v, server)].phase != SW_PHASE_IDLE)
        return blames(v, slot_of_server(v, server), "%s has not applied it", s->unit);
    if (s->host && s->host->index != unit)
        return blames(v, s->host->index, "%s is run by %s", s->unit, s->host->unit);
    return -1;
}

/* The worker that has not come to a meeting. */
static int group_blocker(const struct view *v, int unit)
{
    int late = -1;
    for (int i = 0; i < workers(v); i++)
        if (i != unit && v->slots[i].wait.kind != SW_WAIT_GROUP)
            late = longer_silent(v, late, i);
    return late < 0 ? -1 : blames(v, late, "%s has not come", v->job->workers[late].unit);
}

/* The thread that is reading and has been for longest. */
static int batch_blocker(const struct view *v, int unit)
{
    const struct sw_worker *w = &v->job->workers[unit];
    int split = v->slots[unit].wait.index, late = -1;
    const struct sw_reading *r = &w->reading[split];
    for (int i = r->first; i < r->first + r->count; i++)
        if (v->slots[i].phase != SW_PHASE_IDLE)
            late = longer_silent(v, late, i);
    return late < 0 ? -1 : blames(v, late, "%s has not read it", v->slots[late].name);
}

/* A server that the worker is just running; -1: none. */
static int served(const struct view *v, int unit)
{
    const struct sw_worker *w = &v->job->workers[unit];
    for (int i = 0; i < w->served_count; i++)
        if (v->slots[slot_of_server(v, w->served[i])].phase != SW_PHASE_IDLE)
            return blames(v, slot_of_server(v, w->served[i]), "it runs %s",
                          v->job->servers[w->served[i]].unit);
    return -1;
}

int sw_waits_on(const struct sw_job *job, const struct sw_slot_state *slots, int unit, char *why,
                size_t bytes)
{
    struct view v = {job, slots, why, bytes};
    if (why)
        why[0] = '\0';
    if (unit >= workers(&v))
        return -1; /* servers and readers wait for work only, and are idle then */
    int next = served(&v, unit);
    if (next >= 0)
        return next;
    switch (slots[unit].wait.kind) {
    case SW_WAIT_VERSION:
        return version_blocker(&v, unit);
    case SW_WAIT_GROUP:
        return group_blocker(&v, unit);
    case SW_WAIT_BATCH:
        return batch_blocker(&v, unit);
    case SW_WAIT_NONE:
    case SW_WAIT_OTHER:
    case SW_WAIT_DEVICE:
        break;
    }
    return -1;
}

void sw_waits_place(const struct sw_job *job, const struct sw_slot_state *slots, int unit,
                    char *out, size_t bytes)
{
    const struct sw_slot_state *s = &slots[unit];
    bool own = unit < job->placement->worker_count && !job->workers[unit].device->host_memory;
    char step[32] = "";
    if (s->step >= 0)
        snprintf(step, sizeof step, ", step %lld", (long long)s->step);
    snprintf(out, bytes, "%s%s%s%s%s%s", sw_phase_name(s->phase), s->layer_name[0] ? " of " : "",
             s->layer_name, step, own ? ", on " : "", own ? job->workers[unit].device->name : "");
}
