/* Searches the best plans over all shapes: first with few states, which gives good plans and with
 * them a bound, then with as many as are needed (search_shape.c). All activations stay in memory in
 * these plans. Where memory excludes faster ones, the best plan with memory = fit is searched too:
 * it never takes less time than the best one whatever its memory. */
#include "planner/search_space.h"

#include "base/os.h"
#include <math.h>
#include <string.h>

enum {
    FEW_STATES = 64,
    FITTED_STATES =
        512 /* with memory = fit every layer has a choice of its own, as in a knapsack */
};

struct search {
    const struct sw_net_model *net;
    const struct sw_machine_model *machine;
    const struct sw_search_limits *limits;
    struct sw_plan_shape *shape;    /* owned [shapes] */
    struct sw_search_space **space; /* owned with its elements: [shapes] */
    bool *exact;                    /* owned [shapes] */
    int shapes, skipped;
    struct sw_search_result *out;
    int current;   /* shape */
    double free_s; /* of the best plan of the current shape, whatever memory it takes */
};

static void search_fini(struct search *s)
{
    for (int i = 0; i < s->shapes && s->space; i++)
        sw_search_space_free(s->space[i]);
    sw_free(s->space);
    sw_free(s->exact);
    sw_free(s->shape);
}

static int search_init(struct search *s, struct sw_err *err)
{
    int rc = sw_search_list_shapes(s->net, s->machine, s->limits, &s->shape, &s->shapes,
                                   &s->skipped, err);
    if (rc != SW_OK)
        return rc;

    s->space = sw_calloc((size_t)s->shapes, sizeof *s->space);
    s->exact = sw_calloc((size_t)s->shapes, sizeof *s->exact);
    if (!s->space || !s->exact)
        return sw_err_nomem(err, "the search of a plan", (size_t)s->shapes * sizeof *s->space);

    for (int i = 0; i < s->shapes && rc == SW_OK; i++)
        rc = sw_search_space_new(s->net, s->machine, &s->shape[i], s->limits, &s->space[i], err);
    return rc;
}

/* ---- The best plans ---- */

/* Time per batch: asynchronous groups have a batch each. */
static double value_of(const struct sw_parallel_plan *p)
{
    return p->additive_s / (p->shape.consistency == SW_CONSISTENCY_BSP ? 1 : p->shape.groups);
}

/* The additive cost in this shape above which a plan is not among the best. */
static double bound_of(const struct search *s, const struct sw_plan_shape *shape)
{
    const struct sw_search_result *out = s->out;
    const int batches = shape->consistency == SW_CONSISTENCY_BSP ? 1 : shape->groups;

    return out->count < SW_SEARCH_BEST ? (double)INFINITY
                                       : value_of(&out->plan[out->count - 1]) * batches;
}

/* Puts a plan, which it takes over, in its place among the best. */
static void rank_plan(struct sw_search_result *out, struct sw_parallel_plan *p)
{
    int at = out->count;

    for (int i = 0; i < out->count; i++)
        if (sw_parallel_plan_equal(&out->plan[i], p)) {
            sw_parallel_plan_fini(p);
            return;
        }

    while (at > 0 && value_of(p) < value_of(&out->plan[at - 1]))
        at--;
    if (out->count == SW_SEARCH_BEST && at == out->count) {
        sw_parallel_plan_fini(p);
        return;
    }

    if (out->count == SW_SEARCH_BEST)
        sw_parallel_plan_fini(&out->plan[--out->count]);
    memmove(&out->plan[at + 1], &out->plan[at], (size_t)(out->count - at) * sizeof *p);
    out->plan[at] = *p;
    out->count++;
}

/* Sets the additive cost of a plan, and what memory = fit costs it. */
static void find_cost(struct sw_parallel_plan *p, const struct sw_cost_model *c, int64_t budget,
                      const struct sw_layer_choice *choice)
{
    for (int i = 0; i < p->layers; i++) {
        p->fit.recomputed += choice[i].residency == SW_PLAN_RECOMPUTED;
        p->fit.offloaded += choice[i].residency == SW_PLAN_OFFLOADED;
        p->choice[i] = choice[i];
        p->choice[i].residency = SW_PLAN_KEPT;
    }

    const double kept_s = p->fit.recomputed + p->fit.offloaded > 0 ? sw_cost_plan(c, p, NULL) : 0;

    memcpy(p->choice, choice, (size_t)p->layers * sizeof *choice);
    p->additive_s = sw_cost_plan(c, p, NULL);
    if (kept_s > 0) {
        p->fit.seconds = p->additive_s - kept_s;
        p->fit.budget_bytes = sw_cost_budget(c, p, budget);
    }
}

static int take_plan(void *user, const struct sw_search_space *s,
                     const struct sw_layer_choice *choice, struct sw_err *err)
{
    struct search *search = user;
    struct sw_parallel_plan p;
    int rc = sw_parallel_plan_init(&p, &s->cost.shape, s->cost.net->count, err);
    if (rc != SW_OK)
        return rc;

    find_cost(&p, &s->cost, search->limits->budget_bytes, choice);

    struct sw_parallel_plan *best = &search->out->of_shape[search->current];
    if (best->layers == 0 || p.additive_s < best->additive_s) {
        sw_parallel_plan_fini(best);
        rc = sw_parallel_plan_copy(best, &p, err);
    }
    rank_plan(search->out, &p);
    return rc;
}

/* Only its time counts. */
static int take_free(void *user, const struct sw_search_space *s,
                     const struct sw_layer_choice *choice, struct sw_err *err)
{
    struct search *search = user;
    struct sw_parallel_plan p;
    int rc = sw_parallel_plan_init(&p, &s->cost.shape, s->cost.net->count, err);
    if (rc != SW_OK)
        return rc;

    memcpy(p.choice, choice, (size_t)p.layers * sizeof *choice);
    search->free_s = sw_cost_plan(&s->cost, &p, NULL);
    sw_parallel_plan_fini(&p);
    return SW_OK;
}

/* Searches the shapes that are not exact yet; bounded: only for plans that are among the best. */
static int search_shapes(struct search *s, int width, bool bounded, struct sw_err *err)
{
    int rc = SW_OK;

    for (int i = 0; i < s->shapes && rc == SW_OK; i++) {
        const struct sw_search_run run = {.what = SW_SEARCH_KEPT,
                                          .width = width,
                                          .most = SW_SEARCH_BEST,
                                          .bound = bounded ? bound_of(s, &s->shape[i])
                                                           : (double)INFINITY,
                                          .take = take_plan,
                                          .user = s};

        s->current = i;
        if (!s->exact[i])
            rc = sw_search_shape(s->space[i], &run, &s->exact[i], err);
    }

    return rc;
}

/* Is there a plan of the shape that is faster than `bound`, whatever memory it takes? */
static int find_free(struct search *s, int i, double bound, bool *faster, struct sw_err *err)
{
    const struct sw_search_run run = {.what = SW_SEARCH_FREE,
                                      .width = SW_SEARCH_STATES,
                                      .most = 1,
                                      .bound = bound,
                                      .take = take_free,
                                      .user = s};
    bool exact;

    s->free_s = (double)INFINITY;
    int rc = sw_search_shape(s->space[i], &run, &exact, err);
    *faster = !exact || s->free_s < bound * (1 - 1e-9);
    return rc;
}

/* Searches a shape for a plan with memory = fit that is faster than its best one without, and among
 * the best of all. */
static int search_fitted(struct search *s, int i, struct sw_err *err)
{
    const struct sw_parallel_plan *best = &s->out->of_shape[i];
    bool faster = false, exact = false;

    s->current = i;
    int rc = find_free(s, i, best->layers > 0 ? best->additive_s : (double)INFINITY, &faster, err);

    for (int width = FEW_STATES; rc == SW_OK && faster && !exact && width <= FITTED_STATES;
         width *= FITTED_STATES / FEW_STATES) {
        const double own_s = best->layers > 0 ? best->additive_s : (double)INFINITY;
        const struct sw_search_run run = {
            .what = SW_SEARCH_FITTED,
            .width = width,
            .most = 1,
            .bound = width == FEW_STATES ? own_s : fmin(own_s, bound_of(s, &s->shape[i])),
            .take = take_plan,
            .user = s};

        rc = sw_search_shape(s->space[i], &run, &exact, err);
    }

    s->exact[i] = s->exact[i] && (!faster || exact);
    return rc;
}

/* Drops the entries of shapes that have no plan. */
static void remove_missing(struct sw_search_result *out)
{
    int kept = 0;

    for (int i = 0; i < out->shapes; i++)
        if (out->of_shape[i].layers > 0)
            out->of_shape[kept++] = out->of_shape[i];
    out->shapes = kept;
}

static int find_best(struct search *s, struct sw_err *err)
{
    struct sw_search_result *out = s->out;

    out->plan = sw_calloc(SW_SEARCH_BEST, sizeof *out->plan);
    out->of_shape = sw_calloc((size_t)s->shapes, sizeof *out->of_shape);
    if (!out->plan || !out->of_shape)
        return sw_err_nomem(err, "the search of a plan", SW_SEARCH_BEST * sizeof *out->plan);

    out->shapes = s->shapes;
    int rc = search_shapes(s, FEW_STATES, false, err);
    if (rc == SW_OK)
        rc = search_shapes(s, SW_SEARCH_STATES, true, err);
    for (int i = 0; i < s->shapes && rc == SW_OK && s->limits->budget_bytes >= 0; i++)
        if (s->space[i]->memories > 0 && s->space[i]->blocked < 0)
            rc = search_fitted(s, i, err);

    out->is_exact = true;
    for (int i = 0; i < s->shapes; i++)
        out->is_exact = out->is_exact && s->exact[i];
    out->most_open = s->space[0]->most_open;
    out->skipped_shapes = s->skipped;
    remove_missing(out);
    return rc;
}

/* ---- The search ---- */

/* The layer that has no option in the shape with most workers, if some layer has none in each. */
static int find_blocked(const struct search *s)
{
    for (int i = 0; i < s->shapes; i++)
        if (s->space[i]->blocked < 0)
            return -1;

    return s->space[0]->blocked;
}

static int search_all(struct search *s, int *blocked, struct sw_err *err)
{
    *s->out = (struct sw_search_result){.count = 0};
    *blocked = -1;

    int rc = search_init(s, err);
    if (rc == SW_OK)
        *blocked = find_blocked(s);
    return rc == SW_OK && *blocked < 0 ? find_best(s, err) : rc;
}

int sw_search_best(const struct sw_net_model *net, const struct sw_machine_model *machine,
                   const struct sw_search_limits *limits, struct sw_search_result *out,
                   int *blocked, struct sw_err *err)
{
    struct search s = {.net = net, .machine = machine, .limits = limits, .out = out};
    int rc = search_all(&s, blocked, err);

    search_fini(&s);
    return rc;
}

static int refuse(const struct search *s, int blocked, struct sw_err *err)
{
    char why[256], nearest[256];

    sw_search_find_nearest(s->net, s->machine, s->limits, blocked, nearest);
    return sw_err_set(err, SW_ERR_INVALID, "%s; nearest plan: %s",
                      sw_search_why_blocked(s->space[0], blocked, s->limits, why), nearest);
}

int sw_search(const struct sw_net_model *net, const struct sw_machine_model *machine,
              const struct sw_search_limits *limits, struct sw_search_result *out,
              struct sw_err *err)
{
    struct search s = {.net = net, .machine = machine, .limits = limits, .out = out};
    int blocked, rc = search_all(&s, &blocked, err);

    if (rc == SW_OK && blocked >= 0)
        rc = refuse(&s, blocked, err);
    else if (rc == SW_OK && out->count == 0)
        sw_search_find_nearest(net, machine, limits, -1, out->nearest);

    search_fini(&s);
    return rc;
}

void sw_search_fini(struct sw_search_result *r)
{
    for (int i = 0; i < r->count; i++)
        sw_parallel_plan_fini(&r->plan[i]);
    for (int i = 0; i < r->shapes; i++)
        sw_parallel_plan_fini(&r->of_shape[i]);
    sw_free(r->plan);
    sw_free(r->of_shape);
    *r = (struct sw_search_result){.count = 0};
}
