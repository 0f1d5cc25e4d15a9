/* Measured times of layers: those of a run, or stored ones of this machine. The contract is in
 * cli/plan/model_private.h. */
#include "cli/plan/model_private.h"

#include <stdio.h>
#include <string.h>

/* Can samples of the net say anything about the devices, which are all alike? */
static bool has_use_of_samples(const struct sw_plan_model *m)
{
    const struct sw_device_model *d = &m->machine[0]->device[0];

    for (int i = 0; i < m->net->count; i++)
        for (int k = 0; k < m->net->layer[i].sample_count; k++)
            if (d->host_memory == (m->net->layer[i].samples[k].threads > 0))
                return true;
    return false;
}

static void warn_of_times(struct sw_plan_model *m, const char *why)
{
    sw_cli_message("warning: %s; they are predicted from the work of each layer", why);
    m->times[0] = '\0';
}

/* The model of this machine with so many workers alone. */
static int build_here(const struct sw_plan_model *m, int workers, int threads,
                      struct sw_machine_model **out, struct sw_err *err)
{
    struct sw_given_figures given = *m->args.given;
    struct sw_machine_args here = m->args;

    given.hosts.value = given.server_hosts.value = 0;
    here.given = &given;
    here.workers = workers;
    here.threads = threads;
    here.hosts = 0;
    return sw_machine_build(&here, out, err);
}

/* The newest samples are those of a run: adds what its steps took beside its layers, if its workers
 * can be told from the models of this machine. */
static int add_rest_of_run(struct sw_plan_model *m, struct sw_planning_measurement *how,
                           double step_s, struct sw_err *err)
{
    const struct sw_layer_model *l = &m->net->layer[0];
    const int threads = l->sample_count > 0 ? l->samples[l->sample_count - 1].threads : -1;
    struct sw_machine_model *here = NULL;
    struct sw_err ignored; /* it has no place for them */
    int rc = SW_OK;

    if (threads < 0 || build_here(m, how->workers, threads, &here, &ignored) != SW_OK)
        return SW_OK;

    how->machine = here;
    if (here->device_count == how->workers && here->device[0].threads == threads)
        rc = sw_planning_add_rest(m->net, how, step_s, err);
    sw_machine_model_free(here);
    return rc;
}

/* Those of a run; without them plans are still predicted. */
static int add_times_of_run(struct sw_plan_model *m, const struct sw_plan_target *t,
                            struct sw_err *err)
{
    struct sw_planning_measurement how = {.no_overlap = m->constraints.no_overlap,
                                          .bandwidth = m->constraints.bandwidth};
    double step_s;
    char why[128];

    int rc =
        sw_planning_times_of_run(m->net, t->reader, t->run, m->times, &how.workers, &step_s, err);
    if (rc == SW_OK && step_s > 0 && !sw_plan_is_foreign(t))
        rc = add_rest_of_run(m, &how, step_s, err);
    if (rc == SW_ERR_UNSUPPORTED) {
        warn_of_times(m, err->text);
        return SW_OK;
    }

    if (rc == SW_OK && !has_use_of_samples(m)) {
        const bool cores = m->machine[0]->device[0].host_memory;

        snprintf(why, sizeof why, "run %lld measured its layers on %s, and the plan is for %s",
                 (long long)t->run->id, cores ? "a device" : "cores", cores ? "cores" : "devices");
        warn_of_times(m, why);
    }
    return rc;
}

/* Steps with whole gradients, which all nets have, and steps of other kinds. */
static int add_measured(struct sw_plan_model *m, struct sw_planning_measurement *how,
                        struct sw_err *err)
{
    struct sw_machine_model *here = NULL;
    char source[64] = "";

    int rc = build_here(m, how->workers, how->threads, &here, err);
    how->machine = here;
    how->kind = SW_STEP_GRADIENTS;
    if (rc == SW_OK)
        rc = sw_planning_measure(m->net, how, source, err);

    if (rc == SW_OK && source[0]) {
        memcpy(m->times, source, sizeof source);
        for (int k = SW_STEP_GRADIENTS + 1; k < SW_STEP_KINDS && rc == SW_OK && how->workers > 1;
             k++) {
            how->kind = (enum sw_step_kind)k;
            rc = sw_planning_measure(m->net, how, source, err);
        }
    }

    sw_machine_model_free(here);
    return rc;
}

int sw_plan_add_times(struct sw_plan_model *m, const struct sw_plan_target *t, struct sw_err *err)
{
    struct sw_planning_measurement how = {.options = &m->job,
                                          .log = m->trainer.log,
                                          .workers = 1,
                                          .again = t->measure,
                                          .stored_only = !t->measure,
                                          .no_overlap = m->constraints.no_overlap,
                                          .bandwidth = m->constraints.bandwidth};
    const int most = m->constraints.limits.most_workers, hosts = m->machine[0]->hosts;
    int rc = SW_OK;

    if (t->given.flops_per_s.value > 0 || t->given.memory_bytes_per_s.value > 0) {
        if (t->run)
            sw_cli_message("warning: the times that run %lld measured are not used, because %s is "
                           "given",
                           (long long)t->run->id,
                           t->given.flops_per_s.value > 0 ? "--gflops" : "--memory-rate");
        return SW_OK; /* measured times would replace the figure */
    }

    if (t->run)
        return add_times_of_run(m, t, err);
    if (sw_plan_is_foreign(t))
        return SW_OK;

    for (int i = 0; i < m->machines && rc == SW_OK; i++) {
        how.workers = m->machine[i]->device_count / hosts;
        how.threads = m->machine[i]->threads_per_worker;
        if (most > 0 && how.workers > most)
            how.workers = most;
        if (how.workers <= m->net->batch) /* others cannot share it */
            rc = add_measured(m, &how, err);
    }

    return rc;
}
