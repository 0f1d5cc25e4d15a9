/* Makes a plan of the models of a net and a machine: searches, simulates the best plans that were
 * found, drops those that do not fit the memory, and picks the fastest. The contract is in
 * planner/planned.h. */
#include "planner/planned_private.h"

#include "base/os.h"
#include "base/str.h"
#include <limits.h>
#include <math.h>
#include <stdio.h>

enum { BUDGETS = 4 }; /* jobs that are opened with memory = fit */

enum { PARTS = 3 };         /* of an additive cost */
enum { MANY_WORKERS = 16 }; /* with more of them a simulation takes long */
#define FAR_SLOWER 1.5

/* ---- Search -----------------------------------------------------------------------------------
 * Activations move between the workers of a host only, so a group over several hosts splits its
 * layers by rows, and one that splits them otherwise stays on a host. Server hosts are those of an
 * imagined cluster of the papers, in which activations move between hosts, too. */

/* Gives a plan the budget of its memory. False: it has one, or may have none. */
static bool give_budget(const struct sw_planned_making *m, const struct sw_machine_model *machine,
                        struct sw_parallel_plan *p)
{
    const int64_t budget = m->args->limits->budget_bytes;
    struct sw_cost_model cost;

    if (budget < 0 || p->fit.budget_bytes > 0 || !m->args->measure)
        return false;

    sw_cost_model_init(&cost, m->args->net, machine, &p->shape);
    p->fit.budget_bytes = sw_cost_budget(&cost, p, budget);
    return p->fit.budget_bytes > 0;
}

static int search_fitting(const struct sw_planned_making *m, const struct sw_machine_model *machine,
                          const struct sw_search_limits *limits, struct sw_search_result *r,
                          struct sw_err *err)
{
    int rc = sw_search(m->args->net, machine, limits, r, err);
    return rc == SW_OK && r->count == 0 ? sw_err_set(err, SW_ERR_NOTFOUND, "%s", r->nearest) : rc;
}

/* The memory of a plan is an estimate: if none seems to fit, jobs are asked whether the fastest
 * ones do with memory = fit. */
static int search_any(const struct sw_planned_making *m, const struct sw_machine_model *machine,
                      const struct sw_search_limits *limits, struct sw_search_result *r,
                      struct sw_err *err)
{
    struct sw_search_limits any = *limits;

    if (!m->args->measure || limits->budget_bytes < 0)
        return search_fitting(m, machine, limits, r, err);

    int blocked, rc = sw_search_best(m->args->net, machine, limits, r, &blocked, err);
    if (rc != SW_OK || r->count > 0 || blocked >= 0)
        return rc == SW_OK && blocked >= 0 ? search_fitting(m, machine, limits, r, err) : rc;

    sw_search_fini(r);
    any.any_memory = true;
    rc = search_fitting(m, machine, &any, r, err);
    while (r->count > 1) /* one of each shape: those of one shape need the same memory, nearly */
        sw_parallel_plan_fini(&r->plan[--r->count]);
    for (int i = 0; i < r->shapes; i++)
        give_budget(m, machine, &r->of_shape[i]);
    if (r->count > 0)
        give_budget(m, machine, &r->plan[0]);
    return rc;
}

/* Would a plan take much longer than one that was simulated even if computing, the exchange of
 * parameters and the movement of activations, which its cost adds, overlapped completely? Then it
 * is not simulated, which takes long for many workers. */
static bool is_far_slower(const struct sw_planned_making *m, const struct sw_parallel_plan *p)
{
    const double least_s =
        p->additive_s / PARTS / (double)sw_planned_samples(m->args->net, &p->shape);

    for (int i = 0; i < m->count && p->workers > MANY_WORKERS; i++)
        if (least_s > FAR_SLOWER * sw_planned_sample_s(m->out, &m->candidate[i].plan))
            return true;
    return false;
}

static int search(struct sw_planned_making *m, const struct sw_machine_model *machine,
                  const struct sw_search_limits *limits, struct sw_err *err)
{
    struct sw_search_result r = {0};
    struct sw_search_limits own = *limits;

    /* Workers on cores share all of them, so that fewer workers are another machine. */
    if (machine->device[0].host_memory && machine->hosts == 1 && own.fewest_workers == 0)
        own.fewest_workers = sw_planned_first_host(machine);
    int rc = search_any(m, machine, &own, &r, err);

    const int most = m->args->simulated > 0 ? m->args->simulated : r.count;
    for (int i = 0; rc == SW_OK && i < r.count && i < most; i++)
        rc = sw_planned_add(m, machine, &r.plan[i], NULL, err);

    for (int i = 0; rc == SW_OK && i < r.shapes && m->args->simulated == 0; i++)
        if (!is_far_slower(m, &r.of_shape[i]))
            rc = sw_planned_add(m, machine, &r.of_shape[i], NULL, err);
    if (rc == SW_OK && m->args->simulated == 0)
        rc = sw_planned_add_uniforms(m, machine, limits, &r.plan[0].shape, err);

    if (rc == SW_OK) {
        m->out->is_exact = m->out->is_exact && r.is_exact;
        m->out->most_open = r.most_open > m->out->most_open ? r.most_open : m->out->most_open;
        m->out->skipped_shapes += r.skipped_shapes;
    }

    sw_search_fini(&r);
    return rc;
}

/* The partition of each layer when all are split by rows; NULL with an error if the recipe asks for
 * another one. */
static int *rows_of_all(const struct sw_planned_args *args, struct sw_err *err)
{
    const struct sw_net_model *net = args->net;
    const int *own = args->limits->partition;
    int *rows = sw_calloc((size_t)net->count, sizeof *rows); /* SW_PARTITION_ROWS is 0 */

    if (!rows)
        sw_err_nomem(err, "partitions of layers", 0);

    for (int i = 0; rows && own && i < net->count; i++)
        if (own[i] > SW_PARTITION_ROWS) {
            sw_err_set(err, SW_ERR_INVALID,
                       "layer %s: partition = %s: layers cannot be split on several hosts, because "
                       "activations do not move between hosts; split it by rows, or plan for one "
                       "host",
                       net->layer[i].name, sw_partition_names[own[i]]);
            sw_free(rows);
            return NULL;
        }

    return rows;
}

static int search_hosts(struct sw_planned_making *m, const struct sw_machine_model *machine,
                        struct sw_err *err)
{
    const int most = sw_planned_first_host(machine);
    struct sw_search_limits one_host = *m->args->limits, all = *m->args->limits;
    struct sw_err why;
    int *rows = rows_of_all(m->args, err), rc = rows ? SW_OK : err->code;

    if (rows) {
        all.partition = rows;
        rc = search(m, machine, &all, err);
    }

    if (m->args->hosts < 2 && (rc == SW_OK || rc == SW_ERR_INVALID || rc == SW_ERR_NOTFOUND)) {
        if (one_host.most_workers == 0 || one_host.most_workers > most)
            one_host.most_workers = most;

        const int other = search(m, machine, &one_host, &why);
        if (other == SW_OK)
            rc = SW_OK;
        else if (other != SW_ERR_INVALID && other != SW_ERR_NOTFOUND) {
            *err = why;
            rc = other;
        }
    }

    sw_free(rows);
    return rc;
}

/* Plans were found, but no job can have their workers. */
static int refuse_counts(const struct sw_planned_making *m, struct sw_err *err)
{
    const struct sw_search_limits *l = m->args->limits;
    const int hosts = m->args->machine[0]->hosts;
    const bool groups = l->groups > 1 || l->group_size == 0;

    if (m->args->hosts > 1)
        return sw_err_set(err, SW_ERR_INVALID,
                          "no plan has workers on all of the %d hosts: choose other counts of "
                          "workers, or a job.batch of at least a row for each",
                          m->args->hosts);
    return sw_err_set(err, SW_ERR_INVALID,
                      "%s = %d cannot give %d hosts equally many workers; use a multiple of %d, or "
                      "as many as one host has",
                      groups ? "worker_groups" : "workers_per_group",
                      groups ? l->groups : l->group_size, hosts, hosts);
}

/* Searches every model of the machine; what is impossible on one may be possible on another. */
static int search_all(struct sw_planned_making *m, struct sw_err *err)
{
    int rc = SW_OK;

    for (int i = 0; i < m->args->machines; i++) {
        const struct sw_machine_model *machine = m->args->machine[i];

        rc = machine->hosts > 1 && machine->server_hosts == 0
                 ? search_hosts(m, machine, err)
                 : search(m, machine, m->args->limits, err);
        if (rc != SW_OK && rc != SW_ERR_INVALID && rc != SW_ERR_NOTFOUND)
            return rc;
    }

    if (m->count == 0 && rc == SW_OK)
        rc = refuse_counts(m, err);
    return m->count > 0 ? SW_OK : rc;
}

/* ---- Choice ---- */

/* Fewer threads of a worker leave cores to others. */
static int threads_of(const struct sw_parallel_plan *p)
{
    return p->shape.threads > 0 ? p->shape.threads : INT_MAX;
}

/* Is a plan better: faster, or as fast and more usual, or with fewer workers or threads? */
static bool is_better(const struct sw_planned *out, const struct sw_parallel_plan *p,
                      const struct sw_parallel_plan *than)
{
    const double own_s = sw_planned_sample_s(out, p), other_s = sw_planned_sample_s(out, than);
    const bool usual = p->shape.framework == SW_FRAMEWORK_ALLREDUCE;
    const bool other_usual = than->shape.framework == SW_FRAMEWORK_ALLREDUCE;

    if (fabs(own_s - other_s) > SW_PLANNED_ROUNDING * other_s)
        return own_s < other_s;
    return usual != other_usual          ? usual
           : p->workers != than->workers ? p->workers < than->workers
                                         : threads_of(p) < threads_of(than);
}

/* The best candidate that is left; NULL: none. */
static struct sw_planned_candidate *best_left(const struct sw_planned_making *m)
{
    struct sw_planned_candidate *best = NULL;

    for (int i = 0; i < m->count; i++) {
        struct sw_planned_candidate *c = &m->candidate[i];

        if (c->plan.layers > 0 && (!best || is_better(m->out, &c->plan, &best->plan)))
            best = c;
    }

    return best;
}

/* The job says that all activations fit. */
static void keep_all(struct sw_parallel_plan *p)
{
    p->fit = (struct sw_plan_fit){.is_exact = true};
    for (int i = 0; i < p->layers; i++)
        p->choice[i].residency = SW_PLAN_KEPT;
}

int sw_planned_measure(const struct sw_planned_making *m, struct sw_planned_candidate *c,
                       int *worker, struct sw_err *err)
{
    const struct sw_planned_args *args = m->args;
    struct sw_parallel_plan *p = &c->plan;
    struct sw_cost_model cost;
    const double expected_s = p->fit.seconds;

    int rc = args->measure ? args->measure(args->user, c->machine, p, err) : SW_OK;
    if (rc != SW_OK)
        return rc;

    sw_cost_model_init(&cost, args->net, c->machine, &p->shape);
    *worker = sw_cost_overfull(&cost, p);
    c->is_measured = true;

    if (p->fit.is_exact)
        p->fit.seconds = sw_cost_fit(&cost, &p->fit, p->time.compute_s - expected_s);
    if (p->fit.is_exact && p->fit.recomputed + p->fit.offloaded == 0)
        keep_all(p);
    p->time.compute_s += p->fit.seconds - expected_s;
    p->time.step_s += p->fit.seconds - expected_s;
    return SW_OK;
}

/* Of the plans that do not fit, the one that exceeds a memory least. */
struct smallest {
    double excess; /* bytes of that memory over what it has; 0: there is none yet */
    struct sw_err why;
    bool tried; /* a job was opened with memory = fit */
};

static void note_smallest(struct smallest *s, const struct sw_planned_candidate *c, int worker)
{
    const struct sw_device_model *d = &c->machine->device[worker];
    const double excess = (double)c->plan.device_bytes[worker] / (double)d->memory_bytes;
    char needs[32], has[32], shape[96];

    if (s->why.code != 0 && excess >= s->excess)
        return;

    s->excess = excess;
    sw_err_set(&s->why, SW_ERR_NOTFOUND,
               "no plan fits the memory; the nearest, %s, %s, needs %s on %s, which has %s: use a "
               "smaller job.batch, more devices, or devices with more memory",
               sw_framework_name(c->plan.shape.framework),
               sw_planned_shape_text(&c->plan.shape, shape),
               sw_human_bytes(needs, (double)c->plan.device_bytes[worker]), d->name,
               sw_human_bytes(has, (double)d->memory_bytes));
}

static void drop(struct sw_planned_candidate *c)
{
    sw_parallel_plan_fini(&c->plan);
    c->plan = (struct sw_parallel_plan){0};
}

/* Jobs that were opened with a budget. Each takes a search of its own, so they are few: further
 * candidates that need one are dropped, and so are those of a shape in which one that needs less
 * by estimate does not fit. */
struct budgets {
    int count;
    struct {
        const struct sw_machine_model *machine; /* NULL: it fits */
        struct sw_plan_shape shape;
        int64_t bytes; /* of the first worker */
    } refused[BUDGETS];
};

static bool may_try(const struct budgets *b, const struct sw_planned_candidate *c, int64_t bytes)
{
    for (int i = 0; i < b->count; i++)
        if (b->refused[i].machine == c->machine && bytes >= b->refused[i].bytes &&
            sw_plan_shape_equal(&b->refused[i].shape, &c->plan.shape))
            return false;

    return b->count < BUDGETS;
}

/* Opens the job of a plan with a budget, or drops it. */
static int try_budget(struct sw_planned_making *m, struct sw_planned_candidate *c, int64_t bytes,
                      struct smallest *smallest, struct budgets *b, struct sw_err *err)
{
    int worker = -1;

    if (!may_try(b, c, bytes)) {
        drop(c);
        return SW_OK;
    }

    int rc = sw_planned_measure(m, c, &worker, err);
    if (rc != SW_OK)
        return rc;

    b->refused[b->count].machine = worker >= 0 ? c->machine : NULL;
    b->refused[b->count].shape = c->plan.shape;
    b->refused[b->count++].bytes = bytes;

    if (worker >= 0) {
        if (smallest->why.code == 0) /* else it is known what the plan needs without a budget */
            note_smallest(smallest, c, worker);
        smallest->tried = true;
        drop(c);
    }
    return SW_OK;
}

/* Measures a candidate; one that does not fit gets a budget if that is possible, or is dropped. */
static int measure_or_drop(struct sw_planned_making *m, struct sw_planned_candidate *c,
                           struct smallest *smallest, struct budgets *b, struct sw_err *err)
{
    const int64_t estimate = c->plan.device_bytes[0];
    int worker = -1;

    if (c->plan.fit.budget_bytes > 0)
        return try_budget(m, c, estimate, smallest, b, err);

    int rc = sw_planned_measure(m, c, &worker, err);
    if (rc != SW_OK || worker < 0)
        return rc;

    note_smallest(smallest, c, worker);
    if (give_budget(m, c->machine, &c->plan))
        return try_budget(m, c, estimate, smallest, b, err);
    drop(c);
    return SW_OK;
}

/* Moves the fastest plan that fits to out->best, and drops faster ones that do not fit even with
 * memory = fit, whose time may put a plan behind others. */
static int choose(struct sw_planned_making *m, struct sw_err *err)
{
    struct smallest smallest = {.excess = 0};
    struct budgets budgets = {.count = 0};

    for (struct sw_planned_candidate *c; (c = best_left(m));) {
        if (c->is_measured) {
            m->out->best = c->plan;
            m->out->machine = c->machine;
            c->plan = (struct sw_parallel_plan){0};
            return SW_OK;
        }

        int rc = measure_or_drop(m, c, &smallest, &budgets, err);
        if (rc != SW_OK)
            return rc;
    }

    *err = smallest.why;
    return smallest.tried ? sw_err_prefix(err, err->code, "even with memory = fit")
                          : smallest.why.code;
}

/* ---- The whole ---- */

static int compare(struct sw_planned_making *m, struct sw_err *err)
{
    struct sw_planned *out = m->out;

    int rc = sw_planned_improve(m, err);
    if (rc == SW_OK)
        rc = sw_planned_one_worker(m->args, &out->one_worker_s, err);
    if (rc == SW_OK)
        sw_planned_compare(m);
    return rc;
}

static int make(const struct sw_planned_args *args, bool explains, struct sw_planned *out,
                struct sw_err *err)
{
    struct sw_planned_making m = {.args = args, .out = out};

    *out = (struct sw_planned){.net = args->net, .is_exact = true};

    int rc = search_all(&m, err);
    if (rc == SW_OK)
        rc = choose(&m, err);
    if (rc == SW_OK)
        out->rows_between_hosts = sw_planned_hosts(out) > 1 && out->machine->server_hosts == 0;
    if (rc == SW_OK && explains)
        rc = compare(&m, err);

    for (int i = 0; i < m.count; i++)
        sw_parallel_plan_fini(&m.candidate[i].plan);
    sw_free(m.candidate);
    return rc;
}

int sw_planned_make(const struct sw_planned_args *args, struct sw_planned *out, struct sw_err *err)
{
    return make(args, true, out, err);
}

int sw_planned_find(const struct sw_planned_args *args, struct sw_planned *out, struct sw_err *err)
{
    return make(args, false, out, err);
}

void sw_planned_fini(struct sw_planned *p)
{
    sw_parallel_plan_fini(&p->best);
    sw_simulation_fini(&p->simulation);
    sw_free(p->costs);
    sw_free(p->runner_up);
    sw_free(p->runner_up_s);
    *p = (struct sw_planned){0};
}
