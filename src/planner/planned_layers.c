/* The costs of the layers of a plan, and for each the best other choice. The contract is in
 * planner/planned_private.h. */
#include "planner/planned_private.h"

#include "base/os.h"
#include "base/stop.h"
#include <math.h>
#include <string.h>

/* Keeps the choice as runner-up of the layer if the user and the workers allow it, and it is the
 * best so far. */
static void try_choice(struct sw_planned *out, const struct sw_search_limits *limits,
                       const struct sw_cost_model *cost, int layer, struct sw_layer_choice c)
{
    struct sw_parallel_plan *p = &out->best;
    const struct sw_layer_choice own = p->choice[layer];
    const double own_s = sw_cost_around(cost, p, layer);
    double more_s = (double)INFINITY;

    c.residency = own.residency;
    if (sw_planned_same_choice(&c, &own) ||
        !sw_search_may_exchange(cost, layer, c.comm,
                                c.comm == sw_planned_wished_comm(limits, layer)))
        return;

    p->choice[layer] = c;
    if (sw_planned_obeys(limits, p, out->net, layer))
        more_s = sw_cost_around(cost, p, layer) - own_s;
    p->choice[layer] = own;

    if (more_s < out->runner_up_s[layer]) {
        out->runner_up_s[layer] = more_s;
        out->runner_up[layer] = c;
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
                   (struct sw_layer_choice){.comm = (enum sw_exchange_mode)comm});

    for (int p = SW_PARTITION_COLUMNS;
         p <= SW_PARTITION_NONE && size > 1 && !out->rows_between_hosts; p++)
        for (int at = 0; at < (p == SW_PARTITION_NONE ? size : 1); at++)
            if (!net->refuses(net, layer, (enum sw_partition)p, size))
                try_choice(
                    out, limits, cost, layer,
                    (struct sw_layer_choice){.partition = (enum sw_partition)p, .location = at});
}

/* Simulations of many workers take long: of plans with more, only so many runners-up, those with
 * the least difference of the sums of costs, are simulated. */
enum { MANY_WORKERS = 16, MOST_SIMULATED = 16 };

/* The greatest difference with which a runner-up is simulated. */
static double simulated_up_to(const struct sw_planned *out)
{
    double limit_s = -(double)INFINITY;

    if (out->best.workers <= MANY_WORKERS)
        return (double)INFINITY;

    for (int n = 0; n < MOST_SIMULATED; n++) {
        double next_s = (double)INFINITY;

        for (int i = 0; i < out->net->count; i++)
            if (out->runner_up_s[i] > limit_s)
                next_s = fmin(next_s, out->runner_up_s[i]);
        limit_s = next_s;
    }

    return limit_s;
}

/* Replaces the difference of the sums of costs by that of simulated steps. */
static int time_runners_up(struct sw_planned *out, const struct sw_planned_args *args,
                           struct sw_err *err)
{
    /* What a job says of memory = fit is in the time of the best plan only. */
    const double fit_s = out->best.time.step_s - out->simulation.time.step_s;
    const double limit_s = simulated_up_to(out);
    struct sw_parallel_plan other = {0};

    int rc = sw_parallel_plan_copy(&other, &out->best, err);
    for (int i = 0; i < out->net->count && rc == SW_OK; i++) {
        if (!isfinite(out->runner_up_s[i]) || out->runner_up_s[i] > limit_s)
            continue;

        other.choice[i] = out->runner_up[i];
        rc = sw_stop_check(err);
        if (rc == SW_OK)
            rc = sw_planned_time(args, out->machine, &other, err);
        out->runner_up_s[i] = other.time.step_s + fit_s - out->best.time.step_s;
        other.choice[i] = out->best.choice[i];
    }

    sw_parallel_plan_fini(&other);
    return rc;
}

static int find_costs(struct sw_planned *out, const struct sw_search_limits *limits,
                      struct sw_err *err)
{
    const size_t n = (size_t)out->net->count;
    struct sw_cost_model cost;

    sw_free(out->costs); /* of an earlier plan */
    sw_free(out->runner_up);
    sw_free(out->runner_up_s);
    sw_simulation_fini(&out->simulation);

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

int sw_planned_explain(struct sw_planned *out, const struct sw_planned_args *args,
                       struct sw_err *err)
{
    const struct sw_simulation_args sim = sw_planned_simulation(args, out->machine, &out->best);

    int rc = find_costs(out, args->limits, err);
    if (rc == SW_OK)
        rc = sw_simulate(&sim, &out->simulation, err);
    if (rc == SW_OK)
        rc = time_runners_up(out, args, err);
    return rc;
}
