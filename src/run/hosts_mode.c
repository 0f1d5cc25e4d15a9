/* Calls the functions of a job's mode, and has what both modes and their users need. Calls nothing
 * of the other files about hosts. */
#include "run/hosts_mode.h"

#include "run/job_private.h"
#include "worker/worker.h"

const struct sw_hosts_mode *sw_hosts_mode_of(const struct sw_job *job)
{
    return job->topology->is_async ? &sw_hosts_async : &sw_hosts_sync;
}

static bool is_alone(const struct sw_job *job)
{
    return job->topology->hosts == 1;
}

void sw_job_hosts_set_table(struct sw_job *job, struct sw_table_args *args)
{
    if (!is_alone(job))
        sw_hosts_mode_of(job)->set_table(job, args);
}

void sw_job_hosts_set_sync(struct sw_job *job, struct sw_sync_args *args)
{
    if (!is_alone(job) && sw_hosts_mode_of(job)->set_sync)
        sw_hosts_mode_of(job)->set_sync(job, args);
}

int sw_job_hosts_sum(struct sw_job *job, double *values, int count, struct sw_err *err)
{
    return sw_hosts_mode_of(job)->sum(job, SW_GROUP_EVALUATIONS, values, count, err);
}

int sw_job_hosts_end(struct sw_job *job, int rc, struct sw_err *err)
{
    return !is_alone(job) && sw_hosts_mode_of(job)->end ? sw_hosts_mode_of(job)->end(job, rc, err)
                                                        : rc;
}

bool sw_job_hosts_return(const struct sw_job *job)
{
    const struct sw_cluster_conf *c = sw_recipe_find(job->recipe, "cluster", NULL)->common;

    return !is_alone(job) && job->topology->devices == 0 && !job->topology->is_async &&
           c->on_host_loss == SW_ON_HOST_LOSS_SAVE;
}

void sw_job_hosts_keep_devices(struct sw_job *job)
{
    const struct sw_cluster_conf *c = sw_recipe_find(job->recipe, "cluster", NULL)->common;

    for (int i = 0; i < job->topology->workers; i++)
        job->workers[i].shared.returns = c->on_host_loss == SW_ON_HOST_LOSS_SAVE;
}

int sw_hosts_note(struct sw_job *job, int rc, const struct sw_err *err)
{
    if (rc != SW_OK)
        sw_fault_set(&job->fault, "hosts", err);
    return rc;
}

int sw_hosts_requests(int bits)
{
    return bits & SW_JOB_RELEASE ? (bits & ~SW_JOB_RELEASE) | SW_JOB_PAUSE : bits;
}

void sw_hosts_vote(int bits, double votes[SW_HOSTS_VOTES])
{
    for (int i = 0; i < SW_HOSTS_VOTES; i++)
        votes[i] = bits >> i & 1;
}

int sw_hosts_voted(const double votes[SW_HOSTS_VOTES])
{
    int bits = 0;

    for (int i = 0; i < SW_HOSTS_VOTES; i++)
        bits |= (votes[i] > 0) << i;
    return bits;
}
