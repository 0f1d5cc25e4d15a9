/* Searches the best plans over all shapes: first with few states, which gives good plans and with
 * them a bound, then with as many as are needed (search_shape.c). */
#include "planner/search_space.h"

#include "base/os.h"
#include "base/str.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { FEW_STATES = 64 };

struct search {
    const struct sw_net_model *net;
    const struct sw_machine_model *machine;
    const struct sw_search_limits *limits;
    struct sw_plan_shape *shape;    /* owned [shapes] */
    struct sw_search_space **space; /* owned with its elements: [shapes] */
    bool *exact;                    /* owned [shapes] */
    int shapes;
    struct sw_search_result *out;
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
    int rc = sw_search_list_shapes(s->net, s->machine, s->limits, &s->shape, &s->shapes, err);
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

static int take_plan(void *user, const struct sw_search_space *s,
                     const struct sw_layer_choice *choice, struct sw_err *err)
{
    struct search *search = user;
    struct sw_parallel_plan p;
    int rc = sw_parallel_plan_init(&p, &s->cost.shape, s->cost.net->count, err);
    if (rc != SW_OK)
        return rc;

    memcpy(p.choice, choice, (size_t)p.layers * sizeof *choice);
    p.additive_s = sw_cost_plan(&s->cost, &p, NULL);
    rank_plan(search->out, &p);
    return SW_OK;
}

/* Searches the shapes that are not exact yet. */
static int search_shapes(struct search *s, int width, struct sw_err *err)
{
    int rc = SW_OK;

    for (int i = 0; i < s->shapes && rc == SW_OK; i++) {
        const struct sw_search_run run = {
            .width = width, .bound = bound_of(s, &s->shape[i]), .take = take_plan, .user = s};
        if (!s->exact[i])
            rc = sw_search_shape(s->space[i], &run, &s->exact[i], err);
    }

    return rc;
}

static int find_best(struct search *s, struct sw_err *err)
{
    struct sw_search_result *out = s->out;

    out->plan = sw_calloc(SW_SEARCH_BEST, sizeof *out->plan);
    if (!out->plan)
        return sw_err_nomem(err, "the search of a plan", SW_SEARCH_BEST * sizeof *out->plan);

    int rc = search_shapes(s, FEW_STATES, err);
    if (rc == SW_OK)
        rc = search_shapes(s, SW_SEARCH_STATES, err);

    out->is_exact = true;
    for (int i = 0; i < s->shapes; i++)
        out->is_exact = out->is_exact && s->exact[i];
    out->most_open = s->space[0]->most_open;
    return rc;
}

/* ---- Runner-ups ---- */

static bool reads(const struct sw_layer_model *l, int source)
{
    for (int k = 0; k < l->source_count; k++)
        if (l->source[k] == source)
            return true;
    return false;
}

/* Cost of a layer and of all that its choice changes: the connections of its readers, and those of
 * the other readers of its sources. */
static double cost_around(const struct sw_cost_model *c, const struct sw_parallel_plan *p,
                          int layer)
{
    const struct sw_layer_model *l = &c->net->layer[layer];
    double seconds = 0;

    for (int j = 0; j < c->net->count; j++) {
        bool concerned = j == layer || reads(&c->net->layer[j], layer);
        for (int k = 0; k < l->source_count; k++)
            concerned = concerned || reads(&c->net->layer[j], l->source[k]);
        if (!concerned)
            continue;

        const struct sw_layer_cost cost = sw_cost_layer_in(c, p, j);
        seconds += cost.compute_s + cost.params_s + cost.activations_s;
    }

    return seconds;
}

static void set_choice(const struct sw_cost_model *c, struct sw_parallel_plan *p, int layer,
                       const struct sw_layer_choice *choice)
{
    for (int w = 0; w < p->workers; w++) {
        const int rank = w % p->shape.group_size;
        p->device_bytes[w] += sw_cost_bytes(c, layer, choice, rank) -
                              sw_cost_bytes(c, layer, &p->choice[layer], rank);
    }
    p->choice[layer] = *choice;
}

static void find_runner_up(const struct sw_search_space *s, struct sw_parallel_plan *p, int layer,
                           struct sw_search_result *out)
{
    const struct sw_layer_choice best = p->choice[layer];
    const double around_s = cost_around(&s->cost, p, layer);

    out->runner_up[layer] = best;
    out->runner_up_s[layer] = (double)INFINITY;

    for (int k = 0; k < s->layer[layer].options; k++) {
        const struct sw_layer_choice *other = &s->layer[layer].option[k].choice;
        if (memcmp(other, &best, sizeof best) == 0)
            continue;

        set_choice(&s->cost, p, layer, other);
        const double seconds = p->additive_s - around_s + cost_around(&s->cost, p, layer);
        if (seconds < out->runner_up_s[layer] && sw_cost_overfull(&s->cost, p) < 0) {
            out->runner_up[layer] = *other;
            out->runner_up_s[layer] = seconds;
        }
    }

    set_choice(&s->cost, p, layer, &best);
}

static int find_runner_ups(const struct search *s, struct sw_err *err)
{
    struct sw_search_result *out = s->out;
    const size_t layers = (size_t)s->net->count + 1;
    const struct sw_plan_shape *best = &out->plan[0].shape;
    int shape = 0;

    out->runner_up = sw_calloc(layers, sizeof *out->runner_up);
    out->runner_up_s = sw_calloc(layers, sizeof *out->runner_up_s);
    if (!out->runner_up || !out->runner_up_s)
        return sw_err_nomem(err, "the runner-ups of layers", layers * sizeof *out->runner_up);

    while (s->shape[shape].framework != best->framework || s->shape[shape].groups != best->groups ||
           s->shape[shape].group_size != best->group_size)
        shape++;
    for (int i = 0; i < s->net->count; i++)
        find_runner_up(s->space[shape], &out->plan[0], i, out);
    return SW_OK;
}

/* ---- The nearest plan ---- */

static int search_once(struct search *s, struct sw_err *err)
{
    int rc = search_init(s, err);
    return rc == SW_OK ? find_best(s, err) : rc;
}

/* Searches with other limits; if there is a plan, writes `what` and its cost. Errors end it without
 * a plan: this only adds to a message. */
static bool describe_with(const struct search *s, const struct sw_search_limits *limits,
                          const char *what, char out[256])
{
    struct sw_search_result result = {.count = 0};
    struct search other = {.net = s->net, .machine = s->machine, .limits = limits, .out = &result};
    struct sw_err err;
    const bool found = search_once(&other, &err) == SW_OK && result.count > 0;

    if (found) {
        const struct sw_plan_shape *shape = &result.plan[0].shape;
        snprintf(out, 256, "%s: %d worker group%s of %d, %.3g ms per step", what, shape->groups,
                 shape->groups == 1 ? "" : "s", shape->group_size, 1e3 * result.plan[0].additive_s);
    }

    search_fini(&other);
    sw_search_fini(&result);
    return found;
}

/* Copies of wishes by layer, without that of one layer. NULL: there are none, or no memory. */
static int *wishes_without(const struct search *s, const int *wish, int layer)
{
    int *copy = wish ? sw_calloc((size_t)s->net->count, sizeof *copy) : NULL;

    for (int i = 0; i < s->net->count && copy; i++)
        copy[i] = i == layer ? -1 : wish[i];
    return copy;
}

/* The nearest plan if the limits leave layer `blocked` no option. */
static void find_unblocked(const struct search *s, int blocked, char out[256])
{
    struct sw_search_limits limits = *s->limits;
    int *partition = wishes_without(s, limits.partition, blocked);
    int *location = wishes_without(s, limits.location, blocked);
    int *comm = wishes_without(s, limits.comm, blocked);
    char what[96];

    limits.partition = partition;
    limits.location = location;
    limits.comm = comm;
    snprintf(what, sizeof what, "without that key of layer %.48s", s->net->layer[blocked].name);
    if (!describe_with(s, &limits, what, out)) {
        limits.partition = limits.location = limits.comm = NULL;
        if (!describe_with(s, &limits, "without keys of layers", out))
            snprintf(out, 256, "none");
    }

    sw_free(partition);
    sw_free(location);
    sw_free(comm);
}

/* How full a plan makes the fullest memory, as a part of its capacity, if every layer in turn takes
 * the option that fills the fullest one least; *worker and *bytes get that memory. */
static double find_smallest(const struct sw_search_space *s, int *worker, int64_t *bytes)
{
    double fullest = 0;
    int64_t *used = sw_calloc((size_t)s->memories + 1, sizeof *used);

    for (int m = 0; m < s->memories && used; m++)
        used[m] = s->memory[m].workers * s->cost.net->fixed_bytes;

    for (int i = 0; i < s->cost.net->count && used && s->blocked < 0; i++) {
        const struct sw_search_layer *l = &s->layer[i];
        double least = (double)INFINITY;
        int best = 0;

        for (int k = 0; k < l->options; k++) {
            double most = 0;
            for (int m = 0; m < s->memories; m++)
                most = fmax(most, (double)(used[m] + l->option[k].bytes[m]) /
                                      (double)s->memory[m].capacity);
            best = most < least ? k : best;
            least = fmin(most, least);
        }

        for (int m = 0; m < s->memories; m++)
            used[m] += l->option[best].bytes[m];
    }

    for (int m = 0; m < s->memories && used; m++) {
        const double full = (double)used[m] / (double)s->memory[m].capacity;
        if (full <= fullest)
            continue;
        fullest = full;
        *worker = s->memory[m].worker;
        *bytes = used[m];
    }

    sw_free(used);
    return s->blocked < 0 && fullest > 0 ? fullest : (double)INFINITY;
}

static void describe_smallest(const struct search *s, char out[256])
{
    double smallest = (double)INFINITY;
    int64_t bytes = 0;
    int worker = 0, shape = 0;

    for (int i = 0; i < s->shapes; i++) {
        int w = 0;
        int64_t b = 0;
        const double full = find_smallest(s->space[i], &w, &b);
        if (full >= smallest)
            continue;

        smallest = full;
        worker = w;
        bytes = b;
        shape = i;
    }

    const struct sw_device_model *d = &s->machine->device[worker];
    char needs[32], has[32];
    sw_human_bytes(needs, (double)bytes);
    sw_human_bytes(has, (double)d->memory_bytes);
    snprintf(
        out, 256,
        "no plan fits into memory: the smallest one found, %d x %d workers, needs %s on %.48s, "
        "which has %s; use a smaller batch, or devices with more memory",
        s->shape[shape].groups, s->shape[shape].group_size, needs, d->name, has);
}

/* Why no plan fits into memory, and the nearest one that does. */
static void find_fitting(const struct search *s, char out[256])
{
    struct sw_search_limits limits = *s->limits;
    const char *refused = "no plan with these limits fits into memory; nearest is, ";
    char what[128];

    limits.groups = limits.group_size = limits.most_workers = 0;
    snprintf(what, sizeof what, "%swith other numbers of workers", refused);
    if (describe_with(s, &limits, what, out))
        return;

    limits.partition = limits.location = limits.comm = NULL;
    limits.net_comm = SW_EXCHANGE_AUTO;
    snprintf(what, sizeof what, "%swithout keys of layers", refused);
    if (!describe_with(s, &limits, what, out))
        describe_smallest(s, out);
}

/* Error: the limits leave some layer no option in any shape. */
static int check_layers(const struct search *s, struct sw_err *err)
{
    char why[256], nearest[256];

    for (int i = 0; i < s->shapes; i++)
        if (s->space[i]->blocked < 0)
            return SW_OK;

    const int blocked = s->space[0]->blocked;
    find_unblocked(s, blocked, nearest);
    return sw_err_set(err, SW_ERR_INVALID, "%s; nearest plan: %s",
                      sw_search_why_blocked(s->space[0], blocked, s->limits, why), nearest);
}

/* ---- The search ---- */

int sw_search(const struct sw_net_model *net, const struct sw_machine_model *machine,
              const struct sw_search_limits *limits, struct sw_search_result *out,
              struct sw_err *err)
{
    struct search s = {.net = net, .machine = machine, .limits = limits, .out = out};
    *out = (struct sw_search_result){.count = 0};

    int rc = search_init(&s, err);
    if (rc == SW_OK)
        rc = check_layers(&s, err);
    if (rc == SW_OK)
        rc = find_best(&s, err);
    if (rc == SW_OK && out->count == 0)
        find_fitting(&s, out->nearest);
    if (rc == SW_OK && out->count > 0)
        rc = find_runner_ups(&s, err);

    search_fini(&s);
    return rc;
}

void sw_search_fini(struct sw_search_result *r)
{
    for (int i = 0; i < r->count; i++)
        sw_parallel_plan_fini(&r->plan[i]);
    sw_free(r->plan);
    sw_free(r->runner_up);
    sw_free(r->runner_up_s);
    *r = (struct sw_search_result){.count = 0};
}
