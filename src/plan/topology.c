/* Makes the topology out of the shape, the synchronization of worker groups and the batch, and
 * answers queries about it: batches per step, resting groups, rows of groups. */
#include "plan/topology.h"

#include "base/os.h"
#include "base/tree.h"

static int microbatches_of(const struct sw_topology *t, const struct sw_topology_args *a,
                           int workers)
{
    int64_t most = a->batch[SW_SPLIT_TRAIN] < a->batch[SW_SPLIT_EVAL] ? a->batch[SW_SPLIT_TRAIN]
                                                                      : a->batch[SW_SPLIT_EVAL];

    if (a->virtual_workers == 0)
        return workers;
    return (int)((a->virtual_workers < most ? a->virtual_workers : most) /
                 (t->is_async ? 1 : t->hosts));
}

/* Synchronous groups are merged into one that shares every batch, unless each splits the net. */
static void count_groups(struct sw_topology *t, const struct sw_topology_args *a)
{
    const struct sw_cluster_shape *shape = a->shape;

    t->hosts = a->hosts > 0 ? a->hosts : 1;
    t->host = a->host;
    for (int split = 0; split < SW_SPLITS; split++)
        t->batch[split] = a->batch[split];

    t->workers = shape->worker_groups * shape->workers_per_group;
    t->consistency = a->sync->consistency;
    t->is_async = t->consistency != SW_CONSISTENCY_BSP;
    t->splits_layers = !t->is_async && shape->worker_groups > 1 && a->splits_layers;
    t->worker_groups = t->is_async || t->splits_layers ? shape->worker_groups : 1;
    t->group_size = t->workers / t->worker_groups;
    t->update_groups = t->is_async ? t->worker_groups : 1;
    t->update_group_size = t->workers / t->update_groups;
    t->all_update_groups = t->is_async ? t->hosts * t->update_groups : t->update_groups;
    t->update_hosts = t->is_async ? 1 : t->hosts;
    t->first_update_group = t->is_async ? t->host * t->update_groups : 0;

    t->server_groups = shape->server_groups;
    t->servers_per_group = shape->servers_per_group;
    t->servers = shape->server_groups * shape->servers_per_group;
    t->binds_servers = shape->bind_servers;

    t->staleness = a->sync->staleness;
    t->sync_period = a->sync->sync_period;
    t->warmup_steps = t->all_update_groups > 1 ? a->sync->warmup_steps : 0;
    t->servers_on_first_host = t->is_async && t->hosts > 1 && !shape->server_group_each_host;
}

static void count_microbatches(struct sw_topology *t, const struct sw_topology_args *a)
{
    t->microbatches = microbatches_of(t, a, t->group_size);
    t->leaves = a->virtual_workers > 0 ? t->microbatches : 0;
}

static void rank_workers(struct sw_topology *t, const struct sw_cluster_shape *shape,
                         struct sw_rank *ranks, struct sw_server_group_place *groups)
{
    for (int i = 0; i < t->workers; i++) {
        int own = sw_cluster_server_group(shape, i / shape->workers_per_group);
        struct sw_server_group_place *copy = &groups[own];
        int64_t first, count;

        if (copy->workers++ == 0)
            copy->first_worker = i;
        ranks[i] = (struct sw_rank){
            .global_rank = i,
            .group = i / t->group_size,
            .rank = i % t->group_size,
            .server_group = own,
            .table_rank = i - copy->first_worker,
            .update_group = i / t->update_group_size,
            .device = -1,
        };
        sw_part(t->microbatches, t->group_size, ranks[i].rank, &first, &count);
        ranks[i].first_microbatch = (int)first;
        ranks[i].microbatches = (int)count;
        if (shape->driver && (shape->device_workers == 0 || i < shape->device_workers))
            ranks[i].device = t->devices++;
    }
}

static void rank_servers(struct sw_topology *t, struct sw_server_place *servers,
                         struct sw_server_group_place *groups)
{
    for (int g = 0; g < t->server_groups; g++)
        groups[g].first_server = g * t->servers_per_group;

    for (int i = 0; i < t->servers; i++)
        servers[i] = (struct sw_server_place){.global_rank = i,
                                              .server_group = i / t->servers_per_group,
                                              .server_rank = i % t->servers_per_group};
}

int sw_topology_new(const struct sw_topology_args *args, struct sw_topology **out,
                    struct sw_err *err)
{
    struct sw_topology *t = sw_calloc(1, sizeof *t);
    if (!t)
        return sw_err_nomem(err, "the topology", sizeof *t);

    count_groups(t, args);
    count_microbatches(t, args);

    struct sw_rank *ranks = sw_calloc((size_t)t->workers, sizeof *ranks);
    struct sw_server_place *servers = sw_calloc((size_t)t->servers, sizeof *servers);
    struct sw_server_group_place *groups = sw_calloc((size_t)t->server_groups, sizeof *groups);
    t->rank = ranks;
    t->server = servers;
    t->server_group = groups;
    if (!ranks || !servers || !groups) {
        const size_t bytes = (size_t)t->workers * sizeof *ranks;
        sw_topology_free(t);
        return sw_err_nomem(err, "the topology", bytes);
    }

    rank_workers(t, args->shape, ranks, groups);
    rank_servers(t, servers, groups);
    *out = t;

    return SW_OK;
}

void sw_topology_free(struct sw_topology *t)
{
    if (!t)
        return;

    sw_free((void *)t->rank);
    sw_free((void *)t->server);
    sw_free((void *)t->server_group);
    sw_free(t);
}

int64_t sw_topology_batches(const struct sw_topology *t, int64_t step)
{
    int64_t alone = step < t->warmup_steps ? step : t->warmup_steps;

    return alone + (step - alone) * t->all_update_groups;
}

int64_t sw_topology_samples(const struct sw_topology *t, int64_t step)
{
    return sw_topology_batches(t, step) * t->batch[SW_SPLIT_TRAIN];
}

int sw_topology_turns(const struct sw_topology *t, int split)
{
    return split == SW_SPLIT_EVAL ? t->worker_groups : t->all_update_groups;
}

int sw_topology_turn(const struct sw_topology *t, int group, int split)
{
    if (split == SW_SPLIT_EVAL)
        return group;
    return t->is_async ? t->first_update_group + group : 0;
}

int64_t sw_topology_steps(const struct sw_topology *t, int64_t batches)
{
    int64_t alone = batches < t->warmup_steps ? batches : t->warmup_steps;
    int64_t shared = batches - alone;

    return alone + shared / t->all_update_groups + (shared % t->all_update_groups != 0);
}

bool sw_topology_sleeps(const struct sw_topology *t, int group, int64_t step)
{
    return t->first_update_group + group > 0 && step <= t->warmup_steps;
}

int64_t sw_topology_group_steps(const struct sw_topology *t, int group, int64_t step)
{
    const bool rests = t->first_update_group + group > 0;
    int64_t rested = !rests ? 0 : step < t->warmup_steps ? step : t->warmup_steps;

    return step - rested;
}

void sw_topology_host_rows(const struct sw_topology *t, int split, int64_t *first, int64_t *rows)
{
    *first = 0;
    *rows = t->batch[split];
    if (!t->is_async || split != SW_SPLIT_TRAIN)
        sw_part(t->batch[split], t->hosts, t->host, first, rows);
}

void sw_topology_group_rows(const struct sw_topology *t, int group, int split, int64_t *first,
                            int64_t *rows)
{
    int64_t host_first, host_rows;

    sw_topology_host_rows(t, split, &host_first, &host_rows);
    *first = host_first;
    *rows = host_rows;
    if (!t->splits_layers || split != SW_SPLIT_TRAIN)
        return;

    sw_part(host_rows, t->worker_groups, group, first, rows);
    *first += host_first;
}
