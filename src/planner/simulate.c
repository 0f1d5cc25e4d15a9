/* Simulation of a parallel plan: checks of what is asked, the loop over events, and the result
 * (planner/simulate.h). */
#include "planner/simulate_private.h"

#include "base/os.h"
#include <math.h>

/* ---- What is asked ---- */

static int check_slowdown(const struct sw_simulation_args *a, const struct sw_slowdown *slow,
                          struct sw_err *err)
{
    int links = sw_machine_model_links(a->machine);

    if (!(slow->factor >= 1) || isinf(slow->factor))
        return sw_err_set(err, SW_ERR_INVALID, "a slowdown of %g: it must be a number from 1 on",
                          slow->factor);
    if ((slow->device < 0) == (slow->link < 0))
        return sw_err_set(err, SW_ERR_INVALID, "a slowdown is either of a device or of a link");
    if (slow->device >= a->machine->device_count)
        return sw_err_set(err, SW_ERR_INVALID, "there is no device %d to slow down: %s has %d",
                          slow->device, a->machine->name, a->machine->device_count);
    if (slow->link >= links)
        return sw_err_set(err, SW_ERR_INVALID, "there is no link %d to slow down: %s has %d",
                          slow->link, a->machine->name, links);

    return SW_OK;
}

static int check_plan(const struct sw_simulation_args *a, struct sw_err *err)
{
    const struct sw_plan_shape *shape = &a->plan->shape;
    int devices = a->machine->device_count;

    if (shape->groups < 1 || shape->group_size < 1 || shape->groups > devices / shape->group_size)
        return sw_err_set(err, SW_ERR_INVALID, "%d groups of %d workers need more than %d devices",
                          shape->groups, shape->group_size, devices);
    if (a->plan->layers != a->net->count)
        return sw_err_set(err, SW_ERR_INVALID, "the plan is of %d layers, and the net has %d",
                          a->plan->layers, a->net->count);

    for (int i = 0; i < a->plan->layers; i++) {
        const struct sw_layer_choice *c = &a->plan->choice[i];

        if (c->location < 0 || c->location >= shape->group_size)
            return sw_err_set(err, SW_ERR_INVALID, "layer %s cannot be on worker %d of %d",
                              a->net->layer[i].name, c->location, shape->group_size);
    }

    return SW_OK;
}

static int check(const struct sw_simulation_args *a, struct sw_err *err)
{
    if (a->steps != 0 && (a->steps < 2 || a->steps > SW_SIMULATION_MOST_STEPS))
        return sw_err_set(err, SW_ERR_INVALID, "%d steps: a simulation has 2 to %d", a->steps,
                          SW_SIMULATION_MOST_STEPS);
    if (!(a->bandwidth >= 0))
        return sw_err_set(err, SW_ERR_INVALID, "a bandwidth of %g bytes/s", a->bandwidth);
    if (!(a->jitter >= 0 && a->jitter <= 10))
        return sw_err_set(err, SW_ERR_INVALID, "a jitter of %g: it must be 0 to 10", a->jitter);
    if (a->lost_host < -1 || a->lost_host >= a->machine->hosts)
        return sw_err_set(err, SW_ERR_INVALID, "there is no host %d to lose: %s has %d",
                          a->lost_host, a->machine->name, a->machine->hosts);

    for (int i = 0; i < a->slow_count; i++) {
        int rc = check_slowdown(a, &a->slow[i], err);
        if (rc != SW_OK)
            return rc;
    }

    return check_plan(a, err);
}

/* ---- The loop ---- */

static int let_go_on(struct sw_plansim *s, struct sw_err *err)
{
    while (s->first_woken >= 0) {
        int worker = s->first_woken;

        s->first_woken = s->worker[worker].next_woken;
        s->worker[worker].is_woken = false;
        int rc = sw_plansim_go_on(s, worker, err);
        if (rc != SW_OK)
            return rc;
    }

    return SW_OK;
}

static int begin_transfer(struct sw_plansim *s, int owner, struct sw_err *err)
{
    return owner < s->exchanges ? sw_plansim_exchange_begin(s, owner, err)
                                : sw_plansim_move_begin(s, owner, err);
}

static int end_transfer(struct sw_plansim *s, int owner, struct sw_err *err)
{
    return owner < s->exchanges ? sw_plansim_exchange_ended(s, owner, err)
                                : sw_plansim_move_ended(s, owner, err);
}

static int handle(struct sw_plansim *s, const struct sw_plansim_event *e, struct sw_err *err)
{
    int owner;

    switch (e->kind) {
    case SW_PLANSIM_WORKER:
        return sw_plansim_worker_done(s, e->index, err);
    case SW_PLANSIM_SERVER:
        return sw_plansim_exchange_ended(s, e->index, err);
    case SW_PLANSIM_START:
        return begin_transfer(s, e->index, err);
    case SW_PLANSIM_COPY:
        return sw_plansim_move_ended(s, e->index, err);
    default:
        return sw_plansim_links_end(&s->links, e, &owner) ? end_transfer(s, owner, err) : SW_OK;
    }
}

/* Handles all events of the next moment. */
static int handle_next(struct sw_plansim *s, struct sw_err *err)
{
    s->now_s = s->events.heap[0].time_s;

    while (s->events.count > 0 && s->events.heap[0].time_s <= s->now_s) {
        struct sw_plansim_event e = sw_plansim_events_pop(&s->events);

        int rc = handle(s, &e, err);
        if (rc != SW_OK)
            return rc;
        rc = let_go_on(s, err);
        if (rc != SW_OK)
            return rc;
    }

    return sw_plansim_links_settle(&s->links, s->now_s, &s->events, err);
}

/* Until nothing happens any more: all steps are done, or the others wait for a lost host. */
static int run(struct sw_plansim *s, struct sw_err *err)
{
    for (int i = s->workers - 1; i >= 0; i--)
        sw_plansim_wake(s, i);

    int rc = let_go_on(s, err);
    while (rc == SW_OK && s->events.count > 0)
        rc = handle_next(s, err);

    return rc;
}

/* ---- The result ---- */

static int64_t steps_of(const struct sw_plansim_worker *w)
{
    return w->step - 1;
}

/* A step of the worker, after the first one; 0: it has done no other. */
static double step_s(const struct sw_plansim_worker *w)
{
    return steps_of(w) > 1 ? (w->end_s - w->begin_s) / (double)(steps_of(w) - 1) : 0;
}

static double spent_s(const struct sw_plansim_worker *w, enum sw_plansim_part part)
{
    double steps = (double)(steps_of(w) - 1);
    return steps > 0 ? (w->end_spent_s[part] - w->begin_spent_s[part]) / steps : 0;
}

/* The slowest of asynchronous workers; of others, which are equally fast, the busiest. */
static const struct sw_plansim_worker *critical(const struct sw_plansim *s)
{
    const struct sw_plansim_worker *worst = NULL;
    double most = -1;

    for (int i = 0; i < s->workers; i++) {
        const struct sw_plansim_worker *w = &s->worker[i];
        double busy_s = spent_s(w, SW_PLANSIM_COMPUTES) + spent_s(w, SW_PLANSIM_UPDATES);
        double weight = s->is_async ? step_s(w) : busy_s;

        if (weight > most) {
            most = weight;
            worst = w;
        }
    }

    return worst;
}

static double samples_per_s(const struct sw_plansim *s, double slowest_s)
{
    double batch = (double)s->net->batch, sum = 0;
    if (!s->is_async)
        return slowest_s > 0 ? batch / slowest_s : 0;

    for (int g = 0; g < s->groups; g++) {
        double group_s = step_s(&s->worker[g * s->size]);
        sum += group_s > 0 && !s->is_lost[g] ? batch / group_s : 0;
    }

    return sum;
}

static double wait_share(const struct sw_plansim *s)
{
    double waits_s = 0, all_s = 0;

    for (int i = 0; i < s->workers; i++) {
        const struct sw_plansim_worker *w = &s->worker[i];

        for (int part = 0; part < SW_PLANSIM_PARTS; part++)
            waits_s +=
                part >= SW_PLANSIM_PARAMS ? w->end_spent_s[part] - w->begin_spent_s[part] : 0;
        all_s += w->end_s - w->begin_s;
    }

    return all_s > 0 ? waits_s / all_s : 0;
}

static void summarize(const struct sw_plansim *s, struct sw_simulation *out)
{
    const struct sw_plansim_worker *w = critical(s);
    struct sw_plan_time time = {.step_s = step_s(w),
                                .compute_s = spent_s(w, SW_PLANSIM_COMPUTES),
                                .params_s =
                                    spent_s(w, SW_PLANSIM_UPDATES) + spent_s(w, SW_PLANSIM_PARAMS),
                                .activations_s = spent_s(w, SW_PLANSIM_ACTIVATIONS),
                                .rest_s = spent_s(w, SW_PLANSIM_RESTS)};
    int64_t steps = 0;

    time.wait_s =
        fmax(time.step_s - time.compute_s - time.params_s - time.activations_s - time.rest_s, 0);
    out->time = time;
    out->samples_per_s = samples_per_s(s, time.step_s);
    out->wait_share = wait_share(s);
    out->moves = s->moves;
    out->mean_staleness = s->answers > 0 ? s->staleness / (double)s->answers : 0;
    out->most_staleness = s->most_staleness;

    out->steps_done = s->steps;
    for (int i = 0; i < s->workers; i++) {
        steps += steps_of(&s->worker[i]);
        if (steps_of(&s->worker[i]) < out->steps_done)
            out->steps_done = steps_of(&s->worker[i]);
    }

    for (int l = 0; l < s->layers; l++)
        out->layer_wait_s[l] /= steps > 0 ? (double)steps : 1;
    for (int i = 0; i < sw_machine_model_links(s->machine); i++)
        out->busy[i] = s->now_s > 0 ? sw_plansim_links_busy_s(&s->links, i) / s->now_s : 0;
}

int sw_simulate(const struct sw_simulation_args *args, struct sw_simulation *out,
                struct sw_err *err)
{
    size_t links = (size_t)sw_machine_model_links(args->machine);
    struct sw_plansim s = {.first_woken = -1};

    *out = (struct sw_simulation){.busy = NULL};
    int rc = check(args, err);
    if (rc != SW_OK)
        return rc;

    out->busy = sw_calloc(links + 1, sizeof *out->busy);
    out->layer_wait_s = sw_calloc((size_t)args->net->count + 1, sizeof *out->layer_wait_s);
    if (!out->busy || !out->layer_wait_s)
        return sw_err_nomem(err, "a simulation", links * sizeof *out->busy);

    rc = sw_plansim_init(&s, args, err);
    if (rc != SW_OK)
        goto out;

    s.layer_wait_s = out->layer_wait_s;
    rc = run(&s, err);
    if (rc == SW_OK)
        summarize(&s, out);

out:
    sw_plansim_fini(&s);
    return rc;
}

void sw_simulation_fini(struct sw_simulation *s)
{
    sw_free(s->busy);
    sw_free(s->layer_wait_s);
    *s = (struct sw_simulation){.busy = NULL};
}
