/* What a step takes beside its layers: a measured step less the simulation of the same plan. It is
 * a part of its own (planner/net_model.h), so that no exchange hides it. */
#include "base/os.h"
#include "planner/simulate.h"
#include "run/planning_private.h"
#include <math.h>

static bool has_factors(const struct sw_net_model *m, const struct sw_layer_model *l)
{
    return l->steps > 0 && l->params > 0 && l->has_backward && !m->controls_updates;
}

int sw_planning_plan(struct sw_net_model *m, const struct sw_planning_measurement *how,
                     struct sw_parallel_plan *out, struct sw_err *err)
{
    const struct sw_plan_shape shape = {.framework = SW_FRAMEWORK_ALLREDUCE,
                                        .consistency = SW_CONSISTENCY_BSP,
                                        .staleness = -1,
                                        .groups = 1,
                                        .group_size = how->workers,
                                        .servers = how->workers,
                                        .threads = how->threads};
    int special = 0;

    int rc = sw_parallel_plan_init(out, &shape, m->count, err); /* rows and ps */
    if (rc != SW_OK || how->kind == SW_STEP_GRADIENTS)
        return rc;

    for (int i = 0; i < m->count && how->workers > 1; i++) {
        const struct sw_layer_model *l = &m->layer[i];

        if (how->kind == SW_STEP_FACTORS && has_factors(m, l))
            out->choice[i].comm = SW_EXCHANGE_SFB;
        else if (how->kind == SW_STEP_MOVES && !l->is_input &&
                 !m->refuses(m, i, SW_PARTITION_COLUMNS, how->workers))
            out->choice[i].partition = SW_PARTITION_COLUMNS;
        else
            continue;
        special++;
    }

    return special > 0 ? SW_OK
                       : sw_err_set(err, SW_ERR_UNSUPPORTED,
                                    "no layer can be split or exchanged in that way");
}

static int simulate(struct sw_net_model *m, const struct sw_planning_measurement *how,
                    const struct sw_parallel_plan *p, double *step_s, int *moves,
                    struct sw_err *err)
{
    struct sw_net_model without = *m; /* the rest of other steps */
    const struct sw_simulation_args args = {.net = &without,
                                            .machine = how->machine,
                                            .plan = p,
                                            .no_overlap = how->no_overlap,
                                            .bandwidth = how->bandwidth,
                                            .lost_host = -1};
    struct sw_simulation s = {0};

    without.rest_count = 0;
    int rc = sw_simulate(&args, &s, err);
    *step_s = s.time.step_s;
    *moves = s.moves;
    sw_simulation_fini(&s);
    return rc;
}

static int add(struct sw_net_model *m, const struct sw_rest_sample *r, struct sw_err *err)
{
    struct sw_planning_net *p = sw_planning_of(m);
    struct sw_rest_sample *to = sw_array_add(&p->rest, &m->rest_count, sizeof *to);
    if (!to)
        return sw_err_nomem(err, "times of steps", sizeof *to);

    *to = *r;
    m->rest = p->rest;
    return SW_OK;
}

int sw_planning_add_rest(struct sw_net_model *m, const struct sw_planning_measurement *how,
                         double step_s, struct sw_err *err)
{
    struct sw_parallel_plan p = {0};
    struct sw_rest_sample r = {
        .workers = how->workers, .threads = how->machine->device[0].threads, .kind = how->kind};
    double simulated_s;

    int rc = sw_planning_plan(m, how, &p, err);
    if (rc == SW_OK)
        rc = simulate(m, how, &p, &simulated_s, &r.moves, err);
    if (rc == SW_OK) {
        r.seconds = fmax(step_s - simulated_s, 0);
        rc = add(m, &r, err);
    }
    sw_parallel_plan_fini(&p);

    return rc;
}
