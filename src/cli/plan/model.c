/* Opens the job of a recipe as a model, with the models of its net and of the machine for which it
 * is planned. The contract is in cli/plan/model.h. */
#include "cli/plan/model_private.h"

int sw_plan_model_open(struct sw_plan_model *m, const struct sw_cli_common *common,
                       const struct sw_job_options *job, const struct sw_plan_target *target,
                       struct sw_err *err)
{
    struct sw_trainer *t = &m->trainer;

    m->job = *job;
    m->is_imagined = sw_plan_is_imagined(target);

    int rc = sw_trainer_init(t, common, err);
    m->ready = true;
    if (rc != SW_OK)
        return rc;

    if (sw_plan_is_foreign(target))
        m->job.device = sw_driver_host()->name;
    rc = sw_planning_open(&m->job, t->log, &t->job, &t->messages, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_planning_net(t->job, &m->net, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_plan_constraints_read(sw_job_recipe(t->job), m->net, &m->constraints, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_plan_open_machines(m, job->device, target, err);
    return rc == SW_OK ? sw_plan_add_times(m, target, err) : rc;
}

void sw_plan_model_fini(struct sw_plan_model *m)
{
    for (int i = 0; i < m->machines; i++)
        sw_machine_model_free(m->machine[i]);
    sw_plan_constraints_fini(&m->constraints);
    sw_planning_net_free(m->net);
    sw_peer_links_free(m->peer_links);
    sw_machine_free(m->map);
    if (m->ready)
        sw_trainer_fini(&m->trainer);
    *m = (struct sw_plan_model){0};
}
