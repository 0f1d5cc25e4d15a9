/* Hosts in step: sums of gradients behind the parameter table, and sums of losses and requests. */
#include "run/hosts_mode.h"
#include "run/job_private.h"

static void set_table(struct sw_job *job, struct sw_table_args *args)
{
    args->outer = sw_table_sums_outer(&job->hosts.sums);
}

static int init(struct sw_job *job, int small_most, struct sw_err *err)
{
    const struct sw_table_sums_args args = {.table = job->params.table,
                                            .hosts = job->options.hosts->list,
                                            .before = (uint64_t)job->span.first_step,
                                            .small_most = small_most,
                                            .fault = &job->fault};
    return sw_table_sums_init(&job->hosts.sums, &args, err);
}

static void receive(struct sw_job *job, struct sw_fabric_router *router)
{
    sw_table_sums_receive(&job->hosts.sums, router);
}

static int room(const struct sw_job *job)
{
    return sw_table_sums_room(&job->hosts.sums);
}

static int start(struct sw_job *job, struct sw_err *err)
{
    sw_table_sums_start(&job->hosts.sums, job->hosts.fabric);

    /* The fabric stays open after a fault: the others are told about it, or asked how far they
     * are. */
    return sw_fault_attach(&job->fault, sw_hosts_sum_close_v, job->hosts.sums.sum, err);
}

static void fini(struct sw_job *job)
{
    if (job->hosts.sums.sum)
        sw_fault_detach(&job->fault, job->hosts.sums.sum);
    sw_table_sums_fini(&job->hosts.sums);
    job->hosts.asked = false;
}

static int sum(struct sw_job *job, enum sw_group_channel channel, double *values, int count,
               struct sw_err *err)
{
    return sw_hosts_sum_small(job->hosts.sums.sum,
                              channel == SW_GROUP_PASSES ? SW_HOSTS_PASSES : SW_HOSTS_RESULTS,
                              values, count, err);
}

static uint64_t counted(const struct sw_job *job)
{
    return UINT64_MAX;
}

/* Requests are those of the previous call, so that nobody waits for the slowest host. */
static int agree(struct sw_job *job, int64_t step, int own)
{
    struct sw_hosts_sum *s = job->hosts.sums.sum;
    struct sw_err err;
    double votes[SW_HOSTS_VOTES] = {0};
    int all = 0, rc = SW_OK;

    if (job->hosts.asked)
        rc = sw_hosts_small_take(s, SW_HOSTS_REQUESTS, votes, SW_HOSTS_VOTES, &err);
    if (rc == SW_OK)
        all = sw_hosts_voted(votes);

    sw_hosts_vote(own, votes);
    if (rc == SW_OK)
        rc = sw_hosts_small_give(s, SW_HOSTS_REQUESTS, votes, SW_HOSTS_VOTES, &err);
    job->hosts.asked = sw_hosts_note(job, rc, &err) == SW_OK;

    return sw_hosts_requests(all);
}

const struct sw_hosts_mode sw_hosts_sync = {.set_table = set_table,
                                            .init = init,
                                            .receive = receive,
                                            .room = room,
                                            .start = start,
                                            .fini = fini,
                                            .sum = sum,
                                            .counted = counted,
                                            .agree = agree};
