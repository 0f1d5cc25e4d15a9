/* Makes a plan of the models of a net and a machine: searches, simulates the best plans that were
 * found, drops those that do not fit the memory, and compares the fastest with what was rejected.
 * The contract is in planner/planned.h. */
#include "planner/planned.h"

#include "base/os.h"
#include "base/stop.h"
#include "base/str.h"
#include "planner/search_space.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { SHOWN = 12, SHOWN_VARIATIONS = 5 }; /* of alternatives */
#define ROUNDING 1e-9                      /* relative difference of equal times */

/* A plan that was found and simulated. */
struct candidate {
    struct sw_parallel_plan plan;           /* owned; zeroed after it was moved */
    const struct sw_machine_model *machine; /* borrowed */
    const char *what;                       /* static; NULL: where it differs from the best one */
};

struct making {
    const struct sw_planned_args *args;
    struct candidate *candidate; /* owned */
    int count;
    struct sw_planned *out;
};

struct sw_simulation_args sw_planned_simulation(const struct sw_planned_args *args,
                                                const struct sw_machine_model *machine,
                                                const struct sw_parallel_plan *p)
{
    return (struct sw_simulation_args){.net = args->net,
                                       .machine = machine,
                                       .plan = p,
                                       .no_overlap = args->no_overlap,
                                       .bandwidth = args->bandwidth,
                                       .lost_host = -1};
}

static int simulate(const struct sw_planned_args *args, const struct sw_machine_model *machine,
                    struct sw_parallel_plan *p, struct sw_err *err)
{
    struct sw_simulation s = {0};
    const struct sw_simulation_args sim = sw_planned_simulation(args, machine, p);

    int rc = sw_simulate(&sim, &s, err);
    if (rc == SW_OK)
        p->time = s.time;
    sw_simulation_fini(&s);
    return rc;
}

/* Number of devices of the first host. */
static int first_host_devices(const struct sw_machine_model *m)
{
    int n = 0;

    while (n < m->device_count && m->device[n].host == m->device[0].host)
        n++;
    return n;
}

/* A job has equally many workers on all of its hosts, and its workers on cores share all of them:
 * with fewer workers each would have more threads than in this model. */
static bool is_even(const struct sw_machine_model *m, const struct sw_parallel_plan *p)
{
    int own = 0, first = 0;

    if (m->device[0].host_memory && p->workers < first_host_devices(m))
        return false;

    for (int w = 0; w < p->workers; w++) {
        own = w > 0 && m->device[w].host == m->device[w - 1].host ? own + 1 : 1;
        if (m->device[w].host == m->device[0].host)
            first = own;
        else if (own > first || (w + 1 == p->workers && own < first))
            return false;
    }

    return true;
}

/* Copies a plan and simulates the copy, unless it is there already. what: see above; the first one
 * that is given stays. */
static int add_candidate(struct making *m, const struct sw_machine_model *machine,
                         const struct sw_parallel_plan *plan, const char *what, struct sw_err *err)
{
    for (int i = 0; i < m->count; i++)
        if (m->candidate[i].machine == machine &&
            sw_parallel_plan_equal(&m->candidate[i].plan, plan)) {
            if (!m->candidate[i].what)
                m->candidate[i].what = what;
            return SW_OK;
        }

    if (!is_even(machine, plan))
        return SW_OK;

    struct candidate *c = sw_array_add(&m->candidate, &m->count, sizeof *c);
    if (!c)
        return sw_err_nomem(err, "parallel plans", sizeof *c);
    *c = (struct candidate){.machine = machine, .what = what};

    int rc = sw_parallel_plan_copy(&c->plan, plan, err);
    if (rc == SW_OK)
        rc = sw_stop_check(err);
    if (rc == SW_OK)
        rc = simulate(m->args, machine, &c->plan, err);
    if (rc != SW_OK) { /* one without a time would be the fastest */
        sw_parallel_plan_fini(&c->plan);
        m->count--;
    }
    return rc;
}

/* ---- Plans that treat all layers alike: what users try first. They are simulated, too ---- */

/* Such a plan. */
struct uniform {
    struct sw_plan_shape shape;
    enum sw_partition partition; /* where a layer allows it */
    enum sw_exchange_mode comm;  /* where the workers of a layer can exchange factors */
};

static int make_uniform(const struct sw_planned_args *args, const struct sw_machine_model *machine,
                        const struct uniform *u, struct sw_parallel_plan *p, struct sw_err *err)
{
    const struct sw_net_model *net = args->net;
    struct sw_cost_model cost;

    int rc = sw_parallel_plan_init(p, &u->shape, net->count, err);
    if (rc != SW_OK)
        return rc;

    sw_cost_model_init(&cost, net, machine, &u->shape);
    for (int i = 0; i < net->count; i++) {
        const bool by_rows = u->partition == SW_PARTITION_ROWS || u->shape.group_size == 1 ||
                             net->layer[i].is_input ||
                             net->refuses(net, i, u->partition, u->shape.group_size);
        const bool exchanges =
            by_rows && net->layer[i].params > 0 && sw_search_may_exchange(&cost, i, u->comm, false);

        p->choice[i] = (struct sw_layer_choice){by_rows ? SW_PARTITION_ROWS : u->partition, 0,
                                                exchanges ? u->comm : SW_EXCHANGE_PS};
    }

    p->additive_s = sw_cost_plan(&cost, p, NULL);
    return simulate(args, machine, p, err);
}

/* The exchange mode that the user has decided for a layer; AUTO: none. */
static enum sw_exchange_mode wished_comm(const struct sw_search_limits *l, int layer)
{
    return l->comm && l->comm[layer] >= 0 ? (enum sw_exchange_mode)l->comm[layer] : l->net_comm;
}

/* Does a layer of a plan have what the user has decided for it? */
static bool layer_obeys(const struct sw_search_limits *l, const struct sw_parallel_plan *p,
                        const struct sw_net_model *net, int i)
{
    const struct sw_layer_choice *c = &p->choice[i];
    const bool exchanges = sw_planned_exchanges(net, p, i) && net->layer[i].steps > 0;
    const enum sw_exchange_mode comm = wished_comm(l, i);

    return (!l->partition || l->partition[i] < 0 || l->partition[i] == (int)c->partition) &&
           (!l->location || l->location[i] < 0 || l->location[i] == c->location) &&
           (!exchanges || comm == SW_EXCHANGE_AUTO || comm == c->comm);
}

static bool obeys(const struct sw_search_limits *l, const struct sw_parallel_plan *p,
                  const struct sw_net_model *net)
{
    for (int i = 0; i < p->layers; i++)
        if (!layer_obeys(l, p, net, i))
            return false;

    return true;
}

/* Adds those of a shape. */
static int add_uniforms(struct making *m, const struct sw_machine_model *machine,
                        const struct sw_search_limits *limits, const struct sw_plan_shape *shape,
                        struct sw_err *err)
{
    static const struct {
        const char *what;
        enum sw_partition partition;
        enum sw_exchange_mode comm;
    } rows[] = {
        {"all layers by rows, whole gradients (ps)", SW_PARTITION_ROWS, SW_EXCHANGE_PS},
        {"all layers by rows, factors (sfb)", SW_PARTITION_ROWS, SW_EXCHANGE_SFB},
        {"columns where possible", SW_PARTITION_COLUMNS, SW_EXCHANGE_PS},
    };
    int rc = SW_OK;

    for (size_t i = 0;
         i < sizeof rows / sizeof *rows && rc == SW_OK && shape->groups * shape->group_size > 1;
         i++) {
        const struct uniform u = {*shape, rows[i].partition, rows[i].comm};
        struct sw_parallel_plan p = {0};

        rc = make_uniform(m->args, machine, &u, &p, err);
        if (rc == SW_OK && obeys(limits, &p, m->args->net))
            rc = add_candidate(m, machine, &p, rows[i].what, err);
        sw_parallel_plan_fini(&p);
    }

    return rc;
}

/* ---- Search -----------------------------------------------------------------------------------
 * Activations move between the workers of a host only, so a group over several hosts splits its
 * layers by rows, and one that splits them otherwise stays on a host. */

static int search(struct making *m, const struct sw_machine_model *machine,
                  const struct sw_search_limits *limits, struct sw_err *err)
{
    struct sw_search_result r = {0};

    int rc = sw_search(m->args->net, machine, limits, &r, err);
    if (rc == SW_OK && r.count == 0)
        rc = sw_err_set(err, SW_ERR_NOTFOUND, "%s", r.nearest);

    const int most = m->args->simulated > 0 ? m->args->simulated : r.count;
    for (int i = 0; rc == SW_OK && i < r.count && i < most; i++)
        rc = add_candidate(m, machine, &r.plan[i], NULL, err);

    for (int i = 0; rc == SW_OK && i < r.shapes && m->args->simulated == 0; i++)
        rc = add_candidate(m, machine, &r.of_shape[i], NULL, err);
    if (rc == SW_OK && m->args->simulated == 0)
        rc = add_uniforms(m, machine, limits, &r.plan[0].shape, err);

    if (rc == SW_OK) {
        m->out->is_exact = m->out->is_exact && r.is_exact;
        m->out->most_open = r.most_open > m->out->most_open ? r.most_open : m->out->most_open;
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

static int search_hosts(struct making *m, const struct sw_machine_model *machine,
                        struct sw_err *err)
{
    const int most = first_host_devices(machine);
    struct sw_search_limits one_host = *m->args->limits, all = *m->args->limits;
    struct sw_err why;
    int *rows = rows_of_all(m->args, err), rc = rows ? SW_OK : err->code;

    if (rows) {
        all.partition = rows;
        rc = search(m, machine, &all, err);
    }

    if (rc == SW_OK || rc == SW_ERR_INVALID || rc == SW_ERR_NOTFOUND) {
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

/* Searches every model of the machine; what is impossible on one may be possible on another. */
static int search_all(struct making *m, struct sw_err *err)
{
    int rc = SW_OK;

    for (int i = 0; i < m->args->machines; i++) {
        const struct sw_machine_model *machine = m->args->machine[i];

        rc = machine->hosts > 1 ? search_hosts(m, machine, err)
                                : search(m, machine, m->args->limits, err);
        if (rc != SW_OK && rc != SW_ERR_INVALID && rc != SW_ERR_NOTFOUND)
            return rc;
    }

    if (m->count == 0 && rc == SW_OK)
        rc = sw_err_set(err, SW_ERR_INVALID,
                        "%d worker group%s of %d do not make equally many workers on each host; "
                        "choose counts that do",
                        m->args->limits->groups ? m->args->limits->groups : 1,
                        m->args->limits->groups > 1 ? "s" : "", m->args->limits->group_size);
    return m->count > 0 ? SW_OK : rc;
}

/* ---- Choice ---- */

/* Seconds per sample. */
static double sample_s(const struct sw_planned *out, const struct sw_parallel_plan *p)
{
    return p->time.step_s / (double)sw_planned_samples(out->net, &p->shape);
}

/* Is a plan better: faster, or as fast and more usual, or with fewer workers? */
static bool is_better(const struct sw_planned *out, const struct sw_parallel_plan *p,
                      const struct sw_parallel_plan *than)
{
    const double own_s = sample_s(out, p), other_s = sample_s(out, than);
    const bool usual = p->shape.framework == SW_FRAMEWORK_ALLREDUCE;
    const bool other_usual = than->shape.framework == SW_FRAMEWORK_ALLREDUCE;

    if (fabs(own_s - other_s) > ROUNDING * other_s)
        return own_s < other_s;
    return usual != other_usual ? usual : p->workers < than->workers;
}

/* The best candidate that is left; NULL: none. */
static struct candidate *best_left(const struct making *m)
{
    struct candidate *best = NULL;

    for (int i = 0; i < m->count; i++) {
        struct candidate *c = &m->candidate[i];

        if (c->plan.layers > 0 && (!best || is_better(m->out, &c->plan, &best->plan)))
            best = c;
    }

    return best;
}

/* The first worker whose memory a plan exceeds; -1: it fits. */
static int overfull(const struct making *m, const struct candidate *c)
{
    struct sw_cost_model cost;

    sw_cost_model_init(&cost, m->args->net, c->machine, &c->plan.shape);
    return sw_cost_overfull(&cost, &c->plan);
}

/* Moves the fastest plan that fits to out->best, and drops faster ones that do not fit. */
static int choose(struct making *m, struct sw_err *err)
{
    const struct sw_planned_args *args = m->args;
    char needs[32], has[32];
    struct sw_err why = {0};

    for (struct candidate *c; (c = best_left(m));) {
        int rc = args->measure ? args->measure(args->user, c->machine, &c->plan, err) : SW_OK;

        if (rc != SW_OK)
            return rc;

        const int worker = overfull(m, c);
        if (worker < 0) {
            m->out->best = c->plan;
            m->out->machine = c->machine;
            c->plan = (struct sw_parallel_plan){0};
            return SW_OK;
        }

        if (why.code == 0)
            sw_err_set(&why, SW_ERR_NOTFOUND,
                       "no plan fits the memory: the fastest one needs %s on %s, which has %s; use "
                       "a smaller job.batch, or more devices",
                       sw_human_bytes(needs, (double)c->plan.device_bytes[worker]),
                       c->machine->device[worker].name,
                       sw_human_bytes(has, (double)c->machine->device[worker].memory_bytes));
        sw_parallel_plan_fini(&c->plan);
        c->plan = (struct sw_parallel_plan){0};
    }

    *err = why;
    return why.code;
}

/* ---- Runner-up of each layer ---- */

static bool same_choice(const struct sw_layer_choice *a, const struct sw_layer_choice *b)
{
    return a->partition == b->partition && a->location == b->location && a->comm == b->comm;
}

/* Keeps the choice as runner-up of the layer if the user and the workers allow it, and it is the
 * best so far. */
static void try_choice(struct sw_planned *out, const struct sw_search_limits *limits,
                       const struct sw_cost_model *cost, int layer, const struct sw_layer_choice *c)
{
    struct sw_parallel_plan *p = &out->best;
    const struct sw_layer_choice own = p->choice[layer];
    const double own_s = sw_cost_around(cost, p, layer);
    double more_s = (double)INFINITY;

    if (same_choice(c, &own) ||
        !sw_search_may_exchange(cost, layer, c->comm, c->comm == wished_comm(limits, layer)))
        return;

    p->choice[layer] = *c;
    if (layer_obeys(limits, p, out->net, layer))
        more_s = sw_cost_around(cost, p, layer) - own_s;
    p->choice[layer] = own;

    if (more_s < out->runner_up_s[layer]) {
        out->runner_up_s[layer] = more_s;
        out->runner_up[layer] = *c;
    }
}

/* Tries all choices of a layer, the others being those of the best plan. */
static void find_runner_up(struct sw_planned *out, const struct sw_search_limits *limits,
                           const struct sw_cost_model *cost, int layer)
{
    const struct sw_net_model *net = out->net;
    const struct sw_layer_model *l = &net->layer[layer];
    const int size = out->best.shape.group_size;

    out->runner_up_s[layer] = INFINITY;
    if (out->best.workers == 1 || l->is_input)
        return;

    for (int comm = 0; comm < SW_EXCHANGE_MODES && (comm == 0 || (l->params > 0 && l->steps > 0));
         comm++)
        try_choice(out, limits, cost, layer,
                   &(struct sw_layer_choice){SW_PARTITION_ROWS, 0, (enum sw_exchange_mode)comm});

    for (int p = SW_PARTITION_COLUMNS; p <= SW_PARTITION_NONE && !out->rows_between_hosts; p++)
        for (int at = 0; at < (p == SW_PARTITION_NONE ? size : 1); at++)
            if (!net->refuses(net, layer, (enum sw_partition)p, size))
                try_choice(out, limits, cost, layer,
                           &(struct sw_layer_choice){(enum sw_partition)p, at, SW_EXCHANGE_PS});
}

static int explain_layers(struct sw_planned *out, const struct sw_search_limits *limits,
                          struct sw_err *err)
{
    const size_t n = (size_t)out->net->count;
    struct sw_cost_model cost;
    int64_t *bytes = sw_calloc((size_t)out->best.workers, sizeof *bytes);

    out->costs = sw_calloc(n, sizeof *out->costs);
    out->runner_up = sw_calloc(n, sizeof *out->runner_up);
    out->runner_up_s = sw_calloc(n, sizeof *out->runner_up_s);
    if (!bytes || !out->costs || !out->runner_up || !out->runner_up_s) {
        sw_free(bytes);
        return sw_err_nomem(err, "costs of layers", 0);
    }

    /* sw_cost_plan replaces the bytes of the devices by estimates. */
    memcpy(bytes, out->best.device_bytes, (size_t)out->best.workers * sizeof *bytes);
    sw_cost_model_init(&cost, out->net, out->machine, &out->best.shape);
    out->best.additive_s = sw_cost_plan(&cost, &out->best, out->costs);
    for (int i = 0; i < out->net->count; i++)
        find_runner_up(out, limits, &cost, i);
    memcpy(out->best.device_bytes, bytes, (size_t)out->best.workers * sizeof *bytes);

    sw_free(bytes);
    return SW_OK;
}

/* ---- Alternatives ---- */

static bool same_shape(const struct sw_plan_shape *a, const struct sw_plan_shape *b)
{
    return a->framework == b->framework && a->consistency == b->consistency &&
           a->groups == b->groups && a->group_size == b->group_size && a->servers == b->servers;
}

/* "fc6 1in, fc7 0 sfb, and 3 more layers": where a plan of the same shape differs from the best. */
static void describe_difference(const struct sw_planned *out, const struct sw_parallel_plan *p,
                                char *text, size_t bytes)
{
    size_t n = 0;
    int more = 0;

    for (int i = 0; i < p->layers; i++) {
        char choice[64], item[160];

        if (same_choice(&p->choice[i], &out->best.choice[i]))
            continue;

        snprintf(item, sizeof item, "%s%.64s %s", n ? ", " : "", out->net->layer[i].name,
                 sw_planned_choice_text(out->net, i, &p->choice[i], choice));
        if (more == 0 && n + strlen(item) + 24 < bytes)
            n += (size_t)snprintf(text + n, bytes - n, "%s", item);
        else
            more++;
    }

    if (more)
        snprintf(text + n, bytes - n, ", and %d more layer%s", more, more == 1 ? "" : "s");
}

static int hosts_of(const struct sw_machine_model *m, int workers)
{
    int hosts = 1;

    for (int w = 1; w < workers; w++)
        hosts += m->device[w].host != m->device[w - 1].host;
    return hosts;
}

/* Does a candidate have the same workers as the best plan? */
static bool same_workers(const struct sw_planned *out, const struct candidate *c)
{
    return c->machine == out->machine && same_shape(&c->plan.shape, &out->best.shape);
}

static void describe(const struct sw_planned *out, const struct candidate *c, char *text,
                     size_t bytes)
{
    const int hosts = hosts_of(c->machine, c->plan.workers);
    char shape[96], on[32] = "";

    text[0] = '\0';
    if (c->machine->hosts > 1)
        snprintf(on, sizeof on, " on %d host%s", hosts, hosts == 1 ? "" : "s");

    if (!same_workers(out, c))
        snprintf(text, bytes, "%s, %s%s%s%s", sw_framework_name(c->plan.shape.framework),
                 sw_planned_shape_text(&c->plan.shape, shape), on, c->what ? ": " : "",
                 c->what ? c->what : "");
    else if (c->what)
        snprintf(text, bytes, "%s", c->what);
    else
        describe_difference(out, &c->plan, text, bytes);
}

/* Is there an alternative of the same description that is as fast? A slower one is removed. */
static bool is_known(struct sw_planned *out, const struct sw_planned_alternative *a)
{
    int i = 0;

    while (i < out->alternatives && strcmp(out->alternative[i].what, a->what) != 0)
        i++;
    if (i == out->alternatives || out->alternative[i].step_s <= a->step_s)
        return i < out->alternatives;

    out->alternatives--;
    memmove(&out->alternative[i], &out->alternative[i + 1],
            (size_t)(out->alternatives - i) * sizeof *a);
    return false;
}

/* Inserts a slower plan in order. */
static void add_alternative(struct sw_planned *out, const struct candidate *c)
{
    const double samples = (double)sw_planned_samples(out->net, &out->best.shape);
    struct sw_planned_alternative a = {.shape = c->plan.shape,
                                       .step_s = sample_s(out, &c->plan) * samples};

    if (a.step_s < (1 + SW_PLANNED_EQUAL) * out->best.time.step_s) {
        out->as_fast++;
        return;
    }

    a.varies = !c->what && same_workers(out, c);
    describe(out, c, a.what, sizeof a.what);

    if (is_known(out, &a))
        return;

    int at = out->alternatives;
    while (at > 0 && out->alternative[at - 1].step_s > a.step_s)
        at--;
    if (at == SW_PLANNED_ALTERNATIVES)
        return;

    if (out->alternatives < SW_PLANNED_ALTERNATIVES)
        out->alternatives++;
    memmove(&out->alternative[at + 1], &out->alternative[at],
            (size_t)(out->alternatives - 1 - at) * sizeof a);
    out->alternative[at] = a;
}

/* With all layers split by rows. */
static int time_rows(const struct sw_planned_args *args, const struct sw_machine_model *machine,
                     int workers, double *seconds, struct sw_err *err)
{
    const struct uniform rows = {.shape = {.framework = SW_FRAMEWORK_ALLREDUCE,
                                           .consistency = SW_CONSISTENCY_BSP,
                                           .staleness = -1,
                                           .groups = 1,
                                           .group_size = workers,
                                           .servers = workers},
                                 .partition = SW_PARTITION_ROWS};
    struct sw_parallel_plan p = {0};

    int rc = make_uniform(args, machine, &rows, &p, err);
    if (rc == SW_OK)
        *seconds = p.time.step_s;
    sw_parallel_plan_fini(&p);
    return rc;
}

int sw_planned_one_worker(const struct sw_planned_args *args, double *seconds, struct sw_err *err)
{
    return time_rows(args, args->machine[0], 1, seconds, err);
}

int sw_planned_rows(const struct sw_planned_args *args, const struct sw_machine_model *machine,
                    double *seconds, struct sw_err *err)
{
    return time_rows(args, machine, machine->device_count, seconds, err);
}

/* Is an alternative only another form of the one before it? */
static bool is_form_of(const struct sw_planned_alternative *a,
                       const struct sw_planned_alternative *before)
{
    return !a->varies && !before->varies && a->step_s <= (1 + ROUNDING) * before->step_s &&
           a->shape.groups * a->shape.group_size == before->shape.groups * before->shape.group_size;
}

/* Keeps the fastest ones, and of those that differ in some layers only a few. */
static void trim_alternatives(struct sw_planned *out)
{
    struct sw_planned_alternative *a = out->alternative;
    int kept = 0, variations = 0;

    for (int i = 0; i < out->alternatives && kept < SHOWN; i++) {
        if ((a[i].varies && ++variations > SHOWN_VARIATIONS) ||
            (kept > 0 && is_form_of(&a[i], &a[kept - 1])))
            continue;
        a[kept++] = a[i];
    }

    out->alternatives = kept;
}

/* ---- The whole ---- */

static int compare(struct making *m, struct sw_err *err)
{
    struct sw_planned *out = m->out;

    int rc = explain_layers(out, m->args->limits, err);
    if (rc != SW_OK)
        return rc;

    for (int i = 0; i < m->count; i++)
        if (m->candidate[i].plan.layers > 0)
            add_alternative(out, &m->candidate[i]);

    trim_alternatives(out);
    return sw_planned_one_worker(m->args, &out->one_worker_s, err);
}

static int make(const struct sw_planned_args *args, bool explains, struct sw_planned *out,
                struct sw_err *err)
{
    struct making m = {.args = args, .out = out};

    *out = (struct sw_planned){.net = args->net, .is_exact = true};

    int rc = search_all(&m, err);
    if (rc == SW_OK)
        rc = choose(&m, err);
    if (rc == SW_OK)
        out->rows_between_hosts = sw_planned_hosts(out) > 1;
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
    sw_free(p->costs);
    sw_free(p->runner_up);
    sw_free(p->runner_up_s);
    *p = (struct sw_planned){0};
}

/* ---- What others ask ---- */

int64_t sw_planned_samples(const struct sw_net_model *net, const struct sw_plan_shape *shape)
{
    return net->batch * (shape->consistency == SW_CONSISTENCY_BSP ? 1 : shape->groups);
}

double sw_planned_speed_up(const struct sw_planned *p)
{
    const double samples = (double)sw_planned_samples(p->net, &p->best.shape);

    return p->one_worker_s / p->best.time.step_s * samples / (double)p->net->batch;
}

int sw_planned_hosts(const struct sw_planned *p)
{
    return hosts_of(p->machine, p->best.workers);
}

bool sw_planned_exchanges(const struct sw_net_model *net, const struct sw_parallel_plan *p,
                          int layer)
{
    return p->workers > 1 && net->layer[layer].params > 0 && net->layer[layer].has_backward &&
           p->choice[layer].partition == SW_PARTITION_ROWS;
}

const char *sw_planned_choice_text(const struct sw_net_model *net, int layer,
                                   const struct sw_layer_choice *c, char out[64])
{
    const struct sw_layer_model *l = &net->layer[layer];
    const char *partition = sw_partition_names[c->partition];

    if (c->partition == SW_PARTITION_NONE)
        snprintf(out, 64, "%s on worker %d", partition, c->location);
    else if (c->partition == SW_PARTITION_ROWS && l->params > 0 && l->steps > 0)
        snprintf(out, 64, "%s %s", partition, sw_exchange_mode_names[c->comm]);
    else
        snprintf(out, 64, "%s", partition);

    return out;
}

const char *sw_planned_shape_text(const struct sw_plan_shape *s, char out[96])
{
    snprintf(out, 96, "%d group%s of %d worker%s", s->groups, s->groups == 1 ? "" : "s",
             s->group_size, s->group_size == 1 ? "" : "s");
    return out;
}
