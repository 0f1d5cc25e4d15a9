/* Exchanges of parameters, as the table and the routes do them (exchange/): when all members have
 * pushed their gradients of a layer, these are summed, sent, updated and answered, in the stages of
 * enum sw_plansim_stage. Between asynchronous groups the answer to update t is withheld until the
 * slowest group has made t - staleness. Where devices of such groups exchange factors
 * (exchange/reduce/factors.h), an update counts when all workers have its rows, and a worker makes
 * those of all groups before its forward pass. */
#include "planner/simulate_private.h"

#include "base/os.h"

static int go_through(struct sw_plansim *s, struct sw_plansim_exchange *e, struct sw_err *err);

static int index_of(const struct sw_plansim *s, const struct sw_plansim_exchange *e)
{
    return (int)(e - s->exchange);
}

static int member(const struct sw_plansim_exchange *e, int i)
{
    return e->members.first + i * e->members.stride;
}

/* ---- Work on the members' cores ---- */

static int give_job(struct sw_plansim *s, struct sw_plansim_exchange *e, int worker, double seconds,
                    struct sw_err *err)
{
    struct sw_plansim_worker *w = &s->worker[worker];

    int rc = sw_grow(&w->job, sizeof *w->job, w->jobs, &w->job_capacity, 16, "messages", err);
    if (rc != SW_OK)
        return rc;

    w->job[w->jobs++] = (struct sw_plansim_job){index_of(s, e), seconds * w->slow};
    e->jobs_left++;
    sw_plansim_wake(s, worker);

    return SW_OK;
}

/* Gives the work of every host to the members there that have a server. */
static int give_jobs(struct sw_plansim *s, struct sw_plansim_exchange *e, double seconds,
                     struct sw_err *err)
{
    int servers = s->plan->shape.servers, here = 0;

    for (int i = 0; i < e->members.count; i++) {
        bool same_host = i > 0 && s->worker[member(e, i)].host == s->worker[member(e, i - 1)].host;

        here = same_host ? here + 1 : 1;
        if (here > 1 && here > servers)
            continue;

        int rc = give_job(s, e, member(e, i), seconds, err);
        if (rc != SW_OK)
            return rc;
    }

    return SW_OK;
}

int sw_plansim_served(struct sw_plansim *s, int exchange, struct sw_err *err)
{
    struct sw_plansim_exchange *e = &s->exchange[exchange];

    return --e->jobs_left > 0 ? SW_OK : sw_plansim_exchange_ended(s, exchange, err);
}

/* Servers with threads of their own handle messages in the order of arrival; lost ones none. */
static int queue_at_servers(struct sw_plansim *s, const struct sw_plansim_exchange *e,
                            struct sw_err *err)
{
    double *free_s = &s->server_free_s[e->server_host];
    if (s->host_is_lost && e->server_host == s->args->lost_host)
        return SW_OK;

    *free_s = (*free_s > s->now_s ? *free_s : s->now_s) + e->serve_s;
    return sw_plansim_events_push(&s->events,
                                  (struct sw_plansim_event){.time_s = *free_s,
                                                            .kind = SW_PLANSIM_SERVER,
                                                            .index = index_of(s, e)},
                                  err);
}

/* ---- Asynchronous groups ---- */

static bool is_too_early(const struct sw_plansim *s, const struct sw_plansim_exchange *e)
{
    int64_t bound = s->plan->shape.staleness;

    return s->is_async && bound >= 0 && e->begun - s->least[e->layer] > bound;
}

static void record_staleness(struct sw_plansim *s, const struct sw_plansim_exchange *e)
{
    int64_t lag = e->begun - s->least[e->layer];

    if (!s->is_async || s->groups == 1)
        return;

    s->staleness += (double)lag;
    s->answers++;
    if (lag > s->most_staleness)
        s->most_staleness = lag;
}

/* Finds the slowest groups that are not lost, and returns their updates. */
static int64_t find_slowest(struct sw_plansim *s, int layer)
{
    int64_t least = INT64_MAX;
    int *count = &s->slowest[layer];

    *count = 0;
    for (int i = s->first_exchange[layer]; i < s->first_exchange[layer + 1]; i++) {
        const struct sw_plansim_exchange *e = &s->exchange[i];
        if (s->is_lost[e->group])
            continue;

        *count = e->updates < least ? 1 : *count + (e->updates == least);
        least = e->updates < least ? e->updates : least;
    }

    return least == INT64_MAX ? s->least[layer] : least;
}

/* Some groups may go on after the update of another one, or its loss. */
static int release_answers(struct sw_plansim *s, int layer, struct sw_err *err)
{
    int64_t least = find_slowest(s, layer);
    if (least == s->least[layer])
        return SW_OK;

    s->least[layer] = least;
    for (int i = s->first_exchange[layer]; i < s->first_exchange[layer + 1]; i++) {
        struct sw_plansim_exchange *e = &s->exchange[i];
        if (!e->is_withheld || is_too_early(s, e))
            continue;

        e->is_withheld = false;
        e->begun_s = s->now_s; /* until now it waited for others */
        record_staleness(s, e);
        e->stage = SW_PLANSIM_DOWN;
        int rc = go_through(s, e, err);
        if (rc != SW_OK)
            return rc;
    }

    return SW_OK;
}

/* The update is made: sets *withheld if its answer has to wait. */
static int answer(struct sw_plansim *s, struct sw_plansim_exchange *e, bool *withheld,
                  struct sw_err *err)
{
    bool was_slowest = e->updates++ == s->least[e->layer];

    if (s->is_async && was_slowest && --s->slowest[e->layer] == 0) {
        int rc = release_answers(s, e->layer, err);
        if (rc != SW_OK)
            return rc;
    }

    *withheld = e->is_withheld = is_too_early(s, e);
    if (!*withheld)
        record_staleness(s, e);
    return SW_OK;
}

int sw_plansim_lose_group(struct sw_plansim *s, int group, struct sw_err *err)
{
    s->is_lost[group] = true;

    for (int l = 0; l < s->layers; l++) {
        int rc = release_answers(s, l, err);
        if (rc != SW_OK)
            return rc;
    }

    return SW_OK;
}

/* ---- Update control ---- */

/* The exchanges that update control decides together: the group's, or all. */
static void controlled(const struct sw_plansim *s, const struct sw_plansim_exchange *e, int *first,
                       int *step, int *count)
{
    *first = s->is_async ? e->group : 0;
    *step = s->is_async ? s->groups : 1;
    *count = s->exchanges / *step;
}

/* All updates of a step begin when the last sum is known, the lowest layer first. */
static int control(struct sw_plansim *s, struct sw_plansim_exchange *e, struct sw_err *err)
{
    int first, step, count;

    controlled(s, e, &first, &step, &count);
    for (int i = 0; i < count; i++)
        if (s->exchange[first + i * step].stage != SW_PLANSIM_CONTROL)
            return SW_OK;

    for (int i = 0; i < count; i++) {
        struct sw_plansim_exchange *other = &s->exchange[first + i * step];

        other->stage = SW_PLANSIM_SERVE;
        int rc = go_through(s, other, err);
        if (rc != SW_OK)
            return rc;
    }

    return SW_OK;
}

/* ---- Stages ---- */

static const struct sw_plansim_path *path_of(const struct sw_plansim_exchange *e)
{
    return e->stage == SW_PLANSIM_UP ? e->up : e->down;
}

/* Copies of devices go in the order of their queues, but for what a limit of the throughput holds
 * back. */
static int urgency_of(const struct sw_plansim *s, const struct sw_plansim_exchange *e)
{
    bool is_held = e->stage == SW_PLANSIM_UP && e->is_mirror && s->args->bandwidth > 0;
    return e->is_queued && !is_held ? SW_PLANSIM_COPIES : s->urgency[e->layer];
}

static void finish(struct sw_plansim *s, struct sw_plansim_exchange *e)
{
    e->stage = SW_PLANSIM_GATHER;
    e->done++;

    for (int i = 0; i < e->members.count; i++)
        sw_plansim_wake(s, member(e, i));
}

/* Asks for the next values that the worker may fetch: it waits for those of a layer before it asks
 * for those of the layers above it. They are on their way when all members have asked. */
static int fetch_next(struct sw_plansim *s, struct sw_plansim_worker *w, struct sw_err *err)
{
    for (;; w->fetch_layer++) {
        if (w->fetch_layer == s->layers) {
            w->fetch_layer = 0;
            w->fetch_step++;
        }

        struct sw_plansim_exchange *e =
            sw_plansim_exchange_of(s, w->fetch_layer, (int)(w - s->worker));
        if (!e || !e->is_mirror || !sw_plansim_computes(s, w->fetch_layer, w))
            continue;
        if (e->ready < w->fetch_step)
            return SW_OK;
        if (++e->asked < e->members.count)
            continue;

        e->asked = 0;
        int rc = sw_plansim_ask(s, e->down, urgency_of(s, e), index_of(s, e), err);
        if (rc != SW_OK)
            return rc;
    }
}

static int fetch(struct sw_plansim *s, struct sw_plansim_exchange *e, struct sw_err *err)
{
    e->ready++;
    for (int i = 0; i < e->members.count; i++) {
        int rc = fetch_next(s, &s->worker[member(e, i)], err);
        if (rc != SW_OK)
            return rc;
    }

    return SW_OK;
}

/* Begins the stage. *at_once: it has nothing to do. */
static int begin_stage(struct sw_plansim *s, struct sw_plansim_exchange *e, bool *at_once,
                       struct sw_err *err)
{
    const struct sw_plansim_path *path = path_of(e);
    bool withheld;
    int rc = SW_OK;

    *at_once = false;
    switch (e->stage) {
    case SW_PLANSIM_SUM:
        *at_once = e->sum_s == 0;
        return *at_once ? SW_OK : give_jobs(s, e, e->sum_s, err);

    case SW_PLANSIM_CONTROL:
        *at_once = !s->net->controls_updates;
        return *at_once ? SW_OK : control(s, e, err);

    case SW_PLANSIM_SERVE:
        *at_once = e->serve_s == 0;
        if (*at_once)
            return SW_OK;
        return e->server_host >= 0 ? queue_at_servers(s, e, err) : give_jobs(s, e, e->serve_s, err);

    case SW_PLANSIM_ANSWER:
        rc = answer(s, e, &withheld, err);
        *at_once = !withheld;
        return rc;

    default:
        if (e->stage == SW_PLANSIM_DOWN && e->is_mirror)
            return fetch(s, e, err);
        *at_once = !path || path->count == 0;
        return *at_once ? SW_OK : sw_plansim_ask(s, path, urgency_of(s, e), index_of(s, e), err);
    }
}

/* Goes through stages from the current one on, until one takes time. */
static int go_through(struct sw_plansim *s, struct sw_plansim_exchange *e, struct sw_err *err)
{
    for (; e->stage <= SW_PLANSIM_DOWN; e->stage++) {
        bool at_once;

        int rc = begin_stage(s, e, &at_once, err);
        if (rc != SW_OK || !at_once)
            return rc;
    }

    finish(s, e);
    return SW_OK;
}

int sw_plansim_exchange_begin(struct sw_plansim *s, int exchange, struct sw_err *err)
{
    const struct sw_plansim_exchange *e = &s->exchange[exchange];
    const struct sw_plansim_path *path = path_of(e);
    double units = e->stage == SW_PLANSIM_UP ? e->up_bytes : e->down_bytes;
    int arrays = e->stage == SW_PLANSIM_UP ? e->up_arrays : e->down_arrays;

    return sw_plansim_links_begin(
        &s->links, path,
        &(struct sw_plansim_load){.bytes = units * path->bytes,
                                  .copies_s = arrays * path->copies * path->latency_s,
                                  .level = urgency_of(s, e),
                                  .owner = exchange},
        s->now_s, err);
}

int sw_plansim_exchange_ended(struct sw_plansim *s, int exchange, struct sw_err *err)
{
    s->exchange[exchange].stage++;
    return go_through(s, &s->exchange[exchange], err);
}

int sw_plansim_push(struct sw_plansim *s, int worker, int layer, struct sw_err *err)
{
    struct sw_plansim_exchange *e = sw_plansim_exchange_of(s, layer, worker);
    if (!e || ++e->pushed < e->members.count)
        return SW_OK;

    e->pushed = 0;
    e->begun++;
    e->begun_s = s->now_s;
    e->stage = SW_PLANSIM_SUM;

    return go_through(s, e, err);
}
