/* Prepares a simulation: workers, the time of their passes, and links. Also what the other files of
 * the simulator share. */
#include "planner/simulate_private.h"

#include "base/os.h"
#include "base/tree.h"
#include "planner/cost_private.h"
#include <math.h>

/* Of a simulation whose steps are not given: so many gradients of workers in all, but a few steps
 * anyway. */
enum { MOST_GRADIENTS = 1 << 16, LEAST_STEPS = 3 };

/* ---- Shared ---- */

bool sw_plansim_computes(const struct sw_plansim *s, int layer, const struct sw_plansim_worker *w)
{
    const struct sw_layer_choice *c = &s->plan->choice[layer];
    return c->partition != SW_PARTITION_NONE || c->location == w->rank;
}

bool sw_plansim_is_trained(const struct sw_plansim *s, int layer)
{
    return s->net->layer[layer].params > 0 && s->net->layer[layer].has_backward;
}

bool sw_plansim_is_split(const struct sw_plansim *s, int layer)
{
    enum sw_partition p = s->plan->choice[layer].partition;
    return p == SW_PARTITION_COLUMNS || p == SW_PARTITION_INPUTS;
}

/* Rows of a batch that a group has. */
static int64_t group_rows(const struct sw_plansim *s, int group)
{
    int64_t first, rows = s->net->batch;

    if (!s->is_async)
        sw_part(s->net->batch, s->groups, group, &first, &rows);
    return rows;
}

struct sw_plansim_exchange *sw_plansim_exchange_of(const struct sw_plansim *s, int layer,
                                                   int worker)
{
    int first = s->first_exchange[layer];
    if (first == s->first_exchange[layer + 1])
        return NULL;

    if (s->is_async)
        return &s->exchange[first + s->worker[worker].group];
    return &s->exchange[first + (sw_plansim_is_split(s, layer) ? s->worker[worker].rank : 0)];
}

void sw_plansim_wake(struct sw_plansim *s, int worker)
{
    struct sw_plansim_worker *w = &s->worker[worker];
    if (w->is_woken)
        return;

    w->is_woken = true;
    w->next_woken = s->first_woken;
    s->first_woken = worker;
}

int sw_plansim_ask(struct sw_plansim *s, const struct sw_plansim_path *path, int urgency, int owner,
                   struct sw_err *err)
{
    double wait_s = (path->copies > 0 ? 0 : path->latency_s) +
                    sw_plansim_links_chunk_s(&s->links, path, urgency, s->now_s);
    struct sw_plansim_event event = {
        .time_s = s->now_s + wait_s, .kind = SW_PLANSIM_START, .index = owner};

    return sw_plansim_events_push(&s->events, event, err);
}

/* ---- Workers and their passes ---- */

static void place_worker(struct sw_plansim *s, int index)
{
    struct sw_plansim_worker *w = &s->worker[index];

    *w = (struct sw_plansim_worker){.group = index / s->size,
                                    .rank = index % s->size,
                                    .host = s->machine->device[index].host,
                                    .slow = 1,
                                    .step = 1,
                                    .fetch_step = 1,
                                    .serves = -1,
                                    .state = SW_PLANSIM_READY};

    for (int i = 0; i < s->args->slow_count; i++)
        if (s->args->slow[i].device == index)
            w->slow *= s->args->slow[i].factor;
}

/* The share of `total` that worker `rank` of its group has. */
static double part_of(const struct sw_plansim *s, double total, int rank)
{
    int64_t first, count, whole = (int64_t)total;

    if (whole < s->size)
        return 1.0 / s->size;
    sw_part(whole, s->size, rank, &first, &count);
    return (double)count / (double)whole;
}

/* Workers that compute the layer in the memory of the worker, where `together` compute at all. */
static int concurrent(const struct sw_plansim *s, int layer, int worker, int together)
{
    const struct sw_layer_choice *c = &s->plan->choice[layer];
    int count = 0;

    if (c->partition != SW_PARTITION_NONE || together == 1)
        return together;
    for (int i = c->location; i < s->workers; i += s->size)
        count += s->machine->device[i].host_memory && s->worker[i].host == s->worker[worker].host;
    return count;
}

static void time_pass(struct sw_plansim *s, int layer, int worker, int together)
{
    const struct sw_layer_model *l = &s->net->layer[layer];
    const struct sw_plansim_worker *w = &s->worker[worker];
    enum sw_partition p = s->plan->choice[layer].partition;
    int64_t first, rows = group_rows(s, w->group);
    double columns = 1;
    if (!sw_plansim_computes(s, layer, w))
        return;

    if (p == SW_PARTITION_ROWS)
        sw_part(rows, s->size, w->rank, &first, &rows);
    if (sw_plansim_is_split(s, layer))
        columns = part_of(s, sw_cost_units(s->net, l, p), w->rank);

    int workers = concurrent(s, layer, worker, together);
    for (int back = 0; back < 2; back++)
        s->pass_s[back][(size_t)worker * (size_t)s->layers + (size_t)layer] =
            w->slow * (sw_cost_pass(&s->cost, layer, worker, (double)rows, columns, workers, back) +
                       (back ? sw_cost_restore(&s->cost, layer, s->plan->choice[layer].residency,
                                               worker, (double)rows, columns, workers)
                             : 0));
}

static void place_workers(struct sw_plansim *s)
{
    for (int g = 0; g < s->groups; g++)
        s->group_steps[g] = s->steps;
    for (int l = 0; l < s->layers; l++)
        s->slowest[l] = s->groups;
    for (int i = 0; i < s->workers; i++)
        place_worker(s, i);

    for (int i = 0; i < s->workers; i++) {
        int together = sw_cost_together(&s->cost, i);

        for (int l = 0; l < s->layers; l++)
            time_pass(s, l, i, together);
    }
}

/* The rest of a step is done between the steps of workers on cores, while their hosts exchange
 * parameters. Devices are a step behind their workers, so that what is left of it is between the
 * end of an exchange and the pass that waits for it. */
static int rest_pass(const struct sw_plansim *s, const struct sw_plansim_worker *w, bool on_cores)
{
    int first = -1;

    for (int l = 0; l < s->layers; l++) {
        if (!sw_plansim_computes(s, l, w))
            continue;

        first = first < 0 ? l : first;
        if (on_cores || sw_plansim_is_trained(s, l))
            return l;
    }

    return first;
}

static enum sw_step_kind kind_of(const struct sw_plansim *s)
{
    double factors = 0, all = 0;

    for (int l = 0; l < s->layers; l++) {
        const double params = sw_plansim_is_trained(s, l) ? (double)s->net->layer[l].params : 0;

        all += params;
        factors += s->plan->choice[l].comm == SW_EXCHANGE_SFB ? params : 0;
    }

    return s->moves > 0 ? SW_STEP_MOVES : factors > all / 2 ? SW_STEP_FACTORS : SW_STEP_GRADIENTS;
}

/* Once it is known whether activations move. */
static void add_rest(struct sw_plansim *s)
{
    double rest_s = sw_cost_rest(&s->cost, kind_of(s), s->moves);

    for (int i = 0; i < s->workers; i++) {
        s->worker[i].rest_s = rest_s;
        s->worker[i].rest_pass = rest_pass(s, &s->worker[i], s->machine->device[i].host_memory);
    }
}

/* ---- Links ---- */

/* Is the link the one by which a device or a host sends? */
static bool is_sender(const struct sw_machine_model *m, int link)
{
    int hub = link / 2;

    if (hub >= m->hub_count)
        return true;
    if (link % 2 || m->hub[hub].host < 0)
        return false;
    if (m->hub[hub].parent < 0 || m->hub[m->hub[hub].parent].host != m->hub[hub].host)
        return true;

    for (int i = 0; i < m->device_count; i++)
        if (m->device[i].hub == hub)
            return true;
    return false;
}

/* Hosts whose links the link stands for. */
static int senders(const struct sw_machine_model *m, int link)
{
    const int hub = link / 2;
    return hub < m->hub_count && m->hub[hub].host == m->hosts ? m->server_hosts : 1;
}

static int open_links(struct sw_plansim *s, struct sw_err *err)
{
    int links = sw_machine_model_links(s->machine), levels = SW_PLANSIM_URGENCY + 1;

    for (int i = 0; i < links; i++) {
        s->capacity[i] = sw_machine_model_rate(s->machine, i);
        if (s->args->bandwidth > 0 && is_sender(s->machine, i))
            s->capacity[i] = fmin(s->capacity[i], s->args->bandwidth * senders(s->machine, i));
    }
    for (int i = 0; i < s->args->slow_count; i++)
        if (s->args->slow[i].link >= 0)
            s->capacity[s->args->slow[i].link] /= s->args->slow[i].factor;

    for (int l = 0; l < s->layers; l++)
        levels += sw_plansim_is_trained(s, l);

    int rc = sw_plansim_links_init(&s->links, s->capacity, links, levels, err);
    if (rc != SW_OK)
        return rc;
    s->links.serial = SW_PLANSIM_COPIES;
    return sw_plansim_paths_init(&s->paths, s->machine, s->capacity, s->workers, err);
}

/* ---- Life ---- */

static int allocate(struct sw_plansim *s, struct sw_err *err)
{
    size_t layers = (size_t)s->layers, workers = (size_t)s->workers;

    for (int back = 0; back < 2; back++)
        s->pass_s[back] = sw_calloc(workers * layers + 1, sizeof(double));
    s->capacity = sw_calloc((size_t)sw_machine_model_links(s->machine) + 1, sizeof *s->capacity);
    s->server_free_s = sw_calloc((size_t)s->machine->hosts + 1, sizeof *s->server_free_s);
    s->worker = sw_calloc(workers, sizeof *s->worker);
    s->first_exchange = sw_calloc(layers + 1, sizeof *s->first_exchange);
    s->urgency = sw_calloc(layers + 1, sizeof *s->urgency);
    s->group_steps = sw_calloc((size_t)s->groups, sizeof *s->group_steps);
    s->is_lost = sw_calloc((size_t)s->groups, sizeof *s->is_lost);
    s->least = sw_calloc(layers + 1, sizeof *s->least);
    s->slowest = sw_calloc(layers + 1, sizeof *s->slowest);

    if (!s->pass_s[0] || !s->pass_s[1] || !s->capacity || !s->server_free_s || !s->worker ||
        !s->first_exchange || !s->urgency || !s->group_steps || !s->is_lost || !s->least ||
        !s->slowest)
        return sw_err_nomem(err, "a simulation", workers * layers * sizeof(double));
    return SW_OK;
}

/* Hundreds of asynchronous groups tell in fewer steps what a few groups tell in more. */
static int64_t usual_steps(const struct sw_simulation_args *args)
{
    const struct sw_plan_shape *shape = &args->plan->shape;
    int64_t trained = 1;

    if (shape->consistency == SW_CONSISTENCY_BSP)
        return SW_SIMULATION_STEPS;

    for (int l = 0; l < args->net->count; l++)
        trained += args->net->layer[l].params > 0;

    const int64_t steps = MOST_GRADIENTS / (trained * shape->groups * shape->group_size);
    return steps < LEAST_STEPS           ? LEAST_STEPS
           : steps < SW_SIMULATION_STEPS ? steps
                                         : SW_SIMULATION_STEPS;
}

int sw_plansim_init(struct sw_plansim *s, const struct sw_simulation_args *args, struct sw_err *err)
{
    const struct sw_plan_shape *shape = &args->plan->shape;
    const struct sw_plan_shape alone = {.framework = SW_FRAMEWORK_ALLREDUCE,
                                        .consistency = SW_CONSISTENCY_BSP,
                                        .staleness = -1,
                                        .groups = 1,
                                        .group_size = 1,
                                        .servers = 1};

    *s = (struct sw_plansim){.args = args,
                             .net = args->net,
                             .machine = args->machine,
                             .plan = args->plan,
                             .layers = args->net->count,
                             .workers = shape->groups * shape->group_size,
                             .groups = shape->groups,
                             .size = shape->group_size,
                             .steps = args->steps ? args->steps : usual_steps(args),
                             .unfinished = shape->groups,
                             .is_async = shape->consistency != SW_CONSISTENCY_BSP,
                             .first_woken = -1};

    int rc = allocate(s, err);
    if (rc != SW_OK)
        return rc;
    rc = open_links(s, err);
    if (rc != SW_OK)
        return rc;

    sw_cost_model_init(&s->cost, s->net, s->machine, shape);
    sw_cost_model_init(&s->alone, s->net, s->machine, &alone);
    place_workers(s);
    rc = sw_plansim_plan_exchanges(s, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_plansim_plan_moves(s, err);
    if (rc != SW_OK)
        return rc;

    add_rest(s);
    return SW_OK;
}

void sw_plansim_fini(struct sw_plansim *s)
{
    for (int i = 0; i < s->moves; i++)
        for (int back = 0; back < 2; back++) {
            sw_free(s->move[i].path[back]);
            sw_free(s->move[i].crossing[back]);
        }
    for (int i = 0; i < s->workers && s->worker; i++)
        sw_free(s->worker[i].job);

    sw_plansim_events_fini(&s->events);
    sw_plansim_links_fini(&s->links);
    sw_plansim_paths_fini(&s->paths);
    sw_free(s->move);
    sw_free(s->exchange);
    sw_free(s->least);
    sw_free(s->slowest);
    sw_free(s->is_lost);
    sw_free(s->group_steps);
    sw_free(s->urgency);
    sw_free(s->first_exchange);
    sw_free(s->worker);
    sw_free(s->server_free_s);
    sw_free(s->capacity);
    sw_free(s->pass_s[0]);
    sw_free(s->pass_s[1]);
}
