/* Predicts the step of a job: fixes everything that a plan could choose to what the job has. The
 * contract is in cli/plan/predict.h. */
#include "cli/plan/predict.h"

#include "base/str.h"

/* The exchange mode that the job has chosen for a layer; -1: none. */
static int mode_of(const struct sw_job_plan *plan, const char *layer)
{
    for (int i = 0; i < plan->layer_count; i++) {
        const struct sw_job_layer *l = &plan->layers[i];

        for (int m = 0; m < SW_EXCHANGE_MODES && l->comm.mode && sw_str_eq(l->name, layer); m++)
            if (sw_str_eq(l->comm.mode, sw_exchange_mode_names[m]))
                return m;
    }

    return -1;
}

/* Leaves nothing to be searched. */
static void fix_choices(struct sw_plan_model *m, const struct sw_job_plan *plan)
{
    struct sw_plan_constraints *c = &m->constraints;

    for (int i = 0; i < m->net->count; i++) {
        const int mode = mode_of(plan, m->net->layer[i].name);

        if (c->keys.partition[i] < 0)
            c->keys.partition[i] = SW_PARTITION_ROWS;
        if (mode >= 0)
            c->keys.comm[i] = mode;
    }

    c->limits.group_size = plan->group_size;
    c->limits.groups = plan->placement->worker_count / plan->group_size;
    c->limits.net_comm = SW_EXCHANGE_PS;
    for (int f = SW_FRAMEWORK_SANDBLASTER; f <= SW_FRAMEWORK_CUSTOM; f++)
        if (sw_str_eq(plan->framework, sw_framework_name((enum sw_framework)f)))
            c->limits.framework = (enum sw_framework)f;
}

double sw_plan_predict(const struct sw_cli_common *common, const struct sw_job_options *options,
                       const struct sw_job *job)
{
    const struct sw_job_plan *plan = sw_job_plan(job);
    const struct sw_plan_target target = {.workers = plan->placement->worker_count,
                                          .stored_only = true};
    struct sw_plan_model m = {0};
    struct sw_planned planned = {0};
    struct sw_err ignored; /* the job itself is fine */

    int rc = sw_plan_model_open(&m, common, options, &target, &ignored);
    if (rc == SW_OK) {
        fix_choices(&m, plan);

        const struct sw_planned_args args = {.net = m.net,
                                             .machine = m.machine,
                                             .machines = m.machines,
                                             .limits = &m.constraints.limits,
                                             .simulated = 1,
                                             .no_overlap = m.constraints.no_overlap,
                                             .bandwidth = m.constraints.bandwidth};
        rc = sw_planned_find(&args, &planned, &ignored);
    }

    const double seconds = rc == SW_OK ? planned.best.time.step_s : 0;
    sw_planned_fini(&planned);
    sw_plan_model_fini(&m);
    return seconds;
}
