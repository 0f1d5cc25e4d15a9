/* A worker's step: the servers' jobs that it has got, then the next pass of the step if its
 * parameters and sources are there. What it waits for is charged when it goes on. */
#include "planner/simulate_private.h"

#include "base/philox.h"
#include <math.h>
#include <string.h>

/* Asynchronous groups do at most so many times the steps that are asked for. */
enum { MOST_ROUNDS = 4 };

static int passes(const struct sw_plansim *s)
{
    return 2 * s->layers;
}

static int layer_of(const struct sw_plansim *s, int pass, bool *back)
{
    *back = pass >= s->layers;
    return *back ? passes(s) - 1 - pass : pass;
}

/* ---- Waiting ---- */

/* The wait began at since_s. What is awaited had begun at begun_s (INFINITY: it has not), before
 * which the worker waited for others. */
static void charge_wait(struct sw_plansim *s, struct sw_plansim_worker *w,
                        enum sw_plansim_part part, double begun_s)
{
    double from_s = fmin(fmax(begun_s, w->since_s), s->now_s);
    bool back;

    w->spent_s[SW_PLANSIM_OTHERS] += from_s - w->since_s;
    w->spent_s[part] += s->now_s - from_s;
    if (w->pass < passes(s))
        s->layer_wait_s[layer_of(s, w->pass, &back)] += s->now_s - w->since_s;
    w->since_s = s->now_s;
}

/* Ends the wait that the worker may be in. */
static void end_wait(struct sw_plansim *s, struct sw_plansim_worker *w)
{
    const struct sw_plansim_exchange *e = w->awaits_exchange;
    const struct sw_plansim_crossing *c = w->awaits_move;

    if (w->state != SW_PLANSIM_WAITS)
        return;

    if (e)
        charge_wait(s, w, SW_PLANSIM_PARAMS,
                    e->begun >= w->step - 1 && !e->is_withheld ? e->begun_s : (double)INFINITY);
    else if (c)
        charge_wait(s, w, SW_PLANSIM_ACTIVATIONS,
                    c->begun >= w->step ? c->begun_s : (double)INFINITY);
    else
        charge_wait(s, w, SW_PLANSIM_OTHERS, (double)INFINITY);

    w->state = SW_PLANSIM_READY;
    w->awaits_exchange = NULL;
    w->awaits_move = NULL;
}

static void begin_wait(struct sw_plansim *s, struct sw_plansim_worker *w,
                       const struct sw_plansim_exchange *e, const struct sw_plansim_crossing *c)
{
    w->state = SW_PLANSIM_WAITS;
    w->since_s = s->now_s;
    w->awaits_exchange = e;
    w->awaits_move = c;
}

/* Buffers of activations hold one step: a worker is at most one step ahead of its group. */
static bool is_ahead(const struct sw_plansim *s, const struct sw_plansim_worker *w)
{
    for (int i = 0; i < s->size; i++)
        if (s->worker[w->group * s->size + i].step < w->step - 1)
            return true;
    return false;
}

/* Can the next pass begin? If not, the worker waits. */
static bool may_begin(struct sw_plansim *s, int worker, int layer, bool back)
{
    struct sw_plansim_worker *w = &s->worker[worker];
    const struct sw_plansim_exchange *e = back ? NULL : sw_plansim_exchange_of(s, layer, worker);
    const struct sw_plansim_crossing *c = sw_plansim_awaited(s, w, layer, back);

    if (e && e->done < w->step - 1)
        begin_wait(s, w, e, NULL);
    else if (c)
        begin_wait(s, w, NULL, c);
    else
        return true;
    return false;
}

/* ---- Work ---- */

static int be_busy(struct sw_plansim *s, int worker, double seconds, struct sw_err *err)
{
    s->worker[worker].state =
        s->worker[worker].state == SW_PLANSIM_DONE ? SW_PLANSIM_SERVES : SW_PLANSIM_BUSY;
    return sw_plansim_events_push(&s->events,
                                  (struct sw_plansim_event){.time_s = s->now_s + seconds,
                                                            .kind = SW_PLANSIM_WORKER,
                                                            .index = worker},
                                  err);
}

/* Factor of a pass's time: log-normal, with mean 1. */
static double jitter(const struct sw_plansim *s, int worker)
{
    const struct sw_plansim_worker *w = &s->worker[worker];
    double sigma = s->args->jitter;
    if (sigma == 0)
        return 1;

    struct sw_philox stream =
        sw_philox_stream(s->args->seed, SW_PURPOSE_SIMULATION, (uint64_t)worker);
    struct sw_philox4 words = sw_philox_at(stream, (uint64_t)w->step, (uint32_t)w->pass, 0);
    double u = (words.v[0] + 1.0) / 4294967296.0, v = words.v[1] / 4294967296.0;
    double normal = sqrt(-2 * log(u)) * cos(2 * acos(-1) * v); /* Box and Muller */

    double variance = log(1 + sigma * sigma);
    return exp(sqrt(variance) * normal - variance / 2);
}

static int begin_pass(struct sw_plansim *s, int worker, int layer, bool back, struct sw_err *err)
{
    struct sw_plansim_worker *w = &s->worker[worker];
    const struct sw_plansim_exchange *e = back ? NULL : sw_plansim_exchange_of(s, layer, worker);
    double pull_s = e && w->step > 1 ? e->pull_s * w->slow : 0;
    double pass_s = s->pass_s[back][(size_t)worker * (size_t)s->layers + (size_t)layer];

    double rest_s = w->pass == w->rest_pass ? w->rest_s * w->slow : 0;

    pass_s *= jitter(s, worker);
    w->spent_s[SW_PLANSIM_RESTS] += rest_s;
    w->spent_s[SW_PLANSIM_UPDATES] += pull_s;
    w->spent_s[SW_PLANSIM_COMPUTES] += pass_s;

    return be_busy(s, worker, rest_s + pull_s + pass_s, err);
}

static int begin_job(struct sw_plansim *s, int worker, struct sw_err *err)
{
    struct sw_plansim_worker *w = &s->worker[worker];
    struct sw_plansim_job job = w->job[w->first_job++];

    if (w->first_job == w->jobs)
        w->first_job = w->jobs = 0;
    w->serves = job.exchange;
    w->spent_s[SW_PLANSIM_UPDATES] += job.seconds;

    return be_busy(s, worker, job.seconds, err);
}

/* ---- The step ---- */

/* The gradients that were held back until the end of the backward pass, from the top layer down. */
static int push_late(struct sw_plansim *s, int worker, struct sw_err *err)
{
    for (int l = s->layers - 1; l >= 0; l--) {
        if (!s->net->layer[l].has_backward || !sw_plansim_computes(s, l, &s->worker[worker]))
            continue;

        int rc = sw_plansim_push(s, worker, l, err);
        if (rc != SW_OK)
            return rc;
    }

    return SW_OK;
}

/* Does the worker begin another step? Asynchronous groups that have done all go on while others
 * have not, since these would else have links and servers for themselves. The first worker of a
 * group to ask decides for it. */
static bool goes_on(struct sw_plansim *s, const struct sw_plansim_worker *w)
{
    int64_t *steps = &s->group_steps[w->group], done = w->step - 1;

    if (done == s->steps && w->rank == 0)
        s->unfinished--;
    if (done == *steps && s->is_async && s->unfinished > 0 && done < MOST_ROUNDS * s->steps)
        (*steps)++;

    return done < *steps;
}

static int end_step(struct sw_plansim *s, int worker, struct sw_err *err)
{
    struct sw_plansim_worker *w = &s->worker[worker];
    int rc = s->args->no_overlap ? push_late(s, worker, err) : SW_OK;
    if (rc != SW_OK)
        return rc;

    if (w->step == 1) {
        w->begin_s = s->now_s;
        memcpy(w->begin_spent_s, w->spent_s, sizeof w->spent_s);
    }
    w->end_s = s->now_s;
    memcpy(w->end_spent_s, w->spent_s, sizeof w->spent_s);

    w->step++;
    w->pass = 0;
    if (!goes_on(s, w))
        w->state = SW_PLANSIM_DONE;
    for (int i = 0; i < s->size; i++)
        sw_plansim_wake(s, w->group * s->size + i);

    return SW_OK;
}

static int lose(struct sw_plansim *s, struct sw_plansim_worker *w, struct sw_err *err)
{
    if (!s->is_lost[w->group] && w->step <= s->steps)
        s->unfinished--;
    w->state = SW_PLANSIM_LOST;
    s->host_is_lost = true;
    return s->is_async ? sw_plansim_lose_group(s, w->group, err) : SW_OK;
}

/* Begins the next pass, or skips one that the worker does not have. */
static int begin_next(struct sw_plansim *s, int worker, struct sw_err *err)
{
    struct sw_plansim_worker *w = &s->worker[worker];
    bool back, lost = w->host == s->args->lost_host && w->step >= s->args->lost_at;

    if (w->pass == passes(s))
        return end_step(s, worker, err);
    if (w->pass == 0 && lost)
        return lose(s, w, err);
    if (w->pass == 0 && is_ahead(s, w)) {
        begin_wait(s, w, NULL, NULL);
        return SW_OK;
    }

    int layer = layer_of(s, w->pass, &back);
    if (!sw_plansim_computes(s, layer, w) || (back && !s->net->layer[layer].has_backward)) {
        w->pass++;
        return SW_OK;
    }

    return may_begin(s, worker, layer, back) ? begin_pass(s, worker, layer, back, err) : SW_OK;
}

int sw_plansim_go_on(struct sw_plansim *s, int worker, struct sw_err *err)
{
    struct sw_plansim_worker *w = &s->worker[worker];
    int rc = SW_OK;

    if (w->state == SW_PLANSIM_WAITS)
        end_wait(s, w);
    while (w->state == SW_PLANSIM_READY && rc == SW_OK)
        rc = w->jobs > 0 ? begin_job(s, worker, err) : begin_next(s, worker, err);
    if (w->state == SW_PLANSIM_DONE && w->jobs > 0 && rc == SW_OK)
        rc = begin_job(s, worker, err);

    return rc;
}

/* The worker's pass is done: sends what it has made. */
static int send_results(struct sw_plansim *s, int worker, struct sw_err *err)
{
    bool back;
    int layer = layer_of(s, s->worker[worker].pass, &back);

    if (back && !s->args->no_overlap) {
        int rc = sw_plansim_push(s, worker, layer, err);
        if (rc != SW_OK)
            return rc;
    }

    return sw_plansim_send(s, worker, layer, back, err);
}

int sw_plansim_worker_done(struct sw_plansim *s, int worker, struct sw_err *err)
{
    struct sw_plansim_worker *w = &s->worker[worker];
    int serves = w->serves;

    w->serves = -1;
    w->state = w->state == SW_PLANSIM_SERVES ? SW_PLANSIM_DONE : SW_PLANSIM_READY;
    sw_plansim_wake(s, worker);

    if (serves >= 0)
        return sw_plansim_served(s, serves, err);

    int rc = send_results(s, worker, err);
    w->pass++;
    return rc;
}
