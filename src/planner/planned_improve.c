/* Changes single layers of the best plan. The search adds costs and knows no overlap, so that
 * another choice of a layer may make the simulated step faster. The contract is in
 * planner/planned_private.h. */
#include "planner/planned_private.h"

enum { IMPROVEMENTS = 8 /* layers that are changed, at most */ };

/* The layer whose runner-up makes the fastest step, if that is faster than the plan; else -1. */
static int find_faster(const struct sw_planned *out)
{
    double least_s = -SW_PLANNED_EQUAL * out->best.time.step_s;
    int layer = -1;

    for (int i = 0; i < out->net->count; i++)
        if (out->runner_up_s[i] < least_s) {
            least_s = out->runner_up_s[i];
            layer = i;
        }

    return layer;
}

/* Makes a candidate of the best plan with the runner-up of a layer, and exchanges it with the best
 * plan if it fits the memory. */
static int take_runner_up(struct sw_planned_making *m, int layer, bool *taken, struct sw_err *err)
{
    struct sw_planned *out = m->out;
    struct sw_parallel_plan other = {0};
    struct sw_cost_model cost;
    const int known = m->count;

    *taken = false;
    int rc = sw_parallel_plan_copy(&other, &out->best, err);
    if (rc == SW_OK) {
        other.choice[layer] = out->runner_up[layer];
        /* As much of it as the simulation has; the rest is what a job said. */
        other.fit.seconds -= out->best.time.step_s - out->simulation.time.step_s;
        sw_cost_model_init(&cost, out->net, out->machine, &other.shape);
        other.additive_s = sw_cost_plan(&cost, &other, NULL);
        rc = sw_planned_add(m, out->machine, &other, NULL, err);
    }

    sw_parallel_plan_fini(&other);
    if (rc != SW_OK || m->count == known)
        return rc;

    struct sw_planned_candidate *c = &m->candidate[known];
    int worker = -1;

    rc = sw_planned_measure(m, c, &worker, err);
    if (rc == SW_OK && worker < 0 && c->plan.time.step_s < out->best.time.step_s) {
        other = out->best;
        out->best = c->plan;
        c->plan = other;
        *taken = true;
    } else {
        sw_parallel_plan_fini(&c->plan);
        m->count--;
    }
    return rc;
}

int sw_planned_improve(struct sw_planned_making *m, struct sw_err *err)
{
    int rc = sw_planned_explain(m->out, m->args, err);

    for (int i = 0; i < IMPROVEMENTS && rc == SW_OK; i++) {
        const int layer = find_faster(m->out);
        bool taken = false;

        if (layer >= 0)
            rc = take_runner_up(m, layer, &taken, err);
        if (rc != SW_OK || !taken)
            break;
        rc = sw_planned_explain(m->out, m->args, err);
    }

    return rc;
}
