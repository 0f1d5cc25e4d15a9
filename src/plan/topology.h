/* Topology of a job: which workers share a batch, which gradients are reduced to one update, which
 * parameter replica a worker uses, and how a batch is split into microbatches. The placement has
 * cores and devices.
 *
 * - Synchronous: all workers are at the same step and make one update group, whatever the number of
 *   worker groups says.
 * - Asynchronous (is_async: async, ssp, hogwild): every worker group trains on batches of its own
 *   and is an update group. Batch n of group g is global batch n * groups + g. Randomness is a
 *   function of the batch, so the data position follows from the step, and a resume needs no more.
 *   In the first warmup_steps all groups but the first rest, and the batches of the first follow
 *   one another.
 * - Synchronous with split layers (splits_layers): every worker group has its rows of one batch and
 *   splits the net over its workers; activations move inside the group. All groups make one update
 *   group: of a part of a parameter that one worker of a group owns, the workers of the same rank
 *   in all groups are the contributors.
 *
 * Several hosts (exchange/hosts/) have the same topology. In a synchronous job each has its own
 * rows of every batch, and shares them among its workers as above. Asynchronous worker groups of
 * all hosts are numbered in the order of hosts, and take batches in turn as above; the rows of an
 * evaluation batch are shared by the hosts.
 *
 * Made once out of the shape and the synchronization, then frozen for the life of a stage: any
 * thread reads it. Which rows a microbatch has is not here, because rebalancing moves them: see
 * plan/row_split.h. */
#pragma once

#include "plan/conf.h"

enum { SW_SPLIT_TRAIN, SW_SPLIT_EVAL, SW_SPLITS };

/* A worker's position. */
struct sw_rank {
    int global_rank;
    int group, rank;                    /* worker group, and the rank in it */
    int server_group, table_rank;       /* the parameter replica that it uses, and its rank there */
    int update_group;                   /* workers whose gradients are reduced to one update */
    int first_microbatch, microbatches; /* of its worker group's batch */
    int device; /* index among the job's devices; -1: it computes in host memory */
};

struct sw_server_place {
    int global_rank;
    int server_group, server_rank;
};

/* A complete replica of the parameters: its workers and servers have consecutive global ranks. */
struct sw_server_group_place {
    int first_worker, workers;
    int first_server;
};

struct sw_topology {
    int workers, servers, devices; /* of this host */
    int hosts, host;               /* number of hosts, and this one's */
    /* On several hosts: the servers of host 0 have the parameters, and the groups of the others
     * send them gradients; else every host has a server group. */
    bool servers_on_first_host;
    /* A worker group shares the rows of a batch, or of its part of one, and its workers are at the
     * same step. Groups that update together are one, unless each splits the net for itself. */
    int worker_groups, group_size;
    int update_groups, update_group_size;
    /* Update groups of all hosts, and the number of this host's first one among them. Synchronous
     * hosts make one update group. */
    int all_update_groups, first_update_group;
    int update_hosts; /* hosts whose gradients are reduced to one update: all, or 1 */
    int server_groups, servers_per_group;
    bool binds_servers;       /* each server runs on the cores of a worker */
    int microbatches;         /* per worker group */
    int leaves;               /* of the reduction tree over an update group; 0: one per worker */
    int64_t batch[SW_SPLITS]; /* rows of a training and of an evaluation batch, of all hosts */
    enum sw_consistency consistency;
    bool is_async;      /* worker groups do not update together, even if there is only one */
    bool splits_layers; /* synchronous worker groups share a batch, and each splits the net */
    int64_t staleness;  /* steps; -1: no bound */
    int64_t sync_period, warmup_steps;                /* see struct sw_cluster_sync */
    const struct sw_rank *rank;                       /* owned [workers] */
    const struct sw_server_place *server;             /* owned [servers] */
    const struct sw_server_group_place *server_group; /* owned [server_groups] */
};

struct sw_topology_args {
    const struct sw_cluster_shape *shape;
    const struct sw_cluster_sync *sync;
    int hosts, host; /* hosts 0: one */
    int64_t batch[SW_SPLITS];
    int64_t virtual_workers; /* microbatches of a batch that all workers share; 0: one per worker */
    bool splits_layers;      /* some layers are not split by rows */
};

/* Computes the topology of a job. Errors: SW_ERR_NOMEM. Free with sw_topology_free. */
int sw_topology_new(const struct sw_topology_args *args, struct sw_topology **out,
                    struct sw_err *err) SW_MUST_CHECK;
void sw_topology_free(struct sw_topology *t); /* NULL is accepted */

/* Batches that all worker groups together have trained on after `step` steps. With asynchronous
 * groups a step is one batch and one update of each group that does not rest. */
int64_t sw_topology_batches(const struct sw_topology *t, int64_t step);
int64_t sw_topology_samples(const struct sw_topology *t, int64_t step);
/* Worker groups that take the batches of a split in turn, and the number of a group of this host
 * among them. In an evaluation all groups of the host do; in training only asynchronous ones, of
 * all hosts. */
int sw_topology_turns(const struct sw_topology *t, int split);
int sw_topology_turn(const struct sw_topology *t, int group, int split);
/* The smallest number of steps that trains that many batches. */
int64_t sw_topology_steps(const struct sw_topology *t, int64_t batches);
/* Does the worker group of this host rest in that step? In warmup steps only the first group of the
 * first host trains. */
bool sw_topology_sleeps(const struct sw_topology *t, int group, int64_t step);
/* Steps of a worker group after that many steps of the job. */
int64_t sw_topology_group_steps(const struct sw_topology *t, int group, int64_t step);
/* The rows of a batch that this host has: asynchronous groups have whole training batches. */
void sw_topology_host_rows(const struct sw_topology *t, int split, int64_t *first, int64_t *rows);
/* The rows of a batch that a worker group has: all of the host's, or its part of a training batch
 * if groups split layers. */
void sw_topology_group_rows(const struct sw_topology *t, int group, int split, int64_t *first,
                            int64_t *rows);
