/* Reads which part of a parallel plan a recipe has decided. The contract is in
 * cli/plan/constraints.h. */
#include "cli/plan/constraints.h"

#include "recipe/job.h"

static void read_cluster(const struct sw_section *s, struct sw_plan_constraints *out)
{
    const struct sw_cluster_conf *c = s->common;
    struct sw_search_limits *l = &out->limits;

    l->groups = (int)c->worker_groups;
    l->group_size = (int)c->workers_per_group;
    l->servers = (int)c->servers_per_group;
    l->framework = (enum sw_framework)c->framework;
    l->consistency = (enum sw_consistency)c->consistency;
    l->staleness = c->staleness;
    l->net_comm = sw_section_is_set(s, "comm") ? (enum sw_exchange_mode)c->comm : SW_EXCHANGE_AUTO;

    out->threads = (int)c->threads_per_worker;
    out->no_overlap = c->overlap == SW_OVERLAP_NO;
    out->copy = c->copy;
    out->bandwidth = (double)c->bandwidth;
}

/* [job] partition applies where a layer can be partitioned like that, as in a run. */
static void apply_default(enum sw_partition p, const struct sw_net_model *net, int workers,
                          int *partition)
{
    for (int i = 0; i < net->count; i++)
        if (partition[i] < 0)
            partition[i] = net->layer[i].is_input || net->refuses(net, i, p, workers)
                               ? SW_PARTITION_ROWS
                               : (int)p;
}

int sw_plan_constraints_read(const struct sw_recipe *recipe, const struct sw_net_model *net,
                             struct sw_plan_constraints *out, struct sw_err *err)
{
    const struct sw_section *job = sw_recipe_find(recipe, "job", NULL);
    const struct sw_job_conf *conf = job->common;

    *out = (struct sw_plan_constraints){0};

    int rc = sw_planning_keys(net, &out->keys, err);
    if (rc != SW_OK)
        return rc;

    read_cluster(sw_recipe_find(recipe, "cluster", NULL), out);
    if (sw_section_is_set(job, "memory"))
        out->limits.budget_bytes = conf->memory_bytes > 0 ? conf->memory_bytes : -1;
    if (sw_section_is_set(job, "partition") && !conf->auto_partition)
        apply_default((enum sw_partition)conf->partition, net,
                      out->limits.group_size > 1 ? out->limits.group_size : 2, out->keys.partition);

    out->limits.partition = out->keys.partition;
    out->limits.location = out->keys.location;
    out->limits.comm = out->keys.comm;
    return SW_OK;
}

void sw_plan_constraints_fini(struct sw_plan_constraints *c)
{
    sw_planning_keys_fini(&c->keys);
    *c = (struct sw_plan_constraints){0};
}
