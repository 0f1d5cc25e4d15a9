/* [cluster]: number of workers and servers, consistency, and framework. A framework is a row of
 * defaults for the other keys, never another code path. Const tables; any thread. */
#pragma once

#include "base/exchange_mode.h"
#include "exchange/copy_mode.h"
#include "plan/placement.h"
#include "recipe/option.h"

enum sw_framework {
    SW_FRAMEWORK_AUTO,
    SW_FRAMEWORK_SANDBLASTER,
    SW_FRAMEWORK_ALLREDUCE,
    SW_FRAMEWORK_DOWNPOUR,
    SW_FRAMEWORK_HOGWILD,
    SW_FRAMEWORK_CUSTOM,
};

/* Consistency between worker groups. Inside a group everything is synchronous. */
enum sw_consistency {
    SW_CONSISTENCY_AUTO, /* the default of the framework */
    SW_CONSISTENCY_BSP,  /* all groups make every update together */
    SW_CONSISTENCY_SSP, /* every group makes its own updates, at most `staleness` steps ahead of the
                           slowest */
    SW_CONSISTENCY_ASYNC,   /* every group makes its own updates */
    SW_CONSISTENCY_HOGWILD, /* as ASYNC, without servers and locks */
};

enum { SW_MAX_STALENESS = 100, SW_MAX_SERVER_GROUPS = 64 };

/* 0 and _AUTO: not set. */
struct sw_cluster_conf {
    int framework; /* enum sw_framework */
    int64_t worker_groups, workers_per_group, server_groups, servers_per_group, threads_per_worker;
    int consistency;   /* enum sw_consistency */
    int64_t staleness; /* -1: not given */
    int64_t sync_period;
    struct sw_strings sync_topology;
    int64_t warmup_steps;
    int bind_servers;    /* enum sw_bind_choice */
    int copy;            /* enum sw_copy_mode */
    int overlap;         /* enum sw_overlap */
    int comm;            /* enum sw_exchange_mode, for layers without the key */
    int64_t slice_size;  /* parameters */
    int64_t bucket_size; /* bytes */
    int all_reduce;      /* enum sw_all_reduce */
    bool rebalance;      /* distribute the rows of a batch by the workers' measured speed */
    int on_stall;        /* enum sw_on_stall */
    double stall_s;      /* 0: the default of monitor/watchdog.h */
    int devices;         /* devices available to workers, counted by the caller; 0: none */
    int host_count;      /* hosts of the job, counted by the caller; 0: one */
    /* Hosts: names or addresses, this machine first; empty: run/launch.h. */
    struct sw_strings hosts;
    int fabric;        /* enum sw_fabric_choice */
    int network;       /* enum sw_network */
    int64_t bandwidth; /* most bytes per second that a host, or a device, sends; 0: no limit */
    int on_host_loss;  /* enum sw_on_host_loss */
    int64_t restarts;  /* of `run --hosts`, after the loss of a host */
};
enum sw_bind_choice { SW_BIND_AUTO, SW_BIND_YES, SW_BIND_NO };
/* All-reduce back end if no server reduces: the devices' library, or copies between devices. */
enum sw_all_reduce { SW_ALL_REDUCE_AUTO, SW_ALL_REDUCE_LIBRARY, SW_ALL_REDUCE_COPIES };
/* When gradients are exchanged: after each layer's backward, or after the last one. */
enum sw_overlap { SW_OVERLAP_YES, SW_OVERLAP_NO };
/* AUTO warns, and stops the run if the stall lasts. */
enum sw_on_stall { SW_ON_STALL_AUTO, SW_ON_STALL_WARN, SW_ON_STALL_STOP };
enum sw_fabric_choice { SW_FABRIC_CHOICE_AUTO, SW_FABRIC_CHOICE_TCP, SW_FABRIC_CHOICE_MPI };
enum sw_network { SW_NETWORK_PRIVATE, SW_NETWORK_TRUSTED };
enum sw_on_host_loss { SW_ON_HOST_LOSS_SAVE, SW_ON_HOST_LOSS_STOP, SW_ON_HOST_LOSS_GO_ON };

extern const struct sw_opt sw_cluster_opts[];

/* How worker groups are synchronized. */
struct sw_cluster_sync {
    enum sw_consistency consistency; /* never _AUTO */
    int64_t staleness;               /* -1: no bound */
    int64_t sync_period;             /* steps between exchanges of server groups */
    int64_t warmup_steps;            /* that the first group trains alone; 0 under BSP */
};

struct sw_framework_choice {
    const char *name;
    char reason[256];
    char warning[192]; /* "": none */
};
/* Computes the cluster shape for the settings on this machine, and the framework with a reason.
 * Default: allreduce with one worker per NUMA node. Errors: SW_ERR_INVALID (an invalid combination;
 * *key names the key at fault). */
int sw_cluster_shape(const struct sw_cluster_conf *conf, const struct sw_machine *m,
                     struct sw_cluster_shape *shape, struct sw_framework_choice *framework,
                     const char **key, struct sw_err *err) SW_MUST_CHECK;
/* Computes how worker groups are synchronized; a staleness of 0 means BSP. Errors: SW_ERR_INVALID
 * (an invalid combination; *key names the key at fault). */
int sw_cluster_sync(const struct sw_cluster_conf *conf, struct sw_cluster_sync *sync,
                    const char **key, struct sw_err *err) SW_MUST_CHECK;

/* Does each server run on the cores of a worker? choice: enum sw_bind_choice. */
bool sw_framework_binds(enum sw_framework framework, int choice);
/* The values of the keys. */
const char *sw_framework_name(enum sw_framework framework);
const char *sw_consistency_name(enum sw_consistency consistency);
const char *sw_copy_mode_name(enum sw_copy_mode mode);

/* Writes the options that limit a command line to at most `most` workers (1 or more) into out, of
 * at least 128 bytes; returns out. */
const char *sw_cluster_advice(const struct sw_cluster_conf *conf,
                              const struct sw_cluster_shape *shape, int most, char *out,
                              size_t bytes);

/* Computes which server groups exchange with each other: neighbours[i * server_groups + j],
 * symmetric. Errors: SW_ERR_INVALID (neither a name nor a list of valid pairs). */
int sw_cluster_neighbours(const struct sw_cluster_conf *conf, int server_groups, bool *neighbours,
                          struct sw_err *err) SW_MUST_CHECK;
